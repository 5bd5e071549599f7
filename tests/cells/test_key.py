"""The key of a cell: equal for equal inputs in every kernel, and different after any change of an input."""

from __future__ import annotations

import array
import copy
import importlib.util
import json
import pickle
import random
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbckpt.cells.digest import Digester
from nbckpt.cells.flow import former_uses
from nbckpt.cells.key import CellCode, cell_key
from nbckpt.errors import CodecError
from nbckpt.tracker import Tracker

TEXTS = st.text(max_size=3) | st.binary(max_size=3)
ATOMS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | TEXTS
ARRAYS = st.builds(np.array, st.lists(st.integers(0, 2), max_size=4), st.sampled_from(["i1", "f8", "O"]))
VALUES = st.recursive(
    st.one_of(ATOMS, ARRAYS, st.sets(st.integers(0, 3)), st.frozensets(st.text(max_size=2))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=12), st.tuples(inner, inner), st.dictionaries(st.text(max_size=2), inner)
    ),
    max_leaves=15,
)


def digest(value: Any) -> str:
    return Digester({}).digest(value)


def looks(value: Any) -> str:
    """Return a text that is equal for equal values of equal types only."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value)}{sorted(map(looks, value))}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tolist()}"
    if isinstance(value, dict):
        return f"dict{[(looks(key), looks(item)) for key, item in value.items()]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value)}{[looks(item) for item in value]}"
    return f"{type(value)}{value!r}"


@pytest.mark.slow
@given(VALUES, VALUES)
def test_digests_are_equal_exactly_for_equal_values(one: Any, other: Any) -> None:
    assert (digest(one) == digest(other)) == (looks(one) == looks(other))
    assert digest(one) == digest(copy.deepcopy(one)) == digest(pickle.loads(pickle.dumps(one, 5)))


def test_only_the_sharing_of_mutable_objects_counts() -> None:
    rows, text, array = [1], "a b", np.zeros(9)
    assert digest([rows, rows]) != digest([rows, [1]])
    assert digest([text, text]) == digest([text, "".join(["a ", "b"])])
    assert digest([array, array[:3]]) != digest([array, np.zeros(3)])
    again = np.zeros(9)
    assert digest([array, array[:3]]) == digest([again, again[:3]])
    rows.append(rows)
    assert digest(rows) == digest(copy.deepcopy(rows))


DATA = bytearray(b"abc")
NUMBERS = array.array("i", [1, 2])
OBJECTS = np.array([1, None], object)
MAPPING = {"a": 1}


SHARED_AND_APART: list[tuple[list[Any], list[Any]]] = [
    ([DATA, memoryview(DATA)[1:]], [DATA, memoryview(bytearray(DATA))[1:]]),
    ([memoryview(DATA).toreadonly(), DATA], [memoryview(bytearray(DATA)).toreadonly(), DATA]),
    ([DATA, np.frombuffer(DATA, "u1")], [DATA, np.frombuffer(bytearray(DATA), "u1")]),
    ([NUMBERS, np.frombuffer(NUMBERS, "i")], [NUMBERS, np.frombuffer(NUMBERS[:], "i")]),
    ([OBJECTS, OBJECTS[1:]], [OBJECTS, OBJECTS[1:].copy()]),
    ([MAPPING, MAPPING.keys()], [MAPPING, MAPPING.copy().keys()]),
    ([MAPPING.items(), MAPPING], [MAPPING.copy().items(), MAPPING]),
    ([MAPPING, types.MappingProxyType(MAPPING)], [MAPPING, types.MappingProxyType(MAPPING.copy())]),
]


def test_sharing_of_every_kind_of_memory_counts(subtests: pytest.Subtests) -> None:
    for shared, apart in SHARED_AND_APART:
        with subtests.test(str(shared)):
            assert digest(shared) == digest(shared) != digest(apart)


GRID = np.arange(6).reshape(2, 3)
FIXED = np.arange(6).reshape(2, 3)
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    "other",
    [
        np.asfortranarray(GRID),
        FIXED,
        GRID.astype(np.dtype(GRID.dtype, metadata={"unit": "m"})),
        GRID.astype(GRID.dtype.newbyteorder()),
    ],
    ids=["order", "read-only", "metadata", "byte order"],
)
def test_how_an_array_is_kept_counts(other: Any) -> None:
    assert looks(other).partition("(")[2] == looks(GRID).partition("(")[2]
    assert digest(other) == digest(other) != digest(GRID)


def test_the_layout_and_metadata_of_a_record_count() -> None:
    fields = [("x", "i1"), ("y", "f8")]
    kinds = [np.dtype(fields), np.dtype(fields, align=True), np.dtype(fields, metadata={"unit": "m"})]
    nested = np.dtype([("x", np.dtype("i1", metadata={"unit": "m"})), ("y", "f8")])
    assert len({digest(np.zeros(2, kind)) for kind in [*kinds, nested]}) == 4


def test_a_digest_of_broadcast_arrays_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert digest(np.broadcast_arrays(np.arange(3), np.zeros((2, 3))))


def test_all_that_an_array_shares_counts() -> None:
    memory, other = np.zeros(9), np.zeros(9)
    middle = memory[2:7]
    assert digest([memory[:3], memory[6:], middle]) != digest([memory[:3], other[6:], middle])


def test_a_tensor_and_an_array_over_one_memory_count_as_one() -> None:
    torch = pytest.importorskip("torch")
    values, tensor = np.zeros(3), torch.zeros(3)
    assert digest(tensor) == digest(torch.zeros(3)) != digest(torch.ones(3))
    assert digest([values, torch.from_numpy(values)]) != digest([values, torch.from_numpy(values.copy())])
    assert digest([tensor, tensor[1:]]) != digest([tensor, torch.zeros(3)[1:]])


def test_empty_and_fixed_memory_have_digests_of_their_own() -> None:
    for value in (bytearray(), array.array("i"), memoryview(b"a"), np.zeros(0), np.zeros(0, object)):
        assert digest(value) == digest(value)
    assert digest(memoryview(DATA)) != digest(memoryview(DATA).toreadonly())


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize("kind", [Point, Slotted])
def test_attributes_count(kind: Any) -> None:
    assert digest(kind(1)) == digest(kind(1)) != digest(kind(2))


def test_the_id_of_another_attribute_is_not_a_number() -> None:
    def made(*, marks: str) -> types.SimpleNamespace:
        value = types.SimpleNamespace(words=["a"], others=["b"])
        value.mark = id(getattr(value, marks))  # as scikit-learn's vectorizers do
        return value

    assert digest(made(marks="words")) == digest(made(marks="words")) != digest(made(marks="others"))
    assert digest(types.SimpleNamespace(x=1, y=2)) != digest(types.SimpleNamespace(x=2, y=2))


def test_the_generators_of_libraries_count_by_name() -> None:
    shared: list[Any] = [np.random.rand.__self__, random.random.__self__]
    before = digest(shared)
    random.random()
    np.random.rand()
    assert digest(shared) == before
    own = np.random.RandomState(1)
    before = digest(own)
    own.rand()
    assert digest(own) != before


def test_a_restored_array_has_the_digest_of_the_saved_one(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    array = np.arange(3000.0)
    frame = pandas.DataFrame({"a": array, "b": np.arange(3000), "c": ["x"] * 3000})
    values = [frame, array[:5], array, array[::-2], array[10:20]]
    tracker, restored = Tracker(tmp_path), dict[str, Any]()
    tracker.save({"values": values}, "kept")
    tracker.restore("kept", restored)
    assert digest(restored["values"]) == digest(values) != digest([frame, array[:5].copy(), *values[2:]])


def test_a_change_of_any_column_of_a_frame_counts() -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2020", "2021"])
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [1, 2], "c": ["x", None], "d": [True, False], "e": days})
    digests = {digest(frame), *(digest(frame.assign(**{name: frame[name][::-1].values})) for name in frame)}
    assert len(digests) == 6
    assert digest(frame) == digest(frame.copy())


def test_what_cannot_be_pickled_has_no_digest() -> None:
    with pytest.raises(CodecError, match="pickle"):
        digest([sys.stdout])
    nested: list[Any] = []
    for _ in range(10**5):
        nested = [nested]
    with pytest.raises(CodecError):
        digest(nested)


SCRIPT = """
from nbckpt.cells.digest import Digester
import datetime, enum, types
namespace = {"__name__": "__main__"}
exec('''
import dataclasses, enum, typing
@dataclasses.dataclass
class Setup:
    rate: float = 0.1
    layers: list[int] = dataclasses.field(default_factory=list, metadata={"unit": "mm"})
T = typing.TypeVar("T", bound=int)
class Of(typing.Generic[T]):
    held: T
class Color(enum.Enum): RED = 1
class C:
    tags = {"a", "b", "c"}
    def go(self, x={"q", "w"}): return x in {"a", "b", "c"}
def f(x): return [y in {"a", "b"} for y in x]
''', namespace)
import __main__
vars(__main__).update(namespace)
values = [namespace["C"](), {"x", "y", ("z", 1)}, datetime.date(2020, 1, 1), namespace["Color"].RED]
values += [namespace["Setup"](), types.MappingProxyType({"a": 1}), {"k": 1}.keys()]
values += [*map(namespace.get, ("C", "f", "Color", "Setup", "T", "Of"))]
print([Digester(namespace).digest(value) for value in values])
"""


def test_digests_are_equal_in_every_process() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


RESTORED = """
import json, sys
import __main__
from nbckpt.cells.digest import Digester
from nbckpt.tracker import Tracker
folder, names, setup = sys.argv[1], sys.argv[2].split(), sys.argv[3]
namespace = vars(__main__)
if setup:
    exec(setup, namespace)
    Tracker(folder).save(namespace, "classes", variables=names)
