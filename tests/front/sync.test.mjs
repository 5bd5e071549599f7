/** The words of the pane of sync. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../nbckpt/notebook/widget/front/format.js";
import * as sync from "../../nbckpt/notebook/widget/front/sync.js";
import { syncs } from "./fake_panes.mjs";

const NOW = Date.now() / 1000;
const said = (state) => {
  const { before, at, after } = sync.sentence(state, format, NOW);
  return `${before}${at ? "T" : ""}${after}`;
};

test("each state is one sentence and a sign on the tab", () => {
  const words = Object.fromEntries(Object.entries(syncs).map(([name, state]) => [name, [sync.tab(state), said(state)]]));
  assert.deepEqual(words.off, ["", "Your checkpoints are on this machine only."]);
  assert.deepEqual(words.synced, ["✓", "Everything is also in s3://bucket/team. Checked T."]);
  assert.deepEqual(words.sending, ["↑", "Sending to s3://bucket/team: 1.2 GB of 4 GB, 3 min left"]);
  assert.deepEqual(words.waiting, ["↑ 3", "3 checkpoints are not there yet, 4.2 MB."]);
  assert.deepEqual(words.there, ["↓ 2", "2 checkpoints there are not here. All of here is in s3://bucket/team."]);
  assert.equal(words.failed[0], "✕");
  assert.match(words.failed[1], /^Not safe since \d\d:\d\d\. No permission to write to s3:\/\/bucket\/team\.$/);
});

test("a first failure has no time since when it was safe", () => {
  assert.equal(said({ ...syncs.failed, pushed_at: "" }), "Not safe elsewhere. No permission to write to s3://bucket/team.");
});

test("what waits is one sentence, whatever it is", () => {
  const words = (...waiting) => said({ ...syncs.waiting, waiting, waiting_size: 0 });
  assert.equal(words(1, 0), "1 checkpoint is not there yet.");
  assert.equal(words(0, 1), "Changes of 1 trial are not there yet.");
  assert.equal(words(2, 3), "2 checkpoints and changes of 3 trials are not there yet.");
  assert.equal(words(0, 0), "Not checked yet in this kernel: s3://bucket/team.");
});

test("a period leads to the nearest choice", () => {
  assert.deepEqual([300, 61, 1e6, 1500, 0, 1].map(sync.choice), ["five", "minute", "half", "half", "never", "minute"]);
});

test("when a push begins by itself is a few words", () => {
  const words = (period, after_saves) => sync.times({ period, after_saves });
  assert.equal(words(300, true), "every 5 minutes, and after each save");
  assert.equal(words(60, false), "every minute");
  assert.equal(words(0, true), "after each save");
  assert.equal(words(0, false), "only when I press Sync now");
});

test("the tab counts what waits in both directions", () => {
  assert.equal(sync.tab({ ...syncs.waiting, waiting: [2, 1], there: 2 }), "↑ 3 ↓ 2");
  assert.equal(sync.tab({ ...syncs.waiting, waiting: [0, 0], there: 0 }), "●");
});

test("the next push is foretold only while all is well", () => {
  const state = { ...syncs.synced, pushed_at: new Date(1000 * (NOW - 100)).toISOString() };
  assert.equal(Math.round(sync.next(state) - NOW), 200);
  assert.equal(Math.round(sync.next({ ...state, state: "waiting" }) - NOW), 200);
  assert.equal(sync.next({ ...state, period: 0 }), null);
  assert.equal(sync.next(syncs.failed), null);
});

test("without its kernel the pane says when all was there", () => {
  const { before, at } = sync.sentence(syncs.synced, format, NOW, "14:02");
  assert.deepEqual([before, at], ["Last seen 14:02: all in s3://bucket/team. Run this cell again.", 0]);
  assert.match(sync.sentence(syncs.failed, format, NOW, "14:02").before, /^Not safe since/);
});
