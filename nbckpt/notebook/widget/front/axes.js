/**
 * Axes for settings and metrics: where values lie, ticks, and ranges that are dragged. Pure: the tests import this in Node.
 *
 * @typedef {import("./rows.js").Value} Value
 * @typedef {import("./rows.js").Brush} Brush
 * @typedef {object} Axis places are shares of its length, from 0 to 1
 * @property {"numbers" | "values"} kind
 * @property {boolean} log
 * @property {(value: Value) => number} place nan for what has no place
 * @property {{ at: number, text: string }[]} ticks
 * @property {(from: number, to: number) => Brush | null} brush what lies between two places
 * @property {(brush: Brush) => [number, number]} span where a brush lies
 */

const FEW = 8;
const KEY_STEPS = 10;
const BINS = 8;
const LARGEST = 1e300;

/**
 * Choose an axis: few numbers, and texts, have a place each in their own order; many numbers have a scale, a log one by itself.
 * @param {Value[]} values @param {typeof import("./rows.js")} rows @param {typeof import("./format.js")} format
 * @param {{ scale?: boolean, counts?: boolean }} [options] `scale`: numbers have a scale, however few they are; `counts`: they count
 *   things, so the scale is never a log one and its ticks are whole
 * @returns {Axis}
 */
export function axis(values, rows, format, { scale = false, counts = false } = {}) {
  const present = values.filter((value) => value !== null && value !== undefined && !format.isOdd(value));
  const distinct = [...new Set(present.map(String))];
  const numeric = present.every((value) => typeof value === "number");
  return numeric && (scale || distinct.length > FEW) ? numbersAxis(/** @type {number[]} */ (present), rows, counts) : valuesAxis(distinct.sort(rows.natural), numeric, format);
}

/** @param {string[]} distinct @param {boolean} numeric @param {typeof import("./format.js")} format @returns {Axis} */
function valuesAxis(distinct, numeric, format) {
  const order = numeric ? distinct.sort((a, b) => Number(a) - Number(b)) : distinct;
  const at = (/** @type {number} */ index) => (index + 0.5) / Math.max(1, order.length);
  const places = new Map(order.map((value, index) => [value, at(index)]));
  return {
    kind: "values",
    log: false,
    place: (value) => places.get(String(value)) ?? NaN,
    ticks: order.map((value, index) => ({ at: at(index), text: numeric ? format.setting(Number(value)) : value })),
    brush(from, to) {
      const chosen = order.filter((_, index) => at(index) >= Math.min(from, to) && at(index) <= Math.max(from, to));
      return chosen.length ? { values: chosen } : null;
    },
    span(brush) {
      const chosen = "values" in brush ? brush.values.map((value) => places.get(value) ?? NaN).filter(Number.isFinite) : [];
      const half = 0.5 / Math.max(1, order.length);
      return chosen.length ? [Math.min(...chosen) - half, Math.max(...chosen) + half] : [0, 0];
    },
  };
}

/** @param {number[]} numbers @param {typeof import("./rows.js")} rows @param {boolean} counts @returns {Axis} */
function numbersAxis(numbers, rows, counts) {
  const finite = numbers.filter(Number.isFinite);
  const log = !counts && rows.isLog(finite);
  const as = log ? Math.log10 : Number;
  const back = log ? (/** @type {number} */ value) => 10 ** value : Number;
  const [low, high] = finite.length ? rows.ends(finite).map(as).map(bounded) : [0, 1];
  const margin = (high - low) * 0.03 || 0.5;
  const [from, to] = [low - margin, high + margin];
  const place = (/** @type {Value} */ value) => (typeof value === "number" ? (as(value) - from) / (to - from) : NaN);
  const invert = (/** @type {number} */ share) => back(from + share * (to - from));
  const marks = log ? powers(low, high) : round(low, high).filter((value) => !counts || Number.isInteger(value));
  return {
    kind: "numbers",
    log,
    place,
    ticks: marks.map((value) => ({ at: place(value), text: String(Number(value.toPrecision(6))) })),
    brush: (a, b) => (Math.abs(a - b) < 0.01 ? null : { low: invert(Math.min(a, b)), high: invert(Math.max(a, b)) }),
    span: (brush) => ("values" in brush ? [0, 0] : [place(brush.low), place(brush.high)]),
  };
}

/**
 * Move a range by one value of an axis, or by a tenth of it. The first key takes the end that it comes from.
 * @param {Axis} axis @param {Brush | undefined} brush @param {boolean} up @param {boolean} topOnly whether the lower end stays
 */
export function moved(axis, brush, up, topOnly) {
  const step = 1 / (axis.kind === "values" ? Math.max(1, axis.ticks.length) : KEY_STEPS);
  if (!brush) return up ? axis.brush(0, step) : axis.brush(1 - step, 1);
  const [from, to] = axis.span(brush);
  const room = up ? 1 - to : topOnly ? to - from - step : from;
  const by = (up ? 1 : -1) * Math.max(0, Math.min(step, room));
  return axis.brush(topOnly ? from : from + by, to + by);
}

/** A number of which differences are finite. @param {number} number */
const bounded = (number) => Math.max(-LARGEST, Math.min(LARGEST, number));

/** Powers of ten between two logarithms; if there are fewer than three, their double and fivefold too. @param {number} low @param {number} high */
function powers(low, high) {
  const first = Math.floor(low);
  const every = (/** @type {number[]} */ parts) => Array.from({ length: Math.ceil(high) - first + 1 }, (_, index) => parts.map((part) => part * 10 ** (first + index)))
    .flat().filter((value) => Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9);
  const tens = every([1]);
  const all = tens.length < 3 ? every([1, 2, 5]) : tens;
  return all.length ? all : [10 ** low, 10 ** high];
}

/** @param {number} low @param {number} high two to six round numbers between two */
function round(low, high) {
  if (low === high) return [low];
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((each) => each * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/**
 * How much of the variance of a metric a setting explains, from 0 to 1, by the means of its values or of eight parts of its range.
 * @param {Value[]} values @param {number[]} targets
 */
export function explains(values, targets) {
  const pairs = values.map((value, index) => ({ value, target: targets[index] })).filter(({ value, target }) => value !== null && value !== undefined && Number.isFinite(target));
  const groups = grouped(pairs);
  const mean = (/** @type {number[]} */ list) => list.reduce((sum, each) => sum + each, 0) / list.length;
  const all = mean(pairs.map(({ target }) => target));
  const total = squares(pairs.map(({ target }) => target), all);
  const within = groups.reduce((sum, group) => sum + squares(group, mean(group)), 0);
  const free = pairs.length - groups.length;
  return total > 0 && free > 0 ? Math.max(0, 1 - within / free / (total / (pairs.length - 1))) : 0;
}

/** @param {number[]} list @param {number} from */
const squares = (list, from) => list.reduce((sum, each) => sum + (each - from) ** 2, 0);

/** @param {{ value: Value, target: number }[]} pairs @returns {number[][]} targets by the part that their value lies in */
function grouped(pairs) {
  const many = new Set(pairs.map(({ value }) => String(value))).size > BINS && pairs.every(({ value }) => typeof value === "number");
  const sorted = many ? [...pairs].sort((a, b) => Number(a.value) - Number(b.value)) : pairs;
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  sorted.forEach(({ value, target }, index) => {
    const name = many ? String(Math.floor((index * BINS) / sorted.length)) : String(value);
    const group = groups.get(name);
    if (group) group.push(target);
    else groups.set(name, [target]);
  });
  return [...groups.values()];
}
