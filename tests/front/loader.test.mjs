import assert from "node:assert/strict";
import { mock, test } from "node:test";
import loader from "../../nbckpt/notebook/widget/front/loader.js";

/** A model that keeps what is sent. */
function model() {
  const heard = new Map();
  const sent = [];
  return {
    sent,
    get: () => "1",
    on: (name, handler) => void heard.set(name, [...(heard.get(name) ?? []), handler]),
    off: (name, handler) => void heard.set(name, heard.get(name).filter((each) => each !== handler)),
    send: (message) => void sent.push(message),
    emit: (name, ...said) => (heard.get(name) ?? []).forEach((handler) => handler(...said)),
  };
}

test("a module is asked for again until the kernel has gone", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  for (const gone of ["comm_live_update", "comm:close", "destroy"]) {
    const one = model();
    loader.initialize({ model: one });
    mock.timers.tick(600);
    assert.deepEqual(one.sent, [{ kind: "part", name: "mount.js" }, { kind: "part", name: "mount.js" }]);
    one.emit(gone);
    mock.timers.tick(5000);
    assert.equal(one.sent.length, 2); // a comm that is closed refuses with an error
  }
  mock.timers.reset();
});
