/**
 * Drawing lines on the canvas of uPlot: many pale ones, a few in colour and dash, and their names at the end.
 *
 * @typedef {{ id: string, x: ArrayLike<number>, y: ArrayLike<number>, raw: ArrayLike<number> | null, slot: number | undefined, failed: boolean, marked: number[], name?: string, faint?: boolean }} Stroke
 *   `slot`: the number of its colour; `raw`: the line before it was smoothed; `marked`: the indices of points with a dot;
 *   `name`: instead of the id; `faint`: one of a group whose mean is drawn strongly
 * @typedef {{ left: number, top: number, width: number, height: number }} Box
 * @typedef {{ x: [number, number], y: [number, number], log: boolean }} Scales
 */

/** What lies farther off is drawn at the edge of this, in pixels. */
const FAR = 1e5;
const MARK = 3.2;

/** Dashes in the order of the colours, in pixels. */
export const DASHES = [[], [7, 4], [2, 4], [7, 3, 2, 3], [13, 4], [], [7, 4], [2, 4]];

/** Where values lie in a box. Pure. @param {Box} box @param {Scales} scales */
export function placing(box, { x, y, log }) {
  const as = log ? Math.log10 : Number;
  const [low, high] = [as(y[0]), as(y[1])];
  return {
    /** @param {number} value */
    across: (value) => box.left + ((value - x[0]) / (x[1] - x[0] || 1)) * box.width,
    /** @param {number} value */
    down: (value) => box.top + (1 - (as(value) - low) / (high - low || 1)) * box.height,
  };
}

/**
 * The course of a line as the data of an SVG path. Pure.
 * @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {ReturnType<typeof placing>} place
 */
export function course(x, y, { across, down }) {
  let path = "";
  let pen = "M";
  for (let at = 0; at < x.length; at += 1) {
    const top = down(y[at]);
    if (Number.isFinite(top)) path += `${pen}${across(x[at]).toFixed(1)} ${Math.max(-FAR, Math.min(FAR, top)).toFixed(1)}`;
    pen = Number.isFinite(top) ? "L" : "M";
  }
  return path;
}

/**
 * Draw all lines into the box.
 * @param {CanvasRenderingContext2D} context @param {Stroke[]} strokes @param {Box} box in pixels of the canvas @param {Scales} scales
 * @param {{ pale: string, line: (slot: number) => string, ratio: number }} colours
 */
export function lines(context, strokes, box, scales, { pale, line, ratio }) {
  const place = placing(box, scales);
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  context.lineJoin = "round";
  const strong = strokes.filter(({ slot }) => slot !== undefined);
  const draw = (/** @type {ArrayLike<number>} */ x, /** @type {ArrayLike<number>} */ y) => (trace(context, x, y, place), context.stroke());
  for (const { x, y, failed } of strokes.filter(({ slot }) => slot === undefined)) {
    pen(context, pale, ratio, failed ? [2 * ratio, 3 * ratio] : []);
    draw(x, y);
  }
  for (const { x, y, slot = 0 } of strong.filter(({ faint }) => faint)) {
    context.globalAlpha = 0.35;
    pen(context, line(slot), ratio, []);
    draw(x, y);
    context.globalAlpha = 1;
  }
  for (const { x, y, raw, slot = 0, marked } of strong.filter(({ faint }) => !faint)) {
    if (raw) {
      context.globalAlpha = 0.25;
      pen(context, line(slot), ratio, []);
      draw(x, raw);
      context.globalAlpha = 1;
    }
    pen(context, line(slot), 1.8 * ratio, DASHES[slot].map((length) => length * ratio));
    draw(x, y);
    for (const at of marked) dot(context, place.across(x[at]), place.down(y[at]), MARK * ratio);
  }
  context.restore();
}

/** Fill a dot in the colour of the pen. @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} radius */
function dot(context, x, y, radius) {
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {string} colour @param {number} width @param {number[]} dash */
function pen(context, colour, width, dash) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
}

/** Begin a path along a line. @param {CanvasRenderingContext2D} context @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {ReturnType<typeof placing>} place */
function trace(context, x, y, { across, down }) {
  context.beginPath();
  let isDown = false;
  for (let at = 0; at < x.length; at += 1) {
    const top = Math.max(-FAR, Math.min(FAR, down(y[at])));
    if (isDown) context.lineTo(across(x[at]), top);
    else if (!Number.isNaN(top)) context.moveTo(across(x[at]), top);
    isDown = !Number.isNaN(top);
  }
}

/**
 * Write the names of the coloured lines at their ends, apart from each other.
 * @param {CanvasRenderingContext2D} context @param {{ text: string, value: number, slot: number }[]} labels @param {Box} box @param {Scales} scales
 * @param {{ line: (slot: number) => string, ratio: number, font: string, spread: typeof import("./series.js").spread }} style
 */
export function labels(context, labels, box, scales, { line, ratio, font, spread }) {
  const { down } = placing(box, scales);
  const height = 15 * ratio;
  const tops = spread(labels.map(({ value }) => Math.max(box.top, Math.min(box.top + box.height, down(value))) - height / 2), height, box.top + box.height + height / 2);
  context.save();
  context.font = font;
  context.textBaseline = "middle";
  context.textAlign = "left";
  labels.forEach(({ text, slot }, index) => {
    context.fillStyle = line(slot);
    context.fillText(text, box.left + box.width + 6 * ratio, tops[index] + height / 2);
  });
  context.restore();
}
