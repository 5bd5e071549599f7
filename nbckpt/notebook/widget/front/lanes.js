/**
 * The tree of states as lines with lanes. Pure: the tests import this in Node.
 *
 * @typedef {{ ref: string, kind: string, parent: string, saved_at: string, cell: number | null, source: string,
 *   added: string[], changed: string[], removed: string[], partly: string[], names: string[], missed: number,
 *   adds: number, size: number, seconds?: number | null, error?: string, forms?: Record<string, string> }} State
 *   `forms`: the shape and dtype of arrays and frames that it changed; both, if they were others before
 * @typedef {{ id: string, type: "state" | "way" | "same" | "running" | "failed", row: State, lane: number, lanes: number[], joins: number[],
 *   onWay: boolean, states: State[], open: boolean, tip: boolean, root: boolean }} Line
 *   `lanes`: the lanes that pass through the line; `joins`: lanes that end in this line, coming from above;
 *   `states`: of a folded way, or of folded cells that changed nothing
 */

export const MOST_LANES = 4;

/** @param {State} row */
export const label = (row) => (row.cell === null ? (row.names[0] ?? row.ref.slice(0, 8)) : `[${row.cell}]`);

/** @param {State} row the first line of the cell */
export const firstLine = (row) => row.source.split("\n").find((line) => line.trim() && !line.trim().startsWith("#"))?.trim() ?? row.source.trim();

/** @typedef {{ cell: number | null, source: string, error?: string, saved_at?: string }} Cell a cell without a state of its own */

/**
 * The lines above the present state: the cell that runs, and those that failed and changed nothing.
 * @param {{ running: Cell | null, failed?: Cell[] }} head @returns {Line[]}
 */
export function linesAbove({ running, failed = [] }) {
  const cells = /** @type {[Cell, "running" | "failed"][]} */ ([...(running ? [[running, "running"]] : []), ...failed.map((cell) => [cell, "failed"])]);
  return cells.map(([{ cell, source, error = "", saved_at = "" }, type], at) => {
    const ref = `${type} ${cell}`;
    const row = { ref, kind: "", parent: "", saved_at, cell, source, error, added: [], changed: [], removed: [], partly: [], names: [], missed: 0, adds: 0, size: 0 };
    return { id: ref, type, row, lane: 0, lanes: [0], joins: [], onWay: true, states: [], open: false, tip: at === 0, root: false };
  });
}

/** Whether a line stands for several states, and opens. @param {Line} line */
export const isFold = ({ type }) => type === "way" || type === "same";

/** What a line says that stands for several states. @param {Line} line @param {Map<string, State>} known */
export function foldText({ type, states, row }, known) {
  if (type === "same") return `${states.length} cells that changed nothing`;
  const from = known.get(states.at(-1)?.parent ?? "");
  const named = states.find((each) => each.names.length)?.names[0];
  return `other way${named ? ` “${named}”` : ""}${from ? ` from ${label(from)}` : ""}: ${states.length} ${states.length === 1 ? "state" : "states"}, last ${label(row)}`;
}

/** @param {State} row whether the cell changed nothing */
export const isIdle = (row) => !row.added.length && !row.changed.length && !row.removed.length && !row.names.length;

/**
 * What a state changed, as signs with names: at most three, then "+4".
 * @param {State} row @param {number} [most]
 */
export function changes(row, most = 3) {
  const all = [...row.added.map((name) => `+ ${name}`), ...row.changed.map((name) => `~ ${name}`), ...row.removed.map((name) => `− ${name}`)];
  return all.length > most ? `${all.slice(0, most).join("  ")}  +${all.length - most}` : all.join("  ");
}

/** A sign and a name, with the shape and dtype of an array or a frame. @param {string} sign @param {string} name @param {Record<string, string>} [forms] */
export const withForm = (sign, name, forms = {}) => `${sign} ${name}${forms[name] ? ` (${forms[name]})` : ""}`;

/** All that is added, changed and removed, at most twenty, none of which is broken into two lines. @param {{ added: string[], changed: string[], removed: string[] }} names @param {Record<string, string>} [forms] */
export const allChanges = ({ added, changed: others, removed }, forms) =>
  [...added.map((name) => withForm("+", name, forms)), ...others.map((name) => withForm("~", name, forms)), ...removed.map((name) => `− ${name}`)].slice(0, 20).map((text) => text.replaceAll(" ", "\u00a0")).join("  ");

/** What a state changed in one variable: the shape that it has since then, or its name. @param {State} row @param {string} name */
export const changeOf = (row, name) => `${row.added.includes(name) ? "+" : row.removed.includes(name) ? "−" : "~"} ${row.forms?.[name]?.split(" → ").pop() ?? name}`;

/** The same in words, for tooltips. @param {State} row */
export function inWords(row) {
  const part = (/** @type {string} */ word, /** @type {string[]} */ names) => (names.length ? `${word}: ${names.map((name) => withForm("", name, row.forms).trim()).join(", ")}` : "");
  return [part("new", row.added), part("changed", row.changed), part("removed", row.removed), part("not kept", row.partly)].filter(Boolean).join("\n");
}

