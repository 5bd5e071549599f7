/**
 * Trials as dots over two axes: the drawing of Best so far, of the Pareto front, and of each setting.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./axes.js").Axis} Axis
 * @typedef {{ left: number, top: number, width: number, height: number }} Box
 * @typedef {{ row: Trial, x: number, y: number }} Dot its two values
 * @typedef {{ text: string, of: (row: Trial) => number }} Title a name of an axis, and the value of a trial on it
 * @typedef {object} Shape what is drawn
 * @property {Dot[]} dots
 * @property {[Axis, Axis]} axes
 * @property {[Title, Title]} titles
 * @property {Dot[]} steps where the line turns, and whose names are written
 * @property {boolean} [goesOn] the line goes on to the last dot
 * @property {string} text what the picture says, as sentences
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 34, 24, 38];
const MOST_DOTS = 600;
const MOST_NAMES = 12;
const REACH = 24;

/** Grid lines and their numbers. @param {typeof import("./dom.js")} dom @param {Axis} across @param {Axis} upwards @param {Box} box */
export function ground(dom, across, upwards, box) {
  const crowded = across.ticks.length > 6;
  const columns = across.ticks.filter((_, index) => !crowded || index % 2 === 0).map(({ at, text }) =>
    dom.draw("text", { x: box.left + at * box.width, y: box.top + box.height + 16, "text-anchor": "middle", class: "nb-tick", text: text.length > 9 ? `${text.slice(0, 8)}…` : text }));
  const lines = upwards.ticks.flatMap(({ at, text }) => {
    const y = box.top + (1 - at) * box.height;
    return [dom.draw("line", { x1: box.left, x2: box.left + box.width, y1: y, y2: y, class: "nb-grid-line" }), dom.draw("text", { x: box.left - 4, y: y + 3.5, "text-anchor": "end", class: "nb-tick", text })];
  });
  return [...lines, ...columns, dom.draw("rect", { x: box.left, y: box.top, width: box.width, height: box.height, class: "nb-frame" })];
}

/**
 * One trial. What the filter leaves out is pale, the best one has a ring.
 * @param {typeof import("./dom.js")} dom @param {import("./pictures.js").Beside} beside @param {Trial} row @param {{ x: number, y: number }} at
 * @param {{ seen: Set<string>, title: string }} about
 */
export function dot(dom, { slots, best }, row, { x, y }, { seen, title }) {
  const slot = slots.get(row.id);
  const isBest = row.id === best()?.id;
  const colour = !seen.has(row.id) ? "fill: var(--nb-pale)" : slot === undefined ? "" : `fill: var(--nb-line-${slot + 1})`;
  return dom.draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: isBest ? 5 : slot === undefined ? 2.8 : 3.8, class: isBest ? "nb-dot nb-dot-best" : "nb-dot", style: colour, "data-id": row.id }, dom.draw("title", { text: title }));
}

/**
 * A line in steps: level to the next turn, then to its height. Pure.
 * @param {{ x: number, y: number }[]} turns @param {number} [end] where it ends, if it goes on
 */
