/**
 * The first line of the pane of checkpoints: how many there are, and the form that saves variables.
 *
 * @typedef {{ [name: string]: any }} Message
 */

/**
 * Make the line.
 * @param {import("./panel.js").Frame} frame
 * @param {{ head: () => Message, count: () => number, last: () => import("./checkpoint_rows.js").Checkpoint | undefined, isThere: () => boolean }} pane
 *   `count`: of all rows; `isThere`: whether the list has come
 */
export function saving(frame, pane) {
  const { dom, format, parts } = frame;
  const { heading, seconds } = parts.checkpoint_rows;
  const name = dom.make("input", { class: "nb-input", "aria-label": "Name of the checkpoint", placeholder: "name", size: 14 });
  const label = dom.make("span", { class: "nb-dim", text: "Name" });
  const only = dom.make("input", { class: "nb-input", "aria-label": "Variables to save", placeholder: "variables, all if empty", size: 22, hidden: true });
  const text = dom.make("span", { class: "nb-heading-text" });
  const buttons = dom.make("span", { class: "nb-save-buttons" });
  const element = dom.make("div", { class: "nb-heading" }, text, dom.make("span", { class: "nb-gap" }), dom.make("span", { class: "nb-save" }, label, name, only, buttons));
  for (const field of [name, only])
    field.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), void save()));

  function draw() {
    const { saving: now } = pane.head();
    name.hidden = label.hidden = Boolean(now);
    dom.fill(text, ...(now ? progress(now) : held()));
    dom.refill(buttons, ...(now ? [cancel()] : [saves(), chooses()]));
  }

  /** @param {Message} now */
  function progress({ name: saved, done, total }) {
    return [`Saving ${saved || "all variables"}… ${format.size(done)} of ${format.size(total)} `, dom.progress(total ? done / total : 0, "saved")];
  }

  function held() {
    const last = pane.last();
    if (!pane.isThere()) return ["Waiting for the list…"];
    return [pane.count() ? heading(/** @type {any} */ (pane.head()), last, format) : "", last ? frame.age(seconds(last.saved_at)) : null];
  }

  const cancel = () => dom.button({ label: "Cancel", icon: "close", run: () => void frame.act("save_cancel", []), why: frame.why(), id: "save_cancel" });

  const saves = () => dom.button({
    label: only.hidden || !only.value ? "Save all variables" : "Save these variables", icon: "save", primary: pane.isThere() && !pane.count(),
    run: () => void save(), why: frame.why(), id: "save",
  });

  const chooses = () => dom.button({
    label: only.hidden ? (frame.width === "narrow" ? "Choose…" : "Choose variables…") : "All variables", quiet: true, id: "choose",
    run() {
      only.hidden = !only.hidden;
      only.value = "";
      draw();
      (only.hidden ? name : only).focus();
    },
  });

  async function save() {
    const names = only.hidden ? [] : only.value.split(/[\s,]+/).filter(Boolean);
    if (names.length && !name.value.trim()) return frame.say("First write a name.", "error");
    const answer = await frame.act("save", [], { name: name.value.trim(), names });
    if (answer?.ok) name.value = only.value = "";
  }

  return { element, draw, focus: () => name.focus() };
}
