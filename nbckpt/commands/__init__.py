"""Commands: the table of all commands. A command returns a result and prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from nbckpt.commands.options import Option
from nbckpt.commands.table import IN_NOTEBOOKS, Command, HelpRequest, Request, Session, parse

_MODULES = {
    "browsing": "status ls",
    "showing": "show",
    "comparing": "diff",
    "saving": "save",
    "reproducing": "reproduce",
    "restoring": "restore undo",
    "traveling": "redo history checkout auto",
    "snippets": "snippet",
    "trials": "run trials pause stop checkpoint resume",
    "tracking": "track",
    "caching": "cell",
    "results": "results best compare plot",
    "pushing": "push pull",
    "syncing": "sync",
    "housekeeping": "tag rm gc trust",
    "annotating": "note untag",
    "exporting": "export import_",
    "verifying": "verify",
    "about": "panel doctor help_",
}
_HOMES = {
    function.rstrip("_"): (module, function)
    for module, functions in _MODULES.items()
    for function in functions.split()
}


class _Table(Mapping[str, Command]):
    """The commands in the order of the help. The module of a command is imported on first use."""

    def __getitem__(self, name: str) -> Command:
        return _command(name)

    def __contains__(self, name: object) -> bool:
        return name in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


@cache
def _command(name: str) -> Command:
    module, function = _HOMES[name]
    return Command(name, getattr(import_module(f"{__name__}.{module}"), function))  # see docs/decisions/0051


TABLE: Mapping[str, Command] = _Table()

__all__ = ["IN_NOTEBOOKS", "TABLE", "Command", "HelpRequest", "Option", "Request", "Session", "parse"]
