// From numbers to places on a chart, and the numbers worth a line.

/** A function from [a, b] to [from, to]. */
export function linear([a, b], [from, to]) {
  const slope = b === a ? 0 : (to - from) / (b - a);
  return (value) => from + slope * (value - a);
}

/** Round numbers that cover [low, high], about so many. */
export function ticks(low, high, about) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((nice) => nice * power >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

const MINUTE = 60;
const DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * MINUTE)
  .concat([1, 2, 7, 14, 30, 60].map((days) => days * DAY));

/** Times worth a line, at most so many, and whether they are days. Days begin where the reader is. */
export function timeTicks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? STEPS.at(-1);
  const offset = -60 * new Date(1000 * from).getTimezoneOffset();
  const first = Math.ceil((from + offset) / step) * step - offset;
  const at = [];
  for (let time = first; time <= to; time += step) at.push(time);
  return { at, days: step >= DAY, step };
}
