/**
 * A small chart for each metric, of the trials in colour. The kernel keeps some points of each metric, and sends those of the charts
 * in sight when they are asked for.
 *
 * @typedef {[number[], number[]]} Course the numbers of the reports, and the values
 * @typedef {Record<string, Record<string, Course>>} Curves by metric and trial
 */

const [LEAST_WIDTH, LEAST_HEIGHT] = [200, 150];
const [TITLE, GAP] = [30, 10];
const AGAIN_MS = 2000;
const MOST = 12;

/**
 * How many charts have room, at least one; in how many columns; and the size of each. Pure.
 * @param {number} width @param {number} height of all, in pixels @param {number} count of metrics
 */
export function arranged(width, height, count) {
  const columns = Math.max(1, Math.min(count, Math.floor(width / LEAST_WIDTH)));
  const room = Math.min(MOST, columns * Math.max(1, Math.floor(height / LEAST_HEIGHT)));
  const rows = Math.max(1, Math.ceil(Math.min(room, count) / columns));
  const wide = Math.max(120, Math.floor(width / columns) - GAP);
  return { columns, room, width: wide, height: Math.max(64, Math.min(wide, Math.floor(height / rows) - TITLE)) };
}

/**
 * The metrics of a page of charts, and the number of pages. A page that does not exist is the last one. Pure.
 * @param {string[]} metrics @param {number} room @param {number} page
 */
export function paged(metrics, room, page) {
  const pages = Math.max(1, Math.ceil(metrics.length / room));
  const at = Math.max(0, Math.min(pages - 1, page));
  return { at, pages, shown: metrics.slice(at * room, (at + 1) * room) };
}

/**
 * The metrics in the order that someone gave them; the others follow. Pure.
 * @param {string[]} metrics @param {string[]} order
 */
export function ordered(metrics, order) {
  const first = order.filter((name) => metrics.includes(name));
  return [...first, ...metrics.filter((name) => !first.includes(name))];
}

/**
 * The metrics after one was moved by some places, at most to an end. Pure.
 * @param {string[]} metrics @param {string} name @param {number} by
 */
