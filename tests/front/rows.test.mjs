import assert from "node:assert/strict";
import { test } from "node:test";

import * as rows from "../../nbckpt/notebook/widget/front/rows.js";

const trial = (n, loss, more = {}) => ({ id: `t${n}`, n, status: "done", settings: { lr: n / 10 }, metrics: { loss }, ...more });
const ids = (list) => list.map((row) => row.id);

test("t2 comes before t10", () => {
  assert.deepEqual(ids(rows.order([trial(10, 1), trial(2, 1)], [])), ["t2", "t10"]);
  assert.ok(rows.natural("t2", "t10") < 0);
});

test("failed trials are last in every order", () => {
  const list = [trial(1, 0.1, { status: "failed" }), trial(2, 0.5), trial(3, 0.3)];
  assert.deepEqual(ids(rows.order(list, [["metrics:loss", "up"]])), ["t3", "t2", "t1"]);
  assert.deepEqual(ids(rows.order(list, [["metrics:loss", "down"]])), ["t2", "t3", "t1"]);
});

test("values that are missing or nan come after the others, up and down", () => {
  const list = [trial(1, "nan"), trial(2, undefined), trial(3, 0.3), trial(4, "-inf"), trial(5, 0.4)];
  assert.deepEqual(ids(rows.order(list, [["metrics:loss", "up"]])), ["t4", "t3", "t5", "t1", "t2"]);
  assert.deepEqual(ids(rows.order(list, [["metrics:loss", "down"]])), ["t5", "t3", "t4", "t1", "t2"]);
});

test("a header is clicked: best first, worst first, off", () => {
  const first = rows.clicked([], "metrics:loss", "up", false);
  const second = rows.clicked(first, "metrics:loss", "up", false);
  assert.deepEqual([first, second], [[["metrics:loss", "up"]], [["metrics:loss", "down"]]]);
  assert.deepEqual(rows.clicked(second, "metrics:loss", "up", false), []);
  assert.deepEqual(rows.clicked(first, "settings:lr", "up", true), [["metrics:loss", "up"], ["settings:lr", "up"]]);
});

test("the best has not failed, and is finite", () => {
  const list = [trial(1, 0.01, { status: "failed" }), trial(2, "-inf"), trial(3, 0.3), trial(4, 0.2)];
  assert.equal(rows.bestOf(list, "loss", "min")?.id, "t4");
  assert.equal(rows.bestOf(list, "loss", "max")?.id, "t3");
  assert.equal(rows.bestOf(list, "accuracy", "max"), undefined);
});

test("statuses, brushes and what is found add up", () => {
  const list = [trial(1, 0.1), trial(2, 0.2, { status: "running" }), trial(3, 0.3)];
  const shown = (filter, finds = () => true) => ids(list.filter(rows.passing({ find: "", statuses: [], brushes: {}, ...filter }, finds)));
  assert.deepEqual(shown({ statuses: ["running", "failed"] }), ["t2"]);
  assert.deepEqual(shown({ brushes: { "settings:lr": { low: 0.15, high: 0.3 } } }), ["t2", "t3"]);
  assert.deepEqual(shown({ brushes: { "settings:lr": { low: 0.15, high: 0.3 } } }, (row) => row.n < 3), ["t2"]);
});

test("ends are found among more numbers than a function has arguments", () => {
  const many = Array.from({ length: 300000 }, (_, at) => at);
  assert.deepEqual(rows.ends(many), [0, 299999]);
  assert.ok(!rows.isLog(many));
});

test("changed rows replace those with their id, and a reset forgets the others", () => {
  const known = new Map();
  rows.join(known, { rows: [trial(1, 1), trial(2, 2)], reset: true, from: 0 });
  rows.join(known, { rows: [trial(501, 5)], reset: true, from: 500 });
  rows.join(known, { rows: [trial(2, 0.5)], gone: ["t1"] });
  assert.deepEqual([...known.values()].map((row) => [row.id, row.metrics.loss]), [["t2", 0.5], ["t501", 5]]);
  rows.join(known, { rows: [trial(7, 1)], reset: true, from: 0 });
  assert.deepEqual([...known.keys()], ["t7"]);
});

test("while the order is held, new rows come at the end", () => {
  const sorted = [trial(9, 0.1), trial(1, 0.2), trial(2, 0.3)];
  assert.deepEqual(ids(rows.hold(sorted, ["t2", "t1"])), ["t2", "t1", "t9"]);
});

test("a log axis is chosen for what spans more than a factor of 100", () => {
  assert.ok(rows.isLog([1e-4, 1e-1]));
  assert.ok(!rows.isLog([0, 1e-1, 1e3]));
  assert.ok(!rows.isLog([16, 256]));
});
