// Drawing: curves over time and the map of experts. Knows nothing about where numbers come from.

// A canvas of so many CSS pixels, sharp on every screen.
export function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = "11px system-ui, sans-serif";
  return c;
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The least of 1, 2, 5, 10, 20 ... that is not below `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}

function short(value) {
  return value >= 10000 ? `${value / 1000}k` : String(value);
}

// A curve of `values` (null: not known), the newest at the right edge, `room` of them in the width.
// `top`: the end of the scale; without one it is what the values need.
export function drawCurve(canvas, values, { room, top, ink, unit = "", everyMs, hover = -1 }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const c = context(canvas, width, height);
  const most = top ?? roundUp(Math.max(1, ...values.map((v) => v ?? 0)));
  const left = 34;
  const bottom = height - 16;
  const x = (i) => width - 1 - ((values.length - 1 - i) * (width - left - 1)) / (room - 1);
  const y = (v) => bottom - (v / most) * (bottom - 8);
  c.lineWidth = 1;
  for (const share of [0, 0.5, 1]) {
    c.strokeStyle = color("grid");
    c.beginPath();
    c.moveTo(left, Math.round(y(most * share)) + 0.5);
    c.lineTo(width, Math.round(y(most * share)) + 0.5);
    c.stroke();
    c.fillStyle = color("quiet");
    c.textAlign = "right";
    c.fillText(short(most * share) + unit, left - 5, y(most * share) + 4);
  }
  c.fillText("now", width, height - 3);
  c.textAlign = "left";
  c.fillText(`${Math.round((room * everyMs) / 60000)} min ago`, left, height - 3);

  const line = new Path2D();
  const area = new Path2D();
  let open = false;
  values.forEach((v, i) => {
    if (v === null) return;
    if (!open) {
      line.moveTo(x(i), y(v));
      area.moveTo(x(i), bottom);
    }
    line.lineTo(x(i), y(v));
    area.lineTo(x(i), y(v));
    open = values[i + 1] !== null && i + 1 < values.length;
    if (!open) area.lineTo(x(i), bottom);
  });
  c.globalAlpha = 0.14;
  c.fillStyle = ink;
  c.fill(area);
  c.globalAlpha = 1;
  c.strokeStyle = ink;
  c.lineWidth = 1.75;
  c.lineJoin = "round";
  c.stroke(line);
  const at = hover < 0 ? values.length - 1 : hover;
  if ((values[at] ?? null) !== null) {
    c.fillStyle = ink;
    c.beginPath();
    c.arc(Math.min(x(at), width - 3), y(values[at]), 3, 0, 2 * Math.PI);
    c.fill();
  }
}

// Which value of a curve is drawn at a place; -1: none.
export function curveIndex(canvas, offsetX, count, room) {
  const step = (canvas.clientWidth - 35) / (room - 1);
  const i = Math.round(count - 1 - (canvas.clientWidth - 1 - offsetX) / step);
  return i >= 0 && i < count ? i : -1;
}

// Sizes of the map of experts in a width: a row a layer, with its number in front and its hit rate
// as a bar behind.
export function heatLayout(layers, experts, width) {
  const label = 26;
  const bar = width < 600 ? 44 : 120;
  const cell = Math.min(24, Math.max(2, Math.floor((width - label - bar - 8) / experts)));
  const row = Math.min(16, Math.max(cell, layers > 24 ? 8 : 11));
  return { label, bar, cell, row, barAt: label + experts * cell + 8, height: layers * row + 2,
    width: label + experts * cell + 8 + bar };
}

// rows: [{heat: [0..1 by expert], resident: [bool by expert], rate: 0..1 or null}]. Experts in the
// cache have another colour than those in RAM; the hotter, the stronger.
export function drawHeat(canvas, rows, layout) {
  const { label, bar, cell, row, barAt, width, height } = layout;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = context(canvas, width, height);
  const [cold, ram, cache, quiet, text] = ["cold", "ram", "cache", "quiet", "text"].map(color);
  const gap = cell > 3 ? 1 : 0;
  rows.forEach(({ heat, resident, rate }, l) => {
    const y = l * row;
    c.fillStyle = quiet;
    c.textAlign = "right";
    if (row >= 11 || l % 4 === 0) c.fillText(String(l), label - 6, y + Math.min(row, 11) - 1);
    heat.forEach((h, e) => {
      const x = label + e * cell;
      c.globalAlpha = 1;
      c.fillStyle = cold;
      c.fillRect(x, y, cell - gap, row - 1);
      c.globalAlpha = resident[e] ? 0.3 + 0.7 * h : h;
      c.fillStyle = resident[e] ? cache : ram;
      c.fillRect(x, y, cell - gap, row - 1);
    });
    c.globalAlpha = 1;
    c.fillStyle = cold;
    c.fillRect(barAt, y, bar, row - 1);
    if (rate === null) return;
    c.fillStyle = cache;
    c.globalAlpha = 0.55;
    c.fillRect(barAt, y, bar * rate, row - 1);
    c.globalAlpha = 1;
    if (row < 11) return;
    c.fillStyle = text;
    c.textAlign = "left";
    c.fillText(`${Math.round(100 * rate)} %`, barAt + 4, y + row / 2 + 3.5);
  });
}
