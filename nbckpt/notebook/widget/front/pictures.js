/**
 * What stands beside the table: curves, best so far, settings, two settings, parallel lines, timeline, Pareto front, comparison, one trial.
 *
 * @typedef {object} Beside what the pictures may ask and do
 * @property {ReturnType<typeof import("./experiment.js").experiment>["known"]} known
 * @property {Map<string, number>} slots
 * @property {() => import("./rows.js").Trial | undefined} best
 * @property {() => import("./rows.js").Mode} mode
 * @property {() => import("./rows.js").Trial[]} visible
 * @property {() => string[]} selected
 * @property {(column: string, range: import("./rows.js").Brush | null) => void} brush
 * @property {() => Record<string, import("./rows.js").Brush>} brushes
 * @property {(id: string | null) => void} light
 * @property {(ids: string[]) => void} select
 * @property {(name: string) => void} metric choose the metric
 * @property {() => void} turned another picture is in sight
 * @property {() => void} back
 * @property {() => void} layout
 */

const TABS = /** @type {[string, string][]} */ ([
  ["curves", "Curves"], ["best_so_far", "Best so far"], ["pareto", "Pareto front"], ["settings", "Settings"], ["two_settings", "Two settings"], ["parallel", "Parallel lines"], ["timeline", "Timeline"], ["compare", "Compare"],
]);

/**
 * Fill an element with the picture that is chosen.
 * @param {import("./panel.js").Frame} frame @param {HTMLElement} element @param {Beside} beside
 */
export function pictures(frame, element, beside) {
  const { dom, parts } = frame;
  const kept = frame.choices("trials");
  const state = { tab: String(kept.tab ?? "curves"), shown: /** @type {string | null} */ (null) };
  const tabs = dom.make("div", { class: "nb-picture-tabs", role: "tablist", "aria-label": "Pictures" });
  const tools = dom.make("div", { class: "nb-picture-tools" });
  const bar = dom.make("div", { class: "nb-picture-bar" }, tabs, tools);
  const body = dom.make("div", { class: "nb-picture" });
  element.append(bar, body);
  /** @type {Record<string, any>} */
  const made = {};
  /** A front needs two objectives, and a plane two settings. @param {[string, string]} tab */
  const known = ([name]) => Boolean(parts[name]) && (name !== "pareto" || beside.known.objectives.length > 1) && (name !== "two_settings" || beside.known.settings.length > 1);

  /** @param {string} name */
  const picture = (name) => (made[name] ??= parts[name]?.picture(frame, beside, tools));

  function drawTabs() {
    const here = document.activeElement && tabs.contains(document.activeElement);
    const buttons = TABS.filter(known).map(([name, title]) =>
      dom.make("button", { type: "button", role: "tab", class: "nb-chip", "aria-selected": String(state.tab === name), "aria-pressed": null, tabindex: state.tab === name ? 0 : -1, "data-tab": name, text: title, on: { click: () => turn(name) } }));
    tabs.replaceChildren(...buttons);
    if (here) /** @type {HTMLElement | null} */ (tabs.querySelector("[aria-selected=true]"))?.focus();
  }

  /** @param {string} name */
  function turn(name) {
    state.tab = name;
    state.shown = null;
    over.stop();
    tools.replaceChildren();
    frame.keep("trials", { ...frame.choices("trials"), tab: name });
    draw();
    beside.turned();
  }

  function draw() {
    if (state.shown !== null) return over.draw();
    if (!element.contains(bar)) element.replaceChildren(bar, body);
    if (!TABS.filter(known).some(([name]) => name === state.tab)) {
      [state.tab] = TABS[0];
      tools.replaceChildren();
    }
    drawTabs();
    const now = picture(state.tab);
    if (!now) return;
    const beneath = frame.width === "very wide" && state.tab === "curves" ? picture("settings") : null;
    const shown = beneath ? [now.element, beneath.element] : [now.element];
    if (body.childElementCount !== shown.length || shown.some((one, at) => body.children[at] !== one)) body.replaceChildren(...shown);
    now.draw();
    beneath?.draw();
  }

  const [over, column] = [parts.trial_detail.detail(frame, beside), parts.trial_detail.detail(frame, beside)];
  let beheld = "";
  /** Show the trial with the focus in a column of its own. @param {HTMLElement} place @param {string} id */
  function behold(place, id) {
    const name = `${beside.known.name}/${id}`;
    if (name === beheld || !frame.live()) return column.draw();
    beheld = name;
    place.replaceChildren(dom.make("div", { class: "nb-picture-bar" }, dom.make("strong", { text: id })), column.element);
    column.show(id);
  }

  /** Show one trial over the pictures. @param {string} id */
  function detail(id) {
    state.shown = id;
    const back = dom.button({ label: "Back", icon: "left", quiet: true, run: () => { close(); beside.layout(); beside.back(); } });
    element.replaceChildren(dom.make("div", { class: "nb-picture-bar" }, back, dom.make("strong", { text: id })), over.element);
    over.show(id);
  }

  /** @returns {boolean} whether a detail was open */
  function close() {
    if (state.shown === null) return false;
    state.shown = null;
    over.stop();
    draw();
    return true;
  }

  frame.keys(tabs, (event) => {
    const names = TABS.filter(known).map(([name]) => name);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (event.key)];
    const to = names[names.indexOf(state.tab) + (step ?? 0)];
    if (!step || !to) return false;
    turn(to);
    /** @type {HTMLElement | null} */ (tabs.querySelector("[aria-selected=true]"))?.focus();
    return true;
  });

  /** Whether a chart for each metric is in sight. */
  const isCharts = () => state.tab === "curves" && state.shown === null && Boolean(made.curves?.isCharts());

  return {
    draw, detail, close, behold, isCharts,
    /** Show a chart for each metric, or go back to one. @param {boolean} on */
    turnCharts(on) {
      picture("curves")?.turnCharts(on);
      turn("curves");
    },
    /** The trial that is shown, or "". */
    detailed: () => state.shown ?? "",
    /** Give the focus to the detail, where the list is hidden by it. */
    enter: () => /** @type {HTMLElement | null} */ (element.querySelector("button"))?.focus({ preventScroll: true }),
    /** @param {string[]} ids */
    compare(ids) {
      picture("compare").compare(ids);
      turn("compare");
    },
    /** @param {string | null} id */
    hover: (id) => made[state.tab]?.hover?.(id),
    /** @param {string} id */
    focus: (id) => made[state.tab]?.focus?.(id),
    /** @param {string} name @returns {boolean} */
    key: (name) => Boolean(made[state.tab]?.key?.(name)),
    repaint: () => made[state.tab]?.repaint?.(),
    choices: () => ({ tab: state.tab, ...Object.assign({}, ...Object.values(made).map((each) => each.choices?.() ?? {})) }),
  };
}
