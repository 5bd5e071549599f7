/**
 * Trials as dots over two axes: the drawing of Best so far, of the Pareto front, of each setting, of two settings, and of the timeline.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./axes.js").Axis} Axis
 * @typedef {{ left: number, top: number, width: number, height: number }} Box
 * @typedef {{ row: Trial, x: number, y: number }} Dot its two values
 * @typedef {{ text: string, of: (row: Trial) => import("./rows.js").Value }} Title a name of an axis, and the value of a trial on it
 * @typedef {object} Shape what is drawn
 * @property {Dot[]} dots
 * @property {[Axis, Axis]} axes
 * @property {Title[]} titles of both axes, then those of further values
 * @property {Dot[]} steps where the line turns, and whose names are written
 * @property {boolean} [goesOn] the line goes on to the last dot
 * @property {Dot[]} [listed] what the table has, if that is more than the steps
 * @property {(row: Trial) => string} [colour]
 * @property {(row: Trial) => number} [radius]
 * @property {[string, string]} [scale] what the ends of the colours stand for
 * @property {boolean} [fans] dots of one place stand around it
 * @property {(row: Trial) => number} [begins] where across a line to the dot begins, which shows the status of the trial
 * @property {string} text what the picture says, as sentences
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 34, 24, 38];
const MOST_DOTS = 600;
/** How wide a digit of a tick is, about. */
const DIGIT = 6;
const MOST_NAMES = 12;
const REACH = 24;
/** How far dots of one place stand apart, and by which angle each is turned from the one before. */
const [FAN, TURN] = [6, 2.4];

/** Grid lines and their numbers. @param {typeof import("./dom.js")} dom @param {Axis} across @param {Axis} upwards @param {Box} box */
export function ground(dom, across, upwards, box) {
  const texts = across.ticks.map(({ text }) => (text.length > 9 ? `${text.slice(0, 8)}…` : text));
  const every = Math.ceil((texts.length * (DIGIT * Math.max(...texts.map(({ length }) => length)) + 4)) / box.width);
  const columns = across.ticks.flatMap(({ at }, index) => (index % every ? [] :
    dom.draw("text", { x: box.left + at * box.width, y: box.top + box.height + 16, "text-anchor": "middle", class: "nb-tick", text: texts[index] })));
  const lines = upwards.ticks.flatMap(({ at, text }) => {
    const y = box.top + (1 - at) * box.height;
    return [dom.draw("line", { x1: box.left, x2: box.left + box.width, y1: y, y2: y, class: "nb-grid-line" }), dom.draw("text", { x: box.left - 4, y: y + 3.5, "text-anchor": "end", class: "nb-tick", text })];
  });
  return [...lines, ...columns, dom.draw("rect", { x: box.left, y: box.top, width: box.width, height: box.height, class: "nb-frame" })];
}

/**
 * One trial. What the filter leaves out is pale, the best one has a ring around it. With a colour of a scale, that of its line is its rim.
 * @param {typeof import("./dom.js")} dom @param {import("./pictures.js").Beside} beside @param {Trial} row @param {{ x: number, y: number }} at
 * @param {{ seen: Set<string>, title: string, colour?: string, radius?: number }} about
 */
export function dot(dom, { slots, best }, row, { x, y }, { seen, title, colour, radius }) {
  const slot = slots.get(row.id);
  const isBest = row.id === best()?.id;
  const own = slot === undefined ? undefined : `var(--nb-line-${slot + 1})`;
  const fill = seen.has(row.id) ? (colour ?? own) : "var(--nb-pale)";
  const [cx, cy, r] = [x.toFixed(1), y.toFixed(1), radius ?? (isBest ? 5 : own ? 3.8 : 2.8)];
  const made = dom.draw("circle", {
    cx, cy, r, class: "nb-dot", style: fill ? `fill: ${fill}` : "", stroke: colour && own ? own : null, "stroke-width": colour && own ? 1.8 : null, "data-id": row.id,
  }, dom.draw("title", { text: title }));
  return isBest ? dom.draw("g", {}, made, dom.draw("circle", { cx, cy, r: r + 3.5, class: "nb-ring" })) : made;
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
 * Spots of one place, moved around it, so that each is seen. Pure.
 * @template {{ left: number, top: number }} P
 * @param {P[]} spots @returns {P[]}
 */
export function fanned(spots) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  return spots.map((spot) => {
    const place = `${Math.round(spot.left / 2)} ${Math.round(spot.top / 2)}`;
    const at = counts.get(place) ?? 0;
    counts.set(place, at + 1);
    return { ...spot, left: spot.left + FAN * Math.sqrt(at) * Math.cos(TURN * at), top: spot.top + FAN * Math.sqrt(at) * Math.sin(TURN * at) };
  });
}

/**
 * The choice of both axes. A name that stands on the other axis changes places with it.
 * @param {typeof import("./dom.js")} dom @param {HTMLElement} tools @param {string[]} names @param {[string, string]} pair
 * @param {(pair: [string, string]) => void} choose
 */
