/**
 * Parallel lines: an axis for each setting, the metric at the right, a line for each trial. Dragging on an axis filters, and so do keys.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./axes.js").Axis} Axis
 */

const [TOP, BOTTOM, SIDE] = [30, 14, 46];
const MOST_LINES = 400;
const GRIP = 22;

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function picture(frame, beside) {
  const { dom, format, parts } = frame;
  const { rows: logic, axes } = parts;
  const root = dom.make("div", { class: "nb-parallel" });
  const foot = dom.make("div", { class: "nb-plot-foot" });
  const element = dom.make("div", { class: "nb-curves" }, root, foot);
  const table = parts.numbers.numbers(frame, "Parallel lines", draw);
  let drawn = "";
  /** @type {{ name: string, x: number, axis: Axis }[]} */
  let made = [];

  function draw() {
    const [width, height] = [Math.max(260, root.clientWidth), Math.max(180, root.clientHeight)];
    const seen = new Set(beside.visible().map((row) => row.id));
    const rows = [...new Set([...beside.visible().slice(0, MOST_LINES), ...beside.known.rows.values()])].slice(0, MOST_LINES);
    const now = JSON.stringify([width, height, beside.known.metric, beside.brushes(), rows.map((row) => [row.id, row.metrics?.[beside.known.metric], seen.has(row.id)]), [...beside.slots], table.isOn()]);
    if (now === drawn) return;
    drawn = now;
    const isEmpty = !rows.length || !beside.known.settings.length;
    dom.refill(foot, !isEmpty && table.button());
    if (table.show(element, root, !isEmpty)) return table.trials(rows.filter((row) => seen.has(row.id)), columns().map((name) => ({ text: parts.columns.title(name), of: (row) => logic.valueIn(row, name) })));
    if (isEmpty) return root.replaceChildren(dom.make("p", { class: "nb-empty nb-quiet-text", text: "No setting varies." }));
    const held = root.contains(document.activeElement) ? document.activeElement?.getAttribute("data-axis") : null;
    root.replaceChildren(whole(rows, seen, width, height));
    if (held) /** @type {SVGElement | undefined} */ ([...root.querySelectorAll("[data-axis]")].find((each) => each.getAttribute("data-axis") === held))?.focus();
  }

  /** The columns of all axes. */
  const columns = () => [...beside.known.settings.map((name) => `settings:${name}`), ...(beside.known.metric ? [`metrics:${beside.known.metric}`] : [])];

  /** @param {KeyboardEvent} event */
  function key(event) {
    const name = /** @type {Element} */ (event.target).getAttribute("data-axis");
    const each = made.find((one) => one.name === name);
    if (!each || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "0") return beside.brush(each.name, null), true;
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return false;
    beside.brush(each.name, axes.moved(each.axis, beside.brushes()[each.name], event.key === "ArrowUp", event.shiftKey));
    return true;
  }

  /** @param {Trial[]} rows @param {Set<string>} seen @param {number} width @param {number} height */
  function whole(rows, seen, width, height) {
    const most = Math.max(2, Math.floor((width - 2 * SIDE) / 70));
    const names = columns().filter((name, at) => at < most || name.startsWith("metrics:"));
    const able = rows.filter((row) => row.status !== "failed");
    made = names.map((name, index) => ({
      name, x: SIDE + (index * (width - 2 * SIDE)) / Math.max(1, names.length - 1),
      axis: axes.axis((name.startsWith("metrics:") ? able : rows).map((row) => logic.valueIn(row, name)), logic, format, { scale: name.startsWith("metrics:") }),
    }));
    const down = (/** @type {number} */ share) => TOP + (1 - share) * (height - TOP - BOTTOM);
    const svg = dom.draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Parallel lines of ${seen.size} trials over ${names.map(parts.columns.title).join(", ")}` },
      ...lines(rows, seen, made, down), ...made.flatMap((each) => axisOf(each, down)));
    let axis = made[0];
    parts.brushing.brushing(svg, {
      along: "y",
      share: (part) => 1 - (part * height - TOP) / (height - TOP - BOTTOM),
      starts: (event) => {
        const x = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
        axis = made.find((each) => Math.abs(each.x - x) < GRIP) ?? axis;
        return Math.abs(axis.x - x) < GRIP;
      },
      done: (from, to) => beside.brush(axis.name, axis.axis.brush(from, to)),
    });
    return svg;
  }

  /** @param {Trial[]} rows @param {Set<string>} seen @param {{ name: string, x: number, axis: Axis }[]} made @param {(share: number) => number} down */
  function lines(rows, seen, made, down) {
    const shade = made[made.length - 1].axis;
    const order = [...rows].sort((a, b) => rank(a, seen) - rank(b, seen));
    return order.map((row) => {
      const points = made.map(({ name, x, axis }) => [x, down(Math.max(-0.02, Math.min(1.03, axis.place(logic.valueIn(row, name)))))]).filter(([, y]) => Number.isFinite(y));
      const slot = beside.slots.get(row.id);
      const place = Math.max(0, Math.min(1, shade.place(row.metrics?.[beside.known.metric])));
      const part = beside.mode() === "max" ? place : 1 - place;
      const colour = !seen.has(row.id) || row.status === "failed" || Number.isNaN(part) ? "var(--nb-pale)" : slot !== undefined ? `var(--nb-line-${slot + 1})` : `color-mix(in srgb, var(--nb-high) ${Math.round(100 * part)}%, var(--nb-low))`;
      return dom.draw("polyline", {
        points: points.map((point) => point.map((each) => each.toFixed(1)).join(",")).join(" "), "data-id": row.id, class: "nb-parallel-line",
        style: `stroke: ${colour}; stroke-width: ${slot === undefined ? 1.2 : 2.2}`, "stroke-dasharray": row.status === "failed" ? "2 4" : slot === undefined ? null : parts.ink.DASHES[slot].join(" ") || null,
      }, dom.draw("title", { text: `${row.id}  ${parts.heading.settingsText(row, beside.known.settings, format)}` }));
    });
  }

  /** What is drawn later lies in front. @param {Trial} row @param {Set<string>} seen */
  const rank = (row, seen) => (seen.has(row.id) ? 2 : 0) + (beside.slots.has(row.id) ? 4 : 0) + (row.status === "failed" ? 0 : 1);

  /** @param {{ name: string, x: number, axis: Axis }} each @param {(share: number) => number} down */
  function axisOf({ name, x, axis }, down) {
    const brush = beside.brushes()[name];
    const [from, to] = brush ? axis.span(brush) : [0, 0];
    const title = parts.columns.title(name);
    return [
      dom.draw("line", { x1: x, x2: x, y1: down(0), y2: down(1), class: "nb-axis" }),
      dom.draw("rect", {
        x: x - GRIP / 2, width: GRIP, y: down(1), height: down(0) - down(1), class: "nb-axis-keys", "data-axis": name, tabindex: 0,
        role: "slider", "aria-label": title, "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100,
        "aria-valuenow": brush ? Math.round(100 * Math.max(0, Math.min(1, to))) : 100, "aria-valuetext": brush ? rangeText(brush) : "the whole range",
      }),
      brush && dom.draw("rect", { x: x - 8, width: 16, y: down(Math.min(1, to)), height: Math.max(2, down(Math.max(0, from)) - down(Math.min(1, to))), class: "nb-brush" }),
      dom.draw("text", { x, y: 14, "text-anchor": "middle", class: "nb-axis-title", text: title.length > 12 ? `${title.slice(0, 11)}…` : title }, dom.draw("title", { text: title })),
      ...axis.ticks.map((tick) => dom.draw("text", { x: x + 5, y: down(tick.at) + 3.5, class: "nb-tick nb-tick-on", text: tick.text.length > 9 ? `${tick.text.slice(0, 8)}…` : tick.text })),
    ];
  }

  /** @param {import("./rows.js").Brush} brush */
  const rangeText = (brush) => ("values" in brush ? brush.values.join(", ") : `${format.number(brush.low)} to ${format.number(brush.high)}`);

  /** @param {string | null} id */
  function hover(id) {
    for (const line of root.querySelectorAll(".nb-parallel-line")) line.classList.toggle("nb-line-lit", line.getAttribute("data-id") === id);
  }

  root.addEventListener("pointerover", (event) => {
    const id = /** @type {Element} */ (event.target).getAttribute("data-id");
    hover(id);
    beside.light(id);
  });
  root.addEventListener("click", (event) => {
    const id = /** @type {Element} */ (event.target).getAttribute("data-id");
    if (id) beside.select([id]);
  });
  frame.keys(root, key);
  const sized = new ResizeObserver(() => root.isConnected && root.clientWidth && draw());
  sized.observe(root);
  frame.signal.addEventListener("abort", () => sized.disconnect());

  return { element, draw, hover };
}
