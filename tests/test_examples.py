"""Each name of the public face shows its use. pytest runs the examples, each in a folder of its own."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import nbckpt
from nbckpt import media, states, trials

HOOKS = {"load_ipython_extension", "unload_ipython_extension"}
"""IPython calls these; a user writes `%load_ext nbckpt`."""

OF_AUTHORS = {
    *("CheckpointFolder", "DurableTrainable", "Executor", "ExperimentView", "FunctionRunner"),
    *("Media", "NotDurableError", "OnResult", "Record", "Registry", "Scheduler", "Search", "StatusReporter"),
    *("SyncerCallback", "Worker", "WorkerLostError"),
}
"""Names for those who write an executor, a scheduler or the like: CONTRIBUTING.md says which to copy."""

OF_OPTUNA = {"OptunaPruner", "OptunaSampler"}
"""They need Optuna, which may be missing."""

ELSEWHERE = {"checkpoint_dir", "save_and_exit", "save_on_signal", "use_folder"}
"""They end a process, set its signals, or serve scripts of Ray Tune; `docs/guides/states.md` shows most."""


def has_example(named: Any) -> bool:
    return ">>>" in (inspect.getdoc(named) or "")


@pytest.mark.parametrize("module", [nbckpt, trials, states, media], ids=lambda module: module.__name__)
def test_each_public_name_has_an_example(module: ModuleType) -> None:
    names = {*module.__all__} - HOOKS - OF_AUTHORS - OF_OPTUNA - ELSEWHERE
    public = {name: getattr(module, name) for name in names}
    assert [name for name, named in public.items() if callable(named) and not has_example(named)] == []


def test_a_name_without_an_example_is_found() -> None:
    assert not has_example(nbckpt.load_ipython_extension)
