"""States of values: what State.of saves, loads into the objects of the program, or replaces."""

from __future__ import annotations

import array
import copy
import gc
import io
import json
import logging
import pickle
import random
import sys
import threading
import tracemalloc
import weakref
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbckpt
from late import Library
from nbckpt.errors import CodecError, CorruptError
from nbckpt.states import snapshot
from nbckpt.states.registry import current
from nbckpt.states.values import read, write
from state.conftest import Model, loaded

pytestmark = pytest.mark.usefixtures("job")


class Unreferable:
    """One that nothing can refer to weakly."""

    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = 0

    def state_dict(self) -> int:
        return self.weight

    def load_state_dict(self, state: int) -> None:
        self.weight = state


class Settings(dict[str, int]):
    """A dict with something beside its items."""

    version = 1


def names() -> list[str]:
    return [name for name, _ in current.get().live()]


def state_named(name: str) -> nbckpt.State:
    state = current.get().find(name)
    assert state is not None
    return state


def settings_of(**items: int) -> Settings:
    made = Settings(items)
    made.version = 2
    return made


IN_PLACE: dict[str, tuple[Any, Any]] = {
    "dict": ({"a": [1], "b": 2}, {"c": 3}),
    "list": ([1, [2]], [3, 4, 5]),
    "set": ({1, 2}, {3}),
    "bytearray": (bytearray(b"ab"), bytearray(b"xyz")),
    "deque": (deque([1, 2], 5), deque([3], 5)),
    "defaultdict": (defaultdict(list, a=[1]), defaultdict(list, b=[2])),
    "OrderedDict": (OrderedDict(b=1, a=2), OrderedDict(a=1)),
    "counter below zero": (Counter(a=-1, b=0, c=2), Counter(c=1)),
    "UserDict": (UserDict(a=1), UserDict(b=2)),
    "UserList": (UserList([1]), UserList([2, 3])),
    "dict of a class": (settings_of(a=1), Settings(b=2)),
}
ARRAYS: dict[str, tuple[Any, Any]] = {
    "array": (np.arange(6.0).reshape(2, 3), np.zeros((2, 3))),
    "large array": (np.arange(100_000), np.zeros(100_000, dtype=int)),
    "Fortran's order": (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((2, 3))),
    "view": (np.arange(10)[::2], np.zeros(20, dtype=int)[::4]),
    "no dimensions": (np.array(3.5), np.array(0.0)),
    "objects": (np.array([1, "a", None], dtype=object), np.array([0, 0, 0], dtype=object)),
    "records": (np.array([(1, 2.0)], dtype="i4,f8"), np.zeros(1, dtype="i4,f8")),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3))),
}


def test_a_container_is_filled_in_place(subtests: pytest.Subtests) -> None:
    for kind, (saved, other) in IN_PLACE.items():
        wanted, version = pickle.loads(pickle.dumps(saved)), getattr(saved, "version", None)
        with subtests.test(kind):
            value = loaded(saved, other)
            assert value is other
            assert (value, type(value), getattr(value, "version", None)) == (wanted, type(wanted), version)
            assert list(value) == list(wanted)


def test_an_array_of_the_same_shape_and_type_is_filled_in_place(subtests: pytest.Subtests) -> None:
    for kind, (saved, other) in ARRAYS.items():
        with subtests.test(kind):
            assert loaded(saved.copy(), other) is other
            assert np.array_equal(other, saved)


def test_filling_a_view_does_not_change_the_rest_of_its_memory() -> None:
    whole = np.full(6, 9)
    loaded(np.arange(3), whole[::2])
    assert whole.tolist() == [0, 9, 1, 9, 2, 9]


def read_only() -> Any:
    made = np.zeros(3)
    made.flags.writeable = False
    return made


