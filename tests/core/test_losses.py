"""What comes back as less than it was is said when it is saved, with the path to it."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from core.behaviour import fresh
from nbckpt import Checkpoint
from nbckpt.core.spans import NO_OVERLAPS
from nbckpt.core.values import codec
from nbckpt.core.values.codec import paused_gc
from nbckpt.core.values.pickler import Pickler
from nbckpt.states import use_folder
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker
from nbckpt.tracker.results import Saved

TOLD = {
    "result of a computation": (
        "import torch\nx = torch.ones(2, requires_grad=True)\nd = {'loss': [(x * 2).sum()]}",
        ["d['loss'][0]: comes back as a leaf: the computation that gave it is not saved"],
    ),
    "memmap": (
        "import numpy as np, tempfile\nf = tempfile.NamedTemporaryFile()\n"
        "d = [np.memmap(f, np.uint8, 'w+', shape=9)]\ndel f",
        ["d[0]: comes back with its contents, but apart from the file "],
    ),
    "traceback": (
        "try: 1 / 0\nexcept Exception as error: d = {'e': error}",
        ["d['e']: comes back without its traceback"],
    ),
    "own way of pickling": (
        "class C:\n    def __init__(s): s.kept, s.gone = 1, [2]\n"
        "    def __getstate__(s): return {'kept': s.kept}\nd = [C()]",
        ["d[0]: a restored C will not have gone as it is now, because of the way C defines"],
    ),
    "made again by the class": (
        "class C:\n    def __init__(s): s.kept, s.gone = 1, [2]\n"
        "    def __getstate__(s): return {'kept': s.kept}\n"
        "    def __setstate__(s, state): s.__dict__ = state; s.gone = [2]\nd = [C()]",
        [],
    ),
    "arguments of __reduce__": (
        "class C:\n    def __init__(s, x): s.x = x\n    def __reduce__(s): return C, (s.x,)\nd = C([1])",
        [],
    ),
    "hook that cannot be saved": (
        "import torch\np = torch.ones(2, requires_grad=True)\ng = (i for i in [1])\n"
        "_ = p.register_hook(lambda grad, g=g: grad)\ndel g, _",
        ["p: comes back without its hooks, which cannot be saved"],
    ),
    "cause that cannot be saved": (
        "e = ValueError(1)\ne.__cause__ = OSError(i for i in [1])",
        ["e: comes back without its cause, which cannot be saved"],
    ),
    "helper that cannot be saved": (
        "g = (i for i in [1])\ndef f(): return list(g)",
        ["f: needs g, which is not saved with it"],
    ),
}  # fmt: skip


def saved(setup: str, *names: str) -> Saved:
    namespace = fresh()
    exec(setup, namespace)
    with Tracker(MemoryStore()) as tracker:
        return tracker.save(namespace, "x", variables=names)


def test_a_save_warns_about_missing_parts(subtests: pytest.Subtests) -> None:
    for case, (setup, expected) in TOLD.items():
        with subtests.test(case):
            if "torch" in setup:
                pytest.importorskip("torch", reason="needs PyTorch")
            warnings = saved(setup).manifest.warnings
            assert len(warnings) == len(expected)
            assert all(map(str.startswith, warnings, expected))


HELPERS = """
import math
def helper(): return math.pi
def f(): return helper()
class C:
    def go(self): return [helper() for _ in range(2)]
c = C()
def alone(x): return x.helper
"""


def test_a_partial_save_names_the_helpers_that_are_missing() -> None:
    needs = "needs helper, which is not saved with it"
    assert saved(HELPERS, "f", "C", "alone").manifest.warnings == (f"f: {needs}", f"C: {needs}")
    assert saved(HELPERS, "c").manifest.warnings == (f"c: {needs}",)
    assert saved(HELPERS, "helper").manifest.warnings == ()  # a module: its import is in a cell


def test_a_save_does_not_warn_about_saved_helpers() -> None:
    assert saved(HELPERS).manifest.warnings == ()
    assert saved(HELPERS, "f", "helper", "math").manifest.warnings == ()


COUNTED = """
calls = []
class Made:
    def __init__(self, x): calls.append("made"); self.x = x; self.y = 2
    def __reduce__(self): calls.append("reduced"); return Made, (self.x,)
