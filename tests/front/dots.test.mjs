/** Best so far and the Pareto front: which dots the line turns at, and what the picture says. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as axes from "../../nbckpt/notebook/widget/front/axes.js";
import { improvements, inOrder, verdict } from "../../nbckpt/notebook/widget/front/best_so_far.js";
import { apart, chosen, fanned, stairs } from "../../nbckpt/notebook/widget/front/dots.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import { front } from "../../nbckpt/notebook/widget/front/pareto.js";
import * as rows from "../../nbckpt/notebook/widget/front/rows.js";
import { lateness, shade } from "../../nbckpt/notebook/widget/front/shades.js";
import { spans, told, unitOf } from "../../nbckpt/notebook/widget/front/timeline.js";

const dots = (...values) => values.map(([x, y]) => ({ row: { id: `t${x}`, n: x }, x, y }));
const ids = (some) => some.map(({ row }) => row.id);
const MIN = { metric: "loss", mode: "min" };
const MAX = { metric: "accuracy", mode: "max" };

test("the line turns where a trial is better than all before it", () => {
  const all = dots([0, 3], [1, 4], [2, 2], [3, 2], [4, 1]);
  assert.deepEqual(ids(improvements(all, "min")), ["t0", "t2", "t4"]);
  assert.deepEqual(ids(improvements(all, "max")), ["t0", "t1"]);
  assert.deepEqual(improvements([], "min"), []);
});

test("trials stand at their numbers, or in their order", () => {
  const places = (...numbers) => inOrder(numbers.map((n) => ({ n }))).map(([, x]) => x);
  assert.deepEqual(places(4, 0, 2), [0, 2, 4]);
  assert.deepEqual(places(4, -1, -1), [0, 1, 2]);
});

test("the picture says how long nothing better came", () => {
  const all = dots([0, 3], [1, 1], [2, 2], [3, 2]);
  assert.equal(verdict(all, all[1], format), "t1 is the best. The 2 trials after it found nothing better.");
  assert.equal(verdict(all, all[2], format), "t2 is the best. The trial after it found nothing better.");
  assert.equal(verdict(all, all[3], format), "t3, the last trial, is the best.");
});

test("no trial on the front is worse than another in both", () => {
  const all = dots([1, 5], [2, 3], [3, 3], [4, 1], [5, 2], [2.5, 4]);
  assert.deepEqual(ids(front(all, [MIN, MIN])), ["t1", "t2", "t4"]);
  assert.deepEqual(ids(front(all, [MIN, MAX])), ["t1"]);
  assert.deepEqual(ids(front(all, [MAX, MAX])), ["t5", "t3", "t2.5", "t1"]);
});

test("equal trials stand on the front together", () => {
  const all = dots([1, 1], [1, 1], [0, 2]);
  assert.equal(front(all, [MIN, MIN]).length, 3);
});

test("steps are level first, and end where they should", () => {
  assert.equal(stairs([{ x: 0, y: 9 }, { x: 4, y: 2 }], 7), "M0.0 9.0H4.0V2.0H7.0");
  assert.equal(stairs([{ x: 0, y: 9 }]), "M0.0 9.0");
  assert.equal(stairs([], 7), "");
});

test("names that would lie on each other are left out, and the last stays", () => {
  const places = [{ x: 0, y: 0 }, { x: 8, y: 4 }, { x: 9, y: 40 }, { x: 90, y: 41 }];
  assert.deepEqual(apart(places).map(({ x }) => x), [8, 9, 90]);
});

test("of very many dots the line and the coloured ones are drawn", () => {
  const all = dots(...Array.from({ length: 1000 }, (_, at) => [at, at]));
  const drawn = ids(chosen(all, new Set([all[999]]), new Map([["t998", 0]]), new Set(["t997"])));
  assert.equal(drawn.length, 600);
  assert.ok(["t999", "t998", "t997"].every((id) => drawn.includes(id)));
});

test("an axis that counts is never a log one, and its ticks are whole", () => {
  const counts = axes.axis([1, 2, 500], rows, format, { scale: true, counts: true });
  assert.equal(counts.log, false);
  const few = axes.axis([1, 2], rows, format, { scale: true, counts: true });
  assert.deepEqual(few.ticks.map(({ text }) => text), ["1", "2"]);
});

test("a short range has more than one tick, and settings have no zeros behind them", () => {
  const texts = (values, options) => axes.axis(values, rows, format, options).ticks.map(({ text }) => text);
  assert.deepEqual(texts([0.002, 0.18, 1.9], { scale: true }), ["0.01", "0.1", "1"]);
  assert.deepEqual(texts([0.009, 1.9], { scale: true }), ["0.01", "0.1", "1"]);
  assert.deepEqual(texts([0.15, 16], { scale: true }), ["0.2", "0.5", "1", "2", "5", "10"]);
  assert.deepEqual(texts([0.63, 0.96], { scale: true }), ["0.7", "0.8", "0.9"]);
  assert.deepEqual(texts([0.001, 0.03, 0.9]), ["0.001", "0.03", "0.9"]);
});

test("dots of one place stand around it, and the first stays", () => {
  const spots = fanned([{ left: 10, top: 10 }, { left: 10, top: 10 }, { left: 90, top: 10 }, { left: 10.4, top: 10 }]);
  assert.deepEqual([spots[0], spots[2]], [{ left: 10, top: 10 }, { left: 90, top: 10 }]);
  const far = (a, b) => Math.hypot(a.left - b.left, a.top - b.top);
  assert.ok([far(spots[0], spots[1]), far(spots[0], spots[3]), far(spots[1], spots[3])].every((each) => each > 5));
});

test("shades go from the first trial to the last", () => {
  const trials = [3, 5, 13].map((n) => ({ n }));
  assert.deepEqual(trials.map(lateness(trials)), [0, 0.2, 1]);
  assert.equal(lateness([{ n: 4 }])({ n: 4 }), 1);
  assert.match(shade(0.2), /--nb-to\) 20%/);
  assert.match(shade(7), /--nb-to\) 100%/);
});

test("a trial that runs goes on until the last time that is known, others until their end", () => {
  const done = { started: 10, ended: 40, seconds: 12, status: "done" };
  const lost = { started: 20, ended: null, seconds: 5, status: "interrupted" };
  const runs = { started: 30, ended: null, seconds: 4, status: "running" };
  const back = { started: 35, ended: 30, seconds: 0, status: "failed" }; // a clock that was set back
  assert.deepEqual([...spans([done, lost, runs, back]).values()], [[10, 40], [20, 25], [30, 40], [35, 35]]);
});

test("the axis of a timeline has the largest unit of which there are two", () => {
  assert.deepEqual([0, 1, 119, 120, 7200, 172800].map((seconds) => unitOf(seconds)[1]), ["s", "s", "s", "min", "h", "d"]);
});

test("a timeline says how long all took, and what is missing", () => {
  assert.equal(told([{ status: "done" }, { status: "failed" }], 3, 130, format), "2 trials in 2 min, 1 failed (dashed), 3 not started.");
  assert.equal(told([{ status: "done" }], 0, 26, format), "1 trial in 26 s.");
});
