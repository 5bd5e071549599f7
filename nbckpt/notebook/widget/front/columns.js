/**
 * The columns of the table of trials, and the cards of the narrow layout.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./grid.js").Column} Column
 * @typedef {object} View what the cells show beside the row
 * @property {string} metric
 * @property {import("./rows.js").Mode} mode
 * @property {string[]} metrics
 * @property {string[]} settings
 * @property {Trial[]} rows all of them, for one notation per column
 * @property {string | undefined} best
 * @property {Map<string, number>} slots colours by id
 * @property {Map<string, ArrayLike<number>>} sparks
 * @property {{ hidden: string[], shown: string[] }} chosen
 * @property {boolean} [onlyFailed] only failed trials are in sight: their errors come first
 * @property {boolean} [byBest] the metric is that of the best step, not of the last
 * @property {(id: string) => ((cell: HTMLElement) => void) | undefined} [head] what stands below the title of a column
 */

const MORE_METRICS = 2;
const MORE_SETTINGS = 6;
const SAMPLE = 2000;
const [STATUS_WIDTH, STANDING_WIDTH] = [96, 150];
const ON_FRONT = "On the Pareto front: no other trial is better in one objective and at least as good in all others";

/** What a metric of this name wants, if the name says it. Pure. @param {string} name @returns {import("./rows.js").Mode | null} */
export function direction(name) {
  if (/acc|auc|f1|r2|score|reward|precision|recall/i.test(name)) return "max";
  return /loss|error|rmse|mse|mae|nll|perplexity|time/i.test(name) ? "min" : null;
}

/**
 * The columns that are in the table, by id, in order. Pure.
 * @param {Pick<View, "metric" | "metrics" | "settings" | "chosen" | "onlyFailed">} view
 */
export function chosenColumns({ metric, metrics, settings, chosen, onlyFailed = false }) {
  const [id, status, ...others] = allColumns({ metric, metrics, settings });
  const all = onlyFailed ? [id, status, "error", ...others.filter((name) => name !== "error")] : [id, status, ...others];
  const more = metrics.filter((name) => name !== metric);
  const usual = ["id", "status", ...(onlyFailed ? ["error"] : []), `metrics:${metric}`, ...more.slice(0, MORE_METRICS).map((name) => `metrics:${name}`), ...settings.slice(0, MORE_SETTINGS).map((name) => `settings:${name}`)];
  return all.filter((name) => name === "id" || (!chosen.hidden.includes(name) && (usual.includes(name) || chosen.shown.includes(name))));
}

/** @param {Pick<View, "metric" | "metrics" | "settings">} view */
export const allColumns = ({ metric, metrics, settings }) => [
  "id",
  "status",
  ...(metric ? [`metrics:${metric}`] : []),
  ...metrics.filter((name) => name !== metric).map((name) => `metrics:${name}`),
  ...settings.map((name) => `settings:${name}`),
  ...["step", "seconds", "started", "saved", "note", "error"],
];

const TITLES = /** @type {Record<string, string>} */ ({
  id: "Trial", status: "Status", step: "Step", seconds: "Time", started: "Started", saved: "Saved at", note: "Note", error: "Error",
});

/**
 * How a trial stands that has not ended, in words, or "": how far it is, what is not saved, from where it goes on. Pure.
 * @param {Trial} row @param {typeof import("./format.js")} format
 */
export function standing({ status, why, step = 0, of, left_s: left, saved, unsaved }, format) {
  const isSaved = saved !== null && saved !== undefined;
  const steps = unsaved && isSaved ? `, ${format.count(unsaved, "step")} ` : "";
  if (status === "interrupted") return `Goes on from ${isSaved ? `@${saved}` : "its start"}${steps && `${steps}to do again`}`;
  if (status !== "running" || why || !of) return status === "running" ? (why ?? "") : "";
  return `${step}/${of}${left ? ` · ${format.left(left)}` : ""}${steps && `${steps}not saved`}`;
}

/** The title of a column. Pure. @param {string} id */
export const title = (id) => TITLES[id] ?? id.slice(id.indexOf(":") + 1);

