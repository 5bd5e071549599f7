/**
 * The line of tools above the trials: find, filter by status, metric and its direction, columns.
 *
 * @typedef {import("./rows.js").Filter} Filter
 * @typedef {import("./panel.js").Action} Action
 * @typedef {object} Toolbox what the tools need beside what is chosen
 * @property {() => import("./columns.js").View} columns
 * @property {() => string | undefined} showing
 * @property {() => void} kept a choice has changed: keep it, and draw
 * @property {() => boolean} isCharts a chart for each metric is in sight
 * @property {(on: boolean) => void} turnCharts
 */

const HINT = "Words in names, settings, errors; or a filter: lr < 0.1 and tag == 'good'";

/**
 * Make the tools.
 * @param {import("./panel.js").Frame} frame @param {import("./trial_view.js").TrialView} view @param {Toolbox} pane
 */
export function tools(frame, view, pane) {
  const { dom, format, parts } = frame;
  const { rows: logic } = parts;
  const { known, state } = view;
  const find = dom.make("input", { type: "search", class: "nb-input nb-find", placeholder: "Find or filter…", "aria-label": "Find trials", title: HINT });
  const problem = dom.make("p", { class: "nb-find-problem", role: "status" });
  find.addEventListener("input", () => view.filter({ find: find.value }));
  const chips = dom.make("div", { class: "nb-chips", role: "group", "aria-label": "Filter by status" });
  const choices = dom.make("div", { class: "nb-choices" });
  const element = dom.make("div", { class: "nb-tools" }, find, chips, dom.make("span", { class: "nb-gap" }), choices, problem);
  const narrow = () => frame.width === "narrow";

  function drawTools() {
    const counts = logic.tally(known.rows.values());
    if (find.value !== state.filter.find) find.value = state.filter.find;
    dom.refill(choices, ...choiceTools());
    drawProblem(view.problem());
    if (narrow()) return dom.refill(chips, statusMenu(counts));
    const all = dom.make("button", chip("All", [], state.filter.statuses.length === 0), "All ", format.whole(known.rows.size));
    const others = Object.keys(format.STATUS).filter((status) => counts[status] || state.filter.statuses.includes(status)).map((status) =>
      dom.make("button", chip(status, [status], state.filter.statuses.includes(status)),
        dom.make("span", { class: `nb-is-${status}` }, dom.icon(/** @type {any} */ (status))), ` ${/** @type {any} */ (format.STATUS)[status]} ${format.whole(counts[status] ?? 0)}`));
    dom.refill(chips, all, ...others);
  }

  /** @param {string} text */
  function drawProblem(text) {
    if (problem.textContent !== text) problem.textContent = text;
    find.setAttribute("aria-invalid", String(text !== ""));
  }

  /** The chips as a menu, where there is no room. @param {Record<string, number>} counts */
  function statusMenu(counts) {
    const options = Object.keys(format.STATUS).filter((status) => counts[status]).map((status) => ({ value: status, text: `${/** @type {any} */ (format.STATUS)[status]} ${format.whole(counts[status])}` }));
    return dom.select("Status", [{ value: "", text: `All ${format.whole(known.rows.size)}` }, ...options], state.filter.statuses[0] ?? "", (status) => view.filter({ statuses: status ? [status] : [] }));
  }

  /** @param {string} id @param {string[]} statuses @param {boolean} on */
  const chip = (id, statuses, on) => ({
    type: "button", class: "nb-chip", "aria-pressed": String(on), "data-action": `chip-${id}`,
    on: { click: (/** @type {MouseEvent} */ event) => view.filter({ statuses: event.shiftKey && statuses.length ? toggled(statuses[0]) : on ? [] : statuses }) },
  });
  /** @param {string} status */
  const toggled = (status) => (state.filter.statuses.includes(status) ? state.filter.statuses.filter((each) => each !== status) : [...state.filter.statuses, status]);

  function choiceTools() {
    const made = [];
    if (known.metrics.length > 1) made.push(dom.select("Metric", known.metrics, known.metric, view.setMetric), allMetrics());
    else if (known.metric) made.push(dom.make("span", { text: known.metric }));
    if (known.metric) {
      made.push(dom.select("Value", [{ value: "last", text: "last" }, { value: "best", text: "best" }], state.byBest ? "best" : "last", (value) => view.setByBest(value === "best")));
      const words = view.mode() === "max" ? "highest is best" : "lowest is best";
      made.push(dom.button({ label: known.guess && !state.mode ? `${words}?` : words, icon: "swap", quiet: true, bare: narrow(), id: "mode", title: "Turn the direction round", run: () => view.setMode(view.mode() === "max" ? "min" : "max") }));
    }
    if (!narrow()) {
      const menu = dom.button({ label: "Columns", icon: "columns", quiet: true, id: "columns", run: () => frame.menu(menu, columnMenu()) });
      made.push(menu);
    }
    if (frame.width === "narrow" || frame.width === "medium") made.push(stops());
    return made;
  }

  /** A small chart for each metric, beside the table. */
  function allMetrics() {
    const on = pane.isCharts();
    return dom.make("button", { type: "button", class: "nb-chip", "aria-pressed": String(on), "data-action": "all-metrics", title: "A chart for each metric", text: "All metrics", on: { click: () => pane.turnCharts(!pane.isCharts()) } });
  }

  /** List, both or picture, where they stand one above the other. */
  function stops() {
    const each = narrow() ? ["list", "detail"] : ["list", "both", "detail"];
    const words = /** @type {Record<string, string>} */ ({ list: "List", both: "Both", detail: "Picture" });
    return dom.make("span", { class: "nb-stops", role: "group", "aria-label": "What is shown" }, ...each.map((name) =>
      dom.make("button", { type: "button", class: "nb-chip", "aria-pressed": String(pane.showing() === name || (name === "both" && !pane.showing())), "data-action": `stop-${name}`, text: words[name],
        on: { click: () => { state.shows = name; pane.kept(); } } })));
  }

  /** @returns {Action[]} */
  function columnMenu() {
    const { allColumns, chosenColumns, title } = parts.columns;
    return allColumns(pane.columns()).filter((/** @type {string} */ id) => id !== "id").map((/** @type {string} */ id) => ({
      label: title(id), checked: chosenColumns(pane.columns()).includes(id), run: () => toggleColumn(id),
    }));
  }

  /** @param {string} id */
  function toggleColumn(id) {
    const on = parts.columns.chosenColumns(pane.columns()).includes(id);
    const without = (/** @type {string[]} */ names) => names.filter((name) => name !== id);
    state.columns = { hidden: on ? [...without(state.columns.hidden), id] : without(state.columns.hidden), shown: on ? without(state.columns.shown) : [...without(state.columns.shown), id] };
    pane.kept();
  }

  return { element, draw: drawTools, find: () => find.focus() };
}
