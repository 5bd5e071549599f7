/**
 * The line at the right of the tabs: whether the kernel answers, and what to do if it does not.
 *
 * @typedef {import("./link.js").Standing} Standing
 */

/**
 * What the state line says. Pure.
 * @param {Standing} standing @param {string} hour when the kernel answered last
 * @param {boolean} [small] below a cell that runs trials: to run it again would start them again
 */
export function stateLine(standing, hour, small = false) {
  if (small && standing === "silent") return `○ No answer since ${hour}. Running another cell? It will go on.`;
  return {
    live: "● Live",
    waiting: "◌ Waiting for the kernel…",
    silent: `○ No answer since ${hour}. Running another cell? It will go on. Restarted? Run this cell again.`,
    gone: `○ Saved view of ${hour}. Run this cell again for buttons.`,
    held: "◌ Waits for the running cell.",
  }[standing];
}

/**
 * Why what needs the kernel cannot be done, or "". Pure.
 * @param {Standing} standing @param {string} hour
 */
export function reason(standing, hour) {
  if (standing === "silent") return `The kernel has not answered since ${hour}.`;
  if (standing === "gone") return "Run this cell again for buttons.";
  return "";
}

/**
 * Make the line.
 * @param {typeof import("./dom.js")} dom @param {ReturnType<typeof import("./link.js").link>} link
 * @param {{ hour: () => string, small: boolean }} frame
 */
export function line(dom, link, { hour, small }) {
  const element = dom.make("div", { class: "nb-state", role: "status" });
  let drawn = "";
  return {
    element,
    /** Draw the line, and tell whether it differs from before. */
    draw() {
      const now = link.standing();
      const text = stateLine(now, hour(), small);
      const next = `${text} ${link.waits()}`;
      if (next === drawn) return false;
      drawn = next;
      element.dataset.state = now;
      dom.fill(
        element,
        dom.make("span", { text }),
        now !== "live" && link.waits() ? dom.button({ label: "Cancel", run: link.cancel }) : null,
      );
      return true;
    },
  };
}
