/**
 * The small table below a cell that runs an experiment: how far it is, the best trials, the curve of the main metric.
 *
 * It is the pane of trials without filters and tabs: same messages, same table, same curves.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

const COLOURED = 5;
const MOST_SETTINGS = 3;

/**
 * The pane.
 * @param {import("./panel.js").Frame} frame @returns {import("./panel.js").Pane}
 */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const store = parts.experiment.experiment(parts.rows, parts.series);
  const known = store.known;
  /** @type {Map<string, number>} */
  const slots = new Map();
  /** @type {Trial[]} */
  let visible = [];
  let signature = "";
  let asked = false;

  const heading = dom.make("div", { class: "nb-heading" });
  const bar = dom.make("div", { class: "nb-live-bar" });
  const grid = frame.grid({
    label: "Trials", id: (row) => row.id, columns: [],
    onHover: (row) => curves.hover(row?.id ?? null),
    onLeave: () => redraw(),
  });
  const detail = dom.make("div", { class: "nb-detail" });
  const split = dom.make("div", { class: "nb-split" }, dom.make("div", { class: "nb-list" }, grid.element), detail);
  const element = dom.make("div", {}, heading, bar, split);
  const curves = parts.curves.picture(frame, {
    known, slots, best: () => best(), mode: () => known.mode, visible: () => visible, selected: () => [], brush: () => {}, brushes: () => ({}),
    light: (id) => grid.light(id), select: () => {}, metric: () => {}, turned: () => {}, back: () => {}, layout: () => {},
  }, dom.make("div"));
  detail.append(curves.element);

  const best = () => parts.rows.bestOf(known.rows.values(), known.metric, known.mode);
  /** @returns {import("./grid.js").Sort} */
  const sort = () => (known.metric ? [[`metrics:${known.metric}`, known.mode === "max" ? "down" : "up"]] : []);
  const ended = () => [...known.rows.values()].filter((row) => ["done", "failed", "stopped"].includes(row.status)).length;

  let due = 0;
  const redraw = () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      drawAll();
    });
  };

  function drawAll() {
    frame.tall(known.rows.size > 0);
    split.hidden = known.rows.size === 0;
    const sorted = parts.rows.order(known.rows.values(), sort());
    visible = grid.held() ? parts.rows.hold(sorted, visible.map((row) => row.id)) : sorted;
    parts.series.assign(slots, parts.rows.bestFew(known.rows.values(), known.metric, known.mode, COLOURED).map((row) => row.id));
    drawHeading();
    drawTable();
    curves.draw();
    frame.changed();
  }

  function drawHeading() {
    const first = best();
    const counts = parts.rows.tally(known.rows.values());
    const total = known.total || known.rows.size;
    dom.fill(heading,
      dom.make("strong", { text: known.name }),
      dom.make("span", { text: parts.heading.progressText(counts, known.summary.left_s, format) }),
      first && dom.make("span", { class: "nb-answer" }, counts.running ? "Best so far: " : "Best: ",
        dom.make("strong", { text: `${first.id}, ${known.metric} ${format.number(first.metrics[known.metric])}` }),
        dom.make("span", { class: "nb-quiet-text", text: ` · ${parts.heading.settingsText(first, known.settings, format)}` })));
    dom.fill(bar, total > 0 && dom.progress(ended() / total, `${ended()} of ${total} trials have ended`));
  }

  function drawTable() {
    const view = { metric: known.metric, mode: known.mode, metrics: known.metric ? [known.metric] : [], settings: known.settings.slice(0, MOST_SETTINGS), rows: [...known.rows.values()], best: best()?.id, slots, sparks: known.sparks, chosen: { hidden: [], shown: [] } };
    const made = parts.columns.columns(frame, view).map((column) => ({ ...column, sortable: false }));
    const marks = JSON.stringify([made.map((column) => [column.id, Math.round(column.width)]), view.best, [...slots]]);
    grid.rows(visible);
    if (marks !== signature) grid.columns(made);
    signature = marks;
  }

  /** @param {string} status */
  const having = (status) => [...known.rows.values()].filter((row) => row.status === status).map((row) => row.id);
  const options = () => ({ experiment: known.name });

  /** @returns {Partial<import("./panel.js").Action>[]} */
  function actions() {
    const [running, waiting, paused] = ["running", "waiting", "paused"].map(having);
    const going = running.length + waiting.length;
    if (!going && !paused.length) return [{ text: known.rows.size ? "All trials have ended." : "Waiting for the first trial…" }];
    return [
      going ? { label: "Pause all", icon: "paused", primary: true, kernel: true, id: "pause", run: () => void frame.act("pause", [], options()) }
        : { label: `Resume ${paused.length}`, icon: "resume", primary: true, kernel: true, id: "resume", run: () => void frame.act("resume", paused, options()) },
      { gap: true },
      { label: "Stop…", icon: "stopped", kernel: true, id: "stop", run: () => void frame.deed("stop", [], options(), { danger: true }) },
    ];
  }

  return {
    id: "trials", title: "Trials", element, actions,
    count: () => "",
    follow: () => ({ experiment: known.name || null, metric: known.metric || null }),
    message(message, buffers) {
      asked = true;
      const changed = store.take(message, buffers);
      if (changed === "rows") redraw();
      if (changed === "lines") curves.draw();
    },
    key: (name) => Boolean(curves.key(name)),
    shown: () => asked && redraw(),
    resized: () => {
      signature = "";
      if (asked) redraw();
    },
    repaint: () => curves.repaint(),
    close: () => cancelAnimationFrame(due),
  };
}
