/**
 * The drawing of curves. uPlot draws axes and grid, and hears the pointer; the lines are drawn here, so that each has its own steps.
 *
 * @typedef {import("./ink.js").Stroke} Stroke
 * @typedef {import("./ink.js").Scales} Scales
 * @typedef {{ left: number, top: number }} Point
 * @typedef {{ stroke: Stroke, index: number, far: number }} Near a point of a line, and how far it is from the pointer
 * @typedef {object} View what is drawn, and what the pointer asks for
 * @property {() => Stroke[]} strokes pale ones first
 * @property {() => Scales} scales
 * @property {() => boolean} byTime
 * @property {(range: [number, number]) => void} zoomed
 * @property {() => void} whole show the whole range
 * @property {() => void} ready uPlot is there
 */

const MOST_ROWS = 5;
const REACH = 60;
const NARROW = 420;
const STEPS = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] });
const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7];

const ZOOM = /** @type {Record<string, number>} */ ({ "+": 0.5, "=": 0.5, "-": 2 });
const MOVE = 0.25;
const CLOSEST = 500;

/**
 * The range that a key zooms to or moves to; null for other keys. Pure.
 * @param {{ key: string, shiftKey: boolean }} event @param {[number, number]} range what is shown @param {number} at what stays where it is
 * @returns {[number, number] | null}
 */
export function ranged({ key, shiftKey }, [from, to], at) {
  const by = shiftKey ? (STEPS[key]?.[0] ?? 0) * MOVE * (to - from) : 0;
  if (by) return [from + by, to + by];
  return ZOOM[key] ? [at - (at - from) * ZOOM[key], at + (to - at) * ZOOM[key]] : null;
}

/**
 * A range within the whole one, and not too narrow; null for the whole. Pure.
 * @param {[number, number]} range @param {[number, number]} whole @returns {[number, number] | null}
 */
export function bounded([from, to], [low, high]) {
  const width = Math.max(to - from, (high - low) / CLOSEST);
  if (width >= high - low) return null;
  const left = Math.max(low, Math.min(high - width, from));
  return [left, left + width];
}

/** A number at an axis. Pure. @param {number | null} value */
const tick = (value) => (value === null ? null : Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(6))));

/**
 * Make the drawing.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {View} view
 */