export function stairs(turns, end) {
  const path = turns.map(({ x, y }, at) => (at ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`)).join("");
  return path && end !== undefined ? `${path}H${end.toFixed(1)}` : path;
}

/**
 * Those places whose names do not lie on each other, from the last to the first. Pure.
 * @template {{ x: number, y: number }} P
 * @param {P[]} places @returns {P[]}
 */
export function apart(places) {
  const kept = /** @type {P[]} */ ([]);
  for (const place of [...places].reverse()) if (kept.every(({ x, y }) => Math.abs(place.x - x) > 30 || Math.abs(place.y - y) > 13)) kept.unshift(place);
  return kept;
}

/**
 * The dots that are drawn: those of the line, the coloured ones, then those in sight, as many as can be told apart. Pure.
 * @param {Dot[]} all @param {Set<Dot>} steps @param {Map<string, number>} slots @param {Set<string>} seen
 */
export function chosen(all, steps, slots, seen) {
  const rank = (/** @type {Dot} */ each) => (steps.has(each) || slots.has(each.row.id) ? 2 : 0) + (seen.has(each.row.id) ? 1 : 0);
  return all.length <= MOST_DOTS ? all : [...all].sort((a, b) => rank(b) - rank(a)).slice(0, MOST_DOTS);
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 * @param {string} label @param {() => Shape | string} shape returns a sentence if there is nothing to draw
 */
export function dots(frame, beside, label, shape) {
  const { dom, format, parts } = frame;
  const root = dom.make("div", { class: "nb-dots", tabindex: 0, role: "group", "aria-label": `${label}. Left and right go to the next dot, Enter selects its trial.` });
  const table = dom.make("div", { class: "nb-page nb-plot-table", tabindex: 0, role: "group", "aria-label": `${label} as a table` });
  const tip = dom.make("div", { class: "nb-tip", role: "status" });
  const said = dom.make("span", { class: "nb-quiet-text" });
  const toggle = dom.make("span", {});
  const element = dom.make("div", { class: "nb-curves" }, root, dom.make("div", { class: "nb-plot-foot" }, said, toggle));
  let [isTable, drawn, lit] = [false, "", ""];
  /** What is drawn, from left to right. @type {(Dot & { left: number, top: number })[]} */
  let spots = [];
  /** @type {Shape | null} */
  let now = null;

  function draw() {
    const seen = new Set(beside.visible().map((row) => row.id));
    const next = shape();
    const made = typeof next === "string" ? next : [next.dots.map(({ row, x, y }) => [row.id, x, y, seen.has(row.id)]), next.titles.map(({ text }) => text), next.text];
    const mark = JSON.stringify([made, isTable, beside.best()?.id, [...beside.slots], root.clientWidth, root.clientHeight]);
    if (mark === drawn) return;
    drawn = mark;
    now = typeof next === "string" ? null : next;
    element.firstChild?.replaceWith(isTable && now ? table : root);
    dom.refill(toggle, now && dom.button({ label: isTable ? "Show as picture" : "Show as table", quiet: true, id: "dots-table", run: () => { isTable = !isTable; draw(); } }));
    const more = now ? now.dots.length - MOST_DOTS : 0;
    said.textContent = `${now?.text ?? ""}${more > 0 ? ` ${format.whole(more)} more are not drawn.` : ""}`;
    spots = [];
    if (!now) return root.replaceChildren(dom.make("p", { class: "nb-empty nb-quiet-text", text: String(next) }));
    if (isTable) return drawTable(now);
    root.replaceChildren(drawing(now, seen), tip);
    hover(lit);
  }

  /** @param {Shape} shape @param {Set<string>} seen */
  function drawing({ dots: all, axes: [x, y], titles, steps, goesOn }, seen) {
    const [width, height] = [Math.max(260, root.clientWidth), Math.max(160, root.clientHeight)];
    const box = { left: LEFT, top: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
    const placed = (/** @type {Dot} */ each) => ({ ...each, left: box.left + x.place(each.x) * box.width, top: box.top + (1 - y.place(each.y)) * box.height });
    spots = chosen(all, new Set(steps), beside.slots, seen).map(placed).sort((a, b) => a.left - b.left);
    const turns = steps.map(placed).map(({ row, left, top }) => ({ row, x: left, y: top }));
    const end = goesOn && spots.length ? spots[spots.length - 1].left : undefined;
    const later = (/** @type {Dot} */ { row }) => Number(seen.has(row.id)) + Number(beside.slots.has(row.id));
    return dom.draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      ...ground(dom, x, y, box),
      dom.draw("text", { x: box.left, y: 14, class: "nb-axis-title", text: titles[1].text }),
      dom.draw("text", { x: box.left + box.width, y: height - 6, "text-anchor": "end", class: "nb-axis-title", text: titles[0].text }),
      dom.draw("path", { d: stairs(turns, end), class: "nb-stairs" }),
      ...[...spots].sort((a, b) => later(a) - later(b)).map((each) => dot(dom, beside, each.row, { x: each.left, y: each.top }, { seen, title: about(each.row) })),
      ...apart(turns).slice(-MOST_NAMES).map(({ row, x: left, y: top }) => dom.draw("text", { x: left + 6, y: top - 6, class: "nb-dot-name", text: row.id })));
  }

  /** @param {Trial} row */
  function about(row) {
    const values = (now?.titles ?? []).map(({ text, of }) => `${text} ${format.number(of(row))}`).join("  ");
    return `${row.id}  ${values}  ·  ${parts.heading.settingsText(row, beside.known.settings, format)}`;
  }

  /** @param {Shape} shape */
  function drawTable({ steps, titles }) {
    const head = ["Trial", ...titles.map(({ text }) => text), "Settings"].map((text) => dom.make("th", { scope: "col", text }));
    const written = titles.map(({ of }) => format.numbers(steps.map(({ row }) => of(row))));
    const line = (/** @type {Dot} */ { row }) => dom.make("tr", {}, dom.make("th", { scope: "row", text: row.id }), ...titles.map(({ of }, at) => dom.make("td", { text: written[at](of(row)) })), dom.make("td", { text: parts.heading.settingsText(row, beside.known.settings, format) }));
    table.replaceChildren(dom.make("table", {}, dom.make("thead", {}, dom.make("tr", {}, ...head)), dom.make("tbody", {}, ...steps.map(line))));
  }

  /** Say at its dot what is known of the trial that is lit. */
  function tell() {
    const spot = spots.find(({ row }) => row.id === lit);
    tip.textContent = spot ? about(spot.row) : "";
    tip.style.display = spot ? "block" : "none";
    if (!spot) return;
    tip.style.left = `${Math.max(0, Math.min(spot.left + 12, root.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${spot.top < TOP + tip.offsetHeight + 8 ? spot.top + 12 : spot.top - tip.offsetHeight - 8}px`;
  }

  /** Light up a trial, or none. @param {string | null} id */
  function hover(id) {
    lit = id ?? "";
    for (const each of root.querySelectorAll(".nb-dot")) each.classList.toggle("nb-dot-lit", each.getAttribute("data-id") === id);
    tell();
  }

  /** Light up a trial here and in the table. @param {string} id */
  function light(id) {
    if (id === lit) return;
    hover(id);
    beside.light(id || null);
  }

  /** The trial whose dot is nearest to the pointer, or "". @param {PointerEvent | MouseEvent} event */
  function near({ clientX, clientY }) {
    const { left, top } = root.getBoundingClientRect();
    const far = (/** @type {{ left: number, top: number }} */ spot) => Math.hypot(spot.left - clientX + left, spot.top - clientY + top);
    const [first] = [...spots].sort((a, b) => far(a) - far(b));
    return first && far(first) < REACH ? first.row.id : "";
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (event.key)];
    if (event.key === "Enter" && lit) return beside.select([lit]), true;
    if (!step || event.ctrlKey || !spots.length) return false;
    const at = spots.findIndex(({ row }) => row.id === lit);
    light(spots[at < 0 ? spots.length - 1 : Math.max(0, Math.min(spots.length - 1, at + step))].row.id);
    return true;
  }

  root.addEventListener("pointermove", (event) => light(near(event)));
  root.addEventListener("pointerleave", () => light(""));
  root.addEventListener("click", (event) => near(event) && beside.select([near(event)]));
  root.addEventListener("blur", () => light(""));
  frame.keys(root, key);
  const sized = new ResizeObserver(() => root.isConnected && root.clientWidth && draw());
  sized.observe(root);
  frame.signal.addEventListener("abort", () => sized.disconnect());

  return { element, draw, hover };
}
