"""Trial: one run of a trainable with one configuration, read from its journal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbckpt.hook import Hook
from nbckpt.media.stored import StoredMedia
from nbckpt.render import Page, Rich
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model import annotation, journal, log, reading
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.frame import pandas_for, with_media
from nbckpt.trials.model.metrics import is_number, lookup
from nbckpt.trials.model.state import Status as Status
from nbckpt.trials.model.state import TrialState

if TYPE_CHECKING:
    import pandas

    from nbckpt.core.checkpoint import Checkpoint

V = TypeVar("V")

MOST_LINES = 40

WAITS = "waits for "
"""The beginning of the note of a running trial that waits for resources."""
STOPPED = "stopped"
"""The note of a trial that a user stopped; a cause may follow after a semicolon."""


class Trial(Rich):
    """One configuration's run, read from its journal. It is read-only; see docs/decisions/0073.

    Any thread may read it safely. It follows the trial: each attribute is as new as the last report.

    Args:
        folder: The trial's folder.
        config: Its configuration.

    Examples:
        >>> with nbckpt.track("baseline", lr=0.1) as run:
        ...     print("it learns")
        ...     run.report(loss=0.5)
        it learns
        >>> run.trial.status, run.trial.config, run.trial.metric("loss")
        (<Status.TERMINATED: 'TERMINATED'>, {'lr': 0.1}, [0.5])
        >>> run.trial.newest("loss"), run.trial.log()
        (0.5, ['it learns'])
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
        reading.read_into(trial._state)
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
        """A copy of its configuration: that of now, if a scheduler has changed it.

        `params.json` keeps the one that it was made with. After a restart of the kernel, values that JSON
        cannot express are texts.
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
        """The results so far, in order. A result that was repeated after a restore appears once.

        They are read from the journal each time.

        Raises:
            StoreError: The journal cannot be read.
        """
        return [event["result"] for event in reading.results_in(self.folder)]

    @property
    def media(self) -> list[StoredMedia]:
        """The media of the results so far, in order, such as images and tables.

        Raises:
            StoreError: The journal cannot be read.
        """
        return reading.media_in(self.folder) if self._state.media else []

    @property
    def loads(self) -> list[dict[str, float]]:
        """The newest samples of the machine's load, with `system_metrics=True`: see `nbckpt.run`.

        Each has the moment `at`, in seconds since 1970, and names such as `cpu_percent`.
        """
        reading.complete(self._state)
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
        if self.error:
            reading.complete(self._state)
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
        stamp, known = journal.stamp(self.folder / annotation.FILE), self._state.annotated
        if known is None or known[0] != stamp:
            known = stamp, annotation.read(self.folder)
            self._state.annotated = None if known[1].damage else known
        return known[1]

    @property
    def rungs(self) -> dict[int, float | None]:
        """The metric that the scheduler compared at each rung, from 0; None if it was not a finite number.

        Empty if no scheduler compared it at a rung.
        """
        return dict(sorted(self._state.scheduling.rungs.items()))

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
        values = (lookup(event["result"], name) for event in reading.results_in(self.folder))
        return [value for value in values if isinstance(value, (int, float))]

    def page(self) -> Page:
        """See `Rich.page`. It shows more if the trial's experiment can be read."""
        return trial_page(self)

    def newest(self, name: str) -> float | None:
        """Return the last number reported under *name*."""
        if curve := self._state.condensed.curves.get(name):
            return curve.last
        value = lookup(self._state.last_result, name)
        return value if is_number(value) else None

    @property
    def metric_names(self) -> list[str]:
        """The names of the numbers that it reported, in the order in which they came first.

        Not every result has every name.
        """
        return list(self._state.condensed.curves)

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


def is_held(trial: Trial) -> bool:
    """Return whether the scheduler paused a trial and has not let it go on since."""
    return trial._state.scheduling.held and trial._state.status == Status.PAUSED


def rungs_of(trial: Trial) -> int:
    """Return how many rungs a trial has reached."""
    return max(trial._state.scheduling.rungs, default=-1) + 1


def trial_of(state: TrialState) -> Trial:
    """Return a trial that shows a state."""
    trial = Trial(state.folder, {})
    trial._state = state
    return trial


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
