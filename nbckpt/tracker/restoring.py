"""Restoring: the steps of one restore, from the values of a checkpoint to the bindings of a namespace."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from nbckpt.cells.key import have_equal_code
from nbckpt.core import environment
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Progress
from nbckpt.core.references import SHORT, Entry
from nbckpt.core.resolving import fallbacks
from nbckpt.core.selection import values_of
from nbckpt.core.values.classes import Classes, Origin
from nbckpt.core.values.loading import Failure, load_values
from nbckpt.core.values.placement import restoring_to
from nbckpt.core.verify import verify
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.states.snapshot import is_state, snapshots
from nbckpt.tracker.binding import GONE, Binder
from nbckpt.tracker.comparing import LiveValues
from nbckpt.tracker.results import Restored


def newest_whole(history: History, ref: str) -> tuple[str, str]:
    """Return *ref* and "" if its checkpoint is whole; or else the newest whole one of its name, and why.

    Each checkpoint is read and checked before it is chosen.

    Raises:
        NotFoundError: There is no such checkpoint, and no other version of its name.
        CorruptError: No version is whole.
    """
    problem, cause = "", None
    try:
        problem = _problem(history, history.resolve(ref))
    except NotFoundError as error:
        problem, cause = str(error), error
    if not problem:
        return ref, ""
    for other, entry in fallbacks(history, ref):
        if not _problem(history, entry):
            shown = entry.id[:SHORT] if other == entry.id else other
            return other, f"{problem}. Restored {shown}, the newest whole one, instead of {ref}."
    raise cause or CorruptError(f"{ref} is damaged, and no other version of it is whole: {problem}")


def _problem(history: History, entry: Entry) -> str:
    """Return the damage of a checkpoint; "" if it is whole."""
    damages = verify(history, [entry]).damages
    return damages[0].problem if damages else ""


class Restore:
    """One restore of a checkpoint into a namespace.

    Args:
        manifest: The checkpoint.
        namespace: The dict to restore into.
        names: Restore only these; patterns too. By default all.
        prefix: A prefix for every name.

    Attributes:
        is_whole: Whether all values are restored under their own names.

    Raises:
        NotFoundError: The checkpoint has no such variable.
    """

    def __init__(
        self, manifest: Manifest, namespace: dict[str, Any], names: tuple[str, ...], prefix: str
    ) -> None:
        self._manifest = manifest
        self._namespace = namespace
        self._prefix = prefix
        self._wanted = [name for name in values_of(manifest, names) if not (prefix and is_state(name))]
        self._differing: tuple[str, ...] = ()
        self.is_whole = not names and not prefix
        self._gone = [name for name in manifest.deleted if name in namespace] if self.is_whole else []

    def foresee(self, hidden: Container[str], live_values: LiveValues) -> dict[str, str]:
        """Return the change that the restore would make to each name."""
        names = {name: self._prefix + name for name in self._wanted}
        live = {
            name: self._namespace[bound]
            for name, bound in names.items()
            if bound in self._namespace and name not in hidden
        }
        if any(map(is_state, names)):
            live |= snapshots()
        values = live_values(live, self._namespace)

        def change(name: str, bound: str) -> str:
            if bound not in self._namespace and name not in live:
                return "new"
            value = self._manifest.find(name)
            return "same" if name in values and value and value.digest == values[name].digest else "changed"

        changes = {
            bound: change(name, bound) for name, bound in names.items() if name not in environment.NAMES
        }
        return changes | dict.fromkeys(self._gone, "removed")

    def load(
        self,
        reader: Reader,
        *,
        verify: bool,
        progress: Progress | None,
        device: str = "",
        live: Mapping[str, type] = MappingProxyType({}),
    ) -> tuple[dict[str, Any], list[Failure]]:
        """Load the values. Return them by name, and the values that cannot be loaded.

        Args:
            reader: Reads the packs.
            verify: Whether to check arrays now.
            progress: Called now and then.
            device: Where the tensors go; see `Tracker.restore`.
            live: Live classes by the numbers of the saved ones, which are equal.

        Raises:
            UsageError: There is no such *device*.
        """
        origin: Origin = "new" if self._has_class() else "live"
        are_equal = partial(have_equal_code, self._namespace) if origin == "live" else None
        classes = Classes(origin, self._namespace, are_equal=are_equal)
        classes.take(live)
        with restoring_to(device):
            loaded = load_values(
                self._manifest,
                reader,
                self._wanted,
                self._namespace,
                classes=classes,
                verify=verify,
                progress=progress,
            )
        if origin == "live":
            self._differing = tuple(sorted(set(classes.differing)))
        return loaded

    def _has_class(self) -> bool:
        """Tell whether a class itself is loaded. Then instances get the saved classes, not the live ones."""
        wanted = set(self._wanted)
        return any(value.preview.get("class") for value in self._manifest.values if value.name in wanted)

    def bind(self, binder: Binder, loaded: dict[str, Any], failed: list[Failure]) -> dict[str, str]:
        """Bind the loaded values. Return the change of each name; add failures to *failed*."""
        settings = {name: loaded.pop(name) for name in environment.NAMES & loaded.keys()}
        values = {name if is_state(name) else self._prefix + name: value for name, value in loaded.items()}
        values |= dict.fromkeys(self._gone, GONE)
        action = f"restore of {self._manifest.id[:SHORT]}"
        return binder.bind(values, settings, self._namespace, action, failed)

    def result(
        self,
        changes: dict[str, str],
        failed: tuple[Failure, ...],
        started: float,
        note: str = "",
        *,
        dry_run: bool = False,
    ) -> Restored:
        """Return the result of the restore, or of its dry run."""
        manifest, names = self._manifest, set(self._wanted)
        groups = {value.group for value in manifest.values if value.name in names}
        groups -= {at for at, group in enumerate(manifest.groups) if group.separate}
        apart = tuple(
            value.name for value in manifest.values if value.group in groups and value.name not in names
        )
        torn = tuple(value.name for value in manifest.values if value.changed and value.name in names)
        return Restored(
            manifest,
            changes,
            failed,
            apart,
            time.perf_counter() - started,
            dry_run,
            torn,
            note,
            self._differing,
        )
