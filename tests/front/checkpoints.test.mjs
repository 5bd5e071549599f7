/** The logic of the pane of checkpoints: find, fold, words. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as rows from "../../nbckpt/notebook/widget/front/checkpoint_rows.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import { checkpoint, checkpoints } from "./fake_panes.mjs";

test("more than three versions of a name are one line, which opens", () => {
  const own = checkpoints().filter((row) => !row.trial);
  const folded = rows.fold(own, new Set());
  assert.deepEqual(folded.map(rows.title), ["final@1", "cleaned@1", "step", "raw@1", "a@3", "old@1"]);
  assert.equal(folded[2].versions, 25);
  assert.equal(folded[2].adds, 25 * 148_000);
  const open = rows.fold(own, new Set(["name step"]));
  assert.equal(open.length, 6 + 25);
  assert.deepEqual(open.slice(2, 5).map((line) => [rows.title(line), line.inside]), [["step", false], ["step@25", true], ["step@24", true]]);
});

test("three versions of a name stay three lines", () => {
  const three = [3, 2, 1].map((version) => checkpoint(version, "a", version, version));
  assert.deepEqual(rows.fold(three, new Set()).map(rows.title), ["a@3", "a@2", "a@1"]);
});

test("checkpoints of one trial are folded together", () => {
  const ofTrials = checkpoints().filter((row) => row.trial);
  const [line, ...others] = rows.fold(ofTrials, new Set());
  assert.deepEqual([rows.title(line), line.versions, others.length], ["tune/t52", 6, 0]);
});

test("every line has an id of its own", () => {
  const ids = rows.fold(checkpoints(), new Set(["name step", "trial tune/t52"])).map((line) => line.id);
  assert.equal(new Set(ids).size, ids.length);
});

test("a checkpoint is compared with versions of its name, and with the newest of each other name", () => {
  const labels = (own) => rows.rivals(checkpoints(), checkpoints().find(({ label }) => label === own).ref).map(({ label }) => label);
  assert.deepEqual(labels("cleaned@1"), ["final@1", "tune/t52@100", "step@25", "raw@1", "a@3"]);
  assert.deepEqual(labels("step@25").slice(0, 2), ["step@24", "step@23"]);
  assert.deepEqual(labels("step@25").slice(-2), ["raw@1", "a@3"]);
  assert.deepEqual(rows.rivals([], "deleted"), []);
  assert.deepEqual(rows.rivals([checkpoint(1, "a", 1, 5)], "deleted").map(({ label }) => label), ["a@1"]);
});

test("all words must occur, in name, text or variables", () => {
  const row = checkpoint(1, "cleaned", 1, 5, { message: "With positions" });
  assert.ok(rows.says(row, "CLEAN position"));
  assert.ok(rows.says(row, "walk"));
  assert.ok(!rows.says(row, "clean walz"));
});

test("the heading counts and names the last", () => {
  const head = { total: 24, of_trials: 6, size: 18_400_000 };
  assert.equal(rows.heading(head, checkpoint(1, "final", 1, 2), format), "24 checkpoints, 18.4 MB. Last: final@1, ");
  assert.equal(rows.heading({ ...head, total: 1 }, undefined, format), "1 checkpoint, 18.4 MB.");
});

test("what differs from now has a sign and words", () => {
  assert.deepEqual(rows.sign(["changed", "5,200 × 2"]), { sign: "≠", text: "5,200 × 2", same: false });
  assert.deepEqual(rows.sign(["same", "same"]), { sign: "=", text: "same", same: true });
  assert.equal(rows.sign(undefined).sign, "");
});

test("modules, functions and classes stand below the data", () => {
  const values = [{ name: "np", kind: "module" }, { name: "walk", kind: "data" }, { name: "Model", kind: "class" }, { name: "counter", kind: "state" }];
  const { data, lines } = rows.groups(values);
  assert.deepEqual(data.map((value) => value.name), ["walk", "counter"]);
  assert.deepEqual(lines, [["Modules", ["np"]], ["Classes", ["Model"]]]);
});

test("a time that is none counts as 0", () => {
  assert.equal(rows.seconds("yesterday"), 0);
  assert.equal(rows.seconds("1970-01-01T00:01:00Z"), 60);
});
