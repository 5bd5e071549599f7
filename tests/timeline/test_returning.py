"""Objects that come back as the very objects: what else has them sees them as they were, and nothing ends."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from nbckpt.core.values.contents import Form, form_of
from nbckpt.store import MemoryStore
from nbckpt.timeline import returning
from nbckpt.tracker import Tracker
from tests.timeline.test_timeline import Kernel

CLASSES = """
import collections, dataclasses, functools, io, random, weakref
class Plain:
    def __init__(self, *parts): self.parts, self.note = list(parts), 'first'
class Slots:
    __slots__ = ('x', 'y')
    def __init__(self, x): self.x = x
class Both(Slots): pass
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen: x: int = 1
class Rows(list):
    def append(self, row): super().append(('row', row))
class Table(dict):
    def __setitem__(self, name, value): super().__setitem__(name, ('value', value))
class Strict:
    def __init__(self): self.x = 1
    def __setattr__(self, name, value):
        if getattr(self, name, None) == 2: raise ValueError('two stays')
        super().__setattr__(name, value)
class Level:
    def __init__(self): self._level = 1
    @property
    def level(self): return self._level
    @level.setter
    def level(self, level): self._level = level; self.calls = getattr(self, 'calls', 0) + 1
class Named:
    def __init__(self, name): self.name = name
    def __getstate__(self): return {'name': self.name}
    def __setstate__(self, state): self.name = state['name'] * 1
class Key:
    def __init__(self, name): self.name, self.note = name, 'first'
    def __eq__(self, other): return self.name == other.name
    def __hash__(self): return hash(self.name)
class Dotted(dict):
    def __init__(self, **names): super().__init__(**names); self.__dict__ = self
