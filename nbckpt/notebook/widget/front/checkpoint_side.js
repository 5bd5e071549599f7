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
  /** @type {{ base: string, ids: string[], data: Message } | null} */
  let compared = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const labelOf = (/** @type {string} */ ref) => pane.known.get(ref)?.label ?? ref.slice(0, 8);

  /** Show a checkpoint. @param {string} ref */
  function look(ref) {
    if (shown.ref === ref && !compared) return;
    compared = null;
    shown = { ...nothing(), ref };
    element.replaceChildren();
    drawn = "";
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

  let drawn = "";
  /** What differs once the side may look different. */
  const signature = () => JSON.stringify([compared, frame.width, frame.why(), { ...shown, chosen: [...shown.chosen] }, details.get(shown.ref), labelOf(shown.ref)]);

  /** Draw the side, if it has changed: what someone reads stays open. */
  function draw() {
    if (signature() === drawn) return;
    drawn = signature();
    dom.keeping(element, () => dom.fill(element, compared ? comparison(compared) : content()));
  }

  function content() {
    const data = details.get(shown.ref);
    if (!data) return shown.ref ? dom.make("p", { class: "nb-facts", text: frame.why() || "Opening…" }) : null;
    const back = frame.width === "narrow" ? () => pane.cover(false) : null;
    return detail.checkpoint(frame, { ...data, label: labelOf(shown.ref) }, { ...shown, changed: ticked, trust: pane.trust, back });
  }

  /** The boxes show by themselves which variables are chosen. */
  function ticked() {
    drawn = signature();
    frame.changed();
  }

  /** @param {NonNullable<typeof compared>} two */
  function comparison({ base, ids, data }) {
    const back = frame.width === "narrow" ? () => pane.cover(false) : () => void close();
    return detail.comparison(frame, data, labelOf(ids[0]), ids[1] ? labelOf(ids[1]) : "now", { back, against: against(base, ids) });
  }

  /** The choice of what a checkpoint is compared with: what is live, or another one. @param {string} base @param {string[]} ids */
  function against(base, ids) {
    const other = ids.find((id) => id !== base) ?? "";
    const others = parts.checkpoint_rows.rivals([...pane.known.values()], base).map(({ ref }) => ref);
    const listed = other && !others.includes(other) ? [other, ...others] : others;
    const choices = [{ value: "", text: "what is live now" }, ...listed.map((value) => ({ value, text: labelOf(value) }))];
    return dom.make("label", {}, "Against ", dom.select(`Compare ${labelOf(base)} against`, choices, other, (ref) =>
      void compare(ref ? [base, ref] : [base]).then(() => /** @type {HTMLElement | null} */ (element.querySelector("select"))?.focus())));
  }

  /** Close the comparison, and tell whether there was one. */
  function close() {
    if (!compared) return false;
    compared = null;
    draw();
    return true;
  }

  /** Compare two checkpoints, or one with the live variables. @param {string[]} picked the first is the one to compare */
  async function compare(picked) {
    const [base] = picked;
    const ids = [...picked].sort((a, b) => ((pane.known.get(a)?.saved_at ?? "") < (pane.known.get(b)?.saved_at ?? "") ? -1 : 1));
    const answer = await frame.ask("compare", ids);
    if (!answer?.data?.refs && !answer?.data?.busy) return frame.say(answer?.text ?? "They cannot be compared.", "error");
    compared = { base, ids, data: answer.data };
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
