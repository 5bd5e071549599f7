/** Curves: groups of trials by a setting, their mean lines, and what the legend hides. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { groups, mean } from "../../nbckpt/notebook/widget/front/curve_groups.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import { hiding } from "../../nbckpt/notebook/widget/front/legend.js";
import { arranged, moved, ordered, paged } from "../../nbckpt/notebook/widget/front/metric_charts.js";
import * as rows from "../../nbckpt/notebook/widget/front/rows.js";

const trials = (...values) => values.map((value, n) => ({ id: `t${n}`, n, settings: value === undefined ? {} : { s: value } }));
const made = (...values) => groups(trials(...values), ["s"], rows, format);
const texts = (some) => some.map(({ text }) => text);

test("few values are a group each, in their own order", () => {
  assert.deepEqual(texts(made(128, 16, 256, 16)), ["16", "128", "256"]);
  assert.deepEqual(made(128, 16, undefined, 16)[0], { key: "s=16", text: "16", ids: ["t1", "t3"] });
  assert.deepEqual(texts(made("sgd", "adam", "sgd")), ["adam", "sgd"]);
  assert.deepEqual(texts(made(true, false)), ["false", "true"]);
});

test("many numbers make five ranges with about as many trials each", () => {
  const five = made(...Array.from({ length: 50 }, (_, at) => at));
  assert.deepEqual(texts(five), ["0 to 9", "10 to 19", "20 to 29", "30 to 39", "40 to 49"]);
  assert.deepEqual(five.map(({ ids }) => ids.length), [10, 10, 10, 10, 10]);
  const skewed = made(...Array.from({ length: 50 }, () => 1), 2, 3, 4, 5, 6);
  assert.ok(skewed.length <= 5);
  assert.equal(skewed.flatMap(({ ids }) => ids).length, 55);
});

test("ranges that two digits cannot tell apart have all digits", () => {
  const near = made(1.001, 1.002, 1.003, 1.004, 1.005, 1.006);
  assert.equal(new Set(texts(near)).size, near.length);
});

test("of many texts the most frequent stand alone", () => {
  const many = made(...Array.from({ length: 12 }, (_, at) => `v${at}`), "v11");
  assert.equal(many.length, 8);
  assert.ok(texts(many).includes("v11"));
  assert.deepEqual([many.at(-1).text, many.at(-1).ids.length], ["others", 5]);
});

test("two settings make a group for each pair that occurs", () => {
  const pairs = [["adam", 1], ["sgd", 1], ["adam", 2], ["adam", 1]];
  const both = pairs.map(([s, depth], n) => ({ id: `t${n}`, n, status: "done", settings: { s, depth }, metrics: {} }));
  const all = groups([...both, { ...both[0], id: "t9", settings: { s: "adam" } }], ["s", "depth"], rows, format);
  assert.deepEqual(all.map(({ text, ids }) => [text, ids]), [["adam, 1", ["t0", "t3"]], ["adam, 2", ["t2"]], ["sgd, 1", ["t1"]]]);
  assert.equal(all[0].key, "s,depth=adam, 1");
  const many = Array.from({ length: 50 }, (_, n) => ({ ...both[0], id: `t${n}`, settings: { s: `s${n % 5}`, depth: n % 3 } }));
  const few = groups(many, ["s", "depth"], rows, format);
  assert.deepEqual([few.length, few.at(-1).text, few.flatMap(({ ids }) => ids).length], [8, "others", 50]);
});

test("the mean is that of the lines that reach a step", () => {
  const { x, y } = mean([{ x: [1, 2, 3], y: [2, 4, 6] }, { x: [1, 3], y: [4, 8] }, { x: [1], y: [NaN] }, { x: [], y: [] }]);
  assert.deepEqual([[...x], [...y]], [[1, 2, 3], [3, 5, 7]]);
  const short = mean([{ x: [1, 2], y: [0, 0] }, { x: [1, 2, 3], y: [2, 2, 9] }]);
  assert.deepEqual([...short.y], [1, 1, 9]);
  assert.equal(mean([]).x.length, 0);
});

test("the mean of very long lines has few points and keeps the last", () => {
  const x = Float64Array.from({ length: 5000 }, (_, at) => at);
  const long = mean([{ x, y: x }]);
  assert.ok(long.x.length <= 242 && long.x.at(-1) === 4999 && long.y.at(-1) === 4999);
});

test("a line stays hidden until it is turned on again, or all are shown", () => {
  let drawn = 0;
  const hidden = hiding(() => (drawn += 1));
  hidden.turn("t1");
  hidden.turn("t2");
  hidden.turn("t1");
  assert.deepEqual([hidden.list(), hidden.has("t1"), hidden.count(), drawn], [["t2"], false, 1, 3]);
  hidden.clear(true);
  assert.deepEqual([hidden.count(), drawn], [0, 3]);
});

test("as many charts as have room make a page, and the others have pages too", () => {
  const metrics = ["a", "b", "c", "d", "e"];
  assert.deepEqual([arranged(500, 340, 5).room, arranged(500, 340, 5).columns], [4, 2]);
  assert.deepEqual([arranged(10, 10, 5).room, arranged(5000, 5000, 99).room, arranged(900, 300, 1).columns], [1, 12, 1]);
  assert.deepEqual(paged(metrics, 4, 0), { at: 0, pages: 2, shown: ["a", "b", "c", "d"] });
  assert.deepEqual(paged(metrics, 4, 9), { at: 1, pages: 2, shown: ["e"] });
  assert.deepEqual(paged([], 4, 1), { at: 0, pages: 1, shown: [] });
});

test("charts stand in the order that they were moved to, and new ones follow", () => {
  const metrics = ["a", "b", "c"];
  assert.deepEqual(moved(metrics, "c", -1), ["a", "c", "b"]);
  assert.deepEqual(moved(metrics, "c", -9), ["c", "a", "b"]);
  assert.deepEqual(moved(metrics, "a", 9), ["b", "c", "a"]);
  assert.deepEqual(ordered(["new", ...metrics], ["c", "gone", "a"]), ["c", "a", "new", "b"]);
});
