/**
 * What opens inside the panel: menus, the list of keys, and the question before a deed. Nothing is a dialog of the browser.
 *
 * @typedef {import("./panel.js").Action} Action
 */

/**
 * Make what opens in a panel.
 * @param {{ dom: typeof import("./dom.js"), keys: typeof import("./keys.js"), root: HTMLElement,
 *   listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void, signal: AbortSignal }} tools
 */
export function popups({ dom, keys, root, listen, signal }) {
  /** @type {{ element: HTMLElement, back: HTMLElement | null } | null} */
  let open = null;

  function close() {
    if (!open) return false;
    const { element, back } = open;
    open = null;
    const inside = element.contains(document.activeElement);
    element.remove();
    if (inside) back?.focus();
    return true;
  }

  /** @param {HTMLElement} element @param {HTMLElement | null} back where the focus goes afterwards */
  function show(element, back) {
    close();
    open = { element, back };
    root.append(element);
  }

  root.ownerDocument.addEventListener(
    "pointerdown",
    (event) => {
      const target = /** @type {Node} */ (event.target);
      if (open && !open.element.contains(target) && !open.back?.contains(target)) close();
    },
    { signal, capture: true },
  );

  /** @param {Action} action */
  function item(action) {
    const checks = action.checked !== undefined;
    const element = dom.make(
      "button",
      {
        type: "button",
        role: checks ? "menuitemcheckbox" : "menuitem",
        "aria-checked": checks ? String(action.checked) : null,
        "aria-disabled": action.why ? "true" : null,
        title: action.why || action.title || null,
        tabindex: -1,
        class: "nb-item",
      },
      action.icon ? dom.icon(action.icon) : null,
      dom.make("span", { text: action.label }),
    );
    element.addEventListener("click", () => {
      if (action.why) return;
      if (checks) element.setAttribute("aria-checked", String(element.getAttribute("aria-checked") !== "true"));
      else close();
      action.run?.(element);
    });
    return element;
  }

  /** @param {HTMLElement} element @param {KeyboardEvent} event */
  function walk(element, event) {
    const items = /** @type {HTMLElement[]} */ ([...element.querySelectorAll(".nb-item")]);
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "Escape" || event.key === "Tab") return close();
    const to = keys.moved(event.key, at, items.length, items.length);
    if (to !== null) items[to]?.focus();
    return to !== null;
  }

  /**
   * Open a menu below its button, or close it. @param {HTMLElement} anchor @param {Action[]} actions
   */
  function menu(anchor, actions) {
    if (open?.back === anchor) return void close();
    const element = dom.make("div", { role: "menu", class: "nb-menu" }, ...actions.map(item));
    listen(element, (event) => walk(element, event));
    show(element, anchor);
    place(element, anchor);
    /** @type {HTMLElement | null} */ (element.querySelector(".nb-item"))?.focus({ preventScroll: true });
  }

  /** @param {HTMLElement} element @param {HTMLElement} anchor */
  function place(element, anchor) {
    const [all, from] = [root.getBoundingClientRect(), anchor.getBoundingClientRect()];
    const below = all.bottom - from.bottom;
    const upwards = below < element.offsetHeight + 8 && from.top - all.top > below;
    element.style.maxHeight = `${Math.max(80, (upwards ? from.top - all.top : below) - 8)}px`;
    element.style.left = `${Math.max(4, Math.min(from.left - all.left, all.width - element.offsetWidth - 4))}px`;
    if (upwards) element.style.bottom = `${all.bottom - from.top + 2}px`;
    else element.style.top = `${from.bottom - all.top + 2}px`;
  }

  /** Show all keys. */
  function help() {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const rows = keys.KEYS.map(({ key, does }) =>
      dom.make("tr", {}, dom.make("th", { scope: "row" }, dom.make("kbd", { text: key })), dom.make("td", { text: does })),
    );
    const shut = dom.button({ label: "Close", icon: "close", run: close });
    const element = dom.make(
      "div",
      { role: "dialog", "aria-label": "Keys", class: "nb-help" },
      dom.make("div", { class: "nb-help-head" }, dom.make("strong", { text: "Keys" }), shut),
      dom.make("div", { class: "nb-help-list", tabindex: 0, role: "group", "aria-label": "List of keys" }, dom.make("table", {}, dom.make("tbody", {}, ...rows))),
    );
    listen(element, (event) => event.key === "Escape" && close());
    show(element, root.contains(before) ? before : null);
    shut.focus({ preventScroll: true });
  }

  return { menu, help, close };
}

/**
 * @typedef {{ text: string, html?: string, button: string, cancel?: string, danger?: boolean, value?: string }} Question
 *   with a `value`, it asks for a text
 */

/**
 * Ask in place of the action line before something is done. Resolves to the text of the field, or "" without one; null is no.
 * @param {{ dom: typeof import("./dom.js"), listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void }} tools
 * @param {HTMLElement} place @param {Question} question
 * @returns {{ answer: Promise<string | null>, drop: () => void }}
 */
export function confirm({ dom, listen }, place, { text, html, button, cancel = "Cancel", danger = false, value }) {
  /** @type {(answer: string | null) => void} */
  let settle = () => {};
  const answer = /** @type {Promise<string | null>} */ (new Promise((done) => (settle = done)));
  const field = value === undefined ? null : dom.make("input", { class: "nb-input nb-field", "aria-label": text });
  if (field) field.value = value ?? "";
  const yes = () => settle(field?.value ?? "");
  const buttons = [dom.button({ label: button, danger, primary: !danger, run: yes, id: "confirm" }), dom.button({ label: cancel, run: () => settle(null) })];
  const preview = html ? dom.make("div", { class: "nb-preview nb-page", tabindex: 0, role: "group", "aria-label": "What will happen" }) : null;
  if (preview && html) dom.page(preview, html);
  const line = dom.make("div", { class: "nb-confirm-line" }, dom.make("span", { class: "nb-confirm-text", text }), field, ...buttons);
  const element = dom.make("div", { class: "nb-confirm", role: "group", "aria-label": text }, preview, line);
  listen(element, (event) => {
    if (event.key === "Escape") settle(null);
    if (event.key === "Enter" && event.target === field) yes();
    return event.key === "Escape" || (event.key === "Enter" && event.target === field);
  });
  place.replaceChildren(element);
  (field ?? buttons[danger ? 1 : 0]).focus({ preventScroll: true });
  return { answer, drop: () => settle(null) };
}
