/**
 * The keys and the wheel of a grid.
 *
 * @typedef {import("./grid_cells.js").Table} Table
 */

/**
 * Select the rows between two, both included. Pure.
 * @param {string[]} ids @param {string} from @param {string} to
 */
export function between(ids, from, to) {
  const [a, b] = [ids.indexOf(from), ids.indexOf(to)];
  return a < 0 || b < 0 ? [to] : ids.slice(Math.min(a, b), Math.max(a, b) + 1);
}

/**
 * Make what hears the keys.
 * @param {typeof import("./keys.js")} keys @param {import("./grid.js").Options} options @param {Table} table
 * @param {{ move: (row: number, column: number) => void, choose: (id: string) => void, add: (ids: string[]) => void, page: () => number }} grid
 *   `add`: select more rows; `page`: how many rows are in sight
 * @returns {(event: KeyboardEvent) => boolean} whether it was one of ours
 */
export function keyboard(keys, options, table, { move, choose, add, page }) {
  const { focus } = table;
  const ids = () => table.list.map(options.id);

  /** @param {KeyboardEvent} event */
  function key(event) {
    const row = table.list[focus.row];
    if (row !== undefined && options.onKey?.(event, row)) return true;
    if (focus.row < 0 && table.columns[focus.column] && options.onHeadKey?.(event, table.columns[focus.column])) return true;
    if ((event.ctrlKey || event.metaKey) && event.key === "a") return done(add(ids()));
    if (event.altKey || event.metaKey) return false;
    if (event.ctrlKey && event.key === "Home") return done(move(0, 0));
    if (event.ctrlKey && event.key === "End") return done(move(table.list.length - 1, table.columns.length - 1));
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
    const column = table.columns[focus.column];
    if (column?.sortable) options.onSort?.(column.id, more);
    return true;
  }

  /** @param {KeyboardEvent} event */
  function walk(event) {
    if (event.key === "ArrowUp" && focus.row <= 0) return done(move(-1, focus.column));
    const to = keys.moved(event.key, focus.row, table.list.length, page());
    if (to === null) return false;
    if (event.shiftKey && focus.row >= 0) {
      focus.anchor ||= focus.id;
      add(between(ids(), focus.id, options.id(table.list[to])));
    }
    return done(move(to, focus.column));
  }

  /** @param {unknown} _ what was done @returns {true} */
  const done = (_) => true;

  return key;
}

/** The wheel scrolls the notebook, unless the list has the focus. @param {HTMLElement} element */
export function passWheel(element) {
  /** @param {WheelEvent} event */
  function wheel(event) {
    if (element.contains(document.activeElement) || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    let above = element.parentElement;
    while (above && !(above.scrollHeight > above.clientHeight && /auto|scroll/.test(getComputedStyle(above).overflowY)))
      above = above.parentElement;
    (above ?? document.scrollingElement)?.scrollBy({ top: event.deltaY * (event.deltaMode ? 16 : 1) });
    event.preventDefault();
  }
  element.addEventListener("wheel", wheel, { passive: false });
}
