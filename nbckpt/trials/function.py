"""Functions as trainables: a function runs in its own thread, one report at a time.

The function's thread and the driver's take turns. The function runs up to its next report and waits
there; the driver looks at the result, saves what there is to save, and asks for the next. So a trial
can be paused, stopped, saved and restored between any two reports. A driver that gives a callback
instead is called by the function's thread, which spares two switches of threads for each report.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from types import GeneratorType
from typing import Any, ClassVar, Literal

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, TrialError, UsageError
from nbckpt.trials.checkpoints import CheckpointFolder, Record, find, name_of
from nbckpt.trials.session import CheckpointLike, StopTrial, current
from nbckpt.trials.trainable import (
    DONE,
    DUPLICATE,
    PLAIN,
    SHOULD_CHECKPOINT,
    TIME_THIS_ITER,
    Trainable,
    all_plain,
    failure,
)

DEFAULT_METRIC = "_metric"
"""The metric that a number is, which the function returns or yields."""

STOP_TIMEOUT_S = 10.0
"""How long `stop` waits for the function's `finally` blocks."""

_log = logging.getLogger("nbckpt")

Function = Callable[..., Any]
Style = Literal["checkpoint_dir", "plain", "reporter"]


class Handoff:
    """Two threads taking turns: the function's up to its next item, the driver's up to its next ask.

    Each waits in a lock that the other releases: nothing is polled, and a turn costs two switches of
    threads.
    """

    def __init__(self) -> None:
        self._asked, self._ready = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._ready.acquire()
        self._one_at_a_time = threading.Lock()  # threads of the function may report too
        self._item: tuple[str, Any] = ("end", None)
        self._pending = False
        self.ended = False

    def begin(self) -> bool:
        """Wait for the first ask; tell whether there is anything to do. For the function's thread."""
        self._asked.acquire()
        return not self.ended

    def give(self, kind: str, value: Any) -> None:
        """Hand over an item and wait for the next ask.

        Raises:
            StopTrial: There will be none.
        """
        with self._one_at_a_time:
            if not self.ended:
                self._item = (kind, value)
                self._hand_over()
            if self.ended:
                raise StopTrial

    def close(self, kind: str, value: Any) -> None:
        """Hand over the last item."""
        with self._one_at_a_time:
            if not self.ended:
                self.ended = True
                self._item = (kind, value)
                self._hand_over()

    def _hand_over(self) -> None:
        """Let the driver's thread take the item; return when it asks for another one, if it can."""
        last = self.ended
        self._ready.release()
        if not last:
            self._asked.acquire()

    def ask(self) -> tuple[str, Any]:
        """Let the function go on, and return its next item. For the driver's thread.

        An interrupted wait loses nothing: the next ask gets what came meanwhile.
        """
        if not self._pending:
            self._pending = True
            self._asked.release()
        self._ready.acquire()
        self._pending = False
        return self._item

    def end(self) -> None:
        """Let the function's thread go, wherever it waits; its next report raises."""
        self.ended = True
        if self._asked.locked():
            self._asked.release()


class InlineHandoff(Handoff):
    """No turns to take: whoever hands over an item calls the driver.

    Args:
        take: Makes the driver take the item; tells whether the function is to go on.

    Attributes:
        over: Set when nothing will be handed over any more.
        error: What taking an item raised, which ends the function too.
    """

    def __init__(self, take: Callable[[], bool]) -> None:
        super().__init__()
        self.over = threading.Event()
        self.error: BaseException | None = None
        self._take = take
        self._went_on_at = time.perf_counter()

    def begin(self) -> bool:
        """See `Handoff.begin`."""
        return not self.ended

    def _hand_over(self) -> None:
        kind, value = self._item
        if kind == "result":
            value.setdefault(TIME_THIS_ITER, time.perf_counter() - self._went_on_at)
        try:
            goes_on = self._take()
        except BaseException as error:  # noqa: BLE001  it is the driver's, and the function must not meet it
            self.error, goes_on = error, False
        if self.ended or not goes_on:
            self.end()
        self._went_on_at = time.perf_counter()

    def ask(self) -> tuple[str, Any]:
        """See `Handoff.ask`."""
        return self._item

    def end(self) -> None:
        """See `Handoff.end`."""
        self.ended = True
        self.over.set()


