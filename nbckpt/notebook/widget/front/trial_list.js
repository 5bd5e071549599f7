/**
 * The table of trials, or the cards of the narrow layout: the order of the rows, their marks, the pictures in the heads.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

/**
 * Make the list.
 * @param {import("./panel.js").Frame} frame @param {import("./trial_view.js").TrialView} view @param {Map<string, number>} slots colours by id
 * @param {{ selected: () => void, focused: (id: string) => void, open: (id: string) => void, hover: (id: string | null) => void, left: () => void,
 *   menu: (id: string) => Partial<import("./panel.js").Action>[] }} pane
 */
export function list(frame, view, slots, pane) {
  const { dom, parts } = frame;
  const { known, state } = view;
  const element = dom.make("div", { class: "nb-list" });
  const heads = parts.head_brushes.heads(frame, { brush: view.brush, brushes: view.brushes });
  const both = {
    label: "Trials", id: (/** @type {Trial} */ row) => row.id, columns: [], checks: true,
    onMenu: (/** @type {Trial} */ row, /** @type {HTMLElement} */ cell) => frame.menu(cell, pane.menu(row.id)),
    onSelect: () => pane.selected(),
    onFocus: (/** @type {Trial} */ row) => pane.focused(row.id),
    onOpen: (/** @type {Trial} */ row) => pane.open(row.id),
    onLeave: () => visible !== arranged && pane.left(),
  };
  const grid = frame.grid({
    ...both, headHeight: 48,
    onSort: view.sortBy,
    onHover: (row) => pane.hover(row?.id ?? null),
    onHeadKey: (event, column) => heads.key(event, column.id),
    attributes: (row) => ({ class: `nb-trial nb-trial-${row.status}` }),
  });
  const cards = frame.grid({ ...both, rowHeight: 48, headless: true });
  const narrow = () => frame.width === "narrow";
  const table = () => (narrow() ? cards : grid);
  /** @type {Trial[]} */
  let visible = [];
  /** @type {Trial[]} */
  let arranged = [];
  let signature = "";
  /** What marks a row beside its content. @type {Map<string, string>} */
  let marks = new Map();

  /** @returns {import("./columns.js").View} */
  const columnView = () => ({
    metric: known.metric, mode: view.mode(), byBest: state.byBest, metrics: known.metrics, settings: known.settings, rows: view.all(), best: view.best()?.id,
    slots, sparks: known.sparks, chosen: state.columns, onlyFailed: state.filter.statuses.join() === "failed", head: heads.head,
  });

  /** Filter and sort, if rows, filter or order have changed. While someone reads, nothing moves. */
  function arrange() {
    const sorted = view.sorted();
    if (!table().held() || state.reorders) visible = sorted;
    else if (sorted !== arranged) visible = parts.rows.hold(sorted, visible.map((row) => row.id));
    arranged = sorted;
    state.reorders = false;
  }

  function draw() {
    const now = columnView();
    if (!narrow()) heads.draw(parts.columns.chosenColumns(now), now.rows, view.left());
    const made = narrow() ? parts.columns.cards(frame, now) : parts.columns.columns(frame, now);
    const shape = JSON.stringify([made.map((column) => [column.id, column.title, Math.round(column.width)]), view.sort(), heads.names(), narrow(), now.metric]);
    const marked = marksOf(now);
    if (shape !== signature) table().columns(made, view.sort(), visible);
    else table().renew(made, visible, parts.series.differing(marks, marked));
    signature = shape;
    marks = marked;
    if (!element.contains(table().element)) element.replaceChildren(table().element);
  }

  /** @param {import("./columns.js").View} now */
  function marksOf({ best }) {
    const some = new Map([...slots].map(([id, slot]) => [id, String(slot)]));
    return best === undefined ? some : some.set(best, `${some.get(best)} best`);
  }

  return {
    element, arrange, draw, table, columnView,
    visible: () => visible,
    selected: () => [...table().selected].filter((id) => known.rows.has(id)),
    /** The layout has changed: take the selection over, and draw all of it. */
    resized() {
      const before = [...grid.selected, ...cards.selected];
      if (before.length && ![...table().selected].length) table().select(before);
      signature = "";
    },
  };
}
