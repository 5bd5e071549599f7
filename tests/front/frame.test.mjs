import assert from "node:assert/strict";
import { test } from "node:test";

import { between } from "../../nbckpt/notebook/widget/front/grid_keys.js";
import { fitted, inSight } from "../../nbckpt/notebook/widget/front/grid.js";
import { acted, KEYS, leaves, moved, named } from "../../nbckpt/notebook/widget/front/keys.js";
import { link, standing } from "../../nbckpt/notebook/widget/front/link.js";
import { layout } from "../../nbckpt/notebook/widget/front/panel.js";
import { reason, stateLine } from "../../nbckpt/notebook/widget/front/state_line.js";

const pressed = (key, more = {}) => ({ key, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...more });

test("the layout follows the width of the element", () => {
  assert.deepEqual([480, 719, 720, 1199, 1200, 1799, 1800, 2560].map(layout), [
    "narrow", "narrow", "medium", "medium", "wide", "wide", "very wide", "very wide",
  ]);
});

test("the state line tells waiting from silence", () => {
  const seen = { gone: false, asked: 1000 };
  assert.deepEqual([1500, 2100, 11500].map((now) => standing({ ...seen, now })), ["live", "waiting", "silent"]);
  assert.equal(standing({ ...seen, gone: true, now: 1000 }), "gone");
  assert.deepEqual([true, false].map((held) => standing({ ...seen, asked: null, now: 0, held })), ["held", "live"]);
  assert.match(stateLine("held", ""), /running cell/);
  assert.match(stateLine("silent", "14:02"), /No answer since 14:02/);
  assert.doesNotMatch(stateLine("silent", "14:02", true), /Run this cell/);
  assert.deepEqual([reason("live", ""), reason("waiting", "")], ["", ""]);
});

test("plain keys end in the panel, and those with Ctrl do not", () => {
  assert.ok(!leaves(pressed("d"), false));
  assert.ok(leaves(pressed("s", { ctrlKey: true }), false));
  assert.ok(!leaves(pressed("a", { ctrlKey: true }), true));
  assert.ok(leaves(pressed("Enter", { shiftKey: true }), false));
});

test("letters are text in a field, and Escape is not", () => {
  assert.deepEqual([named(pressed("b"), false), named(pressed("b"), true)], ["best", null]);
  assert.equal(named(pressed("Escape"), true), "escape");
  assert.equal(named(pressed("b", { ctrlKey: true }), false), null);
  assert.equal(new Set(KEYS.map((key) => key.key)).size, KEYS.length);
});

test("keys of movement stop at the ends", () => {
  assert.deepEqual([moved("ArrowUp", 0, 9, 4), moved("PageDown", 6, 9, 4), moved("End", 0, 9, 4), moved("x", 0, 9, 4)], [0, 8, 8, null]);
});

test("only the rows in sight, and a few more, are in the page", () => {
  const [first, end] = inSight(2800, 560, 28, 10000);
  assert.ok(first <= 100 && first > 80 && end >= 120 && end < 140);
  assert.deepEqual(inSight(0, 560, 28, 3), [0, 3]);
});

test("a range is selected in both directions", () => {
  assert.deepEqual(between(["a", "b", "c", "d"], "c", "b"), ["b", "c"]);
  assert.deepEqual(between(["a", "b"], "gone", "b"), ["b"]);
});

/** A model that answers as `answers` says, at once. */
function wired(answers, context) {
  const heard = new Map();
  const sent = [];
  const stop = new AbortController();
  const model = {
    get: () => ({}), set() {}, save_changes() {}, off() {},
    on: (event, handler) => heard.set(event, handler),
    send(message) {
      sent.push(message);
      const answer = answers(message);
      if (answer) queueMicrotask(() => heard.get("msg:custom")({ n: message.n, ...answer }, []));
    },
  };
  const way = link({ model, signal: stop.signal, heard() {}, changed() {}, sight: () => ({}) });
  context.after(() => stop.abort());
  return { way, sent, end: () => heard.get("comm_live_update")() };
}

test("a deed is sent when the ping was answered, and not before", async (context) => {
  const { way, sent } = wired(({ kind }) => (kind === "ping" ? { kind: "pong" } : { kind: "answer", ok: true, text: "Paused t1." }), context);
  const answer = await way.act("pause", ["t1"]);
  assert.equal(answer?.text, "Paused t1.");
  assert.deepEqual(sent.map((message) => message.kind), ["ping", "act"]);
});

test("a deed that is cancelled while it waits is never sent", async (context) => {
  const { way, sent } = wired(() => null, context);
  const answer = way.act("restore", ["t1"]);
  assert.ok(way.waits());
  way.cancel();
  assert.equal(await answer, null);
  assert.deepEqual(sent.map((message) => message.kind), ["ping"]);
});

test("when the kernel goes, nothing waits for it any longer", async (context) => {
  const { way, end } = wired(() => null, context);
  const detail = way.detail("trial", ["t1"]);
  end();
  assert.equal(await detail, null);
  assert.equal(way.standing(), "gone");
  assert.equal(await way.act("pause", ["t1"]), null);
});

test("a kernel that takes no message has gone", async (context) => {
  const { way } = wired(() => {
    throw new Error("Cannot send");
  }, context);
  assert.equal(await way.act("pause", ["t1"]), null);
  assert.equal(way.standing(), "gone");
  assert.equal(await way.detail("trial", ["t1"]), null);
});

test("a key that is held down acts once, and moves and writes on", () => {
  const held = (key, more = {}) => pressed(key, { repeat: true, ...more });
  assert.deepEqual(["Enter", " ", "p", "u", "Delete", "Escape"].map((key) => acted(held(key), false)), Array(6).fill(true));
  assert.deepEqual(["ArrowDown", "PageUp", "Home", "Tab"].map((key) => acted(held(key), false)), Array(4).fill(false));
  assert.deepEqual([acted(held("a"), true), acted(held("Enter"), true), acted(held("Enter"), true, true)], [false, true, false]);
  assert.deepEqual([acted(pressed("Enter"), false), acted(held("Enter", { shiftKey: true }), false), acted(held("a", { ctrlKey: true }), false)], [false, false, false]);
});

test("whole columns fill the room, and the others follow behind the edge", () => {
  const columns = (...widths) => widths.map((width, at) => ({ id: String(at), width, grow: at > 1 ? 1 : 0 }));
  const widths = (room, ...some) => fitted(columns(...some), room).map(({ width }) => width);
  assert.deepEqual(widths(400, 100, 90, 80, 70, 90), [100, 90, 110, 100, 90]);
  assert.deepEqual(widths(500, 100, 90, 80), [100, 90, 80]);
  assert.deepEqual(widths(200, 100, 90, 80), [100, 100, 80]);
  assert.deepEqual(widths(150, 100, 90, 80), [100, 90, 80]);
  assert.deepEqual(widths(0, 100, 90), [100, 90]);
});
