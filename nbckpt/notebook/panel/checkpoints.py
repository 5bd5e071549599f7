"""The checkpoints' tab: what is kept, and everything that can be done with one."""

from __future__ import annotations

from dataclasses import replace

import ipywidgets as widgets

from nbckpt.commands.browsing import Listing, Row
from nbckpt.core.history import SHORT
from nbckpt.notebook.panel.desk import Confirmation, Desk, button, html_of, line, offer

_MOST = 100


class CheckpointsTab:
    """Checkpoints, with a filter, and one of them chosen.

    Args:
        desk: Asks and shows.
    """

    title = "Checkpoints"

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._filter = widgets.Text(
            description="filter", placeholder="name, message, variable", continuous_update=False
        )
        self._table = widgets.HTML()
        self._chosen = widgets.Dropdown(description="checkpoint")
        self._text = widgets.Text(description="name or file", continuous_update=False)
        self._confirmation = Confirmation(desk)
        self._filter.observe(lambda _: self.refresh(), "value")
        buttons = line(
            button(
                "Show",
                lambda: self._desk.show("show", self._ref),
                "its variables, its cell",
            ),
            button("Restore…", self._restore, "shows first what it would change"),
            button("Diff", lambda: self._desk.show("diff", self._ref), "against what is live"),
            button("Undo", self._undo, "takes back the last restore or removal"),
            button("Delete…", self._delete, "shows first what it frees"),
        )
        naming = line(
            self._text,
            button("Save", self._save, "all variables, under this name"),
            button("Tag", lambda: self._named("tag", self._ref), "gives the checkpoint this name, too"),
            button("Export", lambda: self._named("export", self._ref), "writes it into this file"),
        )
        self.widget = widgets.VBox(
            [
                line(self._filter, button("Refresh", self.refresh)),
                self._table,
                line(self._chosen),
                buttons,
                naming,
                self._confirmation.widget,
            ]
        )

    @property
    def is_alive(self) -> bool:
        """Whether it changes by itself."""
        return False

    @property
    def _ref(self) -> str:
        return self._chosen.value or ""

    def refresh(self) -> None:
        """Show what there is now."""
        listing = self._desk.ask("ls", "-n", str(_MOST))
        if not isinstance(listing, Listing):
            return
        wanted = self._filter.value.lower()
        rows = tuple(row for row in listing.rows if wanted in _words(row))
        self._table.value = html_of(replace(listing, rows=rows, total=len(rows)) if wanted else listing)
        offer(self._chosen, [(_label(row), row.entry.id) for row in rows])

    def _restore(self) -> None:
        ref = self._ref
        self._confirmation.propose(
            "Restore now", ("restore", ref, "--dry-run"), lambda: self._desk.show("restore", ref)
        )

    def _delete(self) -> None:
        ref = self._ref

        def delete() -> None:
            self._desk.show("rm", ref)
            self.refresh()

        self._confirmation.propose("Delete now", ("rm", ref, "--dry-run"), delete)

    def _undo(self) -> None:
        self._desk.show("undo")
        self.refresh()

    def _save(self) -> None:
        self._desk.show("save", *([self._text.value] if self._text.value else []))
        self.refresh()

    def _named(self, command: str, ref: str) -> None:
        if not self._text.value:
            self._desk.say(f"write the name or the file first, then {command}", is_error=True)
            return
        self._desk.show(command, ref, self._text.value)
        self.refresh()


def _label(row: Row) -> str:
    names = ", ".join(map(str, row.refs)) or row.entry.id[:SHORT]
    message = row.manifest.message if row.manifest is not None else row.trouble
    return f"{names}: {message}" if message else names


def _words(row: Row) -> str:
    """Return what the filter looks in."""
    values = row.manifest.values if row.manifest is not None else ()
    return " ".join([_label(row), row.entry.id, *(value.name for value in values)]).lower()
