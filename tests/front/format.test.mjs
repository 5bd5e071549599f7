import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../nbckpt/notebook/widget/front/format.js";

test("a column has one notation: the same count of decimals", () => {
  const column = format.numbers([0.16017174, 0.7608, 2.31]);
  assert.deepEqual([0.16017174, 0.7608, 2.31].map(column), ["0.1602", "0.7608", "2.3100"]);
});

test("a column that spans powers of ten is scientific, and rounds nothing to zero", () => {
  const column = format.numbers([0.000387, 0.0129, 0.5], 3);
  assert.deepEqual([0.000387, 0.0129, 0.5].map(column), ["3.9e-4", "1.3e-2", "5.0e-1"]);
});

test("whole numbers stay whole, with thousands apart", () => {
  const column = format.numbers([4, 256, 5000], 3);
  assert.deepEqual([4, 256, 5000].map(column), ["4", "256", "5,000"]);
});

test("what is not a number is written as it is, and nothing as nothing", () => {
  const column = format.numbers([0.5, "nan", null], 4);
  assert.deepEqual(["nan", "inf", null, undefined, NaN].map(column), ["nan", "inf", "", "", "nan"]);
  assert.ok(format.isOdd("-inf"));
  assert.ok(!format.isOdd("infinity"));
});

test("a negative and a zero keep the decimals of their column", () => {
  const column = format.numbers([-0.5, 0, 0.25], 3);
  assert.deepEqual([-0.5, 0, 0.25].map(column), ["-0.500", "0", "0.250"]);
});

test("time spent is said as people say it", () => {
  assert.deepEqual([0.25, 26, 60, 240, 3900].map(format.duration), ["0.3 s", "26 s", "1 min", "4 min", "1 h 05 min"]);
});

test("ages become a date after a day", () => {
  const now = new Date(2026, 10, 23, 15, 0).getTime() / 1000;
  const ages = [now, now - 120, now - 7200].map((at) => format.age(at, now));
  assert.deepEqual(ages, ["just now", "2 min ago", "2 h ago"]);
  assert.equal(format.age(new Date(2026, 10, 21, 14, 2).getTime() / 1000, now), "21 Nov 14:02");
});

test("what comes is counted down, and is then due", () => {
  assert.deepEqual([100, 240, 60, 59.5].map((at) => format.until(at, 60)), ["in 40 s", "in 3 min", "now", "now"]);
});

test("sizes have three digits", () => {
  assert.deepEqual([738, 80830, 1083000, 18.4e6].map(format.size), ["738 B", "80.8 kB", "1.08 MB", "18.4 MB"]);
});

test("a setting in a sentence has no zeros behind its digits", () => {
  assert.deepEqual([0.001, 0.0129, 256, 5000, 0.25, "adam", true, null].map(format.setting), ["0.001", "0.0129", "256", "5,000", "0.25", "adam", "true", ""]);
});

test("a time that cannot be is no nonsense", () => {
  assert.deepEqual([format.duration(1e300), format.duration("nan"), format.duration(NaN), format.duration(3600)], ["very long", "", "", "1 h 00 min"]);
});

test("a column of many numbers has one notation", () => {
  const many = Float64Array.from({ length: 300_000 }, (_, at) => 0.5 + at / 1_000_000);
  assert.equal(format.numbers(many)(0.6), "0.6000");
});