export function moved(metrics, name, by) {
  const others = metrics.filter((each) => each !== name);
  const at = Math.max(0, Math.min(others.length, metrics.indexOf(name) + by));
  return [...others.slice(0, at), name, ...others.slice(at)];
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside @param {ReturnType<typeof import("./legend.js").hiding>} hidden
 * @param {{ order: string[] }} state the order of the charts; @param {() => void} keep called when it changes
 */
export function charts(frame, beside, hidden, state, keep) {
  const { dom, parts } = frame;
  const grid = dom.make("div", { class: "nb-multiples nb-charts" });
  const steps = dom.make("div", { class: "nb-plot-foot" });
  const table = parts.numbers.numbers(frame, "All metrics", draw);
  const element = dom.make("div", { class: "nb-curves" }, grid, steps);
  /** @type {Curves} */
  let curves = {};
  let [page, asked, drawn] = [0, "", ""];
  let trouble = "";
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  const ids = () => beside.visible().map(({ id }) => id).filter((id) => beside.slots.has(id));
  /** The charts, or their table in their place. */
  const place = () => /** @type {HTMLElement} */ (element.firstElementChild);
  const shape = () => arranged(place().clientWidth - 2 * 8, place().clientHeight, beside.known.metrics.length);
  const metrics = () => ordered(beside.known.metrics, state.order);
  const now = () => paged(metrics(), shape().room, page);

  /** Ask for what is in sight, if that is new; at most every two seconds while trials run. */
  async function ask() {
    const { shown } = now();
    const want = JSON.stringify([beside.known.name, ids(), shown]);
    const grew = `${want} ${beside.known.version}`;
    if (grew === asked || !frame.live() || !ids().length || !element.isConnected) return;
    if (timer && want === asked.slice(0, want.length)) return;
    asked = grew;
    clearTimeout(timer);
    timer = setTimeout(() => { timer = undefined; void ask(); }, AGAIN_MS);
    const answer = await frame.ask("curves", ids(), { experiment: beside.known.name, names: shown });
    if (!answer || grew !== asked) return;
    trouble = answer.ok === false ? String(answer.text) : "";
    curves = answer.data?.curves ?? {};
    paint();
  }

  function draw() {
    paint();
    void ask();
  }

  function paint() {
    const { at, pages, shown } = now();
    const mark = JSON.stringify([shown, at, pages, shape(), curves, ids(), [...beside.slots], hidden.list(), table.isOn(), beside.known.metric, trouble, frame.live()]);
    if (mark === drawn) return;
    drawn = mark;
    grid.style.gridTemplateColumns = `repeat(${shape().columns}, minmax(0, 1fr))`;
    if (table.show(element, grid)) table.lines("Metric", shown.map((metric) => courses(metric).map(({ id, x, y }) => ({ name: `${metric} ${id}`, x, y }))), (x) => `report ${Math.round(x)}`);
    else dom.keeping(grid, () => grid.replaceChildren(...(trouble ? [dom.make("p", { class: "nb-empty nb-quiet-text", text: trouble })] : shown.map(card))));
    const turn = (/** @type {string} */ label, /** @type {"left" | "right"} */ icon, /** @type {number} */ by) =>
      dom.button({ label, icon, bare: true, quiet: true, id: `charts-${icon}`, why: at + by < 0 || at + by >= pages ? "There are no more" : "", run: () => { page = at + by; draw(); } });
    const text = `${frame.live() ? "" : `${frame.why()} `}Charts have some points of each line, by the number of the report.`;
    dom.refill(steps, ...(pages > 1 ? [turn("Charts before", "left", -1), dom.make("span", { role: "status", text: `${at + 1} of ${pages}` }), turn("More charts", "right", 1)] : []), dom.make("span", { class: "nb-quiet-text", text }), table.button());
  }

  /** @param {string} metric */
  const courses = (metric) => Object.entries(curves[metric] ?? {}).filter(([id, [x]]) => x.length && beside.slots.has(id) && !hidden.has(id))
    .map(([id, [x, y]]) => ({ id, x, y, slot: beside.slots.get(id) ?? 0, failed: beside.known.rows.get(id)?.status === "failed" }));

  /** @param {string} metric */
  function card(metric) {
    const some = courses(metric);
    const title = dom.make("figcaption", {}, dom.button({ label: metric, quiet: true, id: `chart-${metric}`, title: `Show ${metric} alone`, run: () => beside.metric(metric) }), mover(metric));
    return dom.make("figure", { class: "nb-multiple-card" }, title, some.length ? parts.small_chart.chart(frame, metric, some, shape()) : dom.make("p", { class: "nb-empty nb-quiet-text", text: curves[metric] ? "No values." : "Loading…" }));
  }

  /** @param {string} metric */
  function mover(metric) {
    const at = metrics().indexOf(metric);
    const move = (/** @type {string} */ label, /** @type {number} */ by) => ({ label, why: at + Math.sign(by) in metrics() ? "" : "It is at this end", run: () => {
      state.order = moved(metrics(), metric, by);
      page = Math.floor(metrics().indexOf(metric) / shape().room);
      keep();
      draw();
    } });
    const button = dom.button({ label: `Move ${metric}`, icon: "more", bare: true, quiet: true, id: `move-${metric}`, run: () => frame.menu(button, [
      move("To the front", -Infinity), move("Earlier", -1), move("Later", 1),
    ]) });
    return button;
  }

  /** Light up the lines of a trial in all charts. @param {string | null} id */
  function hover(id) {
    for (const each of grid.querySelectorAll(".nb-chart-line")) each.classList.toggle("nb-chart-lit", each.getAttribute("data-id") === id);
  }

  grid.addEventListener("pointerover", (event) => {
    const id = /** @type {Element} */ (event.target).getAttribute("data-id");
    hover(id);
    beside.light(id);
  });
  grid.addEventListener("pointerleave", () => { hover(null); beside.light(null); });
  const sized = new ResizeObserver(() => element.isConnected && grid.clientWidth && draw());
  sized.observe(grid);
  frame.signal.addEventListener("abort", () => {
    sized.disconnect();
    clearTimeout(timer);
  });
  return { element, draw, hover };
}
