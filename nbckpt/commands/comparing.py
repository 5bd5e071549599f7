"""diff: what differs between two checkpoints, or one and what is live. Only what is trusted is unpickled."""

from __future__ import annotations

from dataclasses import dataclass

from nbckpt.commands.table import Command, Session, option
from nbckpt.render import Column, Fold, Page, Result, Table, count
from nbckpt.tracker import Compared


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two checkpoints, or one and what is live, side by side."""

    compared: Compared
    old: str
    new: str

    def page(self) -> Page:
        """See `Result.page`."""
        compared = self.compared
        differ = [it for it in compared.differences if it.change != "same"]
        same = len(compared.differences) - len(differ)
        rows = tuple((it.name, it.change, "; ".join(it.details)) for it in differ)
        table = Table(
            "variables that differ",
            (Column("variable", code=True), Column("change"), Column("details")),
            rows,
        )
        packages = Table(
            "packages that differ",
            (Column("package"), Column(self.old), Column(self.new)),
            tuple(compared.packages),
        )
        notes = [f"{count(same, 'variable is', 'variables are')} the same"] if same else []
        notes += (
            []
            if compared.loaded
            else ["compared by digests and previews only: not all of it is signed by you"]
        )
        folds = (
            (Fold("the cells that saved them differ", "\n".join(compared.source)),) if compared.source else ()
        )
        headline = f"{self.old} -> {self.new}: {count(len(differ), 'variable differs', 'variables differ')}"
        return Page(headline, (table, packages), tuple(notes), folds)


def diff(session: Session, old: str, new: str | None) -> Comparison:
    """Compare checkpoint A with B, or with the live variables."""
    namespace = None if new else session.live("diff A")
    compared = session.tracker.diff(old, new or "", namespace, session.hidden)
    return Comparison(compared, old, new or "now")


COMMANDS = (
    Command(
        "diff",
        diff,
        (
            option("old", metavar="A", kind="ref", help="the older checkpoint"),
            option(
                "new",
                nargs="?",
                metavar="B",
                kind="ref",
                help="the newer one; by default what is live",
            ),
        ),
    ),
)
