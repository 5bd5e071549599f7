/** Dragging a range on a drawing. */

/**
 * Let a range be dragged on a drawing. A drag of less than 4 pixels is a click, and clears nothing.
 * @param {SVGSVGElement} svg
 * @param {{ along: "x" | "y", share: (part: number) => number, done: (from: number, to: number) => void,
 *   starts?: (event: PointerEvent) => boolean }} options
 *   `share`: a part of the drawing's width or height, from 0 to 1, as a place on the axis; `starts`: whether a drag may begin there
 */
export function brushing(svg, { along, share, done, starts = () => true }) {
  const NS = "http://www.w3.org/2000/svg";
  const part = (/** @type {PointerEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    return along === "x" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height;
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !starts(event)) return;
    event.preventDefault();
    const from = part(event);
    const first = along === "x" ? event.clientX : event.clientY;
    const mark = document.createElementNS(NS, "rect");
    mark.setAttribute("class", "nb-brush");
    svg.append(mark);
    svg.setPointerCapture(event.pointerId);
    const size = along === "x" ? svg.viewBox.baseVal.width : svg.viewBox.baseVal.height;
    const move = (/** @type {PointerEvent} */ moved) => {
      const [low, high] = [from, part(moved)].sort((a, b) => a - b);
      const whole = along === "x" ? ["x", "width", "y", "height"] : ["y", "height", "x", "width"];
      mark.setAttribute(whole[0], String(low * size));
      mark.setAttribute(whole[1], String((high - low) * size));
      mark.setAttribute(whole[2], "0");
      mark.setAttribute(whole[3], "100%");
    };
    const end = (/** @type {PointerEvent} */ moved) => {
      svg.removeEventListener("pointermove", move);
      mark.remove();
      const last = along === "x" ? moved.clientX : moved.clientY;
      if (moved.type === "pointerup" && Math.abs(last - first) >= 4) done(share(from), share(part(moved)));
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerup", end, { once: true });
    svg.addEventListener("pointercancel", end, { once: true });
  });
}
