"""Each name of the public face shows its use. pytest runs the examples, each in a folder of its own."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import nbckpt
from nbckpt import media, states, store, sync, testing, trials

HOOKS = {"load_ipython_extension", "unload_ipython_extension"}
"""IPython calls these; a user writes `%load_ext nbckpt`."""

OF_AUTHORS = {
    *("CheckpointFolder", "DurableTrainable", "Executor", "ExperimentView", "FunctionRunner"),
    *("Media", "NotDurableError", "OnResult", "Record", "Registry", "Scheduler", "Search", "StatusReporter"),
    *("SyncerCallback", "Worker", "WorkerLostError"),
}
"""Names for those who write an executor, a scheduler or the like: CONTRIBUTING.md says which to copy."""

OF_STORES = {
    *("ArchiveWriter", "CachedStore", "Cancel", "CancelledError", "Pieces", "RemoteStore", "TimedOutError"),
    *("BackgroundSyncer", "Call", "ExecutorTests", "ReadingTests", "Store", "StoreTests"),
    *(name for name in store.__all__ if name.islower() and name != "open_store"),
}
"""Names for those who write a store, a syncer or an executor; CONTRIBUTING.md has the steps."""

OF_OPTUNA = {"OptunaPruner", "OptunaSampler"}
"""They need Optuna, which may be missing."""

ELSEWHERE = {"checkpoint_dir", "save_and_exit", "save_on_signal", "use_folder"}
"""They end a process, set its signals, or serve scripts of Ray Tune; `docs/guides/states.md` shows most."""

CLASSES = (
    *(nbckpt.Tracker, nbckpt.Checkpoint, nbckpt.State, nbckpt.Experiment, nbckpt.Trial, nbckpt.SyncConfig),
    *(trials.OpenTrial, media.StoredMedia, sync.Syncer, testing.FaultyStore, testing.RecordingStore),
)
"""The classes whose methods users call."""

WITHOUT = {
    "a front end or `--json` calls it": {
        *("Tracker.page", "Checkpoint.page", "State.page", "Experiment.page", "Trial.page"),
        *("OpenTrial.page", "SyncConfig.page"),
        *("Experiment.for_json", "OpenTrial.for_json", "StoredMedia.for_json"),
    },
    "the modules of nbckpt call it": {
        *("Tracker.bind", "Tracker.comparable", "Tracker.last_removal", "Tracker.only_in", "Tracker.read"),
        *("Experiment.read", "Experiment.refresh", "Trial.read"),
        *("StoredMedia.check_pixels", "StoredMedia.table"),
        *("OpenTrial.close", "OpenTrial.end_after", "OpenTrial.on_cell_begin", "OpenTrial.on_cell_end"),
        *("Syncer.close", "Syncer.reset", "Syncer.retry", "Syncer.wait", "Syncer.wait_or_retry"),
        *("Syncer.status", "Syncer.sync_down_if_needed", "Syncer.validate_upload_dir"),
    },
    "it needs a trial that still runs; docs/guides/trials.md has the command": {
        *("Experiment.checkpoint", "Experiment.kill", "Experiment.pause", "Experiment.resume"),
        *("Experiment.stop", "Experiment.interrupted", "Experiment.runs_elsewhere"),
    },
    "a store of a test overrides it": {"FaultyStore.around", "RecordingStore.around"},
    "it would only repeat the method's name": {
        *("Tracker.close", "Tracker.manifest", "Tracker.trust_all", "State.close", "StoredMedia.load"),
        *("Checkpoint.from_checkpoint", "Checkpoint.get_preprocessor"),
    },
    "it needs replicas, see docs/guides/states.md": {"State.sync"},
    "it needs several objectives, see docs/guides/search.md": {"Experiment.pareto"},
}
"""Why a method has no example."""


def example_of(named: Any) -> str:
    """Return the lines of code of the example in a docstring."""
    return "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", inspect.getdoc(named) or "", re.M))


def methods(cls: type) -> set[str]:
    """Return the names of the public methods that a class defines itself."""
    own = {name: getattr(value, "__func__", value) for name, value in vars(cls).items()}
    return {name for name, value in own.items() if inspect.isfunction(value) and not name.startswith("_")}


def is_shown(cls: type, name: str) -> bool:
    """Return whether the example of a method or of its class calls the method, or defines it."""
    calls = re.search(rf"(\.|def ){name}\(", example_of(cls))
    return calls is not None or bool(example_of(getattr(cls, name)))


def test_each_public_name_has_an_example() -> None:
    modules = (nbckpt, trials, states, media, store, sync, testing)
    without = HOOKS | OF_AUTHORS | OF_STORES | OF_OPTUNA | ELSEWHERE
    public = {name: getattr(module, name) for module in modules for name in {*module.__all__} - without}
    assert [name for name, named in public.items() if callable(named) and not example_of(named)] == []


def test_each_method_has_an_example_or_a_reason_for_none() -> None:
    names = {(cls, name) for cls in CLASSES for name in methods(cls)}
    assert len(names) > 70
    without = {f"{cls.__name__}.{name}" for cls, name in names if not is_shown(cls, name)}
    assert without == set().union(*WITHOUT.values())


def test_each_example_has_the_heading_that_the_site_knows() -> None:
    """The site shows what stands below another heading as quotations in quotations."""
    modules = [
        path
        for path in Path(nbckpt.__file__).parent.rglob("*.py")
        if re.search(r"^ *Example:$", path.read_text(), re.M)
    ]
    assert modules == []


def test_a_name_without_an_example_is_found() -> None:
    assert not example_of(nbckpt.load_ipython_extension)
    assert not is_shown(nbckpt.Tracker, "only_in")
