// Compare: recorded comparisons of in-context learning with gradient descent.
import { $, el, facts, fill, number, table, verdict } from "./dom.js";
import { call } from "./api.js";
import { key, lines } from "./charts.js";
import { HUES } from "./colours.js";

const cell = (v) => (v?.length ? `${number(v[0])}${v.length === 3 ? ` [${number(v[1], 2)}, ${number(v[2], 2)}]` : ""}` : "");

function sides(c) {
  const columns = { accuracy: [c.accuracy, "accuracy"], "over labels": [c.accuracy, "accuracy_labels"], "order sensitivity": [c.order_sensitivity, "sensitivity"], "token overlap": [c.token_overlap, "token_overlap"], "KL": [c.kl, "kl"] };
  const names = [...new Set(Object.values(columns).flatMap(([t]) => Object.keys(t ?? {})))];
  return table(["side or control", ...Object.keys(columns)], names.map((n) => [n, ...Object.values(columns).map(([t, m]) => cell(t?.[n]?.[m]))]), "Values with 95% intervals; gradient descent by its best checkpoint");
}

function curves(c) {
  const points = c.curves?.gd ?? [], rates = [...new Set(points.map((p) => p.rate))].slice(0, 8);
  if (!rates.length) return null;
  const of = (rate) => points.filter((p) => p.rate === rate).sort((a, b) => a.epoch - b.epoch);
  const level = c.accuracy?.["in-context"]?.accuracy_labels?.[0] ?? c.accuracy?.["in-context"]?.accuracy?.[0];
  const epochs = of(rates[0]).length;
  return el("div", {}, el("h3", {}, "Accuracy of gradient descent at its checkpoints"),
    lines({ label: "Accuracy of gradient descent by checkpoint, and of in-context learning", xName: `checkpoint, every ${of(rates[0])[1] ? of(rates[0])[1].epoch - of(rates[0])[0].epoch : "?"} epochs`, series: [...rates.map((r, i) => ({ values: of(r).map((p) => p.accuracy_labels ?? p.accuracy), colour: HUES[i] })), { values: Array(epochs).fill(level), colour: "currentColor", dash: "5 4" }] }),
    key([...rates.map((r, i) => [`rate ${r}`, HUES[i]]), ["in-context learning", "currentColor"]]));
}

export async function start() {
  const known = await call("/api/compare").catch((error) => { $("compare-body").textContent = error.message; return null; });
  if (!known) return;
  if (!known.length) { fill($("compare-body"), el("p", { class: "card" }, "No comparison is recorded: run ", el("code", {}, "inweights compare --task sst2 --out DIR"), " and start with ", el("code", {}, "inweights app --compare DIR"), ".")); return; }
  fill($("compare-body"), ...known.map(({ name, comparison: c }) => el("section", { class: "card" },
    el("h2", {}, `${name}, ${c.setting.model ?? ""}`),
    el("p", { class: "hint" }, Object.entries(c.setting).filter(([, v]) => ["string", "number"].includes(typeof v)).map(([k, v]) => `${k.replaceAll("_", " ")} ${v}`).join(", ")),
    sides(c), curves(c), el("h3", {}, "What follows"),
    facts(Object.entries(c.verdicts).map(([k, v]) => [k.replaceAll("_", " "), el("span", {}, verdict(v.verdict), ` ${v.sentence}: ${number(v.value)} [${number(v.low, 2)}, ${number(v.high, 2)}]`)])),
    c.largest_difference_between_orders == null ? null : el("p", { class: "hint" }, `Largest difference of gradient descent between orders of the same demonstrations: ${number(c.largest_difference_between_orders)}.`))));
}
