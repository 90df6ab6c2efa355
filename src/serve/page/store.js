// Chats and settings, kept in the browser.

const CHATS = "strata.chats";
const SETTINGS = "strata.settings";

export const FIELDS = [
  { name: "system", label: "System message", kind: "area", note: "told to the model before the chat" },
  { name: "temperature", label: "Temperature", kind: "number", step: "0.05", min: 0, max: 100,
    note: "0 takes the likeliest token; empty: as the server was started" },
  { name: "top_p", label: "Top-p", kind: "number", step: "0.01", min: 0, max: 1 },
  { name: "top_k", label: "Top-k", kind: "number", step: "1", min: 0 },
  { name: "min_p", label: "Min-p", kind: "number", step: "0.01", min: 0, max: 1 },
  { name: "repetition_penalty", label: "Repetition penalty", kind: "number", step: "0.01", min: 0.01,
    max: 100 },
  { name: "presence_penalty", label: "Presence penalty", kind: "number", step: "0.1", min: -100,
    max: 100 },
  { name: "frequency_penalty", label: "Frequency penalty", kind: "number", step: "0.1", min: -100,
    max: 100 },
  { name: "max_tokens", label: "Most tokens of an answer", kind: "number", step: "1", min: 1 },
  { name: "seed", label: "Seed", kind: "number", step: "1",
    note: "the same seed and messages give the same answer" },
  { name: "stop", label: "Stop text", kind: "text" },
  { name: "reasoning_effort", label: "Thinking", kind: "choice",
    choices: [["", "as the model likes"], ["none", "none"], ["low", "low"], ["medium", "medium"],
      ["high", "high"]] },
  { name: "reasoning_budget_tokens", label: "Most tokens of thinking", kind: "number", step: "1",
    min: 0 },
  { name: "api_key", label: "API key", kind: "secret", note: "where the server asks for one" },
];

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false; // full, or forbidden in this browser: the page works without
  }
}

export function settings() {
  return read(SETTINGS, {});
}

export function saveSettings(values) {
  write(SETTINGS, values);
}

// A chat: {id, title, messages: [{role, content, reasoning, speed, error}]}; the newest first.
export function chats() {
  const all = read(CHATS, []);
  return Array.isArray(all) ? all : [];
}

export function saveChat(chat) {
  const all = chats().filter((other) => other.id !== chat.id);
  all.unshift(chat);
  // When the browser has no more room, the oldest chats go.
  while (!write(CHATS, all) && all.length > 1) all.pop();
}

export function removeChat(id) {
  write(CHATS, chats().filter((chat) => chat.id !== id));
}

export function newChat() {
  return { id: `${Date.now()}-${Math.random().toString(36).slice(2, 8)}`, title: "", messages: [] };
}

// The fields of a request that the settings fill.
export function requestFields() {
  const values = settings();
  const fields = {};
  for (const { name, kind } of FIELDS) {
    const value = values[name];
    if (name === "system" || name === "api_key" || value === undefined || value === "") continue;
    fields[name] = kind === "number" ? Number(value) : value;
  }
  return fields;
}

export function headers() {
  const key = settings().api_key;
  return key ? { Authorization: `Bearer ${key}` } : {};
}
