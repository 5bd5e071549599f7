/**
 * Shades of one hue: the colour of a place on a scale, and the legend of the scale. The size or a word says the same without colour.
 */

/** The colour of a place between the ends of a scale. Pure. @param {number} share from 0 to 1 */
export const shade = (share) => `color-mix(in srgb, var(--nb-to) ${Math.round(100 * Math.max(0, Math.min(1, share)))}%, var(--nb-from))`;

/**
 * How late each trial came, from 0 to 1, by its number. Pure.
 * @param {import("./rows.js").Trial[]} rows @returns {(row: import("./rows.js").Trial) => number}
 */
export function lateness(rows) {
  const [first, last] = rows.reduce(([low, high], { n }) => [Math.min(low, n), Math.max(high, n)], [Infinity, -Infinity]);
  return ({ n }) => (last > first ? (n - first) / (last - first) : 1);
}

/**
 * The legend of a scale, in words at both ends.
 * @param {typeof import("./dom.js")} dom @param {string} from @param {string} to @param {string} about a sentence
 */
export const legend = (dom, from, to, about) =>
  dom.make("p", { class: "nb-shades nb-quiet-text" }, dom.make("span", { text: from }), dom.make("span", { class: "nb-shades-bar", "aria-hidden": "true" }), dom.make("span", { text: `${to}${about ? ` · ${about}` : ""}` }));
