"""W&B: `import nbckpt.compat.wandb as wandb` in place of `import wandb`, also for trackio's scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbckpt.compat.wandb.arguments import MEANINGS, NAMES, NOTHING_TO_DO, REFUSED
from nbckpt.compat.wandb.data import Html, Image, Table
from nbckpt.compat.wandb.runs import Run, Values, values_of
from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.track import track

__all__ = [
    "Html",
    "Image",
    "Run",
    "Table",
    "alert",
    "config",
    "define_metric",
    "finish",
    "init",
    "log",
    "login",
    "run",
    "save",
    "show",
    "summary",
    "watch",
]

_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_IN_CONFIG = ("name", "notes", "tags", "group", "job_type", "id")
opened_runs: list[Run] = []


def init(project: str | None = None, *, config: Any = None, **arguments: Any) -> Run:
    """Open a trial of the experiment *project*, and return it as W&B's run.

    Args:
        project: The project.
        config: The configuration: a dict, or an object with attributes such as argparse's.
        arguments: The other arguments of `wandb.init`; see docs/compat.md.

    Raises:
        UsageError: An argument does not exist or is refused. The message says what to use instead.
        NotFoundError: *resume* is `must`, and no trial can be continued. Nothing was made.
    """
    given, values = _checked(arguments), {} if config is None else values_of(config)
    former = (
        opened_runs[-1]
        if opened_runs and opened_runs[-1].trial is not None and opened_runs[-1].trial.is_open
        else None
    )
    if former is not None and given.get("reinit") == "return_previous":
        return former
    if former is not None and given.get("reinit") != "create_new":
        former.finish()
    name = _ALLOWED.sub("-", project or "uncategorized").lstrip(".-") or "uncategorized"
    values = {key: given[key] for key in _IN_CONFIG if given.get(key) is not None} | values
    resume = "must" if given.get("resume") == "must" else given.get("resume") not in {None, False, "never"}
    if given.get("mode") == "disabled":
        opened = Run(None, name, values)
    else:
        known = {"id": values["id"]} if resume and "id" in values else values
        trial = track(name, known, resume=resume, folder=given.get("dir"))
        trial.update_config({key: value for key, value in values.items() if key not in known})
        opened = Run(trial, name, dict(trial.config) | values)
    opened_runs[:] = [
        *(each for each in opened_runs if each.trial is not None and each.trial.is_open),
        opened,
    ]
    return opened


def _checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = MEANINGS.keys() | NOTHING_TO_DO.keys() | REFUSED.keys()
    for name, value in arguments.items():
        if name not in names:
            raise UsageError(f"init has no argument {name!r}. {suggestion(name, sorted(names))}")
        if name in REFUSED and value is not None and value is not False:
            raise UsageError(f"init does not take {name}={value!r} here: {REFUSED[name]}")
    return dict(arguments)


def _current(name: str) -> Run:
    if not opened_runs:
        raise UsageError(f"{name} needs an open run: call init(project='baseline') first")
    return opened_runs[-1]


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:  # noqa: FBT001  W&B's signature
    """Log values to the open run. See `Run.log`."""
    _current("log").log(data, step, commit)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:  # noqa: FBT001  W&B's signature
    """End the open run, if there is one. See `Run.finish`."""
    if opened_runs:
        opened_runs[-1].finish(exit_code, quiet)


def save(glob_str: str | None = None, base_path: str | None = None, policy: str = "live") -> list[str]:
    """Keep files with the open run. See `Run.save`."""
    return _current("save").save(glob_str, base_path, policy)


def watch(*models: Any, **options: Any) -> None:
    """Do nothing, and say so once."""
    _current("watch").watch(*models, **options)


def define_metric(*arguments: Any, **options: Any) -> None:
    """Do nothing. See `Run.define_metric`."""
    _current("define_metric").define_metric(*arguments, **options)


def alert(title: str = "", text: str = "", **options: Any) -> None:
    """Print an alert. See `Run.alert`."""
    _current("alert").alert(title, text, **options)


def login(*_: Any, **__: Any) -> bool:
    """Return True: there is no account."""
    return True


def show(*_: Any, **__: Any) -> Any:
    """Return the experiment of the last run, which a notebook shows as a table."""
    trial = _current("show").trial
    return None if trial is None else trial.experiment


run: Run | None
config: Values
summary: Values


def __getattr__(name: str) -> Any:
    if name == "run":
        return opened_runs[-1] if opened_runs else None
    if name in {"config", "summary"}:
        return getattr(_current(name), name)
    if name in NAMES:
        raise UsageError(f"{name} is not available in nbckpt.compat.wandb: {NAMES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
