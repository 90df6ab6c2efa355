// The monitor: what /v1/status tells, and what has changed since it was asked last.

import { color, curveIndex, drawCurve, drawHeat, heatLayout } from "/plots.js";
import { headers } from "/store.js";

const $ = (id) => document.getElementById(id);
const EVERY_MS = 1000;
const KEPT = 120; // points of a curve
const COOLING = 0.93; // of an expert's heat in a second

// The curves: value(now, last, seconds), null while nothing is known.
const CURVES = [
  { id: "answers", label: "Answers", unit: "tokens/s", ink: "answer",
    value: (now, last, seconds) => answered(now, last) / seconds },
  { id: "prompts", label: "Prompts", unit: "tokens/s", ink: "prompt",
    value: (now, last, seconds) =>
      Math.max(0, now.windows.tokens - last.windows.tokens - answered(now, last)) / seconds },
  { id: "hits", label: "Experts found in the cache", unit: "%", ink: "cache", top: 100,
    value: (now, last) => {
      const rate = hitRate(now.experts, last.experts);
      return rate === null ? null : 100 * rate;
    } },
];

let timer = null;
let before = null;
let heat = []; // [layers][experts]: uses, those of the last seconds counting most

function element(name, className, ...children) {
  const e = document.createElement(name);
  e.className = className;
  e.append(...children);
  return e;
}

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

function amount(n) {
  return n.toLocaleString("en", { maximumFractionDigits: n < 100 ? 1 : 0 });
}

function duration(seconds) {
  const s = Math.floor(seconds);
  const parts = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (parts[0]) return `${parts[0]} d ${parts[1]} h`;
  if (parts[1]) return `${parts[1]} h ${parts[2]} min`;
  return parts[2] ? `${parts[2]} min` : `${s} s`;
}

// Tokens of answers between two looks; those under way are in the slots.
function answered(now, last) {
  const sum = (s) => s.tokens.generated + s.slots.reduce((n, slot) => n + slot.n_decoded, 0);
  return Math.max(0, sum(now) - sum(last));
}

function hitRate(now, last) {
  const hits = now.hits - (last?.hits ?? 0);
  const all = hits + now.misses - (last?.misses ?? 0);
  return all > 0 ? hits / all : null;
}

function makePlots() {
  $("plots").replaceChildren(...CURVES.map((curve) => {
    curve.values = [];
    curve.number = element("b", "");
    curve.canvas = document.createElement("canvas");
    curve.canvas.id = `plot-${curve.id}`;
    curve.canvas.setAttribute("role", "img");
    curve.canvas.setAttribute("aria-label", `${curve.label}, ${curve.unit}, over the last minutes`);
    const show = (hover) => {
      curve.hover = hover;
      drawPlot(curve);
    };
    curve.canvas.addEventListener("mousemove", (event) =>
      show(curveIndex(curve.canvas, event.offsetX, curve.values.length, KEPT)));
    curve.canvas.addEventListener("mouseleave", () => show(-1));
    return element("section", "panel plot", element("h2", "", curve.label),
      element("p", "number", curve.number, element("span", "", curve.unit)), curve.canvas);
  }));
}

function drawPlot(curve) {
  const { values, hover = -1 } = curve;
  const shown = values[hover < 0 ? values.length - 1 : hover] ?? null;
  curve.number.textContent = shown === null ? "–" : amount(shown);
  drawCurve(curve.canvas, values,
    { room: KEPT, top: curve.top, ink: color(curve.ink), everyMs: EVERY_MS, hover });
}

