// Fold: a prompt or document into an adapter, its report, and a chat with it.
import { $, clock, el, facts, fill, number, percent, table, verdict } from "./dom.js";
import { OVER, call, cancel, follow, result, runner, submit } from "./api.js";

const WHO = ["prompted", "bare", "folded"];
const READ = { prompted: "the whole prompt", window: "the passage with the answer", retrieved: "passages retrieved by BM25", bare: "nothing", folded: "the fold", random: "control: random updates of equal norms" };
// As the library names them, in their order; a prompt that states no facts has fewer.
const STAGES = ["loading the model", "studying the prompt", "queries", "answers", "fitting the adapter", "fitting the facts", "measuring on hand-written questions", "measuring in conversations", "looking at unrelated text", "answering with passages and without", "answering with the fold"];
let shownId = null, history = null, runChat;
const NOTHING = { pieces: [], questions: [], written: [], queries: [] };
let study = NOTHING, ticking = null;

async function list() {
  const folds = await call("/api/folds").catch(() => []);
  fill($("fold-list"), ...(folds.length ? folds.map((f) => el("li", {},
    el("button", { type: "button", "aria-current": f.id === shownId ? "true" : null, onclick: () => open(f.id) }, f.context.slice(0, 60)),
    el("span", { class: "tip" }, `${f.method}, ${f.state}${f.resumed ? ", resumed after a stop of the server" : ""}`))) : [el("li", {}, "None yet.")]));
  return folds;
}

function showProgress(view) {
  const p = view.progress ?? {}, home = $("fold-progress");
  clearInterval(ticking);
  if (OVER.includes(view.state)) {
    fill(home, view.state === "done" ? null : el("p", { class: "bad" }, view.error || view.state));
    return;
  }
  const bar = el("progress", { max: p.total || 1, "aria-label": "Progress of this stage" });
  if (p.total) bar.value = p.done;
  else bar.removeAttribute("value");
  const spent = el("span", {}), seen = performance.now();
  const tick = () => {
    const since = (performance.now() - seen) / 1000, left = p.left > since ? `, about ${clock(p.left - since)} left in this stage` : "";
    spent.textContent = p.stage ? `${left || `, for ${clock((p.spent ?? 0) + since)} so far`}` : "";
  };
  tick();
  ticking = setInterval(tick, 1000);
  const past = view.stages.map(([name, seconds]) => el("li", {}, `✓ ${name} `, el("span", { class: "tip" }, clock(seconds))));
  const begun = (s) => p.stage === s || view.stages.some(([name]) => name === s);
  const next = STAGES.slice(STAGES.findLastIndex(begun) + 1);
  fill(home,
    past.length ? el("ol", { class: "plain stages", "aria-label": "Stages that are over" }, ...past) : null,
    view.resumed ? el("p", { class: "hint", id: "fold-resumed" }, "The server was stopped during this fold; it was resumed.") : null,
    el("p", {}, view.state === "queued" ? "Waiting for the worker …" : `${p.stage ?? "starting"}${p.total ? `: ${p.done} of ${p.total}` : ""}`, spent),
    bar, next.length && view.state !== "queued" ? el("p", { class: "hint", id: "fold-next" }, `Still to come: ${next.join(", ")}.`) : null, el("button", { type: "button", onclick: () => cancel(view.id).catch(() => {}) }, "Cancel this fold"));
}

function showPieces() {
  const of = (questions, i) => questions.filter((q) => q.piece === i).map((q) => q.query);
  const asked = study.pieces.map((_, i) => [of(study.questions, i), of(study.written, i)]);
  const checked = study.written.length ? `, ${study.written.length} more being checked` : "";
  fill($("fold-pieces"),
    study.pieces.length ? el("h3", {}, `${study.pieces.length} pieces, ${study.questions.length} questions about them${checked}`) : null,
    ...study.pieces.map((text, i) => el("details", { open: study.pieces.length < 8 }, el("summary", {}, `${text} (${asked[i][0].length})`), el("ul", {}, ...asked[i][0].map((q) => el("li", {}, q)), ...asked[i][1].map((q) => el("li", { class: "tip" }, q))))),
    study.queries.length ? el("details", {}, el("summary", {}, `${study.queries.length} made-up queries of other kinds`), el("ul", {}, ...study.queries.map((q) => el("li", {}, q)))) : null);
}

