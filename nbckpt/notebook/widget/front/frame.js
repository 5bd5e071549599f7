/**
 * The frame around the panes: tabs, the state of the kernel, the action line, messages, keys.
 *
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./panel.js").Pane} Pane
 * @typedef {import("./panel.js").Message} Message
 * @typedef {import("./panel.js").Width} Width
 * @typedef {import("./grid.js").Options} GridOptions
 */

const SAID_MS = 8000;
const PING_MS = 10000;
const TICK_MS = 15000;

/**
 * What the state line says. Pure.
 * @param {import("./link.js").Standing} standing @param {string} hour when the kernel answered last
 * @param {boolean} [small] below a cell that runs trials: to run it again would start them again
 */
export function stateLine(standing, hour, small = false) {
  if (small && standing === "silent") return `○ No answer since ${hour}. Running another cell? It will go on.`;
  return {
    live: "● Live",
    waiting: "◌ Waiting for the kernel…",
    silent: `○ No answer since ${hour}. Running another cell? It will go on. Restarted? Run this cell again.`,
    gone: `○ Saved view of ${hour}. Run this cell again for buttons.`,
    elsewhere: "● Live in another cell",
    held: "◌ Waits for the running cell.",
  }[standing];
}

/**
 * Why what needs the kernel cannot be done, or "". Pure.
 * @param {import("./link.js").Standing} standing @param {string} hour
 */
export function reason(standing, hour) {
  if (standing === "silent") return `The kernel has not answered since ${hour}.`;
  if (standing === "gone") return "Run this cell again for buttons.";
  return standing === "elsewhere" ? "The panel is live in another cell." : "";
}

/**
 * Build the frame.
 * @param {{ model: import("./link.js").Model, signal: AbortSignal, parts: any, load: (name: string) => Promise<any>,
 *   panes: string[], small?: boolean }} options `small`: one pane without tabs
 */
