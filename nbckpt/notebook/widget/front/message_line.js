/** The line of messages: what happened, with Undo. Success goes by itself, errors stay. */

const SAID_MS = 8000;
const SIGNS = /** @type {Record<string, import("./dom.js").IconName>} */ ({ ok: "done", error: "failed", warn: "warn" });

/**
 * Make the line.
 * @param {typeof import("./dom.js")} dom @param {{ why: () => string, undo: () => void }} frame
 */
export function messages(dom, { why, undo: takeBack }) {
  const element = dom.make("div", { class: "nb-message", role: "status" });
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  /**
   * Say what happened.
   * @param {string} text @param {"ok" | "error" | "warn" | "plain"} [tone] @param {{ undo?: boolean }} [options]
   */
  function say(text, tone = "ok", { undo = false } = {}) {
    clearTimeout(timer);
    const stays = tone === "error" || tone === "warn";
    dom.fill(
      element,
      text && SIGNS[tone] ? dom.icon(SIGNS[tone]) : null,
      text ? dom.make("span", { text }) : null,
      undo ? dom.button({ label: "Undo", icon: "undo", run: takeBack, why: why(), id: "undo" }) : null,
      text && stays ? dom.button({ label: "Dismiss", icon: "close", bare: true, quiet: true, run: () => say("", "plain") }) : null,
    );
    element.dataset.tone = text ? tone : "";
    if (text && !stays && !undo) timer = setTimeout(() => say("", "plain"), SAID_MS);
  }

  return {
    element, say,
    /** Press the Undo of the message that stands there. */
    undo: () => /** @type {HTMLElement | null} */ (element.querySelector("[data-action=undo]"))?.click(),
    close: () => clearTimeout(timer),
  };
}
