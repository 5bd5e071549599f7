/**
 * Curves of a metric: a few in colour, all others pale. Hover, zoom, smoothing, log scale, by step or by time.
 *
 * uPlot draws axes and grid, and hears the pointer; the lines are drawn here, so that each has its own steps.
 *
 * @typedef {import("./ink.js").Stroke} Stroke
 * @typedef {{ left: number, top: number }} Point
 */

const MOST_PALE = 200;
const MOST_ROWS = 5;
const REACH = 60;
/** What the dots on the lines are, as `plot` says it. @type {Record<string, string>} */
const MARKS = {
  rungs: "Dots are rungs, where the scheduler compared the trials.",
  generations: "Dots are the ends of generations, where the scheduler compared the trials.",
};

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {HTMLElement} tools
 */
export function picture(frame, beside, tools) {
  const { dom, format, parts } = frame;
  const { series, ink } = parts;
  const kept = frame.choices("trials").curves ?? {};
  const state = {
    log: Boolean(kept.log), time: Boolean(kept.time), all: false, table: false, smooth: Number(kept.smooth ?? 0),
    zoom: /** @type {[number, number] | null} */ (null), cross: /** @type {{ id: string, at: number } | null} */ (null),
  };
  const root = dom.make("div", { class: "nb-plot", tabindex: 0, role: "group", "aria-label": "Curves. Left and right move by a step, up and down go to the next line." });
  const tip = dom.make("div", { class: "nb-tip", role: "status" });
  const foot = dom.make("div", { class: "nb-plot-foot" });
  const table = dom.make("div", { class: "nb-page nb-plot-table", tabindex: 0, role: "group", "aria-label": "Curves as a table" });
  const element = dom.make("div", { class: "nb-curves" }, root, foot);
  const over = dom.draw("svg", { class: "nb-over", "aria-hidden": "true" });
  /** @type {any} */
  let plot = null;
  /** @type {any} */
  let Plot = null;
  let built = "";
  /** @type {Stroke[]} */
  let strokes = [];
  /** @type {import("./ink.js").Scales} */
  let scales = { x: [0, 1], y: [0, 1], log: false };
  void frame.load("vendor/uPlot.esm.js").then((module) => {
    Plot = module.default;
    if (!frame.signal.aborted && element.isConnected) drawChanged();
  });

  const css = (/** @type {string} */ name) => getComputedStyle(frame.root).getPropertyValue(name).trim();
  const line = (/** @type {number} */ slot) => css(`--nb-line-${slot + 1}`);

  /** @returns {Stroke[]} pale ones first */
  function gather() {
    const rows = beside.visible().filter((row) => beside.known.lines.has(row.id));
    const strong = rows.filter((row) => beside.slots.has(row.id));
    const pale = rows.filter((row) => !beside.slots.has(row.id)).slice(0, MOST_PALE);
    return [...pale, ...strong].map((row) => {
      const { x, seconds, y, marks = [] } = /** @type {import("./series.js").Line} */ (beside.known.lines.get(row.id));
      const slot = beside.slots.get(row.id);
      const smoothed = state.smooth > 0 ? series.smooth(y, state.smooth) : y;
      const marked = slot === undefined || !x.length ? [] : marks.map((step) => series.nearest(x, step));
      return { id: row.id, x: state.time ? seconds : x, y: smoothed, raw: state.smooth > 0 && slot !== undefined ? y : null, slot, failed: row.status === "failed", marked };
    });
  }

  /** @returns {import("./ink.js").Scales} */
  function measure() {
    const ends = strokes.flatMap(({ x }) => (x.length ? [x[0], x[x.length - 1]] : []));
    const of = state.time ? [] : beside.visible().map((row) => (row.status === "running" ? (row.of ?? 0) : 0));
    const x = state.zoom ?? /** @type {[number, number]} */ ([Math.min(...ends, state.time ? 0 : Infinity), Math.max(...ends, ...of)]);
    const sound = strokes.filter(({ failed }) => !failed);
    const values = inRange(state.all || !sound.length ? strokes : sound, x);
    const log = state.log && values.some((value) => value > 0);
    return { x: ends.length && x[1] > x[0] ? x : [0, Math.max(1, x[1] || 1)], y: series.range(values, { log, all: state.all }), log };
  }

  /** The finite values of lines between two places. @param {Stroke[]} lines @param {[number, number]} range */
  function inRange(lines, [from, to]) {
    const values = [];
    for (const { x, y } of lines) for (let at = 0; at < y.length; at += 1) if (Number.isFinite(y[at]) && x[at] >= from && x[at] <= to) values.push(y[at]);
    return values;
  }

  function draw() {
    drawTools();
    if (!Plot || !element.isConnected) return;
    strokes = gather();
    scales = measure();
    drawFoot();
    element.replaceChildren(...(state.table ? [table] : [root]), foot);
    if (state.table) return drawTable();
    build();
    plot.batch(() => {
      plot.setScale("x", { min: scales.x[0], max: scales.x[1] });
      plot.setScale("y", { min: scales.y[0], max: scales.y[1] });
    });
    plot.redraw(false, true);
    if (state.cross) point(state.cross.id, state.cross.at);
  }

  let drawn = "";
  /** Draw if the lines are others than before. In which order they stand in the table does not matter. */
  function drawChanged() {
    const visible = beside.visible();
    const marks = visible.reduce((sum, row) => sum + (row.n + 1) * (row.n + 7), 0);
    const { name, metric, version } = beside.known;
    const now = JSON.stringify([name, metric, version, visible.length, marks, [...beside.slots], beside.selected().length, state, Boolean(Plot), element.isConnected]);
    if (now === drawn && plot) return;
    drawn = now;
    draw();
  }

  const room = () => ({ width: Math.max(200, root.clientWidth), height: Math.max(120, root.clientHeight) });

  function build() {
    const kind = `${scales.log} ${state.time}`;
    if (plot && built === kind) {
      const { width, height } = room();
      if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
      return;
    }
    plot?.destroy();
    built = kind;
    root.replaceChildren();
    const axis = { stroke: () => css("--nb-quiet"), grid: { stroke: () => css("--nb-edge"), width: 1 }, ticks: { stroke: () => css("--nb-edge"), width: 1, size: 4 }, font: "11px sans-serif" };
    const written = (/** @type {any} */ _, /** @type {(number | null)[]} */ splits) => splits.map((value) => (value === null ? null : Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(6)))));
    const spent = (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((value) => format.duration(value));
    plot = new Plot(
      {
        ...room(), legend: { show: false }, padding: [10, () => (root.clientWidth < 420 ? 46 : 96), 0, 0],
        scales: { x: { time: false, auto: false, min: 0, max: 1 }, y: { auto: false, distr: scales.log ? 3 : 1, min: scales.y[0], max: scales.y[1] } },
        series: [{}, { show: true, points: { show: false }, width: 0 }],
        axes: [{ ...axis, size: 26, ...(state.time ? { values: spent } : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7] }) }, { ...axis, size: 48, values: written }],
        cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, bind: { dblclick: () => () => (whole(), null) } },
        hooks: { draw: [paint], setCursor: [moved], setSelect: [zoomed] },
      },
      [[0, 1], [null, null]],
      root,
    );
    plot.over.append(over);
    root.append(tip);
  }

  /** @param {any} u */
  function paint(u) {
    const ratio = globalThis.devicePixelRatio || 1;
    ink.lines(u.ctx, strokes, u.bbox, scales, { pale: css("--nb-pale"), line, ratio });
    const wide = root.clientWidth >= 420;
    const strong = strokes.filter(({ slot, y }) => slot !== undefined && y.length);
    const written = format.numbers(strong.map(({ y }) => y[y.length - 1]));
    const texts = strong.map(({ id, y, slot }) => ({ text: wide ? `${id}  ${written(y[y.length - 1])}` : id, value: y[y.length - 1], slot: slot ?? 0 }));
    ink.labels(u.ctx, texts, u.bbox, scales, { line, ratio, font: `${12 * ratio}px sans-serif`, spread: series.spread });
  }

  /** @param {any} u */
  function zoomed(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    state.zoom = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    draw();
  }

  function whole() {
    state.zoom = null;
    draw();
    return true;
  }

  /** Lines near the pointer, the nearest first. @param {Point} at */
  function near({ left, top }) {
    const { across, down } = ink.placing({ left: 0, top: 0, width: plot.over.clientWidth, height: plot.over.clientHeight }, scales);
    const wanted = plot.posToVal(left, "x");
    return strokes
      .filter(({ x }) => x.length)
      .map((stroke) => {
        const index = series.nearest(stroke.x, wanted);
        const far = Math.hypot(across(stroke.x[index]) - left, down(stroke.y[index]) - top);
        return { stroke, index, far: far - (stroke.slot === undefined ? 0 : 4) };
      })
      .filter(({ far }) => far < REACH)
      .sort((a, b) => a.far - b.far);
  }

  /** @param {any} u */
  function moved(u) {
    if (u.cursor.left < 0 || u.cursor.left === null || u.cursor.left === undefined) return document.activeElement === root ? undefined : clear();
    const found = near(u.cursor);
    if (!found.length) return clear();
    light(found[0].stroke, found[0].index);
    tell(found);
  }

  function clear() {
    over.replaceChildren();
    tip.replaceChildren();
    tip.style.display = "none";
    beside.light(null);
  }

  /** Draw a line strongly, with a ring at a point. @param {Stroke} stroke @param {number} index */
  function light(stroke, index) {
    const box = { left: 0, top: 0, width: plot.over.clientWidth, height: plot.over.clientHeight };
    const place = ink.placing(box, scales);
    const colour = stroke.slot === undefined ? css("--nb-ink") : line(stroke.slot);
    dom.fill(over,
      dom.draw("path", { d: ink.course(stroke.x, stroke.y, place), fill: "none", stroke: colour, "stroke-width": 2.4, "stroke-dasharray": ink.DASHES[stroke.slot ?? 0].join(" ") || null }),
      index >= 0 && dom.draw("circle", { cx: place.across(stroke.x[index]), cy: place.down(stroke.y[index]), r: 4.5, fill: css("--nb-page"), stroke: colour, "stroke-width": 2 }));
    beside.light(stroke.id);
  }

  /** @param {ReturnType<typeof near>} found */
  function tell(found) {
    const [{ stroke, index }] = found;
    const written = format.numbers(found.slice(0, MOST_ROWS).map((each) => each.stroke.y[each.index]));
    const rows = found.slice(0, MOST_ROWS).map((each) => {
      const row = beside.known.rows.get(each.stroke.id);
      const about = row ? parts.heading.settingsText(row, beside.known.settings.slice(0, 3), format) : "";
      const when = state.time ? format.duration(each.stroke.x[each.index]) : `step ${each.stroke.x[each.index]}`;
      return dom.make("div", { class: "nb-tip-row" },
        dom.make("strong", { text: each.stroke.id, style: each.stroke.slot === undefined ? "" : `color: var(--nb-line-${each.stroke.slot + 1})` }),
        ` ${when}  ${beside.known.metric} ${written(each.stroke.y[each.index])}`, dom.make("span", { class: "nb-quiet-text", text: about ? ` · ${about}` : "" }));
    });
    const more = strokes.length - rows.length;
    dom.fill(tip, ...rows, more > 0 && dom.make("div", { class: "nb-quiet-text", text: `+${more} more` }));
    tip.style.display = "block";
    const place = ink.placing({ left: 0, top: 0, width: plot.over.clientWidth, height: plot.over.clientHeight }, scales);
    const left = place.across(stroke.x[index]) + plot.over.offsetLeft;
    const top = place.down(stroke.y[index]);
    tip.style.left = `${left > root.clientWidth / 2 ? Math.max(0, left - tip.offsetWidth - 14) : Math.min(left + 14, Math.max(0, root.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, Math.min(top < 90 ? top + 16 : top - tip.offsetHeight - 8, root.clientHeight - tip.offsetHeight))}px`;
  }

  /** Bring the cross hair to a point of a line. @param {string} id @param {number} at */
  function point(id, at) {
    const stroke = strokes.find((each) => each.id === id);
    if (!plot || !stroke?.x.length) return;
    const index = Math.max(0, Math.min(stroke.x.length - 1, at));
    state.cross = { id, at: index };
    light(stroke, index);
    tell([{ stroke, index, far: 0 }]);
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const steps = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] })[event.key];
    if (!steps || event.ctrlKey || !strokes.length) return false;
    const order = [...strokes].reverse();
    const from = order.findIndex(({ id }) => id === state.cross?.id);
    const to = order[Math.max(0, Math.min(order.length - 1, from + steps[1]))] ?? order[0];
    point(to.id, from < 0 ? to.x.length - 1 : (state.cross?.at ?? 0) + steps[0]);
    return true;
  }

  function drawFoot() {
    const rows = beside.visible();
    const strong = strokes.filter(({ slot }) => slot !== undefined).length;
    const failed = strokes.filter((stroke) => stroke.failed && stroke.slot === undefined && Array.from(stroke.y).some((value) => value > scales.y[1] || value < scales.y[0])).length;
    const many = rows.length - strokes.length;
    const chosen = beside.selected().length > 0;
    const inColour = strong === strokes.length ? `All ${strong} in colour.` : `${strong} ${chosen ? "selected" : "best"} of ${strokes.length} in colour, the others grey.`;
    const text = strokes.length === 0 ? "No values yet." : `${inColour}${many > 0 ? ` ${format.whole(many)} more are not drawn.` : ""}`;
    const dots = strokes.some(({ marked }) => marked.length) ? MARKS[beside.known.compared] : "";
    dom.fill(foot, dots && dom.make("span", { class: "nb-quiet-text", text: dots }), dom.make("span", { class: "nb-quiet-text", text: failed && !state.all ? `${text} Values of ${failed} failed ${failed > 1 ? "trials are" : "trial are"} outside:` : text }),
      (failed > 0 || state.all) && toggle(state.all ? "Leave out what is far off" : "Show all values", () => { state.all = !state.all; draw(); }),
      state.zoom && toggle("Whole range", whole),
      toggle(state.table ? "Show as curves" : "Show as table", () => { state.table = !state.table; draw(); }));
  }

  /** @param {string} label @param {() => void} run */
  const toggle = (label, run) => dom.button({ label, quiet: true, run, id: label });

  function drawTable() {
    const strong = strokes.filter(({ slot }) => slot !== undefined);
    const at = Array.from({ length: 11 }, (_, index) => scales.x[0] + (index * (scales.x[1] - scales.x[0])) / 10);
    const written = format.numbers(strong.flatMap(({ y }) => Array.from(y)));
    const head = dom.make("tr", {}, dom.make("th", { scope: "col", text: "Trial" }), ...at.map((x) => dom.make("th", { scope: "col", text: state.time ? format.duration(x) : `step ${Math.round(x)}` })));
    const cell = (/** @type {Stroke} */ { x, y }, /** @type {number} */ wanted) => (x.length && wanted <= x[x.length - 1] + 1e-9 ? written(y[series.nearest(x, wanted)]) : "");
    const rows = strong.map((stroke) => dom.make("tr", {}, dom.make("th", { scope: "row", text: stroke.id }), ...at.map((x) => dom.make("td", { text: cell(stroke, x) }))));
    table.replaceChildren(dom.make("table", {}, dom.make("thead", {}, head), dom.make("tbody", {}, ...rows)));
  }

  function drawTools() {
    if (tools.dataset.of === "curves" && tools.childElementCount) return;
    tools.dataset.of = "curves";
    const slider = dom.make("input", { type: "range", class: "nb-slider", min: 0, max: 0.99, step: 0.01, value: state.smooth, "aria-label": "Smooth" });
    slider.addEventListener("input", () => {
      state.smooth = Number(slider.value);
      keep();
      draw();
    });
    const more = dom.button({ label: "More", icon: "down", quiet: true, id: "curves-more", run: () => frame.menu(more, [
      { label: "Log scale", checked: state.log, run: () => turn("log") },
      { label: "By time", checked: state.time, run: () => turn("time") },
      { label: "Show all values", checked: state.all, run: () => turn("all") },
      { label: "Whole range", run: whole },
    ]) });
    dom.fill(tools, dom.make("label", { class: "nb-smooth" }, dom.make("span", { text: "Smooth" }), slider), more);
  }

  /** @param {"log" | "time" | "all"} name */
  function turn(name) {
    state[name] = !state[name];
    if (name === "time") state.zoom = null;
    keep();
    draw();
    return true;
  }
  const choices = () => ({ curves: { log: state.log, time: state.time, smooth: state.smooth } });
  const keep = () => frame.keep("trials", { ...frame.choices("trials"), ...choices() });

  frame.keys(root, key);
  root.addEventListener("blur", () => { state.cross = null; clear(); });
  const sized = new ResizeObserver(() => plot && element.isConnected && !state.table && draw());
  sized.observe(root);
  frame.signal.addEventListener("abort", () => {
    sized.disconnect();
    plot?.destroy();
  });

  return {
    element, draw: drawChanged, choices,
    /** @param {string | null} id */
    hover(id) {
      if (!plot) return;
      const stroke = strokes.find((each) => each.id === id);
      if (stroke) light(stroke, -1);
      else over.replaceChildren();
    },
    /** @param {string} name */
    key: (name) => (name === "log" ? turn("log") : name === "range" ? whole() : false),
    repaint: () => plot?.redraw(false, true),
  };
}
