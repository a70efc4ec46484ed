// Values in the ranker's objective: rates for any-click, values per list otherwise.
import { NONE, number, percent, points, signedNumber } from "./format.js";

/** How values of a ranker are named and written, from its objective and unit. */
export function valueText({ objective, unit }) {
  if (objective === "any-click" || objective === "") {
    return {
      name: "Click-through rate",
      isRate: true,
      level: percent,
      tick: (value) => `${Number((100 * value).toFixed(2))}\u202f%`,
      change: (difference) => `${points(difference)} pp`,
      range: (low, high) => (low === null ? NONE : `${(100 * low).toFixed(1)}–${percent(high)}`),
      changes: (low, high) => `${points(low)} to ${points(high)}`,
    };
  }
  const name = `${unit.charAt(0).toUpperCase()}${unit.slice(1)} per list`;
  return {
    name,
    isRate: false,
    level: number,
    tick: (value) => Number(value.toPrecision(6)).toLocaleString("en"),
    change: signedNumber,
    range: (low, high) => (low === null ? NONE : `${number(low)} to ${number(high)}`),
    changes: (low, high) => `${signedNumber(low)} to ${signedNumber(high)}`,
  };
}
