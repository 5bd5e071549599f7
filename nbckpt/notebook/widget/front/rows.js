/**
 * Rows of trials: joining what the kernel sends, order, filter, the best, ranges. Pure: the tests import this in Node.
 *
 * @typedef {"waiting" | "running" | "paused" | "done" | "stopped" | "failed" | "interrupted"} Status
 * @typedef {number | string | boolean | null | undefined} Value
 * @typedef {object} Trial a row as the kernel sends it
 * @property {string} id
 * @property {number} n
 * @property {Status} status
 * @property {string} [why]
 * @property {Record<string, Value>} settings
 * @property {Record<string, Value>} metrics
 * @property {Record<string, Value>} [best] the best value of the metric that is followed
 * @property {number} [step]
 * @property {number} [of]
 * @property {number} [left_s]
 * @property {number | null} [saved] the step of the last checkpoint
 * @property {number} [unsaved] results since then
 * @property {string} [error]
 * @property {string} [note]
 * @property {string[]} [tags]
 * @property {number | null} [started] when, in seconds since 1970
 * @property {number | null} [ended] the same; null while it runs
 * @property {number} [seconds]
 * @property {boolean} [front] it is on the Pareto front of several objectives
 * @typedef {"min" | "max"} Mode
 * @typedef {{ low: number, high: number } | { values: string[] }} Brush a range of numbers, or a choice of texts
 * @typedef {{ find: string, statuses: string[], brushes: Record<string, Brush> }} Filter brushes by `settings:lr` or `metrics:loss`
 */

const ORDER = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const INFINITE = new Map([["inf", Infinity], ["-inf", -Infinity], ["nan", NaN]]);

/** Compare as people count: t2 comes before t10. @param {string} a @param {string} b */
export const natural = (a, b) => ORDER.compare(a, b);

/** @param {Value} value @returns {number} a number, infinite or nan too; nan for what is none */
export const toNumber = (value) => (typeof value === "number" ? value : typeof value === "string" ? (INFINITE.get(value) ?? NaN) : NaN);

/**
 * What reads the value of a column from a row: `id`, `status`, `settings:lr`, `metrics:loss`, or a field such as `seconds`.
 * @param {string} column @returns {(row: Trial) => Value}
 */
export function reader(column) {
  const at = column.indexOf(":");
  const [group, name] = [column.slice(0, Math.max(0, at)), column.slice(at + 1)];
  if (group === "settings") return (row) => row.settings?.[name];
  if (group === "metrics") return (row) => row.metrics?.[name];
  return (row) => /** @type {any} */ (row)[column];
}

/** The value of a column. @param {Trial} row @param {string} column */
export const valueIn = (row, column) => reader(column)(row);

/**
 * Keep the last result of a function for as long as its arguments are the same.
 * @template {unknown[]} A @template R
 * @param {(...args: A) => R} make @returns {(...args: A) => R}
 */
export function remembered(make) {
  /** @type {{ args: A, result: R } | null} */
  let last = null;
  return (...args) => {
    if (!last || args.some((value, at) => value !== last?.args[at])) last = { args, result: make(...args) };
    return last.result;
  };
}

/**
 * Join changed rows into those that are known.
 * @param {Map<string, Trial>} known changed in place @param {{ rows?: Trial[], gone?: string[], reset?: boolean, from?: number }} message
 */
export function join(known, { rows = [], gone = [], reset = false, from = 0 }) {
  if (reset && from === 0) known.clear();
  for (const id of gone) known.delete(id);
  for (const row of rows) known.set(row.id, row);
}

/** @param {Value} value */
const missing = (value) => value === null || value === undefined || value === "" || value === "nan";

/** What a value is sorted by: a number, a text, or null for what is missing. @param {Value} value @returns {number | string | null} */
function keyOf(value) {
  if (missing(value)) return null;
  const number = toNumber(value);
  return Number.isNaN(number) ? String(value) : number;
}

/** @param {number | string | null} a @param {number | string | null} b @param {number} sign @returns {number} missing ones come last, whatever the direction */
function compare(a, b, sign) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : sign * (a < b ? -1 : 1);
  return sign * natural(String(a), String(b));
}

/**
 * Sort rows. Failed trials stay below the others in every order; equals are in the order of their numbers.
 * @param {Iterable<Trial>} rows @param {import("./grid.js").Sort} sort @returns {Trial[]}
 */
