/**
 * The pane of trials: the answer, filters, the table, and beside it the pictures.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

const REST_MS = 200;
const MOST_KEPT = 200;

/**
 * The pane.
 * @param {import("./panel.js").Frame} frame @returns {import("./panel.js").Pane}
 */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const store = parts.experiment.experiment(parts.rows, parts.series);
  const { known } = store;
  /** @type {Map<string, number>} */
  const slots = new Map();
  const view = parts.trial_view.view(frame, store, { keep: () => keep(), redraw });
  const { state } = view;
  const act = (/** @type {string} */ verb, /** @type {string[]} */ ids, options = {}) => frame.act(verb, ids, { ...options, experiment: known.name });
  const deed = (/** @type {string} */ verb, /** @type {string[]} */ ids, how = {}) => frame.deed(verb, ids, { experiment: known.name }, how);

  const heading = parts.trial_heading.lines(frame, view, { open, act, deed, turn });
  const list = parts.trial_list.list(frame, view, slots, { selected, focused, open, hover: (id) => pictures.hover(id), left: () => redraw(), menu: (id) => deeds.menu(id) });
  const { table } = list;
  const tools = parts.tools.tools(frame, view, {
    columns: list.columnView, showing: () => split.dataset.shows,
    kept() {
      keep();
      showSplit();
      redraw();
    },
    isCharts: () => pictures.isCharts(),
    turnCharts(on) {
      pictures.turnCharts(on);
      on ? reveal() : redraw();
    },
  });
  const detail = dom.make("div", { class: "nb-detail" });
  const aside = dom.make("div", { class: "nb-detail nb-aside" });
  const split = dom.make("div", { class: "nb-split" }, list.element, detail);
  const element = dom.make("div", {});
  const pictures = parts.pictures.pictures(frame, detail, {
    known, slots,
    best: view.best,
    mode: view.mode,
    visible: list.visible,
    selected: list.selected,
    brush: view.brush, brushes: view.brushes,
    light: (id) => table().light(id),
    select: (ids) => table().select(ids),
    metric: view.setMetric,
    turned: () => tools.draw(),
    back: () => table().goto(table().focused?.id ?? ""),
    layout: () => showSplit(),
  });
  const deeds = parts.deeds.deeds(frame, {
    known, act, deed, open,
    ids: list.selected,
    focused: () => table().focused?.id,
    best: () => view.best()?.id,
    compare: (/** @type {string[]} */ ids) => { pictures.compare(ids); reveal(); },
    clear: () => table().select([]),
    visible: () => list.visible().length,
    filtered: view.isFiltered,
    unfilter: view.unfilter,
    note: (/** @type {string} */ id) => void note(id),
  });

  const keep = () => frame.keep("trials", { ...view.choices(), ids: list.selected().slice(0, MOST_KEPT), ...pictures.choices() });

  let saving = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  /** The kernel sends the curves of what is selected, so it is told. */
  function selected() {
    colours();
    redraw();
    clearTimeout(saving);
    saving = setTimeout(keep, REST_MS);
  }

  let beheld = "";
  let pause = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  /** @param {string} id the row that has the focus now */
  function focused(id) {
    beheld = id;
    pictures.focus(id);
    clearTimeout(pause);
    pause = setTimeout(drawAside, REST_MS);
  }

  let due = 0;
  function redraw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      drawAll();
    });
    frame.changed();
  }

  function drawAll() {
    if (!known.heard) return;
    if (isSettingUp || isEmpty()) return showSetUp();
    if (!element.contains(split)) element.replaceChildren(...heading.elements, tools.element, split);
    frame.tall(true);
    heading.draw();
    tools.draw();
    list.arrange();
    colours();
    list.draw();
    pictures.draw();
    drawAside();
    frame.changed();
  }

  /** Where there is room, the trial with the focus has a column of its own, before that the best; unless one is opened. */
  function drawAside() {
    const roomy = frame.width === "very wide" && !pictures.detailed();
    if (roomy !== split.contains(aside)) roomy ? split.append(aside) : aside.remove();
    const id = beheld || view.best()?.id;
    if (roomy && id && known.rows.has(id)) pictures.behold(aside, id);
  }

  const isEmpty = () => !known.rows.size && !known.experiments.length;
  let isSettingUp = false;
  let lines = /** @type {string[] | null} */ (null);
  function showSetUp() {
    frame.tall(false);
    const back = isEmpty() ? null : () => { isSettingUp = false; redraw(); };
    dom.refill(element, parts.heading.setUp(frame, lines ?? [], { look: () => void look(), back }));
    if (lines === null && frame.live()) void look();
  }

  /** Ask for the functions of the notebook. */
  async function look() {
    lines ??= [];
    const answer = await frame.ask("functions", [], {});
    lines = answer?.data?.lines ?? [];
    redraw();
  }

  function setUp() {
    isSettingUp = true;
    void look();
    redraw();
  }

  /** The selected ones have colours; if there are none, the best few in sight. */
  function colours() {
    const ids = list.selected();
    parts.series.assign(slots, ids.length ? ids : view.coloured().map((row) => row.id));
  }

  function showSplit() {
    const shows = pictures.detailed() && frame.width !== "wide" && frame.width !== "very wide" ? "detail" : state.shows;
    if (frame.width === "narrow") split.dataset.shows = shows === "both" ? "list" : shows;
    else if (frame.width === "medium" && shows !== "both") split.dataset.shows = shows;
    else delete split.dataset.shows;
  }

  /** Bring the picture into sight where the list hides it. */
  function reveal() {
    if (state.shows === "list" || frame.width === "narrow") state.shows = "detail";
    showSplit();
    redraw();
  }

  /** @param {string} experiment */
  function turn(experiment) {
    table().select([]);
    view.setExperiment(experiment);
  }

  /** @param {string} id */
  function open(id) {
    pictures.detail(id);
    showSplit();
    if (split.dataset.shows === "detail") pictures.enter();
    redraw();
  }

  /** @param {string} id */
  async function note(id) {
    const text = await frame.field({ text: `Note on ${id}`, value: known.rows.get(id)?.note ?? "", button: "Save note" });
    if (text !== null) await act("note", [id], { text });
  }

  /** @param {string} name */
  function key(name) {
    if (name === "find") return tools.find(), true;
    if (name === "best") return table().goto(view.best()?.id ?? ""), true;
    if (name === "escape") return leave();
    if (name === "metric+" || name === "metric-") return step(name === "metric+" ? 1 : -1);
    return deeds.key(name) || pictures.key(name);
  }

  /** Go to another metric. @param {number} by */
  function step(by) {
    const { metrics, metric } = known;
    if (metrics.length > 1) view.setMetric(metrics[(metrics.indexOf(metric) + by + metrics.length) % metrics.length]);
    return true;
  }

  function leave() {
    if (isSettingUp) return (isSettingUp = false), redraw(), true;
    const id = pictures.detailed();
    if (pictures.close()) return showSplit(), redraw(), table().goto(id), true;
    if (view.isFiltered()) return view.unfilter(), true;
    if (table().selected.size) return table().select([]), true;
    return false;
  }

  return {
    id: "trials", title: "Trials", element,
    count: () => (known.heard && known.total ? format.whole(known.total) : ""),
    follow: () => ({ experiment: state.experiment || null, metric: state.metric || null }),
    message(message, buffers) {
      const changed = store.take(message, buffers);
      if (changed === "rows") redraw();
      if (changed === "rows" && message.kind === "trials") heading.tellBest();
      if (changed === "lines") pictures.draw();
    },
    actions: () => (known.rows.size && !isSettingUp ? deeds.actions() : []),
    key,
    shown: () => redraw(),
    resized() {
      list.resized();
      showSplit();
      redraw();
    },
    repaint: () => pictures.repaint(),
    standing: () => redraw(),
    menu: () => [{ label: "Set up a run…", icon: "add", why: frame.why(), run: setUp }],
    close() {
      cancelAnimationFrame(due);
      clearTimeout(pause);
      clearTimeout(saving);
      pictures.close();
    },
  };
}
