/**
 * The pane of history: the states after each cell, what changed between them, and the way back.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./lanes.js").State} State
 * @typedef {import("./lanes.js").Line} Line
 */

/** @param {Frame} frame @returns {import("./panel.js").Pane} */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const { tree, label, matches, variables, isFold } = parts.lanes;
  /** @type {Map<string, State>} */
  const known = new Map();
  /** @type {Message} */
  let head = { on: false, here: "", total: 0, size: 0, missed: 0, running: null, failed: [], undo: false, live: {} };
  let isThere = false;
  const open = /** @type {Set<string>} */ (new Set());
  const filter = { find: "", variable: "", ...frame.kept("filter", "history") };
  /** @type {{ ref: string, data: Message | null }} */
  let shown = { ref: "", data: null };
  /** How the state that is shown differs from now. @type {Message | null} */
  let compared = null;
  let over = false;
  let visible = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const headline = dom.make("div", { class: "nb-heading" });
  const find = dom.make("input", { class: "nb-input nb-find", type: "search", "aria-label": "Find code or variable", placeholder: "Find code or variable…" });
  const picker = dom.make("span", {});
  const tools = dom.make("div", { class: "nb-tools" }, find, picker);
  const form = dom.make("form", { class: "nb-tools nb-form", hidden: true });
  const empty = dom.make("div", { class: "nb-empty", hidden: true });
  const side = dom.make("div", { class: "nb-detail" });
  let grid = made();
  const list = dom.make("div", { class: "nb-list" }, grid.element);
  const split = dom.make("div", { class: "nb-split" }, list, side);
  const element = dom.make("div", { class: "nb-history" }, headline, tools, form, empty, split);

  find.value = filter.find;
  find.addEventListener("input", () => filterBy({ find: find.value.trim() }));

  /** @param {Partial<typeof filter>} change */
  function filterBy(change) {
    frame.store("filter", "history", Object.assign(filter, change));
    draw();
  }

  function made() {
    const table = frame.grid({
      label: "States of the notebook",
      role: "treegrid",
      id: (/** @type {Line} */ line) => line.id,
      columns: parts.history_columns.columns(frame, { known, here: () => head.here, unfold, variable: () => filter.variable }),
      rowHeight: parts.history_columns.rowHeight(frame),
      attributes: marks,
      onFocus: (/** @type {Line} */ line) => (line.type === "state" ? look(line.row.ref) : undefined),
      onOpen: (/** @type {Line} */ line) => (line.type === "state" ? cover(true) : isFold(line) ? unfold(line) : undefined),
      onSelect: () => frame.changed(),
      onMenu: (/** @type {Line} */ line, cell) => (line.type === "state" ? frame.menu(cell, actions()) : undefined),
      onKey: folded,
    });
    table.element.addEventListener("click", clicked);
    return table;
  }

  /** How a row is marked: as the present state, at its level, open or folded. @param {Line} line @returns {Record<string, string>} */
  function marks(line) {
    return {
      class: `nb-line-${line.type}${line.row.ref === head.here ? " nb-present" : ""}`,
      "aria-level": String(line.lane + 1),
      ...(isFold(line) ? { "aria-expanded": String(line.open) } : {}),
    };
  }

  /** Fold and unfold by keys. @param {KeyboardEvent} event @param {Line} line @returns {boolean} whether it was one of ours */
  function folded(event, line) {
    const folds = isFold(line) && ((event.key === "ArrowRight" && !line.open) || (event.key === "ArrowLeft" && line.open));
    if (folds) unfold(line);
    return Boolean(folds);
  }

  /** @param {Event} event */
  function clicked(event) {
    const row = /** @type {Element} */ (event.target).closest(".nb-row.nb-line-state");
    if (frame.width === "narrow" && row) cover(true);
  }

  /** @param {Line} line */
  function unfold(line) {
    const { ref } = line.row;
    open.has(ref) ? open.delete(ref) : open.add(ref);
    draw();
  }

  function draw() {
    const lines = linesNow();
    grid.rows(lines);
    drawHeading();
    drawEmpty(lines.length);
    drawPicker();
    lookAgain(lines);
    frame.changed();
  }

  /** The states that pass the filter, newest first; without a filter, the tree of all. @returns {Line[]} */
  function linesNow() {
    if (!isFiltered()) return [...parts.lanes.linesAbove(/** @type {any} */ (head)), ...tree(known, head.here, open)];
    return [...known.values()].filter((row) => matches(row, filter.find, filter.variable)).sort((a, b) => (a.saved_at < b.saved_at ? 1 : -1)).map(flat);
  }

  /** Show the details of the state that was shown; if it has gone, of the present one. @param {Line[]} lines */
  function lookAgain(lines) {
    const ref = [shown.ref, head.here].find((each) => known.has(each)) ?? lines.find(({ type }) => type === "state")?.row.ref;
    if (visible && ref && ref !== shown.ref) look(ref);
  }

  /** @param {State} row @returns {Line} */
  const flat = (row) => ({ id: row.ref, type: "state", row, lane: 0, lanes: [], joins: [], onWay: parts.lanes.way(known, head.here).includes(row), states: [], open: false, tip: true, root: true });

  function drawHeading() {
    dom.fill(headline, ...parts.history_top.heading(frame, head, known, isThere));
    headline.hidden = isThere && !known.size;
  }

  /** @param {number} number */
  function drawEmpty(number) {
    empty.hidden = !isThere || number > 0;
    split.hidden = !empty.hidden;
    if (visible) frame.tall(empty.hidden || known.size > 0);
    tools.hidden = isThere && !known.size;
    if (!empty.hidden) dom.fill(empty, ...parts.history_top.empty(frame, head, known.size > 0, unfilter));
  }

  /** Forget the filter, and tell whether there was one. */
  function unfilter() {
    const was = isFiltered();
    find.value = "";
    if (was) filterBy({ find: "", variable: "" });
    return was;
  }
  const isFiltered = () => Boolean(filter.find || filter.variable);

  let offered = "";
  function drawPicker() {
    const names = variables(known.values());
    const now = `${names.join("\n")} ${filter.variable}`;
    if (now === offered) return;
    offered = now;
    dom.fill(picker, names.length ? dom.select("Changes of a variable", [{ value: "", text: "Changes of any variable" }, ...names.map((/** @type {string} */ name) => ({ value: name, text: `Changes of ${name}` }))], filter.variable, (variable) => filterBy({ variable })) : null);
  }

  /** @param {string} ref */
  function look(ref) {
    if (shown.ref === ref && shown.data) return;
    shown = { ref, data: null };
    compared = null;
    side.replaceChildren();
    drawn = "";
    drawDetail();
    frame.changed();
    void read();
  }

  async function read() {
    clearTimeout(timer);
    const { ref } = shown;
    if (!ref || frame.why()) return;
    const answer = await frame.ask("state", [ref]);
    if (shown.ref !== ref || !answer) return;
    shown.data = answer.data?.ref ? answer.data : { trouble: answer.text ?? "This state is gone." };
    if (answer.data?.busy && visible) timer = setTimeout(() => void read(), 2000);
    drawDetail();
    frame.changed();
  }

  let drawn = "";
  /** Draw the detail, if it has changed: what someone reads stays open. */
  function drawDetail() {
    const row = known.get(shown.ref);
    const now = JSON.stringify([row, compared, shown, head.here, frame.width, frame.why(), parts.lanes.way(known, shown.ref).length]);
    if (now === drawn) return;
    drawn = now;
    dom.keeping(side, () => dom.fill(side, ...(row ? content(row) : [])));
  }

  /** @param {State} row */
  function content(row) {
    const back = frame.width === "narrow" ? () => cover(false) : null;
    if (compared) return [parts.checkpoint_detail.comparison(frame, compared, label(row), "now", { back: () => void uncompare() })];
    return parts.history_detail.state(frame, row, shown.data, { known, here: head.here, go, back });
  }

  /** Compare the state that is shown with now. @param {boolean} [again] the present state is another one */
  async function compare(again = false) {
    const { ref } = shown;
    const answer = await frame.ask("compare", [ref]);
    if (shown.ref !== ref || !answer || (again && (!compared || !answer.data?.refs))) return;
    if (answer.data?.busy) return frame.say("A cell runs. Compare when it has ended.", "warn");
    if (!answer.data?.refs) return frame.say(answer.text || "They cannot be compared.", "error");
    compared = answer.data;
    drawDetail();
    if (!again) cover(true);
  }

  /** Close the comparison, and tell whether there was one. */
  function uncompare() {
    const was = compared !== null;
    compared = null;
    if (was) drawDetail();
    return was;
  }

  /** @param {State} row */
  const go = (row) => void frame.deed("goto", [row.ref]);

  /** @param {boolean} on */
  function cover(on) {
    over = on;
    split.dataset.shows = frame.width === "narrow" ? (over ? "detail" : "list") : "";
    element.classList.toggle("nb-covered", split.dataset.shows === "detail");
  }

  /** @returns {Partial<Action>[]} */
  function actions() {
    const row = split.hidden ? undefined : known.get(shown.ref);
    const undo = head.undo ? { label: "Undo", icon: /** @type {const} */ ("undo"), run: () => void frame.act("undo", []), kernel: true, title: "Go back to the state before", id: "undo-last" } : null;
    if (!row) return undo ? [{ gap: true }, undo] : [];
    const why = row.ref === head.here ? "You are here." : "";
    return [
      { text: `${label(row)} selected` },
      { label: "Go to this state…", icon: "go", primary: true, run: () => go(row), kernel: true, why, id: "goto" },
      { label: "Compare with now", icon: "compare", run: () => void compare(), kernel: true, why, id: "compare" },
      { label: "Name it…", icon: "name", run: () => parts.history_top.askName(frame, form, shown.ref, row), kernel: true, id: "name" },
      ...(undo ? [{ gap: true }, undo] : []),
    ];
  }

  /** @param {Message} message */
  function heard(message) {
    if (message.kind !== "history") return;
    isThere = true;
    const { rows, gone, from, reset, ...rest } = message;
    const { here } = head;
    const moved = rest.here !== here;
    head = rest;
    if (reset && from === 0) known.clear();
    for (const ref of gone ?? []) known.delete(ref);
    for (const row of rows ?? []) known.set(row.ref, row);
    if (moved && known.has(head.here) && (shown.ref === here || !known.has(shown.ref))) [shown, compared] = [{ ref: head.here, data: null }, null];
    draw();
    if (moved) grid.redraw();
    drawDetail();
    if (!visible || !shown.ref) return;
    if (moved || !shown.data) void read();
    if (moved && compared) void compare(true);
  }

  /** @param {string} key */
  function pressed(key) {
    if (key === "find") return find.focus(), true;
    if (key === "compare" && shown.ref) return void compare(), true;
    if (key !== "escape") return false;
    if (!form.hidden) return (form.hidden = true);
    if (uncompare()) return true;
    if (over && frame.width === "narrow") return cover(false), true;
    return unfilter();
  }

  return {
    id: "history",
    title: "History",
    element,
    count: () => (isThere && head.total ? format.whole(head.total) : ""),
    follow: () => ({}),
    message: heard,
    actions,
    key: pressed,
    menu: () => (head.on ? [{ label: "Turn history off…", icon: "stopped", why: frame.why() || undefined, run: () => void frame.deed("auto_off", [], {}, { danger: true }) }] : []),
    shown() {
      visible = true;
      draw();
      if (shown.ref) void read();
    },
    standing: () => (drawHeading(), split.hidden && drawEmpty(0)),
    hidden: () => ((visible = false), clearTimeout(timer)),
    resized() {
      const before = grid.element;
      grid = made();
      before.replaceWith(grid.element);
      cover(over);
      draw();
      drawDetail();
    },
    close: () => clearTimeout(timer),
  };
}
