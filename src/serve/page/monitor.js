// The monitor: what /v1/status tells, and what has changed since it was asked last.

import { headers } from "/store.js";

const $ = (id) => document.getElementById(id);
const EVERY_MS = 1000;
const KEPT = 180; // points of the curve

let timer = null;
let before = null;
const speeds = []; // {answer, prompt}: tokens a second

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 999.5 && unit + 1 < units.length) {
    n /= 1000;
    ++unit;
  }
  return `${n.toFixed(unit === 0 || n >= 99.95 ? 0 : 1)} ${units[unit]}`;
}

function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

function duration(seconds) {
  const s = Math.floor(seconds);
  const parts = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (parts[0]) return `${parts[0]} d ${parts[1]} h`;
  if (parts[1]) return `${parts[1]} h ${parts[2]} min`;
  return parts[2] ? `${parts[2]} min` : `${s} s`;
}

function drawCards(now, speed) {
  const ended = Object.values(now.requests.ended).reduce((a, b) => a + b, 0);
  const busy = now.slots.filter((slot) => slot.is_processing).length;
  const e = now.experts;
  const cards = [
    [speed.answer.toFixed(1), "answer tokens/s"],
    [speed.prompt.toFixed(1), "prompt tokens/s"],
    [`${busy} / ${now.slots.length}`, "slots busy"],
    [now.requests.waiting, "requests waiting"],
    [ended, "requests ended"],
    [now.requests.refused, "requests refused"],
    [percent(now.tokens.cached, now.tokens.cached + now.tokens.prompt), "of prompts reused"],
    [percent(e.hits, e.hits + e.misses), "expert hits"],
    [e.caching ? bytes(e.bytes) : "off", "expert cache"],
    [e.caching ? percent(e.swaps_useful, e.swaps) : "–", `of ${e.swaps} swaps useful`],
    [bytes(now.memory.expert_bytes + now.memory.dense_bytes), "weights"],
    [bytes(now.memory.available_bytes), "memory free"],
    [now.connections, "connections"],
    [duration(now.uptime_seconds), "up"],
  ];
  $("cards").replaceChildren(...cards.map(([value, label]) => {
    const card = document.createElement("div");
    card.className = "card";
    const b = document.createElement("b");
    b.textContent = value;
    const span = document.createElement("span");
    span.textContent = label;
    card.append(b, span);
    return card;
  }));
}

function fillTable(table, heads, rows) {
  const row = (values, kind) => {
    const tr = document.createElement("tr");
    for (const value of values) {
      const cell = document.createElement(kind);
      cell.textContent = value;
      if (typeof value === "number" || /^[\d.]/.test(value)) cell.className = "number";
      tr.append(cell);
    }
    return tr;
  };
  table.replaceChildren(row(heads, "th"), ...rows.map((values) => row(values, "td")));
}

function drawTables(now, last) {
  fillTable($("slots"), ["slot", "state", "tokens held", "prompt", "answer"],
    now.slots.map((s) => [String(s.id), s.phase, s.n_tokens, s.n_prompt_tokens, s.n_decoded]));
  const parts = Object.entries(now.windows.parts).map(([name, part]) => {
    const seconds = part.seconds - (last?.windows.parts[name].seconds ?? 0);
    const read = part.bytes - (last?.windows.parts[name].bytes ?? 0);
    return [name, seconds, read];
  });
  const all = parts.reduce((sum, part) => sum + part[1], 0);
  fillTable($("parts"), ["part", "share", "GB/s"], parts.map(([name, seconds, read]) =>
    [name, percent(seconds, all), seconds > 0 && read > 0 ? (read / seconds / 1e9).toFixed(1) : "–"]));
}

