/** Dragging a range on a drawing. */

const NS = "http://www.w3.org/2000/svg";
const LEAST_PX = 4;

/**
 * Let a range be dragged on a drawing. A drag of less than 4 pixels is a click.
 * @param {SVGSVGElement} svg
 * @param {{ along: "x" | "y", share: (part: number) => number, done: (from: number, to: number) => void,
 *   clicked?: (at: number) => void, starts?: (event: PointerEvent) => boolean }} options
 *   `share`: a part of the drawing's width or height, from 0 to 1, as a place on the axis; `starts`: whether a drag may begin there
 */
export function brushing(svg, { along, share, done, clicked = () => {}, starts = () => true }) {
  const [place, size, across, wide] = along === "x" ? ["x", "width", "y", "height"] : ["y", "height", "x", "width"];
  const part = (/** @type {PointerEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    return along === "x" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height;
  };
  const pixel = (/** @type {PointerEvent} */ event) => (along === "x" ? event.clientX : event.clientY);

  /** @param {PointerEvent} event */
  function began(event) {
    if (event.button !== 0 || !starts(event)) return;
    event.preventDefault();
    const [from, first] = [part(event), pixel(event)];
    const mark = document.createElementNS(NS, "rect");
    mark.setAttribute("class", "nb-brush");
    svg.append(mark);
    svg.setPointerCapture(event.pointerId);
    const over = new AbortController();
    svg.addEventListener("pointermove", (moved) => draw(mark, from, part(moved)), { signal: over.signal });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"]))
      svg.addEventListener(name, (ended) => {
        over.abort();
        mark.remove();
        if (name !== "pointerup") return;
        if (Math.abs(pixel(ended) - first) >= LEAST_PX) done(share(from), share(part(ended)));
        else clicked(share(part(ended)));
      }, { signal: over.signal });
  }

  /** @param {SVGRectElement} mark @param {number} from @param {number} to */
  function draw(mark, from, to) {
    const whole = svg.viewBox.baseVal[/** @type {"width" | "height"} */ (size)];
    const [low, high] = [from, to].sort((a, b) => a - b);
    mark.setAttribute(place, String(low * whole));
    mark.setAttribute(size, String((high - low) * whole));
    mark.setAttribute(across, "0");
    mark.setAttribute(wide, "100%");
  }

  svg.addEventListener("pointerdown", began);
}
