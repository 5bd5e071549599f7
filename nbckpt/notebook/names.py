"""Names: which of a shell's names are the user's variables; and the cell that runs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_KINDS = re.compile(
    r"(?P<history>_{1,3}|_\d+)|(?P<machinery>_i{1,3}|_i\d+|_oh|_dh|_ih|In|Out|exit|quit|get_ipython|open)"
)
_ABSENT = object()


@lru_cache(maxsize=100_000)  # each cell adds two names, and all are looked at after each cell
def kind_of(name: str) -> str | None:
    """Return which of IPython's names this is: "history", "machinery" or None."""
    kind = _KINDS.fullmatch(name)
    return kind and kind.lastgroup


def history_names(shell: InteractiveShell) -> frozenset[str]:
    """Return the names of earlier results, such as `_` and `_12`."""
    return frozenset(
        name for name in [*shell.user_ns] if isinstance(name, str) and kind_of(name) == "history"
    )


def hidden_names(shell: InteractiveShell) -> frozenset[str]:
    """Return the names that are not the user's variables: those of earlier results and of IPython.

    A name that the user has bound to something else is the user's. A key that is not a text counts as hidden.
    """
    start = shell.user_ns_hidden

    def is_hidden(name: Any, value: object) -> bool:
        kind = kind_of(name) if isinstance(name, str) else "history"
        return kind == "history" or (kind == "machinery" and _is_ipythons(shell, name, value))

    now = dict(shell.user_ns)  # a copy: another thread may run a cell
    return frozenset(
        name for name, value in now.items() if start.get(name, _ABSENT) is value or is_hidden(name, value)
    )


def _is_ipythons(shell: InteractiveShell, name: str, value: object) -> bool:
    """Tell whether the value of a name that IPython defines is still one of IPython's."""
    if name in {"exit", "quit", "get_ipython", "open"}:
        return value is shell.user_ns_hidden.get(name, value) or callable(value)
    return isinstance(value, (str, list, dict))


def running_cell(shell: InteractiveShell, body: str | None) -> dict[str, Any]:
    """Return the running cell: its count and source, and its id if the front end sends it."""
    history = shell.history_manager
    if history is None or len(history.input_hist_raw) < 2:
        cell: dict[str, Any] = {"source": body} if body is not None else {}
    else:  # not shell.execution_count: in some versions it is already the next cell's
        cell = {"count": len(history.input_hist_raw) - 1, "source": history.input_hist_raw[-1]}
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    if isinstance(parent, dict) and (name := parent.get("metadata", {}).get("cellId")):
        cell["id"] = str(name)
    from nbckpt.store import masked  # imported late: loading the extension must not import the store

    source = masked(cell.get("source", ""))
    if source != cell.get("source", ""):
        cell |= {"source": source, "masked": True}
    return cell
