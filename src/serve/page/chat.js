// Chatting: the list of chats, the messages of one, and the answer that streams in.

import { render } from "/markdown.js";
import { chats, headers, newChat, removeChat, requestFields, saveChat, settings } from "/store.js";

const $ = (id) => document.getElementById(id);
const REDRAW_MS = 60;
const BEGINNINGS = ["Tell me a story about a dog.", "Write a list of five fruits.",
  "Explain how rain is made."];

let chat = newChat();
let model = null;
let running = null; // the AbortController of the answer under way

export function setModel(found) {
  model = found;
  if (chat.messages.length === 0) drawMessages();
}

function button(label, title, action) {
  const b = document.createElement("button");
  b.type = "button";
  b.className = "quiet";
  b.textContent = label;
  b.title = title;
  b.addEventListener("click", action);
  return b;
}

// --- the list of chats ---

function drawList() {
  $("chat-list").replaceChildren(...chats().map((other) => {
    const item = document.createElement("li");
    if (other.id === chat.id) item.setAttribute("aria-current", "true");
    const open = button(other.title || "Chat", other.title, () => openChat(other));
    open.className = "open";
    item.append(open, button("✕", "Delete this chat", () => {
      removeChat(other.id);
      if (other.id === chat.id) openChat(newChat());
      else drawList();
    }));
    return item;
  }));
}

function openChat(other) {
  running?.abort();
  chat = other;
  $("chats").classList.remove("shown");
  drawList();
  drawMessages();
  $("input").focus();
}

// --- messages ---

function drawMessages() {
  $("messages").replaceChildren(...chat.messages.map(drawMessage));
  if (chat.messages.length === 0) $("messages").append(welcome());
  scrollDown(true);
}

function welcome() {
  const box = document.createElement("div");
  box.id = "welcome";
  const picture = new Image(44, 44);
  picture.src = "/icon.svg";
  picture.alt = "";
  const head = document.createElement("h2");
  head.textContent = model?.id ?? "Strata";
  const line = document.createElement("p");
  line.textContent = "What you write is computed on this server and kept in this browser.";
  const buttons = document.createElement("div");
  for (const text of BEGINNINGS) {
    buttons.append(button(text, "Ask this", () => {
      if (!running) ask([{ role: "user", content: text }]);
    }));
  }
  for (const b of buttons.children) b.className = "";
  box.append(picture, head, line, buttons);
  return box;
}

function drawMessage(message, index) {
  const box = document.createElement("article");
  box.className = `message ${message.role}`;
  const body = document.createElement("div");
  body.className = "body";
  const tools = document.createElement("div");
  tools.className = "tools";
  box.append(body, tools);
  if (message.role === "user") {
    body.textContent = message.content;
    tools.append(button("Edit", "Change this message and ask again", () => edit(index, box)));
  } else {
    fillAnswer(message, box);
  }
  return box;
}

// What an answer shows; called again and again while it streams in.
function fillAnswer(message, box, streaming = false) {
  const body = box.querySelector(".body");
  let thinking = box.querySelector("details");
  if (message.reasoning && !thinking) {
    thinking = document.createElement("details");
    thinking.className = "thinking";
    thinking.append(document.createElement("summary"), document.createElement("div"));
    box.prepend(thinking);
  }
  if (thinking) {
    thinking.firstChild.textContent = streaming && !message.content ? "Thinking …" : "Thoughts";
    thinking.lastChild.textContent = message.reasoning;
  }
  body.replaceChildren(...render(message.content));
  body.classList.toggle("waiting", streaming);
  if (message.error) {
    const error = document.createElement("p");
    error.className = "error";
    error.textContent = message.error;
    body.append(error);
  }
  const tools = box.querySelector(".tools");
  tools.replaceChildren();
  if (streaming) return;
  tools.append(
    button("Copy", "Copy this answer", () => navigator.clipboard?.writeText(message.content)),
    button("Again", "Another answer", () => {
      const index = chat.messages.indexOf(message);
      if (!running && index > 0) ask(chat.messages.slice(0, index));
    }),
  );
  if (message.speed) {
    const speed = document.createElement("span");
    speed.className = "speed";
    speed.textContent = message.speed;
    tools.append(speed);
  }
}

