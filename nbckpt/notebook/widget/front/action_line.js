/**
 * The action line: what can be done with what is selected, and the questions that stand in its place.
 *
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./panel.js").Message} Message
 * @typedef {import("./popups.js").Question} Question
 */

/**
 * Make the line.
 * @param {import("./panel.js").Parts} parts
 * @param {{ link: ReturnType<typeof import("./link.js").link>, say: ReturnType<typeof import("./message_line.js").messages>["say"],
 *   listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void, grey: (action: Partial<Action>) => Partial<Action>,
 *   front: () => import("./panel.js").Pane | undefined }} frame
 */
export function actions({ dom, popups }, { link, say, listen, grey, front }) {
  const element = dom.make("div", { class: "nb-actions", role: "toolbar", "aria-label": "Actions" });
  /** @type {{ answer: Promise<string | null>, drop: () => void } | null} */
  let asking = null;
  let drawn = "";
  /** What can be done now. @returns {Partial<Action>[]} */
  const possible = () => front()?.actions().map(grey) ?? [];

  /** Draw the line, if it has changed. @param {boolean} [anyway] */
  function draw(anyway = false) {
    if (asking || !front()) return;
    const shown = possible();
    const now = JSON.stringify(shown);
    if (now === drawn && !anyway) return;
    drawn = now;
    const focused = element.contains(document.activeElement) ? document.activeElement?.getAttribute("data-action") : null;
    dom.fill(element, ...shown.map(part));
    if (focused) /** @type {HTMLElement | null} */ (element.querySelector(`[data-action="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {Partial<Action>} action */
  function part(action) {
    if (action.gap) return dom.make("span", { class: "nb-gap" });
    if (action.text !== undefined) return dom.make("span", { class: "nb-quiet-text", text: action.text });
    const label = action.label ?? "";
    const id = action.id ?? label;
    // It acts on what is selected now: the line may be drawn a moment later.
    const now = () => possible().find((one) => (one.id ?? one.label) === id && !one.why);
    return dom.button({ ...action, label, id, run: (event) => now()?.run?.(/** @type {HTMLElement} */ (event.currentTarget)) });
  }

  /**
   * Do something in the kernel, and say what came of it. Null: it was cancelled, or the kernel has gone.
   * @param {string} verb @param {string[]} ids @param {Message} [options] @returns {Promise<Message | null>}
   */
  async function act(verb, ids, options = {}) {
    const answer = await link.act(verb, ids, options, front()?.id);
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

  /** @param {Question} question */
  async function confirm(question) {
    return (await ask(question)) !== null;
  }

  /**
   * Ask for a text in place of the line. Null: it was cancelled.
   * @param {{ text: string, value?: string, button: string }} question @returns {Promise<string | null>}
   */
  function field({ text, value = "", button }) {
    return ask({ text, button, value });
  }

  /** @param {Question} question @returns {Promise<string | null>} */
  async function ask(question) {
    asking?.drop();
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const mine = (asking = popups.confirm({ dom, listen }, element, question));
    const yes = await mine.answer;
    if (asking === mine) asking = null;
    if (!asking) draw(true);
    if (before?.isConnected) before.focus({ preventScroll: true });
    return yes;
  }

  return { element, draw, act, deed, confirm, field, drop: () => asking?.drop() };
}