REPLACED: dict[str, tuple[Any, Any]] = {
    "number": (5, 0),
    "nothing": (None, None),
    "text": ("text", ""),
    "tuple": ((1, [2]), ()),
    "another type": ([1], {"a": 1}),
    "nothing before": ({"a": 1}, None),
    "other shape": (np.arange(3.0), np.zeros(4)),
    "other numbers": (np.arange(3.0), np.zeros(3, dtype=int)),
    "read-only": (np.arange(3.0), read_only()),
    "scalar": (np.float64(2), np.float64(0)),
    "masked": (np.ma.masked_equal([1, 2], 1), np.ma.masked_equal([3, 4], 4)),
    "series": (pd.Series([1, 2], index=["a", "b"]), pd.Series([3, 4], index=["c", "d"])),
    "frame": (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3, 4]})),
    "array.array": (array.array("i", [1]), array.array("i", [2, 3])),
    "array.array of another type": (array.array("i", [1]), array.array("d", [2])),
    "frozenset": (frozenset([1]), frozenset([2])),
}


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same; two pickles of one Arrow array may differ."""
    if isinstance(one, pd.Series | pd.DataFrame):
        return type(one) is type(other) and one.equals(other)
    if isinstance(one, array.array):  # Python 3.13 pickles its type code in two ways
        return type(one) is type(other) and (one.typecode, one) == (other.typecode, other)
    return type(one) is type(other) and pickle.dumps(one) == pickle.dumps(other)


def test_other_values_are_replaced_and_the_old_value_is_kept(subtests: pytest.Subtests) -> None:
    """The old object itself does not change."""
    for kind, (saved, other) in REPLACED.items():
        before = copy.deepcopy(other)
        with subtests.test(kind):
            assert is_same(loaded(saved, other), saved)
            assert is_same(other, before)


def test_a_plain_value_is_counted_up_in_its_state() -> None:
    epoch = nbckpt.State.of("epoch", 0)
    for _ in range(3):
        epoch.value += 1
    nbckpt.save_all_states()
    epoch.value = 99
    nbckpt.load_state(epoch)
    assert epoch.value == 3


def test_an_estimator_is_restored_fitted() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="needs scikit-learn")
    points, answers = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    fitted = nbckpt.State.of("model", linear_model.LinearRegression().fit(points, answers))
    nbckpt.save_all_states()
    wanted = fitted.value.predict(points)
    fitted.value = linear_model.LinearRegression()
    nbckpt.load_state(fitted)
    assert np.array_equal(fitted.value.predict(points), wanted)


def test_arrays_with_shared_memory_share_it_again() -> None:
    whole = np.arange(10_000.0)
    one, other = loaded((whole, whole[10:]), ())
    one[10] = -1
    assert other[0] == -1


# What tells its own state.


def test_a_model_is_loaded_in_place_by_its_own_methods() -> None:
    model = Model(1.5)
    nbckpt.State.of("model", model)
    nbckpt.save_all_states()
    model.weight = 0.0
    state = state_named("model")
    assert nbckpt.load_state(state)
    assert model.weight == 1.5


def test_a_model_keeps_its_state_as_long_as_it_lives(caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    nbckpt.State.of("model", model)
    gc.collect()
    assert names() == ["model"]
    state = current.get().find("model")
    assert current.get().find("model") is state
    del state, model
    assert (names(), caplog.messages) == ([], [])


def test_a_state_keeps_its_model_as_long_as_it_lives() -> None:
    state = nbckpt.State.of("model", Model(2.5))
    gc.collect()
    nbckpt.save_all_states()
    state.value.weight = 0.0
    nbckpt.load_state(state)
    assert state.value.weight == 2.5
    gone = weakref.ref(state.value)
    del state
    assert (gone(), names()) == (None, [])


def test_another_model_in_a_state_is_the_one_that_counts() -> None:
    first, second = Model(1), Model(2)
    state = nbckpt.State.of("model", first)
    state.value = second
    del state, first
    nbckpt.save_all_states()
    second.weight = 0
    state = state_named("model")
    nbckpt.load_state(state)
    assert second.weight == 2
    del state, second
    assert names() == []


def test_a_state_that_only_its_model_holds_can_be_closed() -> None:
    model = Model()
    nbckpt.State.of("model", model)
    state = state_named("model")
    state.close()
    assert names() == []
    assert nbckpt.State.of("model", model).value is model


def test_a_state_holds_a_value_without_weak_references() -> None:
    state = nbckpt.State.of("model", Unreferable())
    state.value.weight = 3
    nbckpt.save_all_states()
    state.value.weight = 0
    nbckpt.load_state(state)
    assert state.value.weight == 3


def test_an_error_in_state_dict_is_raised_and_nothing_is_saved() -> None:
    class Broken(Model):
        def state_dict(self) -> dict[str, float]:
            raise ZeroDivisionError

    model = Broken()
    state = nbckpt.State.of("model", model)
    with pytest.raises(ZeroDivisionError):
        nbckpt.save_all_states()
    assert not nbckpt.load_state(state)


# A state that nobody keeps.


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


DROPPED = "state 'list' is not saved: it was dropped. Keep what State.of returns"


@pytest.mark.slow
def test_a_dropped_state_gives_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    values = [1]
    nbckpt.State.of("list", values)
    assert warned(caplog) == []
    kept = nbckpt.State.of("other", [1])
    nbckpt.save_all_states()
    assert warned(caplog) == [DROPPED]
    nbckpt.save_all_states()
    assert warned(caplog) == [DROPPED]
    assert names() == ["other"]
    del kept


def test_a_state_that_ends_with_its_function_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    def train() -> None:
        state = nbckpt.State.of("list", [1])
        assert state.value == [1]

    train()
    assert warned(caplog) == []


@pytest.mark.slow
@pytest.mark.parametrize("use", ["save", "load"])
def test_a_state_that_was_used_may_go_without_a_warning(caplog: pytest.LogCaptureFixture, use: str) -> None:
    state = nbckpt.State.of("list", [1])
    nbckpt.save_all_states()
    if use == "load":
        state = None
        state = nbckpt.State.of("list", [1])
        nbckpt.load_state(state)
    del state
    assert warned(caplog) == []


@pytest.mark.slow
def test_a_state_with_a_taken_name_gives_an_error_but_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    state = nbckpt.State.of("list", [1])
    with pytest.raises(ValueError, match="already exists"):
        nbckpt.State.of("list", [2])
    nbckpt.save_all_states()
    del state
    assert warned(caplog) == []


@pytest.mark.slow
def test_dropping_a_closed_state_ignores_an_unhashable_namesake(caplog: pytest.LogCaptureFixture) -> None:
    """A state that cannot be hashed has taken the name of the closed one."""

    class Unhashable(nbckpt.State):
        __hash__ = None  # type: ignore[assignment]

    state = nbckpt.State.of("list", [1])
    state.close()
    other = Unhashable("list")
    del state
    assert (warned(caplog), names()) == ([], ["list"])
    del other


# The file.


def test_an_unpicklable_value_is_named() -> None:
    state = nbckpt.State.of("lock", {"event": threading.Event(), "file": io.StringIO()})
    state.value["generator"] = (value for value in ())
    with pytest.raises(CodecError, match="cannot save a dict: TypeError: cannot pickle"):
        nbckpt.save_all_states()
    assert not nbckpt.load_state(state)


def test_a_file_of_another_kind_is_corrupt(subtests: pytest.Subtests) -> None:
    heads = [
        *(b"not json", b"[[1000000000000], []]", b"[[1e999], []]", b"[[-1], []]", b"[[], []]"),
        *(b"[[" + b"9" * 30 + b"], []]", b"[[0], [[7, 0, 1]]]", b"5", b"[" * 100_000, b"\xff"),
    ]
    others = [b"", b"nbckpt value 1", b"nbckpt value 2\n[[1], []]\nx", pickle.dumps({"a": 1})]
    for content in [*others, b"nbckpt value 1\n", *(b"nbckpt value 1\n" + head + b"\n" for head in heads)]:
        with (
            subtests.test(str(content[:40])),
            pytest.raises(CorruptError, match=r"'the file' is not the (whole )?state of a value"),
        ):
            read(io.BytesIO(content))


def test_a_file_of_another_class_of_state_is_named(tmp_path: Path) -> None:
    file = tmp_path / "n.state"
    file.write_bytes(b"5")
    with (
        file.open("rb") as opened,
        pytest.raises(CorruptError, match=r"n\.state' is not the state of a value"),
    ):
        read(opened)


@pytest.fixture(scope="module")
def written() -> bytes:
    file = io.BytesIO()
    write({"array": np.arange(2000), "text": "a" * 50}, file)
    return file.getvalue()


@settings(max_examples=200)
@given(at=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_short_is_corrupt(written: bytes, at: float) -> None:
    with pytest.raises(CorruptError):
        read(io.BytesIO(written[: int(at * len(written))]))


@settings(max_examples=200)
@given(at=st.integers(0, 400), flip=st.integers(1, 255))
def test_a_changed_head_raises_nothing_but_the_documented_errors(written: bytes, at: int, flip: int) -> None:
    head = written.index(b"\n", 20)
    data = bytearray(written)
    data[at % head] ^= flip
    with suppress(CorruptError, CodecError):
        read(io.BytesIO(data))


def test_a_value_with_a_missing_class_is_a_clear_error() -> None:
    file = io.BytesIO()
    write([1], file)
    record = b"cnowhere\nThing\n."
    head = json.dumps([[len(record)], []]).encode()
    made = b"nbckpt value 1\n" + head + b"\n"
    made += bytes(-len(made) % 64) + record
    with pytest.raises(CodecError, match=r"cannot load a state's value: ModuleNotFoundError: .*nowhere"):
        read(io.BytesIO(made))


def test_saves_and_loads_do_not_copy_large_arrays(job: Path) -> None:
    values = {"large": np.ones(4 << 20), "half": np.ones(2 << 20)}
    size = sum(value.nbytes for value in values.values())
    state = nbckpt.State.of("values", values)
    tracemalloc.start()
    try:
        nbckpt.save_all_states()
        assert tracemalloc.get_traced_memory()[1] < size / 10
        tracemalloc.reset_peak()
        nbckpt.load_state(state)
        # The array that was read, and nothing like a second one of it.
        assert tracemalloc.get_traced_memory()[1] < 1.1 * size
    finally:
        tracemalloc.stop()


def test_a_snapshot_in_a_garbage_cycle_is_freed_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    cycle: list[Any] = [snapshot.take(SimpleNamespace(save=lambda file: file.write(b"1")))]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert errors == []


torch = Library("torch")
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")


GENERATORS: dict[str, tuple[Any, Any]] = {
    "torch.Generator": (
        lambda seed: torch.Generator().manual_seed(seed),
        lambda value: torch.rand(3, generator=value).tolist(),
    ),
    "RandomState": (
        lambda seed: np.random.RandomState(seed),
        lambda value: value.standard_normal(3).tolist(),
    ),
    "Random": (random.Random, lambda generator: [generator.gauss(0, 1) for _ in range(3)]),
    "Generator": (np.random.default_rng, lambda generator: generator.random(3).tolist()),
    "twister": (
        lambda seed: np.random.Generator(np.random.MT19937(seed)),
        lambda generator: generator.random(3).tolist(),
    ),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=NEEDS_TORCH if "torch" in kind else ()) for kind in GENERATORS]
)
def test_a_generator_continues_where_it_was_saved(kind: str) -> None:
    make, draw = GENERATORS[kind]
    wraps: list[Any] = [lambda value: value, lambda value: [value], lambda value: (1, {"rng": value})]
    for wrap in wraps:
        saved, other = make(1), make(2)
        draw(saved)
        assert loaded(wrap(saved), wrapped := wrap(other)) is wrapped
        assert draw(other) == draw(saved)


def test_random_generators_of_another_kind_are_replaced() -> None:
    saved, other = np.random.default_rng(1), np.random.Generator(np.random.MT19937(1))
    value = loaded(saved, other)
    assert value is not other
    assert value.random() == saved.random()


@pytest.mark.parametrize(
    "wrap",
    [lambda *value: list(value), lambda *value: tuple(value), lambda a, b: {"x": {"a": [a], "b": b}}],
    ids=["list", "tuple", "dicts"],
)
def test_objects_in_containers_are_loaded_in_place(wrap: Any) -> None:
    array = np.zeros(3)
    model = Model(1)
    value = loaded(wrap(Model(5), np.arange(3.0)), other := wrap(model, array))
    assert value is other
    assert model.weight == 5
    assert array.tolist() == [0, 1, 2]


def test_objects_in_a_dict_are_loaded_in_place() -> None:
    before = {"model": Model(1), "teacher": Model(2), "step": 7}
    model, teacher = Model(0), Model(0)
    after = {"model": model, "teacher": teacher, "step": 0}
    assert loaded(before, after) is after
    assert after == {"model": model, "teacher": teacher, "step": 7}
    assert (model.weight, teacher.weight) == (1, 2)
    assert before["step"] == 7
    assert isinstance(before["model"], Model)


def test_load_drops_missing_objects_and_adds_new_as_state_dicts() -> None:
    after = {"other": Model(5)}
    loaded({"model": Model(1)}, after)
    assert after == {"model": {"weight": 1}}


def test_shared_objects_in_a_dict_are_shared_again() -> None:
    rng, weights = np.random.default_rng(0), np.zeros(3)
    before = {"rng": rng, "again": rng, "weights": weights, "best": weights}
    before["itself"] = before
    after: dict[str, Any] = {"rng": np.random.default_rng(1), "weights": np.ones(3)}
    loaded(before, after)
    assert after["rng"] is after["again"]
    assert after["weights"] is after["best"]
    assert after["itself"]["weights"] is after["weights"]


def test_a_list_gets_its_saved_length() -> None:
    first = Model(1)
    shorter, longer = [first, Model(2)], [first]
    assert loaded([Model(7)], shorter) is shorter
    assert shorter == [first]
    assert first.weight == 7
    loaded([Model(8), 9], longer)
    assert longer == [first, 9]


def test_a_container_in_itself_is_loaded() -> None:
    saved: list[Any] = [1]
    saved.append(saved)
    values = loaded(saved, other := [])
    assert values is other
    assert values[0] == 1


@pytest.mark.parametrize(
    ("other", "words"),
    [((1, 2), "tuple"), (np.zeros(4), "ndarray"), (frozenset(), "frozenset")],
    ids=["tuple", "array", "set"],
)
def test_an_object_that_cannot_be_filled_is_named(
    other: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    loaded({"a": 1}, other)
    assert f"state 'value': a {words} cannot be filled in place" in caplog.text


def test_a_number_is_replaced_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert loaded(5, 0) == 5
    assert caplog.text == ""


@pytest.mark.parametrize("library", ["", pytest.param("torch", marks=NEEDS_TORCH)])
def test_the_global_generators_continue_where_they_were_saved(library: str) -> None:
    def draw() -> tuple[Any, ...]:
        return random.random(), np.random.rand(2).tolist(), torch.rand(2).tolist() if library else None

    draw()  # imports the libraries: a state holds the generators of those that are imported
    state = nbckpt.states.RandomState()
    nbckpt.save_all_states()
    wanted = draw()
    assert all(new != old for new, old in zip(draw(), wanted, strict=True) if old)
    assert nbckpt.load_state(state)
    assert draw() == wanted


@pytest.mark.parametrize("value", [[1], {"other": 1}, 5], ids=["list", "dict", "number"])
def test_the_generators_refuse_the_file_of_another_state(value: Any) -> None:
    file = io.BytesIO()
    write(value, file)
    file.seek(0)
    with pytest.raises(nbckpt.errors.CorruptError, match="is not a state of the random generators"):
        nbckpt.states.RandomState().load(file)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"numpy.random.state": "?"}, "numpy.random.state is not set: "),
        pytest.param({"torch.random.state": "?"}, "torch.random.state is not set: ", marks=NEEDS_TORCH),
        (
            {"torch.cuda.random.state": ["?"]},
            "torch.cuda.random.state is not set: it was saved for 1 device, and this machine has 0",
        ),
    ],
    ids=["numpy", "torch", "device"],
)
def test_a_generator_that_cannot_be_set_is_named(
    wrong: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    random.seed(1)
    saved = {"random.state": random.getstate(), **wrong}
    wanted = random.random()
    file = io.BytesIO()
    write(saved, file)
    file.seek(0)
    nbckpt.states.RandomState("seeds").load(file)
    assert random.random() == wanted
    assert f"state 'seeds': {why}" in caplog.text
