// Parts of a context that can be switched off and moved: lines, or sentences where there is one line.
import { el } from "./dom.js";

export function splitParts(text) {
  const lined = text.trim().includes("\n");
  const split = text.match(lined ? /[^\n]*\n+|[^\n]+$/g : /[^.!?]*[.!?]+\s*|[^.!?]+$/g) ?? [];
  return split.filter((t) => t.trim()).map((t) => ({ text: /\s$/.test(t) || split.length === 1 ? t : `${t}${lined ? "\n" : " "}`, on: true }));
}

// Draws the list; `changed` is called with the new parts after a switch or a move.
export function renderParts(home, parts, changed) {
  let dragged = null;
  const update = (next, focus) => {
    renderParts(home, next, changed);
    if (focus) home.querySelector(focus)?.focus();
    changed(next);
  };
  const move = (from, to, focus) => {
    if (to < 0 || to >= parts.length || from === to) return;
    const next = [...parts];
    next.splice(to, 0, ...next.splice(from, 1));
    update(next, focus);
  };
  home.replaceChildren(...parts.map((part, i) => {
    const name = part.text.trim().slice(0, 40);
    const box = el("input", { type: "checkbox", "aria-label": `Use: ${name}`, onchange: (e) => update(parts.map((p, k) => (k === i ? { ...p, on: e.target.checked } : p)), `li:nth-child(${i + 1}) input`) });
    box.checked = part.on;
    const button = (to, sign, word) => el("button", { type: "button", "aria-label": `Move ${word}: ${name}`, disabled: to < 0 || to >= parts.length, onclick: () => move(i, to, `li:nth-child(${to + 1}) button:not(:disabled)`) }, sign);
    const row = el("div", { class: part.on ? "part" : "part off", draggable: "true" }, box, el("span", {}, part.text.trim()), button(i - 1, "↑", "up"), button(i + 1, "↓", "down"));
    const item = el("li", {}, row);
    row.addEventListener("dragstart", (e) => { dragged = i; e.dataTransfer.effectAllowed = "move"; e.dataTransfer.setData("text/plain", ""); });
    item.addEventListener("dragover", (e) => { if (dragged !== null) { e.preventDefault(); item.classList.add("over"); } });
    item.addEventListener("dragleave", () => item.classList.remove("over"));
    item.addEventListener("drop", (e) => { e.preventDefault(); item.classList.remove("over"); if (dragged !== null) move(dragged, i); });
    return item;
  }));
}
