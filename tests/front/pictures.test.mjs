import assert from "node:assert/strict";
import { test } from "node:test";

import * as axes from "../../nbckpt/notebook/widget/front/axes.js";
import { chosenColumns, direction, standing } from "../../nbckpt/notebook/widget/front/columns.js";
import { difference, differences } from "../../nbckpt/notebook/widget/front/compare.js";
import { hindrance } from "../../nbckpt/notebook/widget/front/deeds.js";
import { experiment } from "../../nbckpt/notebook/widget/front/experiment.js";
import { bounded, ranged } from "../../nbckpt/notebook/widget/front/curve_plot.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import { progressText, settingsText } from "../../nbckpt/notebook/widget/front/heading.js";
import { course, placing } from "../../nbckpt/notebook/widget/front/ink.js";
import { stepsOf } from "../../nbckpt/notebook/widget/front/media.js";
import * as rows from "../../nbckpt/notebook/widget/front/rows.js";
import * as series from "../../nbckpt/notebook/widget/front/series.js";
import { lateness } from "../../nbckpt/notebook/widget/front/shades.js";
import { fake } from "./fake.mjs";

const near = (a, b) => Math.abs(a - b) < 1e-9;

test("bytes are read from any offset, and cut into the lines of trials", () => {
  const padded = new Uint8Array(4 + 24);
  padded.set(new Uint8Array(Float64Array.from([1, 2, 3]).buffer), 4);
  const read = series.floats(new DataView(padded.buffer, 4, 24), Float64Array);
  const lines = series.cut(read, ["t1", "t2"], [1, 2]);
  assert.deepEqual([[...lines.get("t1")], [...lines.get("t2")]], [[1], [2, 3]]);
});

test("smoothing has no bias at its start, and keeps gaps", () => {
  const smoothed = series.smooth(Float64Array.from([2, 2, NaN, 2]), 0.9);
  assert.ok(near(smoothed[0], 2) && near(smoothed[3], 2) && Number.isNaN(smoothed[2]));
});

test("the scale leaves out the few values far off", () => {
  const values = [...Array.from({ length: 100 }, (_, at) => at / 100), 800];
  assert.ok(series.range(values)[1] < 1.1);
  assert.ok(series.range(values, { all: true })[1] > 800);
  assert.deepEqual(series.range([]), [0, 1]);
  assert.ok(series.range([0, 0.1, 10], { log: true })[0] > 0);
});

test("a colour stays with its trial while that is shown", () => {
  const slots = series.assign(new Map(), ["a", "b", "c"]);
  series.assign(slots, ["c", "d"]);
  assert.equal(slots.get("c"), 2);
  assert.equal(slots.get("d"), 0);
  assert.ok(!slots.has("a"));
});

test("labels at the ends of lines do not lie on each other", () => {
  const tops = series.spread([90, 91, 92, 10], 12, 100);
  const sorted = [...tops].sort((a, b) => a - b);
  assert.ok(sorted.every((top, at) => at === 0 || top - sorted[at - 1] >= 12));
  assert.ok(Math.max(...tops) <= 88);
});

test("a thinned line keeps its extremes and its ends", () => {
  const y = Float64Array.from({ length: 1000 }, (_, at) => (at === 437 ? 99 : at === 613 ? -99 : 0));
  const kept = series.thin(y, 100);
  assert.ok(kept.length <= 102 && [0, 437, 613, 999].every((at) => kept.includes(at)));
});

test("the nearest point of a line", () => {
  assert.deepEqual([-5, 1.4, 1.6, 99].map((value) => series.nearest([0, 1, 2, 3], value)), [0, 1, 2, 3]);
});

test("a line has a gap where a value is not finite", () => {
  const place = placing({ left: 0, top: 0, width: 100, height: 100 }, { x: [0, 2], y: [0, 1], log: false });
  assert.equal(course([0, 1, 2], [1, NaN, 0], place), "M0.0 0.0M100.0 100.0");
});

