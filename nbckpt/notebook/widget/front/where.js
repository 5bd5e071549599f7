/**
 * Filters over trials, such as `lr < 0.1 and tag == 'good'`, as `--where` of the commands reads them. They are parsed, never run.
 * Pure: the tests import this in Node.
 *
 * @typedef {(name: string) => unknown} Values tells the value of a name; undefined: the trial has none
 * @typedef {{ kind: number, text: string, at: number }} Token
 * @typedef {{ at: number, depth: number, name?: string, value?: unknown, test?: (values: Values) => boolean }} Part a name, a constant, or a test
 */

const LONGEST = 2000;
const DEEPEST = 40;
const MOST_NESTED = 100;
const MOMENTS = ["started_at", "ended_at"];
const [NUMBER, NAME, TEXT, SIGN] = [0, 1, 2, 3];
const TOKENS = /(0x[\da-f]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([=!<>]=|[<>()[\]{},./+-])|\S/giu;
const DATE = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?)?(Z|[+-]\d\d:\d\d)?$/;
const WORDS = /** @type {Record<string, unknown>} */ ({ True: true, False: false, None: null });
const ENDS = /** @type {Record<string, string>} */ ({ "(": ")", "[": "]", "{": "}" });
const NO_VALUE = "this is not a name or a constant";

/** Several values of one name. A comparison holds if it holds for one of them; `!=` if for all. */
export class Several {
  /** @param {unknown[]} values */
  constructor(values) {
    this.values = values;
  }
}

/** The values of a name, one or several. @param {unknown} value */
export const each = (value) => (value instanceof Several ? value.values : [value]);
/** @param {unknown} value */
const plain = (value) => (typeof value === "boolean" ? Number(value) : value);

/** @param {unknown} a @param {unknown} b @returns {boolean} */
const equal = (a, b) => (Array.isArray(a) && Array.isArray(b) ? a.length === b.length && a.every((one, at) => equal(one, b[at])) : plain(a) === plain(b));

/** Compare texts with texts, and numbers with numbers. @param {(a: any, b: any) => boolean} compare */
const ordered = (compare) => (/** @type {unknown} */ a, /** @type {unknown} */ b) =>
  typeof plain(a) === typeof plain(b) && ["number", "string"].includes(typeof plain(a)) && compare(plain(a), plain(b));

/** @param {(a: unknown, b: unknown) => boolean} compare @param {"some" | "every"} [how] */
const compared = (compare, how = "some") => (/** @type {unknown} */ left, /** @type {unknown} */ right) =>
  each(left)[how]((a) => each(right)[how]((b) => a !== undefined && b !== undefined && compare(a, b)));

/** @param {unknown} left @param {unknown} right */
function inside(left, right) {
  const all = right instanceof Several ? right.values : right;
  return each(left).some((one) => (typeof all === "string" ? typeof one === "string" && all.includes(one) : Array.isArray(all) && all.some((other) => one !== undefined && equal(one, other))));
}

const COMPARISONS = /** @type {Record<string, (left: unknown, right: unknown) => boolean>} */ ({
  "==": compared(equal),
  "!=": compared((a, b) => !equal(a, b), "every"),
  "<": compared(ordered((a, b) => a < b)),
  "<=": compared(ordered((a, b) => a <= b)),
  ">": compared(ordered((a, b) => a > b)),
  ">=": compared(ordered((a, b) => a >= b)),
  in: inside,
  "not in": (left, right) => left !== undefined && right !== undefined && !inside(left, right),
});

/** Whether a value alone passes. @param {unknown} value */
const passes = (value) => (value instanceof Several ? value.values.length > 0 : Array.isArray(value) ? value.length > 0 : Number.isNaN(value) || Boolean(value));

/** @param {number} at @param {string} reason @returns {never} */
function refuse(at, reason) {
  throw new Error(`Cannot read the filter at character ${at + 1}: ${reason}.`);
}

