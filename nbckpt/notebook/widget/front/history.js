/**
 * The pane of history: the states after each cell, what changed between them, and the way back.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./lanes.js").State} State
 * @typedef {import("./lanes.js").Line} Line
 */

const LANE = 14;
const ROW = 28;
const TWICE = 44;

/** @param {Frame} frame @returns {import("./panel.js").Pane} */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const { tree, label, firstLine, changes, inWords, matches, variables, heading } = parts.lanes;
  const { seconds } = parts.checkpoint_rows;
  const { banner, fold } = parts.checkpoint_detail;
  /** @type {Map<string, State>} */
  const known = new Map();
  /** @type {Message} */
  let head = { on: false, here: "", total: 0, size: 0, missed: 0, running: null, undo: false, live: {} };
  let isThere = false;
  const open = /** @type {Set<string>} */ (new Set());
  const filter = { find: "", variable: "" };
  /** @type {{ ref: string, data: Message | null }} */
  let shown = { ref: "", data: null };
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

  /** @param {Line} line */
  const isFold = ({ type }) => type === "way" || type === "same";

  function made() {
    const table = frame.grid({
      label: "States of the notebook",
      role: "treegrid",
      id: (/** @type {Line} */ line) => line.id,
      columns: columns(),
      rowHeight: frame.width === "narrow" ? TWICE : ROW,
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

  function columns() {
    const narrow = frame.width === "narrow";
    const code = (/** @type {Line} */ { row }) => [
      dom.make("b", { class: "nb-count", text: row.cell === null ? "" : `[${row.cell}]` }),
      dom.make("code", { class: "nb-ellipsis", text: firstLine(row) }),
      ...row.names.map((name) => dom.make("span", { class: "nb-tag", text: name })),
      row.error ? dom.icon("failed", `stopped: ${row.error}`) : null,
      row.partly.length ? dom.icon("warn", `partly kept: ${row.partly.join(", ")} cannot be saved`) : null,
    ];
    const signs = (/** @type {State} */ row) => dom.make("span", { class: "nb-ellipsis nb-signs", text: changes(row), title: inWords(row) });
    return [
      { id: "state", title: "State", width: narrow ? 220 : 240, grow: 3, fill: (/** @type {HTMLElement} */ cell, /** @type {Line} */ line) => {
        const text = isFold(line) ? foldText(line) : null;
        const lines = text ? [dom.button({ label: text, icon: line.open ? "down" : "right", quiet: true, run: () => unfold(line) })] : code(line);
        cell.title = text ?? line.row.source;
        dom.fill(cell, rail(line, narrow ? TWICE : ROW), narrow && !text ? dom.make("span", { class: "nb-two" }, dom.make("span", { class: "nb-one" }, ...lines), signs(line.row)) : null, ...(narrow && !text ? [] : lines));
      } },
      ...(narrow ? [] : [{ id: "changes", title: "Changes", width: 130, grow: 2, fill: (/** @type {HTMLElement} */ cell, /** @type {Line} */ line) => cell.append(line.type === "state" ? signs(line.row) : "") }]),
      ...(narrow ? [] : [{ id: "took", title: "Took", width: 68, end: true, fill: (/** @type {HTMLElement} */ cell, /** @type {Line} */ line) => cell.append(line.type === "state" ? took(line.row) : "") }]),
      { id: "when", title: "When", width: 104, fill: (/** @type {HTMLElement} */ cell, /** @type {Line} */ line) => cell.append(line.type === "running" ? "is running…" : frame.age(seconds(line.row.saved_at))) },
    ];
  }

  /** How long the cell ran. Older states do not know it. @param {State} row */
  const took = (row) => (typeof row.seconds === "number" ? format.duration(row.seconds) : "");

  /** @param {Line} line */
  function foldText(line) {
    if (line.type === "same") return `${line.states.length} cells that changed nothing`;
    const from = known.get(line.states.at(-1)?.parent ?? "");
    const named = line.states.find((row) => row.names.length)?.names[0];
    return `other way${named ? ` “${named}”` : ""}${from ? ` from ${label(from)}` : ""}: ${format.count(line.states.length, "state")}, last ${label(line.row)}`;
  }

  /** The lanes of a line as a drawing. @param {Line} line @param {number} height */
  function rail(line, height) {
    const x = (/** @type {number} */ lane) => 8 + lane * LANE;
    const width = x(Math.max(line.lane, ...line.lanes, ...line.joins, 0)) + 8;
    const middle = height / 2;
    const isHere = line.row.ref === head.here && line.type === "state";
    const lines = [...new Set(line.lanes)].map((lane) => dom.draw("path", { d: `M${x(lane)} ${line.tip && lane === line.lane ? middle : 0}V${line.root && lane === line.lane ? middle : height}`, class: line.type === "running" ? "nb-rail nb-rail-running" : lane ? "nb-rail" : "nb-rail nb-rail-way" }));
    const joins = line.joins.map((lane) => dom.draw("path", { d: `M${x(lane)} 0Q${x(lane)} ${middle} ${x(line.lane)} ${middle}`, class: "nb-rail" }));
    const at = { cx: x(line.lane), cy: middle };
    const mark = isFold(line) ? null
      : line.type === "running" ? dom.draw("circle", { ...at, r: 4.5, class: "nb-mark nb-mark-running" })
      : line.row.names.length ? dom.draw("path", { d: `M${at.cx} ${middle - 5.5}l5.5 5.5-5.5 5.5-5.5-5.5z`, class: "nb-mark nb-mark-way" })
      : dom.draw("circle", { ...at, r: 4.5, class: line.onWay ? "nb-mark nb-mark-way" : "nb-mark" });
    const ring = isHere ? dom.draw("circle", { ...at, r: 7.5, class: "nb-mark" }) : null;
    const word = line.type === "running" ? "running" : isHere ? "you are here" : line.onWay ? "on the way here" : "on another way";
    return dom.draw("svg", { class: "nb-lanes", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": word }, ...lines, ...joins, ring, mark);
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
      : [...(head.running ? [parts.lanes.runningLine(head.running)] : []), ...tree(known, head.here, open)];
    grid.rows(lines);
    drawHeading();
    drawEmpty(lines.length);
    drawPicker();
    const present = known.get(shown.ref) ? shown.ref : known.has(head.here) ? head.here : lines.find((/** @type {Line} */ line) => line.type !== "running")?.row.ref;
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
    if (!row) return dom.fill(side);
    const { data } = shown;
    const back = frame.width === "narrow" ? dom.button({ label: "History", icon: "left", run: () => cover(false), id: "back" }) : null;
    const fact = (/** @type {string} */ name, /** @type {string} */ text) => (text ? dom.make("p", { class: "nb-facts" }, dom.make("b", { text: `${name}: ` }), dom.make("span", { class: "nb-signs", text })) : null);
    dom.fill(
      side,
      dom.make("div", { class: "nb-heading" }, back, dom.make("strong", { text: label(row) }), dom.make("code", { class: "nb-wrap", text: firstLine(row) })),
      dom.make("p", { class: "nb-facts" }, frame.age(seconds(row.saved_at)), took(row) ? ` · took ${took(row)}` : "", ` · adds ${format.size(row.adds)}`, row.missed ? ` · holds the changes of ${format.count(row.missed, "cell")} before too` : ""),
      fact("New here", changes(row, 12)),
      row.ref === head.here ? dom.make("p", { class: "nb-facts", text: "You are here." }) : data ? would(data) : null,
      row.error ? banner(frame, "failed", `This cell stopped: ${row.error}.`) : null,
      data?.trouble ? banner(frame, "failed", data.trouble) : null,
      row.partly.length ? banner(frame, "warn", `Partly kept: ${row.partly.join(", ")} cannot be saved.`) : null,
      data?.variables ? values(data.variables) : data ? null : dom.make("p", { class: "nb-facts", text: frame.why() || "Opening…" }),
      data?.source ? fold(dom, "Code of this cell", data.source, true) : null,
      data ? fold(dom, "All code up to here", parts.lanes.way(known, row.ref).reverse().map((/** @type {State} */ each) => `# ${label(each)}\n${each.source}`).join("\n\n"), true) : null,
    );
  }

  /** @param {Message} data */
  function would(data) {
    if (data.busy) return banner(frame, "waiting", "What going here would change shows when the running cell has ended.");
    const signs = [...data.would.changed.map((/** @type {string} */ name) => `~ ${name}`), ...data.would.new.map((/** @type {string} */ name) => `+ ${name}`), ...data.would.removed.map((/** @type {string} */ name) => `− ${name}`)];
    return dom.make("p", { class: "nb-facts" }, dom.make("b", { text: "If you go here now: " }), dom.make("span", { class: "nb-signs", text: signs.slice(0, 20).join("  ") || "nothing changes" }));
  }

  /** @param {any[]} rows */
  function values(rows) {
    const { data, lines } = parts.checkpoint_rows.groups(rows);
    const line = (/** @type {any} */ value) => dom.make("tr", {}, dom.make("th", { scope: "row" }, dom.make("code", { text: value.name })), dom.make("td", { class: "nb-dim", text: [value.type.replace(/^.*\./, ""), value.extent].filter(Boolean).join(", "), title: value.type }), dom.make("td", { class: "nb-content", title: value.text }, dom.make("code", { text: value.text })));
    return dom.make("div", {}, dom.make("div", { class: "nb-scroll", tabindex: 0, role: "region", "aria-label": "Variables of this state" }, dom.make("table", { class: "nb-values" }, dom.make("tbody", {}, ...data.map(line)))),
      ...lines.map((/** @type {[string, string[]]} */ [name, names]) => dom.make("p", { class: "nb-facts" }, dom.make("b", { text: `${name}: ` }), names.join(", "))));
  }

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
      { label: "Go to this state…", icon: "go", primary: true, run: () => void frame.deed("goto", [row.ref]), kernel: true, why, id: "goto" },
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
    if (moved && known.has(head.here)) shown = { ref: head.here, data: null };
    draw();
    if (moved) grid.redraw();
    drawDetail();
    if (visible && shown.ref && !shown.data) void read();
  }

  /** @param {string} key */
  function pressed(key) {
    if (key === "find") return find.focus(), true;
    if (key !== "escape") return false;
    if (!form.hidden) return (form.hidden = true);
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
