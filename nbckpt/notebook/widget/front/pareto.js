/**
 * The Pareto front of two objectives: no other trial is better in one and at least as good in the other.
 *
 * @typedef {import("./dots.js").Dot} Dot
 * @typedef {{ metric: string, mode: import("./rows.js").Mode }} Objective
 */

/**
 * The dots on the front, the best in the first objective first. Equal ones stand there together. Pure.
 * @param {Dot[]} dots @param {Objective[]} objectives two of them @returns {Dot[]}
 */
export function front(dots, [first, second]) {
  const worth = (/** @type {number} */ value, /** @type {Objective} */ { mode }) => (mode === "max" ? -value : value);
  const ranked = dots.map((each) => ({ each, a: worth(each.x, first), b: worth(each.y, second) })).sort((p, q) => p.a - q.a || p.b - q.b);
  let last = { a: NaN, b: Infinity };
  return ranked.filter((one) => {
    const isOn = one.b < last.b || (one.a === last.a && one.b === last.b);
    if (isOn) last = one;
    return isOn;
  }).map(({ each }) => each);
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {HTMLElement} tools
 */
export function picture(frame, beside, tools) {
  const { dom, format, parts } = frame;
  const { axes, rows: logic } = parts;
  const { known } = beside;
  const drawn = parts.dots.dots(frame, beside, "Pareto front", shape);
  let names = /** @type {string[]} */ ([]);

  /** The two objectives that are shown: the chosen ones, else the first two. */
  function pair() {
    const asked = names.map((name) => known.objectives.find(({ metric }) => metric === name));
    const [first = known.objectives[0], second = known.objectives.find((each) => each !== first)] = asked;
    return /** @type {[Objective, Objective]} */ ([first, second]);
  }

  function shape() {
    if (known.objectives.length < 2) return "This experiment has one objective.";
    const both = pair();
    const [across, up] = both.map(({ metric }) => (/** @type {import("./rows.js").Trial} */ row) => logic.toNumber(known.sent.get(row.id)?.metrics?.[metric]));
    const dots = [...known.rows.values()].map((row) => ({ row, x: across(row), y: up(row) })).filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
    if (!dots.length) return "No trial has a value of both objectives yet.";
    const steps = front(dots, both);
    const title = (/** @type {Objective} */ { metric, mode }, /** @type {(row: import("./rows.js").Trial) => number} */ of) => ({ text: `${metric} (${mode})`, of });
    const others = known.objectives.length > 2 ? " The front is that of these two objectives alone." : "";
    return {
      dots, steps,
      axes: /** @type {[import("./axes.js").Axis, import("./axes.js").Axis]} */ ([
        axes.axis(dots.map(({ x }) => x), logic, format, { scale: true }), axes.axis(dots.map(({ y }) => y), logic, format, { scale: true })]),
      titles: [title(both[0], across), title(both[1], up)],
      text: `${format.count(steps.length, "trial")} of ${format.whole(dots.length)} ${steps.length === 1 ? "is" : "are"} on the front: no other is better in one objective and at least as good in the other.${others}`,
    };
  }

  /** With more than two objectives, which ones are shown. */
  function drawTools() {
    if (known.objectives.length < 3) return tools.replaceChildren();
    const [x, y] = pair().map(({ metric }) => metric);
    parts.dots.axisChoices(dom, tools, known.objectives.map(({ metric }) => metric), [x, y], (next) => { names = next; draw(); });
  }

  function draw() {
    drawTools();
    drawn.draw();
  }

  return { ...drawn, draw };
}