function recovered(r) {
  const interval = Number.isFinite(r?.low) && Number.isFinite(r?.high) ? el("span", { class: "tip interval" }, ` [${number(r.low, 2)}, ${number(r.high, 2)}]`) : null;
  return el("span", {}, number(r?.value ?? r), interval);
}

function sets(f) {
  const rows = [...f.sets, ...(f.studied ? [f.studied] : [])].map((s) => [`${s.name} (${s.queries})`, recovered(s.recovered), `${number(s.kl_bare)} → ${number(s.kl_folded)}`, `${percent(s.agree_bare)} → ${percent(s.agree_folded)}`,
    Object.entries(s.controls ?? {}).map(([k, v]) => `${k} ${number(v.value ?? v, 2)}`).join("; ")]);
  return rows.length ? table(["queries", "recovered", "KL to prompted, bare → folded", "same token", "controls"], rows, "Recovered: 1 is the prompt, 0 is none") : null;
}

function turns(f) {
  const rows = (f.turns ?? []).map((t) => [t.name, recovered(t.recovered), `${number(t.kl_bare)} → ${number(t.kl_folded)}`]);
  return rows.length ? table([`${f.turns[0].queries} conversations`, "recovered", "KL to prompted, bare → folded"], rows, "Over several turns") : null;
}

// Each fact by its question: those that the fold does not know come first.
function known(each, reference) {
  const sign = (score) => (score === 1 ? "✓ right" : score === 0 ? "✗ wrong" : number(score, 2));
  const rows = [...each].sort((a, b) => a.folded - b.folded).map((e) => [e.question, e.value, sign(e.reference), sign(e.folded)]);
  return el("details", { id: "fold-facts", open: each.length < 20 }, el("summary", {}, `${each.filter((e) => e.folded > 0).length} of ${each.length} are answered by the fold: each of them`),
    table(["question", "value", reference, "folded"], rows, "Facts that the fold does not know come first"));
}

function showReport(id, r) {
  const f = r.fidelity, recall = f.recall, side = f.side_effects, saved = f.saved;
  const rights = recall ? Object.entries(recall.accuracy).filter(([k]) => READ[k]).map(([k, v]) => [READ[k], v == null ? "beyond the model's window" : percent(v)]) : [];
  const shown = [...(recall?.shown ?? []), ...f.shown];
  fill($("fold-report"),
    el("p", {}, verdict(r.verdict), ` rank ${r.rank}, ${(r.bytes / 2 ** 20).toFixed(1)} MiB, ${clock(r.seconds_total)} in total${r.resumed ? " since it was resumed" : ""}. `,
      el("a", { href: `/api/folds/${id}/adapter.zip`, download: "", id: "fold-download" }, "Download the adapter")),
    ...r.warnings.map((w) => el("p", { class: "hint" }, w)),
    r.facts ? el("p", {}, `${r.facts} facts are stated; ${r.studied} questions ask for ${r.facts_asked} of them, in ${percent(r.coverage)} of the pieces.`) : null,
    rights.length ? el("h3", {}, "Which facts are known") : null,
    rights.length ? table(["questions about the prompt, with", "right answers"], rights) : null,
    recall?.each?.length ? known(recall.each, recall.reference) : null,
    el("h3", {}, "How much of the prompt's effect is kept"), sets(f), turns(f),
    side ? el("h3", {}, "What changed in unrelated text") : null,
    side ? facts([["KL a token, folded", number(side.kl_folded)], ["the prompt itself", number(side.kl_prompted)], ["perplexity", `${number(side.perplexity_base)} → ${number(side.perplexity_folded)}`]]) : null,
    saved ? el("p", { class: "hint" }, `Saved at every request: ${saved.tokens} prompt tokens, ${(saved.kv_bytes / 2 ** 20).toFixed(1)} MiB of keys and values.`) : null,
    shown.length ? el("h3", {}, "Answers side by side") : null,
    ...shown.map((s) => el("details", { open: shown.length < 4 }, el("summary", {}, s.question), facts(WHO.filter((w) => w in s).map((w) => [w, s[w]])))));
  study = { ...study, pieces: r.pieces, questions: r.questions, written: [] };
  showPieces();
}