function drawCards(now) {
  const { ended } = now.requests;
  const all = Object.values(ended).reduce((a, b) => a + b, 0);
  const busy = now.slots.filter((slot) => slot.is_processing).length;
  const e = now.experts;
  const perWindow = now.windows.count > 0 ? now.windows.slots / now.windows.count : 0;
  const cards = [
    ["Slots busy", `${busy} / ${now.slots.length}`, `${perWindow.toFixed(1)} a window`],
    ["Waiting", now.requests.waiting, `of ${now.requests.queue}; ${now.requests.refused} refused`],
    ["Requests ended", amount(all), `${ended.cancelled} hung up, ${ended.error} failed`],
    ["Prompts reused", percent(now.tokens.cached, now.tokens.cached + now.tokens.prompt),
      `${amount(now.tokens.cached)} tokens`],
    ["Expert hits", percent(e.hits, e.hits + e.misses), "since the start"],
    ["Useful swaps", e.caching ? percent(e.swaps_useful, e.swaps) : "–",
      `of ${amount(e.swaps)}`],
  ];
  $("cards").replaceChildren(...cards.map(([label, value, note]) =>
    element("div", "card", element("h2", "", label), element("b", "", String(value)),
      element("span", "", note))));
}

function bar(share, ink) {
  const filled = document.createElement("i");
  filled.style.width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
  filled.style.background = `var(--${ink})`;
  return element("div", "bar", filled);
}

function fillTable(table, heads, rows) {
  const row = (values, kind) => {
    const tr = document.createElement("tr");
    for (const value of values) {
      const number = typeof value === "number" || /^[\d.–]/.test(value);
      tr.append(element(kind, number ? "number" : "", typeof value === "number" ? String(value) : value));
    }
    return tr;
  };
  table.replaceChildren(row(heads, "th"), ...rows.map((values) => row(values, "td")));
}

function drawTables(now, last) {
  const { context } = now.model;
  fillTable($("slots"), ["Slot", "", "Context", "Held", "Answer"], now.slots.map((s) => {
    const state = element("span", `state ${s.phase}`, s.phase);
    return [s.id, state, bar(s.n_tokens / context, s.is_processing ? "answer" : "idle"), s.n_tokens,
      s.n_decoded];
  }));
  // While nothing is computed, the sums since the start.
  const since = last && now.windows.count > last.windows.count ? last : null;
  const parts = Object.entries(now.windows.parts).map(([name, part]) => {
    const seconds = part.seconds - (since?.windows.parts[name].seconds ?? 0);
    const read = part.bytes - (since?.windows.parts[name].bytes ?? 0);
    return [name, seconds, read];
  });
  const all = parts.reduce((sum, part) => sum + part[1], 0);
  fillTable($("parts"), ["Part", "", "Share", "GB/s"], parts.map(([name, seconds, read]) =>
    [name, bar(all > 0 ? seconds / all : 0, "answer"), percent(seconds, all),
      seconds > 0 && read > 0 ? (read / seconds / 1e9).toFixed(1) : "–"]));
}

function drawMemory(now) {
  const m = now.memory;
  const where = m.on_gpu ? " (GPU)" : "";
  const parts = [
    ["experts", m.expert_bytes, "ram"],
    [`expert cache${where}`, now.experts.bytes, "cache"],
    [`other weights${where}`, m.dense_bytes, "answer"],
    [`keys and values${where}`, m.kv_bytes_per_position * now.model.context * now.slots.length,
      "prompt"],
  ].filter(([, n]) => n > 0);
  const all = parts.reduce((sum, [, n]) => sum + n, 0);
  $("memory-bar").replaceChildren(...parts.map(([, n, ink]) => {
    const part = document.createElement("i");
    part.style.width = `${(100 * n) / all}%`;
    part.style.background = `var(--${ink})`;
    return part;
  }));
  const items = parts.map(([name, n, ink]) => {
    const key = element("i", "key");
    key.style.background = `var(--${ink})`;
    return element("li", "", key, `${name} `, element("b", "", bytes(n)));
  });
  items.push(element("li", "", "free RAM ", element("b", "", bytes(m.available_bytes))));
  $("memory").replaceChildren(...items);
}

