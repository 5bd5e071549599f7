/** The tree of states: lanes, folds, words. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as lanes from "../../nbckpt/notebook/widget/front/lanes.js";
import { state, states } from "./fake_panes.mjs";

const known = (rows) => new Map(rows.map((row) => [row.ref, row]));
const ref = (cell) => state(cell, 0, 0, "").ref;
const words = (lines) => lines.map((line) => (line.type === "state" ? `${line.lane}${lanes.label(line.row)}` : `${line.lane}${line.type} ${line.states.length}`));

test("the way here is lane 0, other ways and idle cells are folded", () => {
  const lines = lanes.tree(known(states()), ref(14), new Set());
  assert.deepEqual(words(lines), ["0[14]", "0[13]", "0way 3", "0[9]", "0same 3", "0[5]", "0[4]", "0[2]"]);
});

test("an opened way has a lane of its own, which joins at its fork", () => {
  const lines = lanes.tree(known(states()), ref(14), new Set([ref(12)]));
  assert.deepEqual(words(lines).slice(0, 7), ["0[14]", "0[13]", "1[12]", "1[11]", "1[10]", "1way 3", "0[9]"]);
  assert.deepEqual(lines[6].joins, [1]);
  assert.deepEqual(lines[3].lanes, [0, 1]);
});

test("after going elsewhere, that way is lane 0", () => {
  const lines = lanes.tree(known(states()), ref(12), new Set());
  assert.deepEqual(words(lines).slice(0, 5), ["0[12]", "0[11]", "0[10]", "0way 2", "0[9]"]);
});

test("opened idle cells are there one by one", () => {
  const lines = lanes.tree(known(states()), ref(14), new Set([ref(8)]));
  assert.deepEqual(words(lines).slice(3, 8), ["0[9]", "0same 3", "0[8]", "0[7]", "0[6]"]);
});

test("every state is in the tree once when all is open, also of several roots", () => {
  const rows = [...states(), state(21, 20, 3, "b"), state(20, 0, 4, "a", ["a"]), state(32, 31, 1, "y", ["y"]), state(31, 13, 2, "x", ["x"])];
  const all = new Set(rows.map((row) => row.ref));
  const shown = lanes.tree(known(rows), ref(14), all).filter((line) => line.type === "state").map((line) => line.row.ref);
  assert.deepEqual([...shown].sort(), [...all].sort());
});

test("more than four lanes stay folded", () => {
  const rows = [state(1, 0, 60, "a", ["a"]), ...Array.from({ length: 8 }, (_, n) => state(10 + n, 1, 20 - n, `b${n}`, ["b"]))];
  const lines = lanes.tree(known(rows), ref(17), new Set(rows.map((row) => row.ref)));
  assert.ok(Math.max(...lines.map((line) => line.lane)) < lanes.MOST_LANES);
});

test("a circle of parents ends", () => {
  const rows = [state(1, 2, 2, "a"), state(2, 1, 1, "b")];
  assert.equal(lanes.way(known(rows), ref(1)).length, 2);
  assert.ok(lanes.tree(known(rows), ref(1), new Set()).length > 0);
});

test("two thousand states are laid out", () => {
  const rows = Array.from({ length: 2000 }, (_, n) => state(n + 1, n, 2000 - n, `x = ${n}`, n ? [] : ["x"], n ? ["x"] : []));
  assert.equal(lanes.tree(known(rows), ref(2000), new Set()).length, 2000);
});

test("at most three changes are named", () => {
  const row = state(1, 0, 0, "a", ["a", "b"], ["c"], ["d", "e"]);
  assert.equal(lanes.changes(row), "+ a  + b  ~ c  +2");
  assert.equal(lanes.inWords(row), "new: a, b\nchanged: c\nremoved: d, e");
});

test("an array that changed has its shapes", () => {
  const row = { ...state(1, 0, 0, "a", ["a"], ["b"], ["c"]), forms: { b: "5 values int8" } };
  assert.equal(lanes.changeOf(row, "b"), "~ 5 values int8");
  assert.equal(lanes.changeOf({ ...row, forms: { b: "5 values int8 → 2 × 2 int8" } }, "b"), "~ 2 × 2 int8");
  assert.equal(lanes.changeOf(row, "c"), "− c");
  assert.equal(lanes.allChanges(row, row.forms).replaceAll("\u00a0", " "), "+ a  ~ b (5 values int8)  − c");
  assert.match(lanes.inWords(row), /changed: b \(5 values int8\)/);
});

test("a filter by variable leaves the states that touched it", () => {
  const rows = states().filter((row) => lanes.matches(row, "", "clean"));
  assert.deepEqual(rows.map(lanes.label), ["[13]", "[9]"]);
  assert.deepEqual(states().filter((row) => lanes.matches(row, "LOADED", "")).map(lanes.label), ["[5]"]);
});

test("a comment is not the first line of a cell", () => {
  assert.equal(lanes.firstLine(state(1, 0, 0, "# load it\n\nraw = load()")), "raw = load()");
  assert.equal(lanes.firstLine(state(1, 0, 0, "# only this")), "# only this");
});

test("the heading says where you are, or that the kernel is new", () => {
  const head = { on: true, here: ref(14), total: 12, running: null, missed: 0 };
  assert.equal(lanes.heading(head, known(states()), 2).after, " 12 states in 2 ways.");
  assert.ok(lanes.heading({ ...head, here: "" }, known(states()), 2).before.startsWith("The kernel is new"));
  assert.ok(lanes.heading({ ...head, on: false }, known(states()), 1).after.endsWith("History is off: new cells add no states."));
});

test("cells without a state of their own stand above the present one", () => {
  const cell = (number, error) => ({ cell: number, source: "a", error, saved_at: "2026-11-25T09:00:00+00:00" });
  const lines = lanes.linesAbove({ running: { ...cell(17), error: undefined }, failed: [cell(16, "NameError"), cell(15, "KeyError")] });
  assert.deepEqual(lines.map(({ type, row, tip }) => [type, row.cell, row.error, tip]), [["running", 17, "", true], ["failed", 16, "NameError", false], ["failed", 15, "KeyError", false]]);
  assert.equal(new Set(lines.map(({ id }) => id)).size, 3);
  assert.deepEqual(lanes.linesAbove({ running: null }), []);
});
