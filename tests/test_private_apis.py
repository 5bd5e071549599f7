"""Private names of other libraries: they are where we look, and everything works without them."""

from __future__ import annotations

import ast
import enum
import io
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from nbckpt import _private_apis as private
from nbckpt.store import RemoteStore
from nbckpt.store.locks import file_lock
from syntax import nodes

PACKAGE = Path(private.__file__).parent
PUBLIC = {
    "_exit",
    "_getframe",
    "_value_",
    "_type_",
    "_length_",
}  # in the documentation of os, sys, enum, ctypes
SUBCLASSES = {"_get_kwargs_from_urls", "_strip_protocol"}  # fsspec's own, for subclasses
EVENT = {"event": "result", "metrics": {"loss": 0.5, "text": "Grüße\n"}, "nothing": None}


def attributes(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each name with one underscore that a module defines or uses, and whether it defines the name."""
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, True
        elif isinstance(node, ast.Attribute) and node.attr[:1] == "_" and node.attr[:2] != "__":
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            yield node.attr, isinstance(node.ctx, ast.Store) and owner in {"self", "cls"}


def test_only_one_module_uses_private_names_of_others() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path != Path(private.__file__)]
    names = [pair for path in modules for pair in attributes(path)]
    ours = {name for name, is_made in names if is_made} | PUBLIC | SUBCLASSES
    foreign = {name for name, is_made in names if not is_made} - ours
    assert {name for name in foreign if not name.startswith("_repr_")} == set()


def test_cloudpickle_keeps_its_tables_where_we_look() -> None:
    made = type("Made", (), {"__module__": "__main__"})
    cloudpickle.dumps(made)
    tracker = private.class_tracker()
    assert tracker.classes[tracker.numbers[made]] is made


def test_enumerations_keep_their_data_type_where_we_look() -> None:
    assert private.data_type_of(enum.IntFlag("F", "A", boundary=enum.KEEP)) is int
    assert private.boundary_of(enum.Flag("F", "A", boundary=enum.KEEP)) is enum.KEEP


@pytest.fixture
def no_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BY_CLASS", "BY_ID", "LOCK"):
        monkeypatch.delattr(cloudpickle.cloudpickle, f"_DYNAMIC_CLASS_TRACKER_{name}")


def test_our_own_tables_serve_without_those_of_cloudpickle(no_tracker: None) -> None:
    made = type("Made", (), {})
    with private.class_tracker().lock:
        private.class_tracker().numbers[made] = "1"
    assert private.class_tracker().numbers[made] == "1"
    assert private.class_tracker().classes is private.class_tracker().classes


@pytest.mark.parametrize("maker", [getattr(json.encoder, "c_make_encoder", None), None])
def test_events_are_written_alike_by_both_encoders(monkeypatch: pytest.MonkeyPatch, maker: Any) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", maker)
    expected = json.dumps(EVENT | {"other": "1j"}, separators=(",", ":"))
    encode = private.json_encoder()
    assert "".join(encode(EVENT | {"other": "1j"}, 0)) == expected
    assert "".join(encode([1j], 0)) == '["1j"]'


def test_work_is_registered_before_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    assert hasattr(threading, "_register_atexit")
    monkeypatch.setattr(threading, "_register_atexit", registered.append)
    private.run_before_threads_end(print)
    monkeypatch.delattr(threading, "_register_atexit")
    private.run_before_threads_end(repr)
    assert registered == [print]


def test_a_condition_shows_its_lock() -> None:
    lock = threading.Lock()
    assert private.lock_of(threading.Condition(lock)) is lock
    assert private.lock_of(threading.Condition.__new__(threading.Condition)) is None


def test_a_thread_shows_the_function_that_it_runs() -> None:
    assert private.target_of(threading.Thread(target=print)) is print
    assert private.target_of(SimpleNamespace()) is None


def test_ipythons_capturing_write_shows_the_write_below() -> None:
    original_write = io.StringIO().write

    def write(text: str) -> int:
        return original_write(text)

    cell = private.captured_write(write)
    assert cell is not None
    assert cell.cell_contents is original_write
    assert private.captured_write(io.StringIO().write) is None


@pytest.mark.slow
def test_a_large_object_is_put_without_the_call_of_s3fs(
    monkeypatch: pytest.MonkeyPatch, s3_bucket: str
) -> None:
    data = random.Random(0).randbytes(6 << 20)
    monkeypatch.setattr("nbckpt.store.remote.LARGE", 1 << 20)
    monkeypatch.setattr("nbckpt.store.remote.s3_call", lambda _: None)
    monkeypatch.setattr("nbckpt.store.multipart.s3_call", lambda _: None)
    store = RemoteStore(s3_bucket)
    store.put("big", data)
    assert store.get("big") == data


def test_optuna_keeps_number_and_rungs_of_a_trial_where_we_look() -> None:
    optuna = pytest.importorskip("optuna", reason="needs Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(pruner=optuna.pruners.SuccessiveHalvingPruner(1, 2))
    trial = study.ask()
    assert private.optuna_trial_id(study.get_trials()[0]) == 0
    assert private.optuna_trial_id(SimpleNamespace()) is None
    trial.report(0.5, 2)
    assert not trial.should_prune()
    assert study.get_trials()[0].system_attrs == {private.optuna_rung(0): 0.5, private.optuna_rung(1): 0.5}


def test_pytorch_keeps_the_hooks_of_a_tensor_where_we_look() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    tensor = torch.ones(1, requires_grad=True)
    tensor.register_hook(print)
    backward, after = private.tensor_hooks(tensor)
    assert (list(backward.values()), after) == ([print], None)
    other = torch.ones(1, requires_grad=True)
    private.set_tensor_hooks(other, backward, after)
    assert private.tensor_hooks(other) == (backward, None)
    assert private.tensor_hooks(SimpleNamespace()) == (None, None)


def test_the_open_file_of_a_lock_is_where_we_look(tmp_path: Path) -> None:
    lock = file_lock(tmp_path / "a.lock")
    assert private.lock_handle(lock) is None
    with lock:
        handle = private.lock_handle(lock)
        assert handle is not None
        assert os.fstat(handle).st_ino == (tmp_path / "a.lock").stat().st_ino
    assert private.lock_handle(object()) is None


def test_the_caches_of_instructions_are_where_we_look() -> None:
    assert private.inline_caches()["LOAD_GLOBAL"] > 0
