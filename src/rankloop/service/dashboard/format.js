// Format numbers and times.
const THIN = "\u202f";
export const NONE = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** 12,345 */
export const count = (value) => (known(value) ? whole.format(value) : NONE);

/** 12.3K, for narrow cells. */
export const compact = (value) => (known(value) ? short.format(value) : NONE);

/** 12,345 or 123.4K, for tiles. */
export const large = (value) => (value < 100_000 ? count(value) : compact(value));

/** 12.3 % */
export function percent(share, digits = 1) {
  return known(share) ? `${(100 * share).toFixed(digits)}${THIN}%` : NONE;
}

/** +1.2: a difference of rates in percentage points. */
export function points(difference) {
  if (!known(difference)) return NONE;
  return `${signed(100 * difference, 1)}`;
}

/** +1.2 or −1.2, with a minus sign instead of a hyphen. */
export function signed(value, digits) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

/** 0.123, with about three significant digits. */
export function number(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value).replace("-", "−");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

/** +0.123 or −0.123, with about three significant digits. */
export function signedNumber(value) {
  return known(value) && value > 0 ? `+${number(value)}` : number(value);
}

/** A probability; never exactly 0 or 1. */
export function probability(value) {
  if (!known(value)) return NONE;
  if (value > 0.999) return `over ${percent(0.999)}`;
  if (value < 0.001) return `under ${percent(0.001)}`;
  return percent(value);
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** 30 min: a duration. */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const [size, unit] = UNITS.find(([length]) => seconds >= length) ?? [0.001, "ms"];
  const value = seconds / size;
  return `${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}${THIN}${unit}`;
}

const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const secondFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 14:05, from a Unix time in seconds. */
export const clock = (seconds) => minuteFormat.format(new Date(1000 * seconds));

/** 14:05:09 */
export const second = (seconds) => secondFormat.format(new Date(1000 * seconds));

/** 3 Nov */
export const day = (seconds) => dayFormat.format(new Date(1000 * seconds));

/** 3 Nov, 14:05:09 */
export const moment = (seconds) => `${day(seconds)}, ${second(seconds)}`;

/** 1 decision, 2 decisions. */
export const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
