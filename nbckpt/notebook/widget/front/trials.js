/**
 * The pane of trials: the answer, filters, the table, and beside it the pictures.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./rows.js").Filter} Filter
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./grid.js").Sort} Sort
 */

const BEST = 5;
const ALL = /** @type {Filter} */ ({ find: "", statuses: [], brushes: {} });

/**
 * The pane.
 * @param {import("./panel.js").Frame} frame @returns {import("./panel.js").Pane}
 */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const { rows: logic } = parts;
  const store = parts.experiment.experiment(logic, parts.series);
  const known = store.known;
  const chosen = frame.choices("trials");
  const state = {
    filter: /** @type {Filter} */ ({ ...ALL, ...frame.kept("filter", "trials") }),
    sort: /** @type {Sort | null} */ (frame.kept("sort", "trials") ?? null),
    mode: /** @type {import("./rows.js").Mode | null} */ (chosen.mode ?? null),
    columns: { hidden: [], shown: [], ...chosen.columns },
    shows: String(chosen.shows ?? "both"),
    experiment: String(chosen.experiment ?? ""),
    metric: String(chosen.metric ?? ""),
  };
  /** @type {Map<string, number>} */
  const slots = new Map();
  /** @type {Trial[]} */
  let visible = [];

  const heading = dom.make("div", { class: "nb-heading" });
  const failures = dom.make("div", {});
  const find = /** @type {HTMLInputElement} */ (dom.make("input", { type: "search", class: "nb-input nb-find", placeholder: "Find…", "aria-label": "Find trials", title: "Words in names, settings, errors; or lr<0.01" }));
  find.value = state.filter.find;
  const chips = dom.make("div", { class: "nb-chips", role: "group", "aria-label": "Filter by status" });
  const choices = dom.make("div", { class: "nb-choices" });
  const tools = dom.make("div", { class: "nb-tools" }, find, chips, dom.make("span", { class: "nb-gap" }), choices);
  const grid = frame.grid({
    label: "Trials", id: (row) => row.id, columns: [], checks: true,
    onSort: (column, more) => sortBy(column, more),
    onSelect: () => redraw(true),
    onFocus: (row) => pictures.focus(row.id),
    onOpen: (row) => open(row.id),
    onHover: (row) => pictures.hover(row?.id ?? null),
    attributes: (row) => ({ class: `nb-trial nb-trial-${row.status}` }),
  });
  const cards = frame.grid({
    label: "Trials", id: (row) => row.id, columns: [], checks: true, rowHeight: 48, headless: true,
    onSelect: () => redraw(true), onFocus: (row) => pictures.focus(row.id), onOpen: (row) => open(row.id),
  });
  const list = dom.make("div", { class: "nb-list" });
  const detail = dom.make("div", { class: "nb-detail" });
  const split = dom.make("div", { class: "nb-split" }, list, detail);
  const element = dom.make("div", {});
  const pictures = parts.pictures.pictures(frame, detail, {
    known, slots,
    best: () => bestRow(),
    visible: () => visible,
    selected: () => selectedIds(),
    brush, brushes: () => state.filter.brushes,
    light: (id) => table().light(id),
    select: (ids) => table().select(ids),
    back: () => table().goto(table().focused?.id ?? ""),
    layout: () => showSplit(),
  });

  const narrow = () => frame.width === "narrow";
  const table = () => (narrow() ? cards : grid);
  const mode = () => state.mode ?? known.mode;
  const bestRow = () => logic.bestOf(known.rows.values(), known.metric, mode());
  const selectedIds = () => [...table().selected].filter((id) => known.rows.has(id));
  /** @returns {Sort} */
  const sort = () => state.sort ?? (known.metric ? [[`metrics:${known.metric}`, mode() === "max" ? "down" : "up"]] : []);
  const keep = () => frame.keep("trials", { mode: state.mode, columns: state.columns, shows: state.shows, experiment: state.experiment, metric: state.metric, ...pictures.choices() });
  const held = () => table().held() && !orderAsked;
  let orderAsked = true;
  let signature = "";

  /** @returns {import("./columns.js").View} */
  const view = () => ({
    metric: known.metric, mode: mode(), metrics: known.metrics, settings: known.settings, rows: [...known.rows.values()], best: bestRow()?.id, slots, sparks: known.sparks,
    chosen: state.columns,
  });

  let due = 0;
  /** @param {boolean} [selection] only the selection has changed */
  function redraw(selection = false) {
    if (selection) colours();
    due ||= requestAnimationFrame(() => {
      due = 0;
      drawAll();
    });
    frame.changed();
  }

  function drawAll() {
    if (!known.heard) return;
    if (!known.rows.size && !known.experiments.length) return showEmpty();
    if (!element.contains(split)) element.replaceChildren(heading, failures, tools, split);
    frame.tall(true);
    drawHeading();
    drawTools();
    const sorted = logic.order([...known.rows.values()].filter((row) => logic.passes(row, state.filter)), sort());
    visible = held() ? logic.hold(sorted, visible.map((row) => row.id)) : sorted;
    orderAsked = false;
    colours();
    drawTable();
    pictures.draw();
    frame.changed();
  }

  function showEmpty() {
    frame.tall(false);
    element.replaceChildren(parts.heading.empty(frame));
  }

  /** The selected ones have colours; if there are none, the best few. */
  function colours() {
    const ids = selectedIds();
    const able = logic.order([...known.rows.values()].filter((row) => row.status !== "failed"), known.metric ? [[`metrics:${known.metric}`, mode() === "max" ? "down" : "up"]] : []);
    parts.series.assign(slots, ids.length ? ids : able.slice(0, BEST).map((row) => row.id));
  }

  function drawTable() {
    const now = view();
    const made = narrow() ? parts.columns.cards(frame, now) : parts.columns.columns(frame, now);
    const marks = JSON.stringify([made.map((column) => [column.id, Math.round(column.width)]), sort(), now.best, [...slots], narrow(), now.metric]);
    table().rows(visible);
    if (marks !== signature) table().columns(made, sort());
    signature = marks;
    if (!list.contains(table().element)) list.replaceChildren(table().element);
  }

  function drawHeading() {
    const counts = logic.tally(known.rows.values());
    const interrupted = [...known.rows.values()].filter((row) => row.status === "interrupted").map((row) => row.id);
    const best = bestRow();
    const words = parts.heading.answer(frame, { experiment: known.name, metric: known.metric, best, settings: known.settings, summary: known.summary, total: known.total || known.rows.size, counts, interrupted }, (/** @type {string} */ id) => open(id));
    dom.refill(heading, experimentMenu(), ...words, dom.make("span", { class: "nb-gap" }), primary(counts, interrupted, best));
    const groups = parts.heading.failures(frame, known.summary.error_groups ?? [], counts.failed ?? 0, { show: () => filter({ statuses: ["failed"] }), retry: () => void deed("retry", []) });
    dom.refill(failures, groups);
  }

  /** The one button of the heading that matters now. @param {Record<string, number>} counts @param {string[]} interrupted @param {Trial | undefined} best */
  function primary(counts, interrupted, best) {
    const why = frame.why();
    if (counts.running) return dom.button({ label: "Pause all", icon: "paused", primary: true, why, id: "main", run: () => void act("pause", []) });
    if (interrupted.length) return dom.button({ label: `Resume ${interrupted.length} from their checkpoints`, icon: "resume", primary: true, why, id: "main", run: () => void act("resume", interrupted) });
    if (!best) return null;
    return dom.button({ label: `Restore ${best.id}…`, icon: "restore", primary: true, why: why || unsavedWhy(best), id: "main", run: () => void deed("restore", [best.id]) });
  }

  /** @param {Trial} row */
  const unsavedWhy = (row) => (row.saved === null || row.saved === undefined ? `${row.id} has no checkpoint` : "");

  function experimentMenu() {
    const names = known.experiments.map((each) => each.name);
    if (names.length < 2) return dom.make("strong", { text: known.name });
    return dom.select("Experiment", names, known.name, (name) => {
      Object.assign(state, { experiment: name, metric: "", mode: null, sort: null, filter: ALL });
      orderAsked = true;
      table().select([]);
      keep();
      frame.follow();
    });
  }

  function drawTools() {
    const counts = logic.tally(known.rows.values());
    dom.refill(choices, ...choiceTools());
    if (narrow()) return dom.refill(chips, statusMenu(counts));
    const all = dom.make("button", chip("All", known.rows.size, [], state.filter.statuses.length === 0), "All ", format.whole(known.rows.size));
    const others = Object.keys(format.STATUS).filter((status) => counts[status] || state.filter.statuses.includes(status)).map((status) =>
      dom.make("button", chip(status, counts[status], [status], state.filter.statuses.includes(status)),
        dom.make("span", { class: `nb-is-${status}` }, dom.icon(/** @type {any} */ (status))), ` ${/** @type {any} */ (format.STATUS)[status]} ${format.whole(counts[status] ?? 0)}`));
    dom.refill(chips, all, ...others);
  }

  /** The chips as a menu, where there is no room. @param {Record<string, number>} counts */
  function statusMenu(counts) {
    const options = Object.keys(format.STATUS).filter((status) => counts[status]).map((status) => ({ value: status, text: `${/** @type {any} */ (format.STATUS)[status]} ${format.whole(counts[status])}` }));
    return dom.select("Status", [{ value: "", text: `All ${format.whole(known.rows.size)}` }, ...options], state.filter.statuses[0] ?? "", (status) => filter({ statuses: status ? [status] : [] }));
  }

  /** @param {string} id @param {number} _count @param {string[]} statuses @param {boolean} on */
  const chip = (id, _count, statuses, on) => ({
    type: "button", class: "nb-chip", "aria-pressed": String(on), "data-action": `chip-${id}`,
    on: { click: (/** @type {MouseEvent} */ event) => filter({ statuses: event.shiftKey && statuses.length ? toggled(statuses[0]) : on ? [] : statuses }) },
  });
  /** @param {string} status */
  const toggled = (status) => (state.filter.statuses.includes(status) ? state.filter.statuses.filter((each) => each !== status) : [...state.filter.statuses, status]);

  function choiceTools() {
    const made = [];
    if (known.metrics.length > 1) made.push(dom.select("Metric", known.metrics, known.metric, setMetric));
    else if (known.metric) made.push(dom.make("span", { text: known.metric }));
    if (known.metric) {
      const words = mode() === "max" ? "highest is best" : "lowest is best";
      made.push(dom.button({ label: known.guess && !state.mode ? `${words}?` : words, icon: "swap", quiet: true, bare: narrow(), id: "mode", title: "Turn the direction round", run: () => setMode(mode() === "max" ? "min" : "max") }));
    }
    if (!narrow()) {
      const menu = dom.button({ label: "Columns", icon: "columns", quiet: true, id: "columns", run: () => frame.menu(menu, columnMenu()) });
      made.push(menu);
    }
    if (frame.width === "narrow" || frame.width === "medium") made.push(stops());
    return made;
  }

  /** List, both or picture, where they stand one above the other. */
  function stops() {
    const each = narrow() ? ["list", "detail"] : ["list", "both", "detail"];
    const words = /** @type {Record<string, string>} */ ({ list: "List", both: "Both", detail: "Picture" });
    return dom.make("span", { class: "nb-stops", role: "group", "aria-label": "What is shown" }, ...each.map((name) =>
      dom.make("button", { type: "button", class: "nb-chip", "aria-pressed": String(split.dataset.shows === name || (name === "both" && !split.dataset.shows)), "data-action": `stop-${name}`, text: words[name],
        on: { click: () => { state.shows = name; keep(); showSplit(); redraw(); } } })));
  }

  function showSplit() {
    const shows = pictures.detailed() && frame.width !== "wide" && frame.width !== "very wide" ? "detail" : state.shows;
    if (frame.width === "narrow") split.dataset.shows = shows === "both" ? "list" : shows;
    else if (frame.width === "medium" && shows !== "both") split.dataset.shows = shows;
    else delete split.dataset.shows;
  }

  /** @returns {Action[]} */
  function columnMenu() {
    const { allColumns, chosenColumns, title } = parts.columns;
    return allColumns(view()).filter((/** @type {string} */ id) => id !== "id").map((/** @type {string} */ id) => ({
      label: title(id), checked: chosenColumns(view()).includes(id), run: () => toggleColumn(id),
    }));
  }

  /** @param {string} id */
  function toggleColumn(id) {
    const on = parts.columns.chosenColumns(view()).includes(id);
    const without = (/** @type {string[]} */ names) => names.filter((name) => name !== id);
    state.columns = { hidden: on ? [...without(state.columns.hidden), id] : without(state.columns.hidden), shown: on ? without(state.columns.shown) : [...without(state.columns.shown), id] };
    keep();
    redraw();
  }

  /** @param {string} metric */
  function setMetric(metric) {
    Object.assign(state, { metric, mode: null, sort: null });
    orderAsked = true;
    keep();
    frame.follow();
  }

  /** @param {import("./rows.js").Mode} next */
  function setMode(next) {
    Object.assign(state, { mode: next, sort: null });
    orderAsked = true;
    keep();
    redraw();
  }

  /** @param {string} column @param {boolean} more */
  function sortBy(column, more) {
    const first = column === `metrics:${known.metric}` ? (mode() === "max" ? "down" : "up") : column.startsWith("metrics:") && parts.columns.direction(parts.columns.title(column)) === "max" ? "down" : "up";
    const next = logic.clicked(sort(), column, first, more);
    state.sort = next.length ? next : null;
    orderAsked = true;
    frame.store("sort", "trials", state.sort ?? []);
    redraw();
  }

  /** @param {Partial<Filter>} change */
  function filter(change) {
    state.filter = { ...state.filter, ...change };
    orderAsked = true;
    frame.store("filter", "trials", state.filter);
    if (find.value !== state.filter.find) find.value = state.filter.find;
    redraw();
  }

  /** @param {string} column @param {import("./rows.js").Brush | null} range */
  function brush(column, range) {
    const { [column]: _, ...others } = state.filter.brushes;
    filter({ brushes: range ? { ...others, [column]: range } : others });
  }

  const act = (/** @type {string} */ verb, /** @type {string[]} */ ids, options = {}) => frame.act(verb, ids, { ...options, experiment: known.name });
  const deed = (/** @type {string} */ verb, /** @type {string[]} */ ids, how = {}) => frame.deed(verb, ids, { experiment: known.name }, how);

  /** @param {string} id */
  function open(id) {
    pictures.detail(id);
    showSplit();
    if (split.dataset.shows === "detail") pictures.enter();
    redraw();
  }

  const deeds = parts.deeds.deeds(frame, {
    known, act, deed, open,
    ids: selectedIds,
    focused: () => table().focused?.id,
    best: () => bestRow()?.id,
    compare: (/** @type {string[]} */ ids) => { pictures.compare(ids); showSplit(); redraw(); },
    clear: () => table().select([]),
    visible: () => visible.length,
    filtered: () => state.filter.find !== "" || state.filter.statuses.length > 0 || Object.keys(state.filter.brushes).length > 0,
    unfilter: () => filter(ALL),
    note: (/** @type {string} */ id) => void note(id),
  });

  /** @param {string} id */
  async function note(id) {
    const text = await frame.field({ text: `Note on ${id}`, value: known.rows.get(id)?.note ?? "", button: "Save note" });
    if (text !== null) await act("note", [id], { text });
  }

  /** @param {string} name */
  function key(name) {
    if (name === "find") return find.focus(), true;
    if (name === "best") return table().goto(bestRow()?.id ?? ""), true;
    if (name === "escape") return escape();
    if (name === "metric+" || name === "metric-") {
      const at = known.metrics.indexOf(known.metric) + (name === "metric+" ? 1 : -1) + known.metrics.length;
      if (known.metrics.length > 1) setMetric(known.metrics[at % known.metrics.length]);
      return true;
    }
    return deeds.key(name) || pictures.key(name);
  }

  function escape() {
    const id = pictures.detailed();
    if (pictures.close()) return showSplit(), redraw(), table().goto(id), true;
    if (deeds.filtered()) return filter(ALL), true;
    if (table().selected.size) return table().select([]), true;
    return false;
  }

  find.addEventListener("input", () => filter({ find: find.value }));

  return {
    id: "trials", title: "Trials", element,
    count: () => (known.heard && known.total ? format.whole(known.total) : ""),
    follow: () => ({ experiment: state.experiment || known.name || null, metric: state.metric || null }),
    message(message, buffers) {
      const changed = store.take(message, buffers);
      if (changed === "rows") redraw();
      if (changed === "lines") pictures.draw();
    },
    actions: () => (known.rows.size ? deeds.actions() : []),
    key,
    shown: () => redraw(),
    resized() {
      const before = [...grid.selected, ...cards.selected];
      if (before.length && ![...table().selected].length) table().select(before);
      showSplit();
      signature = "";
      redraw();
    },
    repaint: () => pictures.repaint(),
    standing: () => redraw(),
    menu: () => [],
    close() {
      cancelAnimationFrame(due);
      pictures.close();
    },
  };
}
