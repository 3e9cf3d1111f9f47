// The frame of the page: screens, theme, models, and what was at work when the page was opened.
import { $, el } from "./dom.js";
import { call } from "./api.js";

const SCREENS = ["prompt", "fold", "rows", "trajectory", "ledger", "compare"];
const started = new Set();
const preferred = matchMedia("(prefers-color-scheme: dark)");

function theme(name) {
  document.documentElement.dataset.theme = name;
  document.dispatchEvent(new Event("theme"));
}
const stored = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
theme(stored ?? (preferred.matches ? "dark" : "light"));
preferred.addEventListener("change", (e) => { if (!stored) theme(e.matches ? "dark" : "light"); });
$("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(next);
  try { localStorage.setItem("theme", next); } catch { /* a private window keeps nothing */ }
});

async function show() {
  const wanted = location.hash.slice(1).split("/")[0];
  const name = SCREENS.includes(wanted) ? wanted : "prompt";
  for (const section of document.querySelectorAll("[data-screen]")) section.hidden = section.id !== `screen-${name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${document.querySelector(`#screen-${name} h1`).textContent} – inweights`;
  if (!started.has(name)) {
    started.add(name);
    (await import(`./${name}.js`)).start();
    $(`screen-${name}`).inert = false; // until its script listens, the browser itself would submit a form
  }
  document.dispatchEvent(new CustomEvent("screen", { detail: name }));
}

addEventListener("hashchange", () => { show(); $("main").focus({ preventScroll: true }); scrollTo(0, 0); });

const state = await call("/api/state").catch(() => null);
if (state) $("model").replaceChildren(...state.models.map((m) => el("option", { value: m }, m.split("/").pop())));
await show();
document.documentElement.dataset.ready = "yes";