"""

ROWS = [
    ("o = [1, [2]]", "o[1].append(3); o.insert(0, 9)", "o"),
    ("o = {'a': {'b': 1}}", "o['a']['b'] = 2; o['c'] = 3", "[*o.items()]"),
    ("o = {1, 2}", "o.add(3)", "sorted(o)"),
    ("o = collections.deque([1, 2], maxlen=3)", "o.extend([3, 4])", "[*o], o.maxlen"),
    (
        "o = collections.OrderedDict(a=1, b=2)",
        "o.move_to_end('a'); o['c'] = 3",
        "[*o.items()], [*reversed(o)]",
    ),
    (
        "o = collections.defaultdict(list, {1: [2]})",
        "o[3].append(4); o.default_factory = None",
        "dict(o), o.default_factory",
    ),
    ("o = collections.Counter('aab')", "o.update('b')", "dict(o)"),
    ("o = Plain(1)", "o.note = 'second'; o.parts.append(2); o.new = 1", "vars(o)"),
    ("o = Slots(1)", "o.x, o.y = 2, 3", "o.x, hasattr(o, 'y')"),
    ("o = Slots(1)", "del o.x", "o.x"),
    ("o = Both(1); o.z = 1", "o.x = o.z = o.w = 2", "o.x, vars(o)"),
    ("o = Frozen()", "object.__setattr__(o, 'x', 2)", "o.x"),
    ("o = Rows([1])", "o.append(2); o.note = 1", "[*o], vars(o)"),
    ("o = Table(a=1)", "o['b'] = 2; o.note = 1", "dict(o), vars(o)"),
    ("o = Strict()", "o.x = 2", "o.x"),
    ("o = Level()", "o.level = 2", "vars(o)"),
    ("o = Named('a')", "o.name = 'b'", "o.name"),
    ("o = Dotted(a=1)", "o.b = 2", "dict(o), o.a"),
    ("o = io.StringIO(); _ = o.write('one')", "_ = o.write('two')", "o.getvalue(), o.tell()"),
    ("o = io.BytesIO(b'one'); _ = o.seek(2)", "_ = o.write(b'two')", "o.getvalue(), o.tell()"),
    ("o = random.Random(1)", "x = o.random()", "o.getstate()"),
    ("o = np.random.default_rng(1)", "x = o.random()", "o.bit_generator.state"),
    ("o = np.random.RandomState(1)", "x = o.rand()", "o.get_state()[2]"),
    ("o = bytearray(b'one')", "o[:] = b'two'", "bytes(o)"),
    ("o = Plain(np.arange(3))", "o.note = 2", "o.parts[0].tolist(), o.note"),
    ("p = Plain(); o = Plain(p)", "p.note = 2; o.parts.clear()", "[part is p for part in o.parts], p.note"),
    ("p = Plain(); o = Plain((1, (p,)))", "p.note = 2", "o.parts[0][1][0] is p, p.note"),
    ("o = Plain(); o.me = o; o.hook = o.__init__", "o.note = 2", "o.me is o, o.hook.__self__ is o, o.note"),
    ("p = Plain(); o = {p: 1}; s = {p}", "p.note = 2; o[p] = 3", "o[p], p in s, p.note"),
    ("p = Key('a'); o = {p: 1}", "p.note = 2; o[p] = 3", "o[p], next(iter(o)) is p, p.note"),
    ("o = [Plain(1), Plain(2)]", "o.reverse(); o[0].note = 2", "[p.parts for p in o], [p.note for p in o]"),
    ("p = Plain(); o = np.array([p, None], object)", "p.note = 2", "o[0] is p, p.note"),
    ("p = Plain(); o = functools.partial(print, p)", "p.note = 2", "o.args[0] is p, p.note"),
    ("p = Plain(); o = [lambda: p.note, lambda q=p: q]", "p.note = 2", "o[0](), o[1]() is p"),
    ("p = Plain()\ndef f(p):\n    return lambda: p\no = f(p)", "p.note = 2", "o() is p, p.note"),
    ("p = Plain(); o = weakref.WeakSet([p])", "p.note = 2", "[*o] == [p], p.note"),
    ("p = Plain(); Plain.all = [p]; o = [p]", "p.note = 2", "o[0] is p is Plain.all[0], p.note"),
    ("o = Plain(1)", "o.parts = o; o.__class__ = Named", "type(o).__name__, o.parts"),
    (
        "a = np.arange(4); o = Plain(a, a[1:])",
        "a[1] = 9; o.note = 2",
        "a.tolist(), o.parts[1].tolist(), o.note",
    ),
    ("b = bytearray(4); o = Plain(np.frombuffer(b, 'u1'))", "b[1] = 9", "bytes(b), o.parts[0].tolist()"),
]
"""What makes objects, what changes them, and what is asked of them."""

NEW_OBJECTS = ("Dotted", "__class__ =", "np.array([p", "partial", "lambda: p\n", "lambda: p.note", "WeakSet")
NEW_OBJECTS = (*NEW_OBJECTS, "Plain.all", "np.frombuffer", "Key(")
"""Parts of rows whose objects come back as new ones, because other objects hold them in ways of their own."""


def asked(kernel: Kernel, expression: str) -> str:
    try:
        return repr(eval(expression, kernel.names))
    except AttributeError as error:
        return repr(error)


def test_objects_come_back_as_they_were(subtests: pytest.Subtests) -> None:
    for setup, change, expression in ROWS:
        with subtests.test(f"{setup} | {change}"):
            kernel = Kernel()
            kernel.run(CLASSES, setup)
            former = dict(kernel.names)
            before = asked(kernel, expression)
            kernel.run(change)
            after = asked(kernel, expression)
            kernel.undo()
            assert asked(kernel, expression) == before
            if not any(part in setup + change for part in NEW_OBJECTS):
                names = former.keys() & {"o", "p", "a", "b"}
                assert all(kernel.names[name] is former[name] for name in names if name != "a")
            kernel.redo()
            assert asked(kernel, expression) == after
            assert kernel.run("0") is None
            kernel.undo()
            assert asked(kernel, expression) == before


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel()
    kernel.run(CLASSES)
    return kernel


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of the user's own, which holds objects of the notebook and changes them."""
    (tmp_path / "held.py").write_text(
        "kept = []\nclass Shelf:\n    def fill(self):\n        for x in kept: x.append(2)\n"
        "def keep(x): kept.append(x)\ndef tick():\n    _each(lambda x: x.append(1))\n"
        "def _each(f):\n    for x in kept: f(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import held

    yield held
    del sys.modules["held"]


@pytest.mark.usefixtures("helper")
@pytest.mark.parametrize("change", ["held.tick()", "tick()", "held.Shelf().fill()", "shelf.fill()"])
def test_what_a_helper_module_changes_is_undone(kernel: Kernel, change: str) -> None:
    kernel.run("import held; from held import tick; shelf = held.Shelf(); buf = []", "held.keep(buf)")
    kernel.run(change, change)
    two = [*kernel.names["buf"]]
    kernel.undo()
    assert kernel.names["buf"] == two[:1] == kernel.names["held"].kept[0]
    assert kernel.names["held"].kept[0] is kernel.names["buf"]
    assert kernel.redone()["buf"] == two


def test_an_object_that_only_a_module_has_comes_back(kernel: Kernel) -> None:
    elsewhere = kernel.after("o = Plain(1)")["o"]
    kernel.run("o.note = 2; del o")
    assert kernel.undone()["o"] is elsewhere
    assert elsewhere.note == "first"
    kernel.run("o = Plain(3)")
    assert kernel.undone()["o"] is elsewhere


def test_an_object_that_came_later_stays_as_it_is(kernel: Kernel) -> None:
    kernel.run("o = [Plain(1)]")
    kernel.run("o[0] = Plain(2)")
    later = kernel.names["o"][0]
    assert kernel.undone()["o"][0].parts == [1]
    assert later.parts == [2]


def test_objects_get_their_contents_all_or_none(kernel: Kernel) -> None:
    kernel.run("o = [Plain(1), Slots(1), Plain(2)]")
    kernel.run("for part in o: part.x = 2", "Plain.x = 3")
    kernel.undo()
    was = [vars(part).copy() for part in kernel.names["o"][::2]]
    form = Form(lambda _obj, _swap: None, lambda _obj, _contents: 1 / 0)

    def forms(kind: type) -> Form | None:
        return form if kind is kernel.names["Slots"] else form_of(kind)

    with patch.object(returning, "form_of", forms), pytest.raises(ZeroDivisionError):
        kernel.undo()
    assert [vars(part) for part in kernel.names["o"][::2]] == was
    assert kernel.undone()["o"][0].note == "first"


OWNERS = """
import os, shutil, tempfile, weakref
class Scratch:
    def __init__(self): self.path = tempfile.mkdtemp()
    def __del__(self): shutil.rmtree(self.path)
class Guarded:
    def __init__(self):
        self.path = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, self.path)
def path_of(o): return getattr(o, 'path', getattr(o, 'name', None))
"""


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # at its end a folder says so
@pytest.mark.parametrize("make", ["Scratch()", "Guarded()", "tempfile.TemporaryDirectory()"])
@pytest.mark.parametrize(
    "change", ["o.note = 2", "holder.append(o); del o", "o = None; holder.clear()", "more = [o, Both]"]
)
def test_no_way_ends_what_an_object_owns(kernel: Kernel, make: str, change: str) -> None:
    kernel.run(OWNERS, f"o = {make}; holder = []; path = path_of(o)")
    path = Path(kernel.names["path"])
    kept_by_the_test = kernel.names["o"]
    kernel.run(change)
    for way in (kernel.undo, kernel.redo, kernel.undo):
        way()
        gc.collect()
        assert path.exists()
    assert kernel.names["o"] is kept_by_the_test
    kernel.undo()
    del kept_by_the_test
    gc.collect()
    assert path.exists()
    assert "o" not in kernel.names
    assert kernel.redone()["path"] == str(path)
    assert kernel.run("del o, holder") is not None


def test_the_user_may_still_end_an_object(kernel: Kernel) -> None:
    kernel.run(OWNERS, "o = Scratch()", "o.note = 1")
    path = Path(kernel.names["o"].path)
    kernel.undo(2)
    kernel.redo(2)
    assert path.exists()
    kernel.names.pop("o")
    gc.collect()
    assert not path.exists()


def test_a_second_restore_ends_nothing() -> None:
    tracker, names = Tracker(MemoryStore()), dict[str, Any](__name__="__main__")
    exec("import tempfile; o = tempfile.TemporaryDirectory()", names)
    path = Path(names["o"].name)
    tracker.save(names, "s")
    for _ in range(3):
        tracker.restore("s", names)
        gc.collect()
        assert path.exists()


def test_a_step_after_super_can_be_redone(kernel: Kernel) -> None:
    kernel.run(
        "class A:\n    def f(self): return 1\nclass B(A):\n    def f(self): return super().f() + 1\no = B()"
    )
    method = kernel.names["B"].f
    kernel.run("o.x = 1")
    kernel.undo()
    assert kernel.names["B"].f is method
    kernel.run("1 + 1")
    assert kernel.redone()["o"].x == 1


def test_a_class_that_changed_goes_back(kernel: Kernel) -> None:
    kernel.run("class C:\n    x = 1\n    def f(self, y=(1, 2)): return y\no = C()")
    kernel.run("C.f = lambda self: 3; C.x = 2; o.y = 1")
    assert kernel.undone()["o"].f() == (1, 2)
    assert kernel.names["C"].x == 1
    assert kernel.redone()["o"].f() == 3
