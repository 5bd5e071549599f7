/**
 * What the pane of trials shows: what the user chose, and the rows that follow from it. It draws nothing.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./rows.js").Filter} Filter
 * @typedef {import("./rows.js").Mode} Mode
 * @typedef {import("./grid.js").Sort} Sort
 * @typedef {ReturnType<typeof view>} TrialView
 */

const BEST = 5;
const ALL = /** @type {Filter} */ ({ find: "", statuses: [], brushes: {} });

/**
 * Read what was chosen, and change it from then on.
 * @param {import("./panel.js").Frame} frame @param {ReturnType<typeof import("./experiment.js").experiment>} store
 * @param {{ keep: () => void, redraw: () => void }} pane `keep`: keep the choices with the notebook
 */
export function view(frame, store, { keep, redraw }) {
  const { rows: logic, columns, find } = frame.parts;
  const { known } = store;
  const chosen = frame.choices("trials");
  const state = {
    filter: /** @type {Filter} */ ({ ...ALL, ...frame.kept("filter", "trials") }),
    sort: /** @type {Sort | null} */ (frame.kept("sort", "trials")?.length ? frame.kept("sort", "trials") : null),
    mode: /** @type {Mode | null} */ (chosen.mode ?? null),
    columns: { hidden: [], shown: [], ...chosen.columns },
    byBest: Boolean(chosen.by_best),
    shows: String(chosen.shows ?? "both"),
    experiment: String(chosen.experiment ?? ""),
    metric: String(chosen.metric ?? ""),
    /** The user asked for another order, so rows move though someone reads them. */
    reorders: true,
  };
  store.byBest(state.byBest);

  const few = () => logic.remembered((/** @type {Trial[]} */ rows, /** @type {string} */ metric, /** @type {Mode} */ best) => logic.bestFew(rows, metric, best, BEST));
  const [bests, bestsLeft] = [few(), few()];
  // Other rows may come with other names.
  const found = logic.remembered((/** @type {Trial[]} */ _, /** @type {string} */ text) => find.finding(text, known, frame.parts));
  const passed = logic.remembered((/** @type {Trial[]} */ rows, /** @type {Filter} */ wanted) => (isFiltered() ? rows.filter(logic.passing(wanted, found(rows, wanted.find).passes)) : rows));
  const ordered = logic.remembered((/** @type {Trial[]} */ rows, /** @type {string} */ by) => logic.order(rows, JSON.parse(by)));
  const mode = () => state.mode ?? known.mode;
  const isFiltered = () => state.filter.find !== "" || state.filter.statuses.length > 0 || Object.keys(state.filter.brushes).length > 0;
  const left = () => passed(store.all(), state.filter);
  /** @returns {Sort} */
  const sort = () => state.sort ?? (known.metric ? [[`metrics:${known.metric}`, upOrDown()]] : []);
  const upOrDown = () => (mode() === "max" ? "down" : "up");

  /** @param {Partial<typeof state>} change */
  function choose(change) {
    Object.assign(state, change, { reorders: true });
    keep();
    keepView();
  }

  function keepView() {
    frame.store("sort", "trials", state.sort ?? []);
    frame.store("filter", "trials", state.filter);
  }

  /** In which direction the first click on a header sorts. @param {string} column */
  function firstOrder(column) {
    if (column === `metrics:${known.metric}`) return upOrDown();
    return column.startsWith("metrics:") && columns.direction(columns.title(column)) === "max" ? "down" : "up";
  }

  /** @param {string} column @param {boolean} more */
  function sortBy(column, more) {
    const next = logic.clicked(sort(), column, firstOrder(column), more);
    Object.assign(state, { sort: next.length ? next : null, reorders: true });
    keepView();
    redraw();
  }

  /** @param {Partial<Filter>} change */
  function filter(change) {
    Object.assign(state, { filter: { ...state.filter, ...change }, reorders: true });
    keepView();
    redraw();
  }

  return {
    known, state, mode, sort, isFiltered, sortBy, filter,
    /** The few whose lines have colours: the best of those that pass the filter, else the first of them. @returns {Trial[]} */
    coloured() {
      const some = bestsLeft(left(), known.metric, mode());
      return some.length ? some : left().slice(0, BEST);
    },
    /** @returns {Trial | undefined} */
    best: () => bests(store.all(), known.metric, mode())[0],
    all: store.all,
    /** The rows that pass the filter. @returns {Trial[]} */
    left,
    /** The same, in order. @returns {Trial[]} */
    sorted: () => ordered(left(), JSON.stringify(sort())),
    unfilter: () => filter(ALL),
    /** Why the text of the filter cannot be used, in a sentence, or "". */
    problem: () => (store.all().length ? found(store.all(), state.filter.find).problem : ""),
    /** @param {string} column @param {import("./rows.js").Brush | null} range */
    brush(column, range) {
      const { [column]: _, ...others } = state.filter.brushes;
      filter({ brushes: range ? { ...others, [column]: range } : others });
    },
    brushes: () => state.filter.brushes,
    /** @param {string} experiment */
    setExperiment(experiment) {
      choose({ experiment, metric: "", mode: null, sort: null, filter: ALL });
      frame.follow();
    },
    /** @param {string} metric */
    setMetric(metric) {
      choose({ metric, mode: null, sort: null });
      frame.follow();
    },
    /** @param {Mode} next */
    setMode(next) {
      choose({ mode: next, sort: null });
      redraw();
    },
    /** Have each trial stand for its best value, or for its last. @param {boolean} best */
    setByBest(best) {
      store.byBest(best);
      choose({ byBest: best });
      redraw();
    },
    /** What is kept with the notebook. */
    choices: () => ({ mode: state.mode, columns: state.columns, by_best: state.byBest, shows: state.shows, experiment: state.experiment, metric: state.metric }),
  };
}
