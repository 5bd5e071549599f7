/**
 * A small chart of a few lines in colour, with axes.
 *
 * @typedef {{ id: string, slot: number, x: ArrayLike<number>, y: ArrayLike<number>, failed: boolean }} SmallLine
 * @typedef {import("./axes.js").Axis} Axis
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [42, 16, 6, 22];

/** An axis whose ticks stand where the lines have these values. Pure. @param {Axis} axis @param {(value: number) => number} share */
export const aligned = (axis, share) => ({ ...axis, ticks: axis.ticks.map(({ text }) => ({ text, at: share(Number(text)) })).filter(({ at }) => at >= 0 && at <= 1) });

/**
 * Draw the chart. Failed lines do not count for its scale, if there are others.
 * @param {import("./panel.js").Frame} frame @param {string} label what the values are @param {SmallLine[]} lines with points @param {{ width: number, height: number }} size
 */
export function chart({ dom, format, parts }, label, lines, size) {
  const { axes, dots, ink, rows, series } = parts;
  const sound = lines.filter(({ failed }) => !failed);
  const y = series.range((sound.length ? sound : lines).flatMap((line) => Array.from(line.y).filter(Number.isFinite)));
  const x = /** @type {[number, number]} */ ([Math.min(...lines.map((line) => line.x[0])), Math.max(...lines.map((line) => line.x[line.x.length - 1]))]);
  if (x[0] === x[1]) x[1] += 1;
  const [left, top, width, height] = [LEFT, TOP, size.width - LEFT - RIGHT, size.height - TOP - BOTTOM];
  const box = { left, top, width, height };
  const place = ink.placing(box, { x, y, log: false });
  const across = aligned(axes.axis(x, rows, format, { scale: true, counts: true }), (value) => (place.across(value) - left) / width);
  const upwards = aligned(axes.axis(y, rows, format, { scale: true }), (value) => 1 - (place.down(value) - top) / height);
  const last = (/** @type {SmallLine} */ line) => `${line.id} ${format.number(line.y[line.y.length - 1])}`;
  return dom.draw("svg", { viewBox: `0 0 ${size.width} ${size.height}`, class: "nb-multiple nb-chart", role: "img", "aria-label": `${label}, last values: ${lines.map(last).join(", ")}` },
    ...dots.ground(dom, across, upwards, box),
    dom.draw("svg", { x: left, y: top, width, height, viewBox: `${left} ${top} ${width} ${height}` }, ...lines.map((line) =>
      dom.draw("path", { d: ink.course(line.x, line.y, place), class: "nb-chart-line", "data-id": line.id, stroke: `var(--nb-line-${line.slot + 1})`, "stroke-dasharray": ink.DASHES[line.slot].join(" ") || null }, dom.draw("title", { text: last(line) })))));
}
