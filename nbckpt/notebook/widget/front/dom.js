/**
 * Elements. Text from the kernel goes through `textContent` only, so that it can never become markup.
 *
 * @typedef {Record<string, unknown> & { on?: Record<string, (event: any) => void> }} Properties
 *   `text`, `class`, `on` (listeners by event); everything else is an attribute. `false`, `null` and `undefined` leave it out.
 * @typedef {Node | string | null | undefined | false} Child
 */

const SVG = "http://www.w3.org/2000/svg";

/** Shapes of 16 × 16, drawn with the colour of the text. A name that ends with "!" is filled. */
const SHAPES = {
  waiting: "M8 2.5a5.5 5.5 0 1 0 .01 0z",
  running: "M8 2.5a5.5 5.5 0 1 0 .01 0z|M8 2.5a5.5 5.5 0 0 1 0 11z!",
  paused: "M5.5 3v10|M10.5 3v10",
  done: "M3 8.5l3.5 3.5L13 4.5",
  stopped: "M4 4h8v8H4z!",
  failed: "M4 4l8 8|M12 4l-8 8",
  interrupted: "M9.5 1.5L4 9h3.5L6.5 14.5 12 7H8.5z!",
  star: "M8 1.8l1.9 4 4.4.5-3.3 3 .9 4.3L8 11.5l-3.9 2.1.9-4.3-3.3-3 4.4-.5z!",
  more: "M3.2 8h.01|M8 8h.01|M12.8 8h.01",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  undo: "M6 3L3 6l3 3|M3 6h6a3.5 3.5 0 0 1 0 7H7",
  save: "M3 3h8l2 2v8H3z|M5.5 3v3.5h4V3|M5 13V9.5h6V13",
  resume: "M5 3l8 5-8 5z!",
  retry: "M12.5 8a4.5 4.5 0 1 1-1.5-3.3|M11.5 1.8v3.2H8.3",
  restore: "M8 2.5v7|M5 6.8l3 3 3-3|M3 11v2.5h10V11",
  compare: "M3 3h4v10H3z|M9 3h4v10H9z",
  show: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8z|M8 6.3a1.7 1.7 0 1 0 .01 0z",
  note: "M3 2.5h7l3 3v8H3z|M5.5 8h5|M5.5 10.5h5",
  trash: "M3 4.5h10|M6 4.5V3h4v1.5|M4.5 4.5l.5 9h6l.5-9",
  name: "M2.5 8V3H7.5L13.5 9l-5 5z|M5 5.5h.01",
  sync: "M4.5 11.5a2.7 2.7 0 0 1 .3-5.3 3.6 3.6 0 0 1 6.9 1 2.2 2.2 0 0 1 .3 4.3z",
  go: "M3 8h9|M8.5 4.5L12 8l-3.5 3.5",
  add: "M8 3v10|M3 8h10",
  close: "M4.5 4.5l7 7|M11.5 4.5l-7 7",
  swap: "M3 5.5h9|M9.5 3l2.5 2.5L9.5 8|M13 10.5H4|M6.5 8L4 10.5 6.5 13",
  warn: "M8 2l6.5 11.5h-13z|M8 6.5v3.5|M8 12h.01",
  copy: "M5.5 5.5h8v8h-8z|M10.5 5.5v-3h-8v8h3",
  columns: "M2.5 3h11v10h-11z|M6.2 3v10|M9.8 3v10",
  keys: "M1.5 4.5h13v7h-13z|M4 7h.01|M6.7 7h.01|M9.3 7h.01|M12 7h.01|M5 9.5h6",
};

/** @typedef {keyof typeof SHAPES} IconName */

/**
 * Make an element with properties and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} [properties]
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  dress(element, properties);
  element.append(...present(children));
  return element;
}

/**
 * Make an element of a drawing.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} [properties]
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function draw(tag, properties = {}, ...children) {
  const element = /** @type {SVGElementTagNameMap[T]} */ (document.createElementNS(SVG, tag));
  dress(element, properties);
  element.append(...present(children));
  return element;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
const present = (children) => /** @type {(Node | string)[]} */ (children.filter((child) => child || child === ""));

