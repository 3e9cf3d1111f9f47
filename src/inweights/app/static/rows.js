// Rows to weights: the decision boundary of TabPFN while training rows move from its context into its weights.
import { $, el, facts, fill, number, verdict } from "./dom.js";
import { runner } from "./api.js";
import { HUES, token } from "./colours.js";

const CASES = { full: "all rows in the context", patched: "kept rows, the others as weights", bare: "kept rows alone (control)", control: "random weights of equal norm (control)" };
const MARKS = ["circle", "square", "triangle"];
let kept = new Set(), run, last = null;

function chips() {
  const rows = Number($("rows-rows").value);
  fill($("rows-list"), ...Array.from({ length: rows }, (_, i) => {
    const label = last?.points?.[i] ? `${i + 1}: ${last.points[i].map((v) => number(v)).join(", ")}, class ${last.labels[i]}` : `row ${i + 1}`;
    return el("button", { type: "button", "aria-pressed": String(kept.has(i)), title: kept.has(i) ? "in the context" : "in the weights", onclick: (e) => {
      if (kept.has(i)) kept.delete(i); else kept.add(i);
      e.currentTarget.setAttribute("aria-pressed", String(kept.has(i)));
      $("rows-kept").value = kept.size;
      $("rows-kept-value").textContent = kept.size;
      stale();
    } }, label);
  }));
}

// The maps are those of the rows before: said, as drawing them again takes seconds.
function stale() {
  if (last) $("rows-status").textContent = "Rows were moved: press the button to draw the boundary again.";
}

function reset() {
  const rows = Number($("rows-rows").value), count = Math.min(rows, Number($("rows-kept").value));
  $("rows-kept").max = rows;
  $("rows-kept-value").textContent = count;
  kept = new Set(Array.from({ length: count }, (_, i) => i));
  chips();
  stale();
}

function mark(pen, shape, x, y, filled) {
  pen.beginPath();
  if (shape === "circle") pen.arc(x, y, 4.5, 0, 7);
  else if (shape === "square") pen.rect(x - 4, y - 4, 8, 8);
  else { pen.moveTo(x, y - 5); pen.lineTo(x + 5, y + 4); pen.lineTo(x - 5, y + 4); pen.closePath(); }
  pen.lineWidth = 1.5;
  pen.strokeStyle = token("--text");
  pen.fillStyle = filled ? token("--text") : token("--card");
  pen.fill();
  pen.stroke();
}

function map(r, name) {
  const size = 260, cell = size / r.grid, canvas = el("canvas", { width: size, height: size, role: "img", "aria-label": `Classes over the grid: ${CASES[name]}` });
  const pen = canvas.getContext("2d");
  r.classes[name].forEach((c, i) => {
    pen.globalAlpha = 0.55;
    pen.fillStyle = [HUES[0], HUES[4], HUES[2]][c % 3];
    pen.fillRect((i % r.grid) * cell, size - (Math.floor(i / r.grid) + 1) * cell, cell + 0.5, cell + 0.5);
  });
  pen.globalAlpha = 1;
  const place = (v, k) => ((v - r.low[k]) / (r.high[k] - r.low[k])) * (size - cell) + cell / 2;
  r.points.forEach(([x, y], i) => { if (name === "full" || r.kept.includes(i)) mark(pen, MARKS[r.labels[i] % 3], place(x, 0), size - place(y, 1), name === "full" && !r.kept.includes(i)); });
  const same = r.classes[name].filter((c, i) => c === r.classes.full[i]).length;
  return el("figure", { class: "answer", id: `rows-${name}` }, el("h3", {}, CASES[name]), canvas, el("figcaption", { class: "hint" }, `same class at ${same} of ${r.classes.full.length} points; largest difference of logits ${number(r.errors[name], 2)}`));
}

function show() {
  if (!last) return;
  const r = last;
  $("rows-hint").textContent = `Press a row to move it between context (solid) and weights (dashed). Its numbers: ${r.columns.join(" and ")}.`;
  fill($("rows-maps"), ...Object.keys(CASES).map((name) => map(r, name)));
  fill($("rows-proof"), el("p", {}, verdict(r.verdict), ` ${r.points.length - r.kept.length} rows are weights, ${r.kept.length} are read.`),
    facts([["largest logit error", el("span", { id: "rows-error", "data-value": r.errors.patched }, number(r.errors.patched, 2))], ["without the weights (control)", number(r.errors.bare)], ["random weights (control)", number(r.errors.control)], ["allowed", number(r.tolerance, 2)], ["columns", r.columns.join(" and ")],
      ["marks", "circle, square and triangle are classes; filled: rows that became weights"]]));
}

async function go(event) {
  event.preventDefault();
  const result = await run("rows", { data: $("rows-data").value, rows: Number($("rows-rows").value), grid: Number($("rows-grid").value), kept: [...kept].sort((a, b) => a - b) });
  if (!result) return;
  last = result;
  chips();
  show();
}

export function start() {
  run = runner($("rows-status"), $("rows-cancel"));
  reset();
  for (const id of ["rows-rows", "rows-kept"]) $(id).addEventListener("input", reset);
  $("rows-data").addEventListener("change", () => { last = null; reset(); });
  $("rows-form").addEventListener("submit", go);
  document.addEventListener("theme", show);
}
