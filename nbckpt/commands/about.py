"""panel, doctor, help: show the panel, diagnose the installation, and list the commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Annotated

from nbckpt.commands.options import Variable, Word
from nbckpt.commands.table import EXIT_STATUS, IN_NOTEBOOKS, HelpRequest, Session, no_command, parse
from nbckpt.core.depth import deeply
from nbckpt.core.environment import machine
from nbckpt.core.memory.pages import page_record
from nbckpt.core.names import identifier
from nbckpt.core.packs.mapping import MAPS
from nbckpt.core.packs.quick import has_xxhash
from nbckpt.core.values.codec import dump
from nbckpt.core.values.diagnose import blame
from nbckpt.errors import NbckptError, UsageError
from nbckpt.render import Column, Hint, Page, Result, Table, count
from nbckpt.store import LocalStore, Store


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    good: bool
    finding: str


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """The results of all checks, and the variables that cannot be saved."""

    checks: tuple[Check, ...]
    culprits: tuple[tuple[str, str, str], ...]

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.culprits) or bool(self.exit_status)

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`: 1 if a check failed."""
        return int(not all(check.good for check in self.checks))

    def page(self) -> Page:
        """See `Result.page`."""
        bad = sum(not check.good for check in self.checks)
        problems = [count(bad, "problem")] if bad else []
        if self.culprits:
            problems.append(f"{count(len(self.culprits), 'variable')} that cannot be saved")
        headline = f"Found {' and '.join(problems)}." if problems else "No problem found."
        checks = tuple(
            (check.name, "ok" if check.good else "problem", check.finding) for check in self.checks
        )
        columns = (Column("variable", code=True), Column("because of", code=True), Column("reason"))
        return Page(
            headline,
            (
                Table("checks", (Column("what"), Column("state"), Column("finding")), checks),
                Table("variables that cannot be saved", columns, self.culprits),
            ),
        )


def doctor(session: Session, *variables: Variable) -> Diagnosis:
    """Check the installation, and find unsavable variables.

    Args:
        variables: Check only these variables.
    """
    return Diagnosis(tuple(_checks(session)), tuple(_culprits(session, variables)))


def _checks(session: Session) -> Iterator[Check]:
    tracker = session.tracker
    here = machine()
    yield Check(
        "nbckpt", good=True, finding=f"{version('nbckpt')} on Python {here['python']}, {here['system']}"
    )
    try:
        about = tracker.history.check_format()
        finding = f"{tracker.store.url}, {count(len(tracker.entries()), 'checkpoint')}"
        finding = finding if about else f"{tracker.store.url}, not created yet"
        if locked := _read_only(tracker.store):
            finding = f"nothing can be saved, because {locked} is read-only; {finding}"
        yield Check("store", good=not locked, finding=finding)
    except NbckptError as error:
        yield Check("store", good=False, finding=str(error))
    try:
        key = tracker.history.signer.key
        yield Check("secret", good=True, finding=f"{tracker.settings.secret_file}, its key is {key}")
    except NbckptError as error:
        yield Check("secret", good=False, finding=str(error))
    maps = MAPS and tracker.settings.mapping and isinstance(tracker.store, LocalStore)
    yield Check(
        "arrays",
        good=True,
        finding="restored by mapping files" if maps else "restored by reading files",
    )
    why = page_record().round().why_not
    points = "with xxhash" if has_xxhash() else "too: faster with pip install xxhash"
    yield Check(
        "page record",
        good=True,
        finding=f"not used, so a save hashes all arrays, and a point of auto {points}: {why}"
        if why
        else "used: a save does not hash arrays that Linux proves unwritten",
    )
    missing = [name for name in ("numpy", "pandas", "matplotlib", "torch") if find_spec(name) is None]
    yield Check(
        "libraries",
        good=True,
        finding=f"not installed: {', '.join(missing)}" if missing else "all installed",
    )


def _read_only(store: Store) -> str:
    """Return the folder of a local store if this user cannot write to it; otherwise ""."""
    if not isinstance(store, LocalStore):
        return ""
    there = next(folder for folder in (store.folder, *store.folder.parents) if folder.exists())
    return "" if os.access(there, os.W_OK) else str(there)


def _culprits(session: Session, variables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    namespace = session.namespace or {}
    values = dict(namespace)  # a copy: another thread may bind or delete names
    variables = [name if name in values else identifier(name) for name in variables]
    if missing := [name for name in variables if name not in values]:
        raise UsageError(f"there is no variable {missing[0]!r}")
    chosen = variables or [
        name for name in values if name not in session.hidden and not name.startswith("__")
    ]
    for name in chosen:
        visited: list[object] = []
        try:
            deeply(partial(dump, values[name], namespace, write=len, visited=visited))
        except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything
            yield name, *blame(name, values[name], error, visited, partial(dump, namespace=namespace))


@dataclass(frozen=True, repr=False)
class Help(Result):
    """The list of commands, or the usage of one command.

    Attributes:
        face: How users write a command here: `%ckpt` or `nbckpt`.
        commands: Each command that works here, with its description.
        elsewhere: The commands that work only in a notebook.
        usage: The usage of one command.
    """

    face: str
    commands: tuple[tuple[str, str], ...] = ()
    elsewhere: tuple[str, ...] = ()
    usage: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        if self.usage:
            return Page("", code=self.usage)
        table = Table("commands", (Column("command", code=True), Column("what it does")), self.commands)
        notes: tuple[str, ...] = (
            "REF is a name, name@3, an id or its beginning, or latest. Add ~2 for the second older one.",
            "Every command takes --store STORE, --json, --schema and --help.",
        )
        if self.elsewhere:
            names = ", ".join(self.elsewhere)
            notes += (
                f"In a notebook or IPython, after %load_ext nbckpt, there are also: {names}.",
                f"Exit status: {EXIT_STATUS}.",
            )
        details = Hint("Details", f"{self.face} help COMMAND")
        return Page(f"{self.face} COMMAND …", (table,), notes, hints=(details,))


def help_(session: Session, command: Annotated[str, Word("COMMAND", "command")] = "") -> Help:
    """List the commands, or show the usage of one command.

    Args:
        command: The command.
    """
    table = session.table
    if not command:
        elsewhere = tuple(sorted(IN_NOTEBOOKS)) if session.namespace is None else ()
        here = (entry for entry in table.values() if entry.name not in elsewhere)
        return Help(session.face, tuple((entry.name, entry.help) for entry in here), elsewhere)
    if command not in table:
        raise no_command(table, command, session.face)
    try:
        parse(table, [command, "--help"], session.face)
    except HelpRequest as request:
        return Help(session.face, usage=request.text)
    raise AssertionError("asking for help is always answered")


def panel(session: Session, tab: Annotated[str, Word("TAB")] = "") -> None:
    """Show checkpoints, trials, history and sync in a panel.

    Args:
        tab: The tab in front: trials, checkpoints, history or sync; by default trials, if there are some.
    """
    if session.panel is None:
        raise UsageError("the panel needs a notebook. The commands do the same. List them with `%ckpt help`.")
    session.panel(tab)
