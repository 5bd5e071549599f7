/**
 * Numbers, sizes, times and words as people read them. Pure: the tests import this in Node.
 *
 * @typedef {number | string | boolean | null | undefined} Value what a cell can hold; "nan", "inf" and "-inf" are numbers too
 */

const NOT_FINITE = new Set(["nan", "inf", "-inf"]);
const SMALLEST = 1e-3;
const WIDEST = 1e4;
const MOST_DECIMALS = 5;
const LONGEST_S = 1e9;

/** Status words in the order of the chips, each with the name of its icon, which is the status itself. */
export const STATUS = {
  done: "Done",
  running: "Running",
  paused: "Paused",
  waiting: "Pending",
  failed: "Failed",
  interrupted: "Interrupted",
  stopped: "Stopped",
};

/** @param {Value} value */
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {Value} value whether it is nan or infinite */
export const isOdd = (value) => typeof value === "string" && NOT_FINITE.has(value);

/** @param {string} whole digits, with thousands apart from four digits on */
const thousands = (whole) => whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/**
 * Choose one notation for a column, and return the function that writes its values.
 *
 * Whole numbers stay whole. All are scientific if they span more than four powers of ten or one is below 0.001. Otherwise all
 * have the same count of decimals. No value is rounded to zero.
 * @param {Iterable<Value>} values @param {number} [digits] significant ones: 4 for metrics, 3 for settings
 * @returns {(value: Value) => string}
 */
export function numbers(values, digits = 4) {
  const finite = [...values].filter(isNumber).map((value) => Math.abs(Number(value)));
  const whole = finite.every(Number.isInteger);
  const sizes = finite.filter((value) => value > 0);
  // Not Math.min(...sizes): a browser refuses some 120,000 arguments.
  const [low, high] = [sizes.reduce((a, b) => Math.min(a, b), Infinity), sizes.reduce((a, b) => Math.max(a, b), -Infinity)];
  const wide = sizes.length > 0 && (low < SMALLEST || high / low > WIDEST || high >= 1e9);
  const decimals = sizes.length ? Math.min(MOST_DECIMALS, Math.max(0, digits - 1 - Math.floor(Math.log10(low)))) : 0;
  if (whole && high < 1e9) return (value) => write(value, (number) => thousands(String(number)));
  if (wide) return (value) => write(value, (number) => number.toExponential(Math.min(digits, 4) - (digits < 4 ? 2 : 1)));
  return (value) => write(value, (number) => grouped(number.toFixed(decimals)));
}

/** @param {string} text a number with decimals */
function grouped(text) {
  const [whole, decimals] = text.split(".");
  return decimals ? `${thousands(whole)}.${decimals}` : thousands(whole);
}

/** @param {Value} value @param {(number: number) => string} written */
function write(value, written) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? (value === 0 ? "0" : written(value)) : "nan";
  return String(value);
}

/** One number outside a column, with significant digits. @param {Value} value @param {number} [digits] */
export const number = (value, digits = 4) => numbers([value], digits)(value);

/** A setting outside a column: 3 or 4 significant digits, and no zeros behind them. @param {Value} value */
export function setting(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return exact(value);
  if (Number.isInteger(value)) return number(value);
  return String(Number(value.toPrecision(Math.abs(value) < 0.1 ? 3 : 4)));
}

/** All digits, for tooltips and copies. @param {Value} value */
export const exact = (value) => (value === null || value === undefined ? "" : String(value));

/** @param {number} count @param {string} one @param {string} [many] */
export const count = (count, one, many = `${one}s`) => `${thousands(String(count))} ${count === 1 ? one : many}`;

/** @param {number} number a whole number with its thousands apart */
export const whole = (number) => thousands(String(Math.round(number)));

/** Time spent: `26 s`, `4 min`, `1 h 05 min`. @param {number} seconds */
export function duration(seconds) {
  if (typeof seconds !== "number" || Number.isNaN(seconds)) return "";
  if (seconds > LONGEST_S) return "very long";
  if (seconds < 1) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** @param {number} seconds @returns {string} `4 min left` */
export const left = (seconds) => `${duration(Math.max(1, seconds))} left`;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** @param {Date} date */
const clock = (date) => `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;

/**
 * A point in time: `just now`, `2 min ago`, `3 h ago`, and from a day on `21 Nov 14:02`.
 * @param {number} at seconds since 1970 @param {number} now the same
 */
export function age(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 45) return "just now";
  if (seconds < 3570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return day(at, now);
}

/** How long until a point in time: `in 40 s`, or `now`. @param {number} at seconds since 1970 @param {number} now the same */
export const until = (at, now) => (at - now < 1 ? "now" : `in ${duration(at - now)}`);

/** @param {number} at @param {number} now */
function day(at, now) {
  const date = new Date(at * 1000);
  const year = date.getFullYear() === new Date(now * 1000).getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]}${year} ${clock(date)}`;
}

/** The hour of today. @param {number} at seconds since 1970 */
export const hour = (at) => clock(new Date(at * 1000));

/** In full, for tooltips. @param {number} at seconds since 1970 */
export const moment = (at) => new Date(at * 1000).toLocaleString();

/** Sizes: `738 B`, `80.8 kB`, `1.08 MB`. @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}
