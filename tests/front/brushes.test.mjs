import assert from "node:assert/strict";
import { test } from "node:test";

import * as axes from "../../nbckpt/notebook/widget/front/axes.js";
import { experiment } from "../../nbckpt/notebook/widget/front/experiment.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import * as brushes from "../../nbckpt/notebook/widget/front/head_brushes.js";
import * as rows from "../../nbckpt/notebook/widget/front/rows.js";
import * as series from "../../nbckpt/notebook/widget/front/series.js";

test("numbers fall into sixteen parts, choices into one each", () => {
  const many = Array.from({ length: 64 }, (_, at) => at + 0.5);
  const counts = brushes.parts(axes.axis(many, rows, format), many);
  assert.equal(counts.length, 16);
  assert.equal(counts.reduce((sum, count) => sum + count), 64);
  assert.deepEqual(brushes.parts(axes.axis(["a", "b", "b"], rows, format), ["b", "a", "b", "c"]), [1, 2]);
});

test("nan and infinite values leave an axis one of numbers", () => {
  const axis = axes.axis([0.1, "nan", 0.2, "inf", "-inf", 0.4], rows, format, { scale: true });
  assert.equal(axis.kind, "numbers");
  assert.deepEqual(brushes.parts(axis, ["nan", "inf", null, undefined]).reduce((sum, count) => sum + count), 0);
  assert.equal(axes.axis(["nan"], rows, format).ticks.length, 0);
});

test("the largest numbers that there are have places", () => {
  const axis = axes.axis([-1.7e308, 0, 1.7e308], rows, format, { scale: true });
  assert.ok([...axis.ticks.map(({ at }) => at), axis.place(0), axis.place(1.7e308)].every(Number.isFinite));
});

test("the smallest bar can be seen, and nothing has none", () => {
  assert.equal(brushes.bars([0, 0], 1), "");
  assert.match(brushes.bars([1, 10_000], 10_000), /^M0.5 18v-1.5h/);
});

test("a value is taken into a choice and out of it", () => {
  const one = brushes.toggled(undefined, "adam");
  const two = brushes.toggled(one, "sgd");
  assert.deepEqual([one, two], [{ values: ["adam"] }, { values: ["adam", "sgd"] }]);
  assert.deepEqual(brushes.toggled(two, "adam"), { values: ["sgd"] });
  assert.equal(brushes.toggled(one, "adam"), null);
});

test("trials stand for their last value or for their best", () => {
  const store = experiment(rows, series);
  const row = { id: "t1", n: 1, status: "done", settings: {}, metrics: { loss: 0.4, accuracy: 0.9 }, best: { loss: 0.2 } };
  store.take({ kind: "trials", experiment: "e", metric: "loss", rows: [row], reset: true, from: 0 }, []);
  const shown = () => store.all()[0].metrics;
  store.byBest(true);
  assert.deepEqual(shown(), { loss: 0.2, accuracy: 0.9 });
  store.take({ kind: "trials", experiment: "e", metric: "loss", rows: [{ ...row, best: { loss: 0.1 } }], reset: false, from: 0 }, []);
  assert.equal(shown().loss, 0.1);
  store.byBest(false);
  assert.equal(shown().loss, 0.4);
});

test("all rows are the same array until one changes", () => {
  const store = experiment(rows, series);
  const send = (loss) => store.take({ kind: "trials", experiment: "e", metric: "loss", rows: [{ id: "t1", n: 1, metrics: { loss } }], reset: false, from: 0 }, []);
  send(1);
  const before = store.all();
  assert.equal(store.all(), before);
  send(2);
  assert.notEqual(store.all(), before);
});

test("a result is kept while the arguments are the same", () => {
  let made = 0;
  const sum = rows.remembered((a, b) => ((made += 1), a + b));
  assert.deepEqual([sum(1, 2), sum(1, 2), sum(1, 3), made], [3, 3, 4, 2]);
});