function isResident(bits, expert) {
  return ((parseInt(bits[expert >> 2] ?? "0", 16) >> (3 - (expert & 3))) & 1) === 1;
}

function drawExperts(now, last) {
  const { layers, experts, caching } = now.experts;
  $("experts-note").replaceChildren(
    element("i", "key ram"), "in RAM",
    ...(caching ? [element("i", "key cache"), "in the cache"] : []),
    element("span", "aside", "The stronger a cell, the more the last tokens used its expert" +
      (caching ? "; the bar is the layer's hit rate of the last second."
        : ". There is no expert cache here: --expert-cache makes one.")));
  const rows = layers.map((layer, l) => {
    const old = last?.experts.layers[l];
    heat[l] = layer.uses.map((n, e) => (heat[l]?.[e] ?? 0) * COOLING + n - (old?.uses[e] ?? 0));
    const mean = heat[l].reduce((a, b) => a + b, 0) / experts;
    return {
      relative: heat[l].map((h) => (mean > 0 ? h / mean : 0)),
      resident: heat[l].map((_, e) => isResident(layer.resident, e)),
      rate: caching ? hitRate(layer, old) ?? hitRate(layer) : null,
    };
  });
  for (const row of rows) row.heat = row.relative.map((h) => Math.min(1, Math.sqrt(h / 5)));
  const canvas = $("heat");
  const layout = heatLayout(layers.length, experts, canvas.parentNode.clientWidth);
  drawHeat(canvas, rows, layout);
  canvas.onmousemove = (event) => {
    const l = Math.floor(event.offsetY / layout.row);
    const e = Math.floor((event.offsetX - layout.label) / layout.cell);
    const layer = layers[l];
    if (!layer) return;
    $("heat-hint").textContent =
      `layer ${l}: ${percent(layer.hits, layer.hits + layer.misses)} hits since the start, ` +
      `${layer.slots} slots` + (e >= 0 && e < experts
        ? `; expert ${e} is in ${rows[l].resident[e] ? "the cache" : "RAM"}, ` +
          `${layer.uses[e].toLocaleString("en")} uses, of late ${rows[l].relative[e].toFixed(1)} ` +
          "times the layer's mean" : "");
  };
}

function drawAbout(now) {
  const { architecture, layers, experts, experts_used: used, context, device } = now.model;
  $("about").textContent =
    `${architecture}: ${layers} layers, ${used} of ${experts} experts a token, context ${context}. ` +
    `${device}. Strata ${now.version}, up ${duration(now.uptime_seconds)}, ` +
    `${now.connections} connections${now.draining ? ", going down" : ""}.`;
}

async function look() {
  try {
    const response = await fetch("/v1/status", { headers: headers() });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const now = await response.json();
    now.at = performance.now();
    $("monitor-error").hidden = true;
    const last = before && now.uptime_seconds > before.uptime_seconds ? before : null;
    const seconds = last ? (now.at - last.at) / 1000 : 0;
    // Seconds in which nobody looked, such as while the chat was shown.
    const missed = Math.min(KEPT, Math.max(0, Math.round((1000 * seconds) / EVERY_MS) - 1));
    for (const curve of CURVES) {
      curve.values.push(...Array(missed).fill(null), last ? curve.value(now, last, seconds) : null);
      curve.values.splice(0, Math.max(0, curve.values.length - KEPT));
      drawPlot(curve);
    }
    if (!last) heat = [];
    drawCards(now);
    drawExperts(now, last);
    drawTables(now, last);
    drawMemory(now);
    drawAbout(now);
    before = now;
  } catch (error) {
    $("monitor-error").textContent = error.message;
    $("monitor-error").hidden = false;
  }
}

export function showMonitor() {
  if (timer !== null) return;
  if (!CURVES[0].values) makePlots();
  look();
  timer = setInterval(look, EVERY_MS);
}

export function hideMonitor() {
  clearInterval(timer);
  timer = null;
}
