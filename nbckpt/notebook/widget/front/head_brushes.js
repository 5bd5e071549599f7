/**
 * Small pictures in the heads of columns: how often each value occurs, in all trials and in those that are left. Dragging filters.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./rows.js").Brush} Brush
 * @typedef {import("./axes.js").Axis} Axis
 * @typedef {{ svg: SVGSVGElement, all: SVGPathElement, left: SVGPathElement, range: SVGRectElement, axis: Axis, counts: number[] }} Picture
 */

const [WIDTH, HEIGHT] = [96, 18];
const BINS = 16;
const MOST_BARS = 16;
/** What keys do, held with Shift: whether they go up the axis, and whether its lower end stays. @type {Record<string, [boolean, boolean]>} */
const STEPS = { ArrowRight: [true, false], ArrowLeft: [false, false], ArrowUp: [true, true], ArrowDown: [false, true] };
/** How to filter in a head, for its tooltip. */
export const HINT = "Drag on the bars to filter. With Shift, ← → move the filter, ↑ ↓ widen and narrow it; 0 clears it.";

/**
 * How many values lie in each part of an axis: one part for each value of a choice, sixteen for numbers. Pure.
 * @param {Axis} axis @param {import("./rows.js").Value[]} values
 */
export function parts(axis, values) {
  const counts = Array.from({ length: axis.kind === "values" ? axis.ticks.length : BINS }, () => 0);
  for (const value of values) {
    const place = axis.place(value);
    if (place >= 0 && place <= 1) counts[Math.min(counts.length - 1, Math.floor(place * counts.length))] += 1;
  }
  return counts;
}

/** The bars as the data of an SVG path. Pure. @param {number[]} counts @param {number} most what the highest bar stands for */
export function bars(counts, most) {
  const width = WIDTH / counts.length;
  return counts.map((count, at) => {
    const height = count ? Math.max(1.5, (count / most) * HEIGHT) : 0;
    return height ? `M${(at * width + 0.5).toFixed(1)} ${HEIGHT}v${-height.toFixed(1)}h${(width - 1).toFixed(1)}V${HEIGHT}z` : "";
  }).join("");
}

/**
 * Take a value into a choice, or out of it. Pure.
 * @param {Brush | undefined} brush @param {string} value @returns {Brush | null} null: nothing is chosen any more
 */
export function toggled(brush, value) {
  const before = brush && "values" in brush ? brush.values : [];
  const values = before.includes(value) ? before.filter((each) => each !== value) : [...before, value];
  return values.length ? { values } : null;
}

/**
 * The pictures of a table.
 * @param {import("./panel.js").Frame} frame
 * @param {{ brush: (column: string, brush: Brush | null) => void, brushes: () => Record<string, Brush> }} pane
 */
export function heads(frame, pane) {
  const { dom, format, parts: modules } = frame;
  const { rows: logic, axes, brushing } = modules;
  /** @type {Map<string, Picture>} */
  const made = new Map();
  /** @type {Trial[]} */
  let drawn = [];
  let former = { left: drawn, text: "" };
  let known = "";

  /** A metric has the scale of the trials that did not fail. @param {string} id @param {Trial[]} rows @returns {Axis | null} */
  function axisOf(id, rows) {
    const isMetric = id.startsWith("metrics:");
    const able = isMetric ? rows.filter((row) => row.status !== "failed") : rows;
    const values = able.map(logic.reader(id)).filter((value) => value !== null && value !== undefined);
    const axis = axes.axis(values, logic, format, { scale: isMetric });
    const few = axis.kind === "values" ? axis.ticks.length : 2;
    return values.length && few > 1 && few <= MOST_BARS ? axis : null;
  }

  /** @param {string} id @returns {Picture} */
  function picture(id) {
    const [all, left] = ["nb-bars nb-bars-all", "nb-bars"].map((name) => dom.draw("path", { class: name }));
    const range = dom.draw("rect", { class: "nb-brush", y: 0, height: HEIGHT });
    const svg = dom.draw("svg", { class: "nb-head-brush", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, all, left, range);
    svg.addEventListener("click", (event) => event.stopPropagation());
    const one = /** @type {Picture} */ ({ svg, all, left, range });
    brushing.brushing(svg, {
      along: "x", share: (part) => part,
      done: (from, to) => pane.brush(id, one.axis.brush(from, to)),
      clicked: (at) => pane.brush(id, one.axis.kind === "values" ? chosenAt(id, one.axis, at) : null),
    });
    return one;
  }

  /** @param {string} id @param {Axis} axis @param {number} at */
  function chosenAt(id, axis, at) {
    const single = axis.brush(Math.floor(at * axis.ticks.length) / axis.ticks.length, Math.ceil(at * axis.ticks.length) / axis.ticks.length);
    return single && "values" in single ? toggled(pane.brushes()[id], single.values[0]) : null;
  }

  /** @param {string} id @param {Picture} one @param {Trial[]} rows @param {Trial[]} left */
  function draw(id, { svg, all, left: front, range, axis, counts }, rows, left) {
    const most = Math.max(1, ...counts);
    all.setAttribute("d", bars(counts, most));
    front.setAttribute("d", bars(left === rows ? counts : parts(axis, left.map(logic.reader(id))), most));
    const brush = pane.brushes()[id];
    const [from, to] = brush ? axis.span(brush).map((share) => Math.max(0, Math.min(1, share))) : [0, 0];
    dom.dress(range, { x: from * WIDTH, width: Math.max(brush ? 2 : 0, (to - from) * WIDTH), visibility: brush ? null : "hidden" });
    svg.dataset.filters = String(Boolean(brush));
  }

  /** Make the pictures of columns, or forget those of which there can be none. @param {string[]} ids @param {Trial[]} rows */
  function renew(ids, rows) {
    for (const id of ids) {
      const axis = axisOf(id, rows);
      const one = made.get(id) ?? (axis && picture(id));
      if (one && axis) made.set(id, Object.assign(one, { axis, counts: parts(axis, rows.map(logic.reader(id))) }));
      else made.delete(id);
    }
  }

  return {
    /** Draw the pictures of these columns. @param {string[]} ids @param {Trial[]} rows all of them @param {Trial[]} left those that pass the filter */
    draw(ids, rows, left) {
      const fields = ids.filter((id) => /^(metrics|settings):|^(step|seconds)$/.test(id));
      const text = JSON.stringify([fields, pane.brushes()]);
      if (rows === drawn && left === former.left && text === former.text) return;
      if (rows !== drawn || fields.join("\n") !== known) renew(fields, rows);
      [drawn, known, former] = [rows, fields.join("\n"), { left, text }];
      for (const id of fields) {
        const one = made.get(id);
        if (one) draw(id, one, rows, left);
      }
    },
    /** What puts the picture of a column into its head. @param {string} id */
    head(id) {
      const one = made.get(id);
      return one && ((/** @type {HTMLElement} */ cell) => cell.append(one.svg));
    },
    /** Filter by keys on the head of a column. @param {KeyboardEvent} event @param {string} id @returns {boolean} whether it was one of ours */
    key(event, id) {
      const one = made.get(id);
      const brush = pane.brushes()[id];
      const step = event.shiftKey ? STEPS[event.key] : undefined;
      if (!one || event.ctrlKey || event.metaKey || event.altKey || !(step || (event.key === "0" && brush))) return false;
      pane.brush(id, step ? axes.moved(one.axis, brush, ...step) : null);
      return true;
    },
    /** The columns that have a picture, for comparing. */
    names: () => [...made.keys()].join(),
  };
}
