"""Classes, attributes, pickles and the identity of checkpoints."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES, KIND, Kind
from nbckpt.errors import UntrustedError, UsageError
from nbckpt.store import MemoryStore


class Model(Checkpoint):
    _SERIALIZED_ATTRS = ("epochs", "tags")
    epochs: int
    tags: Any


class Deeper(Model):
    _SERIALIZED_ATTRS = ("epochs", "more")
    more: int


class Other(Checkpoint):
    pass


def forms(made: Checkpoint, folder: Path, reader: type[Checkpoint]) -> list[Checkpoint]:
    """Return *made* through every form that a class can be read from."""
    uri = f"memory://{uuid.uuid4().hex}"
    store = MemoryStore()
    return [
        reader.from_directory(made.to_directory(folder / uuid.uuid4().hex)),
        reader.from_bytes(made.to_bytes()),
        reader.from_uri(made.to_uri(uri)),
        reader.from_store(store, made.to_store(store)),
        reader(local_path=made.to_directory(folder / uuid.uuid4().hex)),
        reader(uri=uri),
    ]


SOURCES = [{"a": 1}, {}, {FILES: {"f": b"1"}}]


@pytest.mark.parametrize("data", SOURCES, ids=["fields", "nothing", "files"])
def test_a_subclass_is_restored_as_itself(tmp_path: Path, data: dict[Any, Any]) -> None:
    made = forms(Model.from_dict(data), tmp_path, Checkpoint)[:4]
    assert [type(form) for form in made] == [Model] * 4


@pytest.mark.parametrize("data", SOURCES, ids=["fields", "nothing", "files"])
def test_a_checkpoint_read_by_a_subclass_becomes_its_instance(tmp_path: Path, data: dict[Any, Any]) -> None:
    for made in (Checkpoint.from_dict(data), Model.from_dict(data)):
        assert {type(form) for form in forms(made, tmp_path, Deeper)} == {Deeper}


def test_an_unrelated_class_is_refused(tmp_path: Path) -> None:
    """And a ValueError as there."""
    made = Model.from_dict({"a": 1})
    folder, uri = made.to_directory(tmp_path / "m"), made.to_uri(f"memory://{uuid.uuid4().hex}")
    reads: list[Callable[[], Any]] = [
        lambda: Other.from_directory(folder),
        lambda: Other.from_bytes(made.to_bytes()),
        lambda: Other.from_uri(uri),
        lambda: Other(local_path=folder),
        lambda: Other(uri=uri),
    ]
    for read in reads:
        with pytest.raises(UsageError, match="is a Model, not a Other") as error:
            read()
        assert isinstance(error.value, ValueError)


def test_listed_attributes_survive_and_others_do_not(tmp_path: Path) -> None:
    made = Model.from_dict({"a": 1})
    made.epochs, made.tags = 3, ["x"]
    made.unlisted = 1  # type: ignore[attr-defined]
    for back in forms(made, tmp_path, Checkpoint)[:4]:
        assert isinstance(back, Model)
        assert (back.epochs, back.tags) == (3, ["x"])
        assert not hasattr(back, "unlisted")
        assert back.to_dict() == {"a": 1, KIND: Kind(Model, {"epochs": 3, "tags": ["x"]})}


def test_attributes_survive_a_chain_and_a_change(tmp_path: Path) -> None:
    made = Model.from_dict({"a": 1})
    made.epochs = 3
    for back in forms(made, tmp_path, Model):
        assert isinstance(back, Model)
        back.epochs += 1
        again = [form for form in forms(back, tmp_path, Checkpoint)[:4] if isinstance(form, Model)]
        assert [form.epochs for form in again] == [4] * 4


def test_from_checkpoint_keeps_the_attributes_of_both_classes() -> None:
    made = Model.from_dict({"a": 1})
    made.epochs, made.tags = 3, ["x"]
    other = Deeper.from_checkpoint(made)
    assert type(other) is Deeper
    assert other.epochs == 3
    assert other.to_dict() == {"a": 1, KIND: Kind(Deeper, {"epochs": 3})}
    back = Checkpoint.from_bytes(other.to_bytes())
    assert isinstance(back, Deeper)
    assert back.epochs == 3
    assert not hasattr(back, "tags")


def test_the_same_class_is_the_same_object() -> None:
    made = Model.from_dict({})
    assert Model.from_checkpoint(made) is made


def test_a_pickled_uri_stays_a_uri() -> None:
    uri = Model.from_dict({"a": bytes(10_000)}).to_uri(f"memory://{uuid.uuid4().hex}")
    data = pickle.dumps(Checkpoint.from_uri(uri))
    back = pickle.loads(data)
    assert type(back) is Model
    assert back.uri == uri
    assert back.to_dict() == {"a": bytes(10_000), KIND: Kind(Model, {})}
    assert len(data) < 500


def test_a_pickled_dict_checkpoint_contains_its_data() -> None:
    made = Model.from_dict({"a": [1, 2], FILES: {"f": b"1"}})
    made.epochs = 4
    back = pickle.loads(pickle.dumps(made))
    assert type(back) is Model
    assert back.same_content(made)
    assert back.epochs == 4


def test_a_pickled_folder_is_a_reference(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(8 << 20))
    data = pickle.dumps(Checkpoint.from_directory(tmp_path))
    back = pickle.loads(data)
    assert len(data) < 500
    assert back.uri == tmp_path.as_uri()
    assert len(back.to_dict()[FILES]["large"]) == 8 << 20


def test_a_pickled_reference_keeps_its_attributes(tmp_path: Path) -> None:
    made = Model.from_directory(tmp_path)
    made.epochs = 5
    back = pickle.loads(pickle.dumps(made))
    assert isinstance(back, Model)
    assert back.epochs == 5


def test_a_pickled_reference_does_not_grant_trust(tmp_path: Path) -> None:
    folder = Checkpoint.from_dict({"a": 1}).to_directory(tmp_path / "mine")
    data = pickle.dumps(Checkpoint.from_directory(folder))
    manifest = Path(folder, ".nbckpt", "checkpoint.json")
    head, _, _ = manifest.read_bytes().partition(b',"signature":')
    manifest.write_bytes(head + b"}")
    with pytest.raises(UntrustedError):
        pickle.loads(data).to_dict()


def test_a_checkpoint_is_not_a_path() -> None:
    uses: list[Callable[[Any], object]] = [open, os.path.exists, os.listdir, Path]
    for use in uses:
        with pytest.raises(TypeError) as error:
            use(Checkpoint.from_dict({}))
        # From Python 3.12 on, Path swallows the message and says its own.
        assert ("as_directory" in str(error.value)) or (use is Path and "'Checkpoint'" in str(error.value))


def test_the_uri_names_the_location_of_a_checkpoint(tmp_path: Path) -> None:
    uri = f"memory://{uuid.uuid4().hex}/x"
    made = Checkpoint.from_dict({"a": 1})
    store = MemoryStore()
    assert made.uri is None
    assert Checkpoint.from_bytes(made.to_bytes()).uri is None
    assert Checkpoint.from_store(store, made.to_store(store)).uri is None
    assert Checkpoint.from_uri(made.to_uri(uri)).uri == uri
    folder = tmp_path / "100% a#b ü"
    assert made.to_uri(folder.as_uri()) == folder.as_uri()
    assert (
        Checkpoint.from_directory(folder).uri == Checkpoint.from_uri(folder.as_uri()).uri == folder.as_uri()
    )


def test_a_checkpoint_in_a_remote_store_pickles_too() -> None:
    store = f"memory://{uuid.uuid4().hex}"
    made = Checkpoint.from_store(store, Checkpoint.from_dict({"a": 1}).to_store(store))
    assert made.uri is None
    assert pickle.loads(pickle.dumps(made)).to_dict() == {"a": 1}


def test_a_repr_is_short(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 200) / ("y" * 200)
    deep.mkdir(parents=True)
    made = [
        Checkpoint.from_dict({"a": "x" * 100_000}),
        Model.from_directory(deep),
        Checkpoint.from_uri(f"memory://{'z' * 1000}"),
        Checkpoint.from_bytes(Checkpoint.from_dict({"a": 1}).to_bytes()),
    ]
    kinds = [repr(checkpoint).partition("(")[0] for checkpoint in made]
    assert kinds == ["Checkpoint", "Model", "Checkpoint", "Checkpoint"]
    assert all(len(repr(checkpoint)) < 120 for checkpoint in made)


def test_a_preprocessor_is_found_in_every_form(tmp_path: Path) -> None:
    made = Checkpoint.from_dict({"a": 1, "_preprocessor": {"scale": 2}})
    folder = Checkpoint.from_directory(made.to_directory(tmp_path / "made"))
    again = Checkpoint.from_dict(Checkpoint.from_dict(folder.to_dict()).to_dict())
    assert Checkpoint.from_dict({"a": 1}).get_preprocessor() is None
    assert [checkpoint.get_preprocessor() for checkpoint in (made, folder, again)] == [{"scale": 2}] * 3
    cleared = Checkpoint.from_dict(again.to_dict() | {"_preprocessor": None})
    assert cleared.get_preprocessor() is None


def test_a_preprocessor_in_a_file_is_only_loaded_with_trust(tmp_path: Path) -> None:
    (tmp_path / "_preprocessor").write_bytes(pickle.dumps({"scale": 2}))
    assert Checkpoint.from_directory(tmp_path, trust=True).get_preprocessor() == {"scale": 2}
    made = Checkpoint.from_directory(tmp_path)
    assert made.get_preprocessor(trust=True) == {"scale": 2}
    for checkpoint in (made, Checkpoint.from_bytes(made.to_bytes()), Checkpoint.from_dict(made.to_dict())):
        with pytest.raises(UntrustedError, match=r"'_preprocessor'.*trust=True"):
            checkpoint.get_preprocessor()


def vanished(name: str, module: str) -> type[Checkpoint]:
    """Return a class that will not be found again."""
    return type(name, (Checkpoint,), {"__module__": module})


def test_a_missing_class_gives_a_warning(tmp_path: Path) -> None:
    made = vanished("Vanished", "not_here").from_dict({"a": 1})
    folder = made.to_directory(tmp_path / "made")
    with pytest.warns(UserWarning, match="not_here:Vanished cannot be imported"):
        back = Checkpoint.from_directory(folder)
    assert type(back) is Checkpoint
    assert back.to_dict() == {"a": 1}


def test_the_class_of_a_checkpoint_is_imported_on_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_models.py").write_text(
        "from nbckpt.core.checkpoint import Checkpoint\nclass Mine(Checkpoint):\n    pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    make = "import my_models; my_models.Mine.from_dict({'a': 1}).to_directory('made')"
    read = "from nbckpt.core.checkpoint import *; print(type(Checkpoint.from_directory('made')).__name__)"
    for code, said in ((make, ""), (read, "Mine\n")):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == said


class Counting(Checkpoint):
    """A class with a default that its `__init__` sets, and an attribute that travels."""

    _SERIALIZED_ATTRS = ("tags",)
    made: ClassVar[list[dict[str, object]]] = []

    def __init__(self, local_path: Any = None, data_dict: Any = None, uri: Any = None) -> None:
        super().__init__(local_path, data_dict, uri)
        self.made.append({"local_path": local_path, "data_dict": data_dict, "uri": uri})
        self.cache: list[str] = []
        self.tags = ["default"]


def each_form(made: Checkpoint, folder: Path) -> dict[str, Callable[[], Checkpoint]]:
    made.to_directory(folder / "folder")
    made.to_uri(f"memory://{folder.name}/x")
    ref, data, dict_form = made.to_store(str(folder / "store")), made.to_bytes(), made.to_dict()
    return {
        "dict": lambda: Checkpoint.from_dict(dict_form),
        "folder": lambda: Checkpoint.from_directory(folder / "folder"),
        "uri": lambda: Checkpoint.from_uri(f"memory://{folder.name}/x"),
        "bytes": lambda: Checkpoint.from_bytes(data),
        "store": lambda: Checkpoint.from_store(str(folder / "store"), ref),
        "pickle": lambda: pickle.loads(pickle.dumps(made)),
        "class": lambda: Counting.from_dict({"a": 1} | {KIND: dict_form[KIND]}),
        "other class": lambda: Counting.from_checkpoint(Checkpoint.from_dict({"a": 1})),
    }


def test_every_form_has_the_class_its_attributes_and_its_init(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    made = Counting(data_dict={"a": 1})
    made.tags = ["kept"]
    for form, read in each_form(made, tmp_path).items():
        with subtests.test(form):
            Counting.made.clear()
            back = read()
            assert type(back) is Counting
            assert back.cache == []
            assert back.tags == (["default"] if form == "other class" else ["kept"])
            assert back.tags is not made.tags
            assert back.to_dict()["a"] == 1
            assert len(Counting.made) == 1


def test_a_class_is_initialised_once_by_its_own_call() -> None:
    Counting.made.clear()
    assert Counting(data_dict={"a": 1}).tags == ["default"]
    assert [arguments["data_dict"] for arguments in Counting.made] == [{"a": 1}]


def test_a_dict_with_an_added_field_keeps_class_and_attributes() -> None:
    made = Counting.from_dict({"a": 1})
    made.tags = ["kept"]
    more = Checkpoint.from_dict({**made.to_dict(), "epoch": 3})
    assert type(more) is Counting
    assert more.tags == ["kept"]
    assert {key: more.to_dict()[key] for key in ("a", "epoch")} == {"a": 1, "epoch": 3}


def test_the_dict_of_a_plain_checkpoint_has_only_its_fields() -> None:
    assert Checkpoint.from_dict({"a": 1}).to_dict() == {"a": 1}


def test_a_class_with_another_constructor_is_read_with_a_warning() -> None:
    class OfModel(Checkpoint):
        def __init__(self, model: object) -> None:
            super().__init__(data_dict={"model": model})

    assert OfModel([1]).to_dict()["model"] == [1]
    with pytest.warns(UserWarning, match=r"OfModel\.__init__ was not run"):
        assert OfModel.from_dict({"model": [2]}).to_dict()["model"] == [2]


def test_an_invalid_kind_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"the key <kind> of a dict takes the value that to_dict returned, not int"
    ):
        Checkpoint.from_dict({KIND: 3})


def test_a_pickle_of_a_checkpoint_at_a_uri_has_no_password() -> None:
    Checkpoint.from_dict({"a": 1}).to_uri("memory://me:pw@pickled/x", overwrite=True)
    made = Checkpoint.from_uri("memory://me:pw@pickled/x")
    data = pickle.dumps(made)
    assert b"pw@" not in data
    assert "pw@" not in repr(made)
    assert pickle.loads(data).to_dict() == {"a": 1}
