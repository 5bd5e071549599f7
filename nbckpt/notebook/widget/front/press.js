/** What opens the menu of a row: a right click, the menu key, or a long press with a finger. */

const LONG_MS = 500;
const MOST_PX = 10;

/**
 * Hear right clicks, the menu key and long presses in an element.
 * @param {HTMLElement} element @param {(target: Element) => boolean} open opens a menu there; false: there is none
 * @param {AbortSignal} signal
 */
export function press(element, open, signal) {
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  let from = [0, 0];
  let isLong = false;
  const end = () => clearTimeout(timer);

  /** A browser may tell of a long press as a right click too. @param {Event} event */
  function asked(event) {
    end();
    if (!isLong && !open(/** @type {Element} */ (event.target))) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {PointerEvent} event */
  function began(event) {
    end();
    isLong = false;
    if (event.pointerType !== "touch") return;
    from = [event.clientX, event.clientY];
    timer = setTimeout(() => (isLong = open(/** @type {Element} */ (event.target))), LONG_MS);
  }

  /** @param {PointerEvent} event */
  function moved(event) {
    if (Math.hypot(event.clientX - from[0], event.clientY - from[1]) > MOST_PX) end();
  }

  /** The finger that opened the menu clicks nothing. @param {Event} event */
  function clicked(event) {
    if (!isLong) return;
    isLong = false;
    event.preventDefault();
    event.stopPropagation();
  }

  element.addEventListener("contextmenu", asked);
  element.addEventListener("pointerdown", began);
  element.addEventListener("pointermove", moved);
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("click", clicked, { capture: true });
  signal.addEventListener("abort", end);
}
