// Colours that people with any colour vision can tell apart: a scale that also rises in lightness, and eight hues.
const STOPS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"]
  .map((h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16)));

export function scale(t) {
  const x = Math.min(1, Math.max(0, Number.isFinite(t) ? t : 0)) * (STOPS.length - 1);
  const i = Math.min(STOPS.length - 2, Math.floor(x));
  return STOPS[i].map((a, k) => Math.round(a + (x - i) * (STOPS[i + 1][k] - a)));
}

export const css = (rgb) => `rgb(${rgb.join(",")})`;
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#8a8f98"];
