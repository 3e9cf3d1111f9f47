// Trajectory: the implicit descent as tokens arrive, animated, beside linear regression in the lab.
import { $, el, fill, number } from "./dom.js";
import { runner } from "./api.js";
import { key, lines, plane } from "./charts.js";
import { HUES, css, scale } from "./colours.js";

let data = null, playing = null, run;

const mean = (rows, t) => rows.reduce((s, r) => s + r[t], 0) / rows.length;

function draw() {
  if (!data) return;
  const share = Number($("trajectory-at").value) / 1000, path = data.path, lab = data.lab;
  const upto = Math.round(share * path.tokens.length), examples = Math.round(share * (lab.block.length - 1));
  $("trajectory-at-value").textContent = `${upto} of ${path.tokens.length} tokens, ${examples} of ${lab.block.length - 1} examples`;
  fill($("trajectory-text"), ...path.tokens.map((t, i) => el("span", { class: i < upto ? "read" : "" }, t)));
  const n = path.layers.length, chosen = [...new Set([0, Math.floor(n / 4), Math.floor(n / 2), Math.floor((3 * n) / 4), n - 1])];
  const dark = document.documentElement.dataset.theme === "dark"; // the end of the scale that is near the background is left out
  const colour = (i) => css(scale((dark ? 0.3 : 0) + (0.7 * i) / Math.max(1, n - 1)));
  const total = path.tokens.map((_, t) => mean(path.totals, t));
  fill($("trajectory-model"),
    el("h3", {}, "How far the weights have moved, ‖ΔWᵢ‖/‖W‖"),
    lines({ label: "Size of the update after each token, by layer", xName: "tokens read", from: 1, upto, series: chosen.map((l) => ({ values: path.totals[l], colour: colour(l) })) }),
    key(chosen.map((l) => [`layer ${l}`, colour(l)])),
    el("h3", {}, "The step of each token, ‖ΔWᵢ₊₁ − ΔWᵢ‖"),
    lines({ label: "Step of each token, by layer", log: true, xName: "token", from: 1, upto, series: chosen.map((l) => ({ values: path.norms[l], colour: colour(l), width: 1.5 })) }),
    el("p", { class: "hint", id: "trajectory-mean", "data-value": total.at(-1) }, upto ? `After ${upto} tokens the weights of all layers have moved by ${number(total[upto - 1])} of their size on average.` : ""));
  fill($("trajectory-lab"),
    el("h3", {}, "Weights in the plane"),
    plane({ label: "Weights of the block, of gradient descent, and the true ones", upto: examples + 1, paths: [{ points: lab.block, colour: HUES[0] }, { points: lab.descent, colour: HUES[1], dash: "5 4" }], marks: [{ name: "truth", point: lab.truth, colour: HUES[2] }] }),
    key([["what the trained block predicts with", HUES[0]], [`gradient descent, as many steps, rate ${lab.rate}`, HUES[1]], ["truth", HUES[2]]]),
    el("p", { class: "hint" }, examples ? `After ${examples} examples: block (${lab.block[examples].map((v) => number(v)).join(", ")}), gradient descent (${lab.descent[examples].map((v) => number(v)).join(", ")}), truth (${lab.truth.map((v) => number(v)).join(", ")}). A linear fit explains ${number(100 * lab.fit[examples])}% of the block's predictions.` : "No example was read yet."),
    el("h3", {}, "The block's own step, ‖ΔWᵢ − ΔWᵢ₋₁‖"),
    lines({ label: "Increments of the block's update", log: true, xName: "example", from: 1, upto: examples, series: [{ values: lab.increments, colour: HUES[0] }] }),
    el("p", { class: "hint" }, `A one-block transformer trained for ${lab.steps} steps on prompts of this kind.`));
}

function play() {
  if (playing) { clearInterval(playing); playing = null; $("trajectory-play").textContent = "Play"; return; }
  const slider = $("trajectory-at"), step = 1000 / Math.max(data.path.tokens.length, data.lab.block.length - 1);
  if (Number(slider.value) >= 1000) slider.value = 0;
  let at = Number(slider.value);
  $("trajectory-play").textContent = "Pause";
  playing = setInterval(() => {
    at = Math.min(1000, at + step);
    slider.value = at;
    draw();
    if (at >= 1000) play();
  }, 220);
}

async function go(event) {
  event.preventDefault();
  const result = await run("trajectory", { model: $("model").value, context: $("trajectory-context").value, query: $("trajectory-query").value, examples: Number($("trajectory-examples").value), seed: Number($("trajectory-seed").value) });
  if (!result) return;
  data = result;
  $("trajectory-play").disabled = $("trajectory-at").disabled = false;
  $("trajectory-at").value = 1000;
  draw();
}

export function start() {
  run = runner($("trajectory-status"), $("trajectory-cancel"));
  $("trajectory-form").addEventListener("submit", go);
  $("trajectory-play").addEventListener("click", play);
  $("trajectory-at").addEventListener("input", draw);
  document.addEventListener("theme", draw);
}
