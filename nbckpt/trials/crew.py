"""Crew: the drivers of an experiment, a thread each, which take trials from a line until none is left."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nbckpt.core.pools import starts
from nbckpt.trials.driver import Attempt, Rules
from nbckpt.trials.executors import InlineExecutor, ThreadExecutor
from nbckpt.trials.trial import Status, Trial

_NO_THREADS = "threads cannot start here: trials run one after the other in the cell"


@dataclass(frozen=True)
class Orders:
    """What a crew asks of whom it works for.

    Attributes:
        coming: How many trials are still to be made when the line is empty.
        make: Makes the next one; None where there is none now.
        end: Called by the last driver when no trial runs any more.
        over: Called after that, unless more work came meanwhile; nobody else has the crew's lock then.
    """

    coming: Callable[[], int]
    make: Callable[[], Trial | None]
    end: Callable[[], object]
    over: Callable[[], object]


class Crew:
    """Drivers, and the line of trials in which they work. Any thread may ask.

    Attributes:
        changed: Held while the line or what runs is changed.
        line: The trials that wait for their turn.
        running: The attempts under way, by their trials' names.
        drivers: How many drivers there are.
        ending: Whether only the last driver is there, and has no trial any more.
        rules: What holds for every trial; None before the first work.
        notes: What went wrong, a sentence each.
    """

    def __init__(self, name: str) -> None:
        self.changed = threading.Condition()
        self.line: deque[Trial] = deque()
        self.running: dict[str, Attempt] = {}
        self.drivers = 0
        self.ending = False
        self.rules: Rules | None = None
        self.notes: list[str] = []
        self._name = name
        self._orders: Orders | None = None

    def begin(self, rules: Rules, orders: Orders) -> None:
        """Work by these rules and orders from now on; there is no driver yet."""
        self.rules, self._orders = rules, orders

    def has(self, trial: Trial) -> bool:
        """Tell whether a trial runs or waits for its turn."""
        return trial.id in self.running or trial in self.line

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is no driver; tell whether that came within *timeout* seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.drivers, timeout)

    def work(self, trials: Iterable[Trial], most: int) -> None:
        """Put *trials* in the line, and have as many drivers as there is work for, at most *most*.

        Where threads cannot be, it is done here, until it is done.
        """
        assert self.rules is not None
        assert self._orders is not None
        concurrent = self.rules.executor.concurrent
        for trial in trials:
            if trial.status != Status.PENDING or trial.attempts:
                trial.wait()
            self.line.append(trial)
        with self.changed:
            wanted = min(most, len(self.line) + len(self.running) + self._orders.coming())
            missing = max(wanted, 1) - self.drivers if concurrent else 1 - self.drivers
            self.drivers += max(missing, 0)
        if not concurrent:
            self._drive()
            return
        for at in range(missing):
            # With the context of the cell, so that what the trial prints lands below that cell.
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(self._drive,), name="nbckpt-trial", daemon=True)
            if not starts(thread):
                self._go_on_inline(missing - at - 1)
                return

    def _go_on_inline(self, missing: int) -> None:
        """Do without *missing* more drivers and without threads."""
        assert self.rules is not None
        with self.changed:
            self.drivers -= missing
            if self.rules.executor.name == ThreadExecutor.name and self.drivers == 1:
                self.rules = replace(self.rules, executor=InlineExecutor())
                self.notes.append(_NO_THREADS)
        self._drive()

    def _drive(self) -> None:
        """Take trials through their attempts, one after the other, until none is left."""
        assert self.rules is not None
        while True:
            attempt = self._next()
            if attempt is None:
                if self._left():
                    return
                continue
            attempt.run()
            trial = attempt.trial
            if trial.finished:
                self.rules.search.ended(trial)
            with self.changed:
                self.running.pop(trial.id, None)
                if trial.status == Status.PENDING:
                    self.line.append(trial)

    def _next(self) -> Attempt | None:
        assert self.rules is not None
        assert self._orders is not None
        with self.changed:
            trial = self.line.popleft() if self.line else self._orders.make()
            if trial is None:
                return None
            attempt = self.running[trial.id] = Attempt(self.rules, trial, f"{self._name}/{trial.id}")
            return attempt

    def _left(self) -> bool:
        """Have one driver go, unless more work came meanwhile; the last one ends the work, for now."""
        assert self._orders is not None
        with self.changed:
            if self.line:
                return False
            if self.drivers > 1:
                self.drivers -= 1
                return True
        self.ending = True
        try:
            self._orders.end()
        finally:
            self.ending = False
        with self.changed:
            if self.line:
                return False
            self.drivers = 0
            self._orders.over()
            self.changed.notify_all()
            return True
