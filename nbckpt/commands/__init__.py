"""Commands: the table of all commands. A command returns a result and prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from nbckpt.commands.table import IN_NOTEBOOKS, Command, HelpRequest, Option, Request, Session, parse

_MODULES = {
    "browsing": "status ls show",
    "comparing": "diff",
    "saving": "save",
    "restoring": "restore undo snippet",
    "trials": "run trials pause stop checkpoint resume best plot",
    "syncing": "push pull sync",
    "housekeeping": "tag rm gc verify trust export import",
    "about": "panel doctor help",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


class _Table(Mapping[str, Command]):
    """The commands in the order of the help. The module of a command is imported on first use."""

    def __getitem__(self, name: str) -> Command:
        # see docs/decisions/0051
        commands: tuple[Command, ...] = import_module(f"{__name__}.{_HOMES[name]}").COMMANDS
        return next(command for command in commands if command.name == name)

    def __contains__(self, name: object) -> bool:
        return name in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


TABLE: Mapping[str, Command] = _Table()

__all__ = ["IN_NOTEBOOKS", "TABLE", "Command", "HelpRequest", "Option", "Request", "Session", "parse"]