export function plot(frame, beside, view) {
  const { dom, format, parts } = frame;
  const { series, ink } = parts;
  const root = dom.make("div", { class: "nb-plot", tabindex: 0, role: "group", "aria-label": "Curves. Left and right move by a step, up and down go to the next line, plus and minus zoom." });
  const tip = dom.make("div", { class: "nb-tip", role: "status" });
  const over = dom.draw("svg", { class: "nb-over", "aria-hidden": "true" });
  /** @type {any} */
  let Plot = null;
  /** @type {any} */
  let made = null;
  let built = "";
  let cross = /** @type {{ id: string, at: number } | null} */ (null);
  void frame.load("vendor/uPlot.esm.js").then((module) => {
    Plot = module.default;
    if (!frame.signal.aborted) view.ready();
  });

  const css = (/** @type {string} */ name) => getComputedStyle(frame.root).getPropertyValue(name).trim();
  const line = (/** @type {number} */ slot) => css(`--nb-line-${slot + 1}`);
  const room = () => ({ width: Math.max(200, root.clientWidth), height: Math.max(90, root.clientHeight) });
  /** Where values lie on the page. */
  const placing = () => ink.placing({ left: 0, top: 0, width: made.over.clientWidth, height: made.over.clientHeight }, view.scales());

  function draw() {
    const { x, y } = view.scales();
    build();
    made.batch(() => {
      made.setScale("x", { min: x[0], max: x[1] });
      made.setScale("y", { min: y[0], max: y[1] });
    });
    made.redraw(false, true);
    if (cross) point(cross.id, cross.at);
  }

  function build() {
    const kind = `${view.scales().log} ${view.byTime()}`;
    if (made && built === kind) {
      const { width, height } = room();
      if (made.width !== width || made.height !== height) made.setSize({ width, height });
      return;
    }
    made?.destroy();
    built = kind;
    root.replaceChildren();
    made = new Plot(options(), [[0, 1], [null, null]], root);
    made.over.append(over);
    root.append(tip);
  }

  /** What uPlot is to draw. */
  function options() {
    const { log, y } = view.scales();
    const axis = { stroke: () => css("--nb-quiet"), grid: { stroke: () => css("--nb-grid"), width: 1 }, ticks: { stroke: () => css("--nb-grid"), width: 1, size: 4 }, font: "11px sans-serif" };
    const written = (/** @type {any} */ _, /** @type {(number | null)[]} */ splits) => splits.map(tick);
    const spent = (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((value) => format.duration(value));
    return {
      ...room(), legend: { show: false }, padding: [10, () => (root.clientWidth < NARROW ? 46 : 96), 0, 0],
      scales: { x: { time: false, auto: false, min: 0, max: 1 }, y: { auto: false, distr: log ? 3 : 1, min: y[0], max: y[1] } },
      series: [{}, { show: true, points: { show: false }, width: 0 }],
      axes: [{ ...axis, size: 26, ...(view.byTime() ? { values: spent } : { incrs: WHOLE_STEPS }) }, { ...axis, size: 48, values: written }],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, bind: { dblclick: () => () => (view.whole(), null) } },
      hooks: { draw: [paint], setCursor: [moved], setSelect: [selected] },
    };
  }

  /** @param {any} u */
  function paint(u) {
    const ratio = globalThis.devicePixelRatio || 1;
    const [strokes, scales] = [view.strokes(), view.scales()];
    ink.lines(u.ctx, strokes, u.bbox, scales, { pale: css("--nb-pale"), line, ratio });
    const named = strokes.filter(({ slot, faint, y }) => slot !== undefined && !faint && y.length);
    const written = format.numbers(named.map(({ y }) => y[y.length - 1]));
    const ends = named.map(({ id, name = id, y, slot = 0 }) => ({ name, value: y[y.length - 1], slot }));
    const texts = labelsOf(ends.map(({ name, value }) => [name, written(value)]));
    ink.labels(u.ctx, ends.map((end, at) => ({ ...end, text: texts[at] })), u.bbox, scales, { line, ratio, font: `${12 * ratio}px sans-serif`, spread: series.spread });
  }

  /** What stands at the ends of lines: their names, with the last values where all have room. A long name is in the legend only. @param {string[][]} ends */
  function labelsOf(ends) {
    const fits = (/** @type {string} */ text) => text.length <= (root.clientWidth < NARROW ? 7 : 14);
    const whole = ends.map((end) => end.join("  "));
    return whole.every(fits) ? whole : ends.map(([name, value]) => (fits(name) ? name : value));
  }

  /** @param {any} u */
  function selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    view.zoomed([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  }

  /** Lines near the pointer, the nearest first. @param {Point} at @returns {Near[]} */
  function near({ left, top }) {
    const { across, down } = placing();
    const wanted = made.posToVal(left, "x");
    return view.strokes()
      .filter(({ x }) => x.length)
      .map((stroke) => {
        const index = series.nearest(stroke.x, wanted);
        const far = Math.hypot(across(stroke.x[index]) - left, down(stroke.y[index]) - top);
        return { stroke, index, far: far - (stroke.slot === undefined || stroke.faint ? 0 : 4) };
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
    const place = placing();
    const colour = stroke.slot === undefined ? css("--nb-ink") : line(stroke.slot);
    dom.fill(over,
      dom.draw("path", { d: ink.course(stroke.x, stroke.y, place), fill: "none", stroke: colour, "stroke-width": 2.4, "stroke-dasharray": ink.DASHES[stroke.slot ?? 0].join(" ") || null }),
      index >= 0 && dom.draw("circle", { cx: place.across(stroke.x[index]), cy: place.down(stroke.y[index]), r: 4.5, fill: css("--nb-page"), stroke: colour, "stroke-width": 2 }));
    beside.light(stroke.id);
  }

  /** Say what is known of some points beside the first of them. @param {Near[]} found */
  function tell(found) {
    const shown = found.slice(0, MOST_ROWS);
    const written = format.numbers(shown.map(({ stroke, index }) => stroke.y[index]));
    const more = view.strokes().length - shown.length;
    dom.fill(tip, ...shown.map((each) => tipRow(each, written)), more > 0 && dom.make("div", { class: "nb-quiet-text", text: `+${more} more` }));
    tip.style.display = "block";
    const [{ stroke, index }] = found;
    const { across, down } = placing();
    const [left, top] = [across(stroke.x[index]) + made.over.offsetLeft, down(stroke.y[index])];
    tip.style.left = `${left > root.clientWidth / 2 ? Math.max(0, left - tip.offsetWidth - 14) : Math.min(left + 14, Math.max(0, root.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, Math.min(top < 90 ? top + 16 : top - tip.offsetHeight - 8, root.clientHeight - tip.offsetHeight))}px`;
  }

  /** @param {Near} near @param {(value: number) => string} written */
  function tipRow({ stroke, index }, written) {
    const row = beside.known.rows.get(stroke.id);
    const about = row ? parts.heading.settingsText(row, beside.known.settings.slice(0, 3), format) : "";
    const when = view.byTime() ? format.duration(stroke.x[index]) : `step ${stroke.x[index]}`;
    return dom.make("div", { class: "nb-tip-row" },
      dom.make("strong", { text: stroke.name ?? stroke.id, style: stroke.slot === undefined ? "" : `color: var(--nb-line-${stroke.slot + 1})` }),
      ` ${when}  ${beside.known.metric} ${written(stroke.y[index])}`, dom.make("span", { class: "nb-quiet-text", text: about ? ` · ${about}` : "" }));
  }

  /** Bring the cross hair to a point of a line. @param {string} id @param {number} at */
  function point(id, at) {
    const stroke = view.strokes().find((each) => each.id === id);
    if (!made || !stroke?.x.length) return over.replaceChildren();
    const index = Math.max(0, Math.min(stroke.x.length - 1, at));
    cross = { id, at: index };
    light(stroke, index);
    tell([{ stroke, index, far: 0 }]);
  }

  /** What a zoom by keys keeps in its place: the cross hair if it is in sight. */
  function middle() {
    const [from, to] = view.scales().x;
    const at = view.strokes().find(({ id }) => id === cross?.id)?.x[cross?.at ?? 0] ?? NaN;
    return at >= from && at <= to ? at : (from + to) / 2;
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const steps = STEPS[event.key];
    const order = [...view.strokes()].reverse();
    if (event.ctrlKey || event.metaKey || event.altKey || !order.length) return false;
    const range = ranged(event, view.scales().x, middle());
    if (range) return view.zoomed(range), true;
    if (!steps) return false;
    const from = order.findIndex(({ id }) => id === cross?.id);
    const to = order[Math.max(0, Math.min(order.length - 1, from + steps[1]))] ?? order[0];
    point(to.id, from < 0 ? to.x.length - 1 : (cross?.at ?? 0) + steps[0]);
    return true;
  }

  frame.keys(root, key);
  root.addEventListener("blur", () => { cross = null; clear(); });
  frame.signal.addEventListener("abort", () => made?.destroy());

  return {
    root, draw,
    /** Whether uPlot is there. */
    isReady: () => Boolean(Plot),
    /** Whether anything was drawn yet. */
    isDrawn: () => Boolean(made),
    repaint: () => made?.redraw(false, true),
    /** @param {string | null} id */
    hover(id) {
      if (!made) return;
      const stroke = view.strokes().find((each) => each.id === id);
      if (stroke) light(stroke, -1);
      else over.replaceChildren();
    },
  };
}