export function frame({ model, signal, parts, load, panes: names, small = false }) {
  const { dom, format, keys, popups: pops } = /** @type {import("./panel.js").Parts} */ (parts);
  const tabs = dom.make("div", { role: "tablist", "aria-label": "Panes", class: "nb-tabs" });
  const state = dom.make("div", { class: "nb-state", role: "status" });
  const more = dom.button({ label: "More", icon: "more", bare: true, quiet: true, run: () => popups.menu(more, entries()) });
  const body = dom.make("div", { class: "nb-body" });
  const line = dom.make("div", { class: "nb-actions", role: "toolbar", "aria-label": "Actions" });
  const message = dom.make("div", { class: "nb-message", role: "status" });
  const root = dom.make(
    "div",
    { class: `nbckpt nb-panel${small ? " nb-small" : ""}`, role: "region", "aria-label": "nbckpt", "data-lm-suppress-shortcuts": "true" },
    dom.make("div", { class: "nb-top" }, small ? null : tabs, state, small ? null : more),
    body,
    dom.make("div", { class: "nb-foot" }, line, message),
  );

  /** @type {WeakMap<Element, (event: KeyboardEvent) => boolean>} */
  const handlers = new WeakMap();
  /** @param {Element} element @param {(event: KeyboardEvent) => boolean} handler */
  const listen = (element, handler) => void handlers.set(element, handler);
  const popups = pops.popups({ dom, keys, root, listen, signal });
  const link = parts.link.link({ model, signal, heard, changed: () => standingChanged(), inSight: () => inSight });
  /** @type {Record<string, string>} */
  let counts = {};
  /** @type {{ answer: Promise<string | null>, drop: () => void } | null} */
  let asking = null;
  let width = /** @type {Width} */ ("wide");
  let inSight = true;
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  const hour = () => format.hour(link.since());
  /** What needs the kernel is grey while that does not answer. @param {Partial<Action>} action */
  const grey = (action) => ({ ...action, why: action.why || (action.kernel ? why() : "") || undefined });
  const why = () => reason(link.standing(), hour());

  const api = {
    dom,
    format,
    parts: /** @type {import("./panel.js").Parts} */ (parts),
    signal,
    load,
    /** @returns {Width} */
    get width() {
      return width;
    },
    /** @param {GridOptions} options @returns {import("./grid.js").Grid} */
    grid: (options) => parts.grid.grid({ dom, keys, listen, signal, press: parts.press.press }, options),
    /** Hear the keys of an element first. The handler returns whether it used the key. */
    keys: listen,
    live: () => why() === "",
    why,
    /** Ask the kernel for a page. @param {string} of @param {string[]} ids @param {Message} [options] @returns {Promise<Message | null>} */
    ask: (of, ids, options = {}) => link.detail(of, ids, options),
    act,
    deed,
    confirm,
    field,
    say,
    changed,
    follow,
    /** Open a menu of what can be done. @param {HTMLElement} anchor @param {Partial<Action>[]} actions */
    menu: (anchor, actions) => popups.menu(anchor, /** @type {Action[]} */ (actions.filter((action) => action.label).map(grey))),
    /** What was chosen in a pane: metric, columns, split. @param {string} pane @returns {Record<string, any>} */
    choices: (pane) => ({ ...(model.get("chosen") ?? {})[pane] }),
    /** Keep what was chosen, with the notebook. @param {string} pane @param {Record<string, any>} chosen */
    keep: (pane, chosen) => store("chosen", pane, chosen),
    /** Read and keep what has a trait of its own. @param {"sort" | "filter"} trait @param {string} pane */
    kept: (trait, pane) => (model.get(trait) ?? {})[pane],
    /** @param {string} trait @param {string} pane @param {unknown} value */
    store,
    age,
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
    model.set(trait, { ...model.get(trait), [pane]: value });
    model.save_changes();
  }

  /** @param {Message} told @param {DataView[]} buffers */
  function heard(told, buffers) {
    if (told.kind === "said") say(String(told.text), told.tone, { undo: told.undo });
    else if (told.kind === "tabs") counts = told;
    else for (const pane of panes) pane.message(told, buffers);
    changed();
  }

  /** @param {number} at seconds since 1970 */
  function age(at) {
    const element = dom.make("time", { "data-at": at, title: format.moment(at) });
    element.textContent = format.age(at, Date.now() / 1000);
    return element;
  }

  /** Ages stay right by themselves. */
  function tick() {
    for (const element of root.querySelectorAll("time[data-at]"))
      element.textContent = format.age(Number(element.getAttribute("data-at")), Date.now() / 1000);
  }

  /**
   * Say what happened. Success goes by itself, errors stay.
   * @param {string} text @param {"ok" | "error" | "warn" | "plain"} [tone] @param {{ undo?: boolean, html?: string }} [options]
   */
  function say(text, tone = "ok", { undo = false } = {}) {
    clearTimeout(timer);
    const stays = tone === "error" || tone === "warn";
    const sign = { ok: "done", error: "failed", warn: "warn", plain: null }[tone] ?? null;
    dom.fill(
      message,
      text && sign ? dom.icon(/** @type {import("./dom.js").IconName} */ (sign)) : null,
      text ? dom.make("span", { text }) : null,
      undo ? dom.button({ label: "Undo", icon: "undo", run: () => void act("undo", []), why: why(), id: "undo" }) : null,
      text && stays ? dom.button({ label: "Dismiss", icon: "close", bare: true, quiet: true, run: () => say("", "plain") }) : null,
    );
    message.dataset.tone = text ? tone : "";
    if (text && !stays && !undo) timer = setTimeout(() => say("", "plain"), SAID_MS);
  }

  /**
   * Do something in the kernel, and say what came of it. Null: it was cancelled, or the kernel has gone.
   * @param {string} verb @param {string[]} ids @param {Message} [options] @returns {Promise<Message | null>}
   */
  async function act(verb, ids, options = {}) {
    const answer = await link.act(verb, ids, options, front?.id);
    if (answer && !options.dry) say(String(answer.text ?? ""), answer.ok ? "ok" : "error", { undo: answer.undo });
    return answer;
  }

  /**
   * Ask what would happen, let the user decide, then do it.
   * @param {string} verb @param {string[]} ids @param {Message} [options] @param {{ danger?: boolean }} [how]
   */
  async function deed(verb, ids, options = {}, { danger = false } = {}) {
    const plan = await act(verb, ids, { ...options, dry: true });
    if (!plan) return null;
    if (!plan.ok) {
      say(String(plan.text), "error");
      return plan;
    }
    const yes = await confirm({ text: String(plan.text ?? ""), html: plan.html, button: plan.confirm || "Continue", danger });
    return yes ? act(verb, ids, options) : null;
  }

  /** @param {{ text: string, html?: string, button: string, cancel?: string, danger?: boolean }} question */
  async function confirm(question) {
    return (await inLine(question)) !== null;
  }

  /**
   * Ask for a text in place of the action line. Null: it was cancelled.
   * @param {{ text: string, value?: string, button: string }} question @returns {Promise<string | null>}
   */
  function field({ text, value = "", button }) {
    return inLine({ text, button, value });
  }

  /** @param {import("./popups.js").Question} question @returns {Promise<string | null>} */
  async function inLine(question) {
    asking?.drop();
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const mine = (asking = pops.confirm({ dom, listen }, line, question));
    const yes = await mine.answer;
    if (asking === mine) asking = null;
    if (!asking) redrawActions(true);
    if (before?.isConnected) before.focus({ preventScroll: true });
    return yes;
  }

  let drawn = "";
  /** @type {Partial<Action>[]} */
  let actions = [];
  /** Draw the action line, if it has changed. @param {boolean} [anyway] */
  function redrawActions(anyway = false) {
    if (asking || !front) return;
    actions = front.actions().map(grey);
    const now = JSON.stringify(actions);
    if (now === drawn && !anyway) return;
    drawn = now;
    const focused = line.contains(document.activeElement) ? document.activeElement?.getAttribute("data-action") : null;
    dom.fill(line, ...actions.map(actionElement));
    if (focused) /** @type {HTMLElement | null} */ (line.querySelector(`[data-action="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {Partial<Action>} action @param {number} at */
  function actionElement(action, at) {
    if (action.gap) return dom.make("span", { class: "nb-gap" });
    if (action.text !== undefined) return dom.make("span", { class: "nb-quiet-text", text: action.text });
    const label = action.label ?? "";
    return dom.button({ ...action, label, id: action.id ?? label, run: (event) => actions[at]?.run?.(/** @type {HTMLElement} */ (event.currentTarget)) });
  }

  function redrawTabs() {
    if (small) return;
    const focused = tabs.contains(document.activeElement);
    const made = panes.map((pane) => {
      const chosen = pane === front;
      const text = (chosen && pane.count()) || String(counts[pane.id] ?? pane.count());
      return dom.make(
        "button",
        { type: "button", role: "tab", class: "nb-tab", "aria-selected": String(chosen), tabindex: chosen ? 0 : -1, "data-pane": pane.id,
          on: { click: () => turn(pane) } },
        dom.make("span", { text: pane.title }),
        text ? dom.make("span", { class: "nb-tab-count", text }) : null,
      );
    });
    if (made.map((tab) => tab.outerHTML).join() === [...tabs.children].map((tab) => tab.outerHTML).join()) return;
    tabs.replaceChildren(...made);
    if (focused) made[panes.indexOf(front)]?.focus();
  }

  let due = 0;
  /** Have tabs and action line drawn anew, once per frame of the browser. */
  function changed() {
    if (due) return;
    due = requestAnimationFrame(() => {
      due = 0;
      redrawTabs();
      redrawActions();
    });
  }

  let stated = "";
  function standingChanged() {
    const now = link.standing();
    const text = stateLine(now, hour(), small) + (link.waits() ? " +" : "");
    if (text !== stated) {
      stated = text;
      state.dataset.state = now;
      dom.fill(
        state,
        dom.make("span", { text: stateLine(now, hour(), small) }),
        now !== "live" && link.waits() ? dom.button({ label: "Cancel", run: link.cancel }) : null,
        now === "elsewhere" ? dom.button({ label: "Show it here", run: () => void link.tell({ kind: "here" }) }) : null,
      );
      front?.standing?.();
    }
    changed();
  }

  /** @returns {Action[]} */
  const entries = () => [...(front.menu?.() ?? []), { label: "Keys", icon: "keys", run: popups.help }];

  /** Bring a pane to the front. @param {Pane} pane */
  function turn(pane) {
    if (pane === front && body.contains(pane.element)) return;
    asking?.drop();
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
    redrawTabs();
    redrawActions(true);
  }

  /** Tell the kernel what is in sight. */
  function follow() {
    if (!front) return;
    link.tell({ kind: "follow", pane: inSight ? front.id : null, ...front.follow() });
  }

  /** @param {KeyboardEvent} event */
  function pressed(event) {
    const target = /** @type {Element} */ (event.target);
    if (!root.contains(target)) return;
    const handled = hear(target, event);
    if (handled) event.preventDefault();
    if (!keys.leaves(event, handled)) event.stopPropagation();
  }

  /** @param {Element} target @param {KeyboardEvent} event */
  function hear(target, event) {
    for (let at = /** @type {Element | null} */ (target); at && at !== root; at = at.parentElement) if (handlers.get(at)?.(event)) return true;
    const field = target.matches("input:not([type=checkbox], [type=range]), select, textarea, [contenteditable]");
    const name = keys.named(event, field);
    if (!name) return false;
    if (name === "help") return popups.help(), true;
    if (name === "escape") return popups.close() || front.key?.(name, event) || leave();
    if (front.key?.(name, event)) return true;
    if (name === "undo") /** @type {HTMLElement | null} */ (message.querySelector("[data-action=undo]"))?.click();
    return true;
  }

  /** Give the focus back to the cell. */
  function leave() {
    const cell = /** @type {HTMLElement | null} */ (root.closest(".jp-Notebook, .jp-Cell"));
    /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
    cell?.focus({ preventScroll: true });
    return true;
  }

  listen(tabs, (event) => {
    const at = panes.indexOf(front) + { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (event.key)];
    if (!panes[at]) return false;
    turn(panes[at]);
    /** @type {HTMLElement} */ (tabs.children[at]).focus();
    return true;
  });
  window.addEventListener("keydown", pressed, { capture: true, signal });

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
      clearTimeout(timer);
      cancelAnimationFrame(due);
      for (const pane of panes) pane.close?.();
      link.tell({ kind: "follow", pane: null });
    },
  };
}
