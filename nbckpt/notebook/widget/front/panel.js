/**
 * The panel: it loads its parts, builds the frame and plugs the panes in.
 *
 * Modules come from the kernel one by one and cannot import each other, so each gets what it needs as an argument. A pane is a
 * module that exports `pane(frame)`; a part that the kernel does not have makes no tab.
 *
 * @typedef {import("./link.js").Message} Message
 * @typedef {import("./link.js").Model} Model
 * @typedef {"narrow" | "medium" | "wide" | "very wide"} Width
 *
 * @typedef {object} Action a button of the action line or an entry of a menu
 * @property {string} label a verb, and what it acts on
 * @property {import("./dom.js").IconName} [icon]
 * @property {(button: HTMLElement) => void} [run]
 * @property {boolean} [primary] at most one per pane
 * @property {boolean} [kernel] it needs the kernel, and is grey while that does not answer
 * @property {string} [why] why it cannot be done now: makes it grey
 * @property {string} [title] a tooltip
 * @property {boolean} [checked] of an entry that is on or off
 * @property {string} [id] for tests and for the focus
 * @property {string} [text] instead of a label: plain text in the line
 * @property {boolean} [gap] instead of a label: what follows stands at the right
 *
 * @typedef {object} Pane
 * @property {string} id the name that the kernel has for it: "trials", "checkpoints", "history", "sync"
 * @property {string} title
 * @property {HTMLElement} element
 * @property {() => string} count what stands after the title: "60", "✓" or ""
 * @property {() => Record<string, unknown>} follow what the kernel shall send, beside the name of the pane
 * @property {(message: Message, buffers: DataView[]) => void} message hears everything that is no answer
 * @property {() => Partial<Action>[]} actions what can be done with what is selected
 * @property {(name: string, event: KeyboardEvent) => boolean} [key] a key by its name in keys.js; true if it was used
 * @property {() => void} [shown]
 * @property {() => void} [hidden]
 * @property {(width: Width) => void} [resized]
 * @property {() => void} [repaint] the theme has changed
 * @property {() => void} [standing] the kernel answers, or does so no longer
 * @property {() => Action[]} [menu] entries of the menu ⋯
 * @property {() => void} [close]
 *
 * @typedef {ReturnType<typeof import("./frame.js").frame>["api"]} Frame
 *
 * @typedef {Modules & Record<string, any>} Parts the modules by name, those of other panes among them
 *
 * @typedef {object} Modules the modules by what they hold
 * @property {typeof import("./dom.js")} dom
 * @property {typeof import("./format.js")} format
 * @property {typeof import("./link.js")} link
 * @property {typeof import("./keys.js")} keys
 * @property {typeof import("./popups.js")} popups
 * @property {typeof import("./grid.js")} grid
 * @property {typeof import("./grid_cells.js")} grid_cells
 * @property {typeof import("./grid_keys.js")} grid_keys
 * @property {typeof import("./frame.js")} frame
 * @property {typeof import("./tabs.js")} tabs
 * @property {typeof import("./state_line.js")} state_line
 * @property {typeof import("./action_line.js")} action_line
 * @property {typeof import("./message_line.js")} message_line
 * @property {typeof import("./rows.js")} rows
 * @property {typeof import("./find.js")} find
 * @property {typeof import("./where.js")} where
 * @property {typeof import("./checkpoint_rows.js")} checkpoint_rows
 * @property {typeof import("./checkpoint_columns.js")} checkpoint_columns
 * @property {typeof import("./checkpoint_detail.js")} checkpoint_detail
 * @property {typeof import("./checkpoint_save.js")} checkpoint_save
 * @property {typeof import("./checkpoint_side.js")} checkpoint_side
 * @property {typeof import("./checkpoint_deeds.js")} checkpoint_deeds
 * @property {typeof import("./lanes.js")} lanes
 * @property {typeof import("./history_columns.js")} history_columns
 * @property {typeof import("./history_detail.js")} history_detail
 * @property {typeof import("./history_top.js")} history_top
 * @property {typeof import("./series.js")} series
 * @property {typeof import("./experiment.js")} experiment
 * @property {typeof import("./trial_view.js")} trial_view
 * @property {typeof import("./trial_list.js")} trial_list
 * @property {typeof import("./trial_heading.js")} trial_heading
 * @property {typeof import("./columns.js")} columns
 * @property {typeof import("./heading.js")} heading
 * @property {typeof import("./deeds.js")} deeds
 * @property {typeof import("./pictures.js")} pictures
 * @property {typeof import("./curves.js")} curves
 * @property {typeof import("./curve_plot.js")} curve_plot
 * @property {typeof import("./curve_groups.js")} curve_groups
 * @property {typeof import("./legend.js")} legend
 * @property {typeof import("./metric_charts.js")} metric_charts
 * @property {typeof import("./ink.js")} ink
 * @property {typeof import("./axes.js")} axes
 * @property {typeof import("./dots.js")} dots
 * @property {typeof import("./shades.js")} shades
 * @property {typeof import("./small_chart.js")} small_chart
 * @property {typeof import("./two_settings.js")} two_settings
 * @property {typeof import("./best_so_far.js")} best_so_far
 * @property {typeof import("./media.js")} media
 * @property {typeof import("./numbers.js")} numbers
 * @property {typeof import("./trial_curves.js")} trial_curves
 * @property {typeof import("./trial_detail.js")} trial_detail
 * @property {typeof import("./tools.js")} tools
 * @property {typeof import("./brushing.js")} brushing
 * @property {typeof import("./head_brushes.js")} head_brushes
 * @property {typeof import("./press.js")} press
 */

