"""Trial: one run of a trainable with one configuration, read from its journal."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbckpt.errors import CorruptError, FormatError, StoreError
from nbckpt.hook import Hook
from nbckpt.media.stored import StoredMedia
from nbckpt.render import Page, Rich, count
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model import annotation, journal, log, params
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.frame import pandas_for, with_media
from nbckpt.trials.model.journal import Damage, Event
from nbckpt.trials.model.metrics import is_number, lookup, numbers
from nbckpt.trials.model.state import Status as Status
from nbckpt.trials.model.state import TrialState

if TYPE_CHECKING:
    import pandas

    from nbckpt.core.checkpoint import Checkpoint

V = TypeVar("V")

MOST_LINES = 40
_NAME = re.compile("t[0-9]{1,18}")

STOPPED = "stopped"
"""The note of a trial that a user stopped; a cause may follow after a semicolon."""


class Trial(Rich):
    """One configuration's run, read from its journal. It is read-only; see docs/decisions/0073.

    Any thread may read it safely. It follows the trial: each attribute is as new as the last report.

    Args:
        folder: The trial's folder.
        config: Its configuration.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._id = folder.name
        self._state = TrialState(folder, dict(config))
        self._known: dict[Hashable, tuple[object, Any]] = {}

    @classmethod
    def read(cls, folder: Path) -> Trial:
        """Return the trial in *folder*, without writing anything.

        It never fails: `damage` names the part that cannot be read.
        """
        trial = cls(folder, {})
        _read(trial._state)
        return trial

    @property
    def id(self) -> str:
        """Its short name in the experiment, such as `t0`."""
        return self._id

    @property
    def folder(self) -> Path:
        """The folder that holds it."""
        return self._state.folder

    @property
    def config(self) -> dict[str, Any]:
        """A copy of its configuration.

        After a restart of the kernel, values that JSON cannot express are texts.
        """
        return dict(self._state.config)

    @property
    def status(self) -> Status:
        """Its status."""
        return self._state.status

    @property
    def metrics(self) -> dict[str, Any]:
        """A copy of the last result; empty before the first."""
        return dict(self._state.last_result)

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results so far, in order. A result that was repeated after a restore appears once."""
        return list(self._state.results)

    @property
    def media(self) -> list[StoredMedia]:
        """The media of the results so far, in order, such as images and tables."""
        return list(self._state.media)

    @property
    def loads(self) -> list[dict[str, float]]:
        """The newest samples of the machine's load, with `system_metrics=True`: see `nbckpt.run`.

        Each has the moment `at`, in seconds since 1970, and names such as `cpu_percent`.
        """
        return list(self._state.loads)

    @property
    def history(self) -> pandas.DataFrame:
        """The results so far as a pandas DataFrame, a row for each result, with its media as `StoredMedia`.

        Raises:
            UsageError: pandas is not installed.
        """
        return pandas_for("history").DataFrame(with_media(self.results, self.media))

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint; None before the first. Its values are loaded when they are first used.

        Raises:
            NotFoundError: The checkpoint is not on this machine.
            CorruptError: The checkpoint's record is damaged.
        """
        from nbckpt.core.checkpoint import Checkpoint

        name = self._state.checkpoint
        if name is None or self.checkpoints.read(name).kind == "null":
            return None
        return Checkpoint.from_directory(self.folder / name)

    @property
    def checkpoint_name(self) -> str | None:
        """The name of the newest checkpoint; None before the first."""
        return self._state.checkpoint

    @property
    def checkpoint_iteration(self) -> int:
        """The number of results that the newest checkpoint continues."""
        return self._state.checkpoint_iteration

    @property
    def error(self) -> str:
        """The message of the last failure; empty if there was none."""
        return self._state.error

    @property
    def traceback(self) -> str:
        """The traceback of the last failure."""
        return self._state.traceback

    @property
    def failures(self) -> int:
        """The number of failures."""
        return self._state.failures

    @property
    def attempts(self) -> int:
        """How often it was started."""
        return self._state.attempts

    @property
    def note(self) -> str:
        """A sentence about the trial, such as why it ended."""
        return self._state.note

    @property
    def damage(self) -> str:
        """A sentence about damage in its files.

        A trial whose configuration cannot be read is DAMAGED; in a damaged journal the other lines count.
        """
        return self._state.damage

    @property
    def origin(self) -> str:
        """Where the checkpoint that it first started from is from; empty if it started without one."""
        return self._state.origin

    @property
    def annotation(self) -> Annotation:
        """The note and the tags that a user gave it; see `%ckpt note` and `%ckpt tag`."""
        return annotation.read(self.folder)

    @property
    def stopped_early(self) -> bool:
        """Whether a user stopped it, or a search gave it up, before it was done."""
        return self._state.stopped_early

    @property
    def started_at(self) -> float | None:
        """When it first started, in seconds since 1970; None before that."""
        return self._state.started_at

    @property
    def ended_at(self) -> float | None:
        """When it last ended, in seconds since 1970; None while it runs."""
        return self._state.ended_at

    @property
    def iteration(self) -> int:
        """The number of results."""
        return self._state.iteration

    @property
    def elapsed_s(self) -> float:
        """How many seconds it has trained; repeated parts count once."""
        return self._state.elapsed_s

    @property
    def unsaved_results(self) -> int:
        """The number of results since the last checkpoint; a crash now would lose them."""
        return self._state.iteration - self._state.checkpoint_iteration

    @property
    def finished(self) -> bool:
        """Whether it is done, stopped or failed, or its configuration cannot be read."""
        return self._state.status in {Status.TERMINATED, Status.ERROR, Status.DAMAGED}

    @property
    def checkpoints(self) -> CheckpointFolder:
        """Its checkpoints."""
        return CheckpointFolder(self.folder)

    def metric(self, name: str) -> list[float]:
        """Return the numbers reported under *name*; `a/b` means b in the dict a. Omit other values."""
        values = (lookup(result, name) for result in self._state.results)
        return [value for value in values if isinstance(value, (int, float))]

    def page(self) -> Page:
        """See `Rich.page`. It shows more if the trial's experiment can be read."""
        return trial_page(self)

    def newest(self, name: str) -> float | None:
        """Return the last number reported under *name*. Each result is looked at once."""
        results = self._state.results
        of, (seen, before) = self._known.get(("newest", name), (None, (0, None)))
        if of is not results:
            seen, before = 0, None
        new = results[seen:]
        values = (lookup(result, name) for result in reversed(new))
        newest: float | None = next(filter(is_number, values), before)
        self._known["newest", name] = results, (seen + len(new), newest)
        return newest

    @property
    def metric_names(self) -> list[str]:
        """The names of the numbers that it reported, in the order in which they came first.

        Not every result has every name. Each result is looked at once.
        """
        results = self._state.results
        of, (seen, shapes, names) = self._known.get("names", (None, (0, set(), {})))
        if of is not results:
            seen, shapes, names = 0, set(), {}
        for result in results[seen:]:
            shape = *result, *map(type, result.values())
            if shape not in shapes or dict in shape:
                shapes.add(shape)
                names |= dict.fromkeys(numbers(result))
        self._known["names"] = results, (len(results), shapes, names)
        return list(names)

    def log(self, most_lines: int = MOST_LINES) -> list[str]:
        """Return the last lines of its output, as a terminal shows them, each with at most 200 characters."""
        return log.last_lines(self.folder, most_lines)

    def __repr__(self) -> str:
        return f"Trial({self.id}, {self.status}, {self.iteration} results)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder's path only: a copy would miss later changes."""
        return find_trial.function, (self.folder,)


