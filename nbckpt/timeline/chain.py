"""Chain: the manifests of the last points, so that a step back or forward lists and reads nothing.

See docs/decisions/0104.
"""

from __future__ import annotations

from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import Entry, Kind

_MOST = 16
_KINDS: tuple[Kind, ...] = ("checkpoints", "points")


class Chain:
    """The newest manifests that one kernel made or went to. Only one thread at a time may use it.

    Args:
        history: The checkpoints of the store.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._kept: dict[str, Manifest] = {}  # the least recently used first

    def keep(self, manifest: Manifest) -> None:
        """Remember a manifest that the store has."""
        self._kept.pop(manifest.id, None)
        self._kept[manifest.id] = manifest
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def get(self, target: str) -> Manifest | None:
        """Return the point or checkpoint with this id, or None if the store has it no more.

        Raises:
            CorruptError: Its manifest is damaged.
        """
        manifest = self._kept.get(target)
        # Another kernel may have removed it. What it names is checked when it is read.
        if manifest is None or not self._history.store.exists(Entry.of(manifest, "points").key):
            entries = {entry.id: entry for entry in self._history.living(_KINDS)}
            entry = entries.get(target)
            manifest = self._history.read(entry) if entry else None
        if manifest is not None:
            self.keep(manifest)
        return manifest
