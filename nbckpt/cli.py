"""nbckpt in a shell: words in, text out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nbckpt.commands import TABLE, HelpRequest, Session, parse
from nbckpt.commands.housekeeping import Verification
from nbckpt.core.packer import Progress
from nbckpt.errors import NbckptError
from nbckpt.tracker import Tracker


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and print its answer; return the exit status: 0, 1 for an error, 2 for damage."""
    try:
        request = parse(TABLE, sys.argv[1:] if words is None else words, "nbckpt")
        with Tracker(request.store) as tracker:
            result = request.run(Session(tracker, progress=_progress(), table=TABLE, face="nbckpt"))
    except HelpRequest as help_wanted:
        _print(help_wanted.text)
        return 0
    except NbckptError as error:
        print(_in_a_shell(f"nbckpt: {error}"), file=sys.stderr)
        return 1
    _print(_in_a_shell(str(result)))
    return 2 if isinstance(result, Verification) and result.verified.damages else 0


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
