/**
 * The keys of the panel, and what they are called inside. Pure: the tests import this in Node.
 *
 * @typedef {{ key: string, does: string, name?: string }} Key
 * @typedef {{ key: string, shiftKey: boolean, ctrlKey: boolean, metaKey: boolean, altKey: boolean, repeat?: boolean }} Pressed
 */

/** All keys, as the list behind `?` shows them. Those with a name are offered to the pane in front. @type {Key[]} */
export const KEYS = [
  { key: "Tab, Shift-Tab", does: "tabs, tools, list, picture, actions, then out" },
  { key: "← →", does: "on tabs: another pane. In the list: columns. In a chart: one step" },
  { key: "↑ ↓ PgUp PgDn Home End", does: "move in the list. In a chart: the next line" },
  { key: "Shift-↑ ↓", does: "select a range" },
  { key: "+ - Shift-← →", does: "in curves: zoom in and out, move what is shown" },
  { key: "↑ ↓ Shift-↑ ↓ 0", does: "on an axis: move the filter, move its top, clear it" },
  { key: "Shift-← → ↑ ↓ 0", does: "in a header with bars: move the filter, widen and narrow it, clear it" },
  { key: "Space", does: "select" },
  { key: "Enter", does: "open the detail. In a header: sort" },
  { key: "Ctrl-A", does: "select what is filtered" },
  { key: "/", does: "find", name: "find" },
  { key: "b", does: "go to the best", name: "best" },
  { key: "c", does: "compare", name: "compare" },
  { key: "p", does: "pause", name: "pause" },
  { key: "r", does: "resume", name: "resume" },
  { key: "k", does: "save checkpoint", name: "checkpoint" },
  { key: "[", does: "the metric before", name: "metric-" },
  { key: "]", does: "the next metric", name: "metric+" },
  { key: "l", does: "log scale", name: "log" },
  { key: "0", does: "whole range", name: "range" },
  { key: "u", does: "undo", name: "undo" },
  { key: "Delete", does: "delete, after asking", name: "delete" },
  { key: "?", does: "this list", name: "help" },
  { key: "Esc", does: "close menu, detail, filter, selection; at last back to the cell", name: "escape" },
];

const NAMES = new Map(KEYS.filter((key) => key.name).map((key) => [key.key, key.name]));

/**
 * Name what a key does in the panel, or return null. In a field, only Escape has a meaning of ours.
 * @param {Pressed} event @param {boolean} inField @returns {string | null}
 */
export function named(event, inField) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === "Escape") return "escape";
  return inField ? null : (NAMES.get(event.key) ?? null);
}

/**
 * Tell whether the notebook may hear of a key. Plain keys are commands of JupyterLab, so they end in the panel.
 * @param {Pressed} event @param {boolean} handled
 */
export function leaves(event, handled) {
  if (handled) return false;
  return event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter");
}

/**
 * Tell whether a key is held down that acts: it acts once. Keys that move or write go on.
 * @param {Pressed} event @param {boolean} inField @param {boolean} [inText] in a field with several lines
 */
export function acted(event, inField, inText = false) {
  if (!event.repeat || event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter")) return false;
  return inField ? !inText && event.key === "Enter" : !/^(Arrow|Page|Home|End|Tab)/.test(event.key);
}

/**
 * The index that a key of movement leads to, or null for other keys.
 * @param {string} key @param {number} at @param {number} count @param {number} page rows in sight
 */
export function moved(key, at, count, page) {
  /** @type {Record<string, number>} */
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - page, PageDown: at + page, Home: 0, End: count - 1 };
  return key in to ? Math.max(0, Math.min(count - 1, to[key])) : null;
}
