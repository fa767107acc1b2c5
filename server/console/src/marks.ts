// Marks of verdicts: a shape and a word for each, so that colours are never all there is.

import { h } from "./dom";
import { text } from "./text";
import type { Mark } from "./watch";

const shapes: Record<Mark, () => Element[]> = {
  pass: () => [h("circle", { cx: 12, cy: 12, r: 11 }), h("path", { class: "ink", d: "m6.5 12.5 4 4 7-8.5" })],
  fail: () => [h("rect", { x: 1.5, y: 1.5, width: 21, height: 21, rx: 2 }), h("path", { class: "ink", d: "m7 7 10 10m0-10-10 10" })],
  error: () => [h("path", { d: "M12 1.5 23.5 22.5H.5z" }), h("path", { class: "ink", d: "M12 9v6m0 3v1.2" })],
  none: () => [h("circle", { class: "hollow", cx: 12, cy: 12, r: 10 }), h("path", { class: "line", d: "M7 12h10" })],
  waiting: () => [h("circle", { class: "hollow dashed", cx: 12, cy: 12, r: 10 })],
};

/** symbol is the shape of a mark. */
export function symbol(m: Mark): Element {
  return h("svg", { viewBox: "0 0 24 24", class: `symbol ${m}`, "aria-hidden": "true" }, shapes[m]());
}

/** badge is the shape and the word. */
export function badge(m: Mark): HTMLElement {
  return h("span", { class: `badge ${m}` }, symbol(m), h("span", null, text.verdict[m]));
}

/** setBadge changes a badge where its mark is another. */
export function setBadge(holder: HTMLElement, m: Mark): void {
  if (holder.dataset.mark === m) return;
  holder.dataset.mark = m;
  holder.replaceChildren(badge(m));
}
