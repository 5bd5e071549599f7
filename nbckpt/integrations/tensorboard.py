"""TensorBoardCallback: show an experiment in TensorBoard while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from sys import float_info
from typing import TYPE_CHECKING, Any

from nbckpt.errors import NbckptError, UsageError
from nbckpt.integrations.flat import flat, numbers
from nbckpt.media.png import dimensions
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.trial import Trial, state_of

if TYPE_CHECKING:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter


_FLUSH_S = 2


class TensorBoardCallback(Callback):
    """Write the reported numbers and images and the configurations of trials for TensorBoard.

    Each trial has a folder `EXPERIMENT/TRIAL`. It holds a scalar for each number, and the images and figures,
    with the trial's iteration as their step, and the configuration as hyperparameters. A trial that resumes
    from a checkpoint continues in the same folder; repeated steps replace the former ones.

    Args:
        logdir: The folder for `tensorboard --logdir`.

    Raises:
        UsageError: TensorBoard is not installed.
    """

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        try:
            import tensorboard  # noqa: F401  fail now rather than when trials run
        except ImportError:
            raise UsageError(
                "TensorBoardCallback needs TensorBoard: pip install 'nbckpt[tensorboard]'"
            ) from None
        self.logdir = Path(logdir).absolute()
        self._writers: dict[Path, EventFileWriter] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open writers."""
        return {**vars(self), "_writers": {}}

    def on_trial_start(self, trial: Trial) -> None:
        """See `Callback.on_trial_start`."""
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._close(trial)
        folder = self.logdir / trial.folder.parent.name / trial.id
        self._writers[trial.folder] = EventFileWriter(str(folder), flush_secs=_FLUSH_S)
        # Makes TensorBoard drop the former values of steps that the trial repeats.
        self._write(trial, step=trial.iteration + 1, session_log=SessionLog(status=SessionLog.START))
        config = flat(trial.config).items()
        params = {key: _param(value) for key, value in config}
        self._write(trial, summary=hparams_pb(params, trial_id=trial.id, start_time_secs=trial.started_at))

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `Callback.on_trial_result`."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=number) for name, number in numbers(result).items()]
        self._write(trial, step=trial.iteration, summary=Summary(value=[*values, *_images(trial)]))

    def on_trial_complete(self, trial: Trial) -> None:
        """See `Callback.on_trial_complete`."""
        self._close(trial)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`."""
        self._close(trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`."""
        for trial in trials:
            self._close(trial)

    def _write(self, trial: Trial, **event: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writers[trial.folder].add_event(Event(wall_time=time.time(), **event))

    def _close(self, trial: Trial) -> None:
        writer = self._writers.pop(trial.folder, None)
        if writer is not None:
            writer.close()


def _param(value: Any) -> float | str:
    """Return a value of a configuration as TensorBoard takes it: an integer that no float holds is a text."""
    is_kept = isinstance(value, (float, str)) or (isinstance(value, int) and abs(value) <= float_info.max)
    return value if is_kept else str(value)


def _images(trial: Trial) -> Iterator[Any]:
    """Yield the images and figures of the newest result. One that cannot be read is left out."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    newest = [media.newest for media in state_of(trial).media.values()][::-1]
    for media in takewhile(lambda media: media.step == trial.iteration, newest):
        if media.type in {"image", "figure"}:
            with suppress(NbckptError):  # `verify` reports the damage
                data = media.read()
                width, height = dimensions(data) or (0, 0)
                image = Summary.Image(encoded_image_string=data, width=width, height=height)
                yield Summary.Value(tag=media.name, image=image)
