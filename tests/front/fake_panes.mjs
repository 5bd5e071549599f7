/**
 * What the kernel says about checkpoints, history and sync, for the panel without Jupyter. It does what buttons ask.
 */

const MINUTE = 60_000;
const ago = (minutes) => new Date(Date.now() - minutes * MINUTE).toISOString();
const id = (n) => `${(n * 7919).toString(16).padStart(8, "0")}${"0".repeat(56)}`;
const HOSTILE = "<img src=x onerror=alert(1)>";

/** One row of a checkpoint. */
export function checkpoint(n, name, version, minutes, fields = {}) {
  const label = name ? `${name}@${version}` : id(n).slice(0, 8);
  return { ref: id(n), label, names: name ? [{ name, version }] : [], message: "", saved_at: ago(minutes), size: 1_080_000, adds: 148_000, trial: "", trusted: true, trouble: "", variables: ["walk", "model", "rng"], count: 3, ...fields };
}

/** The checkpoints: versions that fold, a damaged one, one from someone else, those of trials. */
export function checkpoints() {
  const steps = Array.from({ length: 25 }, (_, n) => checkpoint(100 + n, "step", 25 - n, 8 + n));
  const trials = Array.from({ length: 6 }, (_, n) => ({ ...checkpoint(200 + n, "", 0, 3 + n), ref: `tune/t52@${100 - 10 * n}`, label: `tune/t52@${100 - 10 * n}`, trial: "tune/t52", message: `loss 0.${16 + n}`, variables: ["w"], count: 1 }));
  return [
    checkpoint(1, "final", 1, 2, { message: "good one" }), checkpoint(2, "cleaned", 1, 5, { message: "with positions" }), ...steps,
    checkpoint(3, "raw", 1, 40, { message: HOSTILE, adds: 311_000 }), checkpoint(4, "a", 3, 1500, { trusted: false, adds: 12_000, message: "from a colleague" }),
    checkpoint(5, "old", 1, 3000, { trouble: "checkpoint 0000009a is not an nbckpt manifest", variables: [], count: 0, size: 0, adds: 0 }), ...trials,
  ];
}

const value = (name, type, extent, bytes, text, kind = "data", picture = "") => ({ name, type, extent, bytes, text, kind, picture, dtype: "" });
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAFUlEQVR4nGNkaGhgwA2Y8MiNXGkAp2kBFC2hR/kAAAAASUVORK5CYII=";
const VARIABLES = [
  value("walk", "pandas.core.frame.DataFrame", "5,000 × 2", 80_800, "step, pos"), value("model", "dict", "2 items", 723_000, "{'bias': array([0.1, 0.2]), 'weight': array([[0.3, 0.4], [0.5, 0.6]])}"),
  value("rng", "numpy.random._generator.Generator", "", 473, "Generator(PCG64)"), value("figure", "matplotlib.figure.Figure", "", 409_000, "<Figure size 640x480>", "data", PICTURE),
  value("note", "str", `${HOSTILE.length} items`, 80, HOSTILE), value("np", "module", "", 0, "numpy 2.0", "module"), value("plt", "module", "", 0, "pyplot", "module"), value("fit", "function", "", 900, "fit(data)", "function"),
];
const NOW = { walk: ["changed", "5,200 × 2"], model: ["changed", "changed"], rng: ["same", "same"], figure: ["same", "same"], note: ["new", "not here"] };

/** One state of the notebook. */
export function state(cell, parent, minutes, source, added = [], changed = [], removed = [], fields = {}) {
  return { ref: id(1000 + cell), kind: "points", parent: parent ? id(1000 + parent) : "", saved_at: ago(minutes), cell, source, added, changed, removed, partly: [], names: [], missed: 0, seconds: 0.4 + cell / 5, error: cell === 12 ? "KeyError" : "", adds: 12_000, size: 90_000, ...fields };
}

