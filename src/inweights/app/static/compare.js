// Compare: recorded comparisons of in-context learning with gradient descent, with all that was measured.
import { $, el, facts, fill, number, table, verdict } from "./dom.js";
import { call } from "./api.js";
import { key, lines } from "./charts.js";
import { HUES } from "./colours.js";

// Each measure with its heading, and where a record has it: {side: {measure: [value, low, high]}}.
const MEASURES = {
  accuracy: ["accuracy", (c) => c.accuracy], accuracy_labels: ["accuracy over labels", (c) => c.accuracy],
  sensitivity: ["order sensitivity", (c) => c.order_sensitivity], sensitivity_labels: ["sensitivity over labels", (c) => c.order_sensitivity],
  token_overlap: ["token overlap", (c) => c.token_overlap],
  penalised: ["overlap cosine, penalised", (c) => c.overlap_cosine?.penalised], digest: ["overlap cosine, digest", (c) => c.overlap_cosine?.digest], padded: ["overlap cosine, padded", (c) => c.overlap_cosine?.padded],
  kl: ["KL", (c) => c.kl], calibration: ["calibration error", (c) => c.calibration],
};
const DRAWN = ["accuracy_labels", "accuracy", "token_overlap", "penalised", "digest", "padded", "kl"];
const FURTHER = {
  sizes: "In-context learning with 0 to 8 demonstrations", many: "Gradient descent on many demonstrations", attention: "Similarity of attention and of its outputs",
  updates: "Alignment of gradient and implicit updates", martingale: "Martingale tests of continuations",
};
const words = (name) => name.replaceAll("_", " ");

function cell(v) {
  if (!v?.length || v[0] == null) return "";
  return el("span", {}, number(v[0]), v.length === 3 ? el("span", { class: "tip interval" }, ` [${number(v[1], 2)}, ${number(v[2], 2)}]`) : "");
}

function sides(c) {
  const shown = Object.entries(MEASURES).filter(([, [, of]]) => of(c));
  const names = [...new Set(shown.flatMap(([, [, of]]) => Object.keys(of(c))))];
  return table(["side or control", ...shown.map(([, [heading]]) => heading)], names.map((n) => [n, ...shown.map(([m, [, of]]) => cell(of(c)[n]?.[m]))]),
    "Means with 95% intervals");
}

function choice(label, options, changed) {
  const select = el("select", { onchange: () => changed() }, ...options.map(([value, text]) => el("option", { value }, text)));
  return [select, el("label", {}, `${label} `, select)];
}

// A measure along one way of gradient descent, a curve for each rate, beside that of in-context learning.
function curve(c, way, measure) {
  const points = c.curves[way], rates = [...new Set(points.map((p) => p.rate))].sort((a, b) => a - b).slice(0, HUES.length);
  const of = (rate) => points.filter((p) => p.rate === rate).sort((a, b) => a.epoch - b.epoch);
  const level = MEASURES[measure][1](c)?.["in-context"]?.[measure]?.[0], epochs = of(rates[0]).map((p) => p.epoch);
  const every = epochs.length > 1 ? `checkpoint, every ${epochs[1] - epochs[0]} epochs` : `after ${epochs[0]} epochs`;
  const series = rates.map((r, i) => ({ values: of(r).map((p) => p[measure]), colour: HUES[i] }));
  if (level != null) series.push({ values: epochs.map(() => level), colour: "currentColor", dash: "5 4" });
  return [lines({ label: `${MEASURES[measure][0]} along gradient descent`, from: 1, xName: every, series }),
    key([...rates.map((r, i) => [`rate ${r}`, HUES[i]]), ...(level == null ? [] : [["in-context learning", "currentColor"]])])];
}

function curves(c) {
  const ways = Object.keys(c.curves ?? {}).filter((w) => c.curves[w].length);
  if (!ways.length) return null;
  const home = el("div");
  const draw = () => fill(home, ...curve(c, way.value, measure.value));
  const [way, first] = choice("Way", ways.map((w) => [w, w]), draw);
  const [measure, second] = choice("Measure", DRAWN.filter((m) => c.curves[ways[0]][0][m] != null).map((m) => [m, MEASURES[m][0]]), draw);
  draw();
  return el("div", {}, el("h3", {}, "Along gradient descent"), el("div", { class: "row" }, first, second), home);
}

function sparsity(s) {
  if (!s?.shares) return null;
  const rows = Object.entries(s.shares).flatMap(([kind, by]) => Object.entries(by).map(([how, shares]) => [`${kind}, ${how}`, ...shares.map((v) => number(v)), number(s.needed?.[kind], 4)]));
  return el("details", {}, el("summary", {}, "How sparse the matrices of attention are"),
    table(["share of entries below", ...s.deltas.map((d) => d.toExponential(0)), "needed"], rows, "Needed: by the constructions"), el("p", { class: "hint" }, `Relative: to the deviation of each matrix.${s.quantised ? " The weights come from a quantised file: this measures the quantiser." : ""}`));
}

// Whatever else a record has, as a path and its number; of several numbers the mean.
function flat(value, path = "") {
  if (Array.isArray(value) && value.length && value.every((v) => typeof v === "number")) return [[path, value.length <= 3 ? value.map((v) => number(v)).join(", ") : `${number(value.reduce((a, b) => a + b) / value.length)} (mean of ${value.length})`]];
  if (value && typeof value === "object") return Object.entries(value).flatMap(([k, v]) => flat(v, path ? `${path}, ${words(k)}` : words(k)));
  return [[path, typeof value === "number" ? number(value) : String(value ?? "–")]];
}

function setting(c) {
  const about = Object.entries(c.setting).filter(([k, v]) => k !== "folder" && ["string", "number"].includes(typeof v)).map(([k, v]) => `${words(k)} ${v}`);
  return el("p", { class: "hint" }, [...about, ...(c.setting.ways ? [`ways ${c.setting.ways.join(" ")}`] : [])].join(", "));
}

function card({ name, comparison: c }) {
  return el("section", { class: "card" }, el("h2", {}, `${name}, ${c.setting.model ?? ""}`), setting(c), sides(c),
    el("p", { class: "hint" }, "Gradient descent is judged by its best checkpoint and rate in each column. Overlap is that with in-context learning, in whose own row it is that of two orders of the demonstrations."), curves(c),
    el("h3", {}, "What follows"),
    facts(Object.entries(c.verdicts).map(([k, v]) => [words(k), el("span", {}, verdict(v.verdict), ` ${v.sentence}: ${number(v.value)} [${number(v.low, 2)}, ${number(v.high, 2)}]`)])),
    c.largest_difference_between_orders == null ? null : el("p", { class: "hint" }, `Largest difference of gradient descent between orders of the same demonstrations: ${number(c.largest_difference_between_orders)}.`),
    ...Object.entries(c.further ?? {}).map(([k, v]) => el("details", {}, el("summary", {}, FURTHER[k] ?? words(k)), table(["", "measured"], flat(v), FURTHER[k] ?? words(k)))),
    sparsity(c.sparsity));
}

export async function start() {
  const known = await call("/api/compare").catch((error) => { $("compare-body").textContent = error.message; return null; });
  if (!known) return;
  if (known.length) fill($("compare-body"), ...known.map(card));
  else fill($("compare-body"), el("p", { class: "card" }, "No comparison is recorded: run ", el("code", {}, "inweights compare --task sst2 --out DIR"), " and start with ", el("code", {}, "inweights app --compare DIR"), "."));
}
