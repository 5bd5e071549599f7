"""nbckpt in a shell: words in, text out."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.commands.housekeeping import Verification
from nbckpt.commands.table import Bar
from nbckpt.errors import Interrupted, NbckptError
from nbckpt.mirror import AutoMirror
from nbckpt.render import Result, short
from nbckpt.sync.progress import Progress
from nbckpt.tracker import Tracker
from nbckpt.trials.experiment import Experiment, pause_all
from nbckpt.trials.table import counted, states_of
from nbckpt.trials.trial import Status

_PERIOD_S = 0.5


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and print its answer; return the exit status.

    That is 0, 1 for an error, 2 for damage, 130 for an interrupt.
    """
    try:
        request = parse(TABLE, sys.argv[1:] if words is None else words, "nbckpt")
        with Tracker(request.store) as tracker, _Line() as line, _bar() as progress:
            auto = AutoMirror(tracker.store, in_background=False)
            session = Session(tracker, auto, progress=progress, watch=line.watch, table=TABLE, face="nbckpt")
            result = request.run(session)
    except HelpRequest as help_wanted:
        _print(help_wanted.text)
        return 0
    except Interrupted as interrupt:
        print(_in_a_shell(f"\nnbckpt: {interrupt}"), file=sys.stderr)
        return 130
    except KeyboardInterrupt:  # before anything could answer it
        pause_all()
        print("\nnbckpt: interrupted; trials that ran are paused: see nbckpt trials", file=sys.stderr)
        return 130
    except NbckptError as error:
        print(_in_a_shell(f"nbckpt: {error}"), file=sys.stderr)
        return 1
    _print(_in_a_shell(str(result or "")))
    return _status(result)


def _status(result: Result | None) -> int:
    """Return the exit status that a result means."""
    if isinstance(result, Verification):
        return 2 if result.verified.damages else 0
    return int(isinstance(result, Experiment) and any(it.status == Status.ERROR for it in result.trials))


class _Line:
    """One line on standard error, where that is a terminal, that tells how trials go."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def watch(self, result: Result, experiment: Experiment) -> None:
        """Follow an experiment until the end of the command."""
        del result
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._follow, args=(experiment,), name="nbckpt-live")
            self._thread.start()

    def _follow(self, experiment: Experiment) -> None:
        while not self._end.wait(_PERIOD_S):
            width = shutil.get_terminal_size().columns - 1
            line = f"{experiment.name}: {counted(states_of(experiment))}"
            print(f"\r{line[:width].ljust(width)}", end="", file=sys.stderr, flush=True)
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _in_a_shell(text: str) -> str:
    """Write the commands in *text* as one types them in a shell."""
    return text.replace("%ckpt ", "nbckpt ")


def _print(text: str) -> None:
    """Print *text*, as far as the terminal's encoding can show it."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "replace").decode(encoding), flush=True)
    except BrokenPipeError:  # `| head` has seen enough; nor is there anything to flush at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _bar() -> Iterator[Bar | None]:
    """Show progress on standard error during the block, where that is a terminal and if it lasts."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=0, unit="B", unit_scale=True, leave=False, delay=0.5, mininterval=0.25) as bar:

        def show(done: int, total: int, transfer: Progress | None = None) -> None:
            bar.total = total
            if transfer is not None:
                bar.set_description(f"{transfer.files_done:,}/{transfer.files:,} files", refresh=False)
                bar.set_postfix_str(short(transfer.current, 40), refresh=False)
            bar.update(done - bar.n)

        yield show
