/**
 * The tabs of the panes.
 *
 * @typedef {import("./panel.js").Pane} Pane
 */

/**
 * Make the tabs.
 * @param {typeof import("./dom.js")} dom
 * @param {{ panes: () => Pane[], front: () => Pane, turn: (pane: Pane) => void, listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void }} frame
 */
export function tabs(dom, { panes, front, turn, listen }) {
  const element = dom.make("div", { role: "tablist", "aria-label": "Panes", class: "nb-tabs" });
  /** What the kernel says of panes that are not in front. @type {Record<string, string>} */
  let counts = {};

  /** A tab stays the same element: a click on one that is replaced while the mouse is down would be lost. @param {Pane} pane */
  function tab(pane) {
    const count = dom.make("span", { class: "nb-tab-count" });
    const button = dom.make("button", { type: "button", role: "tab", class: "nb-tab", "data-pane": pane.id, on: { click: () => turn(pane) } }, dom.make("span", { text: pane.title }), count);
    return { pane, button, count };
  }

  /** @type {ReturnType<typeof tab>[]} */
  let made = [];

  function draw() {
    if (!made.length) element.replaceChildren(...(made = panes().map(tab)).map(({ button }) => button));
    for (const { pane, button, count } of made) {
      const chosen = pane === front();
      dom.dress(button, { "aria-selected": String(chosen), tabindex: chosen ? 0 : -1 });
      const text = (chosen && pane.count()) || String(counts[pane.id] ?? pane.count());
      if (count.textContent !== text) count.textContent = text;
      count.hidden = !text;
    }
    if (element.contains(document.activeElement)) made[panes().indexOf(front())]?.button.focus();
  }

  listen(element, (event) => {
    const at = panes().indexOf(front()) + { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (event.key)];
    const next = panes()[at];
    if (!next) return false;
    turn(next);
    /** @type {HTMLElement} */ (element.children[at]).focus();
    return true;
  });

  return {
    element, draw,
    /** @param {Record<string, string>} next */
    count: (next) => void (counts = next),
  };
}
