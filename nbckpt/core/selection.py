"""Selection: chooses variables by name or pattern, and explains when nothing matches."""

from __future__ import annotations

import fnmatch
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbckpt.core.manifest import Manifest
from nbckpt.core.names import identifier
from nbckpt.core.references import SHORT
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.suggestion import suggestion


@dataclass(frozen=True)
class Selection:
    """Which variables of a namespace to save.

    Attributes:
        variables: Names and patterns. An empty selection means every variable.
        exclude: Names and patterns to leave out.
        hidden: Names in the namespace that are not the user's variables.
    """

    variables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: Container[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether it selects the whole namespace."""
        return not self.variables and not self.exclude

    def of(self, namespace: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected variables of *namespace*. A hidden name is included if it was given explicitly.

        Raises:
            UsageError: There is no such variable, or no variable is left.
        """
        every = {
            name: value
            for name, value in dict(namespace).items()
            if name not in self.hidden and _is_variable(name)
        }
        chosen: dict[str, Any] = {}
        for typed in self.variables or ("*",):
            pattern = typed if typed in namespace else identifier(typed)
            if pattern in namespace:
                chosen[pattern] = namespace[pattern]
                continue
            matches = fnmatch.filter(every, pattern)
            if not matches and self.variables:
                raise UsageError(
                    f"there is no variable {pattern!r}. {suggestion(pattern, every)}Nothing was saved"
                )
            chosen |= {name: every[name] for name in matches}
        for pattern in self.exclude:
            for name in fnmatch.filter(list(chosen), identifier(pattern)):
                del chosen[name]
        if not chosen and self.variables:
            raise UsageError("every chosen variable is excluded, so there is nothing to save")
        return chosen


def _is_variable(name: Any) -> bool:
    if not isinstance(name, str):  # `globals()[1] = x` binds no variable
        return False
    return not (name.startswith("__") and name.endswith("__"))


def values_of(manifest: Manifest, patterns: Iterable[str]) -> list[str]:
    """Return the names of a checkpoint's values that match *patterns*. Without patterns, return all of them.

    Raises:
        NotFoundError: It has no such value. The message gives the reason if it is known.
    """
    here = [value.name for value in manifest.values]
    wanted: list[str] = []
    for typed in patterns:
        pattern = typed if typed in here else identifier(typed)
        matches = [pattern] if pattern in here else fnmatch.filter(here, pattern)
        if not matches:
            label = manifest.id[:SHORT]
            why = _why_skipped(manifest, pattern) or suggestion(pattern, here)
            raise NotFoundError(
                f"checkpoint {label} has no variable {pattern!r}. {why}See `%ckpt show {label}`"
            )
        wanted += matches
    return list(dict.fromkeys(wanted)) or here


def _why_skipped(manifest: Manifest, name: str) -> str:
    skipped = next((variable for variable in manifest.skipped if variable.name == name), None)
    return f"It was not saved ({skipped.path}: {skipped.reason}). " if skipped else ""
