/**
 * What the box above the trials finds: words, or a filter as `--where` of the commands reads it. Pure: the tests import this in Node.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {Pick<ReturnType<typeof import("./experiment.js").experiment>["known"], "name" | "metrics" | "settings" | "same">} Known
 * @typedef {{ rows: typeof import("./rows.js"), where: typeof import("./where.js"), format: typeof import("./format.js") }} Parts
 * @typedef {{ passes: (row: Trial) => boolean, problem: string }} Found `problem`: why the text finds nothing in particular, in a sentence
 */

const COMPARED = /^([^<>=!]+)(<=|>=|!=|==?|<|>)(.+)$/;
const OPERATOR = /[<>=]|^(and|or|not|in)$/;
const IN_CONSTANTS = /\bin\s*[([{'"]/;
const ODD = /** @type {Record<string, unknown>} */ ({ nan: NaN, inf: Infinity, "-inf": -Infinity, None: null });
/** @type {Record<string, (row: Trial, known: Known, parts: Parts) => unknown>} */
const OWN = {
  experiment: (_, known) => known.name,
  trial: (row) => row.id,
  status: ({ status }, _, { format, where }) => new where.Several([format.STATUS[status], format.STATUS[status].toLowerCase()]),
  iteration: (row) => row.step,
  elapsed_s: (row) => row.seconds,
  started_at: (row) => row.started,
  ended_at: (row) => row.ended,
  error: (row) => row.error,
  note: (row) => row.note,
  tags: (row) => row.tags ?? [],
  tag: (row, _, { where }) => new where.Several(row.tags ?? []),
};
/** Further fields of a row, by the names that the table has for them. */
const SHOWN = new Set(["id", "step", "seconds", "started", "saved"]);

/**
 * What a name is in a row: a field of the trial, else a metric, else a setting. Null: no trial has it.
 * @param {string} name @param {Known} known @param {Parts} parts @returns {((row: Trial) => unknown) | null}
 */
function reader(name, known, parts) {
  if (Object.hasOwn(OWN, name)) return (row) => OWN[name](row, known, parts);
  const [, group, only] = /^(config|metrics)\/(.+)/.exec(name) ?? ["", "", name];
  const isMetric = group !== "config" && known.metrics.includes(only);
  const isSetting = group !== "metrics" && (known.settings.includes(only) || Object.hasOwn(known.same, only));
  if (!isMetric && !isSetting) return SHOWN.has(name) ? (row) => row[/** @type {"step"} */ (name)] : null;
  return (row) => {
    const value = (isMetric ? row.metrics?.[only] : undefined) ?? (isSetting ? (row.settings?.[only] ?? known.same[only]) : undefined);
    return typeof value === "string" && Object.hasOwn(ODD, value) ? ODD[value] : value;
  };
}

/** How many letters must change to make one word of another. @param {string} a @param {string} b */
function changes(a, b) {
  let line = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const above = line;
    line = [i];
    for (let j = 1; j <= b.length; j += 1) line.push(Math.min(above[j] + 1, line[j - 1] + 1, above[j - 1] + Number(a[i - 1] !== b[j - 1])));
  }
  return line[b.length];
}

/** @param {string} name @param {Known} known */
function unknown(name, known) {
  const names = [...known.metrics, ...known.settings, ...Object.keys(known.same), ...Object.keys(OWN)];
  const [close] = names.filter((each) => changes(name, each) <= Math.max(1, name.length / 3)).sort((a, b) => changes(name, a) - changes(name, b));
  return `No trial has “${name}”. ${close ? `Did you mean “${close}”?` : `A text stands in quotes: '${name}'.`}`;
}

/**
 * What finds a text: a filter if it reads as one, else words in names, settings, errors, notes and tags. Words add up, and `lr=0.1` and
 * `loss<0.2` without blanks compare. A filter that is wrong finds all.
 * @param {string} find @param {Known} known @param {Parts} parts @returns {Found}
 */
export function finding(find, known, parts) {
  const text = find.trim();
  if (!text) return { passes: () => true, problem: "" };
  const has = (/** @type {string} */ name) => reader(name, known, parts);
  let [filter, problem] = [/** @type {ReturnType<Parts["where"]["where"]> | null} */ (null), ""];
  try {
    filter = parts.where.where(text);
  } catch (error) {
    problem = /** @type {Error} */ (error).message;
  }
  const wrong = filter?.names.find((name) => !has(name));
  if (filter?.joins && wrong === undefined) return { passes: filtering(filter, has), problem };
  const words = text.split(/\s+/).map((word) => ({ word, compared: COMPARED.exec(word) }));
  const isPlain = !filter?.compares && !/[<>=]/.test(text) && !IN_CONSTANTS.test(text);
  if (isPlain || words.every(({ word, compared }) => (compared ? has(compared[1]) : !OPERATOR.test(word)))) return { passes: searching(words, has, parts), problem: "" };
  const name = wrong ?? words.find(({ compared }) => compared && !has(compared[1]))?.compared?.[1];
  return { passes: () => true, problem: name === undefined ? problem : unknown(name, known) };
}

/** @param {ReturnType<Parts["where"]["where"]>} filter @param {(name: string) => ((row: Trial) => unknown) | null} has @returns {(row: Trial) => boolean} */
function filtering({ test, names }, has) {
  const readers = new Map(names.map((name) => [name, has(name)]));
  return (row) => test((name) => readers.get(name)?.(row));
}

/**
 * @param {{ word: string, compared: RegExpExecArray | null }[]} words @param {(name: string) => ((row: Trial) => unknown) | null} has
 * @param {Parts} parts @returns {(row: Trial) => boolean}
 */
function searching(words, has, { rows, where }) {
  const tests = words.map(({ word, compared }) => {
    const [lower, read] = [word.toLowerCase(), compared && has(compared[1])];
    if (!compared || !read) return (/** @type {Trial} */ row) => textOf(row).includes(lower);
    const [, , sign, quoted] = compared;
    const wanted = quoted.replace(/^(['"])(.*)\1$/, "$2");
    return (/** @type {Trial} */ row) => where.each(read(row))[sign === "!=" ? "every" : "some"]((value) => compares(value, sign, wanted, rows.natural));
  });
  return (row) => tests.every((test) => test(row));
}

/** @param {unknown} value @param {string} sign @param {string} wanted @param {(a: string, b: string) => number} natural */
function compares(value, sign, wanted, natural) {
  if (value === undefined || value === null) return sign === "!=";
  const numeric = typeof value === "number" && wanted !== "" && !Number.isNaN(Number(wanted));
  const by = numeric ? value - Number(wanted) : natural(String(value), wanted);
  return { "=": by === 0, "==": by === 0, "!=": by !== 0, "<": by < 0, ">": by > 0, "<=": by <= 0, ">=": by >= 0 }[sign] ?? false;
}

/** The texts of rows that were searched. A row that changes is another object. @type {WeakMap<Trial, string>} */
const texts = new WeakMap();

/** @param {Trial} row */
function textOf(row) {
  const known = texts.get(row);
  if (known !== undefined) return known;
  const settings = Object.entries(row.settings ?? {}).map(([name, value]) => `${name}=${value}`);
  const made = [row.id, ...settings, row.error ?? "", row.note ?? "", ...(row.tags ?? [])].join("\n").toLowerCase();
  texts.set(row, made);
  return made;
}