/** The text that a quoted one stands for. @param {string} quoted */
const unquoted = (quoted) => quoted.slice(1, -1).replace(/\\(?:x([\da-f]{2})|u([\da-f]{4})|(.))/gi, (whole, two, four, one) =>
  one ? ({ n: "\n", t: "\t", r: "\r" }[/** @type {"n"} */ (one)] ?? (/[\\'"]/.test(one) ? one : whole)) : String.fromCharCode(parseInt(two ?? four, 16)));

/** The seconds since 1970 of a date, in the time zone here if it names none. @param {string} text @param {number} at */
function moment(text, at) {
  const [, year, month, day, hour = 0, minute = 0, second = 0, zone] = DATE.exec(text) ?? [];
  const [h, m, s] = [hour, minute, second].map(Number);
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  if (date.getFullYear() !== Number(year) || date.getMonth() + 1 !== Number(month) || date.getDate() !== Number(day) || h > 23 || m > 59 || s >= 60)
    refuse(at, "this is not a date such as '2026-11-19' or '2026-11-19 14:30'");
  date.setHours(h, m, 0);
  const local = zone === undefined ? date : new Date(`${year}-${month}-${day}T${hour || "00"}:${minute || "00"}:00${zone}`);
  return local.getTime() / 1000 + s;
}

/** @param {string} text @returns {Token[]} */
function cut(text) {
  return [...text.matchAll(TOKENS)].map((match) => {
    const [kind, at] = [match.slice(1).findIndex((part) => part !== undefined), match.index ?? 0];
    if (kind < 0) refuse(at, match[0] === "=" ? "write == for equal" : /['"]/.test(match[0]) ? "this quote is not closed" : NO_VALUE);
    return { kind, text: match[0], at };
  });
}

/**
 * Read a filter.
 * @param {string} text
 * @returns {{ test: (values: Values) => boolean, names: string[], compares: boolean, joins: boolean }} `names`: those in it; `compares`: it has a
 *   comparison; `joins`: it has any operator
 * @throws {Error} it cannot be read; the message says where and why
 */
export function where(text) {
  if (text.length > LONGEST) throw new Error("A filter has at most 2,000 characters.");
  const tokens = cut(text);
  const names = /** @type {Set<string>} */ (new Set());
  let [next, nested, compares] = [0, 0, false];
  const here = () => tokens[next]?.at ?? text.length;
  const wrong = (/** @type {string} */ reason) => refuse(here(), next < tokens.length ? reason : "something is missing here");
  const take = (/** @type {string[]} */ ...texts) => (texts.includes(tokens[next]?.text) ? tokens[next++].text : "");
  const taken = (/** @type {number[]} */ ...kinds) => (kinds.includes(tokens[next]?.kind) ? tokens[next++].text : wrong(NO_VALUE));

  /** @param {number} at @param {Part[]} parts what it is made of @param {Partial<Part>} fields @returns {Part} */
  function node(at, parts, fields) {
    const depth = parts.length ? 1 + Math.max(...parts.map((part) => part.depth)) : 0;
    return depth > DEEPEST ? refuse(at, "it is nested too deep") : { at, depth, ...fields };
  }

  /** @template T @param {() => T} read @returns {T} */
  function deeper(read) {
    if (++nested > MOST_NESTED) refuse(here(), "it is nested too deep");
    const part = read();
    nested -= 1;
    return part;
  }

  /** What reads the value of a name or a constant. @param {Part} part @param {(value: unknown, at: number) => unknown} [as] @returns {(values: Values) => unknown} */
  function operand({ at, name, value, test }, as = (each) => each) {
    if (test) refuse(at, NO_VALUE);
    if (name === undefined) return ((constant) => () => constant)(as(value, at));
    names.add(name);
    return (values) => values(name);
  }

  /** @param {Part} part @returns {(values: Values) => boolean} */
  function truth(part) {
    if (part.test) return part.test;
    const read = operand(part);
    return (values) => passes(read(values));
  }

  /** @param {string} word @param {"some" | "every"} how @param {() => Part} read @returns {Part} */
  function joined(word, how, read) {
    const parts = [read()];
    while (take(word)) parts.push(read());
    if (parts.length < 2) return parts[0];
    const tests = parts.map(truth);
    return node(parts[0].at, parts, { test: (values) => tests[how]((test) => test(values)) });
  }
  const whole = () => joined("or", "some", () => joined("and", "every", negated));

  /** @returns {Part} */
  function negated() {
    const at = here();
    if (!take("not")) return comparison();
    const part = deeper(negated);
    const test = truth(part);
    return node(at, [part], { test: (values) => !test(values) });
  }

  function comparison() {
    const parts = [path()];
    const signs = /** @type {string[]} */ ([]);
    for (let sign = operator(); sign; sign = operator()) {
      signs.push(sign);
      parts.push(path());
    }
    if (!signs.length) return parts[0];
    compares = true;
    const dates = parts.some(({ name }) => MOMENTS.includes(name ?? ""));
    const reads = parts.map((part) => operand(part, dates ? (value, at) => (typeof value === "string" ? moment(value, at) : value) : undefined));
    return node(parts[0].at, parts, {
      test(values) {
        const all = reads.map((read) => read(values));
        return signs.every((sign, at) => COMPARISONS[sign](all[at], all[at + 1]));
      },
    });
  }

  /** The next comparison, or "". */
  function operator() {
    if (tokens[next]?.text === "not" && tokens[next + 1]?.text === "in") return (next += 2), "not in";
    return take("==", "!=", "<", "<=", ">", ">=", "in");
  }

  /** Names with a slash between them, or one part. @returns {Part} */
  function path() {
    let part = signed();
    while (take("/")) {
      const right = signed();
      if (part.name === undefined || right.name === undefined) refuse(part.at, NO_VALUE);
      part = { ...part, name: `${part.name}/${right.name}` };
    }
    return part;
  }

  /** @returns {Part} */
  function signed() {
    const at = here();
    const sign = take("-", "+");
    if (!sign) return dotted();
    const part = deeper(signed);
    if (typeof plain(part.value) !== "number") refuse(at, NO_VALUE);
    return node(at, [part], { value: Number(part.value) * (sign === "-" ? -1 : 1) });
  }

  function dotted() {
    const part = primary();
    while (part.name !== undefined) {
      if (take(".")) part.name += `/${taken(NAME)}`;
      else if (take("[")) {
        const key = taken(NUMBER, TEXT);
        part.name += `/${/^['"]/.test(key) ? unquoted(key) : key}`;
        close("]");
      } else break;
    }
    return part;
  }

  /** @returns {Part} */
  function primary() {
    const { kind, text: word, at } = tokens[next] ?? wrong("");
    if (kind === SIGN) return group(at);
    next += 1;
    if (kind === NUMBER) return node(at, [], { value: Number(word.replaceAll("_", "")) });
    if (kind === NAME) return /^(and|or|not|in|is|if|lambda)$/.test(word) ? refuse(at, NO_VALUE) : node(at, [], Object.hasOwn(WORDS, word) ? { value: WORDS[word] } : { name: word });
    let value = unquoted(word);
    while (tokens[next]?.kind === TEXT) value += unquoted(tokens[next++].text);
    return node(at, [], { value });
  }

  /** What stands in brackets. @param {number} at @returns {Part} */
  function group(at) {
    const end = ENDS[take("(", "[", "{")] ?? wrong(NO_VALUE);
    const parts = /** @type {Part[]} */ ([]);
    let several = end !== ")";
    while (tokens[next]?.text !== end || (end === "}" && !parts.length)) {
      parts.push(deeper(whole));
      if (!take(",")) break;
      several = true;
    }
    close(end);
    if (parts.length === 1 && !several) return parts[0];
    const named = parts.find((part) => part.name !== undefined || part.test);
    if (named) refuse(named.at, NO_VALUE);
    return node(at, parts, { value: parts.map(({ value }) => value) });
  }

  /** @param {string} end */
  const close = (end) => take(end) || wrong(`a ${end} is missing`);

  const all = whole();
  if (next < tokens.length) wrong("a comparison, and or or is missing before this");
  return { test: truth(all), names: [...names], compares, joins: Boolean(all.test) };
}
