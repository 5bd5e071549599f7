"""Run: an open trial by W&B's names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, MutableMapping
from glob import glob
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbckpt.compat.wandb.data import loggable
from nbckpt.errors import NotFoundError, TrialError, UsageError
from nbckpt.trials.engine.open_trial import OpenTrial
from nbckpt.trials.model.metrics import is_automatic


def values_of(given: Any) -> dict[str, Any]:
    """Return the values of a configuration: a dict, or an object with attributes.

    Raises:
        UsageError: It is neither; W&B reads a text as the path of a file in YAML.
    """
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "__dict__"):
        return dict(vars(given))
    raise UsageError(f"config={given!r} is not a dict: read the file first, and give its values")


class Values(MutableMapping[str, Any]):
    """Values by name, as items and as attributes: `config.lr` is `config["lr"]`."""

    def __init__(self, values: Mapping[str, Any], changed: Any) -> None:
        vars(self)["_values"] = dict(values)
        vars(self)["_changed"] = changed

    def __getitem__(self, name: str) -> Any:
        return vars(self)["_values"][name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        raise UsageError(f"{name!r} was kept already, and is not removed")

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self)["_values"])

    def __len__(self) -> int:
        return len(vars(self)["_values"])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"there is no value {name!r}: there are {', '.join(self) or 'none'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *given: Any, allow_val_change: bool = False, **values: Any) -> None:
        """Set several values: those of a dict or of an object with attributes, such as argparse's.

        Raises:
            UsageError: It is neither.
        """
        del allow_val_change
        new = dict(values)
        for each in given:
            new = values_of(each) | new
        vars(self)["_values"].update(new)
        vars(self)["_changed"](new)

    def setdefaults(self, values: Mapping[str, Any]) -> None:
        """Set the values that are not set yet."""
        self.update({name: value for name, value in values.items() if name not in self})

    def as_dict(self) -> dict[str, Any]:
        """Return a copy as a dict."""
        return dict(vars(self)["_values"])

    def __repr__(self) -> str:
        return repr(self.as_dict())


class Run:
    """An open trial, or nothing if W&B's mode is `disabled`.

    Attributes:
        config: The configuration; a new value is kept at once.
        summary: The last value of each metric; a value that is set is reported with the next result.
    """

    def __init__(self, trial: OpenTrial | None, project: str, config: Mapping[str, Any]) -> None:
        self.trial = trial
        self.project = project
        self.config = Values(config, self._reconfigure)
        self.summary = Values({}, self._summarize)
        self._pending: dict[str, Any] = {}
        self._set: dict[str, Any] = {}
        self._step: int | None = None

    @property
    def id(self) -> str:
        """The id that was given, else the trial's short name."""
        return str(self.config.get("id") or (self.trial.trial_id if self.trial else "disabled"))

    @property
    def name(self) -> str:
        """The name that was given, else the trial's short name."""
        return str(self.config.get("name") or self.id)

    @name.setter
    def name(self, name: str) -> None:
        self.config["name"] = name

    @property
    def step(self) -> int:
        """The step of the next result."""
        if self._step is not None:
            return self._step
        return self.trial.iteration if self.trial else 0

    @property
    def dir(self) -> str:
        """The trial's folder."""
        return self.trial.logdir if self.trial else "."

    @property
    def resumed(self) -> bool:
        """Whether the trial continues."""
        return self.trial is not None and self.trial.trial.attempts > 1

    @property
    def url(self) -> None:
        """None: there is no server."""
        return

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:  # noqa: FBT001  W&B's signature
        """Log values. They become one result of the trial, together with others of the same step.

        Args:
            data: The values by name.
            step: The step; a new one ends the result of the one before.
            commit: Whether the result ends with this call; by default yes without a step, and no with one.

        A name of nbckpt's own counts, such as `done` or `timestamp`, is kept as `wandb/done`, and a line says
        so once.

        Raises:
            UsageError: *data* is not a dict, or the step is below the last one.
        """
        if not isinstance(data, Mapping):
            raise UsageError(f"log({data!r}) has no name for it: write log({{'loss': {data!r}}})")
        if step is not None and step != self._step:
            if self._step is not None and step < self._step:
                raise UsageError(f"step {step} is over: the last one was {self._step}. Log steps in order")
            self.flush()
            self._step = step
        self._pending |= loggable(data)
        vars(self.summary)["_values"].update(data)
        if (step is None) if commit is None else commit:
            self.flush()

    def flush(self) -> None:
        """Report what was logged and is not reported yet."""
        values, self._pending, new, self._set = self._pending, {}, self._set, {}
        step, self._step = self._step, None
        if self.trial is None or not (values or new):
            return
        self.trial.report(_renamed(new | values) | ({} if step is None else {"step": step}))

    def save(
        self, glob_str: str | None = None, base_path: str | None = None, policy: str = "live"
    ) -> list[str]:
        """Copy the files that match a pattern into the trial's folder `files`, which is synced with it.

        Raises:
            NotFoundError: No file matches.
        """
        del policy
        if glob_str is None or self.trial is None:
            return []
        paths = [Path(name).absolute() for name in sorted(glob(str(glob_str)))]  # noqa: PTH207  an absolute pattern
        files = [path for path in paths if path.is_file()]
        if not files:
            raise NotFoundError(f"no file matches {str(glob_str)!r}: write it before you save it")
        base = Path(base_path).absolute() if base_path else None
        copies = []
        for path in files:
            is_below = base is not None and path.is_relative_to(base)
            inner = path.relative_to(base) if base is not None and is_below else Path(path.name)
            copy = Path(self.trial.logdir, "files", inner)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
            copies.append(str(copy))
        return copies

    def watch(self, *_: Any, **__: Any) -> None:
        """Do nothing, and say so once."""
        say_once("watch", "watch() keeps nothing here: log the norms of gradients as metrics")

    def unwatch(self, *_: Any) -> None:
        """Do nothing: nothing is watched."""

    def define_metric(self, *_: Any, **__: Any) -> None:
        """Do nothing: `%ckpt plot --x step` and the mode of `best` are chosen when they are used."""

    def alert(self, title: str = "", text: str = "", **_: Any) -> None:
        """Print the alert. It is in the trial's log."""
        print(f"{title}: {text}")  # noqa: T201  as a user's script prints

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:  # noqa: FBT001  W&B's signature
        """End the trial: as done, or as failed if the exit code is not 0."""
        del quiet
        if self.trial is not None and self.trial.is_open:
            self.flush()
            self.trial.close(TrialError(f"exit code {exit_code}") if exit_code else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the trial: as done, as failed after an error, or as paused after Ctrl-C."""
        if self.trial is not None and self.trial.is_open:
            self.flush()
            self.trial.end_after(error)

    def _reconfigure(self, values: Mapping[str, Any]) -> None:
        if self.trial is not None:
            self.trial.update_config(values)

    def _summarize(self, values: Mapping[str, Any]) -> None:
        self._set |= values

    def __repr__(self) -> str:
        return f"Run({self.trial!r})" if self.trial else "Run(disabled)"


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without the names of nbckpt's own counts: it would overwrite them, or end the trial."""
    renamed = {}
    for name, value in values.items():
        is_taken = is_automatic(str(name))
        if is_taken:
            say_once(name, f"{name!r} is a name of nbckpt's own: what you log is kept as 'wandb/{name}'")
        renamed[f"wandb/{name}" if is_taken else name] = value
    return renamed


said: set[str] = set()


def say_once(name: str, text: str) -> None:
    """Print a line once in a process."""
    if name not in said:
        said.add(name)
        print(f"nbckpt: {text}")  # noqa: T201  as W&B does