/** The states: a way to [14], another one from [9], cells that changed nothing, a named one. */
export function states() {
  return [
    state(14, 13, 1, "model = fit(clean)", ["model"]), state(13, 9, 2, "clean = raw[raw % 3 == 0]", [], ["clean"]),
    state(12, 11, 9, "plot = draw(model)", ["plot"]), state(11, 10, 9.5, "model = mean(clean)", [], ["model"]), state(10, 9, 10, "model = fit(clean)", ["model"]),
    state(9, 8, 10.5, "clean = raw[raw % 2 == 0]", ["clean"], [], [], { partly: ["connection"] }), state(8, 7, 11, "print(raw.mean())"), state(7, 6, 11.2, "raw.shape"), state(6, 5, 11.3, "raw.dtype"),
    state(5, 4, 12, "raw = load()", ["raw"], [], [], { names: ["loaded@1"], missed: 1 }), state(4, 2, 12.5, "del temporary", [], [], ["temporary"]),
    state(2, 0, 13, "import numpy as np\nimport pandas as pd\ntemporary = 1", ["np", "pd", "temporary", "alpha", "beta"]),
  ];
}

const SYNC = { kind: "sync", where: "/home/me/.nbckpt", here: [24, 1] };
const SYNCED = { ...SYNC, state: "synced", url: "s3://bucket/team", period: 300, after_saves: true, background: true, pushed_at: ago(2), waiting: [0, 0], waiting_size: 0, failure: "", failed_at: "", there: 0, progress: null };

/** The states of a sync by their words. */
export const syncs = {
  off: { ...SYNC, state: "off" },
  synced: SYNCED,
  sending: { ...SYNCED, state: "sending", progress: [1.2e9, 4e9, 180] },
  waiting: { ...SYNCED, state: "waiting", waiting: [3, 0], waiting_size: 4_200_000 },
  failed: { ...SYNCED, state: "failed", failure: "No permission to write to s3://bucket/team.", failed_at: ago(60) },
  there: { ...SYNCED, state: "there", there: 2 },
};

/**
 * Let a fake kernel answer for these panes too.
 * @param {any} kernel @param {{ empty?: boolean, sync?: string, off?: boolean, new?: boolean }} options
 */
export function panes(kernel, { empty = false, sync = "synced", off = false, new: isNew = false } = {}) {
  const rows = empty ? [] : checkpoints();
  const points = off ? [] : states();
  const data = { rows, points, here: isNew || off ? "" : id(1014), on: !off, sync: syncs[sync], undo: "" };
  kernel.panes = data;
  const { detail, act } = kernel.answers;
  const send = {
    checkpoints: (emit) => emit({ kind: "checkpoints", total: data.rows.filter((row) => !row.trial).length, of_trials: data.rows.filter((row) => row.trial).length, size: empty ? 0 : 18_400_000, here: empty ? "" : id(1), undo: data.undo, where: "", live: empty ? { count: 12, size: 1_100_000 } : {}, saving: data.saving ?? null, from: 0, rows: data.rows, gone: [], reset: true }),
    history: (emit) => emit({ kind: "history", on: data.on, here: data.here, total: data.points.length, size: 150_000, missed: 0, running: kernel.busy ? { cell: 15, source: "score = test(model)" } : null, failed: data.failed ?? [], undo: data.points.length > 0, live: off ? { count: 12, size: 1_100_000 } : {}, from: 0, rows: data.points, gone: [], reset: true }),
    sync: (emit) => emit(data.sync),
  };
  kernel.show = (pane) => send[pane](kernel.emit);
  kernel.others.push((message, emit) => {
    if (message.kind === "follow") send[message.pane]?.(emit);
    if (message.kind === "follow" && message.pane) emit({ kind: "sync", ...data.sync });
  });
  const details = {
    checkpoint: (ref, options) => (options?.now ? { ref, busy: kernel.busy, now: kernel.busy ? undefined : NOW } : about(data.rows.find((row) => row.ref === ref))),
    compare: (ref, _, ids) => ({ busy: false, refs: ids, same: 6, is_part: false, loaded: true, packages: [["numpy", "1.26", "2.0"]], origins: [], source: ["-fit(a)", "+fit(b)"], rows: [{ name: "walk", change: "changed", details: ["shape (5000, 2) -> (5200, 2)"] }, { name: "extra", change: "added", details: ["int"] }, { name: "gone", change: "removed", details: ["list"] }] }),
    state: (ref) => ({ ref, source: data.points.find((row) => row.ref === ref)?.source ?? "", variables: VARIABLES, skipped: [], saved_at: ago(10), busy: kernel.busy, would: { changed: ["clean"], new: [], same: ["raw", "np"], removed: ["model"], unheld: [] } }),
  };
  kernel.answers.detail = (message) => {
    const make = details[message.of];
    if (!make) return detail?.(message);
    return { kind: "detail", n: message.n, html: "", data: make(message.ids[0], message.options, message.ids) };
  };
  kernel.answers.act = (message) => {
    if (!["checkpoints", "history", "sync"].includes(message.pane)) return act?.(message);
    return { kind: "answer", n: message.n, ok: true, undo: false, html: "", confirm: "", data: {}, ...done(kernel, data, message) };
  };
}

