"""The law of checkpoints: whatever chain of forms, what goes in comes out."""

from __future__ import annotations

import os
import pickle
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES
from nbckpt.errors import UsageError
from nbckpt.store import LocalStore

laws = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

# Keys and values of every kind.

texts = st.text(st.characters(exclude_categories=[]), max_size=20)  # surrogates and NUL included
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False)
)
hashables = st.recursive(
    st.one_of(scalars, texts, st.binary(max_size=20), st.datetimes(), st.integers(0, 9).map(str)),
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=5,
)


def viewed(array: Any, how: str) -> Any:
    views: dict[str, Callable[[], Any]] = {
        "plain": lambda: array,
        "fortran": lambda: np.asarray(array, order="F"),
        "transposed": lambda: array.T,
        "reversed": lambda: array[::-1],
        "every other": lambda: array[..., ::2],
        "inner": lambda: array[1:-1],
        "broadcast": lambda: np.broadcast_to(array, (2, *array.shape)),
        "swapped": lambda: array.astype(array.dtype.newbyteorder()),
    }
    return views[how]()


VIEWS = ["plain", "fortran", "transposed", "reversed", "every other", "inner", "broadcast", "swapped"]
dtypes = st.sampled_from(
    ["?", "u1", "<i4", ">i8", "f2", "f8", "c16", "M8[ns]", "m8[s]", "S3", "U2", "i4,f8", "O"]
)
arrays = st.builds(
    viewed,
    dtypes.flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=40),
            elements=texts if dtype == "O" else None,
        )
    ),
    st.sampled_from(VIEWS),
)
frames = st.builds(
    lambda numbers, words: pd.DataFrame({"n": numbers, "w": (words * len(numbers))[: len(numbers)]}),
    st.lists(st.floats(), max_size=20),
    st.lists(st.text(max_size=5), min_size=1, max_size=5),
)


@dataclass
class Thing:
    inner: Any


class Text(str):
    __slots__ = ()


values = st.recursive(
    st.one_of(
        hashables, st.floats(), arrays, frames, st.binary(max_size=9000), st.builds(Text, st.text(max_size=9))
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
        st.builds(Thing, inner),
        st.binary(max_size=20).map(bytearray),
        inner.map(lambda value: [value, value, {"again": value}]),
    ),
    max_leaves=6,
)

# Paths: whatever a file system takes.

names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12),
    st.sampled_from(["CON", "aux.txt", "nul", "a.", "a ", " ", "…", "ü", "日本", "🦆", "-rf", "~"]),
    st.sampled_from(["a%20b", "a:b", "a*?", '"', "\\"]),
    st.sampled_from(
        ["checkpoint.json", "x.meta.pkl", ".hidden", "nbckpt", "a.nbckpt-tmp", "unfinished", "packs"]
    ),
).filter(lambda name: name not in {".", "..", ".nbckpt", ".nbckpt-tmp"} and len(name.encode()) < 100)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
contents = st.one_of(st.binary(max_size=50), st.just(b""), st.binary(min_size=5000, max_size=6000))


def parents(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:end]) for end in range(1, len(parts))}


@dataclass
class Model:
    """What must come out."""

    fields: dict[Any, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def takes(self, path: str) -> bool:
        above = {path for file in (*self.files, *self.folders) for path in (file, *parents(file))}
        return path not in above and not parents(path) & self.files.keys()

    def add_file(self, path: str, data: bytes) -> None:
        if self.takes(path):
            self.files[path] = data
            self.folders -= parents(path)

    def add_folder(self, path: str) -> None:
        if self.takes(path):
            self.folders = (self.folders - parents(path)) | {path}


models = st.builds(
    lambda fields, files, folders: filled(Model(fields), files, folders),
    st.dictionaries(hashables, values, max_size=4),
    st.lists(st.tuples(paths, contents), max_size=4),
    st.lists(paths, max_size=2),
)


def filled(model: Model, files: list[tuple[str, bytes]], folders: list[str]) -> Model:
    for path, data in files:
        model.add_file(path, data)
    for path in folders:
        model.add_folder(path)
    return model


def built(model: Model, parent: Path) -> Checkpoint:
    """Return a checkpoint of the model: its fields by the dict form, its files by the folder form."""
    folder = Path(Checkpoint.from_dict(model.fields).to_directory(parent / uuid.uuid4().hex))
    for path in model.folders:
        folder.joinpath(path).mkdir(parents=True)
    for path, data in model.files.items():
        folder.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(path).write_bytes(data)
    return Checkpoint.from_directory(folder)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal in type and content, NaN and -0.0 included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, Thing):
        return same(one.inner, other.inner)
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and (
            same(one.tolist(), other.tolist()) if one.dtype == object else one.tobytes() == other.tobytes()
        )
    if isinstance(one, pd.DataFrame):
        return bool(one.equals(other)) and list(one.dtypes) == list(other.dtypes)
    return bool(one == other)


def holds(made: Checkpoint, model: Model) -> None:
    data = made.to_dict()
    files = data.pop(FILES, {})
    assert same(data, model.fields)
    assert dict(files) == model.files
    assert getattr(files, "folders", set()) == model.folders


# Forms, each with what can be added on the way.

