// Axes: linear scales and round tick values.

/** A linear function that maps [a, b] to [from, to]. */
export function linear([a, b], [from, to]) {
  const slope = b === a ? 0 : (to - from) / (b - a);
  return (value) => from + slope * (value - a);
}

/** About `target` round numbers that cover [low, high]. */
export function ticks(low, high, target) {
  const raw = (high - low) / target || 1;
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

/** At most `limit` tick times, and whether they are days. Days begin at local midnight. */
export function timeTicks(from, to, limit) {
  const step = STEPS.find((one) => (to - from) / one <= limit) ?? STEPS.at(-1);
  const offset = -60 * new Date(1000 * from).getTimezoneOffset();
  const first = Math.ceil((from + offset) / step) * step - offset;
  const at = [];
  for (let time = first; time <= to; time += step) at.push(time);
  return { at, days: step >= DAY, step };
}
