"""Ray's settings objects: `RunConfig`, `TuneConfig` and the others, checked when they are made."""

from __future__ import annotations

from typing import Any, ClassVar

from nbckpt.compat import arguments as table
from nbckpt.sync import SyncConfig as _SyncConfig


class Settings:
    """Settings by Ray's names. Each is an attribute too, None if it was not given.

    Raises:
        UsageError: There is no such setting, or it is refused. The message says what to use instead.
    """

    _names: ClassVar[set[str]]

    def __init__(self, **arguments: Any) -> None:
        self.arguments = table.checked(type(self).__name__, self._names, arguments)
        vars(self).update(dict.fromkeys(self._names) | arguments)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{type(self).__name__}({given})"


class CheckpointConfig(Settings):
    """Which checkpoints are made and kept."""

    _names = table.CHECKPOINT_CONFIG


class FailureConfig(Settings):
    """How often a failed trial is retried."""

    _names = table.FAILURE_CONFIG


class RunConfig(Settings):
    """The name, the place and the end of an experiment."""

    _names = table.RUN_CONFIG


class TuneConfig(Settings):
    """How configurations are drawn and compared."""

    _names = table.TUNE_CONFIG


def SyncConfig(**arguments: Any) -> _SyncConfig:  # noqa: N802  Ray's name
    """Return an `nbckpt.SyncConfig`.

    Raises:
        UsageError: There is no such setting, it is refused, or it is invalid.
    """
    given = table.checked("SyncConfig", table.SYNC_CONFIG, arguments)
    if "upload_dir" in given and arguments.get("syncer", "") is None:
        given["syncer"] = None
    return _SyncConfig(**given)
