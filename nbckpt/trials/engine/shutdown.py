"""Shutdown: handle running trials at the end of the interpreter."""

from __future__ import annotations

import logging
import os
import sys
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from nbckpt.errors import NbckptError, visible
from nbckpt.render import count
from nbckpt.render.output import current_shell, is_kernel
from nbckpt.trials.model.view import ExperimentView, internals

_AT_EXIT_S = 5.0
_LAST_SYNC_S = 300.0
"""How many seconds the end of the process waits for the last sync."""
_LOOK_S = 0.25
_SILENT_S = 0.7

_log = logging.getLogger("nbckpt")


class Running(ExperimentView, Protocol):
    """An experiment of this process, as its end knows it."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it does not run. Return whether that happened in time."""

    def kill(self) -> None:
        """End running trials at once."""


live: weakref.WeakValueDictionary[Path, Running] = weakref.WeakValueDictionary()
"""The experiments of this process, by their folders."""

if hasattr(os, "register_at_fork"):  # a fork has none of their threads, so it would wait for ever
    os.register_at_fork(after_in_child=live.clear)


def finish_all() -> None:
    """Wait for running trials and their last sync when the process ends.

    A kernel pauses its trials instead, because nobody waits for a kernel that was closed. Ctrl-C pauses
    them too, and a second Ctrl-C ends the process at once. All of them can be resumed.
    """
    # see docs/decisions/0047
    busy = [experiment for experiment in list(live.values()) if internals(experiment).unfinished]
    if busy and not is_kernel(current_shell()):
        names = ", ".join(experiment.name for experiment in busy)
        if _was_interrupted():
            say(f"pausing {names}. Continue: nbckpt resume NAME")
        else:
            _wait_for(busy, names)
    pause_all()


def pause_all() -> None:
    """Pause running trials, so that they can be resumed, and wait for their last sync.

    An experiment that cannot be paused is named in the log; the others are paused all the same.
    """
    left = [experiment for experiment in list(live.values()) if experiment.running]
    _pause(left)
    deadline = time.monotonic() + _AT_EXIT_S
    for experiment in left:
        experiment.wait(max(0.0, deadline - time.monotonic()))
        if internals(experiment).ending:
            _finish(experiment)


def _wait_for(experiments: Sequence[Running], names: str) -> None:
    """Wait until no trial runs; after an interrupt, until all are paused."""
    trials = count(sum(internals(experiment).unfinished for experiment in experiments), "trial")
    try:
        try:
            say(f"waiting for {trials} of {names}; Ctrl-C pauses them")
            for experiment in experiments:
                while internals(experiment).unfinished and not experiment.wait(_LOOK_S):
                    pass
        except KeyboardInterrupt:
            say(f"pausing {names} after the next result of each trial; Ctrl-C again ends at once")
            _pause(experiments)
            for experiment in experiments:
                while not (internals(experiment).ending or experiment.wait(_LOOK_S)):
                    pass
    except KeyboardInterrupt:
        live.clear()  # from here on nothing is waited for
        say("ended at once. Continue from the last checkpoints: nbckpt resume NAME")


def _pause(experiments: Iterable[Running]) -> None:
    for experiment in experiments:
        try:
            internals(experiment).pause()  # not what other processes have open
        except NbckptError as error:  # such as a full disk
            _log.error("%s cannot be paused: %s", experiment.name, error)


def say(text: str) -> None:
    """Write a line to the terminal."""
    with suppress(OSError, AttributeError):  # nobody can read it: the stream is gone
        sys.stderr.write(f"nbckpt: {visible(text)}\n")
        sys.stderr.flush()


def _was_interrupted() -> bool:
    """Return whether Ctrl-C ended the program."""
    return isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)


def _finish(experiment: Running) -> None:
    """Wait for the last sync of an experiment. An interrupt gives it up."""
    try:
        if not experiment.wait(_SILENT_S):
            _log.warning(
                "%s is being sent, for up to %g s more; an interrupt gives it up",
                experiment.name,
                _LAST_SYNC_S,
            )
        if experiment.wait(_LAST_SYNC_S):
            return
    except KeyboardInterrupt:
        _log.error("the last sync of %s was given up", experiment.name)
    experiment.kill()
    experiment.wait(_AT_EXIT_S)
