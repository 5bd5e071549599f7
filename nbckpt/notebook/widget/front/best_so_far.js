/**
 * Best so far: a dot for each trial in the order of their numbers, and the line of the best value until then.
 *
 * @typedef {import("./dots.js").Dot} Dot
 */

/**
 * The trials that were better than all before them. Pure.
 * @param {Dot[]} dots in order @param {import("./rows.js").Mode} mode @returns {Dot[]}
 */
export function improvements(dots, mode) {
  const sign = mode === "max" ? -1 : 1;
  let best = Infinity;
  return dots.filter(({ y }) => {
    const better = sign * y < best;
    if (better) best = sign * y;
    return better;
  });
}

/**
 * Trials with their places on the axis: their numbers, or their order if some have names without a number. Pure.
 * @param {import("./rows.js").Trial[]} rows @returns {[import("./rows.js").Trial, number][]}
 */
export function inOrder(rows) {
  const hasNumbers = rows.every(({ n }) => n >= 0);
  return [...rows].sort((a, b) => a.n - b.n).map((row, at) => [row, hasNumbers ? row.n : at]);
}

/**
 * Whether the search still finds something, as a sentence. Pure.
 * @param {Dot[]} dots in order @param {Dot} best @param {typeof import("./format.js")} format
 */
export function verdict(dots, best, format) {
  const since = dots.length - 1 - dots.indexOf(best);
  if (!since) return `${best.row.id}, the last trial, is the best.`;
  return `${best.row.id} is the best. ${since === 1 ? "The trial after it" : `The ${format.whole(since)} trials after it`} found nothing better.`;
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function picture(frame, beside) {
  const { format, parts } = frame;
  const { axes, rows: logic } = parts;
  const value = (/** @type {import("./rows.js").Trial} */ row) => logic.toNumber(row.metrics?.[beside.known.metric]);

  function shape() {
    const all = [...beside.known.rows.values()];
    const able = all.filter((row) => row.status !== "failed" && Number.isFinite(value(row)));
    if (!able.length) return "No values yet.";
    const dots = inOrder(able).map(([row, x]) => ({ row, x, y: value(row) }));
    const places = new Map(dots.map(({ row, x }) => [row, x]));
    const steps = improvements(dots, beside.mode());
    const failed = all.filter((row) => row.status === "failed").length;
    return {
      dots, steps, goesOn: true,
      axes: /** @type {[import("./axes.js").Axis, import("./axes.js").Axis]} */ ([
        axes.axis(dots.map(({ x }) => x), logic, format, { scale: true, counts: true }), axes.axis(dots.map(({ y }) => y), logic, format, { scale: true })]),
      titles: [{ text: "trial", of: (/** @type {import("./rows.js").Trial} */ row) => places.get(row) ?? row.n }, { text: beside.known.metric, of: value }],
      text: `${verdict(dots, steps[steps.length - 1], format)}${failed ? ` ${format.whole(failed)} failed ${failed === 1 ? "is" : "are"} left out.` : ""}`,
    };
  }

  return parts.dots.dots(frame, beside, "Best so far", shape);
}