else:
    Tracker(folder).restore("classes", namespace)
print(json.dumps([Digester(namespace).digest(namespace[name]) for name in names]))
"""
CLASSES = {
    "dataclasses": "@dataclasses.dataclass(slots=True)\nclass C_{0}:\n    x: int = 1",
    "typing": "class C_{0}(typing.NamedTuple):\n    x: int = 1",
    "pydantic": "class C_{0}(pydantic.BaseModel):\n    x: int = 1",
    "attrs": "@attrs.define\nclass C_{0}:\n    x: int = 1",
    "builtins": "class C_{0}:\n    __slots__ = 'x', '__y'\n    def go(self): self.__y = 1",
}


def test_a_class_has_the_same_digest_after_a_restore(tmp_path: Path, subtests: pytest.Subtests) -> None:
    libraries = [library for library in CLASSES if importlib.util.find_spec(library)]
    parts = ("import {0}", "", "class D_{0}(C_{0}): pass", "c_{0} = C_{0}()")
    setup = "\n".join((part or CLASSES[name]).format(name) for name in libraries for part in parts)
    names = " ".join(f"C_{name} D_{name} c_{name}" for name in libraries)
    saved, restored = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", RESTORED, str(tmp_path), names, given], check=True, capture_output=True
            ).stdout
        )
        for given in (setup, "")
    )
    for library in CLASSES:
        with subtests.test(library):
            pytest.importorskip(library)
            at = 3 * libraries.index(library)
            assert saved[at : at + 3] == restored[at : at + 3]


def made(source: str, name: str) -> str:
    """Return the digest of a variable of a notebook that ran *source*."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["__main__"], name, None, raising=False)
        exec(source, namespace)
        setattr(sys.modules["__main__"], name, namespace[name])
        return Digester(namespace).digest(namespace[name])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("@contextlib.contextmanager\ndef f(): yield 1", "f"),
        ("class C:\n    @contextlib.contextmanager\n    def f(self): yield 1", "C"),
    ],
)
def test_a_wrapped_function_counts_with_its_code(source: str, name: str) -> None:
    source = f"import contextlib\n{source}"
    assert made(source, name) == made(source, name) != made(source.replace(" 1", " 2"), name)


