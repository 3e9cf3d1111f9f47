// Small charts as SVG, drawn here: lines, bars, points in a plane, a matrix of alignments.
import { el, number } from "./dom.js";
import { HUES, css, scale } from "./colours.js";

const NS = "http://www.w3.org/2000/svg";
const W = 480, H = 240, M = { left: 52, right: 12, top: 18, bottom: 34 };

function svg(tag, attributes = {}, text) {
  const made = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(attributes)) made.setAttribute(k, v);
  if (text !== undefined) made.textContent = text;
  return made;
}

function frame(label, height = H) {
  const made = svg("svg", { viewBox: `0 0 ${W} ${height}`, class: "chart", role: "img", "aria-label": label });
  made.append(svg("title", {}, label));
  return made;
}

// Round numbers within a range: steps of 1, 2 or 5; for a logarithmic axis powers of ten, with 2 and 5 where there are few.
function ticks(low, high, log) {
  if (log) {
    const within = (factors) => {
      const all = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) all.push(...factors.map((f) => f * 10 ** e));
      return all.filter((v) => v >= low && v <= high);
    };
    const tens = within([1]), some = tens.length > 1 ? tens : within([1, 2, 5]);
    return some.length < 2 ? [low, high] : some.filter((_, i) => i % Math.ceil(some.length / 6) === 0);
  }
  const rough = (high - low) / 4 || 1, ten = 10 ** Math.floor(Math.log10(rough)), step = ten * [1, 2, 5, 10].find((f) => f * ten >= rough * 0.8);
  return Array.from({ length: 9 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step).filter((v) => v <= high + 1e-9 * step);
}

function axes(home, { x, y, xName, yName, log = false, whole = false, counted = true, by = 1 }) {
  const px = (v) => M.left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - M.left - M.right);
  const f = log ? (v) => Math.log10(Math.max(v, y[0])) : (v) => v;
  const py = (v) => H - M.bottom - ((f(v) - f(y[0])) / (f(y[1]) - f(y[0]) || 1)) * (H - M.top - M.bottom);
  home.append(svg("path", { class: "axis", fill: "none", d: `M${M.left} ${M.top}V${H - M.bottom}H${W - M.right}` }));
  for (const v of ticks(y[0], y[1], log)) {
    home.append(svg("line", { class: "grid", x1: M.left, x2: W - M.right, y1: py(v), y2: py(v) }));
    home.append(svg("text", { x: M.left - 6, y: py(v) + 4, "text-anchor": "end" }, number(v, 2)));
  }
  const across = ticks(x[0] * by, x[1] * by).filter((h) => !whole || Number.isInteger(h));
  for (const h of counted ? across : []) home.append(svg("text", { x: px(h / by), y: H - M.bottom + 14, "text-anchor": "middle" }, number(h, whole ? 4 : 2)));
  home.append(svg("text", { x: (W + M.left) / 2, y: H - 4, "text-anchor": "middle" }, xName));
  home.append(svg("text", { x: 2, y: 8 }, yName));
  return { px, py };
}

export function key(entries) {
  return el("p", { class: "key" }, ...entries.map(([name, colour]) => {
    const mark = el("i");
    mark.style.background = colour;
    return el("span", {}, mark, name);
  }));
}

// `series`: [{name, values, colour, dash}]; a step to the right counts `by`; `upto` draws only the first points, the axes staying those of all.
export function lines({ label, series, xName = "", yName = "", log = false, upto = Infinity, from = 0, by = 1 }) {
  const home = frame(label), all = series.flatMap((s) => s.values).filter((v) => Number.isFinite(v) && (!log || v > 0));
  const high = Math.max(...all, log ? 1e-12 : 0), low = log ? Math.max(Math.min(...all), high * 1e-8) : Math.min(...all, 0);
  const n = Math.max(...series.map((s) => s.values.length));
  const { px, py } = axes(home, { x: [from, from + Math.max(1, n - 1)], y: [low, high || 1], xName, yName, log, whole: true, by });
  series.forEach((s, i) => {
    const points = s.values.slice(0, upto).map((v, k) => `${px(from + k).toFixed(1)},${py(v).toFixed(1)}`);
    const colour = s.colour ?? HUES[i % HUES.length];
    home.append(svg("polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": s.width ?? 2, "stroke-dasharray": s.dash ?? "none" }));
    if (points.length) { const [x, y] = points.at(-1).split(","); home.append(svg("circle", { cx: x, cy: y, r: 3, fill: colour })); }
  });
  return home;
}