/** Everything about one checkpoint. */
function about(row) {
  if (!row || row.trouble) return { ref: row?.ref, label: row?.label, trouble: row?.trouble ?? "gone", trusted: true };
  return { ref: row.ref, label: row.label, trouble: "", trusted: row.trusted, message: row.message, saved_at: row.saved_at, size: row.size, cell: 3, source: "walk = simulate(5000)\nmodel = fit(walk)", notebook: "a.ipynb", python: "3.11", packages: { numpy: "2.0", pandas: "2.2" }, differ: [["numpy", "2.0", "2.1"]], variables: row.trial ? VARIABLES.slice(0, 1) : VARIABLES, files: {}, skipped: [["connection", "connection", "it is open"]], torn: [], deleted: [], warnings: [], notes: ["commit 1a2b3c"] };
}

/** What a deed answers, after it has changed the data. */
function done(kernel, data, { verb, ids, options }) {
  const dry = options?.dry;
  const label = data.rows.find((row) => row.ref === ids[0])?.label ?? "";
  if (kernel.busy && ["save", "restore", "goto", "undo", "auto_on"].includes(verb)) return { ok: false, busy: true, text: "Waits for the running cell." };
  if (verb === "restore" && dry) return { text: `Restore from ${label}: walk (5,200 × 2 → 5,000 × 2) and model will be replaced. Nothing else changes.`, confirm: `Restore ${options.names?.length || 8} variables`, data: { also: options.names?.length === 1 ? ["model"] : [] } };
  if (verb === "restore") return (data.undo = "restore"), setTimeout(() => kernel.show("checkpoints")), { text: `Restored walk and model from ${label}.`, undo: true };
  if (verb === "delete" && dry) return { text: `Delete ${label}? Undo brings it back until you free space.`, confirm: "Delete 1 checkpoint" };
  if (verb === "delete") return (data.rows = data.rows.filter((row) => !ids.includes(row.ref))), setTimeout(() => kernel.show("checkpoints")), { text: `Deleted ${label}.`, undo: true };
  if (verb === "save") return data.rows.unshift(checkpoint(300, options.name || "session", 1, 0)), setTimeout(() => kernel.show("checkpoints")), { text: `Saved ${options.name}@1: 8 variables, 1.08 MB.` };
  if (verb === "goto" && dry) return { text: "clean will be replaced. model will be removed. Your present state is kept first, and cells in the notebook stay as they are.", confirm: "Go to [9]" };
  if (verb === "goto") return (data.here = ids[0]), setTimeout(() => kernel.show("history")), { text: "At [9].", undo: true };
  if (verb === "auto_on") return (data.on = true), setTimeout(() => kernel.show("history")), { text: "History is on." };
  if (verb === "sync_set") return (data.sync = { ...SYNCED, url: options.url, period: options.period === "never" ? 0 : 300, after_saves: options.after_saves }), setTimeout(() => kernel.show("sync")), { text: "Sync is on." };
  if (verb === "sync_off" && !dry) return (data.sync = syncs.off), setTimeout(() => kernel.show("sync")), { text: "Sync is off." };
  if (dry) return { text: `${verb}?`, confirm: verb };
  return { text: `Done: ${verb}.` };
}
