/**
 * The detail of a state beside the list: what its cell changed, what going there would change, its variables and its code.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./lanes.js").State} State
 */

/**
 * Draw a state.
 * @param {Frame} frame @param {State} row @param {Message | null} data what the kernel told of it; null before that
 * @param {{ known: Map<string, State>, here: string, go: (row: State) => void, back: (() => void) | null }} tree
 */
export function state(frame, row, data, { known, here, go, back }) {
  const { dom, parts } = frame;
  const { label, firstLine, allChanges, way } = parts.lanes;
  const { banner, fold } = parts.checkpoint_detail;
  const all = () => way(known, row.ref).reverse().map((each) => `# ${label(each)}\n${each.source}`).join("\n\n");
  const fresh = allChanges(row, row.forms);
  return [
    dom.make("div", { class: "nb-heading" }, back ? dom.button({ label: "History", icon: "left", run: back, id: "back" }) : null,
      dom.make("strong", { text: label(row) }), dom.make("code", { class: "nb-wrap", text: firstLine(row) })),
    facts(frame, row),
    fresh ? dom.make("p", { class: "nb-facts" }, dom.make("b", { text: "New here: " }), dom.make("span", { class: "nb-signs", text: fresh })) : null,
    row.ref === here ? dom.make("p", { class: "nb-facts", text: "You are here." }) : data ? would(frame, data) : null,
    row.error ? stopped(frame, row, known.get(row.parent), go) : null,
    data?.trouble ? banner(frame, "failed", data.trouble) : null,
    row.partly.length ? banner(frame, "warn", `Partly kept: ${row.partly.join(", ")} cannot be saved.`) : null,
    data?.variables ? values(frame, data.variables) : data ? null : dom.make("p", { class: "nb-facts", text: frame.why() || "Opening…" }),
    data?.source ? fold(dom, "Code of this cell", data.source, true) : null,
    data ? fold(dom, "All code up to here", all(), true) : null,
  ];
}

/** @param {Frame} frame @param {State} row */
function facts(frame, row) {
  const { dom, format, parts } = frame;
  const took = parts.history_columns.took(frame, row);
  return dom.make("p", { class: "nb-facts" }, frame.age(parts.checkpoint_rows.seconds(row.saved_at)), took ? ` · took ${took}` : "", ` · adds ${format.size(row.adds)}`,
    row.missed ? ` · holds the changes of ${format.count(row.missed, "cell")} before too` : "");
}

/** That the cell failed halfway, and the way back. @param {Frame} frame @param {State} row @param {State | undefined} before @param {(row: State) => void} go */
function stopped(frame, row, before, go) {
  const { format, parts } = frame;
  const number = row.added.length + row.changed.length + row.removed.length;
  const text = `This cell stopped: ${row.error}. ${format.count(number, "variable")} had changed before.`;
  return parts.checkpoint_detail.banner(frame, "failed", text, before && { label: `Go back to ${parts.lanes.label(before)}…`, icon: "go", run: () => go(before), why: frame.why(), id: "go-back" });
}

/** @param {Frame} frame @param {Message} data */
function would(frame, data) {
  const { dom, parts } = frame;
  if (data.busy) return parts.checkpoint_detail.banner(frame, "waiting", "What going here would change shows when the running cell has ended.");
  const signs = parts.lanes.allChanges({ ...data.would, added: data.would.new }, data.would.forms);
  return dom.make("p", { class: "nb-facts" }, dom.make("b", { text: "If you go here now: " }), dom.make("span", { class: "nb-signs", text: signs || "nothing changes" }));
}

/** @param {Frame} frame @param {any[]} rows */
function values({ dom, parts }, rows) {
  const { data, lines } = parts.checkpoint_rows.groups(rows);
  const line = (/** @type {any} */ value) => dom.make("tr", {}, dom.make("th", { scope: "row" }, dom.make("code", { text: value.name })), dom.make("td", { class: "nb-dim", text: [value.type.replace(/^.*\./, ""), value.extent].filter(Boolean).join(", "), title: value.type }), dom.make("td", { class: "nb-content", title: value.text }, dom.make("code", { text: value.text })));
  return dom.make("div", {}, dom.make("div", { class: "nb-scroll", tabindex: 0, role: "region", "aria-label": "Variables of this state" }, dom.make("table", { class: "nb-values" }, dom.make("tbody", {}, ...data.map(line)))),
    ...lines.map(([name, names]) => dom.make("p", { class: "nb-facts" }, dom.make("b", { text: `${name}: ` }), names.join(", "))));
}