test("keys move a range by a value or a tenth, and keep it on the axis", () => {
  const width = axes.axis([128, 16, 256, 32], rows, format);
  const after = (axis, ...keys) => keys.reduce((brush, key) => axes.moved(axis, brush, key.endsWith("up"), key.startsWith("top")), undefined);
  assert.deepEqual(after(width, "up"), { values: ["16"] });
  assert.deepEqual(after(width, "down", "up"), { values: ["256"] });
  assert.deepEqual(after(width, "up", "up", "top up"), { values: ["32", "128"] });
  assert.deepEqual(after(width, "up", "top up", "top down", "top down"), { values: ["16"] });
  const lr = axes.axis(Array.from({ length: 20 }, (_, at) => at), rows, format);
  const [from, to] = lr.span(after(lr, "up", "up", "top up"));
  assert.ok(near(from, 0.1) && near(to, 0.3));
  const narrow = lr.brush(0.5, 0.52);
  assert.ok(near(lr.span(axes.moved(lr, narrow, false, true))[1], 0.52));
  assert.ok(near(lr.span(axes.moved(lr, lr.brush(0.5, 0.97), true, false))[1], 1));
});

test("few values have a place each in their own order, and many numbers a scale", () => {
  const width = axes.axis([128, 16, 256, 32], rows, format);
  assert.deepEqual(width.ticks.map((tick) => tick.text), ["16", "32", "128", "256"]);
  assert.deepEqual(width.brush(0, 0.5), { values: ["16", "32"] });
  const lr = axes.axis(Array.from({ length: 20 }, (_, at) => 10 ** (-4 + at / 6)), rows, format);
  assert.ok(lr.log);
  assert.ok(Math.abs(lr.place(10 ** (-4 + 19 / 12)) - 0.5) < 1e-6);
  const range = lr.brush(0.25, 0.75);
  assert.ok(near(lr.span(range)[0], 0.25) && near(lr.span(range)[1], 0.75));
});

test("axes and shades take more numbers than a function has arguments", () => {
  const many = Array.from({ length: 200000 }, (_, n) => n);
  assert.ok(near(axes.axis(many, rows, format).place(0), 0.03 / 1.06));
  assert.equal(lateness(many.map((n) => ({ n })))({ n: 199999 }), 1);
});

test("keys zoom and move curves within the whole range", () => {
  const key = (key, shiftKey = false) => ranged({ key, shiftKey }, [20, 60], 30);
  assert.deepEqual([key("+"), key("-"), key("ArrowRight", true), key("ArrowLeft", true)], [[25, 45], [10, 90], [30, 70], [10, 50]]);
  assert.deepEqual([key("ArrowRight"), key("ArrowUp", true), key("x")], [null, null, null]);
  assert.deepEqual(bounded([-10, 30], [0, 100]), [0, 40]);
  assert.deepEqual(bounded([90, 130], [0, 100]), [60, 100]);
  assert.deepEqual(bounded([50, 50.01], [0, 100]), [50, 50.2]);
  assert.equal(bounded([-10, 110], [0, 100]), null);
});

test("a setting that decides explains the variance, and another does not", () => {
  const lr = Array.from({ length: 64 }, (_, at) => at);
  const other = lr.map((at) => (at % 2 ? "a" : "b"));
  const loss = lr.map((at) => at * 2);
  assert.ok(axes.explains(lr, loss) > 0.9);
  assert.ok(axes.explains(other, loss) < 0.1);
  assert.equal(axes.explains([1, 1], [1, 1]), 0);
});

test("the columns are the metric, two more, and six settings that vary", () => {
  const view = { metric: "loss", metrics: ["a", "b", "c", "loss"], settings: ["1", "2", "3", "4", "5", "6", "7"], chosen: { hidden: ["status"], shown: ["seconds"] } };
  assert.deepEqual(chosenColumns(view), ["id", "metrics:loss", "metrics:a", "metrics:b", "settings:1", "settings:2", "settings:3", "settings:4", "settings:5", "settings:6", "seconds"]);
  assert.deepEqual(["val_loss", "accuracy", "epoch"].map(direction), ["min", "max", null]);
});