@dataclass
class _Offered:
    """A checkpoint that a function reported, and what it stands for.

    Attributes:
        source: What was reported.
        staged: Whether it is a folder of ours, which can be moved instead of copied.
        name: The name that it is to have, if the function chose one.
        record: The counts when it was reported.
    """

    source: Checkpoint | Path
    staged: bool = False
    name: str | None = None
    record: Record | None = None


class StatusReporter:
    """How a function talks to its driver: `reporter(loss=0.1)` reports a result.

    The functions `nbckpt.report`, `get_checkpoint` and `checkpoint_dir` go through it.
    """

    def __init__(
        self,
        checkpoints: CheckpointFolder,
        *,
        trial_name: str = "",
        trial_id: str = "",
        handoff: Handoff | None = None,
    ) -> None:
        self.trial_name = trial_name
        self.trial_id = trial_id
        self._checkpoints = checkpoints
        self._handoff = handoff
        self._offered: _Offered | None = None
        self._fresh = False
        self._restored: tuple[CheckpointFolder, Record] | None = None
        self._staged: dict[Path, tuple[str, Path]] = {}

    @property
    def logdir(self) -> str:
        """The trial's folder."""
        return str(self._checkpoints.folder)

    def __call__(self, **metrics: Any) -> None:
        """Report a result, and return when the driver asks for the next.

        Raises:
            UsageError: The function was not started by a runner.
            StopTrial: The trial was stopped: let it pass.
        """
        self.report(metrics, None)

    def report(self, metrics: dict[str, Any], checkpoint: CheckpointLike | None) -> None:
        """See `nbckpt.report`."""
        if self._handoff is None:
            raise UsageError("this reporter reports to nobody: let nbckpt.run start the function")
        if checkpoint is not None:
            self.set_checkpoint(checkpoint)
        self._handoff.give("result", _snapshot(metrics))

    def make_checkpoint_dir(self, step: int) -> str:
        """Return a new empty folder for the checkpoint of *step*, to be given to `set_checkpoint`.

        Nothing has the checkpoint's name before it is saved, so an exception in between leaves nothing
        that could be taken for one.
        """
        place = self._checkpoints.stage()
        self._staged[place] = (name_of(step), place)
        return str(place)

    @contextmanager
    def checkpoint_dir(self, step: int) -> Iterator[Path]:
        """See `nbckpt.checkpoint_dir`."""
        place = Path(self.make_checkpoint_dir(step))
        try:
            yield place
        except BaseException:
            self._staged.pop(place, None)
            shutil.rmtree(place, ignore_errors=True)
            raise
        self.set_checkpoint(place)

    def set_checkpoint(self, checkpoint: CheckpointLike, *, is_new: bool = True) -> None:
        """Offer a checkpoint, which is saved with the next result.

        Args:
            checkpoint: A dict, a Checkpoint, or the path of a folder or a file.
            is_new: Whether it is still to be saved.

        Raises:
            NotFoundError: There is nothing at the path.
        """
        if isinstance(checkpoint, Checkpoint):
            offered = _Offered(checkpoint)
        elif isinstance(checkpoint, Mapping):
            offered = _Offered(Checkpoint.from_dict(checkpoint))
        else:
            offered = self._at(Path(checkpoint).absolute())
        former, self._offered, self._fresh = self._offered, offered, is_new
        if former is not None and former.staged and former.source != offered.source:
            shutil.rmtree(former.source, ignore_errors=True)

    def _at(self, place: Path) -> _Offered:
        if not place.exists():
            raise NotFoundError(f"there is no checkpoint at {str(place)!r}: write it before you report it")
        for stage, (name, _) in self._staged.items():
            if place == stage or stage in place.parents:
                self._staged.pop(stage)
                inner = "" if place == stage else place.relative_to(stage).as_posix()
                return _Offered(stage, staged=True, name=name, record=Record(name, "files", 0, inner=inner))
        return _Offered(place)

    def has_new_checkpoint(self) -> bool:
        """Tell whether a checkpoint was offered that is not saved yet."""
        return self._fresh

    def get_checkpoint(self) -> Checkpoint | Path | None:
        """Return what was offered last, or what the trial was restored from; asking changes nothing."""
        return self._offered.source if self._offered is not None else self._restored_path()

    def latest(self) -> Checkpoint | None:
        """See `nbckpt.get_checkpoint`."""
        if self._offered is not None:
            source = self._offered.source
            return source if isinstance(source, Checkpoint) else Checkpoint.from_directory(source)
        if self._restored is None:
            return None
        folder, record = self._restored
        return Checkpoint.from_directory(folder.folder / record.name)

    def _restored_path(self) -> Path | None:
        return self._restored[0].path(self._restored[1]) if self._restored else None

    # For the runner.

    def report_to(self, handoff: Handoff) -> None:
        """Report to another driver."""
        self._handoff = handoff

    def go_on_from(self, folder: CheckpointFolder, record: Record) -> None:
        """Begin from a saved checkpoint; from nothing, where it is a null one."""
        self._offered, self._fresh = None, False
        self._restored = None if record.kind == "null" else (folder, record)

    def note(self, counts: Record) -> None:
        """Keep the counts of the result with which a checkpoint was offered."""
        if self._offered is not None and self._fresh:
            inner = self._offered.record.inner if self._offered.record else ""
            self._offered.record = replace(counts, name=self._offered.name or counts.name, inner=inner)

    def saved(self, folder: CheckpointFolder, record: Record) -> None:
        """Take note that what was offered is saved."""
        self.go_on_from(folder, record)

    def drop_staged(self) -> None:
        """Remove the folders that were never offered, or offered and never saved."""
        staged = list(self._staged)
        if self._offered is not None and self._offered.staged:
            staged.append(self._offered.source)  # type: ignore[arg-type]  # staged ones are paths
        for place in staged:
            shutil.rmtree(place, ignore_errors=True)
        self._staged.clear()