def state_of(trial: Trial) -> TrialState:
    """Return the state that a trial shows, for the modules that change it or read it often."""
    return trial._state


def remember(trial: Trial, name: Hashable, of: object, make: Callable[[], V]) -> V:
    """Return the value of *make*, which is called again only if *of* is another object than before."""
    known = trial._known.get(name)
    if known is None or known[0] is not of:
        known = trial._known[name] = of, make()
    value: V = known[1]
    return value


def _bare_page(trial: Trial) -> Page:
    return Page(repr(trial), notes=(f"kept in {trial.folder}",))


find_trial: Hook[[Path], Trial] = Hook(Trial.read)
"""Returns the trial of a folder, for pickles. A module that knows experiments finds it in its experiment."""

trial_page: Hook[[Trial], Page] = Hook(_bare_page)
"""Returns the page that a notebook shows for a trial."""


def trial_names(folder: Path) -> list[str]:
    """Return the names of the trials in an experiment's folder, in the order in which they were made."""
    names: list[str] = []
    with suppress(FileNotFoundError):  # the experiment was removed just now
        names = [entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
    return sorted(names, key=lambda name: int(name[1:]))


def read_trials(folder: Path, known: Mapping[str, Trial]) -> list[Trial]:
    """Return the trials in an experiment's folder, in the order in which they were made.

    A *known* trial whose journal has not changed is not read again.
    """
    trials = []
    for name in trial_names(folder):
        trial, trial_folder = known.get(name), folder / name
        if trial is not None and not _has_changed(trial):
            trials.append(trial)
        elif (trial_folder / journal.FILE).exists() or (trial_folder / params.FILE).exists():
            trials.append(Trial.read(trial_folder))  # without both files it is still being made
    return trials


def _has_changed(trial: Trial) -> bool:
    """Return whether a trial's journal changed since it was read, is damaged, or was never read."""
    state, now = state_of(trial), journal.stamp(trial.folder / journal.FILE)
    return bool(state.damage) or state.read_at is None or state.read_at != now


def _read(state: TrialState) -> None:
    folder = state.folder
    for name in (journal.FILE, params.FILE):
        if link := link_outside(folder.parent, f"{folder.name}/{name}"):
            state.status, state.damage = Status.DAMAGED, f"{link} is not read: {OUTSIDE}"
            return
    file = folder / journal.FILE
    state.read_at = journal.stamp(file)  # before reading, so that a write during it is seen as a change
    try:
        damages = list(_fold(journal.read(file), state))
    except StoreError as error:
        damages = [str(error)]
    state.damage = _in_words(damages)
    try:
        state.config = params.read(folder)
    except (CorruptError, FormatError, StoreError) as error:
        state.status, state.damage = Status.DAMAGED, str(error)


def _fold(events: Iterable[Event | Damage], state: TrialState) -> Iterator[str]:
    """Take in the events of a journal. Yield a text for each damage."""
    for event in events:
        if isinstance(event, Damage):
            yield event.cause
        else:
            state.fold(event)


def _in_words(damages: Sequence[str]) -> str:
    """Return a sentence about the damages of a journal, or ""."""
    more = f", and {count(len(damages) - 1, 'more line')}" if len(damages) > 1 else ""
    return f"{damages[0]}{more}" if damages else ""