export function axisChoices(dom, tools, names, [x, y], choose) {
  dom.refill(tools, dom.select("Across", names, x, (name) => choose([name, name === y ? x : y])), dom.select("Up", names, y, (name) => choose([name === x ? y : x, name])));
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
  const table = parts.numbers.numbers(frame, label, draw);
  const tip = dom.make("div", { class: "nb-tip", role: "status" });
  const said = dom.make("span", { class: "nb-quiet-text" });
  const scale = dom.make("span", {});
  const toggle = dom.make("span", {});
  const element = dom.make("div", { class: "nb-curves" }, root, dom.make("div", { class: "nb-plot-foot" }, scale, said, toggle));
  let [drawn, lit] = ["", ""];
  /** What is drawn, from left to right. @type {(Dot & { left: number, top: number })[]} */
  let spots = [];
  /** @type {Shape | null} */
  let now = null;

  function draw() {
    const seen = new Set(beside.visible().map((row) => row.id));
    const next = shape();
    const made = typeof next === "string" ? next : [next.dots.map(({ row, x, y }) => [row.id, x, y, seen.has(row.id)]), next.titles.map(({ text }) => text), next.text, next.scale, next.radius && next.dots.map(({ row }) => next.radius?.(row))];
    const mark = JSON.stringify([made, table.isOn(), beside.best()?.id, [...beside.slots], root.clientWidth, root.clientHeight]);
    if (mark === drawn) return;
    drawn = mark;
    now = typeof next === "string" ? null : next;
    table.show(element, root, Boolean(now));
    dom.refill(toggle, now && table.button());
    const more = now ? now.dots.length - MOST_DOTS : 0;
    said.textContent = `${now?.text ?? ""}${more > 0 ? ` ${format.whole(more)} more are not drawn.` : ""}`;
    dom.refill(scale, now?.scale && parts.shades.legend(dom, ...now.scale, ""));
    spots = [];
    if (!now) return root.replaceChildren(dom.make("p", { class: "nb-empty nb-quiet-text", text: String(next) }));
    if (table.isOn()) return table.trials((now.listed ?? now.steps).map(({ row }) => row), [...now.titles, { text: "Settings", of: settings }]);
    root.replaceChildren(drawing(now, seen), tip);
    hover(lit);
  }

  /** @param {Shape} shape @param {Set<string>} seen */
  function drawing({ dots: all, axes: [x, y], titles, steps, goesOn, fans, begins, colour, radius }, seen) {
    const [width, height] = [Math.max(260, root.clientWidth), Math.max(160, root.clientHeight)];
    const box = { left: LEFT, top: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
    const placed = (/** @type {Dot} */ each) => ({ ...each, left: box.left + x.place(each.x) * box.width, top: box.top + (1 - y.place(each.y)) * box.height });
    const some = chosen(all, new Set(steps), beside.slots, seen).map(placed);
    spots = (fans ? fanned(some) : some).sort((a, b) => a.left - b.left);
    const turns = steps.map(placed).map(({ row, left, top }) => ({ row, x: left, y: top }));
    const end = goesOn && spots.length ? spots[spots.length - 1].left : undefined;
    const across = (/** @type {number} */ value) => (box.left + x.place(value) * box.width).toFixed(1);
    const spans = begins ? spots.map(({ row, left, top: at }) => dom.draw("line", { x1: across(begins(row)), x2: left, y1: at, y2: at, class: "nb-span", "data-status": seen.has(row.id) ? row.status : "" })) : [];
    const later = (/** @type {Dot} */ { row }) => Number(seen.has(row.id)) + Number(beside.slots.has(row.id));
    return dom.draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      ...ground(dom, x, y, box),
      dom.draw("text", { x: box.left, y: 14, class: "nb-axis-title", text: titles[1].text }),
      dom.draw("text", { x: box.left + box.width, y: height - 6, "text-anchor": "end", class: "nb-axis-title", text: titles[0].text }),
      dom.draw("path", { d: stairs(turns, end), class: "nb-stairs" }),
      ...spans,
      ...[...spots].sort((a, b) => later(a) - later(b)).map((each) => dot(dom, beside, each.row, { x: each.left, y: each.top }, { seen, title: about(each.row), colour: colour?.(each.row), radius: radius?.(each.row) })),
      ...apart(turns).slice(-MOST_NAMES).map(({ row, x: left, y: top }) => dom.draw("text", { x: left + 6, y: top - 6, class: "nb-dot-name", text: row.id })));
  }

  /** @param {Trial} row */
  function about(row) {
    const values = (now?.titles ?? []).map(({ text, of }) => `${text} ${format.number(of(row))}`).join("  ");
    return `${row.id}  ${values}  ·  ${settings(row)}`;
  }
  const settings = (/** @type {Trial} */ row) => parts.heading.settingsText(row, beside.known.settings, format);

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
