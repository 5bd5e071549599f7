/**
 * The columns of the list of checkpoints.
 *
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./checkpoint_rows.js").Line} Line
 */

/** @param {Frame} frame @param {() => string} here the checkpoint that is live now @param {(line: Line) => void} unfold */
export function columns(frame, here, unfold) {
  const narrow = frame.width === "narrow";
  const isHere = (/** @type {Line} */ line) => line.row.ref === here() && !line.versions;
  /** @type {import("./grid.js").Column[]} */
  const all = [
    { id: "name", title: "Name", width: narrow ? 150 : 170, grow: 2, fill: (cell, line) => name(frame, cell, line, isHere(line), unfold) },
    { id: "text", title: "Text", width: narrow ? 90 : 120, grow: 3, fill: (cell, line) => text(frame, cell, line, narrow) },
    { id: "saved", title: "Saved", width: 104, fill: (cell, { row }) => void cell.append(row.saved_at ? frame.age(frame.parts.checkpoint_rows.seconds(row.saved_at)) : "") },
    { id: "size", title: "Size", width: 78, end: true, hint: "What it adds to the store", fill: (cell, line) => taken(frame, cell, line) },
  ];
  return narrow ? all.slice(0, 3) : all;
}

/** @param {Frame} frame @param {HTMLElement} cell @param {Line} line @param {boolean} isHere @param {(line: Line) => void} unfold */
function name({ dom, parts }, cell, line, isHere, unfold) {
  const { row } = line;
  const title = parts.checkpoint_rows.title(line);
  const label = line.open ? `Fold the versions of ${title}` : `Show all versions of ${title}`;
  const trust = row.trusted ? null : dom.icon("warn", "saved by someone else");
  cell.title = row.label;
  dom.fill(
    cell,
    line.versions ? dom.button({ label, icon: line.open ? "down" : "right", bare: true, quiet: true, run: () => unfold(line) }) : null,
    isHere ? dom.make("span", { class: "nb-dot", role: "img", "aria-label": "live now", title: "The live variables came from here" }) : null,
    row.trouble ? dom.icon("failed", "damaged") : trust,
    dom.make("span", { class: "nb-ellipsis", text: title }),
  );
}

/** @param {Frame} frame @param {HTMLElement} cell @param {Line} line @param {boolean} narrow */
function text({ dom, parts }, cell, line, narrow) {
  const { row } = line;
  const plain = row.trouble || row.message || (narrow ? "" : parts.checkpoint_rows.listed(row.variables, 3));
  const said = line.versions ? `${line.versions} ${row.trial ? "checkpoints" : "versions"}, last ${row.label.replace(/^.*(?=@)/, "")}` : plain;
  cell.title = said;
  cell.append(dom.make("span", { class: `nb-ellipsis${row.message && !line.versions ? "" : " nb-dim"}`, text: said }));
}

/** @param {Frame} frame @param {HTMLElement} cell @param {Line} line */
function taken({ format }, cell, { adds, row, versions }) {
  cell.title = versions ? `all versions add ${format.size(adds)}` : `adds ${format.size(adds)}, ${format.size(row.size)} in all`;
  cell.append(row.size || adds ? format.size(adds) : "");
}
