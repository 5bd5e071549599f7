/**
 * The columns of the list of states, and the lanes that are drawn in the first one.
 *
 * @typedef {import("./lanes.js").State} State
 * @typedef {import("./lanes.js").Line} Line
 * @typedef {{ known: Map<string, State>, here: () => string, unfold: (line: Line) => void, variable: () => string }} Tree `variable`: whose changes are shown, or ""
 */

const LANE = 14;
const ROW = 28;
const TWICE = 44;

/** How high a row is. @param {import("./panel.js").Frame} frame */
export const rowHeight = (frame) => (frame.width === "narrow" ? TWICE : ROW);

/** @param {import("./panel.js").Frame} frame @param {Tree} tree @returns {import("./grid.js").Column[]} */
export function columns(frame, tree) {
  const narrow = frame.width === "narrow";
  /** @type {import("./grid.js").Column[]} */
  const all = [
    { id: "state", title: "State", width: narrow ? 220 : 240, grow: 3, fill: (cell, line) => state(frame, tree, cell, line) },
    { id: "changes", title: "Changes", width: 130, grow: 2, fill: (cell, line) => cell.append(signs(frame, line, tree.variable())) },
    { id: "took", title: "Took", width: 68, end: true, fill: (cell, line) => cell.append(line.type === "state" ? took(frame, line.row) : "") },
    { id: "when", title: "When", width: 104, fill: (cell, line) => cell.append(line.type === "running" ? "is running…" : frame.age(frame.parts.checkpoint_rows.seconds(line.row.saved_at))) },
  ];
  return narrow ? [all[0], all[3]] : all;
}

/** How long the cell ran. Older states do not know it. @param {import("./panel.js").Frame} frame @param {State} row */
export const took = ({ format }, row) => (typeof row.seconds !== "number" ? "" : row.seconds < 0.05 ? "< 0.1 s" : format.duration(row.seconds));

/** The cell of a line: its lanes and its code; in the narrow layout its changes too. @param {import("./panel.js").Frame} frame @param {Tree} tree @param {HTMLElement} cell @param {Line} line */
function state(frame, tree, cell, line) {
  const { dom, parts } = frame;
  const lanes = rail(frame, tree, line, rowHeight(frame));
  if (parts.lanes.isFold(line)) {
    const text = parts.lanes.foldText(line, tree.known);
    cell.title = text;
    return dom.fill(cell, lanes, dom.button({ label: text, icon: line.open ? "down" : "right", quiet: true, run: () => tree.unfold(line) }));
  }
  cell.title = line.row.source;
  const one = code(frame, line);
  const both = frame.width === "narrow" ? [dom.make("span", { class: "nb-two" }, dom.make("span", { class: "nb-one" }, ...one), signs(frame, line, tree.variable()))] : one;
  dom.fill(cell, lanes, ...both);
}

/** @param {import("./panel.js").Frame} frame @param {Line} line */
function code({ dom, parts }, { type, row }) {
  return [
    dom.make("b", { class: "nb-count", text: row.cell === null ? "" : `[${row.cell}]` }),
    dom.make("code", { class: "nb-ellipsis", text: parts.lanes.firstLine(row) }),
    ...row.names.map((name) => dom.make("span", { class: "nb-tag", text: name })),
    row.error && type === "state" ? dom.icon("failed", `stopped: ${row.error}`) : null,
    row.partly.length ? dom.icon("warn", `partly kept: ${row.partly.join(", ")} cannot be saved`) : null,
  ];
}

/** What a line changed, as signs; of one variable, with its shape. @param {import("./panel.js").Frame} frame @param {Line} line @param {string} variable */
function signs({ dom, parts }, { type, row }, variable) {
  if (type === "failed") return dom.make("span", { class: "nb-ellipsis nb-stopped", text: `stopped: ${row.error}`, title: "It changed nothing, so it has no state of its own." });
  return type === "state" ? dom.make("span", { class: "nb-ellipsis nb-signs", text: variable ? parts.lanes.changeOf(row, variable) : parts.lanes.changes(row), title: parts.lanes.inWords(row) }) : "";
}

/** The lanes of a line as a drawing. @param {import("./panel.js").Frame} frame @param {Tree} tree @param {Line} line @param {number} height */
function rail({ dom, parts }, { here }, line, height) {
  const x = (/** @type {number} */ lane) => 8 + lane * LANE;
  const width = x(Math.max(line.lane, ...line.lanes, ...line.joins, 0)) + 8;
  const middle = height / 2;
  const passes = line.type === "running" || line.type === "failed" ? "nb-rail nb-rail-running" : "";
  const lines = [...new Set(line.lanes)].map((lane) => dom.draw("path", { d: `M${x(lane)} ${line.tip && lane === line.lane ? middle : 0}V${line.root && lane === line.lane ? middle : height}`, class: passes || (lane ? "nb-rail" : "nb-rail nb-rail-way") }));
  const joins = line.joins.map((lane) => dom.draw("path", { d: `M${x(lane)} 0Q${x(lane)} ${middle} ${x(line.lane)} ${middle}`, class: "nb-rail" }));
  const isHere = line.row.ref === here() && line.type === "state";
  const ring = isHere ? dom.draw("circle", { cx: x(line.lane), cy: middle, r: 7.5, class: "nb-mark" }) : null;
  const word = parts.lanes.isFold(line) || line.type === "state" ? (isHere ? "you are here" : line.onWay ? "on the way here" : "on another way") : line.type;
  return dom.draw("svg", { class: "nb-lanes", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": word }, ...lines, ...joins, ring, mark(dom, line, x(line.lane), middle));
}

/** The sign of a line in its lane. @param {typeof import("./dom.js")} dom @param {Line} line @param {number} x @param {number} y */
function mark(dom, line, x, y) {
  if (line.type === "failed") return dom.draw("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, class: "nb-mark nb-mark-failed" });
  if (line.type === "running") return dom.draw("circle", { cx: x, cy: y, r: 4.5, class: "nb-mark nb-mark-running" });
  if (line.type !== "state") return null;
  if (line.row.names.length) return dom.draw("path", { d: `M${x} ${y - 5.5}l5.5 5.5-5.5 5.5-5.5-5.5z`, class: "nb-mark nb-mark-way" });
  return dom.draw("circle", { cx: x, cy: y, r: 4.5, class: line.onWay ? "nb-mark nb-mark-way" : "nb-mark" });
}