test("a deed that cannot be done now says why", () => {
  const trial = (status, saved = null) => ({ id: "t28", n: 28, status, saved, settings: {}, metrics: {} });
  assert.equal(hindrance("pause", [trial("done")]), "t28 has ended");
  assert.equal(hindrance("pause", [trial("done"), trial("running")]), "");
  assert.equal(hindrance("restore", [trial("done")]), "t28 has no checkpoint");
  assert.equal(hindrance("restore", [trial("done", 40)]), "");
  assert.equal(hindrance("resume", [trial("interrupted")]), "");
});

test("a row says how a trial stands that has not ended", () => {
  const said = (fields) => standing({ id: "t1", n: 1, settings: {}, metrics: {}, why: "", step: 26, ...fields }, format);
  assert.equal(said({ status: "running", of: 100, left_s: 180, saved: 20, unsaved: 6 }), "26/100 · 3 min left, 6 steps not saved");
  assert.equal(said({ status: "running", of: 100, left_s: null, saved: null, unsaved: 26 }), "26/100");
  assert.equal(said({ status: "running", of: null }), "");
  assert.equal(said({ status: "running", of: 100, why: "Stopping after this step…" }), "Stopping after this step…");
  assert.equal(said({ status: "interrupted", saved: 20, unsaved: 1 }), "Goes on from @20, 1 step to do again");
  assert.equal(said({ status: "interrupted", saved: 0, unsaved: 0 }), "Goes on from @0");
  assert.equal(said({ status: "done", why: "done", saved: 100 }), "");
});

test("the heading says how far it is and with which settings", () => {
  assert.equal(progressText({ done: 52, running: 3, failed: 5 }, 240, format), "3 running, 52 done, 5 failed · about 4 min left");
  const row = { id: "t", n: 1, status: "done", metrics: {}, settings: { lr: 0.0129, width: 256, optimizer: "adam" } };
  assert.equal(settingsText(row, ["lr", "width", "optimizer"], format), "lr 0.0129, width 256, adam");
});

test("what the kernel sends is joined, and what belongs to another metric is left", async () => {
  const store = experiment(rows, series);
  const changes = [];
  const model = fake();
  model.on("msg:custom", (message, buffers) => changes.push(store.take(message, buffers)));
  model.send({ kind: "follow", pane: "trials", experiment: "tune", metric: "loss" });
  await new Promise((done) => setTimeout(done, 20));
  assert.deepEqual(changes, ["rows", "rows", "lines"]);
  assert.equal(store.known.rows.size, 60);
  assert.equal(rows.bestOf(store.known.rows.values(), "loss", "min").id, "t52");
  assert.equal(store.known.lines.get("t52").y.length, 100);
  assert.equal(store.take({ kind: "sparks", experiment: "tune", metric: "accuracy", ids: [], lengths: [] }, [new DataView(new ArrayBuffer(0))]), "");
});

test("a comparison shows what differs first, and the difference to the first", () => {
  const trial = (id, settings) => ({ id, n: 1, status: "done", settings, metrics: {} });
  const { differ, same } = differences([trial("a", { lr: 1, width: 4, batch: 8 }), trial("b", { lr: 2, width: 4, batch: 8 })], ["lr", "width"]);
  assert.deepEqual([differ.map((row) => row.name), same.map((row) => row.name)], [["lr"], ["width", "batch"]]);
  assert.deepEqual([difference(0.25, 0.2, format), difference(0.1, 0.2, format), difference("nan", 0.2, format)], ["+0.0500", "−0.100", ""]);
});

test("the steps of media are in order, each once", () => {
  assert.deepEqual(stepsOf({ image: [40, 20, 40, 100] }, "image"), [20, 40, 100]);
  assert.deepEqual(stepsOf({}, "image"), []);
});
