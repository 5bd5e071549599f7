"""nbckpt in a shell: run one command and print its result as text."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from nbckpt.commands import IN_NOTEBOOKS, TABLE, HelpRequest, Session, parse
from nbckpt.errors import Interrupted, NbckptError, visible
from nbckpt.mirror import AutoMirror
from nbckpt.render import Hint, Page, Result, short
from nbckpt.render.text import text
from nbckpt.tracker import Tracker

if TYPE_CHECKING:
    from nbckpt.commands.table import Bar
    from nbckpt.sync.progress import Progress
    from nbckpt.trials.engine.experiment import Experiment

_PERIOD_S = 0.5
_COMMAND = re.compile(r"%ckpt ([\w-]+)")


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and print its result; return the exit status.

    The status is 0 for success, 1 for an error, 2 for damage and 130 for an interrupt. After a signal that
    asked the process to end, it is 128 plus the number of the signal. Then trials are paused, as after
    Ctrl-C.
    """
    with _ended_by_signals() as signals:
        status = _main(sys.argv[1:] if words is None else words)
    return 128 + signals[0] if signals else status


def _main(words: Sequence[str]) -> int:
    try:
        request = parse(TABLE, words, "nbckpt")
        with _log_for_a_shell(), _Reader(request.store) as tracker, _Line() as line, _bar() as progress:
            auto = AutoMirror(tracker.store, in_background=False)
            session = Session(tracker, auto, progress=progress, watch=line.watch, table=TABLE, face="nbckpt")
            result = request.run(session)
    except HelpRequest as help_wanted:
        _print(help_wanted.text)
        return 0
    except Interrupted as interrupt:
        _tell(str(interrupt), before="\n")
        return 130
    except KeyboardInterrupt:  # an interrupt that no command handled
        from nbckpt.trials.engine.shutdown import pause_all

        pause_all()
        _tell("interrupted; running trials are paused. Show them: %ckpt trials", before="\n")
        return 130
    except NbckptError as error:
        _tell(str(error))
        return 1
    if result is None:
        return 0
    _print(text(_page_in_a_shell(result.page())))
    return result.exit_status


@contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """Handle SIGTERM and SIGHUP like Ctrl-C during the block; yield the list of signals that came.

    Only the first signal counts: a second interrupt would stop trials for good, and a closing shell sends
    two signals.
    """
    came: list[int] = []
    terminals = [fd for fd in (1, 2) if os.isatty(fd)]

    def end(number: int, _: object) -> None:
        if not came:
            came.append(number)
            for fd in terminals:
                if not os.isatty(fd):  # the terminal is gone: a trial that prints must not fail
                    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    # nohup ignores SIGHUP: keep ignoring it.
    before = {
        number: signal.getsignal(number) for number in numbers if signal.getsignal(number) == signal.SIG_DFL
    }
    for number in before:
        signal.signal(number, end)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Reader(Tracker):
    """A tracker in a shell, where there are no variables to save."""

    saves = False


class _Line:
    """One line on standard error that shows the states of trials, if standard error is a terminal."""

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
        """Show the states of an experiment's trials until the end of the command."""
        del result
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._follow, args=(experiment,), name="nbckpt-live")
            self._thread.start()

    def _follow(self, experiment: Experiment) -> None:
        from nbckpt.trials.views.statuses import counted, states_of

        while not self._end.wait(_PERIOD_S):
            width = shutil.get_terminal_size().columns - 1
            line = visible(f"{experiment.name}: {counted(states_of(experiment))}")
            print(f"\r{line[:width].ljust(width)}", end="", file=sys.stderr, flush=True)
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _page_in_a_shell(page: Page) -> Page:
    """Return a page whose notes and hints name shell commands. Recorded data is not changed."""
    hints = (Hint(hint.label, _COMMAND.sub(_shell_command, hint.command)) for hint in page.hints)
    return replace(
        page,
        notes=tuple(map(_in_a_shell, page.notes)),
        hints=tuple(hint for hint in hints if not hint.command.startswith("%ckpt ")),
    )


def _in_a_shell(said: str) -> str:
    """Rewrite the commands in *said* for a shell. Commands that need a notebook stay, and *said* says so."""
    rewritten = _COMMAND.sub(_shell_command, said)
    if "%ckpt" not in rewritten or "notebook" in rewritten:
        return rewritten
    return f"{rewritten.removesuffix('.')}. %ckpt works only in a notebook"


def _shell_command(match: re.Match[str]) -> str:
    return match[0] if match[1] in IN_NOTEBOOKS else f"nbckpt {match[1]}"


@contextmanager
def _log_for_a_shell() -> Iterator[None]:
    """Let messages of the log, which go to standard error, name shell commands during the block."""

    def rewrite(record: logging.LogRecord) -> bool:
        record.msg, record.args = _in_a_shell(record.getMessage()), ()
        return True

    logger = logging.getLogger("nbckpt")
    logger.addFilter(rewrite)
    try:
        yield
    finally:
        logger.removeFilter(rewrite)


def _tell(trouble: str, before: str = "") -> None:
    """Print an error to standard error."""
    print(f"{before}nbckpt: {visible(_in_a_shell(trouble))}", file=sys.stderr)


def _print(said: str) -> None:
    """Print a text. Replace characters that the terminal's encoding cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(said.encode(encoding, "replace").decode(encoding), flush=True)
    except BrokenPipeError:  # for example `| head`: nothing is left to flush at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _bar() -> Iterator[Bar | None]:
    """Show progress of a long block on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm  # see docs/decisions/0013

    with tqdm(total=0, unit="B", unit_scale=True, leave=False, delay=0.5, mininterval=0.25) as bar:

        def show(done: int, total: int, transfer: Progress | None = None) -> None:
            bar.total = total
            if transfer is not None:
                bar.set_description(f"{transfer.files_done:,}/{transfer.files:,} files", refresh=False)
                bar.set_postfix_str(visible(short(transfer.current, 40)), refresh=False)
            bar.update(done - bar.n)

        yield show
