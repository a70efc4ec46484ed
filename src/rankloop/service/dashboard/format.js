// Numbers and times as people read them.
const THIN = "\u202f";
export const NONE = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compactly = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** 12,345 */
export const count = (value) => (known(value) ? whole.format(value) : NONE);

/** 12.3K, where there is little room. */
export const compact = (value) => (known(value) ? compactly.format(value) : NONE);

/** 12,345 or 123.4K: as it fits where a large number stands. */
export const large = (value) => (value < 100_000 ? count(value) : compact(value));

/** 12.3 % */
export function percent(share, digits = 1) {
  return known(share) ? `${(100 * share).toFixed(digits)}${THIN}%` : NONE;
}

/** +1.2: a difference of percentages, in points. */
export function points(difference) {
  if (!known(difference)) return NONE;
  return `${signed(100 * difference, 1)}`;
}

/** +1.2 or −1.2, with a real minus. */
export function signed(value, digits) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

/** 0.123, with as many digits as matter. */
export function number(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value).replace("-", "−");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

/** A probability that is never quite 0 or 1. */
export function chance(value) {
  if (!known(value)) return NONE;
  if (value > 0.999) return `over ${percent(0.999)}`;
  if (value < 0.001) return `under ${percent(0.001)}`;
  return percent(value);
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** 30 min: a length of time. */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const [size, unit] = UNITS.find(([length]) => seconds >= length) ?? [0.001, "ms"];
  const value = seconds / size;
  return `${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}${THIN}${unit}`;
}

const inADay = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exactly = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const ofADay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 14:05, of a time in seconds. */
export const clock = (seconds) => inADay.format(new Date(1000 * seconds));

/** 14:05:09 */
export const second = (seconds) => exactly.format(new Date(1000 * seconds));

/** 3 Nov */
export const day = (seconds) => ofADay.format(new Date(1000 * seconds));

/** 3 Nov, 14:05:09 */
export const moment = (seconds) => `${day(seconds)}, ${second(seconds)}`;

/** One list, two lists. */
export const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
