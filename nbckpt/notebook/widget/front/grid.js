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
 * @property {(row: any) => Record<string, string>} [attributes] of a row, `class` among them
 * @property {(event: KeyboardEvent, row: any) => boolean} [onKey] before the keys of the grid
 * @property {boolean} [headless] no header in sight: cards
 * @property {number} [headHeight] of the header, in pixels
 * @property {(row: any, cell: HTMLElement) => void} [onMenu] a right click, a long press, or the menu key
 *
 * @typedef {ReturnType<typeof grid>} Grid
 */

const SPARE = 6;
const HEAD = 28;

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
 * Select the rows between two, both included. Pure.
 * @param {string[]} ids @param {string} from @param {string} to
 */
export function between(ids, from, to) {
  const [a, b] = [ids.indexOf(from), ids.indexOf(to)];
  return a < 0 || b < 0 ? [to] : ids.slice(Math.min(a, b), Math.max(a, b) + 1);
}

/**
 * Make a grid.
 * @param {{ dom: typeof import("./dom.js"), keys: typeof import("./keys.js"),
 *   listen: (element: Element, handler: (event: KeyboardEvent) => boolean) => void, signal: AbortSignal,
 *   press: typeof import("./press.js").press }} tools
 * @param {Options} options
 */
export function grid(tools, options) {
  const { dom, keys, listen, signal, press } = tools;
  const rowHeight = options.rowHeight ?? 28;
  const head = dom.make("div", { role: "row", "aria-rowindex": 1, class: "nb-row nb-head" });
  const body = dom.make("div", { role: "rowgroup", class: "nb-rows" });
  const element = dom.make(
    "div",
    { role: options.role ?? "grid", "aria-label": options.label, "aria-readonly": "true", "aria-multiselectable": "true", class: "nb-grid" },
    dom.make("div", { role: "rowgroup", class: options.headless ? "nb-heads nb-unseen" : "nb-heads" }, head),
    body,
  );
  const headHeight = options.headless ? 0 : (options.headHeight ?? HEAD);
  if (headHeight) head.style.height = `${headHeight}px`;
  /** @type {any[]} */
  let list = [];
  let columns = options.columns;
  /** @type {Sort} */
  let sort = options.sort ?? [];
  /** @type {Map<string, { row: any, at: number, element: HTMLElement }>} */
  const drawn = new Map();
  const selected = /** @type {Set<string>} */ (new Set());
  const focus = { row: -1, column: 0, id: "", anchor: "" };
  let over = false;

  const width = () => columns.reduce((sum, column) => sum + column.width, 0);
  /** @param {HTMLElement} cell @param {Column} column @param {number} at */
  const shape = (cell, column, at) => {
    cell.classList.add("nb-cell");
    cell.classList.toggle("nb-end", Boolean(column.end));
    cell.classList.toggle("nb-pin", at === 0);
    cell.style.flex = `${column.grow ?? 0} 0 ${column.width}px`;
    cell.setAttribute("aria-colindex", String(at + 1));
  };

  /** @param {Column} column @param {number} at */
  function header(column, at) {
    const order = sort.find(([id]) => id === column.id);
    const rank = order && sort.length > 1 ? String(sort.indexOf(order) + 1) : "";
    const cell = dom.make("div", {
      role: "columnheader",
      tabindex: focus.row === -1 && focus.column === at && !options.headless ? 0 : -1,
      title: column.hint ?? null,
      "aria-sort": column.sortable ? (order ? (order[1] === "up" ? "ascending" : "descending") : "none") : null,
      class: column.sortable ? "nb-sortable" : "",
    });
    shape(cell, column, at);
    cell.append(dom.make("span", { class: "nb-title", text: column.title }));
    if (order) cell.append(dom.icon(order[1] === "up" ? "up" : "down"), rank);
    column.head?.(cell);
    if (column.sortable) cell.addEventListener("click", (event) => options.onSort?.(column.id, event.shiftKey));
    return cell;
  }

  /** @param {HTMLElement} cell @param {any} row @param {string} id */
  function check(cell, row, id) {
    const box = dom.make("span", { class: "nb-check", "aria-hidden": "true", title: "Select" });
    box.addEventListener("click", (event) => {
      event.stopPropagation();
      move(list.indexOf(row), 0);
      choose(id, event.shiftKey);
    });
    cell.prepend(box);
  }

  /** @param {any} row @param {number} at */
  function drawRow(row, at) {
    const id = options.id(row);
    const { class: extra, ...attributes } = options.attributes?.(row) ?? {};
    const line = dom.make("div", { role: "row", class: `nb-row ${extra ?? ""}`, "data-id": id, ...attributes });
    line.style.height = `${rowHeight}px`;
    columns.forEach((column, index) => {
      const cell = dom.make("div", { role: "gridcell", tabindex: -1 });
      shape(cell, column, index);
      column.fill(cell, row);
      if (index === 0 && options.checks) check(cell, row, id);
      cell.addEventListener("click", () => move(list.indexOf(list[drawn.get(id)?.at ?? at]), index));
      line.append(cell);
    });
    line.addEventListener("dblclick", () => options.onOpen?.(row));
    line.addEventListener("pointerenter", () => options.onHover?.(row));
    return line;
  }

  /** Put the state of a row that changes without its content on its element. @param {HTMLElement} line @param {string} id @param {number} at */
  function mark(line, id, at) {
    line.style.transform = `translateY(${at * rowHeight}px)`;
    line.setAttribute("aria-rowindex", String(at + 2));
    line.setAttribute("aria-selected", String(selected.has(id)));
    line.classList.toggle("nb-here", id === focus.id);
    Array.from(line.children).forEach((cell, index) => {
      /** @type {HTMLElement} */ (cell).tabIndex = at === focus.row && index === focus.column ? 0 : -1;
    });
  }

  function draw() {
    const height = Math.max(0, element.clientHeight - headHeight) || 400;
    const [first, end] = inSight(element.scrollTop, height, rowHeight, list.length);
    const kept = new Set();
    const focused = body.contains(document.activeElement);
    for (let at = first; at < end; at += 1) {
      const row = list[at];
      const id = options.id(row);
      kept.add(id);
      let known = drawn.get(id);
      if (!known || known.row !== row) {
        const made = drawRow(row, at);
        if (known) known.element.replaceWith(made);
        else body.append(made);
        known = { row, at, element: made };
        drawn.set(id, known);
      }
      known.at = at;
      mark(known.element, id, at);
    }
    for (const [id, known] of drawn) {
      if (kept.has(id)) continue;
      known.element.remove();
      drawn.delete(id);
    }
    if (focused && !body.contains(document.activeElement)) cellOf(focus.row, focus.column)?.focus({ preventScroll: true });
  }

  /** @param {number} row -1: the header @param {number} column @returns {HTMLElement | undefined} */
  const cellOf = (row, column) => {
    const line = row < 0 ? head : list[row] && drawn.get(options.id(list[row]))?.element;
    return /** @type {HTMLElement | undefined} */ (line?.children[column]);
  };

  /** Give the focus to a cell, and bring it into sight. @param {number} row @param {number} column */
  function move(row, column, quietly = false) {
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

  /** @param {string} id @param {boolean} [range] */
  function choose(id, range = false) {
    if (range && focus.anchor) for (const each of between(list.map(options.id), focus.anchor, id)) selected.add(each);
    else if (selected.has(id)) selected.delete(id);
    else selected.add(id);
    focus.anchor = id;
    draw();
    options.onSelect?.();
  }

  function heads() {
    const inside = head.contains(document.activeElement);
    head.replaceChildren(...columns.map(header));
    if (inside) cellOf(-1, focus.column)?.focus({ preventScroll: true });
  }

  function redraw() {
    const focused = body.contains(document.activeElement);
    for (const known of drawn.values()) known.element.remove();
    drawn.clear();
    element.setAttribute("aria-rowcount", String(list.length + 1));
    element.setAttribute("aria-colcount", String(columns.length));
    body.style.height = `${list.length * rowHeight}px`;
    body.style.minWidth = head.style.minWidth = `${width()}px`;
    heads();
    draw();
    if (focused) cellOf(focus.row, focus.column)?.focus({ preventScroll: true });
  }

  /** @param {any[]} rows */
  function take(rows) {
    list = rows;
    const at = focus.id ? rows.findIndex((row) => options.id(row) === focus.id) : -1;
    if (at >= 0) focus.row = at;
    else if (focus.row >= 0) focus.row = Math.min(focus.row, rows.length - 1);
    if (focus.row < 0 && rows.length && (options.headless || !element.contains(document.activeElement))) focus.row = 0;
    body.style.height = `${rows.length * rowHeight}px`;
    element.setAttribute("aria-rowcount", String(rows.length + 1));
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether it was one of ours */
  function key(event) {
    const row = list[focus.row];
    if (row !== undefined && options.onKey?.(event, row)) return true;
    if ((event.ctrlKey || event.metaKey) && event.key === "a") return all();
    if (event.altKey || event.metaKey) return false;
    if (event.ctrlKey && event.key === "Home") return done(move(0, 0));
    if (event.ctrlKey && event.key === "End") return done(move(list.length - 1, columns.length - 1));
    if (event.ctrlKey) return false;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight")
      return done(move(focus.row, focus.column + (event.key === "ArrowLeft" ? -1 : 1)));
    if (focus.row < 0 && (event.key === "Enter" || event.key === " ")) return sorted(event.shiftKey);
    if (event.key === "Enter" && row !== undefined) return done(options.onOpen?.(row));
    if (event.key === " " && row !== undefined) return done(choose(options.id(row)));
    return walk(event);
  }

  /** @param {boolean} more */
  function sorted(more) {
    const column = columns[focus.column];
    if (column?.sortable) options.onSort?.(column.id, more);
    return true;
  }

  /** @param {KeyboardEvent} event */
  function walk(event) {
    if (event.key === "ArrowUp" && focus.row <= 0) return done(move(-1, focus.column));
    const page = Math.max(1, Math.floor((element.clientHeight - headHeight) / rowHeight) - 1);
    const to = keys.moved(event.key, focus.row, list.length, page);
    if (to === null) return false;
    if (event.shiftKey && focus.row >= 0) {
      focus.anchor ||= focus.id;
      for (const id of between(list.map(options.id), focus.id, options.id(list[to]))) selected.add(id);
      options.onSelect?.();
    }
    return done(move(to, focus.column));
  }

  /** @param {unknown} _ what was done @returns {true} */
  const done = (_) => true;

  /** Open the menu of the row that an element is in. @param {Element} target */
  function opened(target) {
    const line = /** @type {HTMLElement | null} */ (target.closest(".nb-rows > .nb-row"));
    const at = list.findIndex((row) => options.id(row) === line?.dataset.id);
    if (at < 0) return false;
    move(at, Array.from(line?.children ?? []).findIndex((cell) => cell.contains(target)));
    const cell = cellOf(focus.row, focus.column);
    if (cell) options.onMenu?.(list[at], cell);
    return true;
  }

  function all() {
    for (const row of list) selected.add(options.id(row));
    draw();
    options.onSelect?.();
    return true;
  }

  /** The wheel scrolls the notebook, unless the list has the focus. @param {WheelEvent} event */
  function wheel(event) {
    if (element.contains(document.activeElement) || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    let above = element.parentElement;
    while (above && !(above.scrollHeight > above.clientHeight && /auto|scroll/.test(getComputedStyle(above).overflowY)))
      above = above.parentElement;
    (above ?? document.scrollingElement)?.scrollBy({ top: event.deltaY * (event.deltaMode ? 16 : 1) });
    event.preventDefault();
  }

  let due = 0;
  const soon = () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(draw);
  };
  element.addEventListener("scroll", soon, { passive: true });
  element.addEventListener("wheel", wheel, { passive: false });
  element.addEventListener("pointerenter", () => (over = true));
  element.addEventListener("pointerleave", () => {
    over = false;
    options.onHover?.(null);
  });
  listen(element, key);
  if (options.onMenu) press(element, opened, signal);
  const sized = new ResizeObserver(soon);
  sized.observe(element);
  signal.addEventListener("abort", () => {
    sized.disconnect();
    cancelAnimationFrame(due);
  });

  return {
    element,
    selected,
    /** Whether pointer or focus is inside: then the order of rows holds still. */
    held: () => over || body.contains(document.activeElement),
    /** The row that has the focus, or undefined. */
    get focused() {
      return list[focus.row];
    },
    /** Show other rows, or the same ones in another order. The focus stays with its row. @param {any[]} rows */
    rows(rows) {
      take(rows);
      draw();
    },
    /** @param {Column[]} next @param {Sort} [order] @param {any[]} [rows] other rows too */
    columns(next, order, rows) {
      columns = next;
      sort = order ?? sort;
      focus.column = Math.min(focus.column, next.length - 1);
      if (rows) take(rows);
      redraw();
    },
    /** Show rows with columns that look as before. Only rows that changed are drawn, and those of some ids. @param {Column[]} next @param {any[]} rows @param {Iterable<string>} ids */
    renew(next, rows, ids) {
      columns = next;
      for (const id of ids) {
        const known = drawn.get(id);
        if (known) known.row = undefined;
      }
      take(rows);
      draw();
    },
    /** Replace the selection. @param {Iterable<string>} ids */
    select(ids) {
      selected.clear();
      for (const id of ids) selected.add(id);
      draw();
      options.onSelect?.();
    },
    /** Give the focus to a row. @param {string} id @param {boolean} [quietly] mark it, but leave the focus of the page */
    goto: (id, quietly = false) => {
      const at = list.findIndex((row) => options.id(row) === id);
      if (at >= 0) move(at, 0, quietly);
    },
    /** Light up a row, as the pointer is over its line. @param {string | null} id */
    light(id) {
      for (const [each, known] of drawn) known.element.classList.toggle("nb-lit", each === id);
    },
    redraw,
    key,
  };
}
