/**
 * A table of many rows of which only those in sight are in the page.
 *
 * It has one tab stop. Arrows move it; Space selects; Enter opens a row or sorts by a header. Rows are objects of the caller:
 * one that is the same object as before is not drawn again.
 *
 * @typedef {{ id: string, title: string, width: number, grow?: number, end?: boolean, sortable?: boolean, hint?: string,
 *   fill: (cell: HTMLElement, row: any) => void, head?: (cell: HTMLElement) => void }} Column
 *   `grow`: its share of the room that is left; `end`: numbers, aligned right
 * @typedef {[string, "up" | "down"][]} Sort columns, the most important first
 * @typedef {object} Options
 * @property {string} label for screen readers
 * @property {(row: any) => string} id
 * @property {Column[]} columns
 * @property {"grid" | "treegrid"} [role]
 * @property {number} [rowHeight]
 * @property {boolean} [checks] a box to select in the first column
 * @property {Sort} [sort]
 * @property {(column: string, more: boolean) => void} [onSort] `more`: Shift was held
 * @property {() => void} [onSelect]
 * @property {(row: any) => void} [onFocus]
 * @property {(row: any) => void} [onOpen]
 * @property {(row: any | null) => void} [onHover]
 * @property {() => void} [onLeave] pointer or focus has left: rows need not hold still any more
 * @property {(row: any) => Record<string, string>} [attributes] of a row, `class` among them
 * @property {(event: KeyboardEvent, row: any) => boolean} [onKey] before the keys of the grid
 * @property {(event: KeyboardEvent, column: Column) => boolean} [onHeadKey] the same, in the header
 * @property {boolean} [headless] no header in sight: cards
 * @property {number} [headHeight] of the header, in pixels
 * @property {(row: any, cell: HTMLElement) => void} [onMenu] a right click, a long press, or the menu key
 *
 * @typedef {ReturnType<typeof grid>} Grid
 */

const SPARE = 6;
const HEAD = 28;
const ROW = 28;

/**
 * The rows that must be in the page. Pure.
 * @param {number} top @param {number} height @param {number} rowHeight @param {number} count
 * @returns {[number, number]} the first, and the one after the last
 */
export function inSight(top, height, rowHeight, count) {
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
  return [Math.min(first, count), Math.min(count, Math.ceil((top + height) / rowHeight) + SPARE)];
}

/**
 * Columns of which whole ones fill the room: if there are too many, those that fit take what is left, and the others follow behind
 * the edge. Pure.
 * @param {Column[]} columns @param {number} room in pixels @returns {Column[]}
 */
export function fitted(columns, room) {
  const ends = columns.map((_, at) => columns.slice(0, at + 1).reduce((sum, { width }) => sum + width, 0));
  const fits = ends.filter((end) => end <= room).length;
  if (fits < 2 || fits === columns.length) return columns;
  const inside = columns.slice(0, fits);
  const growing = inside.filter(({ grow }) => grow);
  const takers = growing.length ? growing : inside.slice(-1);
  const more = (room - ends[fits - 1]) / takers.length;
  return columns.map((column) => (takers.includes(column) ? { ...column, width: column.width + more } : column));
}

/**
 * Make a grid.
 * @param {{ parts: import("./panel.js").Parts, listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void, signal: AbortSignal }} tools
 * @param {Options} options
 */