async function open(id) {
  shownId = id;
  study = { ...NOTHING };
  $("fold-view").hidden = false;
  $("fold-chat").hidden = true;
  $("fold-view-title").textContent = `Fold ${id}`;
  fill($("fold-report"));
  showPieces();
  let state = "";
  const view = await follow(id, (v) => { showProgress(v); if (v.state !== state) { state = v.state; list(); } }, (n) => {
    if (n.what === "written") study.written = n.questions;
    else if (n.what === "kept") { study.questions = [...study.questions, ...n.questions]; study.written = []; }
    else if (n.what in study) study[n.what] = n[n.what];
    if (n.what === "questions") study.written = [];
    showPieces();
  }, () => shownId === id).catch(() => null);
  if (!view || shownId !== id || view.state !== "done") return;
  showReport(id, await result(id));
  $("fold-chat").hidden = false;
  newChat();
}

function newChat() {
  history = { prompted: [], bare: [], folded: [] };
  fill($("chat-log"), ...WHO.map((who) => el("div", { class: `answer ${who}`, id: `chat-${who}` }, el("h3", {}, who))));
}

async function send(event) {
  event.preventDefault();
  const query = $("chat-query").value;
  const lines = Object.fromEntries(WHO.map((who) => {
    const line = el("p", {}, "…");
    $(`chat-${who}`).append(el("p", { class: "user" }, query), line);
    return [who, line];
  }));
  const r = await runChat("chat", { fold: shownId, query, ...history }, (n) => { if (n.what === "answer") lines[n.who].textContent = n.text; });
  if (!r) { // failed, or another message was sent: nothing of this turn is remembered
    for (const line of Object.values(lines)) if (line.textContent === "…") line.textContent = "(no answer)";
    return;
  }
  for (const who of WHO) {
    lines[who].textContent = r.answers[who] || "(nothing)";
    history[who] = [...history[who], { query, answer: r.answers[who] }].slice(-8);
  }
  $("chat-query").value = "";
}

async function read(file) {
  $("fold-status").classList.remove("bad");
  $("fold-status").textContent = `reading ${file.name} …`;
  try {
    const { text } = await call(`/api/upload?name=${encodeURIComponent(file.name)}`, file, true);
    $("fold-context").value = text;
    $("fold-status").textContent = `${text.length} characters read.`;
  } catch (error) {
    $("fold-status").classList.add("bad");
    $("fold-status").textContent = error.message;
  }
}

// The user's own questions: a line each, the answer behind the last bar.
function asked() {
  const lines = $("fold-questions").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const read = lines.map((line) => line.match(/^(.*\S)\s*\|\s*([^|]+)$/));
  const wrong = lines.find((_, i) => !read[i]);
  if (wrong) throw new Error(`“${wrong}” has no answer: write the question, a bar (|) and the answer.`);
  return read.map(([, query, answer]) => ({ query, answer: answer.trim() }));
}

async function go(event) {
  event.preventDefault();
  try {
    const request = { model: $("model").value, context: $("fold-context").value, method: $("fold-method").value, calibration: Number($("fold-calibration").value), questions: asked() };
    const { id } = await submit("fold", request);
    $("fold-status").textContent = "";
    $("fold-status").classList.remove("bad");
    open(id);
  } catch (error) {
    $("fold-status").classList.add("bad");
    $("fold-status").textContent = error.message;
  }
}

export async function start() {
  runChat = runner($("chat-status"));
  $("fold-form").addEventListener("submit", go);
  $("chat-form").addEventListener("submit", send);
  $("chat-clear").addEventListener("click", newChat);
  $("fold-file").addEventListener("change", (e) => e.target.files[0] && read(e.target.files[0]));
  const drop = $("fold-drop");
  drop.addEventListener("dragover", (e) => { e.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (e) => { e.preventDefault(); drop.classList.remove("over"); if (e.dataTransfer.files[0]) read(e.dataTransfer.files[0]); });
  document.addEventListener("reconnected", () => list());
  const folds = await list();
  const busy = folds.find((f) => !OVER.includes(f.state));
  if (busy) open(busy.id);
}