PARTS_OF_A_FUNCTION = {
    "annotations": ("def f(a: int): return a", "def f(a: float): return a"),
    "name": ("def f(a): return a", "def f(a): return a\nf.__name__ = 'g'"),
    "qualified name": ("def f(a): return a", "def f(a): return a\nf.__qualname__ = 'C.f'"),
    "docstring": ("def f(a): return a", "def f(a): return a\nf.__doc__ = 'It.'"),
    "handled errors": (
        "def f(a):\n    try:\n        a()\n        a()\n    except E:\n        return 1",
        "def f(a):\n    try:\n        a()\n    except E:\n        return 1\n    else:\n        a()",
    ),
}


def test_every_part_of_a_function_counts(subtests: pytest.Subtests) -> None:
    for part, (one, other) in PARTS_OF_A_FUNCTION.items():
        with subtests.test(part):
            assert made(one, "f") == made(one, "f") != made(other, "f")


def test_annotations_with_a_name_that_is_bound_later_count() -> None:
    source = "from typing import Any\ndef f(a: {}): return a"
    if sys.version_info < (3, 14):
        source = "from __future__ import annotations\n" + source
    one, other = source.format("Later"), source.format("Never")
    assert made(one, "f") == made(one, "f") != made(other, "f")


# Which variables a cell reads before it binds them.

