/**
 * What can be done with checkpoints: the action line, the menu, and a form for what needs a name or a file.
 *
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./checkpoint_rows.js").Checkpoint} Checkpoint
 */

/**
 * Make the deeds.
 * @param {import("./panel.js").Frame} frame
 * @param {{ known: Map<string, Checkpoint>, side: ReturnType<typeof import("./checkpoint_side.js").side>, grid: import("./grid.js").Grid,
 *   undo: () => string, focus: () => void }} pane `undo`: what Undo takes back, or ""; `focus`: where the focus goes after the form
 */
export function deeds(frame, { known, side, grid, undo, focus }) {
  const { dom, format, parts } = frame;
  const { listed } = parts.checkpoint_rows;
  const form = dom.make("form", { class: "nb-tools nb-form", hidden: true });

  /** The references of the ticked rows. */
  const picked = () => [...grid.selected].filter((id) => known.has(id));

  async function trust() {
    const answer = await frame.deed("trust", [side.ref]);
    if (answer?.ok) side.renew();
  }

  /** Restore in two steps. Variables that share data with chosen ones can come along. */
  async function restore() {
    const { ref, chosen } = side;
    const names = [...chosen];
    const plan = await frame.act("restore", [ref], { dry: true, names });
    if (!plan) return;
    if (!plan.ok) return frame.say(String(plan.text), "error");
    const also = /** @type {string[]} */ (plan.data?.also ?? []);
    if (also.length && names.length && (await frame.confirm({ text: `Also restore ${listed(also)}? ${also.length > 1 ? "They share" : "It shares"} data with ${listed(names)}.`, button: `With ${listed(also, 3)}`, cancel: `Only ${listed(names, 3)}` }))) {
      for (const each of also) chosen.add(each);
      return restore();
    }
    if (!(await frame.confirm({ text: String(plan.text), button: plan.confirm || "Restore" }))) return;
    await frame.act("restore", [ref], { names });
    side.renew();
  }

  async function remove() {
    const answer = await frame.deed("delete", picked().length ? picked() : [side.ref], {}, { danger: true });
    if (answer?.ok) grid.select([]);
  }

  /** Ask for one text in a form. @param {string} label @param {string} placeholder @param {string} button @param {(text: string) => Promise<unknown>} run */
  function ask(label, placeholder, button, run) {
    const field = dom.make("input", { class: "nb-input", "aria-label": label, placeholder, size: 28 });
    const close = () => ((form.hidden = true), focus());
    form.onsubmit = (event) => {
      event.preventDefault();
      void run(field.value.trim()).then(() => (form.hidden = true));
    };
    dom.fill(form, dom.make("label", {}, `${label} `, field), dom.make("button", { type: "submit", class: "nb-button", text: button }), dom.button({ label: "Cancel", run: close }));
    form.hidden = false;
    field.focus();
  }

  /** What stands at the right of the line. @param {number} count of selected rows @param {boolean} erases @returns {Partial<Action>[]} */
  function apart(count, erases) {
    const takeBack = { label: "Undo", icon: /** @type {const} */ ("undo"), run: () => void frame.act("undo", []).then(side.renew), kernel: true, title: `Undo the ${undo()}`, id: "undo-last" };
    const erase = { label: count > 1 ? `Delete ${count}…` : "Delete…", icon: /** @type {const} */ ("trash"), run: () => void remove(), kernel: true, id: "delete" };
    return [{ gap: true }, ...(undo() ? [takeBack] : []), ...(erases ? [erase] : [])];
  }

  /** @returns {Partial<Action>[]} */
  function actions() {
    const ids = picked();
    const row = known.get(side.ref);
    if (ids.length > 1) return several(ids);
    if (row) return one(row);
    return undo() ? apart(0, false) : [{ text: known.size ? "Click a row to see what is in it." : "" }];
  }

  /** @param {string[]} ids @returns {Partial<Action>[]} */
  const several = (ids) => [
    { text: `${ids.length} selected` },
    { label: "Compare", icon: "compare", primary: true, run: () => void side.compare(ids), kernel: true, why: ids.length > 2 ? "Select two to compare them." : "", id: "compare" },
    { label: "Clear", run: () => grid.select([]), id: "clear-selection" },
    ...apart(ids.length, true),
  ];

  /** @param {Checkpoint} row @returns {Partial<Action>[]} */
  function one(row) {
    const { size } = side.chosen;
    const number = side.data()?.variables?.length ?? row.count;
    const many = size || number;
    const why = row.trouble ? "It is damaged." : row.trusted ? "" : "Saved by someone else: press Trust it… first.";
    return [
      { text: size ? `${row.label}: ${size} of ${format.count(number, "variable")}` : row.label },
      { label: many ? `Restore ${size ? "" : "all "}${format.count(many, "variable")}…` : "Restore…", icon: "restore", primary: true, run: () => void restore(), kernel: true, why, id: "restore" },
      { label: "Show differences", icon: "compare", run: () => void side.compare([side.ref]), kernel: true, why: row.trouble ? "It is damaged." : "", title: "Compare it with the live variables", id: "differences" },
      ...apart(1, true),
    ];
  }

  /** @returns {Action[]} */
  function menu() {
    const one = known.has(side.ref) ? side.labelOf(side.ref) : "";
    const why = frame.why() || undefined;
    const none = why || (one ? undefined : "Click a row first.");
    return [
      { label: one ? `Name ${one}…` : "Name it…", icon: "name", why: none, run: () => ask(`One more name for ${one}`, "name", "Name it", (text) => frame.act("tag", [side.ref], { name: text })) },
      { label: "Write it to a file…", icon: "save", why: none, run: () => ask(`Write ${one} to`, "cleaned.ckpt", "Write file", (text) => frame.act("export", [side.ref], { file: text })) },
      { label: "Import a file…", icon: "add", why, run: () => ask("Import from", "cleaned.ckpt", "Import", (text) => frame.act("import", [], { file: text })) },
      { label: "Verify all data", icon: "done", why, run: () => (frame.say("Reading all data…", "plain"), void frame.act("verify", [])) },
      { label: "Free space…", icon: "trash", why, run: () => void frame.deed("free", [], {}, { danger: true }) },
    ];
  }

  /** Close the form, and tell whether it was open. */
  const close = () => !form.hidden && (form.hidden = true);

  return { form, picked, actions, menu, trust, remove, close };
}
