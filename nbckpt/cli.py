"""nbckpt in a shell: words in, text out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.commands.housekeeping import Verification
from nbckpt.commands.trials import Interrupted
from nbckpt.core.packer import Progress
from nbckpt.errors import NbckptError
from nbckpt.render import Result
from nbckpt.tracker import Tracker
from nbckpt.trials.experiment import Experiment
from nbckpt.trials.trial import Status


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and print its answer; return the exit status.

    That is 0, 1 for an error, 2 for damage, 130 for an interrupt.
    """
    try:
        request = parse(TABLE, sys.argv[1:] if words is None else words, "nbckpt")
        with Tracker(request.store) as tracker:
            result = request.run(Session(tracker, progress=_progress(), table=TABLE, face="nbckpt"))
    except HelpRequest as help_wanted:
        _print(help_wanted.text)
        return 0
    except Interrupted as interrupt:
        print(_in_a_shell(f"\nnbckpt: {interrupt}"), file=sys.stderr)
        return 130
    except NbckptError as error:
        print(_in_a_shell(f"nbckpt: {error}"), file=sys.stderr)
        return 1
    _print(_in_a_shell(str(result)))
    return _status(result)


def _status(result: Result) -> int:
    """Return the exit status that a result means."""
    if isinstance(result, Verification):
        return 2 if result.verified.damages else 0
    return int(isinstance(result, Experiment) and any(it.status == Status.ERROR for it in result.trials))


def _in_a_shell(text: str) -> str:
    """Write the commands in *text* as one types them in a shell."""
    return text.replace("%ckpt ", "nbckpt ")


def _print(text: str) -> None:
    """Print *text*, as far as the terminal's encoding can show it."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _progress() -> Progress | None:
    """Return a bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return None
    from tqdm import tqdm

    bar = tqdm(total=0, unit_scale=True, leave=False, delay=0.5)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return show
