"""A value that pickles, and whose pickle does not load, is named at the save; everything else is saved."""

from __future__ import annotations

import copyreg
import sys
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbckpt import State, Tracker, save_all_states
from nbckpt.errors import CodecError
from nbckpt.states.registry import use_folder
from nbckpt.store import MemoryStore

BAD = """
class Bad:
    def __getstate__(self): return 5
"""
TWO = """
class Two:
    def __init__(self, a, b): self.a, self.b = a, b
    def __reduce__(self): return Two, (self.a,)
"""
HELPER = """
loaded = []
class Own:
    def __setstate__(self, state): loaded.append(state)
class Ends:
    def __del__(self): loaded.append("gone")
"""


def made(code: str) -> dict[str, Any]:
    """Return a namespace after a cell."""
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(code, namespace)
    return namespace


def restored(tracker: Tracker) -> dict[str, Any]:
    """Return the variables of the checkpoint."""
    namespace: dict[str, Any] = {}
    tracker.restore("x", namespace)
    return namespace


def helper(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of the user's, which lies beside the notebook."""
    (folder / "helper_of_mine.py").write_text(HELPER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "helper_of_mine", raising=False)
    return __import__("helper_of_mine")


@pytest.mark.parametrize(
    ("cell", "path", "reason"),
    [
        (
            BAD + "value = {'x': [Bad()]}",
            "value['x'][0]: Bad",
            "its pickle cannot be loaded: UnpicklingError",
        ),
        (TWO + "value = [1, Two(1, 2)]", "value[1]: Two", "a load would call Two with 1 arguments"),
        (BAD + "value = [Bad() for _ in range(9_000)]", "value[0]: Bad", "its pickle cannot be loaded"),
    ],
    ids=["state", "arguments", "large"],
)
def test_it_is_named_with_its_path_and_its_reason(cell: str, path: str, reason: str) -> None:
    namespace = made(cell + "\nother = [1]")
    with Tracker(MemoryStore()) as tracker:
        for _ in range(2):  # a type that failed is tried again
            saved = tracker.save(namespace, "x", variables=["value", "other"]).manifest
            (skipped,) = saved.skipped
            assert (skipped.name, skipped.path) == ("value", path)
            assert reason in skipped.reason
            assert restored(tracker) == {"other": [1]}


def test_its_neighbours_are_saved_and_go_on_sharing() -> None:
    namespace = made(BAD + "shared = [1]\na, b, c = [shared, Bad()], [shared], [shared]")
    with Tracker(MemoryStore()) as tracker:
        saved = tracker.save(namespace, "x", variables=["a", "b", "c"]).manifest
        assert [skipped.name for skipped in saved.skipped] == ["a"]
        loaded = restored(tracker)
    assert loaded["b"][0] is loaded["c"][0]


@pytest.mark.parametrize("kind", ["Own", "Ends"])
def test_code_of_the_users_modules_does_not_run_at_the_save(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = helper(tmp_path, monkeypatch)
    value = getattr(module, kind)()
    value.x = 1
    with Tracker(MemoryStore()) as tracker:
        assert tracker.save({"value": value, "beside": [value]}, "x").manifest.skipped == ()
    assert module.loaded == []


def test_a_state_that_cannot_be_loaded_is_refused_at_the_save(tmp_path: Path) -> None:
    with use_folder(tmp_path):
        state = State.of("mine", made(BAD + "value = [Bad()]")["value"])
        with pytest.raises(CodecError, match="its pickle cannot be loaded"):
            save_all_states()
        state.close()


def test_a_value_that_comes_back_as_another_type_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = made("class K: reduced = dict, ()\nk = K()")
    monkeypatch.setitem(copyreg.dispatch_table, namespace["K"], attrgetter("reduced"))
    with Tracker(MemoryStore()) as tracker:
        warnings = tracker.save(namespace, "x", variables=["k"]).manifest.warnings
    assert "k: comes back as another type, dict" in warnings
