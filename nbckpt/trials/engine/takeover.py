"""Takeover: a trial goes on from a checkpoint of another one; see docs/decisions/0108."""

from __future__ import annotations

from dataclasses import replace

from nbckpt.core.manifest import now
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.copying import copy_into
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.listing import trial_names
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.scheduling import GENERATION, Takeover
from nbckpt.trials.model.trial import Trial, state_of


def take_over(recorder: TrialRecorder, own: CheckpointFolder) -> None:
    """Replace the trial's newest checkpoint with a copy of the other trial's, as the scheduler decided.

    The copy has the counts of the trial. If the other checkpoint is gone or damaged, the trial goes on
    from its own, with its own configuration, and its journal says why.

    Raises:
        StoreError: The disk or the remote storage failed. The trial's own checkpoint is whole, and the next
            start tries again.
    """
    # The order: the decision is in the journal, then comes the copy, then the event that tells of the copy
    # and changes the configuration. After a crash behind the decision, the next start copies. After a crash
    # in the middle of the copy, `sweep` has brought the trial's own checkpoint back. After a crash behind the
    # copy, the next start copies once more: the trial has not trained since.
    trial = recorder.trial
    takeover = state_of(trial).scheduling.takeover
    assert takeover is not None
    try:
        made, donor = _copied(trial, own, takeover)
    except (CorruptError, FormatError, NotFoundError) as error:
        rung = state_of(trial).scheduling.promoted - 1
        why = f"it goes on as it is, since {takeover.donor} cannot be copied: {error}"
        reason = f"{GENERATION}{rung + 1}: {why}"
        recorder.decided(Decision("promote", reason, None if rung < 0 else rung))
    else:
        recorder.taken_over(made, donor)


def _copied(trial: Trial, own: CheckpointFolder, takeover: Takeover) -> tuple[Record, str]:
    """Copy the checkpoint that was decided on. If it was removed since, copy the newest of the same trial."""
    experiment = trial.folder.parent
    if takeover.donor not in trial_names(experiment):  # a journal of somebody else may name any path
        raise NotFoundError(f"{experiment.name!r} has no trial {takeover.donor!r}")
    if link_outside(experiment, takeover.donor):
        raise CorruptError(f"{experiment / takeover.donor} is not read: {OUTSIDE}")
    source = CheckpointFolder(experiment / takeover.donor)
    target = replace(own.read(trial.checkpoint_name or ""), created_at=now())
    tried = [takeover.checkpoint]
    while True:  # each name comes once
        try:
            record = source.read(tried[-1])
            return copy_into(own, target, source, record), f"{takeover.donor}@{record.step}"
        except (CorruptError, NotFoundError):  # such as removed by its retention, while it trains on
            others = [record.name for record in source.records() if record.name not in tried]
            if not others:
                raise
            tried.append(others[-1])