export function grid({ parts, listen, signal }, options) {
  const { dom, grid_cells, grid_keys } = parts;
  const rowHeight = options.rowHeight ?? ROW;
  const headHeight = options.headless ? 0 : (options.headHeight ?? HEAD);
  const { element, head, body } = skeleton(dom, options, headHeight);
  /** @type {import("./grid_cells.js").Table} */
  const table = { list: [], columns: options.columns, sort: options.sort ?? [], selected: new Set(), focus: { row: -1, column: 0, id: "", anchor: "" } };
  const { focus, selected } = table;
  const more = dom.make("span", { class: "nb-more-columns", "aria-hidden": "true" }, dom.icon("right"));
  let given = table.columns;
  /** @type {Map<string, { row: any, element: HTMLElement }>} */
  const drawn = new Map();
  const cells = grid_cells.cells(dom, options, table, { rowHeight, move, choose });
  const key = grid_keys.keyboard(parts.keys, options, table, { move, choose, add, page: () => Math.max(1, Math.floor((element.clientHeight - headHeight) / rowHeight) - 1) });
  let over = false;

  /** @param {Column[]} next */
  function setColumns(next) {
    given = next;
    table.columns = fitted(next, element.clientWidth);
  }

  /** The room has changed. */
  function resized() {
    const before = table.columns.map(({ width }) => width);
    setColumns(given);
    if (table.columns.some(({ width }, at) => width !== before[at])) redraw();
    else soon();
  }

  /** Have the rows in sight, and no others, in the page. */
  function draw() {
    element.toggleAttribute("data-more", element.scrollLeft + element.clientWidth < element.scrollWidth - 1);
    const height = Math.max(0, element.clientHeight - headHeight) || 400;
    const [first, end] = inSight(element.scrollTop, height, rowHeight, table.list.length);
    const focused = body.contains(document.activeElement);
    const shown = table.list.slice(first, end);
    const kept = new Set(shown.map(options.id));
    for (const [id, known] of drawn) {
      if (kept.has(id)) continue;
      known.element.remove();
      drawn.delete(id);
    }
    let before = /** @type {HTMLElement | null} */ (null);
    for (const [index, row] of shown.entries()) before = place(row, first + index, before);
    if (focused && !body.contains(document.activeElement)) cellOf(focus.row, focus.column)?.focus({ preventScroll: true });
  }

  /**
   * Have a row in the page, where a screen reader expects it. It is made anew if it is another object than before.
   * @param {any} row @param {number} at @param {HTMLElement | null} before the row above it
   */
  function place(row, at, before) {
    const id = options.id(row);
    const known = drawn.get(id);
    const element = known && known.row === row ? known.element : cells.line(row);
    if (known && known.element !== element) known.element.replaceWith(element);
    const next = before ? before.nextElementSibling : body.firstElementChild;
    if (element !== next) body.insertBefore(element, next);
    drawn.set(id, { row, element });
    cells.mark(element, id, at);
    return element;
  }

  /** @param {number} row -1: the header @param {number} column @returns {HTMLElement | undefined} */
  const cellOf = (row, column) => {
    const line = row < 0 ? head : table.list[row] && drawn.get(options.id(table.list[row]))?.element;
    return /** @type {HTMLElement | undefined} */ (line?.children[column]);
  };

  /** Give the focus to a cell, and bring it into sight. @param {number} row @param {number} column */
  function move(row, column, quietly = false) {
    const { list, columns } = table;
    focus.row = Math.max(options.headless ? 0 : -1, Math.min(list.length - 1, row));
    focus.column = Math.max(0, Math.min(columns.length - 1, column));
    focus.id = list[focus.row] ? options.id(list[focus.row]) : "";
    if (focus.row >= 0) reveal(focus.row);
    heads();
    draw();
    if (!quietly) cellOf(focus.row, focus.column)?.focus({ preventScroll: true });
    if (focus.row >= 0) options.onFocus?.(list[focus.row]);
  }

  /** @param {number} row */
  function reveal(row) {
    const [top, bottom] = [row * rowHeight, (row + 1) * rowHeight];
    const height = element.clientHeight - headHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + height) element.scrollTop = bottom - height;
  }

  /** Select a row, or take it out of the selection. @param {string} id @param {boolean} [range] */
  function choose(id, range = false) {
    if (range && focus.anchor) for (const each of grid_keys.between(table.list.map(options.id), focus.anchor, id)) selected.add(each);
    else if (selected.has(id)) selected.delete(id);
    else selected.add(id);
    focus.anchor = id;
    draw();
    options.onSelect?.();
  }

  /** @param {Iterable<string>} ids */
  function add(ids) {
    for (const id of ids) selected.add(id);
    draw();
    options.onSelect?.();
  }

  function heads() {
    const inside = head.contains(document.activeElement);
    head.replaceChildren(...table.columns.map(cells.header), more);
    if (inside) cellOf(-1, focus.column)?.focus({ preventScroll: true });
  }

  function redraw() {
    const focused = body.contains(document.activeElement);
    for (const known of drawn.values()) known.element.remove();
    drawn.clear();
    const width = table.columns.reduce((sum, column) => sum + column.width, 0);
    element.setAttribute("aria-rowcount", String(table.list.length + 1));
    element.setAttribute("aria-colcount", String(table.columns.length));
    body.style.height = `${table.list.length * rowHeight}px`;
    body.style.minWidth = head.style.minWidth = `${width}px`;
    heads();
    draw();
    if (focused) cellOf(focus.row, focus.column)?.focus({ preventScroll: true });
  }

  /** @param {any[]} rows */
  function take(rows) {
    table.list = rows;
    const at = focus.id ? rows.findIndex((row) => options.id(row) === focus.id) : -1;
    if (at >= 0) focus.row = at;
    else if (focus.row >= 0) focus.row = Math.min(focus.row, rows.length - 1);
    if (focus.row < 0 && rows.length && (options.headless || !element.contains(document.activeElement))) focus.row = 0;
    body.style.height = `${rows.length * rowHeight}px`;
    element.setAttribute("aria-rowcount", String(rows.length + 1));
  }

  /** Open the menu of the row that an element is in. @param {Element} target */
  function opened(target) {
    const line = /** @type {HTMLElement | null} */ (target.closest(".nb-rows > .nb-row"));
    const at = table.list.findIndex((row) => options.id(row) === line?.dataset.id);
    if (at < 0) return false;
    move(at, Array.from(line?.children ?? []).findIndex((cell) => cell.contains(target)));
    const cell = cellOf(focus.row, focus.column);
    if (cell) options.onMenu?.(table.list[at], cell);
    return true;
  }

  let due = 0;
  const soon = () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(draw);
  };
  element.addEventListener("scroll", soon, { passive: true });
  element.addEventListener("pointerenter", () => (over = true));
  element.addEventListener("pointerleave", () => {
    over = false;
    options.onHover?.(null);
    options.onLeave?.();
  });
  element.addEventListener("focusout", () => options.onLeave?.());
  grid_keys.passWheel(element);
  listen(element, key);
  if (options.onMenu) parts.press.press(element, opened, signal);
  const sized = new ResizeObserver(resized);
  sized.observe(element);
  signal.addEventListener("abort", () => {
    sized.disconnect();
    cancelAnimationFrame(due);
  });
  redraw();

  return {
    element,
    selected,
    /** Whether pointer or focus is inside: then the order of rows holds still. */
    held: () => over || body.contains(document.activeElement),
    /** The row that has the focus, or undefined. */
    get focused() {
      return table.list[focus.row];
    },
    /** Show other rows, or the same ones in another order. The focus stays with its row. @param {any[]} rows */
    rows(rows) {
      take(rows);
      draw();
    },
    /** @param {Column[]} next @param {Sort} [order] @param {any[]} [rows] other rows too */
    columns(next, order, rows) {
      setColumns(next);
      table.sort = order ?? table.sort;
      focus.column = Math.min(focus.column, next.length - 1);
      if (rows) take(rows);
      redraw();
    },
    /** Show rows with columns that look as before. Only rows that changed are drawn, and those of some ids. @param {Column[]} next @param {any[]} rows @param {Iterable<string>} ids */
    renew(next, rows, ids) {
      setColumns(next);
      for (const id of ids) {
        const known = drawn.get(id);
        if (known) known.row = undefined;
      }
      take(rows);
      draw();
    },
    /** Replace the selection. @param {Iterable<string>} ids */
    select(ids) {
      const wanted = [...ids];
      selected.clear();
      add(wanted);
    },
    /** Give the focus to a row. @param {string} id @param {boolean} [quietly] mark it, but leave the focus of the page */
    goto: (id, quietly = false) => {
      const at = table.list.findIndex((row) => options.id(row) === id);
      if (at >= 0) move(at, 0, quietly);
    },
    /** Light up a row, as the pointer is over its line. @param {string | null} id */
    light(id) {
      for (const [each, known] of drawn) known.element.classList.toggle("nb-lit", each === id);
    },
    redraw,
  };
}

/** The elements of an empty grid. @param {typeof import("./dom.js")} dom @param {Options} options @param {number} headHeight */
function skeleton(dom, options, headHeight) {
  const head = dom.make("div", { role: "row", "aria-rowindex": 1, class: "nb-row nb-head" });
  const body = dom.make("div", { role: "rowgroup", class: "nb-rows" });
  const element = dom.make(
    "div",
    { role: options.role ?? "grid", "aria-label": options.label, "aria-readonly": "true", "aria-multiselectable": "true", class: "nb-grid" },
    dom.make("div", { role: "rowgroup", class: options.headless ? "nb-heads nb-unseen" : "nb-heads" }, head),
    body,
  );
  if (headHeight) head.style.height = `${headHeight}px`;
  return { element, head, body };
}