class FunctionRunner(Trainable):
    """Drives a function as a trainable; `wrap_function` makes the class for one."""

    _function: ClassVar[Function]
    _style: ClassVar[Style]

    def setup(self, config: dict[str, Any]) -> None:
        """See `Trainable.setup`: nothing runs yet."""
        del config
        self._thread: threading.Thread | None = None
        self._handoff = Handoff()
        self._error: BaseException | None = None
        self._reporter = self._new_reporter(self._handoff)

    def _new_reporter(self, handoff: Handoff) -> StatusReporter:
        return StatusReporter(
            self._checkpoints, trial_name=self.trial_name, trial_id=self.trial_id, handoff=handoff
        )

    @classmethod
    def tells_when_to_save(cls) -> bool:
        """A function reports its checkpoints itself."""
        return True

    def step(self) -> dict[str, Any]:
        """Let the function run up to its next report, and return that.

        After its end it is the last result once more, with `done` and `__duplicate__`.
        """
        if self._thread is None and not isinstance(self._handoff, InlineHandoff):
            self._start_thread()
        kind, value = self._handoff.ask()
        if kind == "error":
            self._error = value
            raise failure(value) from value
        result: dict[str, Any] = value if kind == "result" else {**self._last, DONE: True, DUPLICATE: True}
        result.pop(SHOULD_CHECKPOINT, None)
        if self._reporter.has_new_checkpoint():
            result[SHOULD_CHECKPOINT] = True
        return result

    def train(self) -> dict[str, Any]:
        """See `Trainable.train`."""
        result = super().train()
        if SHOULD_CHECKPOINT in result:
            self._reporter.note(self._record(None, "files"))
        return result

    def run_inline(self, handle: Callable[[dict[str, Any]], bool], *, in_thread: bool = False) -> None:
        """Run the function to its end; every report is a call of *handle*, in the caller's context.

        Args:
            handle: Given each result, tells whether the function is to go on.
            in_thread: Run both in a thread of the function's own, and return when there will be no more
                results, while the function may still be ending.

        Raises:
            TrialError: The function failed, as in `train`; or it is what *handle* raised.
        """
        context = copy_context()
        self._handoff = handoff = InlineHandoff(lambda: context.run(self._take, handle))
        self._reporter.report_to(handoff)
        if in_thread:
            self._start_thread()
            handoff.over.wait()
        else:
            copy_context().run(self._run)
        if handoff.error is not None:
            raise handoff.error

    def _take(self, handle: Callable[[dict[str, Any]], bool]) -> bool:
        result = self.train()
        return handle(result) and not result.get(DONE)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="nbckpt-function", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        """Run the function to its end, in its own thread."""
        handoff = self._handoff
        if not handoff.begin():
            return
        try:
            self._call(self._reporter)
        except StopTrial:
            handoff.close("end", None)
        except StopIteration:
            handoff.close("end", None)
        except BaseException as error:  # noqa: BLE001  whatever ends the function is the trial's error
            if handoff.ended:
                _log.warning("%s: %r was raised while the trial was stopped", self.trial_name, error)
            handoff.close("error", error)
        else:
            handoff.close("end", None)

    def _call(self, reporter: StatusReporter) -> None:
        """Call the function in the session of *reporter*, and report what it returns or yields."""
        token = current.set(reporter)
        try:
            returned = _called(type(self)._function, type(self)._style, self.config, reporter)
            if inspect.iscoroutine(returned):
                returned = asyncio.run(returned)
            if isinstance(returned, GeneratorType):
                try:
                    for item in returned:
                        reporter.report(_metrics(item), None)
                finally:
                    returned.close()
            elif returned is not None:
                reporter.report(_metrics(returned), None)
        finally:
            current.reset(token)

    def save(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> str:
        """Save the checkpoint that the function reported last, with the counts of that moment.

        Where it reported none, the checkpoint is a null one, from which everything starts anew; it is
        a path that names a record and has no folder. Saving twice gives the same path twice.

        Raises:
            UsageError: A folder was given: the function chooses what it saves.
        """
        if checkpoint_dir is not None:
            raise UsageError("a function's checkpoints have their own folders: call save() without one")
        return super().save()

    def _commit(self, name: str | None) -> Record:
        offered = self._reporter._offered
        if offered is None:
            return self._commit_restored()
        record = offered.record or self._record(name, "files")
        record = replace(record, name=offered.name or record.name)
        record = _save_offered(self._checkpoints, offered, record)
        self._reporter.saved(self._checkpoints, record)
        return record

    def _commit_restored(self) -> Record:
        """Return the checkpoint that the function went on from, as one of this trial's, or a null one."""
        restored = self._reporter._restored
        if restored is None:
            name = f"checkpoint_null_{uuid.uuid4().hex[:8]}"
            return self._checkpoints.commit(None, Record(name, "null", 0))
        folder, record = restored
        if folder.folder == self._checkpoints.folder and not record.temporary:
            return record
        stage = self._checkpoints.stage()
        try:
            shutil.copytree(folder.folder / record.name, stage, dirs_exist_ok=True)
            record = replace(record, name=name_of(record.iteration), temporary=False)
            return self._checkpoints.commit(stage, record)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def save_to_object(self) -> bytes:
        """See `Trainable.save_to_object`."""
        record = self._commit(None)
        packed = self._checkpoints.pack(record)
        if record.kind == "null":
            self._checkpoints.delete(record)
        return packed

    def _load(self, folder: CheckpointFolder, record: Record) -> None:
        if self._thread is not None:
            self._end_thread()
            self._handoff, self._thread = Handoff(), None
            self._reporter = self._new_reporter(self._handoff)
        self._reporter.go_on_from(folder, record)

    def cleanup(self) -> None:
        """End the function: its next report raises, its `finally` blocks run, and its thread is joined."""
        self._end_thread()
        self._reporter.drop_staged()

    def _end_thread(self) -> None:
        self._handoff.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                _log.warning(
                    "%s was asked to stop and still runs: a thread cannot be stopped before its next report",
                    self.trial_name,
                )


def wrap_function(function: Function) -> type[FunctionRunner]:
    """Return a Trainable class that runs *function*.

    Args:
        function: `f(config)`, `f(config, checkpoint_dir=None)`, which is given the path of the
            checkpoint to go on from, or `f(config, reporter)`. It reports with `nbckpt.report`, or
            yields or returns a number or a dict.

    Raises:
        UsageError: It takes other arguments; the message names them.
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    mixins = tuple(getattr(function, "__mixins__", ()))
    return type(
        name,
        (*mixins, FunctionRunner),
        {"_function": staticmethod(function), "_style": _style_of(function), "__module__": __name__},
    )


def _style_of(function: Function) -> Style:
    if not callable(function):
        raise UsageError(f"{function!r} is no function: give one that takes a config")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        raise UsageError(
            f"{function!r} does not tell what it takes: wrap it as `def train(config): …`"
        ) from None
    styles: tuple[tuple[Style, dict[str, Any]], ...] = (
        ("checkpoint_dir", {"checkpoint_dir": None}),
        ("plain", {}),
        ("reporter", {"reporter": None}),
    )
    for style, given in styles:
        if _takes(signature, given) and (
            style != "checkpoint_dir" or "checkpoint_dir" in signature.parameters
        ):
            return style
    names = ", ".join(signature.parameters) or "nothing"
    raise UsageError(
        f"{getattr(function, '__name__', function)!s} takes ({names}): a trial's function takes (config), "
        "(config, checkpoint_dir=None) or (config, reporter)"
    )


def _takes(signature: inspect.Signature, given: dict[str, Any]) -> bool:
    try:
        signature.bind({}, **given)
    except TypeError:
        return False
    return True


def _called(function: Function, style: Style, config: dict[str, Any], reporter: StatusReporter) -> Any:
    if style == "plain":
        return function(config)
    if style == "reporter":
        return function(config, reporter=reporter)
    place = reporter._restored_path()
    return function(config, checkpoint_dir=None if place is None else str(place))


def _metrics(returned: Any) -> dict[str, Any]:
    """Return what a function returned or yielded as metrics."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if isinstance(returned, (int, float)) or hasattr(returned, "__float__"):
        return {DEFAULT_METRIC: returned}
    raise TrialError(
        f"a trial's function returns or yields a number, a dict of metrics or nothing, "
        f"not {type(returned).__name__}"
    )


def _snapshot(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a result that later changes do not reach."""
    if all_plain(metrics):
        return metrics  # a new dict already, as the caller made it
    return {key: value if type(value) in PLAIN else copy.deepcopy(value) for key, value in metrics.items()}


def _save_offered(checkpoints: CheckpointFolder, offered: _Offered, record: Record) -> Record:
    """Commit what a function offered, in its trial's folder."""
    if offered.staged:
        return checkpoints.commit(Path(offered.source), record)
    stage = checkpoints.stage()
    try:
        if isinstance(offered.source, Checkpoint):
            offered.source.to_directory(stage, overwrite=True)
            kind: Any = "fields" if offered.source._tree.manifest.values else "files"
            return checkpoints.commit(stage, replace(record, kind=kind))
        if offered.source.is_dir():
            shutil.copytree(offered.source, stage, dirs_exist_ok=True)
            return checkpoints.commit(stage, record)
        shutil.copy2(offered.source, stage)
        return checkpoints.commit(stage, replace(record, inner=offered.source.name))
    finally:
        shutil.rmtree(stage, ignore_errors=True)


__all__ = ["FunctionRunner", "StatusReporter", "find", "wrap_function"]