NAMES = st.sampled_from("abcd")
LINES = st.one_of(
    st.builds("{} = {} + 1".format, NAMES, NAMES),
    st.builds("{} += {}".format, NAMES, NAMES),
    st.builds("if {} > 1: {} = 5".format, NAMES, NAMES),
    st.builds("if {} > 1: {} = 5⏎else: {} = 6".format, NAMES, NAMES, NAMES),
    st.builds("for i in range({} % 2): {} = i".format, NAMES, NAMES),
    st.builds("for {} in range(2): {} = {}".format, NAMES, NAMES, NAMES),
    st.builds("while {} % 3: {} = 3".format, NAMES, NAMES).map(lambda line: f"{line}; break"),
    st.builds("try: {} = 1 // ({} % 2)⏎except ZeroDivisionError: {} = 4".format, NAMES, NAMES, NAMES),
    st.builds("try: {} = 1⏎finally: {} = {}".format, NAMES, NAMES, NAMES),
    st.builds("with suppress(ZeroDivisionError): {} = 1 // ({} % 2)".format, NAMES, NAMES),
    st.builds("with nullcontext({}) as {}: {} = 2".format, NAMES, NAMES, NAMES),
    st.builds("with quiet(ZeroDivisionError): {} = 1 // ({} % 2)".format, NAMES, NAMES),
    st.builds("with Quiet() as {}: {} = 1 // ({} % 2)".format, NAMES, NAMES, NAMES),
    st.builds("q[[{} for {} in range(2)][1]] = {}".format, NAMES, NAMES, NAMES),
    st.builds("if {} > 2 or ({} := 1): {} = {}".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("def f(x=[{} for _ in range(2)]): return sum(x)".format, NAMES),
    st.builds(
        "class C:⏎    def go(self): return {}⏎    v = sum({} for _ in range(2)) + go(0)".format, NAMES, NAMES
    ),
    st.builds("class C(metaclass=M):⏎    v = 1⏎    def go(self): return {}".format, NAMES),
    st.builds("{} = former()".format, NAMES),
    st.builds("{} = C.w".format, NAMES),
    st.builds("match {}:⏎    case 1: {} = 2⏎    case {}: pass".format, NAMES, NAMES, NAMES),
    st.builds("def f(x={}): return {} + x".format, NAMES, NAMES),
    st.builds("def g(): return f() + {}".format, NAMES),
    st.builds("{} = f()".format, NAMES),
    st.builds("{} = g()".format, NAMES),
    st.builds("class C:⏎    v = {}⏎    def go(self): return {}".format, NAMES, NAMES),
    st.builds("{} = C().go() + C.v".format, NAMES),
    st.builds("{} = sum([{} for _ in range(2)])".format, NAMES, NAMES),
    st.builds("{} = (lambda: {})()".format, NAMES, NAMES),
    st.builds("del {}".format, NAMES),
    st.builds("try: del {}⏎except NameError: pass".format, NAMES),
)
START = """
from contextlib import nullcontext, suppress
from contextlib import suppress as quiet
q = {}
class Quiet:
    def __enter__(self): return 7
    def __exit__(self, *_): return True
class M(type):
    def __init__(cls, *_): cls.w = cls.go(0)
def former(): return f()
def f(): return 1
def g(): return 2
class C:
    v = w = 1
    def go(self): return 3
"""


def outcome(source: str, values: dict[str, int]) -> tuple[str, dict[str, Any]]:
    """Run a cell. Return the name of its error, and what it bound or deleted."""
    namespace: dict[str, Any] = {}
    exec(START, namespace)
    namespace |= values
    error = ""
    try:
        exec(source, namespace)
    except Exception as raised:
        error = type(raised).__name__
    return error, {name: namespace.get(name) for name in "abcd"}


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(LINES, min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=8, max_size=8))
def test_only_former_reads_decide_what_a_cell_computes(lines: list[str], numbers: list[int]) -> None:
    source = "\n".join(lines).replace("⏎", "\n")
    inputs, deletes = former_uses(source)
    one = dict(zip("abcd", numbers, strict=False))
    other = dict(one)
    for at, name in enumerate(one, 4):
        if name not in inputs:
            other[name] = 1000 + numbers[at]
            if numbers[at] < 2 and name not in deletes:
                del other[name]
    (error, first), (error_too, second) = outcome(source, one), outcome(source, other)
    assert error == error_too
    for name in "abcd":
        untouched = first[name] == one[name] and second[name] == other.get(name)
        assert untouched or first[name] == second[name]


