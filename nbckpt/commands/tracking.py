"""track: open a trial for the code of the next cells."""

from __future__ import annotations

from typing import Annotated

from nbckpt.commands import values
from nbckpt.commands.options import Metric, Mode, Word
from nbckpt.commands.table import Session
from nbckpt.sync import SyncConfig
from nbckpt.trials.engine.open_trial import OpenTrial
from nbckpt.trials.track import track as open_trial


def track(
    session: Session,
    name: Annotated[str, Word("EXP", "experiment")],
    *config: Annotated[str, Word("k=v")],
    resume: bool = False,
    keep: Annotated[int, Word("N")] | None = None,
    sync: Annotated[str, Word("URL")] = "",
    metric: Metric = "",
    mode: Mode = "",
) -> OpenTrial:
    """Open a trial, to which the code of the next cells reports.

    %%ckpt track runs its cell as the trial, which ends with the cell.

    Args:
        name: The experiment that the trial belongs to.
        config: The configuration: Python literals or names of variables.
        resume: Continue the newest trial that was paused or interrupted.
        keep: Keep N checkpoints of the trial; by default all.
        sync: Also upload the trial to URL while it is open.
    """
    namespace = session.live("track")
    return open_trial(
        name,
        values.assignments(config, namespace),
        resume=resume,
        keep_checkpoints=keep,
        metric=metric,
        mode=mode,
        folder=session.library.folder,
        sync_config=SyncConfig(upload_dir=sync) if sync else None,
    )
