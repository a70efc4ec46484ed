// An estimate with its 95 % interval, drawn on a horizontal axis.
import { svg } from "./dom.js";
import { number } from "./format.js";

/** The range that covers some numbers and zero; null if there are no numbers. */
export function rangeOf(numbers) {
  const known = numbers.filter((value) => value !== null);
  if (known.length === 0) return null;
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  return { low, high: high > low ? high : low + 1 };
}

/** The drawing: a dot for the estimate, a bar for the interval and, if given, a ring for the score. */
export function intervalMark(estimate, low, high, range, score = null) {
  const at = (value) => `${(100 * (value - range.low)) / (range.high - range.low)}%`;
  const interval = low === null ? "" : `, 95 % interval ${number(low)} to ${number(high)}`;
  const label = `Estimate ${number(estimate)}${interval}${score === null ? "" : `; score ${number(score)}`}`;
  return svg("svg", { class: "interval-mark", height: 14, role: "img", "aria-label": label }, svg("title", {}, label),
    svg("line", { class: "axis-line", x1: "0%", x2: "100%", y1: 7, y2: 7 }),
    range.low < 0 ? svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 1, y2: 13 }) : null,
    low === null ? null : svg("line", { class: "bounds", x1: at(low), x2: at(high), y1: 7, y2: 7 }),
    svg("circle", { class: "mean", cx: at(estimate), cy: 7, r: 3.5 }),
    score === null ? null : svg("circle", { class: "score", cx: at(score), cy: 7, r: 4.5 }));
}
