/**
 * Timeline: when each trial ran, as a line from its start to its end. Pauses between are part of it.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

/** Units of time in seconds, with their names. @type {[number, string][]} */
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/**
 * When trials started and ended, in seconds since 1970. One that runs goes on until the last time that any trial tells. Pure.
 * @param {Trial[]} rows those that have started @returns {Map<Trial, [number, number]>}
 */
export function spans(rows) {
  const end = (/** @type {Trial} */ { started, ended, seconds }) => Math.max(Number(started), ended ?? Number(started) + (Number(seconds) || 0));
  const latest = rows.reduce((last, row) => Math.max(last, end(row)), 0);
  return new Map(rows.map((row) => [row, [Number(row.started), row.status === "running" ? latest : end(row)]]));
}

/** The largest unit of which there are two in so many seconds. Pure. @param {number} seconds */
export const unitOf = (seconds) => UNITS.find(([unit]) => seconds >= 2 * unit) ?? UNITS[UNITS.length - 1];

/**
 * What the picture says. Pure.
 * @param {Trial[]} rows those that have started @param {number} waiting how many have not
 * @param {number} seconds how long all took @param {typeof import("./format.js")} format
 */
export function told(rows, waiting, seconds, format) {
  const failed = rows.filter(({ status }) => status === "failed").length;
  const parts = [`${format.count(rows.length, "trial")} in ${format.duration(seconds)}`, failed && `${format.whole(failed)} failed (dashed)`, waiting && `${format.whole(waiting)} not started`];
  return `${parts.filter(Boolean).join(", ")}.`;
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function picture(frame, beside) {
  const { format, parts } = frame;
  const { axes, rows: logic } = parts;

  function shape() {
    const all = [...beside.known.rows.values()];
    const able = all.filter(({ started }) => typeof started === "number");
    if (!able.length) return "No trial has started yet.";
    const times = spans(able);
    const [starts, ends] = [0, 1].map((at) => (/** @type {Trial} */ row) => times.get(row)?.[at] ?? NaN);
    const first = able.reduce((least, row) => Math.min(least, starts(row)), Infinity);
    const whole = able.reduce((most, row) => Math.max(most, ends(row)), 0) - first;
    const [unit, name] = unitOf(whole);
    const dots = parts.best_so_far.inOrder(able).map(([row, y]) => ({ row, x: (ends(row) - first) / unit, y }));
    const across = axes.axis([0, whole / unit], logic, format, { scale: true, counts: true });
    const since = (/** @type {(row: Trial) => number} */ of) => (/** @type {Trial} */ row) => format.duration(of(row) - first);
    return {
      dots, steps: [], listed: dots,
      axes: /** @type {[import("./axes.js").Axis, import("./axes.js").Axis]} */ ([
        { ...across, ticks: across.ticks.map(({ at, text }) => ({ at, text: `${text} ${name}` })) }, axes.axis(dots.map(({ y }) => y), logic, format, { scale: true, counts: true })]),
      titles: [
        { text: "end", of: since(ends) }, { text: "trial", of: (/** @type {Trial} */ row) => row.id }, { text: "start", of: since(starts) },
        { text: "trained", of: (/** @type {Trial} */ row) => format.duration(Number(row.seconds)) }, { text: "status", of: (/** @type {Trial} */ row) => format.STATUS[row.status] }],
      begins: (/** @type {Trial} */ row) => (starts(row) - first) / unit,
      text: told(able, all.length - able.length, whole, format),
    };
  }

  return parts.dots.dots(frame, beside, "Timeline", shape);
}