// Bars from zero up and down; the one of number `marked` has another colour.
export function bars({ label, values, names, xName = "", marked = -1 }) {
  const home = frame(label), high = Math.max(...values, 1e-12), low = Math.min(...values, 0);
  const { px, py } = axes(home, { x: [0, values.length], y: [low, high], xName, counted: false });
  const wide = Math.max(1, (px(1) - px(0)) * 0.7);
  values.forEach((v, i) => {
    const bar = svg("rect", { x: px(i + 0.5) - wide / 2, width: wide, y: py(Math.max(v, 0)), height: Math.abs(py(0) - py(v)), fill: HUES[i === marked ? 1 : 0] });
    bar.append(svg("title", {}, `${names?.[i] ?? i + 1}: ${number(v)}`));
    home.append(bar);
    // Names as far as they have room; the others are in the titles.
    if (names && i % Math.ceil(values.length / 8) === 0) home.append(svg("text", { x: px(i + 0.5), y: H - M.bottom + 14, "text-anchor": "middle" }, names[i].slice(0, 7)));
  });
  return home;
}

// Paths in the plane: [{name, points: [[x, y]], colour}], and single marks.
export function plane({ label, paths, marks = [], upto = Infinity }) {
  const home = frame(label), all = [...paths.flatMap((p) => p.points), ...marks.map((m) => m.point), [0, 0]];
  const reach = (k) => { const v = all.map((p) => p[k]), pad = 0.1 * (Math.max(...v) - Math.min(...v) || 1); return [Math.min(...v) - pad, Math.max(...v) + pad]; };
  const { px, py } = axes(home, { x: reach(0), y: reach(1), xName: "first weight", yName: "second weight" });
  paths.forEach((p, i) => {
    const colour = p.colour ?? HUES[i], points = p.points.slice(0, upto);
    home.append(svg("polyline", { points: points.map(([x, y]) => `${px(x)},${py(y)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": p.dash ?? "none" }));
    points.forEach(([x, y], k) => home.append(svg("circle", { cx: px(x), cy: py(y), r: k === points.length - 1 ? 5 : 2, fill: colour })));
  });
  for (const m of marks) {
    const [x, y] = [px(m.point[0]), py(m.point[1])];
    home.append(svg("path", { d: `M${x - 7} ${y - 7}L${x + 7} ${y + 7}M${x + 7} ${y - 7}L${x - 7} ${y + 7}`, stroke: m.colour, "stroke-width": 3 }));
    home.append(svg("text", { x: x + 10, y: y - 6 }, m.name));
  }
  return home;
}

// Points on one logarithmic line: the trials of a claim and of its control.
export function trials({ label, groups }) {
  const home = frame(label, 30 + 34 * groups.length), all = groups.flatMap((g) => g.values).filter((v) => v !== 0).map(Math.abs);
  if (!all.length) return home;
  const low = Math.log10(Math.min(...all)) - 0.3, high = Math.log10(Math.max(...all)) + 0.3, bottom = 34 * groups.length + 4;
  const px = (v) => 90 + ((Math.log10(Math.max(Math.abs(v), 10 ** low)) - low) / (high - low)) * (W - 110);
  home.append(svg("line", { class: "axis", x1: 90, x2: W - 20, y1: bottom, y2: bottom }));
  for (const v of ticks(10 ** low, 10 ** high, true)) home.append(svg("text", { x: px(v), y: bottom + 16, "text-anchor": "middle" }, number(v, 2)));
  groups.forEach((g, i) => {
    home.append(svg("text", { x: 0, y: 22 + 34 * i }, g.name));
    for (const v of g.values) home.append(svg("circle", { cx: px(v), cy: 18 + 34 * i, r: 5, fill: g.colour, "fill-opacity": 0.75 }));
  });
  return home;
}

// Values between −1 and 1, rows and columns named alike.
export function matrix({ label, values, names }) {
  const n = values.length, cell = Math.min(26, 360 / n), home = frame(label, n * cell + 70);
  values.forEach((row, i) => {
    home.append(svg("text", { x: 96, y: i * cell + cell * 0.7, "text-anchor": "end" }, names[i]));
    row.forEach((v, j) => {
      const box = svg("rect", { x: 100 + j * cell, y: i * cell, width: cell - 1, height: cell - 1, fill: css(scale(Math.abs(v))) });
      box.append(svg("title", {}, `${names[i]} and ${names[j]}: ${number(v)}`));
      home.append(box);
    });
    home.append(svg("text", { x: 0, y: 0, transform: `translate(${100 + i * cell + cell * 0.3} ${n * cell + 6}) rotate(60)` }, names[i]));
  });
  return home;
}
