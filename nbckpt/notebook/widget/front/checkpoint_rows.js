/**
 * Rows of checkpoints: find, chips, folding of versions, sentences. Pure: the tests import this in Node.
 *
 * @typedef {{ ref: string, label: string, names: { name: string, version: number }[], message: string, saved_at: string,
 *   size: number, adds: number, trial: string, trusted: boolean, trouble: string, variables: string[], count: number }} Checkpoint
 * @typedef {{ id: string, row: Checkpoint, versions: number, open: boolean, inside: boolean, adds: number }} Line
 *   `versions`: of a row that stands for the versions below it, when they are folded or open; else 0
 */

/** More versions of one name than these are folded. */
const MOST = 3;
/** As many versions of a name, and as many others, are offered for a comparison. */
const MOST_RIVALS = 20;

/** @param {string} written a time as manifests have it @returns {number} seconds since 1970, or 0 */
export const seconds = (written) => (Date.parse(written) || 0) / 1000;

/** @param {Checkpoint} row @param {string} find every word must occur */
export function says(row, find) {
  const text = [row.label, row.ref, row.message, row.trial, row.trouble, ...row.variables].join("\n").toLowerCase();
  return find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** @param {Checkpoint} row the name whose versions are folded together; of a trial's checkpoint the trial */
export const family = (row) => (row.trial ? `trial ${row.trial}` : row.names.length ? `name ${row.names[0].name}` : "");

/**
 * The lines of the list: more than three versions of a name become one line, which opens.
 * @param {Checkpoint[]} rows newest first @param {Set<string>} open the families that are open @returns {Line[]}
 */
export function fold(rows, open) {
  /** @type {Map<string, Checkpoint[]>} */
  const families = new Map();
  for (const row of rows) {
    const name = family(row);
    if (name) families.set(name, [...(families.get(name) ?? []), row]);
  }
  /** @type {Line[]} */
  const lines = [];
  const done = new Set();
  for (const row of rows) {
    const name = family(row);
    const members = families.get(name) ?? [];
    if (members.length <= MOST) {
      lines.push(single(row, false));
    } else if (!done.has(name)) {
      done.add(name);
      const isOpen = open.has(name);
      const adds = members.reduce((sum, each) => sum + each.adds, 0);
      lines.push({ id: `fold ${name}`, row, versions: members.length, open: isOpen, inside: false, adds });
      if (isOpen) for (const each of members) lines.push(single(each, true));
    }
  }
  return lines;
}

/**
 * What a checkpoint may be compared with: other versions of its name, and the newest of each other name. Damaged ones are left out.
 * @param {Checkpoint[]} rows @param {string} ref
 */
export function rivals(rows, ref) {
  const sound = rows.filter((row) => row.ref !== ref && !row.trouble).sort((a, b) => seconds(b.saved_at) - seconds(a.saved_at));
  const named = (/** @type {Checkpoint} */ row) => family(row) || row.ref;
  const base = rows.find((row) => row.ref === ref);
  const own = base ? named(base) : ""; // it may just have been deleted
  const names = new Set([own]);
  const others = sound.filter((row) => !names.has(named(row)) && names.add(named(row)));
  return [...sound.filter((row) => named(row) === own).slice(0, MOST_RIVALS), ...others.slice(0, MOST_RIVALS)];
}

/** @param {Checkpoint} row @param {boolean} inside @returns {Line} */
const single = (row, inside) => ({ id: row.ref, row, versions: 0, open: false, inside, adds: row.adds });

/** @param {Line} line what stands in the column of names */
export const title = (line) =>
  line.versions ? line.row.trial || line.row.names[0].name : line.row.label || line.row.ref;

/**
 * What the heading says.
 * @param {{ total: number, of_trials: number, size: number }} head @param {Checkpoint | undefined} last
 * @param {typeof import("./format.js")} format
 */
export function heading(head, last, format) {
  const held = `${format.count(head.total, "checkpoint")}, ${format.size(head.size)}.`;
  return last ? `${held} Last: ${last.label}, ` : held;
}

/** How a change is shown beside the live variables. @param {[string, string] | undefined} now */
export function sign(now) {
  if (!now) return { sign: "", text: "", same: true };
  const [change, text] = now;
  return { sign: { same: "=", changed: "≠", new: "+", removed: "−" }[change] ?? "≠", text, same: change === "same" };
}

/** Groups of the values of a checkpoint: data first, the rest in lines below. @param {{ kind: string, name: string }[]} values */
export function groups(values) {
  const named = (/** @type {string} */ kind) => values.filter((value) => value.kind === kind).map((value) => value.name);
  return {
    data: values.filter((value) => value.kind === "data" || value.kind === "state"),
    lines: /** @type {[string, string[]][]} */ ([
      ["Modules", named("module")],
      ["Functions", named("function")],
      ["Classes", named("class")],
    ]).filter(([, names]) => names.length),
  };
}

/** @param {string[]} names @param {number} [most] names as a part of a sentence */
export function listed(names, most = 6) {
  return names.length > most ? `${names.slice(0, most).join(", ")} and ${names.length - most} more` : names.join(", ");
}
