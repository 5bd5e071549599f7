/**
 * The numbers of a picture as a table, with the button that shows them in its place. Every chart of the panel has it.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {{ name: string, x: ArrayLike<number>, y: ArrayLike<number> }} Course a line with the name of its row
 */

const MOST = 500;
const PLACES = 10;

/**
 * Make the table and its button.
 * @param {import("./panel.js").Frame} frame @param {string} label what the picture shows @param {() => void} turned draw what is shown now
 */
export function numbers(frame, label, turned) {
  const { dom, format, parts } = frame;
  const element = dom.make("div", { class: "nb-page nb-plot-table", tabindex: 0, role: "group", "aria-label": `${label} as a table` });
  let isOn = false;

  /** @param {string[]} head @param {string[][]} rows each begins with its name */
  function fill(head, rows) {
    const line = (/** @type {string[]} */ [name, ...texts]) => dom.make("tr", {}, dom.make("th", { scope: "row", text: name }), ...texts.map((text) => dom.make("td", { text })));
    dom.fill(element,
      dom.make("table", {}, dom.make("thead", {}, dom.make("tr", {}, ...head.map((text) => dom.make("th", { scope: "col", text })))), dom.make("tbody", {}, ...rows.slice(0, MOST).map(line))),
      rows.length > MOST && dom.make("p", { class: "nb-quiet-text", text: `${format.whole(rows.length - MOST)} more are not listed.` }));
  }

  return {
    element, fill,
    /** Whether the table is shown. */
    isOn: () => isOn,
    /** Put the table in front of an element, or the picture. @param {HTMLElement} place @param {HTMLElement} picture @param {boolean} [able] whether there are numbers */
    show(place, picture, able = true) {
      const shown = isOn && able ? element : picture;
      if (place.firstChild !== shown) place.firstChild?.replaceWith(shown);
      return shown === element;
    },
    button: () => dom.button({ label: isOn ? "Show as picture" : "Show as table", quiet: true, id: `table-${label}`, run: () => { isOn = !isOn; turned(); } }),
    /** A row for each trial. @param {Trial[]} rows @param {import("./dots.js").Title[]} titles */
    trials(rows, titles) {
      const written = titles.map(({ of }) => format.numbers(rows.map(of)));
      fill(["Trial", ...titles.map(({ text }) => text)], rows.map((row) => [row.id, ...titles.map(({ of }, at) => written[at](of(row)))]));
    },
    /**
     * A row for each line, at eleven places. @param {string} head @param {Course[][]} groups numbers of a group are written alike
     * @param {(x: number) => string} place @param {number[]} [range]
     */
    lines(head, groups, place, range = groups.flat().flatMap(({ x }) => (x.length ? [x[0], x[x.length - 1]] : []))) {
      const [from, to] = [Math.min(...range), Math.max(...range)];
      const at = Array.from({ length: PLACES + 1 }, (_, index) => from + (index * (to - from)) / PLACES);
      const value = (/** @type {Course} */ { x, y }, /** @type {number} */ wanted) => (x.length && wanted <= x[x.length - 1] + 1e-9 ? y[parts.series.nearest(x, wanted)] : undefined);
      const rows = groups.flatMap((group) => {
        const written = format.numbers(group.flatMap(({ y }) => Array.from(y)));
        return group.map((line) => [line.name, ...at.map((x) => { const y = value(line, x); return y === undefined ? "" : written(y); })]);
      });
      fill([head, ...at.map(place)], rows);
    },
  };
}
