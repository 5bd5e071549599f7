import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as find from "../../nbckpt/notebook/widget/front/find.js";
import * as format from "../../nbckpt/notebook/widget/front/format.js";
import * as rows from "../../nbckpt/notebook/widget/front/rows.js";
import * as where from "../../nbckpt/notebook/widget/front/where.js";

const cases = JSON.parse(readFileSync(new URL("../trials/where_cases.json", import.meta.url), "utf8"));
const mapped = (values, as) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, as(value)]));
const VALUES = {
  ...cases.values, ...cases.lists,
  ...mapped(cases.numbers, (text) => ({ nan: NaN, inf: Infinity })[text]),
  ...mapped(cases.several, (values) => new where.Several(values)),
  ...mapped(cases.moments, (at) => at && new Date(at).getTime() / 1000),
};

test("both parsers of filters agree", () => {
  for (const [text, passes] of cases.cases) assert.equal(where.where(text).test((name) => (Object.hasOwn(VALUES, name) ? VALUES[name] : undefined)), passes, text);
});

test("both parsers refuse the same", () => {
  for (const text of cases.refused) assert.throws(() => where.where(text), /Cannot read the filter at character \d+: /, text);
});

test("a filter has a depth and a length at most", () => {
  assert.throws(() => where.where("n".repeat(2001)), /at most 2,000 characters/);
  for (const text of [`${"not ".repeat(42)}n`, `${"(".repeat(900)}n${")".repeat(900)}`, `n == ${"(".repeat(90)}1,${"),".repeat(89)})`])
    assert.throws(() => where.where(text), /nested too deep/);
  assert.ok(where.where(`${"not ".repeat(40)}n`).test(() => 1));
});

const known = { name: "tune", metrics: ["loss", "val/loss", "width"], settings: ["lr", "width", "optimizer"], same: { batch: 32, layers: "None", "my-flag": true } };
const trial = (n, more = {}) => ({
  id: `t${n}`, n, status: "done", step: n, seconds: 10 * n, started: 1e9, ended: null, error: "", tags: [], note: "",
  settings: { lr: n / 10, width: 100 * n, optimizer: n % 2 ? "adam" : "sgd" }, metrics: { loss: n, "val/loss": n / 2 }, ...more,
});
const TRIALS = [trial(1, { tags: ["good", "night"] }), trial(2, { status: "waiting", metrics: { loss: "nan", width: 7 } }), trial(3, { status: "failed", error: "CUDA out of memory" })];
const finding = (text) => find.finding(text, known, { rows, where, format });
const found = (text) => TRIALS.filter(finding(text).passes).map((row) => row.id).join(" ");

test("the box takes filters, and words as before", () => {
  const expected = {
    "": "t1 t2 t3", "lr < 0.25": "t1 t2", "lr<0.25": "t1 t2", "lr=0.1": "t1", "lr>=0.2 loss<4": "t3", "optimizer=adam loss<2": "t1", "lr=0.1 batch=32": "t1",
    "optimizer == 'adam' and loss > 1": "t3", "tag == 'good'": "t1", "'night' in tags": "t1", "tag=good": "t1", "memory": "t3", "out of memory": "t3", "not memory": "",
    "status == 'pending'": "t2", "status == 'Pending' or status in ('failed',)": "t2 t3", "status != 'done'": "t2 t3", "status=failed": "t3",
    "width < 50": "t2", "config.width > 150": "t2 t3", "metrics['width'] == 7": "t2", "loss != loss": "t2", "val.loss <= 1 and batch == 32": "t1", "layers == None": "t1 t2 t3",
    "iteration > 1 and elapsed_s < 25": "t2", "ended_at == None and started_at < '2026-01-01' and trial != 't2'": "t1 t3", "experiment == 'tune' and note == ''": "t1 t2 t3",
    "step>1 seconds<25": "t2", "optimizer!=adam": "t2", "optimizer='adam'": "t1 t3", "'CUDA' in error": "t3", "CUDA and memory": "",
  };
  for (const [text, ids] of Object.entries(expected)) {
    assert.equal(finding(text).problem, "", text);
    assert.equal(found(text), ids, text);
  }
});

test("a filter that is wrong says so and finds all", () => {
  const said = {
    "lr < ": /character 5: something is missing here\.$/, "los < 1": /^No trial has “los”\. Did you mean “loss”\?$/, "los<1": /“los”/, "los=1": /“los”/, "lr = 0.1": /character 4: write == for equal/,
    "lr < 0.1 and tag == 'good": /this quote is not closed/, "optimizer == adam": /No trial has “adam”\. A text stands in quotes: 'adam'\./, "started_at > 'today'": /not a date such as/,
    "lr is None and n == 2": /character 4/, "status in ('done'": /a \) is missing|something is missing/, "lr < 0.1 memory": /character 10/, "metrics.lr < 1": /“metrics\/lr”/, "constructor == 1": /“constructor”/,
  };
  for (const [text, problem] of Object.entries(said)) {
    assert.match(finding(text).problem, problem, text);
    assert.equal(found(text), "t1 t2 t3", text);
  }
});
