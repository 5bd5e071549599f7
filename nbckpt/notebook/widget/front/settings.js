/**
 * A small picture for each setting that varies: the metric over its values, in shades from early to late trials. Dragging filters.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./axes.js").Axis} Axis
 */

const [WIDTH, HEIGHT] = [240, 150];
const BOX = { left: 38, top: 8, width: 194, height: 112 };
const MOST = 12;
const MOST_DOTS = 400;
const MOST_SAMPLED = 2000;

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function picture(frame, beside) {
  const { dom, format, parts } = frame;
  const { rows: logic, axes } = parts;
  const element = dom.make("div", { class: "nb-multiples" });
  const table = parts.numbers.numbers(frame, "Settings", draw);
  let drawn = "";
  /** How late a trial came. @type {(row: Trial) => number} */
  let late = () => 1;

  const value = (/** @type {Trial} */ row) => logic.toNumber(row.metrics?.[beside.known.metric]);

  function draw() {
    const all = [...beside.known.rows.values()];
    const able = all.filter((row) => row.status !== "failed" && Number.isFinite(value(row)));
    const seen = new Set(beside.visible().map((row) => row.id));
    const shown = drawnRows(able, seen);
    const now = JSON.stringify([beside.known.settings, beside.brushes(), shown.map((row) => [row.id, value(row), seen.has(row.id)]), [...beside.slots], table.isOn()]);
    if (now === drawn) return;
    drawn = now;
    if (!able.length || !beside.known.settings.length) return element.replaceChildren(dom.make("p", { class: "nb-empty nb-quiet-text", text: able.length ? "No setting varies." : "No values yet." }));
    const cards = () => beside.known.settings.slice(0, MOST).map((name) => card(name, able.slice(0, MOST_SAMPLED), shown, seen));
    if (table.isOn()) table.trials(beside.visible().filter((row) => Number.isFinite(value(row)) && row.status !== "failed"), titles(able.slice(0, MOST_SAMPLED)));
    dom.refill(element, legend(able), ...(table.isOn() ? [table.element] : cards()), ...same());
  }

  /** @param {Trial[]} able */
  function legend(able) {
    late = parts.shades.lateness(able);
    const scale = parts.shades.legend(dom, "Early", "late trials", beside.slots.size ? "A rim has the colour of the line" : "");
    return dom.make("div", { class: "nb-plot-foot nb-same" }, !table.isOn() && scale, table.button());
  }

  /** The columns of the table: the metric, and each setting with what it explains. @param {Trial[]} able @returns {import("./dots.js").Title[]} */
  const titles = (able) => [{ text: beside.known.metric, of: value }, ...beside.known.settings.slice(0, MOST).map((name) => {
    const of = (/** @type {Trial} */ row) => row.settings?.[name];
    return { text: `${name} (explains ${axes.explains(able.map(of), able.map(value)).toFixed(2)})`, of };
  })];

  /** What is the same in all trials, in one line. */
  function same() {
    const text = Object.entries(beside.known.same).map(([name, each]) => `${name} ${each}`).join(", ");
    return text ? [dom.make("p", { class: "nb-same nb-quiet-text", text: `Same in all: ${text}` })] : [];
  }

  /** The coloured ones, then those in sight, as many as can be told apart. @param {Trial[]} able @param {Set<string>} seen */
  function drawnRows(able, seen) {
    const groups = [able.filter((row) => beside.slots.has(row.id)), able.filter((row) => seen.has(row.id) && !beside.slots.has(row.id)), able.filter((row) => !seen.has(row.id) && !beside.slots.has(row.id))];
    return groups.flat().slice(0, MOST_DOTS);
  }

  /** @param {string} name @param {Trial[]} able @param {Trial[]} shown @param {Set<string>} seen */
  function card(name, able, shown, seen) {
    const values = able.map((row) => row.settings?.[name]);
    const across = axes.axis(values, logic, format);
    const upwards = axes.axis(able.map(value), logic, format, { scale: true });
    const share = axes.explains(values, able.map(value));
    const text = `${name} explains ${share.toFixed(2)} of the variance (${format.count(able.length, "trial")})`;
    const svg = dom.draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "nb-multiple", role: "img", "aria-label": `${beside.known.metric} over ${name}. ${text}` },
      ...parts.dots.ground(dom, across, upwards, BOX), brushed(name, across), ...dots(name, shown, seen, across, upwards));
    parts.brushing.brushing(svg, { share: (x) => (x * WIDTH - BOX.left) / BOX.width, along: "x", done: (from, to) => beside.brush(`settings:${name}`, across.brush(from, to)) });
    const clear = beside.brushes()[`settings:${name}`] && dom.button({ label: `Clear the filter of ${name}`, icon: "close", bare: true, quiet: true, run: () => beside.brush(`settings:${name}`, null) });
    return dom.make("figure", { class: "nb-multiple-card" }, dom.make("figcaption", {}, dom.make("strong", { text: name }), dom.make("span", { class: "nb-quiet-text", text: ` explains ${share.toFixed(2)}`, title: text }), clear), svg);
  }

  /** @param {string} name @param {Axis} across */
  function brushed(name, across) {
    const brush = beside.brushes()[`settings:${name}`];
    if (!brush) return null;
    const [from, to] = across.span(brush);
    return dom.draw("rect", { x: BOX.left + Math.max(0, from) * BOX.width, y: BOX.top, width: Math.max(2, (Math.min(1, to) - Math.max(0, from)) * BOX.width), height: BOX.height, class: "nb-brush" });
  }

  /** @param {string} name @param {Trial[]} able @param {Set<string>} seen @param {Axis} across @param {Axis} upwards */
  function dots(name, able, seen, across, upwards) {
    const nearness = (/** @type {Trial} */ row) => Number(beside.slots.has(row.id)) + Number(seen.has(row.id));
    return [...able].sort((a, b) => nearness(a) - nearness(b)).map((row) => {
      const [x, y] = [BOX.left + across.place(row.settings?.[name]) * BOX.width, BOX.top + (1 - upwards.place(value(row))) * BOX.height];
      if (!Number.isFinite(x) || !Number.isFinite(y)) return null;
      const title = `${row.id}  ${name} ${format.exact(row.settings?.[name])}  ${beside.known.metric} ${format.number(value(row))}`;
      return parts.dots.dot(dom, beside, row, { x, y }, { seen, title, colour: parts.shades.shade(late(row)) });
    });
  }

  element.addEventListener("pointerover", (event) => beside.light(/** @type {Element} */ (event.target).getAttribute("data-id")));
  element.addEventListener("pointerleave", () => beside.light(null));

  return {
    element, draw,
    /** @param {string | null} id */
    hover(id) {
      for (const dot of element.querySelectorAll(".nb-dot")) dot.classList.toggle("nb-dot-lit", dot.getAttribute("data-id") === id);
    },
  };
}
