"""SyncConfig: where trials are uploaded, and how often."""

from __future__ import annotations

from dataclasses import dataclass, fields

from nbckpt.errors import UsageError
from nbckpt.render import Column, Page, Result, Table
from nbckpt.store import check_no_secret, trimmed
from nbckpt.sync.background import DefaultSyncer
from nbckpt.sync.syncer import PERIOD_S, TIMEOUT_S, Syncer, checked_period, checked_timeout, seconds

AUTO = "auto"


@dataclass(frozen=True, repr=False)
class SyncConfig(Result):
    """The settings for uploads of trials: where they go, and how often.

    Attributes:
        upload_dir: A URL such as `s3://bucket/folder`; None uploads nothing.
        syncer: The uploader: "auto", a `Syncer` object of yours, or None for no uploads.
        sync_period: Seconds between two uploads; 0 for no pause.
        sync_timeout: Seconds after which a transfer is cancelled; None for no limit.
        sync_artifacts: Whether files that trials write beside their checkpoints are uploaded too.
        sync_on_checkpoint: Whether each checkpoint is uploaded at once, regardless of the period.

    Raises:
        UsageError: A setting is invalid, or two settings contradict each other.

    Examples:
        >>> config = nbckpt.SyncConfig("memory://runs", sync_period=60)
        >>> config.validate_upload_dir(), config.settings()[2]
        (True, ('sync_period', '60 s (1 min)'))
    """

    upload_dir: str | None = None
    syncer: str | Syncer | None = AUTO
    sync_period: float = PERIOD_S
    sync_timeout: float | None = TIMEOUT_S
    sync_artifacts: bool = True
    sync_on_checkpoint: bool = True

    def __post_init__(self) -> None:
        checked_period("sync_period", self.sync_period)
        checked_timeout("sync_timeout", self.sync_timeout)
        check_no_secret(str(self.upload_dir or ""), "the experiment's file")
        if self.upload_dir and self.syncer is None:
            raise UsageError(
                f"upload_dir={self.upload_dir!r} needs a syncer: leave syncer out for the usual one"
            )
        if not self.upload_dir and isinstance(self.syncer, Syncer):
            raise UsageError(
                f"syncer={self.syncer!r} needs an upload_dir, a URL such as 's3://bucket/folder'"
            )

    def validate_upload_dir(self) -> bool:
        """Return True if the syncer supports `upload_dir`, judged by the URL alone. Makes no request.

        Raises:
            UsageError: The syncer does not support it. The message says what to write or to install.
        """
        if not self.upload_dir:
            return True
        of = self.syncer if isinstance(self.syncer, Syncer) else Syncer
        answer: bool | None = of.validate_upload_dir(self.upload_dir)
        return answer is None or bool(answer)  # some users' syncers return None for yes

    def page(self) -> Page:
        """See `Result.page`."""
        columns = (Column("setting", code=True), Column("value"))
        return Page("SyncConfig", (Table("settings", columns, self.settings()),))

    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return the name of each setting and its value as text."""
        return tuple((field.name, self._words(field.name)) for field in fields(self))

    def _words(self, name: str) -> str:
        value = getattr(self, name)
        if name in {"sync_period", "sync_timeout"}:
            return seconds(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "none" if value is None else str(value)


def get_node_to_storage_syncer(config: SyncConfig) -> Syncer | None:
    """Return the syncer that uploads folders to `config.upload_dir`, or None if there is none.

    Raises:
        UsageError: `config.syncer` is not a syncer.

    Examples:
        >>> nbckpt.sync.get_node_to_storage_syncer(nbckpt.SyncConfig("memory://runs"))
        DefaultSyncer(sync_period=300)
    """
    if config.syncer is None or not config.upload_dir:
        return None
    if config.syncer == AUTO:
        return DefaultSyncer(config.sync_period, config.sync_timeout)
    if isinstance(config.syncer, Syncer):
        return config.syncer
    raise UsageError(f"syncer={config.syncer!r} is not a syncer: give {AUTO!r}, None or a nbckpt.sync.Syncer")


def url_of(config: SyncConfig, name: str) -> str:
    """Return the URL of the folder *name* below `upload_dir`."""
    return f"{trimmed(config.upload_dir or '')}/{name}"
