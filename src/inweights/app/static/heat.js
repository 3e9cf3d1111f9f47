// A heat-map of layers × tokens on a canvas. Only what is in view is drawn, so that 500 × 30 scrolls smoothly.
import { el, number } from "./dom.js";
import { css, scale, token } from "./colours.js";

const CELL = 20, WIDEST = 48, LEFT = 34, FONT = "11px system-ui, sans-serif";

export class Heat {
  // `onPick(layer, token)` is called on a click, or on Enter.
  constructor(home, onPick) {
    this.onPick = onPick;
    this.at = null;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.space = el("div", { class: "heat-space" });
    this.scroller = el("div", { class: "heat-scroll", tabindex: "0", role: "group", "aria-label": "Heat-map: arrow keys move, Enter opens the layer" }, this.canvas, this.space);
    this.note = el("p", { class: "heat-note", role: "status" });
    this.tip = el("div", { class: "heat-tip", "aria-hidden": "true", hidden: true });
    this.key = el("canvas", { width: "160", height: "12", "aria-hidden": "true" });
    this.ends = [el("span"), el("span")];
    this.legend = el("p", { class: "legend" }, this.ends[0], this.key, this.ends[1]);
    this.all = el("div", { class: "heat", hidden: true }, this.scroller, this.tip, this.note, this.legend);
    home.replaceChildren(this.all);
    const again = () => { cancelAnimationFrame(this.frame); this.frame = requestAnimationFrame(() => this.draw()); };
    this.scroller.addEventListener("scroll", again, { passive: true });
    new ResizeObserver(again).observe(this.scroller);
    document.addEventListener("theme", again);
    this.canvas.addEventListener("pointermove", (e) => { const c = this.cell(e); this.move(c); this.point(c, e); });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (e) => { const c = this.cell(e); if (c) { this.move(c); this.onPick(c[0], c[1]); } });
    this.scroller.addEventListener("keydown", (e) => this.press(e));
  }

  // `values[layer][token]`, shown on a logarithmic scale.
  set(tokens, values) {
    Object.assign(this, { tokens, values, at: null });
    this.note.textContent = "";
    this.all.hidden = false;
    const measure = this.canvas.getContext("2d");
    measure.font = FONT;
    this.bottom = 16 + Math.max(...tokens.map((t) => measure.measureText(shown(t)).width));
    const all = values.flat().filter((v) => v > 0);
    this.high = Math.log(Math.max(...all, 1e-30));
    this.low = Math.max(Math.log(Math.min(...all, Infinity)), this.high - 9);
    this.ends[0].textContent = `≤ ${number(Math.exp(this.low), 2)}`;
    this.ends[1].textContent = `${number(Math.exp(this.high), 2)}  ‖ΔWᵢ₊₁ − ΔWᵢ‖, log scale`;
    const pen = this.key.getContext("2d");
    for (let x = 0; x < 160; x++) { pen.fillStyle = css(scale(x / 159)); pen.fillRect(x, 0, 1, 12); }
    this.draw();
  }

  level(v) { return v > 0 ? (Math.log(v) - this.low) / (this.high - this.low || 1) : 0; }

  draw() {
    if (!this.values) return;
    const ratio = devicePixelRatio || 1, rows = this.values.length;
    const width = this.scroller.clientWidth, height = rows * CELL + this.bottom;
    if (!width) return;
    const wide = this.wide = Math.max(CELL, Math.min(WIDEST, Math.floor((width - LEFT) / this.tokens.length))); // few tokens fill the width
    this.space.style.width = `${LEFT + this.tokens.length * wide}px`;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext("2d"), x0 = this.scroller.scrollLeft;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = token("--card");
    pen.fillRect(0, 0, width, height);
    const first = Math.floor(x0 / wide), last = Math.min(this.tokens.length, Math.ceil((x0 + width - LEFT) / wide) + 1);
    pen.font = FONT;
    for (let t = first; t < last; t++) {
      const x = LEFT + t * wide - x0;
      for (let layer = 0; layer < rows; layer++) {
        pen.fillStyle = css(scale(this.level(this.values[layer][t])));
        pen.fillRect(x, layer * CELL, wide - 1, CELL - 1);
      }
      pen.save();
      pen.translate(x + wide / 2 + 4, rows * CELL + 6);
      pen.rotate(Math.PI / 2);
      pen.fillStyle = token("--text");
      pen.fillText(shown(this.tokens[t]), 0, 8);
      pen.restore();
    }
    pen.fillStyle = token("--card");
    pen.fillRect(0, 0, LEFT, height);
    pen.fillStyle = token("--soft");
    const every = rows > 12 ? 5 : 1;
    for (let layer = 0; layer < rows; layer += every) pen.fillText(String(layer), 8, layer * CELL + 14);
    if (this.at) {
      pen.strokeStyle = token("--patched");
      pen.lineWidth = 3;
      pen.strokeRect(LEFT + this.at[1] * wide - x0, this.at[0] * CELL, wide - 1, CELL - 1);
    }
  }

  cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const t = Math.floor((event.clientX - box.left - LEFT + this.scroller.scrollLeft) / this.wide);
    const layer = Math.floor((event.clientY - box.top) / CELL);
    const inside = this.values && event.clientX - box.left >= LEFT && t < this.tokens.length && layer < this.values.length;
    return inside && t >= 0 && layer >= 0 ? [layer, t] : null;
  }

  move(cell) {
    if (!cell) return;
    this.at = cell;
    const [layer, t] = cell;
    this.note.textContent = `layer ${layer}, token ${t + 1} “${shown(this.tokens[t])}”: ${number(this.values[layer][t])}`;
    this.draw();
  }

  // The value beside the pointer, on the side that has room.
  point(cell, event) {
    this.tip.hidden = !cell;
    if (!cell) return;
    this.tip.textContent = this.note.textContent;
    const box = this.all.getBoundingClientRect(), x = event.clientX - box.left;
    const left = x > box.width / 2 ? x - this.tip.offsetWidth - 12 : x + 12;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  press(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!this.values) return;
    if (step) {
      event.preventDefault();
      const [layer, t] = this.at ?? [0, -step[1]];
      this.move([Math.min(this.values.length - 1, Math.max(0, layer + step[0])), Math.min(this.tokens.length - 1, Math.max(0, t + step[1]))]);
      const x = this.at[1] * this.wide, view = this.scroller.clientWidth - LEFT - this.wide;
      if (x < this.scroller.scrollLeft) this.scroller.scrollLeft = x;
      else if (x > this.scroller.scrollLeft + view) this.scroller.scrollLeft = x - view;
    } else if ((event.key === "Enter" || event.key === " ") && this.at) {
      event.preventDefault();
      this.onPick(...this.at);
    }
  }
}

export const shown = (text) => text.replace(/\n/g, "↵").replace(/^ /, "·").slice(0, 14);
