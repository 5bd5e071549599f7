"""Objects of a checkpoint meet the classes of a notebook whose cells ran again."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from typing import Any

import pytest

from nbckpt import Tracker
from nbckpt.core.definitions import lend_missing, lending, live_namespace
from nbckpt.core.values import codec
from nbckpt.store import MemoryStore

CLASSES = """
import enum
class Cfg:
    def __init__(self, v): self.v = v
class Sub(Cfg):
    def __init__(self, v): super().__init__(v)
class State(enum.Enum):
    A = 1
"""
OBJECTS = "c, s, rows = Cfg(1), Sub(2), [State.A]"


def ran(*cells: str) -> dict[str, Any]:
    """Return a namespace in which cells ran."""
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for cell in cells:
        exec(compile(cell, "<cell>", "exec", dont_inherit=True), namespace)
    return namespace


def test_restored_objects_have_the_classes_whose_cell_ran_again() -> None:
    with Tracker(MemoryStore()) as tracker:
        tracker.save(ran(CLASSES, OBJECTS), "x")
        namespace = ran("\n\n" + CLASSES)  # on other lines
        restored = tracker.restore("x", namespace, ["c", "s", "rows"])
    assert isinstance(namespace["c"], namespace["Cfg"])
    assert type(namespace["s"]) is namespace["Sub"]
    assert namespace["rows"][0] is namespace["State"].A
    assert restored.differing == ()


def test_objects_whose_class_has_other_code_here_are_named() -> None:
    with Tracker(MemoryStore()) as tracker:
        tracker.save(ran(CLASSES, OBJECTS), "x")
        namespace = ran(CLASSES.replace("self.v = v", "self.v = v + 1"))
        restored = tracker.restore("x", namespace, ["c", "rows"])
    assert restored.differing == ("Cfg",)
    assert type(namespace["c"])(5).v == 5
    assert namespace["rows"][0] is namespace["State"].A


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax of Python 3.12")
def test_aliases_and_parameters_of_types_come_back() -> None:
    cell = """
type Num = int | float
type Pairs[T] = list[tuple[T, T]]
def first[T, *Ts, **P](x: Num, *rest: *Ts) -> T: return x
class Box[T]:
    def get(self) -> T: return 1
box, kind = Box(), Box[int]
"""
    with Tracker(MemoryStore()) as tracker:
        assert tracker.save(ran(cell), "x").manifest.skipped == ()
        namespace = ran()
        tracker.restore("x", namespace)
    names = [str(one) for one in namespace["first"].__type_params__]
    assert names == ["T", "Ts", "P"]
    assert namespace["first"].__annotations__["x"] is namespace["Num"]
    assert str(namespace["Pairs"].__value__) == "list[tuple[T, T]]"
    assert (namespace["box"].get(), str(namespace["Box"].__type_params__)) == (1, "(T,)")


def test_code_that_runs_in_a_load_finds_what_is_loaded_later() -> None:
    cell = """
import json
class Doc:
    def __init__(self, text): self.text, self.parsed = text, json.loads(text)
    def __reduce__(self): return make, (self.text,)
class Sized:
    def __getstate__(self): return {}
    def __setstate__(self, state): self.size = len(table)
def make(text): return Doc(text)
doc, table, sized = Doc("[1]"), list(range(9)), Sized()
"""
    with Tracker(MemoryStore()) as tracker:
        tracker.save(ran(cell), "x")
        namespace = ran()
        assert tracker.restore("x", namespace).failed == ()
    assert (namespace["doc"].parsed, namespace["sized"].size) == ([1], 9)


def test_names_are_lent_for_the_time_of_a_load_only() -> None:
    namespace = {"kept": 1}
    with suppress(RuntimeError), live_namespace(namespace), lending() as lend:
        lend({"kept": 2, "new": 3})
        lend_missing({"kept": 4, "helper": 5})
        assert namespace == {"kept": 2, "new": 3, "helper": 5}
        raise RuntimeError("in the middle")
    assert namespace == {"kept": 1}


@pytest.mark.parametrize("identity", ["os.environ", "sys.stdout", 1.5, None, ("sys", "path")])
def test_a_record_cannot_name_other_objects(identity: object) -> None:
    record = pickle.dumps(identity, 5)[:-1] + pickle.BINPERSID + pickle.STOP
    with pytest.raises(pickle.UnpicklingError, match="an object outside of it"):
        codec.load(record, [])
