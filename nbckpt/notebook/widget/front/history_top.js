/**
 * What stands above the states of the notebook, or in their place: the heading, what to do first, and the form for a name.
 *
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./lanes.js").State} State
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./dom.js").Child} Child
 */

/** The button that turns history on. @param {Frame} frame @param {boolean} [primary] */
const turnOn = (frame, primary = false) => frame.dom.button({ label: "Turn on", primary, run: () => void frame.act("auto_on", []), why: frame.why(), id: "turn-on" });

/**
 * The heading: where you are, and since when.
 * @param {Frame} frame @param {Message} head @param {Map<string, State>} known @param {boolean} isThere whether the history came already
 * @returns {Child[]}
 */
export function heading(frame, head, known, isThere) {
  const { dom, parts } = frame;
  const { heading: told, label, tree } = parts.lanes;
  if (!isThere || !known.size) return [dom.make("span", { text: isThere ? "" : "Waiting for the history…" })];
  const ways = tree(known, head.here, new Set()).filter(({ type }) => type === "way").length + 1;
  const { before, row, after } = told(/** @type {any} */ (head), known, ways);
  const when = row ? [", ", frame.age(parts.checkpoint_rows.seconds(row.saved_at))] : [];
  return [dom.make("span", {}, before, dom.make("strong", { text: row ? label(row) : "" }), ...when, `.${after}`), head.on ? null : turnOn(frame)];
}

/**
 * What stands there without states: no state matches, or history has to be turned on.
 * @param {Frame} frame @param {Message} head @param {boolean} hasStates @param {() => void} clear the filter
 * @returns {Child[]}
 */
export function empty(frame, head, hasStates, clear) {
  const { dom } = frame;
  if (hasStates) return [dom.make("p", { text: "No state matches." }), dom.button({ label: "Clear", run: clear, id: "clear" })];
  if (head.on) return [dom.make("p", { text: "History is on. Run a cell: its state shows here." })];
  const cost = costOf(frame, head.live ?? {});
  return [dom.make("p", { text: "History is off. Turn it on to go back to the state after any cell." }), turnOn(frame, true), cost ? dom.make("p", { class: "nb-dim nb-after", text: cost }) : null];
}

/** What history would cost, as a sentence. @param {Frame} frame @param {Message} live the variables there are now */
function costOf({ format }, { count, size }) {
  if (!count) return "";
  return `Each cell adds only what it changed; there are ${format.count(count, "variable")} now${size ? `, about ${format.size(size)} of arrays and tables` : ""}.`;
}

/**
 * Ask for the name of a state in a form.
 * @param {Frame} frame @param {HTMLFormElement} form @param {string} ref @param {State | undefined} row
 */
export function askName(frame, form, ref, row) {
  const { dom, parts } = frame;
  const field = dom.make("input", { class: "nb-input", "aria-label": "Name of the state", placeholder: "name", size: 20 });
  form.onsubmit = (event) => {
    event.preventDefault();
    void frame.act("name", [ref], { name: field.value.trim() }).then((answer) => answer?.ok && (form.hidden = true));
  };
  dom.fill(form, dom.make("label", {}, `Name for ${row ? parts.lanes.label(row) : ""} `, field), dom.make("button", { type: "submit", class: "nb-button", text: "Name it" }), dom.button({ label: "Cancel", run: () => (form.hidden = true) }));
  form.hidden = false;
  field.focus();
}
