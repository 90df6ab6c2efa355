// The page: tabs, settings, and where chat and monitor begin.

import { startChat, setModel } from "/chat.js";
import { showMonitor, hideMonitor } from "/monitor.js";
import { FIELDS, headers, saveSettings, settings } from "/store.js";

const $ = (id) => document.getElementById(id);

function selectTab(name) {
  for (const tab of ["chat", "monitor"]) {
    $(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    $(tab).hidden = tab !== name;
  }
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
  if (name === "monitor") showMonitor();
  else hideMonitor();
}

function fieldInput(field, value) {
  let input;
  if (field.kind === "area") {
    input = document.createElement("textarea");
    input.rows = 3;
  } else if (field.kind === "choice") {
    input = document.createElement("select");
    for (const [choice, label] of field.choices) input.append(new Option(label, choice));
  } else {
    input = document.createElement("input");
    input.type = { number: "number", secret: "password" }[field.kind] ?? "text";
    for (const attribute of ["min", "max", "step"]) {
      if (field[attribute] !== undefined) input[attribute] = field[attribute];
    }
    if (field.kind === "secret") input.autocomplete = "off";
  }
  input.name = field.name;
  input.value = value ?? "";
  return input;
}

function fillSettings() {
  const values = settings();
  $("settings-fields").replaceChildren(...FIELDS.map((field) => {
    const label = document.createElement("label");
    label.append(field.label, fieldInput(field, values[field.name]));
    if (field.note) {
      const note = document.createElement("small");
      note.textContent = field.note;
      label.append(note);
    }
    return label;
  }));
}

function readSettings() {
  const values = {};
  for (const field of FIELDS) {
    const input = $("settings-fields").querySelector(`[name="${field.name}"]`);
    if (input.value !== "" && input.validity.valid) values[field.name] = input.value;
  }
  saveSettings(values);
}

// The model's name, as soon as the server has one.
async function findModel() {
  for (;;) {
    try {
      const response = await fetch("/v1/models", { headers: headers() });
      if (response.ok) {
        const model = (await response.json()).data[0];
        $("model").textContent = model.id;
        document.title = `${model.id} · Strata`;
        setModel(model);
        return;
      }
      $("model").textContent =
        response.status === 401 ? "The server wants an API key: ⚙" : "The model is loading …";
    } catch {
      $("model").textContent = "The server does not answer";
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

for (const name of ["chat", "monitor"]) {
  $(`tab-${name}`).addEventListener("click", () => selectTab(name));
}
$("show-settings").addEventListener("click", () => {
  fillSettings();
  $("settings").showModal();
});
$("settings").addEventListener("input", readSettings);
$("reset-settings").addEventListener("click", () => {
  saveSettings({});
  fillSettings();
});
$("show-chats").addEventListener("click", () => $("chats").classList.toggle("shown"));

startChat();
selectTab(location.hash === "#monitor" ? "monitor" : "chat");
findModel();