/** @param {State} row @param {string} find @param {string} variable */
export function matches(row, find, variable) {
  const names = [...row.added, ...row.changed, ...row.removed];
  if (variable && !names.includes(variable)) return false;
  const text = [label(row), row.source, ...names, ...row.names].join("\n").toLowerCase();
  return find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** All variables that a state changed, by name. @param {Iterable<State>} rows */
export const variables = (rows) => [...new Set([...rows].flatMap((row) => [...row.added, ...row.changed, ...row.removed]))].sort();

/**
 * The states from the present one back to the first.
 * @param {Map<string, State>} known @param {string} here
 */
export function way(known, here) {
  /** @type {State[]} */
  const found = [];
  const met = new Set();
  for (let row = known.get(here); row && !met.has(row.ref); row = known.get(row.parent)) {
    found.push(row);
    met.add(row.ref);
  }
  return found;
}

/** Newest first; of one instant the child before its parent. @param {State} a @param {State} b */
const newest = (a, b) => (a.saved_at === b.saved_at ? Number(b.parent === a.ref) - Number(a.parent === b.ref) : a.saved_at < b.saved_at ? 1 : -1);

/**
 * The lines of the tree. The way to where you are is lane 0. Other ways are one line each at their fork, until they are opened.
 * @param {Map<string, State>} known @param {string} here @param {Set<string>} open the tips of other ways that are open, and
 *   the newest of states that changed nothing @returns {Line[]}
 */
export function tree(known, here, open) {
  const rows = [...known.values()].sort(newest);
  const start = known.has(here) ? here : (rows[0]?.ref ?? "");
  const own = way(known, start);
  const taken = new Set(own.map((row) => row.ref));
  /** @type {Map<string, { states: State[], lane: number }[]>} */
  const forks = new Map();
  for (const tip of rows) {
    if (taken.has(tip.ref)) continue;
    /** @type {State[]} */
    const states = [];
    /** @type {State | undefined} */
    let row = tip;
    for (; row && !taken.has(row.ref); row = known.get(row.parent)) {
      states.push(row);
      taken.add(row.ref);
    }
    const at = row?.ref ?? "";
    forks.set(at, [...(forks.get(at) ?? []), { states, lane: 0 }]);
  }
  /** @type {Line[]} */
  const lines = [];
  const has = (/** @type {string} */ ref) => known.has(ref);
  place(own, 0, [], lines, forks, open, new Set(), has);
  for (const other of forks.get("") ?? []) place(other.states, 0, [], lines, forks, open, new Set(), has);
  return lines;
}

/**
 * Add the lines of one way, and above each state the ways that leave it.
 * @param {State[]} states @param {number} lane @param {number[]} beside lanes that pass @param {Line[]} lines
 * @param {Map<string, { states: State[], lane: number }[]>} forks @param {Set<string>} open @param {Set<string>} done
 * @param {(ref: string) => boolean} has whether a state is there
 */
function place(states, lane, beside, lines, forks, open, done, has) {
  for (let at = 0; at < states.length; at += 1) {
    const row = states[at];
    if (done.has(row.ref)) continue;
    done.add(row.ref);
    const others = forks.get(row.ref) ?? [];
    const passing = at > 0 ? [...beside, lane] : beside;
    let joins = 0;
    for (const other of others) {
      const isOpen = open.has(other.states[0].ref) && lane + joins + 1 < MOST_LANES;
      if (isOpen) {
        joins += 1;
        place(other.states, lane + joins, [...passing, ...range(lane + 1, lane + joins - 1)], lines, forks, open, done, has);
      }
      lines.push({ id: `way ${other.states[0].ref}`, type: "way", row: other.states[0], lane: lane + joins, lanes: [...passing, ...range(lane + 1, lane + joins)], joins: [], onWay: false, states: other.states, open: isOpen, tip: false, root: false });
    }
    const idle = others.length || joins ? [] : idleRun(states, at, forks);
    const isFolded = idle.length > 1 && !open.has(row.ref);
    if (idle.length > 1) {
      lines.push({ id: `same ${row.ref}`, type: "same", row, lane, lanes: [...beside, lane], joins: [], onWay: lane === 0, states: idle, open: !isFolded, tip: false, root: false });
      for (const each of idle) done.add(each.ref);
      if (!isFolded) for (const each of idle) lines.push(state(each, lane, beside, [], false, !has(each.parent)));
      continue;
    }
    lines.push(state(row, lane, beside, range(lane + 1, lane + joins), at === 0, !has(row.parent)));
  }
}

/**
 * @param {State} row @param {number} lane @param {number[]} beside @param {number[]} joins
 * @param {boolean} tip its way begins here @param {boolean} root its way ends here @returns {Line}
 */
const state = (row, lane, beside, joins, tip, root) => ({ id: row.ref, type: "state", row, lane, lanes: [...beside, lane], joins, onWay: lane === 0, states: [], open: false, tip, root });

/** States in a row that changed nothing, and that no other way leaves. @param {State[]} states @param {number} at @param {Map<string, unknown[]>} forks */
function idleRun(states, at, forks) {
  let end = at;
  while (end < states.length && end > 0 && isIdle(states[end]) && !forks.get(states[end].ref)?.length) end += 1;
  return states.slice(at, end);
}

/** @param {number} from @param {number} to both included */
const range = (from, to) => Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);

/**
 * What the heading says, without the time.
 * @param {{ on: boolean, here: string, total: number, running: boolean, missed: number }} head @param {Map<string, State>} known
 * @param {number} ways
 */
export function heading(head, known, ways) {
  const here = known.get(head.here);
  const total = `${head.total} ${head.total === 1 ? "state" : "states"}${ways > 1 ? ` in ${ways} ways` : ""}.`;
  if (!here) return { before: known.size ? "The kernel is new: you are at no state. Last one: " : "", row: [...known.values()].sort(newest)[0], after: ` ${total}` };
  const missed = head.missed ? ` ${head.missed} ${head.missed === 1 ? "cell" : "cells"} since then ${head.missed === 1 ? "has" : "have"} no state of ${head.missed === 1 ? "its" : "their"} own.` : "";
  return { before: "You are at ", row: here, after: ` ${total}${missed}${head.on ? "" : " History is off: new cells add no states."}` };
}