steps = st.one_of(
    st.sampled_from(["dict", "folder", "bytes", "memory", "local", "store", "pickle"]),
    st.tuples(st.just("add a field"), hashables, values),
    st.tuples(st.just("add a file in the dict form"), paths, contents),
    st.tuples(st.just("add a file in the folder form"), paths, contents),
)


def take(step: Any, made: Checkpoint, model: Model, folder: Path) -> Checkpoint:
    fresh = folder / uuid.uuid4().hex
    match step:
        case "dict":
            return Checkpoint.from_dict(made.to_dict())
        case "folder":
            return Checkpoint.from_directory(made.to_directory(fresh))
        case "bytes":
            return Checkpoint.from_bytes(made.to_bytes())
        case "memory":
            return Checkpoint.from_uri(made.to_uri(f"memory://{fresh.name}"))
        case "local":
            return Checkpoint.from_uri(made.to_uri(f"local://{fresh}"))
        case "store":
            store = LocalStore(folder / "store")
            return Checkpoint.from_store(store, made.to_store(store))
        case "pickle":
            back = pickle.loads(pickle.dumps(made))
            assert isinstance(back, Checkpoint)
            return back
        case ("add a field", key, value):
            model.fields[key] = value
            data = made.to_dict()
            files = {FILES: data.pop(FILES)} if FILES in data else {}
            return Checkpoint.from_dict(data | {key: value} | files)
        case ("add a file in the dict form", path, content):
            if not model.takes(path):
                return made
            model.add_file(path, content)
            data = made.to_dict()
            data[FILES] = data[FILES] | {path: content} if FILES in data else {path: content}
            return Checkpoint.from_dict(data)
        case ("add a file in the folder form", path, content):
            if not model.takes(path):
                return made
            model.add_file(path, content)
            made.to_directory(fresh)
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content)
            return Checkpoint.from_directory(fresh)
    raise AssertionError(step)


@pytest.mark.slow
@laws
@given(model=models, chain=st.lists(steps, max_size=6))
def test_any_chain_of_conversions_keeps_the_contents(model: Model, chain: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = built(model, Path(folder))
        holds(made, model)
        for step in chain:
            made = take(step, made, model, Path(folder))
        holds(made, model)


@pytest.mark.slow
@laws
@given(
    model=models, chain=st.lists(st.sampled_from(["folder", "bytes", "memory", "local", "store", "pickle"]))
)
def test_no_form_changes_the_digest(model: Model, chain: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = last = built(model, Path(folder))
        before = made.digest()
        for step in chain[:5]:
            last = take(step, last, model, Path(folder))
            assert last.digest() == before
        assert last.same_content(made)


@pytest.mark.slow
@laws
@given(model=models, step=st.sampled_from(["dict", "folder", "bytes", "memory", "local", "store", "pickle"]))
def test_a_conversion_does_not_change_its_source(model: Model, step: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = built(model, Path(folder))
        source = Path(made.to_directory())

        def state() -> dict[str, Any]:
            paths = [source, *source.rglob("*")]
            return {
                str(path): (path.stat().st_mtime_ns, path.is_dir() or path.read_bytes()) for path in paths
            }

        made, before = Checkpoint.from_directory(source), state()
        take(step, made, model, Path(folder))
        assert state() == before
        holds(made, model)


@pytest.mark.slow
@laws
@given(
    value=values.filter(lambda value: isinstance(value, (list, dict, Thing, bytearray, np.ndarray))),
    chain=st.lists(steps, max_size=4),
)
def test_any_chain_of_conversions_keeps_shared_objects(value: Any, chain: list[Any]) -> None:
    model = Model({"one": value, "other": value, ("deep", 1): [{"in": value}]})
    with tempfile.TemporaryDirectory() as folder:
        made = Checkpoint.from_dict(model.fields)
        for step in chain:
            assume(step[0] != "add a field")
            made = take(step, made, model, Path(folder))
        back = made.to_dict()
    assert back["one"] is back["other"] is back["deep", 1][0]["in"]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_a_file_name_that_is_not_unicode_is_kept(tmp_path: Path) -> None:
    """Names on Linux are bytes."""
    source = tmp_path / "source"
    source.mkdir()
    name = os.fsdecode(b"caf\xe9.txt")
    (source / name).write_bytes(b"1")
    made = Checkpoint.from_directory(source)
    for step in ("dict", "bytes", "store", "memory", "folder"):
        made = take(step, made, Model({}, {name: b"1"}), tmp_path)
    assert os.listdir(os.fsencode(str(made.to_directory(tmp_path / "back")))) == [b"caf\xe9.txt"]  # noqa: PTH208


@pytest.mark.slow
@laws
@given(path=st.text(max_size=12).filter(lambda path: "\ud800" not in path), content=st.binary(max_size=3))
def test_a_file_path_is_kept_or_refused(path: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, "a", "b")
        try:
            made = Checkpoint.from_dict({FILES: {path: content}})
        except UsageError:
            return
        back = Checkpoint.from_directory(made.to_directory(inside))
        assert dict(back.to_dict()[FILES]) == {path: content}
        assert [file.name for file in Path(folder).iterdir()] == ["a"]
