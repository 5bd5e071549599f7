/**
 * The legend of curves: a button for each line in colour, which hides it and shows it again.
 *
 * @typedef {{ key: string, text: string, slot: number, title?: string }} Entry
 */

/**
 * What is hidden. A line stays hidden while others come and go.
 * @param {() => void} changed
 */
export function hiding(changed) {
  const keys = /** @type {Set<string>} */ (new Set());
  return {
    /** @param {string} key */
    has: (key) => keys.has(key),
    count: () => keys.size,
    list: () => [...keys],
    /** @param {string} key */
    turn(key) {
      if (!keys.delete(key)) keys.add(key);
      changed();
    },
    /** Show all, as a new experiment does. @param {boolean} [quietly] draw nothing */
    clear(quietly = false) {
      keys.clear();
      if (!quietly) changed();
    },
  };
}

/**
 * A piece of a line in its colour and dash. @param {import("./panel.js").Frame} frame @param {number} slot
 */
export function swatch({ dom, parts }, slot) {
  const line = dom.draw("path", { d: "M0 4H24", "stroke-dasharray": parts.ink.DASHES[slot].join(" ") || null });
  return dom.draw("svg", { class: "nb-swatch", viewBox: "0 0 24 8", style: `color: var(--nb-line-${slot + 1})`, "aria-hidden": "true" }, line);
}

/**
 * Draw the legend into an element. The focus stays on its button.
 * @param {import("./panel.js").Frame} frame @param {HTMLElement} element @param {Entry[]} entries @param {ReturnType<typeof hiding>} hidden
 * @param {string} [about] what the entries are values of
 */
export function legend(frame, element, entries, hidden, about = "") {
  const { dom } = frame;
  const button = (/** @type {Entry} */ { key, text, slot, title = text }) =>
    dom.make("button", {
      type: "button", class: "nb-chip nb-legend-entry", "aria-pressed": String(!hidden.has(key)), "aria-label": `Line of ${about ? `${about} ` : ""}${text}`,
      title: `${title}. ${hidden.has(key) ? "Show" : "Hide"} its line`, "data-action": `legend-${key}`, on: { click: () => hidden.turn(key) },
    }, swatch(frame, slot), dom.make("span", { text }));
  const all = hidden.count() > 0 && dom.button({ label: "Show all", quiet: true, id: "legend-all", run: () => hidden.clear() });
  dom.refill(element, about && dom.make("span", { class: "nb-quiet-text", text: about }), ...entries.map(button), all);
}
