"""HistoryWire: the points after each cell, as rows of a tree for the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from nbckpt.commands import Session
from nbckpt.commands.restoring import RestoreResult
from nbckpt.core.environment import NAMES
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT, Entry
from nbckpt.core.selection import Selection
from nbckpt.core.values.preview import describe
from nbckpt.errors import NbckptError, UsageError
from nbckpt.notebook.widget.checkpoint_details import change_of, compare, form_of, value_of
from nbckpt.notebook.widget.checkpoint_rows import folder_times, history_of
from nbckpt.notebook.widget.checkpoints import live
from nbckpt.notebook.widget.wires import (
    Commands,
    Message,
    Pace,
    StoreWire,
    answer,
    cut,
    listed,
    plain_notes,
    refs_of,
    said,
    text_of,
)
from nbckpt.render import Page, count
from nbckpt.states.snapshot import is_state
from nbckpt.timeline.cells import FailedCell
from nbckpt.timeline.points import Point

_MOST_NAMES = 200
_MOST_SOURCE = 50_000
_MOST_ROWS = 2000
FEW = 200


class HistoryWire(StoreWire):
    """The pane of the notebook's history. Any thread may use it. Each manifest is read once.

    Args:
        commands: Runs commands.
        pace: Tells when to look at the store again.
    """

    OF: ClassVar = frozenset({"state", "compare"})
    VERBS: ClassVar = frozenset({"goto", "undo", "name", "auto_on", "auto_off"})
    NEEDS_VARIABLES: ClassVar = frozenset({"goto", "undo", "auto_on"})
    SLOW: ClassVar = frozenset[str]()

    def __init__(self, commands: Commands, pace: Pace | None = None) -> None:
        super().__init__(commands, pace)
        self._read: dict[str, Message] = {}
        self._came_from = ""
        self._deeds: Mapping[str, Callable[[Sequence[object], Mapping[str, Any]], Message]] = {
            "goto": self._go,
            "undo": self._undo,
            "name": self._name,
            "auto_on": self._turn_on,
            "auto_off": self._turn_off,
        }

    def detail(self, of: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Return a state: its variables, its code, what going there would change; or how it differs from now.

        Raises:
            NbckptError: It is gone.
        """
        if of == "compare":
            return compare(self._commands, ids[:1], options)
        (ref,) = refs_of(ids[:1])
        session = self._commands.session()
        manifest = session.tracker.manifest(ref)
        values = [value for value in manifest.values if value.name not in NAMES]
        cell = manifest.provenance.get("cell")
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        before = {} if self._commands.is_busy() else self._foreseen(session, ref, manifest)
        return {
            "html": "",
            "data": {
                "ref": manifest.id,
                "source": cut(source, _MOST_SOURCE),
                "variables": [value_of(value.name, value.preview) for value in values[:_MOST_ROWS]],
                "skipped": [[skip.name, cut(skip.reason, 300)] for skip in manifest.skipped],
                "saved_at": manifest.created_at,
                "busy": self._commands.is_busy(),
                "would": before,
            },
        }

    def act(self, verb: str, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Do one thing, or with `dry` tell what it would do.

        Raises:
            NbckptError: It failed.
        """
        try:
            return self._deeds[verb](ids, options)
        finally:
            self.renew()

    def _token(self, session: Session) -> object:
        return _kept(session), self._commands.is_busy()

    def token(self) -> object:
        """See the base class. The copy does not show the running cell."""
        return _kept(self._commands.session())

    def _number(self, session: Session) -> str:
        history = history_of(session)
        if not self._read and len(history.entries("points")) > FEW:
            return ""
        rows = self._rows(history, _here(session), _notebook(session))
        return f"{len(rows):,}" if rows else ""

    def _look(self, session: Session) -> None:
        """Look at the points, and note the rows and the heading."""
        points = session.points
        here = _here(session)
        history = history_of(session)
        rows = self._rows(history, here, _notebook(session))
        self._sent = {row["ref"]: row for row in rows[:_MOST_ROWS]}
        is_on = points is not None and points.limits is not None
        self._head = {
            "kind": "history",
            "on": is_on,
            "here": here,
            "total": len(rows),
            "size": sum(row["adds"] for row in rows),
            "missed": points.missed if points is not None and is_on else 0,
            "running": self._running() if is_on else None,
            "failed": _failed(points.failed_cells()) if points is not None else [],
            "undo": bool(rows) and (is_on or bool(self._came_from)),
            "live": {} if is_on else live(session),
        }

    def _running(self) -> Message | None:
        """Return the cell that runs; None if none does."""
        if not self._commands.is_busy():
            return None
        cell = self._commands.cell()
        return {"cell": cell.get("count"), "source": cut(str(cell.get("source", "")).strip(), 200)}

    def _rows(self, history: History, here: str, notebook: str) -> list[Message]:
        """Return the points of a notebook and the checkpoints from which they go on, newest first."""
        names: dict[str, list[str]] = {}
        for ref in history.refs():
            names.setdefault(ref.id, []).append(str(ref))
        entries = history.living(("points", "checkpoints"))
        former, self._read = self._read, {}
        self._note(history, former, [entry for entry in entries if entry.kind == "points"])
        own = [facts for facts in self._read.values() if facts["notebook"] == notebook]
        wanted = {here, *(facts["parent"] for facts in own), *(facts["ref"] for facts in own)}
        unread = wanted - self._read.keys()
        self._note(history, former, [entry for entry in entries if entry.id in unread])
        rows = [self._row(facts, names) for ref, facts in self._read.items() if ref in wanted]
        return sorted(rows, key=lambda row: str(row["saved_at"]), reverse=True)

    def _note(self, history: History, former: Mapping[str, Message], entries: Sequence[Entry]) -> None:
        """Note what the manifests tell. One that cannot be read is left out; `verify` tells of it."""
        for entry in entries:
            facts = former.get(entry.id) or _facts(history, entry)
            if facts is not None:
                self._read[entry.id] = facts

    def _row(self, facts: Message, names: Mapping[str, list[str]]) -> Message:
        """Return a row. What its parent did not have is new; without a parent, all is."""
        parent = self._read.get(facts["parent"])
        had = parent["held"] if parent is not None else frozenset()
        known = parent is not None or not facts["parent"]
        changed = [name for name in facts["changed"] if name in had or not known]
        former = parent["forms"] if parent is not None else {}
        forms = {
            name: change_of(former.get(name, ""), facts["forms"].get(name, "")) for name in facts["changed"]
        }
        return {
            **{name: fact for name, fact in facts.items() if name not in {"held", "notebook"}},
            "forms": {name: form for name, form in forms.items() if form},
            "added": [name for name in facts["changed"] if name not in had and known],
            "changed": changed,
            "names": names.get(facts["ref"], []),
        }

    def _go(self, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Make all variables equal to a state."""
        (ref,) = refs_of(ids[:1])
        session = self._commands.session()
        label = self._label(ref)
        if options.get("dry"):
            would = self._foreseen(session, ref, session.tracker.manifest(ref))
            return answer(_told(would), confirm=f"Go to {label}", would=would)
        history, here = session.tracker.history, _here(session)
        known = {entry.id for entry in history.entries("points")}
        result = self._commands.run("checkout", ref)
        made = [entry.id for entry in history.entries("points") if entry.id not in known]
        self._came_from = made[0] if made else here  # the present state was kept first, if it was new
        return said(result, undo=True) | {"text": _arrived(label, result.page())}

    def _undo(self, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Go back to the state before, or to the one from which the last way came."""
        del ids, options
        points = self._commands.session().points
        is_on = points is not None and points.limits is not None
        if not is_on and self._came_from:
            ref, self._came_from = self._came_from, ""
            self._commands.run("checkout", ref)
            return answer(f"At {self._label(ref)} again.")
        return said(self._commands.run("undo"))

    def _name(self, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Give a state a name. It stays then, and is among the checkpoints."""
        (ref,) = refs_of(ids[:1])
        self._commands.run("tag", ref, text_of(options, "name", "a name"))
        return answer(f"{self._label(ref)} has a name now, and stays.")

    def _turn_on(self, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Keep the state after each cell from now on."""
        del ids, options
        self._commands.run("auto", "on")
        return answer("History is on: you can go back to the state after any cell from now on.")

    def _turn_off(self, ids: Sequence[object], options: Mapping[str, Any]) -> Message:
        """Keep no more states."""
        del ids
        if options.get("dry"):
            return answer(
                "Turn history off? The states that are kept stay, and new cells add none.", confirm="Turn off"
            )
        self._commands.run("auto", "off")
        return answer("History is off. The states that are kept stay.")

    def _foreseen(self, session: Session, ref: str, manifest: Manifest) -> Message:
        """Return which variables going to a state would change, add and remove."""
        try:
            result = self._commands.run("restore", ref, "--dry-run")
        except NbckptError as error:
            raise UsageError(str(error)) from None
        changes = dict(result.restored.changes) if isinstance(result, RestoreResult) else {}
        held = {value.name for value in manifest.values} | {skip.name for skip in manifest.skipped}
        namespace = session.namespace or {}
        removed = [name for name in Selection(hidden=session.hidden).of(namespace) if name not in held]
        by_change: dict[str, list[str]] = {"changed": [], "new": [], "same": []}
        for name, change in changes.items():
            if change in by_change and not is_state(name):
                by_change[change].append(name)
        saved = {value.name: form_of(value.preview) for value in manifest.values}
        forms = {
            name: change_of(_live_form(namespace, name), saved.get(name, "")) for name in by_change["changed"]
        }
        shaped = {name: form for name, form in forms.items() if form}
        return {
            **by_change,
            "removed": removed,
            "unheld": [skip.name for skip in manifest.skipped],
            "forms": shaped,
        }

    def _label(self, ref: str) -> str:
        facts = self._read.get(ref, {})
        cell = facts.get("cell")
        return f"[{cell}]" if isinstance(cell, int) else ref[:SHORT]


def _live_form(namespace: Mapping[str, Any], name: str) -> str:
    """Return the shape and the dtype that a variable has now."""
    return form_of(describe(namespace[name])) if name in namespace else ""


def _failed(cells: Sequence[FailedCell]) -> list[Message]:
    """Return the cells that failed and have no state of their own, newest first."""
    return [
        {
            "cell": failed.cell,
            "source": cut(failed.source.strip(), 200),
            "error": cut(failed.error, 100),
            "saved_at": failed.ended_at,
        }
        for failed in reversed(cells)
    ]


def _arrived(label: str, page: Page) -> str:
    return " ".join([f"At {label}.", *plain_notes(page)])


def _told(would: Mapping[str, Any]) -> str:
    """Return what going to a state would change, as sentences."""
    parts = [
        f"{listed(would['changed'])} will be replaced." if would["changed"] else "",
        f"{listed(would['new'])} will be added." if would["new"] else "",
        f"{listed(would['removed'])} will be removed." if would["removed"] else "",
        f"{listed(would['unheld'])} could not be kept." if would["unheld"] else "",
    ]
    said_all = " ".join(filter(None, parts)) or "All variables are equal already."
    stay = f" {count(len(would['same']), 'variable stays', 'variables stay')}." if would["same"] else ""
    return f"{said_all}{stay} Your present state is kept first, and cells in the notebook stay as they are."


def _kept(session: Session) -> object:
    """Return a value that differs once there may be other states."""
    points = session.points
    state = (points.limits is None, points.missed, points.failed_cells()) if points is not None else ()
    return _here(session), state, *folder_times(session.tracker.store.url, "points")


def _here(session: Session) -> str:
    return session.points.timeline.last if session.points is not None else ""


def _notebook(session: Session) -> str:
    return session.points.timeline.notebook if session.points is not None else ""


def _facts(history: History, entry: Entry) -> Message | None:
    """Return what the manifest of a point tells, or None if it cannot be read."""
    with suppress(NbckptError):
        manifest = history.read(entry)
        point = Point.of(manifest)
        return {
            "ref": point.id,
            "kind": entry.kind,
            "parent": point.parent,
            "saved_at": point.created_at,
            "notebook": point.notebook,
            "kernel": point.kernel,
            "cell": point.cell,
            "source": cut(point.source.strip(), 200),
            "changed": [cut(name, 100) for name in point.changed if name not in NAMES][:_MOST_NAMES],
            "removed": [cut(name, 100) for name in point.removed][:_MOST_NAMES],
            "partly": [cut(skip.name, 100) for skip in manifest.skipped][:_MOST_NAMES],
            "missed": point.missed,
            "seconds": point.seconds,
            "error": cut(point.error, 100),
            "adds": point.new_bytes,
            "size": point.size,
            "held": frozenset(value.name for value in manifest.values),
            "forms": {value.name: form for value in manifest.values if (form := form_of(value.preview))},
        }
    return None
