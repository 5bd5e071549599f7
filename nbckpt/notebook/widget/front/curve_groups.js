/**
 * Trials grouped by the values of one or two settings, with the mean line of each group. Pure: the tests import this in Node.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {{ key: string, text: string, ids: string[] }} Group `key` tells it from the groups of other settings
 * @typedef {{ x: ArrayLike<number>, y: ArrayLike<number> }} Course
 */

const FEW = 5;
const MOST = 8;
const MOST_STEPS = 240;

/**
 * Cut trials into groups, in the order of the values. Many numbers make five ranges with about as many trials each; of many texts or
 * pairs, the most frequent stand alone. Trials without one of the settings are in no group.
 * @param {Iterable<Trial>} trials @param {string[]} settings at most two @param {typeof import("./rows.js")} rows @param {typeof import("./format.js")} format
 * @returns {Group[]}
 */
export function groups(trials, settings, rows, format) {
  const all = [...trials];
  const [first = [], second] = settings.map((setting) => cut(all, setting, rows, format));
  const made = second ? few(first.flatMap((one) => second.map((other) => both(one, other))).filter(({ ids }) => ids.length)) : first;
  return made.map(({ text, ids }) => ({ key: `${settings.join()}=${text}`, text, ids }));
}

/** @typedef {{ text: string, ids: string[] }} Part */

/** @param {Part} one @param {Part} other @returns {Part} */
function both(one, other) {
  const known = new Set(one.ids);
  return { text: `${one.text}, ${other.text}`, ids: other.ids.filter((id) => known.has(id)) };
}

/** The most frequent alone, in their order, and the others as one. @param {Part[]} made */
function few(made) {
  const usual = new Set([...made].sort((a, b) => b.ids.length - a.ids.length).slice(0, made.length > MOST ? MOST - 1 : MOST));
  const others = made.filter((each) => !usual.has(each)).flatMap(({ ids }) => ids);
  const alone = made.filter((each) => usual.has(each));
  return others.length ? [...alone, { text: "others", ids: others }] : alone;
}

/** @param {Trial[]} trials @param {string} setting @param {typeof import("./rows.js")} rows @param {typeof import("./format.js")} format @returns {Part[]} */
function cut(trials, setting, rows, format) {
  /** @type {Map<string, { value: import("./rows.js").Value, ids: string[] }>} */
  const byText = new Map();
  for (const { id, settings } of trials) {
    const value = settings?.[setting];
    if (value === null || value === undefined) continue;
    const known = byText.get(String(value));
    if (known) known.ids.push(id);
    else byText.set(String(value), { value, ids: [id] });
  }
  const values = [...byText.values()];
  const isNumeric = values.every(({ value }) => typeof value === "number");
  return isNumeric && values.length > FEW ? ranges(/** @type {any} */ (values), format) : few(single(values, isNumeric, rows, format));
}

/** @param {{ value: import("./rows.js").Value, ids: string[] }[]} values @param {boolean} isNumeric @param {typeof import("./rows.js")} rows @param {typeof import("./format.js")} format */
function single(values, isNumeric, rows, format) {
  const sorted = values.sort((a, b) => (isNumeric ? Number(a.value) - Number(b.value) : rows.natural(String(a.value), String(b.value))));
  return sorted.map(({ value, ids }) => ({ text: format.setting(value), ids }));
}

/** @param {{ value: number, ids: string[] }[]} values @param {typeof import("./format.js")} format */
function ranges(values, format) {
  const sorted = values.sort((a, b) => a.value - b.value);
  const total = sorted.reduce((sum, { ids }) => sum + ids.length, 0);
  const made = Array.from({ length: FEW }, () => /** @type {typeof values} */ ([]));
  let before = 0;
  for (const each of sorted) {
    made[Math.min(FEW - 1, Math.floor(((before + each.ids.length / 2) * FEW) / total))].push(each);
    before += each.ids.length;
  }
  const parts = made.filter((part) => part.length);
  const texts = (/** @type {(value: number) => string} */ written) => parts.map((part) => [...new Set([part[0], part[part.length - 1]].map(({ value }) => written(value)))].join(" to "));
  const short = texts((value) => format.setting(Number(value.toPrecision(2))));
  const named = new Set(short).size === short.length ? short : texts(format.exact);
  return parts.map((part, at) => ({ text: named[at], ids: part.flatMap(({ ids }) => ids) }));
}

/**
 * The mean of lines: at each step, of those that have reached it and have begun.
 * @param {Course[]} lines in the order of x @returns {{ x: Float64Array, y: Float64Array }}
 */
export function mean(lines) {
  const able = lines.filter(({ x }) => x.length);
  const all = Float64Array.from(new Set(able.flatMap(({ x }) => Array.from(x)))).sort();
  const every = Math.max(1, Math.ceil(all.length / MOST_STEPS));
  const x = all.filter((_, at) => at % every === 0 || at === all.length - 1);
  const [sums, counts] = [new Float64Array(x.length), new Float64Array(x.length)];
  for (const line of able) add(line, x, sums, counts);
  return { x, y: sums.map((sum, at) => (counts[at] ? sum / counts[at] : NaN)) };
}

/** Add a line to sums and counts, between its points along straight lines. @param {Course} line @param {Float64Array} x @param {Float64Array} sums @param {Float64Array} counts */
function add(line, x, sums, counts) {
  const last = line.x.length - 1;
  let at = 0;
  x.forEach((wanted, index) => {
    if (wanted < line.x[0] || wanted > line.x[last]) return;
    while (at < last - 1 && line.x[at + 1] < wanted) at += 1;
    const next = Math.min(last, at + 1);
    const width = line.x[next] - line.x[at];
    const part = width > 0 ? (wanted - line.x[at]) / width : 0;
    const value = part === 0 ? line.y[at] : part === 1 ? line.y[next] : line.y[at] + part * (line.y[next] - line.y[at]);
    if (!Number.isFinite(value)) return;
    sums[index] += value;
    counts[index] += 1;
  });
}