const PANES = ["trials", "checkpoints", "history", "sync"];
const STYLES = ["panel.css", "panes.css", "vendor/uPlot.min.css"];
const ID = "nbckpt-panel-style";

/**
 * The layout for a width of the element in pixels. Pure.
 * @param {number} pixels @returns {Width}
 */
export function layout(pixels) {
  if (pixels < 720) return "narrow";
  if (pixels < 1200) return "medium";
  return pixels < 1800 ? "wide" : "very wide";
}

/**
 * Show the panel in an element. When `signal` aborts, nothing of it is left.
 * @param {{ model: Model, el: HTMLElement, signal: AbortSignal, part: (name: string) => Promise<any> }} place
 */
export async function show({ model, el, signal, part }) {
  /** @type {string[]} */
  const names = JSON.parse(await part("names.json"));
  const [modules, styles] = await Promise.all([Promise.all(names.map((name) => part(`${name}.js`))), Promise.all(STYLES.map(part))]);
  if (signal.aborted) return;
  dress(el.ownerDocument, styles.join("\n"));
  const parts = Object.fromEntries(names.map((name, at) => [name, modules[at]]));
  const live = model.get("form") === "live";
  const panes = live ? ["live"] : PANES.filter((name) => parts[name]?.pane);
  const made = parts.frame.frame({ model, signal, parts, load: part, panes, small: live });
  el.replaceChildren(made.root);
  watchWidth(made, signal);
  watchTheme(made, signal);
  watchSight(made, signal);
  made.open();
  signal.addEventListener("abort", () => {
    made.close();
    made.root.replaceChildren();
    made.root.remove();
  });
}

/** Have the style in the page once. @param {Document} document @param {string} text */
function dress(document, text) {
  const style = document.getElementById(ID) ?? Object.assign(document.createElement("style"), { id: ID });
  if (style.textContent !== text) style.textContent = text;
  if (!style.isConnected) document.head.append(style);
}

/** @typedef {ReturnType<typeof import("./frame.js").frame>} Made */

/** Layouts follow the width of the element, never that of the window. @param {Made} made @param {AbortSignal} signal */
function watchWidth(made, signal) {
  const sized = new ResizeObserver(() => made.root.offsetWidth && made.resize(layout(made.root.offsetWidth)));
  made.resize(layout(made.root.offsetWidth));
  sized.observe(made.root);
  signal.addEventListener("abort", () => sized.disconnect());
}

/** Whether the page is dark: as JupyterLab, VS Code or Colab say it, else as the system has it. */
function isDark() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  const said = document.documentElement.getAttribute("theme");
  if (jpThemeLight !== undefined) return jpThemeLight === "false";
  if (vscodeThemeKind !== undefined) return !vscodeThemeKind.includes("light");
  return said ? said === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Drawings have their colours from the theme, whose style sheet comes two frames after its name. @param {Made} made @param {AbortSignal} signal */
function watchTheme(made, signal) {
  let due = 0;
  const shade = () => made.root.toggleAttribute("data-dark", isDark());
  const repaint = () => {
    shade();
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => (due = requestAnimationFrame(made.repaint)));
  };
  shade();
  const seen = new MutationObserver(repaint);
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "data-vscode-theme-kind", "theme", "class", "style"];
  for (const each of [document.body, document.documentElement]) seen.observe(each, { attributes: true, attributeFilter });
  const sheet = (/** @type {Event} */ event) => /** @type {Element} */ (event.target).tagName === "LINK" && repaint();
  document.addEventListener("load", sheet, { capture: true, signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint, { signal });
  signal.addEventListener("abort", () => {
    seen.disconnect();
    cancelAnimationFrame(due);
  });
}

/** The kernel sends nothing for a panel that is out of sight. @param {Made} made @param {AbortSignal} signal */
function watchSight(made, signal) {
  let near = true;
  const tell = () => made.seen(near && !document.hidden);
  const seen = new IntersectionObserver(([entry]) => {
    near = entry.isIntersecting;
    tell();
  });
  seen.observe(made.root);
  document.addEventListener("visibilitychange", tell, { signal });
  signal.addEventListener("abort", () => seen.disconnect());
}
