"""Trials whose code runs outside: the user's own loop in a cell or a script, opened by `nbckpt.track`."""

from __future__ import annotations

from nbckpt.trials.executors.base import Executor, Job
from nbckpt.trials.executors.local import LocalWorker, make
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.model.spec import LOOP
from nbckpt.trials.training.loop import PlainLoop
from nbckpt.trials.training.reporter import StatusReporter


def only_in_its_loop(experiment: str) -> str:
    """Return the message for somebody who wants to resume a plain loop from outside."""
    return (
        f"{experiment!r} was tracked from a plain loop, which only its own code continues: "
        f"nbckpt.track({experiment!r}, resume=True) before the loop"
    )


class CellWorker(LocalWorker):
    """A plain loop in this process."""

    def __init__(self, loop: PlainLoop, job: Job) -> None:
        super().__init__(loop, job.folder, in_thread=False)
        self._loop = loop

    def connect(self, on_result: OnResult) -> StatusReporter:
        """See `PlainLoop.connect`."""
        return self._loop.connect(on_result)


class CellExecutor(Executor):
    """Trials that the user's own code opens, feeds and ends."""

    name = LOOP

    def start(self, job: Job) -> CellWorker:
        """See `Executor.start`."""
        loop = make(job)
        assert isinstance(loop, PlainLoop)
        return CellWorker(loop, job)
