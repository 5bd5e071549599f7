"""PlainLoop: the user's own code as a trainable. It runs outside, and reports to its trial."""

from __future__ import annotations

from typing import NoReturn

from nbckpt.errors import UsageError
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.training.function import FunctionRunner
from nbckpt.trials.training.reporter import ResultChannel, StatusReporter


class PlainLoop(FunctionRunner):
    """A trainable without a function: code in a cell or a script reports between `connect` and `stop`."""

    def connect(self, on_result: OnResult) -> StatusReporter:
        """Return the connection through which the user's code reports from now on."""
        self._channel = ResultChannel(on_result)
        return self._reporter()

    def push_results(self, on_result: OnResult, *, in_thread: bool = False) -> NoReturn:
        """Refuse to run: nbckpt does not have the code.

        Raises:
            UsageError: Always.
        """
        del on_result, in_thread
        raise UsageError(f"{self.trial_name} is a plain loop, which only its own code continues")
