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
  const { tree, label, matches, variables, heading, isFold } = parts.lanes;
  const { seconds } = parts.checkpoint_rows;
  /** @type {Map<string, State>} */
  const known = new Map();
  /** @type {Message} */
  let head = { on: false, here: "", total: 0, size: 0, missed: 0, running: null, failed: [], undo: false, live: {} };
  let isThere = false;
  const open = /** @type {Set<string>} */ (new Set());
  const filter = { find: "", variable: "" };
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

  find.addEventListener("input", () => {
    filter.find = find.value.trim();
    draw();
  });

  function made() {
    const table = frame.grid({
      label: "States of the notebook",
      role: "treegrid",
      id: (/** @type {Line} */ line) => line.id,
      columns: parts.history_columns.columns(frame, { known, here: () => head.here, unfold }),
      rowHeight: parts.history_columns.rowHeight(frame),
      attributes: (/** @type {Line} */ line) => ({
        class: `nb-line-${line.type}${line.row.ref === head.here ? " nb-present" : ""}`,
        "aria-level": String(line.lane + 1),
        ...(isFold(line) ? { "aria-expanded": String(line.open) } : {}),
      }),
      onFocus: (/** @type {Line} */ line) => (line.type === "state" ? look(line.row.ref) : undefined),
      onOpen: (/** @type {Line} */ line) => (line.type === "state" ? cover(true) : isFold(line) ? unfold(line) : undefined),
      onSelect: () => frame.changed(),
      onMenu: (/** @type {Line} */ line, cell) => (line.type === "state" ? frame.menu(cell, actions()) : undefined),
      onKey: (event, /** @type {Line} */ line) => {
        const folds = isFold(line) && ((event.key === "ArrowRight" && !line.open) || (event.key === "ArrowLeft" && line.open));
        if (folds) unfold(line);
        return Boolean(folds);
      },
    });
    table.element.addEventListener("click", clicked);
    return table;
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
    const filtered = filter.find || filter.variable;
    const lines = filtered
      ? [...known.values()].filter((row) => matches(row, filter.find, filter.variable)).sort((a, b) => (a.saved_at < b.saved_at ? 1 : -1)).map(flat)
      : [...parts.lanes.linesAbove(/** @type {any} */ (head)), ...tree(known, head.here, open)];
    grid.rows(lines);
    drawHeading();
    drawEmpty(lines.length);
    drawPicker();
    const present = known.get(shown.ref) ? shown.ref : known.has(head.here) ? head.here : lines.find((/** @type {Line} */ line) => line.type === "state")?.row.ref;
    if (visible && present && present !== shown.ref) look(present);
    frame.changed();
  }

  /** @param {State} row @returns {Line} */
  const flat = (row) => ({ id: row.ref, type: "state", row, lane: 0, lanes: [], joins: [], onWay: parts.lanes.way(known, head.here).includes(row), states: [], open: false, tip: true, root: true });

  function drawHeading() {
    const ways = tree(known, head.here, new Set()).filter((/** @type {Line} */ line) => line.type === "way").length + 1;
    const told = heading(/** @type {any} */ (head), known, ways);
    const on = head.on || !known.size ? null : dom.button({ label: "Turn on", run: () => void turnOn(), why: frame.why(), id: "turn-on" });
    dom.fill(headline, dom.make("span", {}, ...(isThere && known.size
      ? [told.before, dom.make("strong", { text: told.row ? label(told.row) : "" }), told.row ? ", " : "", told.row ? frame.age(seconds(told.row.saved_at)) : "", `.${told.after}`]
      : [isThere ? "" : "Waiting for the history…"])), on);
    headline.hidden = isThere && !known.size;
  }

  /** @param {number} number */
  function drawEmpty(number) {
    empty.hidden = !isThere || number > 0;
    split.hidden = !empty.hidden;
    tools.hidden = isThere && !known.size;
    if (empty.hidden) return;
    const clear = () => {
      find.value = filter.find = filter.variable = "";
      draw();
    };
    if (known.size) return dom.fill(empty, dom.make("p", { text: "No state matches." }), dom.button({ label: "Clear", run: clear, id: "clear" }));
    const { count: variableCount, size } = head.live ?? {};
    const cost = variableCount ? `Each cell adds only what it changed; there are ${format.count(variableCount, "variable")} now${size ? `, about ${format.size(size)} of arrays and tables` : ""}.` : "";
    dom.fill(empty, ...(head.on
      ? [dom.make("p", { text: "History is on. Run a cell: its state shows here." })]
      : [dom.make("p", { text: "History is off. Turn it on to go back to the state after any cell." }), dom.button({ label: "Turn on", primary: true, run: () => void turnOn(), why: frame.why(), id: "turn-on" }), cost ? dom.make("p", { class: "nb-dim nb-after", text: cost }) : null]));
  }

  let offered = "";
  function drawPicker() {
    const names = variables(known.values());
    const now = `${names.join("\n")} ${filter.variable}`;
    if (now === offered) return;
    offered = now;
    dom.fill(picker, names.length ? dom.select("Changes of a variable", [{ value: "", text: "Changes of any variable" }, ...names.map((/** @type {string} */ name) => ({ value: name, text: `Changes of ${name}` }))], filter.variable, (name) => {
      filter.variable = name;
      draw();
    }) : null);
  }

  const turnOn = () => frame.act("auto_on", []);

  /** @param {string} ref */
  function look(ref) {
    if (shown.ref === ref && shown.data) return;
    shown = { ref, data: null };
    compared = null;
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

  function drawDetail() {
    const row = known.get(shown.ref);
    const back = frame.width === "narrow" ? () => cover(false) : null;
    if (row && compared) return dom.fill(side, parts.checkpoint_detail.comparison(frame, compared, label(row), "now", () => void uncompare()));
    dom.fill(side, ...(row ? parts.history_detail.state(frame, row, shown.data, { known, here: head.here, go, back }) : []));
  }

  async function compare() {
    const { ref } = shown;
    const answer = await frame.ask("compare", [ref]);
    if (shown.ref !== ref || !answer) return;
    if (answer.data?.busy) return frame.say("A cell runs. Compare when it has ended.", "warn");
    if (!answer.data?.refs) return frame.say(answer.text || "They cannot be compared.", "error");
    compared = answer.data;
    drawDetail();
    cover(true);
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

  function named() {
    const field = dom.make("input", { class: "nb-input", "aria-label": "Name of the state", placeholder: "name", size: 20 });
    const row = known.get(shown.ref);
    form.onsubmit = (event) => {
      event.preventDefault();
      void frame.act("name", [shown.ref], { name: field.value.trim() }).then((answer) => answer?.ok && (form.hidden = true));
    };
    dom.fill(form, dom.make("label", {}, `Name for ${row ? label(row) : ""} `, field), dom.make("button", { type: "submit", class: "nb-button", text: "Name it" }), dom.button({ label: "Cancel", run: () => (form.hidden = true) }));
    form.hidden = false;
    field.focus();
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
      { label: "Name it…", icon: "name", run: named, kernel: true, id: "name" },
      ...(undo ? [{ gap: true }, undo] : []),
    ];
  }

  /** @param {Message} message */
  function heard(message) {
    if (message.kind !== "history") return;
    isThere = true;
    const { rows, gone, from, reset, ...rest } = message;
    const moved = rest.here !== head.here;
    head = rest;
    if (reset && from === 0) known.clear();
    for (const ref of gone ?? []) known.delete(ref);
    for (const row of rows ?? []) known.set(row.ref, row);
    compared = null;
    if (moved && known.has(head.here)) shown = { ref: head.here, data: null };
    draw();
    if (moved) grid.redraw();
    drawDetail();
    if (visible && shown.ref && !shown.data) void read();
  }

  /** @param {string} key */
  function pressed(key) {
    if (key === "find") return find.focus(), true;
    if (key === "compare" && shown.ref) return void compare(), true;
    if (key !== "escape") return false;
    if (!form.hidden) return (form.hidden = true);
    if (uncompare()) return true;
    if (over && frame.width === "narrow") return cover(false), true;
    if (!filter.find && !filter.variable) return false;
    find.value = filter.find = filter.variable = "";
    return draw(), true;
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
    menu: () => (head.on ? [{ label: "Turn history off…", icon: "stopped", why: frame.why() || undefined, run: () => void frame.deed("auto_off", []) }] : []),
    shown() {
      visible = true;
      frame.tall(true);
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