/** @param {Element} element @param {Properties} properties */
export function dress(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") for (const [event, heard] of Object.entries(properties.on ?? {})) element.addEventListener(event, heard);
    else if (name === "text") element.textContent = String(value);
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Draw an icon. With a label it speaks; without one, the word beside it does.
 * @param {IconName} name @param {string} [label]
 */
export function icon(name, label) {
  const spoken = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  const paths = (SHAPES[name] ?? SHAPES.waiting).split("|").map((shape) => {
    const filled = shape.endsWith("!");
    return draw("path", { d: filled ? shape.slice(0, -1) : shape, fill: filled ? "currentColor" : "none" });
  });
  return draw("svg", { class: `nb-icon nb-icon-${name}`, viewBox: "0 0 16 16", ...spoken }, ...paths);
}

/**
 * A button with a verb. `why` makes it grey and says the reason; it can still have the focus, to be read. A double click counts
 * once: it saves one checkpoint, and does not answer the question that appears below the pointer.
 * @param {{ label: string, icon?: IconName, run: (event: Event) => void, title?: string, why?: string, primary?: boolean,
 *   danger?: boolean, quiet?: boolean, bare?: boolean, id?: string }} action `bare` shows the icon only
 */
export function button({ label, icon: shape, run, title, why, primary, danger, quiet, bare, id }) {
  const kind = primary ? " nb-primary" : danger ? " nb-danger" : quiet ? " nb-quiet" : "";
  return make(
    "button",
    {
      type: "button",
      class: `nb-button${kind}${bare ? " nb-bare" : ""}`,
      title: why || title || (bare ? label : null),
      "aria-label": bare ? label : null,
      "aria-disabled": why ? "true" : null,
      "data-action": id ?? null,
      on: { click: (event) => (why || event.detail > 1 ? undefined : run(event)) },
    },
    shape ? icon(shape) : null,
    bare ? null : make("span", { text: label }),
  );
}

/**
 * A menu of choices as the browser has it, with a label for screen readers.
 * @param {string} label @param {(string | { value: string, text: string })[]} choices @param {string} chosen
 * @param {(value: string) => void} changed
 */
export function select(label, choices, chosen, changed) {
  const options = choices.map((choice) => {
    const { value, text } = typeof choice === "string" ? { value: choice, text: choice } : choice;
    return make("option", { value, text, selected: value === chosen });
  });
  const element = make("select", { class: "nb-select", "aria-label": label, "data-action": `select-${label}` }, ...options);
  element.value = chosen;
  element.addEventListener("change", () => changed(element.value));
  return element;
}

/**
 * Replace what is in an element, but not where the user is typing.
 * @param {Element} element @param {Child[]} children
 */
export const fill = (element, ...children) => element.replaceChildren(...present(children));

/**
 * Replace what is in a line, unless it would look the same. The focus stays on a button with the same name of its action.
 * @param {Element} line @param {Child[]} children
 */
export function refill(line, ...children) {
  const next = make("div", {}, ...children);
  const same = line.childNodes.length === next.childNodes.length && [...line.childNodes].every((node, at) => node.isEqualNode(next.childNodes[at]));
  if (same) return;
  const focused = line.contains(document.activeElement) ? document.activeElement?.getAttribute("data-action") : null;
  line.replaceChildren(...next.childNodes);
  if (focused) /** @type {HTMLElement | null} */ (line.querySelector(`[data-action="${CSS.escape(focused)}"]`))?.focus();
}

/**
 * Change what someone reads: folds stay as they are, and the focus and the place stay.
 * @param {Element} element the one that scrolls @param {() => void} change
 */
export function keeping(element, change) {
  const folds = () => [...element.querySelectorAll("details")].map((fold) => /** @type {const} */ ([fold.querySelector("summary")?.textContent, fold]));
  const nameOf = (/** @type {Element} */ one) => `${one.tagName} ${one.getAttribute("data-action") ?? one.getAttribute("aria-label") ?? one.textContent}`;
  const top = element.scrollTop;
  const open = new Map(folds().map(([name, fold]) => [name, fold.open]));
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  change();
  for (const [name, fold] of folds()) fold.open = open.get(name) ?? fold.open;
  if (focused && !focused.isConnected) {
    const same = [...element.querySelectorAll(focused.tagName)].find((one) => nameOf(one) === nameOf(focused));
    /** @type {HTMLElement | undefined} */ (same)?.focus({ preventScroll: true });
  }
  element.scrollTop = top;
}

/**
 * Put HTML that the kernel has already escaped into an element. Nothing else in the panel sets markup.
 * @param {Element} element @param {string} html
 */
export function page(element, html) {
  element.innerHTML = html;
}

/**
 * A small line of a course of values. Values that are not finite leave a gap.
 * @param {ArrayLike<number>} values @param {number} [width] @param {number} [height]
 */
export function spark(values, width = 56, height = 18) {
  const finite = Array.from(values).filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const across = (/** @type {number} */ at) => (1 + (at * (width - 2)) / Math.max(1, values.length - 1)).toFixed(1);
  const down = (/** @type {number} */ value) =>
    (height - 2 - ((value - low) * (height - 4)) / (high - low || 1)).toFixed(1);
  let path = "";
  let pen = "M";
  for (let at = 0; at < values.length; at += 1) {
    if (Number.isFinite(values[at])) path += `${pen}${across(at)} ${down(values[at])}`;
    pen = Number.isFinite(values[at]) ? "L" : "M";
  }
  const line = draw("path", { d: path, fill: "none" });
  return draw("svg", { class: "nb-spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, line);
}

/**
 * A bar of progress with its numbers, for screen readers too.
 * @param {number} part from 0 to 1 @param {string} label
 */
export const progress = (part, label) =>
  make(
    "span",
    { class: "nb-progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(part * 100) },
    make("span", { style: `width: ${Math.round(Math.min(1, Math.max(0, part)) * 100)}%` }),
  );
