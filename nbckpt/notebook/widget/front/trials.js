/**
 * The pane of trials: the answer, filters, the table, and beside it the pictures.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./rows.js").Filter} Filter
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./grid.js").Sort} Sort
 */

const BEST = 5;
const REST_MS = 200;
const MOST_KEPT = 200;
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
  store.byBest(Boolean(frame.choices("trials").by_best));
  const chosen = frame.choices("trials");
  const state = {
    filter: /** @type {Filter} */ ({ ...ALL, ...frame.kept("filter", "trials") }),
    sort: /** @type {Sort | null} */ (frame.kept("sort", "trials") ?? null),
    mode: /** @type {import("./rows.js").Mode | null} */ (chosen.mode ?? null),
    columns: { hidden: [], shown: [], ...chosen.columns },
    byBest: Boolean(chosen.by_best),
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
  const tools = parts.tools.tools(frame, {
    known, state,
    mode: () => mode(), view: () => view(), showing: () => split.dataset.shows,
    filter: (change) => filter(change), setMetric: (metric) => setMetric(metric), setMode: (next) => setMode(next),
    byBest: () => state.byBest, setByBest: (best) => setByBest(best),
    kept() {
      keep();
      showSplit();
      redraw();
    },
  });
  const grid = frame.grid({
    label: "Trials", id: (row) => row.id, columns: [], checks: true, headHeight: 48,
    onMenu: (row, cell) => frame.menu(cell, deeds.menu(row.id)),
    onSort: (column, more) => sortBy(column, more),
    onSelect: () => selected(),
    onFocus: (row) => behold(row.id),
    onOpen: (row) => open(row.id),
    onHover: (row) => pictures.hover(row?.id ?? null),
    attributes: (row) => ({ class: `nb-trial nb-trial-${row.status}` }),
  });
  const cards = frame.grid({
    label: "Trials", id: (row) => row.id, columns: [], checks: true, rowHeight: 48, headless: true,
    onSelect: () => selected(), onFocus: (row) => pictures.focus(row.id), onOpen: (row) => open(row.id),
    onMenu: (row, cell) => frame.menu(cell, deeds.menu(row.id)),
  });
  const list = dom.make("div", { class: "nb-list" });
  const detail = dom.make("div", { class: "nb-detail" });
  const aside = dom.make("div", { class: "nb-detail nb-aside" });
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
  const bests = logic.remembered((/** @type {Trial[]} */ rows, /** @type {string} */ metric, /** @type {import("./rows.js").Mode} */ best) => logic.bestFew(rows, metric, best, BEST));
  const bestRows = () => bests(store.all(), known.metric, mode());
  const bestRow = () => bestRows()[0];
  const passed = logic.remembered((/** @type {Trial[]} */ rows, /** @type {Filter} */ wanted) => (isFiltered() ? rows.filter(logic.passing(wanted)) : rows));
  const ordered = logic.remembered((/** @type {Trial[]} */ rows, /** @type {string} */ by) => logic.order(rows, JSON.parse(by)));
  const isFiltered = () => state.filter.find !== "" || state.filter.statuses.length > 0 || Object.keys(state.filter.brushes).length > 0;
  const heads = parts.head_brushes.heads(frame, { brush, brushes: () => state.filter.brushes });
  const selectedIds = () => [...table().selected].filter((id) => known.rows.has(id));
  /** @returns {Sort} */
  const sort = () => state.sort ?? (known.metric ? [[`metrics:${known.metric}`, mode() === "max" ? "down" : "up"]] : []);
  const keep = () => frame.keep("trials", { mode: state.mode, columns: state.columns, by_best: state.byBest, shows: state.shows, ids: selectedIds().slice(0, MOST_KEPT), experiment: state.experiment, metric: state.metric, ...pictures.choices() });
  const held = () => table().held() && !orderAsked;
  let orderAsked = true;
  let signature = "";
  /** @type {Trial[]} */
  let arranged = [];
  /** What marks a row beside its content. @type {Map<string, string>} */
  let marks = new Map();

  /** @returns {import("./columns.js").View} */
  const view = () => ({
    metric: known.metric, mode: mode(), byBest: state.byBest, metrics: known.metrics, settings: known.settings, rows: store.all(), best: bestRow()?.id, slots, sparks: known.sparks,
    chosen: state.columns, head: heads.head,
  });

  /** The kernel sends the curves of what is selected, so it is told. */
  function selected() {
    redraw(true);
    clearTimeout(saving);
    saving = setTimeout(keep, REST_MS);
  }
  let saving = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  let focused = "";
  let pause = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  /** @param {string} id */
  function behold(id) {
    focused = id;
    pictures.focus(id);
    clearTimeout(pause);
    pause = setTimeout(drawAside, REST_MS);
  }

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
    if (!element.contains(split)) element.replaceChildren(heading, failures, tools.element, split);
    frame.tall(true);
    drawHeading();
    tools.draw();
    arrange();
    colours();
    drawTable();
    pictures.draw();
    drawAside();
    frame.changed();
  }

  /** Filter and sort, if rows, filter or order have changed. While someone reads, nothing moves. */
  function arrange() {
    const sorted = ordered(passed(store.all(), state.filter), JSON.stringify(sort()));
    if (!held()) visible = sorted;
    else if (sorted !== arranged) visible = logic.hold(sorted, visible.map((row) => row.id));
    arranged = sorted;
    orderAsked = false;
  }

  /** Where there is room, the trial with the focus has a column of its own; before that, the best. */
  function drawAside() {
    const roomy = frame.width === "very wide";
    if (roomy !== split.contains(aside)) roomy ? split.append(aside) : aside.remove();
    const id = focused || bestRow()?.id;
    if (roomy && id && known.rows.has(id)) pictures.behold(aside, id);
  }

  function showEmpty() {
    frame.tall(false);
    element.replaceChildren(parts.heading.empty(frame, () => void setUp()));
  }

  /** The selected ones have colours; if there are none, the best few. */
  function colours() {
    const ids = selectedIds();
    parts.series.assign(slots, ids.length ? ids : bestRows().map((row) => row.id));
  }

  function drawTable() {
    const now = view();
    if (!narrow()) heads.draw(parts.columns.chosenColumns(now), now.rows, passed(now.rows, state.filter));
    const made = narrow() ? parts.columns.cards(frame, now) : parts.columns.columns(frame, now);
    const shape = JSON.stringify([made.map((column) => [column.id, column.title, Math.round(column.width)]), sort(), heads.names(), narrow(), now.metric]);
    const marked = marksOf(now);
    if (shape !== signature) table().columns(made, sort(), visible);
    else table().renew(made, visible, parts.series.differing(marks, marked));
    signature = shape;
    marks = marked;
    if (!list.contains(table().element)) list.replaceChildren(table().element);
  }

  /** @param {import("./columns.js").View} now */
  function marksOf({ best }) {
    const some = new Map([...slots].map(([id, slot]) => [id, String(slot)]));
    return best === undefined ? some : some.set(best, `${some.get(best)} best`);
  }

  function drawHeading() {
    const counts = logic.tally(store.all());
    const interrupted = store.all().filter((row) => row.status === "interrupted").map((row) => row.id);
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

  function showSplit() {
    const shows = pictures.detailed() && frame.width !== "wide" && frame.width !== "very wide" ? "detail" : state.shows;
    if (frame.width === "narrow") split.dataset.shows = shows === "both" ? "list" : shows;
    else if (frame.width === "medium" && shows !== "both") split.dataset.shows = shows;
    else delete split.dataset.shows;
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

  /** @param {boolean} best */
  function setByBest(best) {
    state.byBest = best;
    store.byBest(best);
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
    filtered: isFiltered,
    unfilter: () => filter(ALL),
    note: (/** @type {string} */ id) => void note(id),
  });

  /** @param {string} id */
  async function note(id) {
    const text = await frame.field({ text: `Note on ${id}`, value: known.rows.get(id)?.note ?? "", button: "Save note" });
    if (text !== null) await act("note", [id], { text });
  }

  async function setUp() {
    const line = await frame.field({ text: "Function and settings", value: "train --grid lr=0.1,0.01", button: "Run" });
    if (line !== null && line.trim()) await frame.act("run", [], { line });
  }

  let told = "";
  /** Say that another trial is the best now. Screen readers hear it too. */
  function tellBest() {
    const best = bestRow();
    const now = best ? `${known.name} ${known.metric} ${mode()} ${state.byBest} ${best.id}` : "";
    const before = told;
    told = now;
    if (!best || !before || now === before || before.slice(0, before.lastIndexOf(" ")) !== now.slice(0, now.lastIndexOf(" "))) return;
    frame.say(`New best: ${best.id}, ${known.metric} ${format.number(best.metrics[known.metric])}`);
  }

  /** @param {string} name */
  function key(name) {
    if (name === "find") return tools.find(), true;
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

  return {
    id: "trials", title: "Trials", element,
    count: () => (known.heard && known.total ? format.whole(known.total) : ""),
    follow: () => ({ experiment: state.experiment || known.name || null, metric: state.metric || null }),
    message(message, buffers) {
      const changed = store.take(message, buffers);
      if (changed === "rows") redraw();
      if (changed === "rows" && message.kind === "trials") tellBest();
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
    menu: () => [{ label: "Set up a run…", icon: "add", why: frame.why(), run: () => void setUp() }],
    close() {
      cancelAnimationFrame(due);
      clearTimeout(pause);
      clearTimeout(saving);
      pictures.close();
    },
  };
}
