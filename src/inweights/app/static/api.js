// Requests to the server, and following a job until it is over, also across a restart of the server.
import { $ } from "./dom.js";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let lost = false;

function banner(text) {
  $("banner").hidden = !text;
  $("banner").textContent = text;
}

export class Refused extends Error {
  constructor(status, sentence) { super(sentence); this.status = status; }
}

export async function call(path, body, raw = false) {
  let answer;
  const options = body === undefined ? {} : { method: "POST", body: raw ? body : JSON.stringify(body) };
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    lost = true;
    banner("The server does not answer. Work in progress is resumed or reported when it is started again.");
    throw new Refused(0, "The server does not answer.");
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    lost = true;
    banner("The server was restarted with another token: open the address that it printed.");
  } else if (lost) {
    lost = false;
    banner("");
    document.dispatchEvent(new Event("reconnected"));
  }
  if (!answer.ok) throw new Refused(answer.status, value.error ?? `The server answered ${answer.status}.`);
  return value;
}

export const submit = (kind, request) => call(`/api/jobs/${kind}`, request);
export const result = (id) => call(`/api/jobs/${id}/result`);
export const cancel = (id) => call(`/api/jobs/${id}/cancel`, {});
export const OVER = ["done", "failed", "cancelled", "interrupted"];

// The news of a job. A browser opens six connections to a server, all tabs together, so that only one tab at a time may
// hold a request open until there is news; the others ask again and again.
function news(id, version, since) {
  const ask = async (lock) => {
    if (!lock) await pause(300);
    return call(`/api/jobs/${id}?version=${version}&since=${since}&wait=${lock ? 8 : 0}`);
  };
  return navigator.locks ? navigator.locks.request("news", { ifAvailable: true }, ask) : ask(null);
}

// Calls `onView` with every state of a job and `onNews` with every event, and returns the last state.
export async function follow(id, onView = () => {}, onNews = () => {}, alive = () => true) {
  let version = -1, since = 0;
  while (alive()) {
    let view;
    try {
      view = await news(id, version, since);
    } catch (error) {
      if (error.status === 404) throw error;
      await pause(1000);
      version = -1;
      continue;
    }
    if (view.next < since) { since = 0; version = -1; continue; } // a restarted server: events begin anew
    since = view.next;
    version = view.version;
    view.news.forEach(onNews);
    onView(view);
    if (OVER.includes(view.state)) return view;
    if (view.state === "queued") await pause(300);
  }
  return null;
}

// Runs a job for a form: one at a time, the last one wins; its status is shown, and it can be cancelled.
export function runner(status, cancelButton) {
  let current = null;
  const say = (text, bad = false) => { status.textContent = text; status.classList.toggle("bad", bad); };
  if (cancelButton) cancelButton.addEventListener("click", () => current && cancel(current).catch(() => {}));
  return async function run(kind, request, onNews = () => {}) {
    const before = current;
    if (before) cancel(before).catch(() => {});
    say("sending …");
    let id;
    try {
      id = (await submit(kind, request)).id;
    } catch (error) {
      say(error.message, true);
      return null;
    }
    current = id;
    if (cancelButton) cancelButton.hidden = false;
    const begun = performance.now();
    const view = await follow(id, (v) => {
      if (current !== id) return;
      if (v.state === "queued") say(v.place > 1 ? `waiting, number ${v.place}` : "waiting for the worker …");
      else if (v.state === "running") say(stage(v.progress));
    }, (n) => current === id && onNews(n), () => current === id).catch((error) => ({ state: "failed", error: error.message }));
    if (current !== id || !view) return null;
    current = null;
    if (cancelButton) cancelButton.hidden = true;
    if (view.state !== "done") { say(view.error || view.state, view.state !== "cancelled"); return null; }
    const value = await result(id).catch((error) => { say(error.message, true); return null; });
    // After the caller has drawn it: `done` is the last thing to appear.
    if (value) setTimeout(() => current === null && say(`done in ${((performance.now() - begun) / 1000).toFixed(1)} s`));
    return value;
  };
}

export function stage(progress) {
  if (!progress?.stage) return "working …";
  const share = progress.total ? `, ${Math.floor((100 * progress.done) / progress.total)}%` : "";
  const left = progress.left > 1 ? `, ${Math.ceil(progress.left)} s left in this stage` : "";
  return `${progress.stage}${share}${left} …`;
}
