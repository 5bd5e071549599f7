/**
 * The elements of a grid: the cells of its header, and its rows.
 *
 * @typedef {import("./grid.js").Column} Column
 * @typedef {object} Table what a grid shows, and where its focus is
 * @property {any[]} list
 * @property {Column[]} columns
 * @property {import("./grid.js").Sort} sort
 * @property {Set<string>} selected
 * @property {{ row: number, column: number, id: string, anchor: string }} focus `row`: -1 for the header
 */

/**
 * Make what draws the cells.
 * @param {typeof import("./dom.js")} dom @param {import("./grid.js").Options} options @param {Table} table
 * @param {{ rowHeight: number, move: (row: number, column: number) => void, choose: (id: string, range: boolean) => void }} grid
 */
export function cells(dom, options, table, { rowHeight, move, choose }) {
  const placeOf = (/** @type {string} */ id) => table.list.findIndex((row) => options.id(row) === id);

  /** @param {HTMLElement} cell @param {Column} column @param {number} at */
  function shape(cell, column, at) {
    cell.classList.add("nb-cell");
    cell.classList.toggle("nb-end", Boolean(column.end));
    cell.classList.toggle("nb-pin", at === 0);
    cell.style.flex = `${column.grow ?? 0} 0 ${column.width}px`;
    cell.setAttribute("aria-colindex", String(at + 1));
  }

  /** @param {Column} column @param {number} at */
  function header(column, at) {
    const { focus, sort } = table;
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

  /** @param {HTMLElement} cell @param {string} id */
  function check(cell, id) {
    const box = dom.make("span", { class: "nb-check", "aria-hidden": "true", title: "Select" });
    box.addEventListener("click", (event) => {
      event.stopPropagation();
      move(placeOf(id), 0);
      choose(id, event.shiftKey);
    });
    cell.prepend(box);
  }

  /** @param {any} row */
  function line(row) {
    const id = options.id(row);
    const { class: extra, ...attributes } = options.attributes?.(row) ?? {};
    const element = dom.make("div", { role: "row", class: `nb-row ${extra ?? ""}`, "data-id": id, ...attributes });
    element.style.height = `${rowHeight}px`;
    table.columns.forEach((column, index) => {
      const cell = dom.make("div", { role: "gridcell", tabindex: -1 });
      shape(cell, column, index);
      column.fill(cell, row);
      if (index === 0 && options.checks) check(cell, id);
      cell.addEventListener("click", () => move(placeOf(id), index));
      element.append(cell);
    });
    element.addEventListener("dblclick", () => options.onOpen?.(row));
    element.addEventListener("pointerenter", () => options.onHover?.(row));
    return element;
  }

  /** Put the state of a row that changes without its content on its element. @param {HTMLElement} element @param {string} id @param {number} at */
  function mark(element, id, at) {
    const { focus, selected } = table;
    element.style.transform = `translateY(${at * rowHeight}px)`;
    element.setAttribute("aria-rowindex", String(at + 2));
    element.setAttribute("aria-selected", String(selected.has(id)));
    element.classList.toggle("nb-here", id === focus.id);
    Array.from(element.children).forEach((cell, index) => {
      /** @type {HTMLElement} */ (cell).tabIndex = at === focus.row && index === focus.column ? 0 : -1;
    });
  }

  return { header, line, mark };
}
