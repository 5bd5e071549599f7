/**
 * What is known of an experiment: rows, sparklines and points, as the kernel sends them. It draws nothing.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./series.js").Line} Line
 */

/**
 * Make an empty store of one experiment. A trial has the last value of each metric, or the best one where that is known.
 * @param {typeof import("./rows.js")} rows @param {typeof import("./series.js")} series
 */
export function experiment(rows, series) {
  const known = {
    /** @type {Map<string, Trial>} */
    rows: new Map(),
    /** The rows as the kernel sent them, with the last values. @type {Map<string, Trial>} */
    sent: new Map(),
    /** @type {Map<string, Float32Array>} */
    sparks: new Map(),
    /** @type {Map<string, Line>} */
    lines: new Map(),
    name: "",
    metric: "",
    mode: /** @type {import("./rows.js").Mode} */ ("min"),
    guess: false,
    /** @type {{ name: string, total: number, running: number }[]} */
    experiments: [],
    /** @type {string[]} */
    metrics: [],
    /** What the dots on the lines are: "rungs", "generations", or "" without a scheduler. */
    compared: "",
    /** What the experiment wants, if that is more than one thing. @type {import("./pareto.js").Objective[]} */
    objectives: [],
    /** @type {string[]} */
    settings: [],
    /** @type {Record<string, unknown>} */
    same: {},
    /** @type {Record<string, any>} */
    summary: {},
    total: 0,
    /** Whether anything came yet. */
    heard: false,
    /** Counts up when points come. */
    version: 0,
  };

  const { sent } = known;
  let isBest = false;
  /** @param {Trial} row @returns {Trial} */
  const shown = (row) => (isBest && row.best ? { ...row, metrics: { ...row.metrics, ...row.best } } : row);
  /** All rows, in the same array until one of them changes. @type {Trial[] | null} */
  let list = null;

  /** @param {Record<string, any>} message */
  function head(message) {
    list = null;
    if (message.experiment !== known.name || message.metric !== known.metric) {
      known.sparks.clear();
      known.lines.clear();
    }
    if (message.experiment !== known.name) for (const each of [sent, known.rows]) each.clear();
    Object.assign(known, {
      name: String(message.experiment ?? ""), metric: String(message.metric ?? ""), mode: message.mode === "max" ? "max" : "min",
      guess: Boolean(message.mode_is_guess), experiments: message.experiments ?? [], metrics: message.metrics ?? [], objectives: message.objectives ?? [], compared: String(message.compared ?? ""),
      settings: message.settings ?? [], same: message.same ?? {}, summary: message.summary ?? {}, total: message.total ?? 0, heard: true,
    });
    rows.join(sent, message);
    rows.join(known.rows, { ...message, rows: (message.rows ?? []).map(shown) });
  }

  /** Whether bytes belong to what is shown. @param {Record<string, any>} message */
  const mine = (message) => message.experiment === known.name && message.metric === known.metric;

  /** @param {Record<string, any>} message @param {DataView[]} buffers */
  function sparks(message, buffers) {
    list = null;
    for (const [id, spark] of series.cut(series.floats(buffers[0], Float32Array), message.ids, message.lengths)) {
      known.sparks.set(id, spark);
      const row = known.rows.get(id);
      if (row) known.rows.set(id, { ...row });
    }
  }

  /** @param {Record<string, any>} message @param {DataView[]} buffers */
  function points(message, buffers) {
    known.version += 1;
    if (message.reset) known.lines.clear();
    const [x, seconds, y] = buffers.slice(0, 3).map((buffer) => series.cut(series.floats(buffer, Float64Array), message.ids, message.lengths));
    for (const id of message.ids) known.lines.set(id, { x: x.get(id) ?? new Float64Array(), seconds: seconds.get(id) ?? new Float64Array(), y: y.get(id) ?? new Float64Array(), marks: message.marks?.[id] ?? [] });
  }

  return {
    known,
    /** All rows, in the same array until one of them changes. */
    all: () => (list ??= [...known.rows.values()]),
    /** Have each trial stand for its best value, or for its last. @param {boolean} best */
    byBest(best) {
      if (best === isBest) return;
      isBest = best;
      list = null;
      for (const [id, row] of sent) known.rows.set(id, shown(row));
    },
    /** Take in a message, and tell what changed: "rows", "lines" or nothing. @param {Record<string, any>} message @param {DataView[]} buffers */
    take(message, buffers) {
      if (message.kind === "trials") return head(message), "rows";
      if (message.kind === "sparks" && mine(message) && buffers[0]) return sparks(message, buffers), "rows";
      if (message.kind === "points" && mine(message) && buffers.length >= 3) return points(message, buffers), "lines";
      return "";
    },
  };
}