READS_FORMER = [
    "d[[c for c in d][0]] = 1⏎y = c",
    "d[c if d else (c := 1)] = 1⏎y = c",
    "def f(a=[c for _ in range(2)]): return a⏎c = 0⏎y = f()",
    "class C:⏎    v = [c * k for k in range(3)]⏎c = 0",
    "class C:⏎    v = sorted([1, 2], key=lambda k: k * c)⏎c = 0",
    "class C:⏎    def go(): return c⏎    v = go()⏎c = 0",
    "class C(metaclass=M):⏎    def go(self): return c⏎c = 0",
    "with quiet(ZeroDivisionError):⏎    1 / 0⏎    c = 2⏎y = c",
    "with ExitStack() as s:⏎    s.enter_context(suppress(ValueError))⏎    c = int('x')⏎y = c",
    "with quiet(ValueError) as s, make() as c: pass⏎y = c",
    "def f(): return c⏎y = former()⏎c = 0",
    "if d or (c := 1): y = c",
    "match d:⏎    case _ if d or (c := 1): y = c",
]
BINDS_FIRST = [
    "with open('f') as file, torch.no_grad():⏎    c = 2⏎y = c, file",
    "def f(): return g() + c⏎def g(): return 1⏎c = 2⏎y = f()",
    "class C:⏎    k: int = 1⏎    def go(self): return c⏎c = 2⏎y = C().go()",
    "while (c := step()) and k: y = c",
    "for c, (y, *k) in []: y = c",
]


def test_only_a_former_value_that_the_cell_can_read_counts(subtests: pytest.Subtests) -> None:
    for cell in (*READS_FORMER, *BINDS_FIRST):
        with subtests.test(cell):
            read = {"c", "g", "C", "file"} & former_uses(cell.replace("⏎", "\n"))[0]
            assert "c" in read if cell in READS_FORMER else not read


@given(st.permutations(["k", "rows", "f", "unrelated", "other"]), st.integers(2, 9))
def test_unrelated_names_and_their_order_do_not_count(order: list[str], number: int) -> None:
    def key(names: list[str], **more: Any) -> str:
        namespace: dict[str, Any] = {"__name__": "notebook"}
        values = {"k": 1, "rows": [1, 2], "unrelated": [3], "other": "x"} | more
        for name in names:
            if name == "f":
                exec("def f(x): return x + k", namespace)
            else:
                namespace[name] = values[name]
        return cell_key(CellCode("y = f(len(rows))", str), namespace, {}, {}).text

    here = key(order)
    assert here == key(["k", "rows", "f"], unrelated=number) != ""
    assert here != key(order, k=number)
    assert here != key(order, rows=[number])


def test_a_variable_that_a_text_in_a_variable_names_counts() -> None:
    pandas = pytest.importorskip("pandas")

    def key(low: int, high: int) -> str:
        names = {"df": pandas.DataFrame({"a": [1, 2, 3]}), "q": "a > @low", "low": low, "high": high}
        return cell_key(CellCode("y = df.query(q)", str), names, {}, {}).text

    assert key(1, 5) == key(1, 6) != key(2, 6)
    assert key(1, 5)


def key_beside_a_module(cell: str, setup: str) -> str:
    """Return the key of a cell in a notebook that ran *setup* and imports a new module `ran`."""
    ran: Any = types.ModuleType("ran")
    ran.List = type("List", (list,), {"__module__": "ran"})
    namespace: dict[str, Any] = {"__name__": "notebook"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ran", ran)
        exec(f"import ran\n{setup}", namespace)
        return cell_key(CellCode(cell, str), namespace, {}, {}).text


HELD = [
    ("ran.hook = f", "y = ran.hook()"),
    ("ran.hooks = [f]", "y = ran.hooks[0]()"),
    ("ran.hook = f; g = f; h = None", "y = ran.hook(), g, h"),
    ("ran.List.go = f", "y = ran.List().go()"),
    ("ran.List.go = f; rows = ran.List()", "y = rows.go()"),
    ("ran.List.go = property(f); List = ran.List", "y = List().go"),
    ("class C: go = f\nran.kept = C()", "y = ran.kept.go()"),
]


def test_a_function_that_a_module_holds_counts(subtests: pytest.Subtests) -> None:
    for place, cell in HELD:
        with subtests.test(place):
            one, again, other = (
                key_beside_a_module(cell, f"def f(*_): return {value}\n{place}") for value in "112"
            )
            assert one == again != other
            assert one


def test_which_function_a_module_holds_counts() -> None:
    one, again, other = (
        key_beside_a_module(
            "y = ran.hook(), f(), g()", f"def f(): return 1\ndef g(): return 2\nran.hook = {held}"
        )
        for held in "ffg"
    )
    assert one == again != other
