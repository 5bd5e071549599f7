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

  /** @param {Pane} pane */
  function tab(pane) {
    const chosen = pane === front();
    const text = (chosen && pane.count()) || String(counts[pane.id] ?? pane.count());
    return dom.make(
      "button",
      { type: "button", role: "tab", class: "nb-tab", "aria-selected": String(chosen), tabindex: chosen ? 0 : -1, "data-pane": pane.id, on: { click: () => turn(pane) } },
      dom.make("span", { text: pane.title }),
      text ? dom.make("span", { class: "nb-tab-count", text }) : null,
    );
  }

  function draw() {
    const focused = element.contains(document.activeElement);
    const made = panes().map(tab);
    if (made.map((each) => each.outerHTML).join() === [...element.children].map((each) => each.outerHTML).join()) return;
    element.replaceChildren(...made);
    if (focused) made[panes().indexOf(front())]?.focus();
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
