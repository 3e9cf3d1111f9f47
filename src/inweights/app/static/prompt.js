// Prompt to weights.
import { $, el, facts, fill, number, percent, verdict } from "./dom.js";
import { call, runner } from "./api.js";
import { Heat, shown } from "./heat.js";
import { bars, key, lines, matrix } from "./charts.js";
import { renderParts, splitParts } from "./parts.js";
import { HUES } from "./colours.js";

const WHO = ["prompted", "bare", "patched", "folded"];
const MEANING = { prompted: "with the context", bare: "without it", patched: "weights in its place", folded: "one adapter for all queries" };
let parts = [], heat, run, runLayer, last = null, drawn = null; // `drawn`: the request whose map is shown

const context = () => parts.filter((p) => p.on).map((p) => p.text).join("");

function request() {
  return {
    model: $("model").value, context: context(), query: $("prompt-query").value, chat: $("prompt-chat").checked,
    dtype: $("prompt-dtype").value, new_tokens: Number($("prompt-new").value), strength: Number($("prompt-strength").value),
    fold: $("prompt-fold").value || null,
  };
}

function answers() {
  fill($("prompt-texts"), ...WHO.map((who) => el("div", { class: `answer ${who}` }, el("h3", {}, `${who} `, el("span", { class: "tip" }, MEANING[who])), el("p", { id: `text-${who}` }))));
  if (!$("prompt-fold").value) $("text-folded").textContent = "Choose a fold above; the screen Fold makes them.";
}

function showProof(p) {
  const amplified = p.blocks.map((b) => b.amplification ?? 1);
  fill($("prompt-proof"),
    el("p", {}, verdict(p.verdict), " ", p.verdict === "PASS" ? "Without the context, the changed weights give the logits of the prompted model." : "See the numbers below."),
    facts([
      ["largest logit error, patched", el("span", { id: "proof-error", "data-value": p.max_abs_logit_error }, number(p.max_abs_logit_error, 2))],
      ["bare (control)", el("span", { id: "proof-control", "data-value": p.bare_max_abs_logit_error }, `${number(p.bare_max_abs_logit_error)}: without the changes`)],
      ["allowed", `${number(p.tolerance, 2)}, and 1% of the control`],
      ["most likely next tokens", p.top1_match ? "equal at every query token" : "differ"],
      ["blocks patched, precision", `${p.layers}, ${p.dtype}`],
      ["size of the changes", `${(p.bytes / 1024).toFixed(0)} kB in factors`],
      ["largest amplification", number(Math.max(...amplified))],
    ]),
    ...p.warnings.map((w) => el("p", { class: "hint" }, w)));
}

function moved(result) {
  const size = result.heat.totals.reduce((s, row) => s + row.at(-1), 0) / result.heat.totals.length;
  const now = { size, text: result.texts.texts.patched, first: result.heat.tokens.join("") };
  const t = result.texts;
  const parts = [`${percent(t.matching)} of the generated tokens are equal, prompted and patched${t.verdict ? ` (${t.verdict})` : `, at strength ${t.strength}: every block's change times ${t.strength}`}.`,
    `Mean ‖ΔW‖/‖W‖ over layers: ${number(size)}.`];
  if (last && last.first !== now.first) parts.push(`Before this change of the context: ${number(last.size)}; the patched answer ${last.text === now.text ? "is the same" : "has changed"}.`);
  last = now;
  $("prompt-match").textContent = parts.join(" ");
}