function edit(index, box) {
  if (running) return;
  const area = document.createElement("textarea");
  area.value = chat.messages[index].content;
  area.rows = Math.min(12, area.value.split("\n").length + 1);
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(
    button("Send", "Ask this instead", () => {
      const content = area.value.trim();
      if (content) ask([...chat.messages.slice(0, index), { role: "user", content }]);
    }),
    button("Cancel", "Leave it as it was", drawMessages),
  );
  box.replaceChildren(area, tools);
  area.focus();
}

function scrollDown(always = false) {
  const list = $("messages");
  const near = list.scrollHeight - list.scrollTop - list.clientHeight < 120;
  if (always || near) list.scrollTop = list.scrollHeight;
}

// --- answers ---

// The events of a stream, as parsed JSON.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    const lines = held.split("\n");
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue; // comments keep the connection alive
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

async function errorOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

function body(messages) {
  const system = settings().system;
  const sent = messages.map(({ role, content, reasoning }) =>
    reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  return JSON.stringify({
    messages: system ? [{ role: "system", content: system }, ...sent] : sent,
    model: model?.id ?? "strata",
    stream: true,
    stream_options: { include_usage: true },
    ...requestFields(),
  });
}

function speedOf(event, finish) {
  const { timings, usage } = event;
  const cut = finish === "length" ? ", cut off" : "";
  return `${usage.completion_tokens} tokens, ${timings.predicted_per_second.toFixed(1)} a second; ` +
    `prompt ${usage.prompt_tokens}, ${usage.prompt_tokens_details.cached_tokens} reused${cut}`;
}

async function receive(messages, answer, redraw) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: body(messages),
    signal: running.signal,
  });
  if (!response.ok) throw new Error(await errorOf(response));
  let finish = null;
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices[0];
    if (choice) {
      answer.content += choice.delta.content ?? "";
      answer.reasoning += choice.delta.reasoning_content ?? "";
      finish = choice.finish_reason ?? finish;
    }
    if (event.timings) answer.speed = speedOf(event, finish);
    redraw();
  }
}

async function ask(messages) {
  const asked = chat;
  const answer = { role: "assistant", content: "", reasoning: "" };
  asked.messages = [...messages, answer];
  asked.title ||= messages[0].content.slice(0, 60);
  saveChat(asked);
  drawList();
  drawMessages();
  const box = $("messages").lastChild;
  fillAnswer(answer, box, true);

  running = new AbortController();
  setRunning(true);
  let drawn = 0;
  try {
    await receive(messages, answer, () => {
      if (performance.now() - drawn < REDRAW_MS) return;
      drawn = performance.now();
      fillAnswer(answer, box, true);
      scrollDown();
    });
  } catch (error) {
    if (error.name !== "AbortError") answer.error = error.message;
  }
  running = null;
  setRunning(false);
  saveChat(asked);
  fillAnswer(answer, box);
  scrollDown();
}

function setRunning(yes) {
  $("send").hidden = yes;
  $("stop").hidden = !yes;
}

function grow() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

function send() {
  const content = $("input").value.trim();
  if (!content || running) return;
  $("input").value = "";
  grow();
  ask([...chat.messages.filter((m) => m.content || m.role === "user"), { role: "user", content }]);
}

export function startChat() {
  $("new-chat").addEventListener("click", () => openChat(newChat()));
  $("stop").addEventListener("click", () => running?.abort());
  $("input").addEventListener("input", grow);
  $("input").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  $("compose").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  chat = chats()[0] ?? newChat();
  drawList();
  drawMessages();
}
