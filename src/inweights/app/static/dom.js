// Elements. Text from users and models only ever becomes text nodes, never markup.
export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c != null).map((c) => (c instanceof Node ? c : String(c))));
  return made;
}

export const fill = (node, ...children) => { node.replaceChildren(...children.filter((c) => c != null)); return node; };

export function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.filter((p) => p && p[1] != null && p[1] !== "").flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}

const GOOD = ["PASS", "GOOD", "HOLDS"], BAD = ["FAIL", "FAILED", "ERRATUM"];
export const verdict = (word) => el("span", { class: `verdict ${GOOD.includes(word) ? "good" : BAD.includes(word) ? "bad" : ""}` }, word ?? "–");

export function number(x, digits = 3) {
  if (x == null || Number.isNaN(x)) return "–";
  const size = Math.abs(x);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(1) : String(Number(x.toPrecision(digits)));
}

export const percent = (x) => (x == null ? "–" : `${(100 * x).toFixed(0)}%`);

export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function table(header, rows, caption) {
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption || "table" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...header.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, ...rows.map((r) => el("tr", {}, ...r.map((c, i) => (i ? el("td", {}, c) : el("th", { scope: "row" }, c))))))));
}
