"""snippet: a checkpoint's restore as plain Python."""

from __future__ import annotations

from dataclasses import dataclass

from nbckpt.commands.options import Reference
from nbckpt.commands.table import Session
from nbckpt.core.references import SHORT
from nbckpt.render import Page, Result


@dataclass(frozen=True, repr=False)
class Snippet(Result):
    """Plain Python that restores a checkpoint without magics."""

    code: str
    inserted: bool

    def page(self) -> Page:
        """See `Result.page`."""
        if self.inserted:
            return Page("The next cell restores it in plain Python.")
        return Page("This restores it in plain Python:", code=self.code)


def snippet(session: Session, ref: Reference) -> Snippet:
    """Write plain Python that restores a checkpoint.

    In a notebook it is put into a new cell.

    Args:
        ref: The checkpoint.
    """
    entry = session.tracker.find(ref)
    code = (
        "from nbckpt import Tracker\n\n"
        f"Tracker({session.tracker.store.url!r}).restore({entry.id[: SHORT + 4]!r}, globals())  # {ref}"
    )
    if session.insert is not None:
        session.insert(code)
    return Snippet(code, session.insert is not None)