made = Made([1])
calls.clear()
"""


def test_a_save_creates_no_instance_and_reduces_each_once() -> None:
    namespace = fresh()
    exec(COUNTED, namespace)
    with Tracker(MemoryStore()) as tracker:
        warnings = tracker.save(namespace, "x", variables=["made"]).manifest.warnings
    assert namespace["calls"] == ["reduced"]
    assert "will not have y" in warnings[0]


def test_a_pickler_is_freed_without_the_garbage_collector() -> None:
    namespace = fresh()
    exec(HELPERS + COUNTED + "\nl = [f, C, c, made, KeyError(1), memoryview(b'a'), lambda: made]", namespace)
    pickler = Pickler(len, namespace, NO_OVERLAPS, lambda _: True)
    gone = weakref.ref(pickler)
    with paused_gc():
        pickler.dump(namespace["l"])
        del pickler
        assert gone() is None


def raised() -> ValueError:
    """Return an error whose traceback is not saved."""
    try:
        raise ValueError("x")
    except ValueError as error:
        return error


def test_a_dict_checkpoint_warns_with_its_path() -> None:
    with pytest.warns(UserWarning, match=r"\['e'\]\[0\]: comes back without its traceback") as warned:
        Checkpoint.from_dict({"e": [raised()]})
    assert [warning.filename for warning in warned] == [__file__]  # the line of the user, not of nbckpt


def test_a_report_warns_about_missing_parts_of_its_checkpoint(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1, checkpoint={"e": raised()})

    with pytest.warns(UserWarning, match=r"\['e'\]: comes back without its traceback") as warned:
        nbckpt.run(train, executor="inline", folder=tmp_path)
    assert [warning.filename for warning in warned] == [__file__]


def test_a_state_warns_about_missing_parts_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with use_folder(tmp_path):
        state = nbckpt.State.of("last", {"e": raised()})
        nbckpt.save_all_states()
        state.close()
    assert "state 'last': value['e']: comes back without its traceback" in caplog.text


def test_a_slice_of_a_table_saves_only_its_rows() -> None:
    pytest.importorskip("pyarrow", reason="needs Arrow")
    setup = "import pyarrow as pa\ntable = pa.table({'x': [1.5] * 500_000, 's': ['ab'] * 500_000})\n"
    setup += "part = table.slice(10, 10); column = table['x'][5:9]; batch = table.to_batches()[0].slice(3, 2)"
    namespace = fresh()
    exec(setup, namespace)
    with Tracker(MemoryStore()) as tracker:
        names = ["part", "column", "batch"]
        assert tracker.save(namespace, "x", variables=names).new_bytes < 20_000
        new = fresh()
        tracker.restore("x", new)
        assert all(new[name].equals(namespace[name]) for name in names)


MEASURED = """
import sys
import numpy as np
from nbckpt import Tracker
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
class Kept:
    def __init__(self, a): self.a = a; self.cache = a[:10]
    def __getstate__(self): return {"a": self.a}
for code in sys.argv[2:]:
    exec(code)
with Tracker(sys.argv[1] + "/first") as tracker:
    tracker.save({"small": np.zeros(1000)}, "warm")
with Tracker(sys.argv[1] + "/store") as tracker:
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    tracker.save(dict(value=value), "x")
print(peak() - before)
"""

BIG = "a = np.ones(40 << 20)"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "code", ["value = Kept(a)", "value = {1: a, 2: [a[5:]]}", "value = a.reshape(2, -1).T"]
)
def test_a_save_takes_at_most_64_mib(tmp_path: Path, code: str) -> None:
    environment = {**os.environ, "NBCKPT_SECRET_FILE": str(tmp_path / "secret")}
    command: list[Any] = [sys.executable, "-c", MEASURED, tmp_path, BIG, code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 64 << 10


class CountedError(Exception):
    pickled = 0

    def __reduce__(self) -> tuple[object, ...]:
        CountedError.pickled += 1
        return CountedError, self.args


def chain(length: int) -> CountedError:
    """Return an exception that was raised from another one, and so on."""
    error = CountedError(0)
    for at in range(1, length):
        before, error = error, CountedError(at)
        error.__cause__ = error.__context__ = before
    return error


def test_pickling_an_exception_chain_is_not_exponential() -> None:
    CountedError.pickled = 0
    back = codec.load(codec.dump(chain(8), {}).record, [])
    assert CountedError.pickled <= 8 * 8
    length = 0
    while back is not None:
        back, length = back.__cause__, length + 1
    assert length == 8


def test_an_exception_that_is_its_own_context_is_saved() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    back = codec.load(codec.dump(one, {}).record, [])
    assert back.__context__.__context__ is back
