"""The checkpoints tab: the list of checkpoints, and all actions on one checkpoint."""

from __future__ import annotations

import ipywidgets as widgets

from nbckpt.commands.browsing import Listing, Row
from nbckpt.notebook.panels.controller import Controller, Pager
from nbckpt.notebook.panels.parts import SNUG, Region, line, marked, offer, wide
from nbckpt.render import Result, short

_NOW = ("the live variables", "")
_TRIALS = (("the newest of each", "--newest"), ("all", "--all"), ("none", ""))


class CheckpointsTab:
    """The list of checkpoints with a filter and one chosen checkpoint.

    Args:
        controller: Runs commands and shows results.
    """

    title = "Checkpoints"
    is_alive = False

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._listing: Listing | None = None
        self.filter = widgets.Text(
            description="filter", placeholder="name, message, variable", continuous_update=False
        )
        self.trials = widgets.Dropdown(
            options=_TRIALS, description="of trials", style=SNUG, layout=wide("16em")
        )
        self._pager = Pager(controller, self.refresh)
        self._table = Region("checkpoints")
        self.chosen = widgets.Dropdown(description="checkpoint", layout=wide("28em"))
        self.against = widgets.Dropdown(description="against", options=[_NOW])
        self.text = widgets.Text(description="name or file", continuous_update=False)
        self._confirmation = controller.question()
        controller.on_change(self._find, self.filter, self.trials)
        controller.on_change(self._chose, self.chosen)
        self.widget = widgets.VBox(
            [
                line(
                    self.filter,
                    self.trials,
                    controller.button("Refresh", self.refresh, "Show the current list"),
                ),
                self._table.widget,
                self._pager.widget,
                line(self.chosen, *self._on_chosen(controller)),
                line(self.against, *self._on_store(controller)),
                line(self.text, *self._with_text(controller)),
                self._confirmation.widget,
            ]
        )

    def _on_chosen(self, controller: Controller) -> tuple[widgets.Button, ...]:
        return (
            controller.button("Show", lambda: self._on_ref("show"), "Show its variables, pictures and cell"),
            controller.button("Restore…", self._restore, "First show what would change"),
            controller.button("Delete…", self._delete, "First show how much space it frees"),
            controller.button("Trust", lambda: self._on_ref("trust"), "Sign a checkpoint of someone else"),
        )

    def _on_store(self, controller: Controller) -> tuple[widgets.Button, ...]:
        return (
            controller.button("Diff", self._diff, "Compare the two"),
            controller.button("Verify", lambda: self._then_refresh("verify"), "Check all data of the store"),
            controller.button("Free space…", self._collect, "Delete unused data; first show how much"),
        )

    def _with_text(self, controller: Controller) -> tuple[widgets.Button, ...]:
        return (
            controller.button("Save", self._save, "Save all variables under this name"),
            controller.button("Tag", lambda: self._named("tag"), "Give the checkpoint this additional name"),
            controller.button("Export", lambda: self._named("export"), "Write the checkpoint to this file"),
            controller.button("Import", self._import, "Import the checkpoint in this file"),
            controller.button("Undo", self._undo, "Undo the last restore or removal"),
        )

    def refresh(self) -> None:
        """Show the current list."""
        wanted = self.filter.value.strip()
        words = [self.trials.value] if self.trials.value else []
        words += [f"--find={wanted}"] if wanted else []
        listing = self._controller.ask("ls", *self._pager.words, *words)
        if not isinstance(listing, Listing):
            if self._pager.rewind():  # the list has become shorter than this page
                self.refresh()
            return
        self._listing = listing
        self._pager.update(listing.total)
        rows = [(_label(row), _ref(row)) for row in listing.rows]
        offer(self.chosen, rows)
        offer(self.against, [_NOW, *rows])
        self._mark()
        self._controller.static_copy.put(listing)

    def _find(self) -> None:
        self._pager.rewind()
        self.refresh()

    def _chose(self) -> None:
        self._controller.ask_nothing()
        self._mark()

    def _mark(self) -> None:
        """Mark the row of the chosen checkpoint."""
        if (listing := self._listing) is not None:
            self._table.value = marked(listing, lambda at, _: _ref(listing.rows[at]) == self.chosen.value)

    def _on_ref(self, *words: str) -> Result | None:
        """Run a command on the chosen checkpoint."""
        if not self.chosen.value:
            self._controller.say("There is no checkpoint. Write a name, and press Save.", is_error=True)
            return None
        command, *others = words
        return self._controller.show(command, self.chosen.value, *others)

    def _restore(self) -> None:
        if self._on_ref("restore", "--dry-run") is not None:
            question = f"Restore {self.chosen.label}?"
            ref = self.chosen.value
            self._confirmation.propose(question, "Restore now", lambda: self._then_refresh("restore", ref))

    def _delete(self) -> None:
        if self._on_ref("rm", "--dry-run") is not None:
            question = f"Delete {self.chosen.label}?"
            ref = self.chosen.value
            self._confirmation.propose(question, "Delete now", lambda: self._then_refresh("rm", ref))

    def _collect(self) -> None:
        if self._controller.show("gc", "--dry-run") is not None:
            self._confirmation.propose("Free this space?", "Free now", lambda: self._then_refresh("gc"))

    def _diff(self) -> None:
        self._on_ref("diff", *([self.against.value] if self.against.value else []))

    def _undo(self) -> None:
        self._then_refresh("undo")

    def _save(self) -> None:
        self._then_refresh("save", *([self.text.value] if self.text.value else []))

    def _named(self, command: str) -> None:
        if self._has_text(command) and self._on_ref(command, self.text.value) is not None:
            self.refresh()

    def _import(self) -> None:
        if self._has_text("import"):
            self._then_refresh("import", self.text.value)

    def _has_text(self, command: str) -> bool:
        if not self.text.value:
            self._controller.say(
                f"First write a name or a file, then press {command.capitalize()}.", is_error=True
            )
        return bool(self.text.value)

    def _then_refresh(self, *words: str) -> None:
        if self._controller.show(*words) is not None:
            self.refresh()


def _label(row: Row) -> str:
    message = row.manifest.message if row.manifest is not None else row.trouble
    return f"{row.label}: {short(message)}" if message else row.label


def _ref(row: Row) -> str:
    """Return the reference of a checkpoint for commands: a name and version if it has one, else its id."""
    return str(row.refs[0]) if row.refs else row.ref
