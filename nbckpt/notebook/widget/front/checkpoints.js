/**
 * The pane of checkpoints: the list of what was saved, and its filter. What is in it, and how to bring it back, stand beside.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./checkpoint_rows.js").Checkpoint} Checkpoint
 * @typedef {import("./checkpoint_rows.js").Line} Line
 */

/** @param {import("./panel.js").Frame} frame @returns {import("./panel.js").Pane} */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const { fold, says, family } = parts.checkpoint_rows;
  /** @type {Map<string, Checkpoint>} */
  const known = new Map();
  /** @type {Message} */
  let head = { total: 0, of_trials: 0, size: 0, here: "", undo: "", live: {}, saving: null };
  let isThere = false;
  let over = false;
  let visible = false;
  const filter = { find: "", trials: false, ...frame.kept("filter", "checkpoints") };
  const open = /** @type {Set<string>} */ (new Set());
  const rows = () => [...known.values()].sort((a, b) => (a.saved_at < b.saved_at ? 1 : -1));

  const saving = parts.checkpoint_save.saving(frame, { head: () => head, count: () => known.size, last: () => rows().find((row) => !row.trial), isThere: () => isThere });
  const side = parts.checkpoint_side.side(frame, { known, isInSight: () => visible, cover, trust: () => void deeds.trust() });
  const find = dom.make("input", { class: "nb-input nb-find", type: "search", "aria-label": "Find name, text, variable", placeholder: "Find name, text, variable…" });
  const mine = dom.make("button", { type: "button", class: "nb-chip", on: { click: () => choose(false) } });
  const trials = dom.make("button", { type: "button", class: "nb-chip", on: { click: () => choose(true) } });
  const tools = dom.make("div", { class: "nb-tools" }, find, mine, trials);
  const empty = dom.make("div", { class: "nb-empty", hidden: true });
  const columns = () => parts.checkpoint_columns.columns(frame, () => head.here, unfold);
  const grid = frame.grid({
    label: "Checkpoints",
    role: "treegrid",
    id: (/** @type {Line} */ line) => line.id,
    columns: columns(),
    checks: true,
    attributes,
    onFocus: (/** @type {Line} */ line) => (line.versions ? undefined : side.look(line.row.ref)),
    onOpen: (/** @type {Line} */ line) => (line.versions ? unfold(line) : cover(true)),
    onSelect: () => frame.changed(),
    onMenu: (/** @type {Line} */ line, cell) => line.versions || frame.menu(cell, [...deeds.actions(), ...deeds.menu()]),
    onKey: folds,
  });
  const deeds = parts.checkpoint_deeds.deeds(frame, { known, side, grid, undo: () => head.undo, focus: () => find.focus() });
  const split = dom.make("div", { class: "nb-split" }, dom.make("div", { class: "nb-list" }, grid.element), side.element);
  const element = dom.make("div", { class: "nb-checkpoints" }, saving.element, deeds.form, tools, empty, split);

  grid.element.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (frame.width === "narrow" && target.closest(".nb-row:not(.nb-head, .nb-folded)") && !target.closest(".nb-check")) cover(true);
  });
  find.value = filter.find;
  find.addEventListener("input", () => search(find.value.trim()));

  /** @param {Line} line @returns {Record<string, string>} */
  function attributes(line) {
    const isHere = line.row.ref === head.here && !line.versions;
    return {
      class: `${isHere ? "nb-now" : ""}${line.inside ? " nb-inside" : ""}${line.versions ? " nb-folded" : ""}`,
      "aria-level": line.inside ? "2" : "1",
      ...(line.versions ? { "aria-expanded": String(line.open) } : {}),
    };
  }

  /** @param {KeyboardEvent} event @param {Line} line */
  function folds(event, line) {
    const isFold = line.versions && ((event.key === "ArrowRight" && !line.open) || (event.key === "ArrowLeft" && line.open));
    if (isFold) unfold(line);
    return Boolean(isFold);
  }

  /** @param {Line} line */
  function unfold(line) {
    const name = family(line.row);
    open.has(name) ? open.delete(name) : open.add(name);
    draw();
  }

  function keep() {
    frame.store("filter", "checkpoints", filter);
    draw();
  }

  /** @param {boolean} ofTrials */
  function choose(ofTrials) {
    filter.trials = ofTrials;
    keep();
  }

  /** @param {string} text */
  function search(text) {
    filter.find = text;
    if (find.value.trim() !== text) find.value = text;
    keep();
  }

  function draw() {
    const own = rows().filter((row) => Boolean(row.trial) === filter.trials);
    const some = filter.find ? own.filter((row) => says(row, filter.find)) : own;
    const lines = fold(some, filter.find ? new Set(some.map(family)) : open);
    grid.rows(lines);
    dom.fill(mine, `Mine ${format.whole(head.total)}`);
    dom.fill(trials, `From trials ${format.whole(head.of_trials)}`);
    mine.setAttribute("aria-pressed", String(!filter.trials));
    trials.setAttribute("aria-pressed", String(filter.trials));
    tools.hidden = isThere && known.size === 0;
    saving.draw();
    drawEmpty(own.length, some.length);
    lookAtFirst(lines);
    frame.changed();
  }

  /** Show the first checkpoint beside the list, if none is shown. @param {Line[]} lines */
  function lookAtFirst(lines) {
    const isGone = side.ref && !known.has(side.ref);
    const first = lines.find((line) => !line.versions);
    if (visible && (!side.ref || isGone) && first) side.look(first.row.ref);
    else if (isGone) side.forget();
  }

  /** @param {number} all @param {number} found */
  function drawEmpty(all, found) {
    empty.hidden = !isThere || found > 0;
    split.hidden = !empty.hidden;
    if (visible) frame.tall(empty.hidden || known.size > 0);
    if (empty.hidden) return;
    const said = (/** @type {string} */ text) => dom.make("p", { text });
    if (all) dom.fill(empty, said(`No checkpoint matches “${filter.find}”.`), dom.button({ label: "Clear", run: () => search(""), id: "clear" }));
    else if (filter.trials) dom.fill(empty, said("No trial has saved a checkpoint yet. A trial saves one with each report that carries one, or when you press Save checkpoint."));
    else dom.fill(empty, said("Nothing saved yet. Saving keeps your variables when the kernel dies: write a name, and press Save all variables."), live());
  }

  /** How much there is to save. */
  function live() {
    const { count, size } = head.live ?? {};
    const about = size ? `, about ${format.size(size)} of arrays and tables` : "";
    return count ? dom.make("p", { class: "nb-dim", text: `${format.count(count, "variable")} now${about}.` }) : null;
  }

  /** In a narrow panel, show the detail over the list. @param {boolean} on */
  function cover(on) {
    over = on;
    split.dataset.shows = frame.width === "narrow" ? (over ? "detail" : "list") : "";
    element.classList.toggle("nb-covered", split.dataset.shows === "detail");
    if (over) side.draw();
  }

  /** @param {Message} message */
  function heard(message) {
    if (message.kind !== "checkpoints") return;
    isThere = true;
    const { rows: changed, gone, from, reset, ...rest } = message;
    head = rest;
    if (reset && from === 0) known.clear();
    for (const ref of gone ?? []) known.delete(ref);
    for (const row of changed ?? []) {
      known.set(row.ref, row);
      side.take(row);
    }
    draw();
    if (visible && changed?.length && !reset) void side.compareNow();
  }

  /** @param {string} key */
  function pressed(key) {
    const ids = deeds.picked();
    if (key === "find") return find.focus(), true;
    if (key === "compare" && (ids.length === 2 || side.ref)) return void side.compare(ids.length === 2 ? ids : [side.ref]), true;
    if (key === "delete" && (side.ref || ids.length)) return void deeds.remove(), true;
    if (key === "checkpoint") return saving.focus(), true;
    return key === "escape" && leave();
  }

  function leave() {
    if (deeds.close() || side.close()) return true;
    if (over && frame.width === "narrow") return cover(false), grid.goto(side.ref), true;
    if (filter.find) return search(""), true;
    return grid.selected.size > 0 && (grid.select([]), true);
  }

  return {
    id: "checkpoints",
    title: "Checkpoints",
    element,
    count: () => (isThere ? format.whole(head.total) : ""),
    follow: () => ({}),
    message: heard,
    actions: () => (split.hidden ? [] : deeds.actions()),
    menu: deeds.menu,
    key: pressed,
    shown() {
      visible = true;
      draw();
      void side.read();
    },
    standing: () => (saving.draw(), side.draw()),
    hidden: () => ((visible = false), side.stop()),
    resized() {
      grid.columns(columns());
      saving.draw();
      cover(over);
      side.draw();
    },
    close: side.stop,
  };
}