/**
 * Make the columns.
 * @param {import("./panel.js").Frame} frame @param {View} view @returns {Column[]}
 */
export function columns(frame, view) {
  return chosenColumns(view).map((id) => column(frame, view, id));
}

/** @param {import("./panel.js").Frame} frame @param {View} view @param {string} id @returns {Column} */
function column(frame, view, id) {
  const main = id === `metrics:${view.metric}`;
  const named = main && view.byBest ? `${title(id)} (best)` : title(id);
  const head = view.head?.(id);
  const base = { id, title: named, sortable: true, hint: head ? `${named}. ${frame.parts.head_brushes.HINT}` : named, head };
  const cells = fills(frame, view);
  if (id === "id") return { ...base, width: 124, fill: cells.name };
  if (id === "status") return { ...base, width: view.rows.some((row) => standing(row, frame.format)) ? STANDING_WIDTH : STATUS_WIDTH, fill: cells.status };
  if (id === "note" || id === "error") return { ...base, width: 180, grow: 1, fill: (cell, row) => cells.text(cell, row[id]) };
  if (id === "seconds") return { ...base, width: 76, end: true, fill: (cell, row) => cells.text(cell, row.seconds == null ? "" : frame.format.duration(row.seconds)) };
  if (id === "started") return { ...base, width: 104, fill: (cell, row) => row.started && cell.append(frame.age(row.started)) };
  const written = notation(frame, view, id);
  const fill = (/** @type {HTMLElement} */ cell, /** @type {Trial} */ row) => cells.value(cell, row, id, written, main);
  return { ...base, width: main ? 138 : widthOf(frame, view, id, written), grow: main ? 0 : 1, end: isNumeric(frame, view, id), fill };
}

/** @typedef {(value: any) => string} Written */

/** The notations of columns by the rows that they suit. @type {WeakMap<Trial[], Map<string, Written>>} */
const notations = new WeakMap();

/** One notation for a column of metrics or settings. @param {import("./panel.js").Frame} frame @param {View} view @param {string} id */
function notation(frame, view, id) {
  const known = notations.get(view.rows) ?? new Map();
  notations.set(view.rows, known);
  if (!known.has(id)) known.set(id, notationOf(frame, view.rows, id));
  return known.get(id);
}

/** @param {import("./panel.js").Frame} frame @param {Trial[]} rows @param {string} id @returns {Written} */
function notationOf(frame, rows, id) {
  const some = rows.slice(0, SAMPLE);
  const able = some.filter((row) => row.status !== "failed");
  return frame.format.numbers((able.length ? able : some).map(frame.parts.rows.reader(id)), id.startsWith("metrics:") ? 4 : 3);
}

/** @param {import("./panel.js").Frame} frame @param {View} view @param {string} id */
const isNumeric = (frame, view, id) => {
  const row = view.rows.find((each) => (frame.parts.rows.valueIn(each, id) ?? null) !== null);
  const value = row && frame.parts.rows.valueIn(row, id);
  return value === undefined || typeof value === "number" || frame.format.isOdd(value);
};

/** @param {import("./panel.js").Frame} frame @param {View} view @param {string} id @param {(value: any) => string} written */
function widthOf(frame, view, id, written) {
  const texts = view.rows.slice(0, 60).map((row) => written(frame.parts.rows.valueIn(row, id)).length);
  return Math.max(56, Math.min(160, 18 + 7.2 * Math.max(title(id).length + 2, ...texts)));
}

