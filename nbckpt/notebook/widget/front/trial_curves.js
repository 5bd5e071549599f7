/**
 * The curves of all metrics of one trial, small, in its detail.
 *
 * @typedef {import("./small_chart.js").SmallLine} SmallLine
 */

const SIZE = { width: 260, height: 120 };
const MOST = 12;

/**
 * Ask for the curves, and draw them into an element once they are here; `load` asks again. A trial without numbers has none.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {string} id
 */
export function curves(frame, { known, slots }, id) {
  const { dom, parts } = frame;
  const element = dom.make("div", { class: "nb-multiples nb-trial-curves" });
  const table = parts.numbers.numbers(frame, `Curves of ${id}`, draw);
  /** @type {[string, SmallLine][]} */
  let lines = [];

  async function load() {
    const names = known.metrics.slice(0, MOST);
    const answer = await frame.ask("curves", [id], { experiment: known.name, names });
    const of = (/** @type {string} */ name) => answer?.data?.curves?.[name]?.[id] ?? [[], []];
    lines = names.map((name) => /** @type {[string, SmallLine]} */ ([name, { id, slot: slots.get(id) ?? 0, x: of(name)[0], y: of(name)[1], failed: false }]));
    lines = lines.filter(([, { y }]) => Array.from(y).filter(Number.isFinite).length > 1);
    draw();
  }

  /** @param {[string, SmallLine]} line */
  const card = ([name, line]) => dom.make("figure", { class: "nb-multiple-card" }, dom.make("figcaption", { text: name }), parts.small_chart.chart(frame, name, [line], SIZE));

  function draw() {
    if (!lines.length) return;
    if (table.isOn()) table.lines("Metric", lines.map(([name, { x, y }]) => [{ name, x, y }]), (x) => `report ${Math.round(x)}`);
    dom.refill(element, ...(table.isOn() ? [table.element] : lines.map(card)), dom.make("div", { class: "nb-plot-foot nb-same" }, table.button()));
  }

  void load();
  return { element, load };
}
