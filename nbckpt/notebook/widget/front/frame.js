/**
 * The frame around the panes: it joins tabs, state line, action line and messages, keeps what was chosen, and hears the keys.
 *
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./panel.js").Pane} Pane
 * @typedef {import("./panel.js").Message} Message
 * @typedef {import("./panel.js").Width} Width
 * @typedef {import("./grid.js").Options} GridOptions
 */

const PING_MS = 10000;
const TICK_MS = 15000;
/** How long a press keeps the panel as it is: its end is not always told. */
const PRESS_MS = 5000;
/** A finger's click comes a moment after it has left. */
const CLICK_MS = 50;

/**
 * Build the frame.
 * @param {{ model: import("./link.js").Model, signal: AbortSignal, parts: any, load: (name: string) => Promise<any>,
 *   panes: string[], small?: boolean }} options `small`: one pane without tabs
 */
export function frame({ model, signal, parts: modules, load, panes: names, small = false }) {
  const parts = /** @type {import("./panel.js").Parts} */ (modules);
  const { dom, format, keys } = parts;
  /** @type {WeakMap<Element, (event: KeyboardEvent) => boolean>} */
  const handlers = new WeakMap();
  /** @param {Element} element @param {(event: KeyboardEvent) => boolean} handler */
  const listen = (element, handler) => void handlers.set(element, handler);
  const link = parts.link.link({ model, signal, heard, changed: () => standingChanged(), sight });
  let width = /** @type {Width} */ ("wide");
  let inSight = true;
  const view = Math.random().toString(36).slice(2);
  /** The panes that this view was sent in full, and all changes since. @type {Set<string>} */
  const whole = new Set();
  const hour = () => format.hour(link.since());
  const why = () => parts.state_line.reason(link.standing(), hour());
  /** What needs the kernel is grey while that does not answer. @param {Partial<Action>} action */
  const grey = (action) => ({ ...action, why: action.why || (action.kernel ? why() : "") || undefined });

  const tabs = parts.tabs.tabs(dom, { panes: () => panes, front: () => front, turn, listen });
  const state = parts.state_line.line(dom, link, { hour, small });
  const messages = parts.message_line.messages(dom, { why, undo: () => void line.act("undo", []) });
  const line = parts.action_line.actions(parts, { link, say: messages.say, listen, grey, front: () => front });
  const more = dom.button({ label: "Menu", icon: "more", bare: true, quiet: true, run: () => popups.menu(more, entries()) });
  const body = dom.make("div", { class: "nb-body" });
  const root = dom.make(
    "div",
    { class: `nbckpt nb-panel${small ? " nb-small" : ""}`, role: small ? "group" : "region", "aria-label": "nbckpt", "data-lm-suppress-shortcuts": "true" },
    dom.make("div", { class: "nb-top" }, small ? null : tabs.element, state.element, small ? null : more),
    body,
    dom.make("div", { class: "nb-foot" }, line.element, messages.element),
  );
  const popups = parts.popups.popups({ dom, keys, root, listen, signal });

  const api = {
    dom,
    format,
    parts,
    signal,
    load,
    /** @returns {Width} */
    get width() {
      return width;
    },
    /** @param {GridOptions} options @returns {import("./grid.js").Grid} */
    grid: (options) => parts.grid.grid({ parts, listen, signal }, options),
    /** Hear the keys of an element first. The handler returns whether it used the key. */
    keys: listen,
    live: () => why() === "",
    why,
    /** When the kernel answered last, if it has gone for good; else "". */
    gone: () => (link.standing() === "gone" ? hour() : ""),
    /** Ask the kernel for a page. @param {string} of @param {string[]} ids @param {Message} [options] @returns {Promise<Message | null>} */
    ask: (of, ids, options = {}) => link.detail(of, ids, options),
    act: line.act,
    deed: line.deed,
    confirm: line.confirm,
    field: line.field,
    say: messages.say,
    changed,
    follow,
    /** Open a menu of what can be done. @param {HTMLElement} anchor @param {Partial<Action>[]} actions */
    menu: (anchor, actions) => popups.menu(anchor, /** @type {Action[]} */ (actions.filter((action) => action.label).map(grey))),
    /** What was chosen in a pane: metric, columns, split. @param {string} pane @returns {Record<string, any>} */
    choices: (pane) => ({ ...model.get("chosen")?.[pane] }),
    /** Keep what was chosen, with the notebook. @param {string} pane @param {Record<string, any>} chosen */
    keep: (pane, chosen) => store("chosen", pane, chosen),
    /** Read and keep what has a trait of its own. @param {"sort" | "filter"} trait @param {string} pane */
    kept: (trait, pane) => model.get(trait)?.[pane],
    /** @param {string} trait @param {string} pane @param {unknown} value */
    store,
    age,
    until,
    /** Have the panel as high as it may be, or as high as its content. @param {boolean} tall */
    tall: (tall) => void root.classList.toggle("nb-tall", tall),
    root,
  };

  /** @type {Pane[]} */
  const panes = names.map((name) => parts[name].pane(api));
  let front = panes[0];

  /** @param {string} trait @param {string} pane @param {unknown} value */
  function store(trait, pane, value) {
    if (link.standing() === "gone") return;
    model.set(trait, { ...model.get(trait), [pane]: structuredClone(value) }); // a pane may change its own later
    model.save_changes();
  }

  /** What the kernel said during a press. @type {[Message, DataView[]][]} */
  const waiting = [];
  let pressedAt = -PRESS_MS;
  /** Whether a button is pressed in the panel. What is replaced meanwhile gets no click, so nothing is drawn anew. */
  const isPressed = () => performance.now() - pressedAt < PRESS_MS;

  /** @param {PointerEvent} event */
  function lifted({ pointerType }) {
    const at = pressedAt; // a double click presses again before the time is over
    if (isPressed()) setTimeout(() => at === pressedAt && released(), pointerType === "mouse" ? 0 : CLICK_MS);
  }

  function released() {
    pressedAt = -PRESS_MS;
    for (const [told, buffers] of waiting.splice(0)) take(told, buffers);
    changed();
  }

  /** @param {Message} told @param {DataView[]} buffers */
  function heard(told, buffers) {
    waiting.push([told, buffers]);
    if (!isPressed()) released();
  }

  /** @param {Message} told @param {DataView[]} buffers */
  function take(told, buffers) {
    if (told.kind === "said") messages.say(String(told.text), told.tone, { undo: told.undo });
    else if (told.kind === "tabs") tabs.count(/** @type {any} */ (told));
    else for (const pane of panes) pane.message(told, buffers);
  }

  /** @param {number} at seconds since 1970 */
  function age(at) {
    const element = dom.make("time", { "data-at": at, title: format.moment(at) });
    element.textContent = format.age(at, Date.now() / 1000);
    return element;
  }

  /** How long until something: `in 3 min`, or `now`. @param {number} at seconds since 1970 */
  function until(at) {
    const element = dom.make("time", { "data-until": at, title: format.moment(at) });
    element.textContent = format.until(at, Date.now() / 1000);
    return element;
  }

  /** Ages and countdowns stay right by themselves. */
  function tick() {
    const now = Date.now() / 1000;
    for (const element of root.querySelectorAll("time[data-at]")) element.textContent = format.age(Number(element.getAttribute("data-at")), now);
    for (const element of root.querySelectorAll("time[data-until]")) element.textContent = format.until(Number(element.getAttribute("data-until")), now);
  }

  let due = 0;
  /** Have tabs and action line drawn anew, once per frame of the browser. */
  function changed() {
    if (due) return;
    due = requestAnimationFrame(() => {
      due = 0;
      if (isPressed()) return;
      tabs.draw();
      line.draw();
    });
  }

  function standingChanged() {
    if (link.standing() === "silent") whole.clear(); // what the kernel sent meanwhile may be lost
    if (state.draw()) front?.standing?.();
    changed();
  }

  /** @returns {Action[]} */
  const entries = () => [...(front.menu?.() ?? []), { label: "Keys", icon: "keys", run: popups.help }];

  /** Bring a pane to the front. @param {Pane} pane */
  function turn(pane) {
    if (pane === front && body.contains(pane.element)) return;
    line.drop();
    front.hidden?.();
    front = pane;
    dom.dress(pane.element, { role: small ? null : "tabpanel", "aria-label": pane.title });
    pane.element.classList.add("nb-pane");
    body.replaceChildren(pane.element);
    root.classList.remove("nb-tall");
    pane.resized?.(width);
    pane.shown?.();
    if (model.get("pane") !== pane.id && !small && link.standing() !== "gone") {
      model.set("pane", pane.id);
      model.save_changes();
    }
    follow();
    tabs.draw();
    line.draw(true);
  }

  /** What is in sight, and in which view: several may be open, also in other pages. */
  function sight() {
    return { view, pane: inSight ? front.id : null };
  }

  /** Tell the kernel what is in sight. */
  function follow() {
    if (!front) return;
    link.tell({ kind: "follow", ...sight(), fresh: !whole.has(front.id), ...front.follow() });
    if (inSight) whole.add(front.id);
  }

  /** @param {KeyboardEvent} event */
  function pressed(event) {
    const target = /** @type {Element} */ (event.target);
    if (!root.contains(target)) return;
    const handled = keys.acted(event, isField(target), target.matches("textarea, [contenteditable]")) || hear(target, event);
    if (handled) event.preventDefault();
    if (!keys.leaves(event, handled)) event.stopPropagation();
  }

  const isField = (/** @type {Element} */ target) => target.matches("input:not([type=checkbox], [type=range]), select, textarea, [contenteditable]");

  /** @param {Element} target @param {KeyboardEvent} event */
  function hear(target, event) {
    for (let at = /** @type {Element | null} */ (target); at && at !== root; at = at.parentElement) if (handlers.get(at)?.(event)) return true;
    const name = keys.named(event, isField(target));
    if (!name) return false;
    if (name === "help") return popups.help(), true;
    if (name === "escape") return popups.close() || front.key?.(name, event) || leave();
    if (front.key?.(name, event)) return true;
    if (name === "undo") messages.undo();
    return true;
  }

  /** Give the focus back to the cell. */
  function leave() {
    const cell = /** @type {HTMLElement | null} */ (root.closest(".jp-Notebook, .jp-Cell"));
    /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
    cell?.focus({ preventScroll: true });
    return true;
  }

  window.addEventListener("keydown", pressed, { capture: true, signal });
  root.addEventListener("pointerdown", () => void (pressedAt = performance.now()), { capture: true, signal });
  for (const end of /** @type {const} */ (["pointerup", "pointercancel"])) window.addEventListener(end, lifted, { capture: true, signal });

  return {
    root,
    api,
    /** Show the pane that was in front last. */
    open() {
      const last = panes.find((pane) => pane.id === model.get("pane")) ?? front;
      if (last) turn(last);
      standingChanged();
      link.ping();
      const pings = setInterval(() => inSight && link.ping(), PING_MS);
      const ticks = setInterval(tick, TICK_MS);
      signal.addEventListener("abort", () => [pings, ticks].forEach(clearInterval));
    },
    /** @param {Width} next */
    resize(next) {
      if (next === width && root.dataset.width) return;
      width = next;
      root.dataset.width = next;
      popups.close();
      front?.resized?.(next);
    },
    repaint: () => front?.repaint?.(),
    /** @param {boolean} seen */
    seen(seen) {
      if (seen === inSight) return;
      inSight = seen;
      follow();
      if (seen) link.ping();
    },
    close() {
      messages.close();
      cancelAnimationFrame(due);
      for (const pane of panes) pane.close?.();
      link.tell({ kind: "follow", view, pane: null });
    },
  };
}
