// Markdown to elements. Nothing a model writes becomes markup of its own: every text goes through
// textContent, and links lead to http and https only.

function element(name, ...children) {
  const e = document.createElement(name);
  e.append(...children);
  return e;
}

const INLINE = [
  [/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, (m) => element("code", m[2].replace(/^ (.+) $/, "$1"))],
  [/^\*\*(?=\S)([\s\S]*?\S)\*\*/, (m) => element("strong", ...inline(m[1]))],
  [/^__(?=\S)([\s\S]*?\S)__(?!\w)/, (m) => element("strong", ...inline(m[1]))],
  [/^\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)/, (m) => element("em", ...inline(m[1]))],
  [/^_(?=[^\s_])([\s\S]*?[^\s_])_(?!\w)/, (m) => element("em", ...inline(m[1]))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m) => element("del", ...inline(m[1]))],
  [/^\[([^\]\n]+)\]\(\s*<?([^\s)>]+)>?[^)\n]*\)/, (m) => link(m[2], inline(m[1]))],
  [/^<?(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])>?/, (m) => link(m[1], [m[1]])],
];

function link(target, children) {
  if (!/^https?:\/\//i.test(target)) return element("span", ...children);
  const a = element("a", ...children);
  a.href = target;
  a.rel = "noopener noreferrer";
  a.target = "_blank";
  return a;
}

export function inline(text) {
  const nodes = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) nodes.push(plain);
    plain = "";
  };
  while (at < text.length) {
    const rest = text.slice(at);
    if (rest[0] === "\\" && /[\\`*_{}[\]()#+\-.!~|<>]/.test(rest[1] ?? "")) {
      plain += rest[1];
      at += 2;
      continue;
    }
    if (rest.startsWith("  \n")) {
      flush();
      nodes.push(element("br"));
      at += 3;
      continue;
    }
    // An underscore inside a word is a letter.
    const inWord = rest[0] === "_" && /\w$/.test(plain);
    const found = !inWord && "`*_~[<h".includes(rest[0]) &&
      INLINE.map(([pattern, make]) => [rest.match(pattern), make]).find(([m]) => m);
    if (found) {
      flush();
      nodes.push(found[1](found[0]));
      at += found[0][0].length;
    } else {
      const next = rest.slice(1).search(/[\\`*_~[<h ]/);
      const step = next < 0 ? rest.length : next + 1;
      plain += rest.slice(0, step);
      at += step;
    }
  }
  flush();
  return nodes;
}

function codeBlock(text) {
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.className = "quiet";
  copy.addEventListener("click", () => navigator.clipboard?.writeText(text));
  return element("pre", element("code", text), copy);
}

const FENCE = /^ {0,3}(```+|~~~+)\s*([^`]*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,}\s*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
}

function table(lines) {
  const row = (line, kind) => element("tr", ...cells(line).map((c) => element(kind, ...inline(c))));
  return element("table", element("thead", row(lines[0], "th")),
    element("tbody", ...lines.slice(2).map((line) => row(line, "td"))));
}

function list(lines) {
  const [, indent, marker] = lines[0].match(ITEM);
  const ordered = /\d/.test(marker);
  const result = element(ordered ? "ol" : "ul");
  if (ordered) result.start = parseInt(marker, 10);
  let item = [];
  const flush = () => {
    if (!item.length) return;
    const body = blocks(item);
    // A tight item is a text, not a paragraph.
    const first = body[0];
    if (first?.tagName === "P") body.splice(0, 1, ...first.childNodes);
    result.append(element("li", ...body));
    item = [];
  };
  for (const line of lines) {
    const m = line.match(ITEM);
    if (m && m[1].length <= indent.length + 1) {
      flush();
      item.push(m[3]);
    } else {
      item.push(line.slice(Math.min(line.search(/\S|$/), indent.length + marker.length + 1)));
    }
  }
  flush();
  return result;
}

// The lines from `at` on that belong to a block, by a test of each line.
function take(lines, at, belongs) {
  let end = at + 1;
  while (end < lines.length && belongs(lines[end], end)) ++end;
  return lines.slice(at, end);
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) ||
    ITEM.test(line);
}

function blocks(lines) {
  const result = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    let m;
    if (!line.trim()) {
      ++at;
    } else if ((m = line.match(FENCE))) {
      const close = new RegExp(`^ {0,3}${m[1][0]}{${m[1].length},}\\s*$`);
      let end = at + 1;
      while (end < lines.length && !close.test(lines[end])) ++end;
      result.push(codeBlock(lines.slice(at + 1, end).join("\n")));
      at = end + 1;
    } else if ((m = line.match(HEADING))) {
      result.push(element(`h${Math.min(m[1].length + 2, 6)}`, ...inline(m[2])));
      ++at;
    } else if (RULE.test(line)) {
      result.push(element("hr"));
      ++at;
    } else if (/^ {0,3}>/.test(line)) {
      const quoted = take(lines, at, (l) => l.trim() && !(startsBlock(l) && !/^ {0,3}>/.test(l)));
      result.push(element("blockquote", ...blocks(quoted.map((l) => l.replace(/^ {0,3}> ?/, "")))));
      at += quoted.length;
    } else if (ITEM.test(line)) {
      const items = take(lines, at, (l, i) => ITEM.test(l) || /^\s+\S/.test(l) ||
        (!l.trim() && (ITEM.test(lines[i + 1] ?? "") || /^\s+\S/.test(lines[i + 1] ?? ""))));
      result.push(list(items));
      at += items.length;
    } else if (line.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[at + 1] ?? "") &&
               (lines[at + 1] ?? "").includes("|")) {
      const rows = take(lines, at, (l) => l.includes("|"));
      result.push(table(rows));
      at += rows.length;
    } else {
      const text = take(lines, at, (l) => l.trim() && !startsBlock(l));
      result.push(element("p", ...inline(text.join("\n"))));
      at += text.length;
    }
  }
  return result;
}

export function render(text) {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"));
}
