// The ledger: all claims, and one of them with its numbers; exact ones can be run here.
import { $, el, facts, fill, number, table, verdict } from "./dom.js";
import { call, runner } from "./api.js";
import { trials } from "./charts.js";
import { HUES } from "./colours.js";

let claims = [];

function quantities(last, criteria) {
  return table(["quantity", "measured", "interval", "criterion", "control", "rival", "verdict"], Object.entries(last.quantities).map(([name, q]) =>
    [name.replaceAll("_", " "), number(q.value), `${number(q.low)} to ${number(q.high)}`, (last.criteria ?? criteria)[name] ?? "", number(q.control), number(q.rival), verdict(q.verdict)]));
}

function figures(last) {
  return Object.entries(last.quantities).filter(([, q]) => q.trials.length).map(([name, q]) => el("figure", {}, el("figcaption", { class: "hint" }, `${name.replaceAll("_", " ")}: each trial, and its control (size, log scale)`),
    trials({ label: `Trials of ${name} and of the control`, groups: [{ name: "measured", values: q.trials, colour: HUES[0] }, ...(q.control_trials.length ? [{ name: "control", values: q.control_trials, colour: HUES[1] }] : [])] })));
}

function open(claim) {
  $("ledger-claim").hidden = false;
  $("ledger-claim-title").textContent = claim.id;
  history.replaceState(null, "", `#ledger/${claim.id}`); // an address to keep or to send on
  const status = el("span", { role: "status" }), home = el("div", { id: "ledger-live" });
  const run = runner(status);
  const live = async () => {
    const r = await run("claim", { id: claim.id });
    if (r) fill(home, el("p", {}, "Now (quick form): ", verdict(r.now.verdict), ` recorded: ${r.recorded ?? "–"}; ${r.now.trials} trials, ${number(r.now.seconds)} s.`), quantities(r.now, claim.criteria), ...figures(r.now));
  };
  fill($("ledger-detail"),
    el("blockquote", {}, claim.sentence),
    facts([
      ["last verdict", claim.last ? verdict(claim.last.verdict) : "–"], ["why", claim.last?.why], ["paper", `${claim.authors ? `${claim.authors}: ` : ""}${claim.paper}, ${claim.where}${claim.arxiv ? `, arXiv ${claim.arxiv}` : ""}`],
      ["stratum", `${claim.stratum}: ${claim.meaning}`], ["the paper's value", claim.paper_value], ["measured", claim.measured], ["negative control", claim.control],
      ["rival explanation", claim.rival], ["deviations", claim.deviations.join(" ")], ["remark", claim.remark], ["counted", claim.uncounted], ["how to run it", el("code", {}, claim.command)],
    ]),
    claim.last ? quantities(claim.last, claim.criteria) : null,
    ...(claim.last ? figures(claim.last) : []),
    el("p", { class: "row actions" }, claim.live ? el("button", { type: "button", class: "primary", id: "ledger-run", onclick: live }, "Run it now") : el("span", { class: "hint" }, "Runs on the command line: it is empirical, needs a model, or takes long."), status),
    home);
  $("ledger-claim-title").focus();
  $("ledger-claim").scrollIntoView({ block: "start" });
}

function show() {
  const [paper, stratum, word, search] = ["paper", "stratum", "verdict", "search"].map((n) => $(`ledger-${n}`).value);
  const listed = claims.filter((c) => (!paper || c.paper === paper) && (!stratum || c.stratum === stratum) && (!word || (c.last?.verdict ?? "none") === word)
    && `${c.id} ${c.sentence}`.toLowerCase().includes(search.toLowerCase()));
  fill($("ledger-table").tBodies[0], ...listed.map((c) => el("tr", {}, el("td", {}, el("button", { type: "button", class: "link", onclick: () => open(c) }, c.id)), el("td", {}, verdict(c.last?.verdict)), el("td", {}, c.stratum), el("td", {}, c.sentence))));
  $("ledger-shown").textContent = `${listed.length} of ${claims.length}`;
}

export async function start() {
  $("ledger-counts").textContent = "Reading the record …";
  let known;
  try { known = await call("/api/ledger"); } catch (error) { $("ledger-counts").textContent = error.message; return; }
  claims = known.claims;
  const uncounted = claims.filter((c) => c.uncounted), words = [...new Set(Object.values(known.counts).flatMap((c) => Object.keys(c)))];
  fill($("ledger-counts"), el("h2", {}, "Verdicts by stratum"), table(["stratum", ...words], Object.entries(known.counts).map(([s, c]) => [s, ...words.map((w) => c[w] ?? "")])), uncounted.length ? el("p", { class: "hint" }, `${uncounted.length} more are listed below but not counted; each says why.`) : null);
  const options = { paper: claims.map((c) => c.paper), stratum: claims.map((c) => c.stratum), verdict: claims.map((c) => c.last?.verdict ?? "none") };
  for (const [name, values] of Object.entries(options)) fill($(`ledger-${name}`), el("option", { value: "" }, "all"), ...[...new Set(values)].map((v) => el("option", { value: v }, v.slice(0, 60))));
  $("ledger-filter").addEventListener("input", show);
  $("ledger-filter").addEventListener("submit", (e) => e.preventDefault());
  show();
  const linked = () => {
    const wanted = claims.find((c) => c.id === location.hash.split("/")[1]);
    if (wanted) open(wanted);
  };
  document.addEventListener("screen", linked);
  linked();
}