function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  return c;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function drawSpeeds() {
  const canvas = $("speed");
  const { clientWidth: width, clientHeight: height } = canvas;
  const c = context(canvas, width, height);
  const most = Math.max(1, ...speeds.map((s) => Math.max(s.answer, s.prompt)));
  c.fillStyle = color("quiet");
  c.font = "12px system-ui, sans-serif";
  c.fillText(most.toFixed(0), 2, 12);
  for (const kind of ["prompt", "answer"]) {
    c.strokeStyle = color(kind);
    c.lineWidth = 2;
    c.beginPath();
    speeds.forEach((s, i) => {
      const x = width - ((speeds.length - 1 - i) * width) / (KEPT - 1);
      const y = height - 2 - (s[kind] / most) * (height - 18);
      if (i === 0) c.moveTo(x, y);
      else c.lineTo(x, y);
    });
    c.stroke();
  }
}

function isResident(bits, expert) {
  return ((parseInt(bits[expert >> 2] ?? "0", 16) >> (3 - (expert & 3))) & 1) === 1;
}

// A row a layer: its hit rate since the last look as a bar, then a cell an expert.
function drawHeat(now, last) {
  const { layers, experts, caching } = now.experts;
  $("experts-note").textContent = caching
    ? "A row is a layer: a bar of the hit rate of the last second, then its experts; those in the cache are filled."
    : "There is no expert cache: every expert is computed from RAM. --expert-cache makes one.";
  const bar = 60;
  const cell = experts > 300 ? 2 : experts > 120 ? 4 : 8;
  const rowHeight = Math.max(cell, 4);
  const canvas = $("heat");
  const width = bar + 8 + experts * cell;
  const height = layers.length * rowHeight;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = context(canvas, width, height);
  layers.forEach((layer, l) => {
    const y = l * rowHeight;
    const hits = layer.hits - (last?.experts.layers[l]?.hits ?? 0);
    const misses = layer.misses - (last?.experts.layers[l]?.misses ?? 0);
    c.fillStyle = color("cold");
    c.fillRect(0, y, bar, rowHeight - 1);
    c.fillStyle = color("answer");
    if (hits + misses > 0) c.fillRect(0, y, (bar * hits) / (hits + misses), rowHeight - 1);
    for (let e = 0; e < experts; ++e) {
      c.fillStyle = color(isResident(layer.resident, e) ? "answer" : "cold");
      c.fillRect(bar + 8 + e * cell, y, cell - 1, rowHeight - 1);
    }
  });
  canvas.onmousemove = (event) => {
    const l = Math.floor(event.offsetY / rowHeight);
    const e = Math.floor((event.offsetX - bar - 8) / cell);
    const layer = layers[l];
    if (!layer) return;
    const rate = percent(layer.hits, layer.hits + layer.misses);
    $("heat-hint").textContent = `layer ${l}: ${rate} hits since the start, ${layer.slots} slots` +
      (e >= 0 && e < experts
        ? `; expert ${e} is ${isResident(layer.resident, e) ? "in the cache" : "in RAM"}` : "");
  };
}

async function look() {
  try {
    const response = await fetch("/v1/status", { headers: headers() });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const now = await response.json();
    now.at = performance.now();
    $("monitor-error").hidden = true;
    const last = before && now.uptime_seconds > before.uptime_seconds ? before : null;
    const seconds = last ? (now.at - last.at) / 1000 : Infinity;
    const tokens = (s) => s.windows.tokens;
    const answers = (s) => s.tokens.generated + s.slots.reduce((sum, x) => sum + x.n_decoded, 0);
    const answer = last ? Math.max(0, answers(now) - answers(last)) : 0;
    const prompt = last ? Math.max(0, tokens(now) - tokens(last) - answer) : 0;
    const speed = { answer: answer / seconds, prompt: prompt / seconds };
    speeds.push(speed);
    if (speeds.length > KEPT) speeds.shift();
    drawCards(now, speed);
    drawTables(now, last);
    drawSpeeds();
    drawHeat(now, last);
    before = now;
  } catch (error) {
    $("monitor-error").textContent = error.message;
    $("monitor-error").hidden = false;
  }
}

export function showMonitor() {
  if (timer !== null) return;
  before = null;
  look();
  timer = setInterval(look, EVERY_MS);
}

export function hideMonitor() {
  clearInterval(timer);
  timer = null;
}