/** What fills the cells. @param {import("./panel.js").Frame} frame @param {View} view */
export function fills(frame, view) {
  const { dom, format } = frame;
  /** @param {HTMLElement} cell @param {unknown} value */
  const text = (cell, value) => {
    const shown = value === null || value === undefined ? "" : String(value);
    cell.append(dom.make("span", { text: shown }));
    if (shown) cell.title = shown;
  };
  /** @param {Trial} row */
  const swatch = (row) => {
    const slot = view.slots.get(row.id);
    return slot === undefined ? null : frame.parts.legend.swatch(frame, slot);
  };
  /** @param {HTMLElement} cell @param {Trial} row */
  const name = (cell, row) => {
    const word = format.STATUS[row.status] ?? row.status;
    const sign = dom.make("span", { class: `nb-status nb-is-${row.status}`, title: row.why || row.error || word }, dom.icon(/** @type {any} */ (row.status), word));
    cell.append(sign, dom.make("span", { class: "nb-name", text: row.id }));
    if (row.id === view.best) cell.append(dom.make("span", { class: "nb-is-best", title: "The best" }, dom.icon("star", "best")));
    else if (row.front) cell.append(dom.make("span", { class: "nb-is-best", title: ON_FRONT }, dom.icon("star", "on the Pareto front")));
    const mark = swatch(row);
    if (mark) cell.append(mark);
  };
  /** @param {HTMLElement} cell @param {Trial} row */
  const status = (cell, row) => {
    const [word, words] = [format.STATUS[row.status] ?? row.status, standing(row, format)];
    cell.append(dom.make("span", { class: "nb-unseen", text: words && `${word}: ` }), dom.make("span", { class: `nb-is-${row.status}${words && " nb-standing"}`, text: words.replace(", ", ",\n") || word }));
    cell.title = row.error || (words ? `${word}: ${words}` : row.why) || "";
  };
  /** @param {Trial} row */
  const course = (row) => {
    if (row.status === "running" && row.of) {
      const label = `${row.step ?? 0}/${row.of}`;
      return dom.make("span", { class: "nb-run", title: row.left_s ? `about ${format.left(row.left_s)}` : label }, dom.progress((row.step ?? 0) / row.of, label));
    }
    const values = view.sparks.get(row.id);
    return values && values.length > 1 ? dom.spark(values) : dom.make("span", { class: "nb-no-spark" });
  };
  /** @param {HTMLElement} cell @param {Trial} row @param {string} id @param {(value: any) => string} written @param {boolean} main */
  const value = (cell, row, id, written, main) => {
    const now = frame.parts.rows.valueIn(row, id);
    cell.append(dom.make("span", { text: written(now), class: format.isOdd(now) ? "nb-odd" : row.status === "failed" && id.startsWith("metrics:") ? "nb-quiet-text" : "" }));
    if (now !== null && now !== undefined) cell.title = format.exact(now);
    if (main) cell.append(course(row));
  };
  return { name, status, value, text, course };
}

/**
 * One column of cards in two lines, for the narrow layout.
 * @param {import("./panel.js").Frame} frame @param {View} view @returns {Column[]}
 */
export function cards(frame, view) {
  const { dom, format } = frame;
  const cells = fills(frame, view);
  const written = notation(frame, view, `metrics:${view.metric}`);
  const second = view.metrics.find((name) => name !== view.metric) ?? "";
  const secondly = notation(frame, view, `metrics:${second}`);
  const others = view.settings.slice(0, MORE_SETTINGS).map((name) => ({ name, as: notation(frame, view, `settings:${name}`) }));
  /** @param {Trial} row */
  const progress = (row) => (row.status === "running" && row.of ? `${row.step ?? 0}/${row.of}${row.left_s ? ` · ${format.duration(row.left_s)}` : ""}` : "");
  /** @param {HTMLElement} cell @param {Trial} row */
  const fill = (cell, row) => {
    const first = dom.make("span", { class: "nb-card-line" });
    cells.name(first, row);
    const now = row.metrics?.[view.metric];
    first.append(dom.make("span", { class: "nb-card-value", text: written(now), title: format.exact(now) }), cells.course(row), dom.make("span", { class: "nb-quiet-text", text: progress(row) || (second && row.metrics?.[second] !== undefined ? `${second} ${secondly(row.metrics[second])}` : "") }));
    const isGoing = row.status === "running" && !row.why;
    const about = row.status === "failed" && row.error ? row.error : (!isGoing && standing(row, format)) || others.map(({ name, as }) => `${name} ${as(row.settings?.[name])}`).join(" · ");
    cell.append(dom.make("span", { class: "nb-card" }, first, dom.make("span", { class: "nb-card-about nb-quiet-text", text: about, title: about })));
  };
  return [{ id: "id", title: "Trial", width: 200, grow: 1, fill }];
}
