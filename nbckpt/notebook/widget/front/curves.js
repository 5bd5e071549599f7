/**
 * Curves of a metric: a few in colour, all others pale. Hover, zoom, smoothing, log scale, by step or by time, hiding, groups; or a
 * small chart for each metric.
 *
 * @typedef {import("./ink.js").Stroke} Stroke
 * @typedef {import("./curve_groups.js").Group} Group
 * @typedef {import("./series.js").Line} Line
 */

const MOST_PALE = 200;
/** What the dots on the lines are, as `plot` says it. @type {Record<string, string>} */
const MARKS = {
  rungs: "Dots are rungs, where the scheduler compared the trials.",
  generations: "Dots are the ends of generations, where the scheduler compared the trials.",
};

/** The finite values of lines between two places. Pure. @param {Stroke[]} lines @param {[number, number]} range */
function inRange(lines, [from, to]) {
  const values = [];
  for (const { x, y } of lines) for (let at = 0; at < y.length; at += 1) if (Number.isFinite(y[at]) && x[at] >= from && x[at] <= to) values.push(y[at]);
  return values;
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {HTMLElement} tools
 */
export function picture(frame, beside, tools) {
  const { dom, format, parts } = frame;
  const { series, curve_groups: grouping } = parts;
  const kept = frame.choices("trials").curves ?? {};
  const state = {
    log: Boolean(kept.log), time: Boolean(kept.time), all: false, smooth: Number(kept.smooth ?? 0), group: String(kept.group ?? ""), second: String(kept.second ?? ""), charts: Boolean(kept.charts),
    order: Array.isArray(kept.order) ? kept.order.map(String) : [],
    zoom: /** @type {[number, number] | null} */ (null),
  };
  const hidden = parts.legend.hiding(draw);
  const foot = dom.make("div", { class: "nb-plot-foot" });
  const legend = dom.make("div", { class: "nb-legend", role: "group", "aria-label": "Lines" });
  const table = parts.numbers.numbers(frame, "Curves", draw);
  /** @type {Stroke[]} */
  let strokes = [];
  /** @type {import("./ink.js").Scales} */
  let scales = { x: [0, 1], y: [0, 1], log: false };
  const plot = parts.curve_plot.plot(frame, beside, {
    strokes: () => strokes, scales: () => scales, byTime: () => state.time, whole,
    zoomed(range) {
      state.zoom = parts.curve_plot.bounded(range, reach());
      draw();
    },
    ready: () => element.isConnected && drawChanged(),
  });
  const charts = parts.metric_charts.charts(frame, { ...beside, metric }, hidden, state, () => keep());
  const element = dom.make("div", { class: "nb-curves" }, plot.root, legend, foot);

  /** Whether all metrics are shown, which needs two of them. */
  const isCharts = () => state.charts && beside.known.metrics.length > 1;
  /** The settings by which lines are grouped: none, one or two. */
  const settings = () => {
    const known = [state.group, state.second].filter((name, at, all) => beside.known.settings.includes(name) && all.indexOf(name) === at);
    return isCharts() || known[0] !== state.group ? [] : known;
  };
  const setting = () => settings().join(", ");
  /** @returns {Group[]} of all trials, so that colours do not depend on the filter */
  const groups = () => grouping.groups(beside.known.rows.values(), settings(), parts.rows, format);
  const rowsWithLine = () => beside.visible().filter((row) => beside.known.lines.has(row.id));

  /** @param {import("./rows.js").Trial} row @param {number | undefined} slot @returns {Stroke} */
  function strokeOf(row, slot) {
    const { x, seconds, y, marks = [] } = /** @type {Line} */ (beside.known.lines.get(row.id));
    const smoothed = state.smooth > 0 ? series.smooth(y, state.smooth) : y;
    const marked = slot === undefined || !x.length ? [] : marks.map((step) => series.nearest(x, step));
    return { id: row.id, x: state.time ? seconds : x, y: smoothed, raw: state.smooth > 0 && slot !== undefined ? y : null, slot, failed: row.status === "failed", marked };
  }

  /** @returns {Stroke[]} pale ones first */
  function gather() {
    const rows = rowsWithLine().filter((row) => !hidden.has(row.id));
    const strong = rows.filter((row) => beside.slots.has(row.id));
    const pale = rows.filter((row) => !beside.slots.has(row.id)).slice(0, MOST_PALE);
    return [...pale, ...strong].map((row) => strokeOf(row, beside.slots.get(row.id)));
  }

  /** The lines of each group, faint in its colour, then their means. @returns {Stroke[]} */
  function gatherGroups() {
    const all = groups();
    const slots = new Map(all.flatMap(({ ids }, slot) => ids.map((id) => [id, slot])));
    const shown = (/** @type {number | undefined} */ slot) => slot === undefined || !hidden.has(all[slot].key);
    const lines = rowsWithLine().slice(0, MOST_PALE).filter((row) => shown(slots.get(row.id)))
      .map((row) => ({ ...strokeOf(row, slots.get(row.id)), raw: null, marked: [], faint: true }));
    const means = all.map(({ key, text }, slot) => ({
      ...grouping.mean(lines.filter((line) => line.slot === slot && !line.failed)),
      id: key, name: text, slot, raw: null, marked: [], failed: false,
    }));
    return [...lines.sort((a, b) => Number(a.slot !== undefined) - Number(b.slot !== undefined)), ...means.filter(({ x }) => x.length)];
  }

  /** The whole range: all lines, and as far as running trials will go. @returns {[number, number]} */
  function reach() {
    const all = strokes.flatMap(({ x }) => (x.length ? [x[0], x[x.length - 1]] : []));
    const of = state.time ? [] : beside.visible().map((row) => (row.status === "running" ? (row.of ?? 0) : 0));
    const [low, high] = parts.rows.ends(all);
    return [state.time ? Math.min(0, low) : low, Math.max(high, parts.rows.ends(of)[1])];
  }

  /** @returns {import("./ink.js").Scales} */
  function measure() {
    const x = state.zoom ?? reach();
    const sound = strokes.filter(({ failed }) => !failed);
    const values = inRange(state.all || !sound.length ? strokes : sound, x);
    const log = state.log && values.some((value) => value > 0);
    return { x: x[1] > x[0] ? x : [0, Math.max(1, x[1] || 1)], y: series.range(values, { log, all: state.all }), log };
  }

  function draw() {
    drawTools();
    if (isCharts()) return drawCharts();
    if (!plot.isReady() || !element.isConnected) return;
    strokes = setting() ? gatherGroups() : gather();
    scales = measure();
    drawFoot();
    drawLegend();
    const shown = table.isOn() ? table.element : plot.root;
    if (element.firstChild !== shown) element.replaceChildren(shown, legend, foot);
    if (table.isOn()) drawTable();
    else plot.draw();
  }

  function drawCharts() {
    if (element.firstChild !== charts.element) element.replaceChildren(charts.element, legend);
    drawLegend();
    charts.draw();
  }

  let drawn = "";
  let experiment = "";
  /** Draw if the lines are others than before. In which order they stand in the table does not matter. */
  function drawChanged() {
    const visible = beside.visible();
    const marks = visible.reduce((sum, row) => sum + (row.n + 1) * (row.n + 7), 0);
    const { name, metric, metrics, settings, version } = beside.known;
    if (name !== experiment) hidden.clear(true);
    experiment = name;
    const now = JSON.stringify([name, metric, metrics, settings, version, visible.length, marks, [...beside.slots], beside.selected().length, state, table.isOn(), plot.isReady(), element.isConnected]);
    if (now === drawn && isCharts()) return charts.draw();
    if (now === drawn && plot.isDrawn()) return;
    drawn = now;
    draw();
  }

  function whole() {
    state.zoom = null;
    draw();
    return true;
  }

  /** A button for each line in colour, the best first. */
  function drawLegend() {
    const about = setting();
    const entries = about
      ? groups().map(({ key, text, ids }, slot) => ({ key, text, slot, title: `${about} ${text}: ${format.count(ids.length, "trial")}` }))
      : (isCharts() ? beside.visible() : rowsWithLine()).filter(({ id }) => beside.slots.has(id)).map(({ id }) => ({ key: id, text: id, slot: beside.slots.get(id) ?? 0 }));
    parts.legend.legend(frame, legend, entries, hidden, about);
  }

  /** How many lines there are, and which of them are in colour. */
  function summary() {
    const strong = strokes.filter(({ slot }) => slot !== undefined).length;
    const many = undrawn();
    const more = many > 0 ? ` ${format.whole(many)} more are not drawn.` : "";
    if (!strokes.length && hidden.count()) return "All lines are hidden.";
    if (!strokes.length) return "No values yet.";
    if (setting()) return `Strong lines are the means of the trials that reach a step, without failed ones.${more}`;
    const chosen = beside.selected().length > 0;
    return `${strong === strokes.length ? `All ${strong} in colour.` : `${strong} ${chosen ? "selected" : "best"} of ${strokes.length} in colour, the others grey.`}${more}`;
  }

  /** How many trials in sight have no line, beside those that are hidden. */
  function undrawn() {
    const rows = beside.visible();
    if (setting()) return rows.length - Math.min(MOST_PALE, rowsWithLine().length);
    return rows.length - strokes.length - rows.filter(({ id }) => hidden.has(id)).length;
  }

  function drawFoot() {
    const failed = strokes.filter((stroke) => stroke.failed && (stroke.faint || stroke.slot === undefined) && Array.from(stroke.y).some((value) => value > scales.y[1] || value < scales.y[0])).length;
    const dots = strokes.some(({ marked }) => marked.length) ? MARKS[beside.known.compared] : "";
    const text = failed && !state.all ? `${summary()} Values of ${failed} failed ${failed > 1 ? "trials are" : "trial are"} outside:` : summary();
    dom.refill(foot, dots && dom.make("span", { class: "nb-quiet-text", text: dots }), dom.make("span", { class: "nb-quiet-text", text }),
      (failed > 0 || state.all) && toggle(state.all ? "Leave out what is far off" : "Show all values", "all", () => { state.all = !state.all; draw(); }),
      state.zoom && toggle("Whole range", "whole", whole),
      table.button());
  }

  /** @param {string} label @param {string} id @param {() => void} run */
  const toggle = (label, id, run) => dom.button({ label, quiet: true, run, id: `curves-${id}` });

  /** The lines in colour, at some of their steps. */
  function drawTable() {
    const strong = strokes.filter(({ slot, faint }) => slot !== undefined && !faint);
    const named = strong.map(({ id, name = id, x, y }) => ({ name, x, y }));
    table.lines(setting() || "Trial", [named], state.time ? format.duration : (x) => `step ${Math.round(x)}`, scales.x);
  }

  let offered = "";
  function drawTools() {
    if (isCharts()) return tools.replaceChildren();
    const now = JSON.stringify([beside.known.settings, state.group, state.second]);
    if (now === offered && tools.dataset.of === "curves" && tools.childElementCount) return;
    [offered, tools.dataset.of] = [now, "curves"];
    dom.refill(tools, smoothing(), beside.known.settings.length > 0 && grouped("Group by", "group"), settings().length > 0 && grouped("and by", "second"), more());
  }

  function smoothing() {
    const slider = dom.make("input", { type: "range", class: "nb-slider", min: 0, max: 0.99, step: 0.01, value: state.smooth, "aria-label": "Smooth", "data-action": "smooth" });
    slider.addEventListener("input", () => {
      state.smooth = Number(slider.value);
      keep();
      draw();
    });
    return dom.make("label", { class: "nb-smooth" }, dom.make("span", { text: "Smooth" }), slider);
  }

  /** The choice of a setting by which lines are grouped. @param {string} label @param {"group" | "second"} which */
  function grouped(label, which) {
    const names = beside.known.settings.filter((name) => which === "group" || name !== state.group);
    const choices = [{ value: "", text: "none" }, ...names.map((name) => ({ value: name, text: name }))];
    return dom.make("label", { class: "nb-smooth" }, dom.make("span", { text: label }), dom.select(label, choices, names.includes(state[which]) ? state[which] : "", (value) => {
      state[which] = value;
      hidden.clear(true);
      keep();
      draw();
    }));
  }

  function more() {
    const button = dom.button({ label: "View", icon: "down", quiet: true, id: "curves-more", run: () => frame.menu(button, [
      { label: "Log scale", checked: state.log, run: () => turn("log") },
      { label: "By time", checked: state.time, run: () => turn("time") },
      { label: "Show all values", checked: state.all, run: () => turn("all") },
      { label: "Whole range", run: whole },
    ]) });
    return button;
  }

  /** @param {"log" | "time" | "all"} name */
  function turn(name) {
    state[name] = !state[name];
    if (name === "time") state.zoom = null;
    keep();
    draw();
    return true;
  }

  /** Show a small chart for each metric, or one for the metric that is chosen. @param {boolean} on */
  function turnCharts(on) {
    state.charts = on;
    keep();
    draw();
  }

  /** Show one metric alone. @param {string} name */
  function metric(name) {
    turnCharts(false);
    beside.metric(name);
  }
  const choices = () => ({ curves: { log: state.log, time: state.time, smooth: state.smooth, group: state.group, second: state.second, charts: state.charts, order: state.order } });
  const keep = () => frame.keep("trials", { ...frame.choices("trials"), ...choices() });

  const sized = new ResizeObserver(() => plot.isDrawn() && element.isConnected && !table.isOn() && draw());
  sized.observe(plot.root);
  frame.signal.addEventListener("abort", () => sized.disconnect());

  return {
    element, draw: drawChanged, choices, isCharts, turnCharts, repaint: plot.repaint,
    /** @param {string | null} id */
    hover: (id) => (isCharts() ? charts : plot).hover(id),
    /** @param {string} name */
    key: (name) => (isCharts() ? false : name === "log" ? turn("log") : name === "range" ? whole() : false),
  };
}