export function order(rows, sort) {
  const signs = sort.map(([, direction]) => (direction === "up" ? 1 : -1));
  const readers = sort.map(([column]) => reader(column));
  const keyed = Array.from(rows, (row) => ({ row, failed: Number(row.status === "failed"), keys: readers.map((read) => keyOf(read(row))) }));
  keyed.sort((a, b) => {
    if (a.failed !== b.failed) return a.failed - b.failed;
    for (let at = 0; at < signs.length; at += 1) {
      const by = compare(a.keys[at], b.keys[at], signs[at]);
      if (by) return by;
    }
    return a.row.n - b.row.n || natural(a.row.id, b.row.id);
  });
  return keyed.map(({ row }) => row);
}

/**
 * Keep the order of before, with new rows at the end: while someone reads, nothing moves.
 * @param {Trial[]} sorted @param {string[]} before
 */
export function hold(sorted, before) {
  const at = new Map(before.map((id, index) => [id, index]));
  return sorted
    .map((row, index) => ({ row, key: at.get(row.id) ?? before.length + index }))
    .sort((a, b) => a.key - b.key)
    .map(({ row }) => row);
}

/** @param {import("./grid.js").Sort} sort @param {string} column @param {"up" | "down"} first @param {boolean} more add to the others */
export function clicked(sort, column, first, more) {
  const now = sort.find(([id]) => id === column)?.[1];
  const second = first === "up" ? "down" : "up";
  const next = now === undefined ? first : now === first ? second : null;
  const others = more ? sort.filter(([id]) => id !== column) : [];
  /** @type {import("./grid.js").Sort} */
  const own = next ? [[column, next]] : [];
  return [...others, ...own];
}

/** @param {Value} value @param {Brush} brush */
export function within(value, brush) {
  if ("values" in brush) return brush.values.includes(String(value));
  const number = toNumber(value);
  return number >= brush.low && number <= brush.high;
}

/** Whether rows pass a filter. @param {Filter} filter @param {(row: Trial) => boolean} finds what the text of the filter finds @returns {(row: Trial) => boolean} */
export function passing({ statuses, brushes }, finds) {
  const ranges = Object.entries(brushes).map(([column, brush]) => ({ read: reader(column), brush }));
  return (row) => (!statuses.length || statuses.includes(row.status)) && ranges.every(({ read, brush }) => within(read(row), brush)) && finds(row);
}

/**
 * The best rows by a metric. Failed trials, and values that are not finite, are never among them.
 * @param {Iterable<Trial>} rows @param {string} metric @param {Mode} mode @param {number} count @returns {Trial[]}
 */
export function bestFew(rows, metric, mode, count) {
  const sign = mode === "max" ? -1 : 1;
  /** @type {{ row: Trial, value: number }[]} */
  const best = [];
  for (const row of rows) {
    const value = sign * toNumber(row.metrics?.[metric]);
    if (row.status === "failed" || !Number.isFinite(value) || (best.length === count && value > best[count - 1].value)) continue;
    best.push({ row, value });
    best.sort((a, b) => a.value - b.value || a.row.n - b.row.n);
    best.length = Math.min(best.length, count);
  }
  return best.map(({ row }) => row);
}

/**
 * The best row by a metric.
 * @param {Iterable<Trial>} rows @param {string} metric @param {Mode} mode @returns {Trial | undefined}
 */
export const bestOf = (rows, metric, mode) => bestFew(rows, metric, mode, 1)[0];

/** @param {Iterable<Trial>} rows @returns {Record<string, number>} how many have each status */
export function tally(rows) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const row of rows) counts[row.status] = (counts[row.status] ?? 0) + 1;
  return counts;
}

/** Whether a log axis suits: all are positive, and they span more than a factor of 100. @param {number[]} numbers */
export function isLog(numbers) {
  const [low, high] = ends(numbers);
  return numbers.length > 1 && low > 0 && high / low > 100;
}

/** The least and the largest of many numbers. A browser refuses some 120,000 arguments of Math.min. @param {number[]} numbers @returns {[number, number]} */
export const ends = (numbers) => numbers.reduce(([low, high], number) => [Math.min(low, number), Math.max(high, number)], [Infinity, -Infinity]);
