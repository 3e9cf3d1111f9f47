// Compare: recorded comparisons of in-context learning with gradient descent, with all that was measured.
import { $, el, facts, fill, number, table, verdict } from "./dom.js";
import { call } from "./api.js";
import { key, lines } from "./charts.js";
import { HUES } from "./colours.js";

const words = (name) => name.replaceAll("_", " ");

function cell(v) {
  if (!v?.length || v[0] == null) return "";
  if (typeof v === "string") return v;
  if (v.length === 2) return v.map((n) => number(n)).join(", ");
  return el("span", {}, number(v[0]), v.length === 3 ? el("span", { class: "tip interval" }, ` [${number(v[1], 2)}, ${number(v[2], 2)}]`) : "");
}

// A table of the server, which a report shows too: texts, and numbers with their intervals.
const shownTable = (t) => table(t.header, t.rows.map((r) => r.map(cell)), t.title);

function choice(label, options, changed) {
  const select = el("select", { onchange: () => changed() }, ...options.map(([value, text]) => el("option", { value }, text)));
  return [select, el("label", {}, `${label} `, select)];
}

// A measure along one way of gradient descent, a curve for each rate, beside that of in-context learning.
function curve(c, shown, way, measure) {
  const points = c.curves[way], rates = [...new Set(points.map((p) => p.rate))].sort((a, b) => a - b).slice(0, HUES.length);
  const of = (rate) => points.filter((p) => p.rate === rate).sort((a, b) => a.epoch - b.epoch);
  const level = shown.sides["in-context"]?.[measure]?.[0], epochs = of(rates[0]).map((p) => p.epoch), heading = shown.measures[measure] ?? measure;
  const series = rates.map((r, i) => ({ values: of(r).map((p) => p[measure]), colour: HUES[i] }));
  if (level != null) series.push({ values: epochs.map(() => level), colour: "currentColor", dash: "5 4" });
  return [el("p", { class: "hint" }, `${heading}, ${shown.about[way] ?? way}`),
    lines({ label: `${heading} along gradient descent`, from: 1, by: epochs[0], xName: "epochs", series }),
    key([...rates.map((r, i) => [`rate ${r}`, HUES[i]]), ...(level == null ? [] : [["in-context learning", "currentColor"]])])];
}

function curves(c, shown) {
  const ways = Object.keys(c.curves ?? {}).filter((w) => c.curves[w].length);
  if (!ways.length) return null;
  const home = el("div");
  const draw = () => fill(home, ...curve(c, shown, way.value, measure.value));
  const [way, first] = choice("Way", ways.map((w) => [w, w]), draw);
  const [measure, second] = choice("Measure", [...shown.along, "loss"].filter((m) => c.curves[ways[0]][0][m] != null).map((m) => [m, shown.measures[m] ?? "loss on the demonstrations"]), draw);
  draw();
  return el("div", {}, el("h3", {}, "Along gradient descent"), el("div", { class: "row" }, first, second), home);
}

function card({ name, comparison: c, shown }) {
  const hint = (text) => (text ? el("p", { class: "hint" }, text) : null);
  return el("section", { class: "card" }, el("h2", {}, `${name}, ${c.setting.model ?? ""}`), hint(shown.setting), shownTable(shown.measured), hint(shown.measured.note), curves(c, shown),
    el("h3", {}, "What follows"), hint(shown.hypotheses),
    facts(Object.entries(c.verdicts).map(([k, v]) => [k.startsWith("hypothesis") ? words(k) : `${words(k)} (hypothesis ${v.hypothesis})`, el("span", {}, verdict(v.verdict), ` ${v.sentence}: ${number(v.value)} [${number(v.low, 2)}, ${number(v.high, 2)}]`)])),
    hint(shown.orders),
    ...shown.further.map((t) => el("details", {}, el("summary", {}, t.title), shownTable(t), hint(t.note))));
}

export async function start() {
  const known = await call("/api/compare").catch((error) => { $("compare-body").textContent = error.message; return null; });
  if (!known) return;
  if (known.length) fill($("compare-body"), ...known.map(card));
  else fill($("compare-body"), el("p", { class: "card" }, "No comparison is recorded: run ", el("code", {}, "inweights compare --task sst2 --out DIR"), " and start with ", el("code", {}, "inweights app --compare DIR"), "."));
}