async function openLayer(layer, token) {
  const card = $("layer-card");
  card.hidden = false;
  $("layer-title").textContent = `Layer ${layer}`;
  const status = el("p", { role: "status" });
  fill($("prompt-layer"), status);
  runLayer = runner(status);
  const r = await runLayer("layer", { ...(drawn ?? request()), layer, token });
  if (!r) return;
  const names = r.tokens.map(shown), read = heat.tokens.map(shown), singular = Object.entries(r.spectrum);
  fill($("prompt-layer"),
    facts([
      ["matrix", r.matrix], ["‖ΔW‖ of the last query token", el("span", { id: "layer-norm", "data-value": r.norm }, number(r.norm))],
      ["‖ΔW‖/‖W‖ of it", number(r.relative.at(-1))], ["rank for one token", r.report.rank],
      ["amplification of an error", number(r.report.amplification)], ["exact", r.report.exact ? "yes" : `no, residual ${number(r.report.residual)}`],
      ["one change for the whole query", `rank ${r.static.rank}, ${r.static.exact ? "exact" : "not exact"}, condition ${number(r.static.condition)}`],
    ]),
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, `Alignment of the step of token ${token + 1} “${read[token]}” with those of the other context tokens (cosine)`),
        bars({ label: "Cosine of the step of this context token with that of each other one", values: r.steps, names: read, xName: "context token", marked: token }),
        el("p", { class: "hint" }, "1: moves the weights of this layer in the same direction. 0: has nothing to do with it. −1: undoes it.")),
      el("div", {}, el("h3", {}, "‖ΔW‖/‖W‖ of each query token"), bars({ label: "Size of the update of each query token", values: r.relative, names, xName: "query token" })),
      el("div", {}, el("h3", {}, "Alignment of the updates of query tokens (cosine)"), matrix({ label: "Cosines between the updates of query tokens", values: r.alignment, names }), el("p", { class: "hint" }, "Dark: 0, orthogonal. Yellow: ±1, parallel. Numbers on pointing.")),
      el("div", {}, el("h3", {}, "Spectrum of the one change for the whole query"),
        lines({ label: "Singular values of the static update", log: true, from: 1, xName: "singular value", series: singular.map(([name, v], i) => ({ name, values: v, colour: HUES[i % 8] })) }),
        key(singular.map(([name], i) => [name.split(".").slice(-3, -1).join("."), HUES[i % 8]])))));
  $("layer-title").focus();
}

async function go(event) {
  event?.preventDefault();
  if (!context().trim()) { $("prompt-status").textContent = "Every part is switched off: leave one on."; return; }
  answers();
  $("layer-card").hidden = true;
  const asked = request();
  const result = await run("prompt", asked, (news) => {
    if (news.what === "heat") drawn = asked;
    if (news.what === "heat") heat.set(news.tokens, news.norms);
    if (news.what === "proof") showProof(news);
    if (news.what === "text") $(`text-${news.who}`).textContent = news.text;
  });
  if (!result) return;
  drawn = asked;
  heat.set(result.heat.tokens, result.heat.norms);
  showProof(result.proof);
  for (const [who, text] of Object.entries(result.texts.texts)) $(`text-${who}`).textContent = text;
  moved(result);
}

function restart() {
  parts = splitParts($("prompt-context").value);
  renderParts($("prompt-parts"), parts, (next) => { parts = next; go(); });
}

async function folds() {
  const made = await call("/api/folds").catch(() => []);
  const chosen = $("prompt-fold").value;
  const usable = made.filter((f) => f.state === "done" && f.model === $("model").value);
  $("prompt-fold").replaceChildren(el("option", { value: "" }, "none"), ...usable.map((f) => el("option", { value: f.id }, f.context.slice(0, 40))));
  $("prompt-fold").value = usable.some((f) => f.id === chosen) ? chosen : "";
}

export function start() {
  heat = new Heat($("prompt-heat"), openLayer);
  run = runner($("prompt-status"), $("prompt-cancel"));
  restart();
  answers();
  folds();
  $("prompt-form").addEventListener("submit", go);
  $("prompt-context").addEventListener("input", restart);
  $("prompt-strength").addEventListener("input", () => { $("prompt-strength-value").textContent = Number($("prompt-strength").value).toFixed(2); });
  $("prompt-strength").addEventListener("change", () => last && go());
  $("model").addEventListener("change", folds);
  document.addEventListener("screen", (e) => e.detail === "prompt" && folds());
}
