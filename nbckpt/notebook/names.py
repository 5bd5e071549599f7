"""Names: which of a shell's names are the user's variables; and the cell that runs."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_HISTORY = re.compile(r"_{1,3}|_\d+")
_MACHINERY = re.compile(r"_i{1,3}|_i\d+|_oh|_dh|_ih|In|Out|exit|quit|get_ipython|open")


def history_names(shell: InteractiveShell) -> frozenset[str]:
    """Return the names of earlier results, such as `_` and `_12`."""
    return frozenset(name for name in shell.user_ns if _HISTORY.fullmatch(name))


def hidden_names(shell: InteractiveShell) -> frozenset[str]:
    """Return the names that are not the user's variables: those of earlier results and of IPython.

    A name that the user has bound to something else is the user's.
    """
    start = shell.user_ns_hidden
    ours = {name for name, value in shell.user_ns.items() if name in start and start[name] is value}
    machinery = {name for name in shell.user_ns if _MACHINERY.fullmatch(name) and _is_of_ipython(shell, name)}
    return frozenset(ours | machinery | history_names(shell))


def _is_of_ipython(shell: InteractiveShell, name: str) -> bool:
    """Tell whether a name that IPython defines still has a value of IPython."""
    value = shell.user_ns[name]
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
