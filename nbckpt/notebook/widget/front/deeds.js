/**
 * What can be done with trials: the action line, and the same by keys.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {import("./panel.js").Action} Action
 */

const OVER = new Set(["done", "failed", "stopped", "interrupted"]);

/**
 * Why a deed cannot be done with trials now, or "". Pure.
 * @param {string} verb @param {Trial[]} rows
 */
export function hindrance(verb, rows) {
  const able = /** @type {Record<string, (row: Trial) => boolean>} */ ({
    pause: (row) => row.status === "running" || row.status === "waiting",
    stop: (row) => !OVER.has(row.status),
    checkpoint: (row) => row.status === "running",
    resume: (row) => row.status === "paused" || row.status === "interrupted" || row.status === "stopped",
    retry: (row) => row.status === "failed",
    restore: (row) => row.saved !== null && row.saved !== undefined,
  })[verb];
  if (!able || rows.some(able)) return "";
  const one = rows[0]?.id ?? "";
  const many = rows.length > 1;
  if (verb === "restore") return many ? "They have no checkpoint" : `${one} has no checkpoint`;
  if (verb === "resume") return many ? "None is paused" : `${one} is not paused`;
  if (verb === "retry") return many ? "None failed" : `${one} has not failed`;
  if (rows.every((row) => OVER.has(row.status))) return many ? "They have ended" : `${one} has ended`;
  return many ? "None is running" : `${one} is not running`;
}

/**
 * The deeds of a pane of trials.
 * @param {import("./panel.js").Frame} frame
 * @param {{ known: { rows: Map<string, Trial> }, ids: () => string[], focused: () => string | undefined, best: () => string | undefined,
 *   visible: () => number, filtered: () => boolean, unfilter: () => void, clear: () => void, open: (id: string) => void,
 *   compare: (ids: string[]) => void, note: (id: string) => void, act: (verb: string, ids: string[]) => Promise<unknown>,
 *   deed: (verb: string, ids: string[], how?: { danger?: boolean }) => Promise<unknown> }} pane
 */
export function deeds(frame, pane) {
  const { format } = frame;
  /** @param {string[]} ids @returns {Trial[]} */
  const rowsOf = (ids) => /** @type {Trial[]} */ (ids.map((id) => pane.known.rows.get(id)).filter(Boolean));
  /** What a key acts on: the selection, else the row with the focus. */
  const meant = () => (pane.ids().length ? pane.ids() : [pane.focused() ?? ""].filter(Boolean));

  /** @param {string} verb @param {string} label @param {import("./dom.js").IconName} icon @param {string[]} ids @param {boolean} [asks] @returns {Action} */
  const able = (verb, label, icon, ids, asks = false) => ({
    label, icon, id: verb, kernel: true, why: hindrance(verb, rowsOf(ids)),
    run: () => void (asks ? pane.deed(verb, ids, { danger: verb === "stop" }) : pane.act(verb, ids)),
  });

  /** @param {string[]} ids @returns {Partial<Action>[]} */
  function possible(ids) {
    const rows = rowsOf(ids);
    const [first] = ids;
    const best = pane.best();
    const pair = ids.length > 1 ? ids : best && best !== first ? [best, first] : [];
    const again = rows.every((row) => row.status === "failed") ? able("retry", "Retry", "retry", ids, true) : able("resume", "Resume", "resume", ids);
    return [
      { text: `${format.whole(ids.length)} selected: ${ids.slice(0, 3).join(", ")}${ids.length > 3 ? ` +${ids.length - 3}` : ""}` },
      { label: "Show", icon: "show", id: "show", why: ids.length > 1 ? "Select one trial" : "", run: () => pane.open(first) },
      { label: ids.length > 1 ? "Compare" : "Compare with best", icon: "compare", id: "compare", why: pair.length < 2 ? "This is the best: select another one too" : pair.length > 6 ? "Select at most 6" : "", run: () => pane.compare(pair) },
      able("pause", "Pause", "paused", ids),
      again,
      able("checkpoint", "Save checkpoint", "save", ids),
      { ...able("restore", "Restore…", "restore", ids, true), ...(ids.length > 1 ? { why: "Select one trial" } : {}) },
      { label: "Note…", icon: "note", id: "note", kernel: true, why: ids.length > 1 ? "Select one trial" : "", run: () => pane.note(first) },
      { label: "Clear", id: "clear", run: pane.clear },
      { gap: true },
      able("stop", "Stop…", "stopped", ids, true),
    ];
  }

  /** The first two buttons, and a menu for the others. @param {Partial<Action>[]} all @returns {Partial<Action>[]} */
  function shortened(all) {
    return [...all.slice(0, 3), { label: "More", icon: "down", id: "more", run: (button) => frame.menu(button, all.slice(3)) }];
  }

  /** @returns {Partial<Action>[]} */
  function nothing() {
    const rows = [...pane.known.rows.values()];
    const running = rows.filter((row) => row.status === "running").map((row) => row.id);
    const paused = rows.filter((row) => row.status === "paused").map((row) => row.id);
    const made = /** @type {Partial<Action>[]} */ ([]);
    if (pane.filtered()) made.push({ text: `${format.whole(pane.visible())} of ${format.whole(rows.length)}` }, { label: "Clear filters", id: "unfilter", run: pane.unfilter });
    if (running.length) made.push({ text: `All ${running.length} running:` }, able("checkpoint", "Save checkpoints", "save", running));
    if (paused.length) made.push(able("resume", `Resume ${paused.length}`, "resume", paused));
    if (running.length) made.push({ gap: true }, able("stop", `Stop ${running.length}…`, "stopped", running, true));
    return made.length ? made : [{ text: "Select trials to compare or to act on them." }];
  }

  const keyed = /** @type {Record<string, [string, boolean]>} */ ({ pause: ["pause", false], resume: ["resume", false], checkpoint: ["checkpoint", false] });

  return {
    filtered: pane.filtered,
    actions() {
      const ids = pane.ids();
      if (!ids.length) return nothing();
      return frame.width === "narrow" ? shortened(possible(ids)) : possible(ids);
    },
    /** What can be done with a row, or with the selection if it is part of that. @param {string} id */
    menu: (id) => possible(pane.ids().includes(id) ? pane.ids() : [id]).filter((action) => action.id !== "clear" || pane.ids().length > 0),
    /** @param {string} name @returns {boolean} */
    key(name) {
      const ids = meant();
      if (name === "compare") return pressed("compare");
      if (!keyed[name] || !ids.length) return false;
      const why = frame.why() || hindrance(name, rowsOf(ids));
      if (why) frame.say(`${why}.`, "warn");
      else void pane.act(name, ids);
      return true;
    },
  };

  /** @param {string} id */
  function pressed(id) {
    const ids = meant();
    const action = possible(ids).find((each) => each.id === id);
    if (action?.why) frame.say(`${action.why}.`, "plain");
    else if (ids.length) action?.run?.(frame.root);
    return true;
  }
}
