/**
 * Two settings at once: a dot for each trial, the larger the better its metric. Nothing is drawn between the dots.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {HTMLElement} tools
 */
export function picture(frame, beside, tools) {
  const { format, parts } = frame;
  const { axes, rows: logic } = parts;
  const { known } = beside;
  const drawn = parts.dots.dots(frame, beside, "Two settings", shape);
  let names = /** @type {string[]} */ (frame.choices("trials").two_settings ?? []);

  /** The two settings that are shown: the chosen ones, else the first two, which matter most. @returns {[string, string]} */
  function pair() {
    const asked = names.map((name) => (known.settings.includes(name) ? name : undefined));
    const [first = known.settings[0], second = known.settings.find((each) => each !== first) ?? first] = asked;
    return [first, second];
  }

  const value = (/** @type {Trial} */ row) => logic.toNumber(row.metrics?.[known.metric]);

  function shape() {
    if (known.settings.length < 2) return "Fewer than two settings vary.";
    const both = pair();
    const all = [...known.rows.values()].filter((row) => Number.isFinite(value(row)));
    const able = all.filter((row) => row.status !== "failed");
    const [across, upwards] = both.map((name) => axes.axis(able.map((row) => row.settings?.[name]), logic, format));
    const [x, y] = [across, upwards].map((axis, at) => (/** @type {Trial} */ row) => axis.place(row.settings?.[both[at]]));
    const dots = able.map((row) => ({ row, x: x(row), y: y(row) })).filter((each) => Number.isFinite(each.x) && Number.isFinite(each.y));
    if (!dots.length) return "No values yet.";
    const ranked = [...dots].sort((a, b) => (beside.mode() === "max" ? -1 : 1) * (value(a.row) - value(b.row)));
    const [best, worst] = [ranked[0], ranked[ranked.length - 1]].map(({ row }) => value(row));
    const goodness = (/** @type {Trial} */ row) => (best === worst ? 1 : (value(row) - worst) / (best - worst));
    const failed = all.length - able.length;
    return {
      dots, steps: [], listed: ranked, fans: true,
      axes: /** @type {[import("./axes.js").Axis, import("./axes.js").Axis]} */ ([{ ...across, place: Number }, { ...upwards, place: Number }]),
      titles: [...both.map((name) => ({ text: name, of: (/** @type {Trial} */ row) => row.settings?.[name] })), { text: known.metric, of: value }],
      colour: (/** @type {Trial} */ row) => parts.shades.shade(goodness(row)),
      radius: (/** @type {Trial} */ row) => 2.6 + 3.4 * goodness(row),
      scale: /** @type {[string, string]} */ ([`${known.metric} ${format.number(worst)}`, format.number(best)]),
      text: `Each dot is a trial: the better, the larger. Dots of one place stand around it.${failed ? ` ${format.whole(failed)} failed ${failed === 1 ? "is" : "are"} left out.` : ""}`,
    };
  }

  function draw() {
    if (known.settings.length > 1) parts.dots.axisChoices(frame.dom, tools, known.settings, pair(), choose);
    drawn.draw();
  }

  /** @param {[string, string]} next */
  function choose(next) {
    names = next;
    frame.keep("trials", { ...frame.choices("trials"), ...choices() });
    draw();
  }
  const choices = () => ({ two_settings: names });

  return { ...drawn, draw, choices };
}
