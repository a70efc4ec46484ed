// An estimate with its interval, as a line on a rail.
import { svg } from "./dom.js";
import { number } from "./format.js";

/** What some numbers lie in, with zero; null where there are none. */
export function rangeOf(numbers) {
  const known = numbers.filter((value) => value !== null);
  if (known.length === 0) return null;
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  return { low, high: high > low ? high : low + 1 };
}

/** The line; a score that differs from the estimate is a ring beside it. */
export function whisker(estimate, low, high, range, score = null) {
  const at = (value) => `${(100 * (value - range.low)) / (range.high - range.low)}%`;
  const sure = low === null ? "" : `, between ${number(low)} and ${number(high)}`;
  const words = `${number(estimate)}${sure}${score === null ? "" : `; score ${number(score)}`}`;
  return svg("svg", { class: "whisker", height: 14, role: "img", "aria-label": words }, svg("title", {}, words),
    svg("line", { class: "rail", x1: "0%", x2: "100%", y1: 7, y2: 7 }),
    range.low < 0 ? svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 1, y2: 13 }) : null,
    low === null ? null : svg("line", { class: "sure", x1: at(low), x2: at(high), y1: 7, y2: 7 }),
    svg("circle", { class: "mean", cx: at(estimate), cy: 7, r: 3.5 }),
    score === null ? null : svg("circle", { class: "score", cx: at(score), cy: 7, r: 4.5 }));
}
