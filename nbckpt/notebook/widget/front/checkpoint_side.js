/**
 * What stands beside the list of checkpoints: one checkpoint and how it differs from now, or a comparison of two.
 *
 * @typedef {{ [name: string]: any }} Message
 */

const AGAIN_MS = 2000;
const nothing = () => ({ ref: "", chosen: /** @type {Set<string>} */ (new Set()), now: /** @type {Message | null} */ (null), waits: false });

/**
 * Make the side.
 * @param {import("./panel.js").Frame} frame
 * @param {{ known: Map<string, import("./checkpoint_rows.js").Checkpoint>, isInSight: () => boolean, cover: (on: boolean) => void, trust: () => void }} pane
 *   `cover`: in a narrow panel, show the side over the list
 */
export function side(frame, pane) {
  const { dom, parts } = frame;
  const detail = parts.checkpoint_detail;
  const element = dom.make("div", { class: "nb-detail" });
  /** @type {Map<string, Message>} */
  const details = new Map();
  let shown = nothing();
  /** @type {{ ids: string[], data: Message } | null} */
  let compared = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const labelOf = (/** @type {string} */ ref) => pane.known.get(ref)?.label ?? ref.slice(0, 8);

  /** Show a checkpoint. @param {string} ref */
  function look(ref) {
    if (shown.ref === ref && !compared) return;
    compared = null;
    shown = { ...nothing(), ref };
    draw();
    void read();
    frame.changed();
  }

  function forget() {
    shown = nothing();
    draw();
  }

  async function read() {
    const { ref } = shown;
    if (!ref || frame.why()) return;
    if (!details.has(ref)) {
      const answer = await frame.ask("checkpoint", [ref]);
      if (answer?.data) details.set(ref, { ...answer.data, html: answer.html });
      if (shown.ref !== ref) return;
      if (answer && !answer.data?.ref) details.set(ref, { ref, label: labelOf(ref), trouble: answer.text ?? "it cannot be read", variables: [] });
      draw();
    }
    await compareNow();
  }

  /** Ask how the live variables differ. While a cell uses them, ask again later. */
  async function compareNow() {
    clearTimeout(timer);
    const { ref } = shown;
    if (!pane.isInSight() || !details.get(ref)?.variables?.length || frame.why()) return;
    const answer = await frame.ask("checkpoint", [ref], { now: true });
    if (shown.ref !== ref || !answer?.data) return;
    const waits = Boolean(answer.data.busy);
    if (waits) timer = setTimeout(() => void compareNow(), AGAIN_MS);
    if (waits === shown.waits && JSON.stringify(answer.data.now) === JSON.stringify(shown.now)) return;
    shown.waits = waits;
    shown.now = answer.data.now ?? shown.now;
    draw();
  }

  function draw() {
    if (compared) return dom.fill(element, comparison(compared));
    const data = details.get(shown.ref);
    if (!data) return dom.fill(element, shown.ref ? dom.make("p", { class: "nb-facts", text: frame.why() || "Opening…" }) : null);
    const scroll = element.scrollTop;
    const back = frame.width === "narrow" ? () => pane.cover(false) : null;
    dom.fill(element, detail.checkpoint(frame, { ...data, label: labelOf(shown.ref) }, { ...shown, changed: frame.changed, trust: pane.trust, back }));
    element.scrollTop = scroll;
  }

  /** @param {{ ids: string[], data: Message }} two */
  function comparison({ ids, data }) {
    const back = frame.width === "narrow" ? () => pane.cover(false) : () => void close();
    return detail.comparison(frame, data, labelOf(ids[0]), ids[1] ? labelOf(ids[1]) : "now", back);
  }

  /** Close the comparison, and tell whether there was one. */
  function close() {
    if (!compared) return false;
    compared = null;
    draw();
    return true;
  }

  /** Compare two checkpoints, or the one that is shown with the live variables. @param {string[]} picked */
  async function compare(picked) {
    const ids = [...picked].sort((a, b) => ((pane.known.get(a)?.saved_at ?? "") < (pane.known.get(b)?.saved_at ?? "") ? -1 : 1));
    const wanted = ids.length === 2 ? ids : [shown.ref];
    const answer = await frame.ask("compare", wanted);
    if (!answer?.data?.refs && !answer?.data?.busy) return frame.say(answer?.text ?? "They cannot be compared.", "error");
    compared = { ids: wanted, data: answer.data };
    draw();
    pane.cover(true);
    if (answer.data.busy) setTimeout(() => compared?.data.busy && void compare(picked), AGAIN_MS);
  }

  return {
    element, draw, look, forget, read, compareNow, compare, close, labelOf,
    /** The reference of the checkpoint that is shown, or "". */
    get ref() {
      return shown.ref;
    },
    /** The variables that are ticked in it. */
    get chosen() {
      return shown.chosen;
    },
    /** What is known of the checkpoint that is shown. @returns {Message | undefined} */
    data: () => details.get(shown.ref),
    /** What is known of live variables and signatures may be wrong now. */
    renew() {
      details.delete(shown.ref);
      void read();
    },
    /** Take in that a row has changed. @param {{ ref: string, trusted: boolean }} row */
    take: ({ ref, trusted }) => void (details.get(ref)?.trusted !== trusted && details.delete(ref)),
    stop: () => clearTimeout(timer),
  };
}
