"""Functions as trainables: a function runs in its own thread, one report at a time.

The function runs up to its next report and waits there, while its driver looks at the result and saves
what there is to save. So a trial can be paused, stopped, saved and restored between any two reports.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import copy_context
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any, ClassVar, Literal

from nbckpt.errors import TrialError, UsageError
from nbckpt.state import registry
from nbckpt.state.snapshot import CheckpointSource, snapshots
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.metrics import DONE, SHOULD_CHECKPOINT
from nbckpt.trials.training.handoff import Handoff, InlineHandoff, Result
from nbckpt.trials.training.reporter import CheckpointStager, StatusReporter
from nbckpt.trials.training.request import Request
from nbckpt.trials.training.session import StopTrial, current
from nbckpt.trials.training.trainable import DUPLICATE, UNANSWERED, Trainable, failure, own_config

DEFAULT_METRIC = "_metric"
"""The metric that a number is, which the function returns or yields."""

STOP_TIMEOUT_S = 10.0
"""How long `stop` waits for the function's `finally` blocks."""

_log = logging.getLogger("nbckpt")

Function = Callable[..., Any]
Style = Literal["checkpoint_dir", "plain", "reporter"]


class FunctionRunner(Trainable):
    """Drives a function as a trainable; `wrap_function` makes the class for one.

    The function ends well when it returns, and when it raises `StopIteration`. Whatever else it raises,
    `SystemExit` and `KeyboardInterrupt` too, is the cause of the `TrialError` that `train` raises then,
    after all results. A function that is stopped meets `StopTrial` in its next report.
    """

    _function: ClassVar[Function]
    _style: ClassVar[Style]
    _states_every: ClassVar[int] = 0

    def setup(self, config: dict[str, Any]) -> None:
        """See `Trainable.setup`: nothing runs yet."""
        del config
        self._stager = CheckpointStager(self._checkpoints)
        self.request = Request()
        self._rewind()

    def _rewind(self) -> None:
        """Be ready to run the function from its beginning."""
        self._thread: threading.Thread | None = None
        self._handoff = Handoff()

    @classmethod
    def tells_when_to_save(cls) -> bool:
        """A function reports its checkpoints itself."""
        return True

    def step(self) -> Result:
        """Let the function run up to its next report, and return that.

        After its end it is the last result once more, with `done` and `__duplicate__`.
        """
        handoff = self._handoff
        if self._thread is None and not handoff.ended and not isinstance(handoff, InlineHandoff):
            self._start_thread()
        result = handoff.ask()
        if result is None:
            if handoff.error is not None:
                raise failure(handoff.error) from handoff.error
            result = {**self._last, DONE: True, DUPLICATE: True}
        result.pop(SHOULD_CHECKPOINT, None)
        return result

    def train(self) -> Result:
        """See `Trainable.train`; `should_checkpoint` tells that the function offered a checkpoint to save.

        `__in_vain__` tells that it was asked for one and offered none.
        """
        result = super().train()
        pending = self._stager.newest
        if pending is not None and pending.is_new:
            pending.counts = pending.counts or self._record(None, "files")
            result[SHOULD_CHECKPOINT] = True
        if self.request.unanswered:
            self.request.unanswered = False
            result[UNANSWERED] = True
        return result

    def ask_for_checkpoint(self) -> None:
        """See `Trainable.ask_for_checkpoint`: the function is told where it looks."""
        self.request.ask()

    def run_inline(self, handle: Callable[[Result], bool], *, in_thread: bool = False) -> None:
        """Run the function to its end; every report is a call of *handle*, in the caller's context.

        Args:
            handle: Given each result, tells whether the function is to go on.
            in_thread: Run both in a thread of the function's own, and return when there will be no more
                results, while the function may still be ending.

        Raises:
            TrialError: The function failed, as in `train`; or it is what *handle* raised.
        """
        context = copy_context()
        self._handoff = handoff = InlineHandoff(partial(context.run, self._take, handle))
        if in_thread:
            self._start_thread()
            handoff.over.wait()
        else:
            copy_context().run(self._run)
        if handoff.raised is not None:
            raise handoff.raised

    def _take(self, handle: Callable[[Result], bool]) -> bool:
        result = self.train()
        return handle(result) and not result.get(DONE)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="nbckpt-function", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        """Run the function to its end, in its own thread."""
        if self._handoff.ended:
            return
        handoff = self._handoff
        names = {"trial_name": self.trial_name, "trial_id": self.trial_id, "logdir": self.logdir}
        states = self._states if type(self)._states_every else None
        reporter = StatusReporter(self._stager, handoff, states, self.request, **names)
        current.set(reporter)  # the context is a copy, which ends with the function
        registry.current.set(registry.Registry(origin=CheckpointSource(reporter.latest)))
        try:
            _call(type(self)._function, type(self)._style, own_config(self.config), reporter)
        except (StopTrial, StopIteration):  # see docs/decisions/0017
            handoff.close()
        except BaseException as error:  # noqa: BLE001  whatever ends the function is the trial's error
            if handoff.ended:
                _log.warning("%s: %r was raised while the trial was stopped", self.trial_name, error)
            handoff.close(error)
        else:
            handoff.close()

    def _states(self) -> Mapping[str, Any] | None:
        """Return the function's states, where they are to be saved with the report that is being made."""
        is_due = (self.iteration + 1) % type(self)._states_every == 0
        return (snapshots() or None) if is_due else None

    def save(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> str:
        """Save the checkpoint that the function reported last, with the counts of that moment.

        What is saved already is not saved twice. Where the function reported none, the checkpoint is a
        null one, from which everything starts anew; it is a path that names a record and has no folder.

        Raises:
            UsageError: A folder was given: the function chooses what it saves.
        """
        if checkpoint_dir is not None:
            raise UsageError("a function's checkpoints have their own folders: call save() without one")
        return super().save()

    def _commit(self, name: str | None) -> Record:
        return self._stager.save(self._record(name, "files"))

    def save_to_object(self) -> bytes:
        """See `Trainable.save_to_object`: it is what `save` would save, and nothing changes."""
        return self._stager.pack(self._record(None, "files"))

    def _load(self, folder: CheckpointFolder, record: Record) -> None:
        self._end_thread()
        with self._handoff.turn:  # as in cleanup
            self._stager.go_on_from(folder, record)
        self._rewind()

    def cleanup(self) -> None:
        """End the function: its next report raises, its `finally` blocks run, and its thread is joined."""
        self._end_thread()
        with self._handoff.turn:  # a thread that the function started may be offering a checkpoint
            self._stager.drop()

    def _end_thread(self) -> None:
        self._handoff.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                _log.warning(
                    "%s was asked to stop and still runs: a thread cannot be stopped before its next report",
                    self.trial_name,
                )


def wrap_function(function: Function, *, states_every: int = 0) -> type[FunctionRunner]:
    """Return a Trainable class that runs *function*.

    Args:
        function: `f(config)`, `f(config, checkpoint_dir=None)`, which is given the path of the
            checkpoint to go on from, or `f(config, reporter)`. It reports with `nbckpt.report`, or
            yields or returns a number or a dict.
        states_every: With every so manieth report that has no checkpoint of its own, save the states
            that the function has made; 0 for never.

    Raises:
        UsageError: It takes other arguments; the message names them.
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    mixins = tuple(getattr(function, "__mixins__", ()))
    return type(
        name,
        (*mixins, FunctionRunner),
        {
            "_function": staticmethod(function),
            "_style": _style_of(function),
            "_states_every": states_every,
            "__module__": __name__,
        },
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
    named: tuple[Style, ...] = ("checkpoint_dir", "reporter")
    for style in named:
        if style in signature.parameters and _takes(signature, {style: None}):
            return style
    if _takes(signature, {}):
        return "plain"
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


def _call(function: Function, style: Style, config: dict[str, Any], reporter: StatusReporter) -> None:
    """Call a function, and report what it returns or yields."""
    if style == "plain":
        returned = function(config)
    elif style == "reporter":
        returned = function(config, reporter=reporter)
    else:
        place = reporter.get_checkpoint()
        returned = function(config, checkpoint_dir=None if place is None else str(place))
    if isinstance(returned, AsyncGeneratorType):
        returned = _report_each(returned, reporter)
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


async def _report_each(items: AsyncIterator[Any], reporter: StatusReporter) -> None:
    async for item in items:
        reporter.report(_metrics(item), None)


def _metrics(returned: Any) -> Result:
    """Return what a function returned or yielded as metrics."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if isinstance(returned, (int, float)) or hasattr(returned, "__float__"):
        return {DEFAULT_METRIC: returned}
    raise TrialError(
        f"a trial's function returns or yields a number, a dict of metrics or nothing, "
        f"not {type(returned).__name__}"
    )


def trainable_class(given: Any, states_every: int = 0) -> type[Trainable]:
    """Return the class that runs what a user gave: a function, or a Trainable class.

    Args:
        given: What the user gave.
        states_every: How often a function's states are saved, see `wrap_function`.

    Raises:
        UsageError: It is neither, or the function takes other arguments than a trial's.
    """
    if isinstance(given, type):
        if issubclass(given, Trainable):
            return given
        raise UsageError(f"{given.__name__} is no Trainable: subclass nbckpt.Trainable, or give a function")
    return wrap_function(given, states_every=states_every)
