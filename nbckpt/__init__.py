"""nbckpt: an experiment tracker that lives in the notebook.

    %load_ext nbckpt
    %ckpt save cleaned df model -m "after cleaning"
    %ckpt restore cleaned

The names of this module are those that a first program needs. The others are in namespaces, which need no
import of their own: `nbckpt.trials` (callbacks, retention, executors, searches, classes to train),
`nbckpt.states`, `nbckpt.sync`, `nbckpt.store`, `nbckpt.media`, `nbckpt.errors`, `nbckpt.settings`,
`nbckpt.notebook` and `nbckpt.testing`.

Importing this module costs next to nothing: its names and namespaces are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbckpt import errors as errors
    from nbckpt import media as media
    from nbckpt import mirror as mirror
    from nbckpt import notebook as notebook
    from nbckpt import settings as settings
    from nbckpt import states as states
    from nbckpt import store as store
    from nbckpt import sync as sync
    from nbckpt import testing as testing
    from nbckpt import tracker as tracker
    from nbckpt import trials as trials
    from nbckpt.core.checkpoint import Checkpoint as Checkpoint
    from nbckpt.errors import NbckptError as NbckptError
    from nbckpt.errors import NotFoundError as NotFoundError
    from nbckpt.errors import UsageError as UsageError
    from nbckpt.mirror.experiments import open_experiment as open_experiment
    from nbckpt.mirror.find import find_trials as find_trials
    from nbckpt.provenance.inputs import data as data
    from nbckpt.states import State as State
    from nbckpt.states import load_state as load_state
    from nbckpt.states import save_all_states as save_all_states
    from nbckpt.sync.config import SyncConfig as SyncConfig
    from nbckpt.tracker import Tracker as Tracker
    from nbckpt.trials.engine.experiment import Experiment as Experiment
    from nbckpt.trials.model.space import choice as choice
    from nbckpt.trials.model.space import grid_search as grid_search
    from nbckpt.trials.model.space import lograndint as lograndint
    from nbckpt.trials.model.space import loguniform as loguniform
    from nbckpt.trials.model.space import quniform as quniform
    from nbckpt.trials.model.space import randint as randint
    from nbckpt.trials.model.space import sample_from as sample_from
    from nbckpt.trials.model.space import uniform as uniform
    from nbckpt.trials.model.trial import Trial as Trial
    from nbckpt.trials.run import run as run
    from nbckpt.trials.track import track as track
    from nbckpt.trials.training.session import get_checkpoint as get_checkpoint
    from nbckpt.trials.training.session import get_context as get_context
    from nbckpt.trials.training.session import report as report
    from nbckpt.trials.training.session import should_checkpoint as should_checkpoint

__version__ = "0.1.0"

_HOMES = {
    "run": "nbckpt.trials.run",
    "open_experiment": "nbckpt.mirror.experiments",
    "find_trials": "nbckpt.mirror.find",
    "track": "nbckpt.trials.track",
    "report": "nbckpt.trials.training.session",
    "get_checkpoint": "nbckpt.trials.training.session",
    "should_checkpoint": "nbckpt.trials.training.session",
    "get_context": "nbckpt.trials.training.session",
    "Experiment": "nbckpt.trials.engine.experiment",
    "Trial": "nbckpt.trials.model.trial",
    "grid_search": "nbckpt.trials.model.space",
    "choice": "nbckpt.trials.model.space",
    "uniform": "nbckpt.trials.model.space",
    "lograndint": "nbckpt.trials.model.space",
    "loguniform": "nbckpt.trials.model.space",
    "quniform": "nbckpt.trials.model.space",
    "randint": "nbckpt.trials.model.space",
    "sample_from": "nbckpt.trials.model.space",
    "Checkpoint": "nbckpt.core.checkpoint",
    "Tracker": "nbckpt.tracker",
    "State": "nbckpt.states",
    "load_state": "nbckpt.states",
    "save_all_states": "nbckpt.states",
    "SyncConfig": "nbckpt.sync.config",
    "data": "nbckpt.provenance.inputs",
    "NbckptError": "nbckpt.errors",
    "UsageError": "nbckpt.errors",
    "NotFoundError": "nbckpt.errors",
}
_DEFINED = ("load_ipython_extension", "unload_ipython_extension")
_NAMESPACES = (
    "errors",
    "media",
    "mirror",
    "notebook",
    "settings",
    "states",
    "store",
    "sync",
    "testing",
    "tracker",
    "trials",
)
_MOVED = {
    "state": "nbckpt.states",
    "RandomState": "nbckpt.states.RandomState",
    "states_checkpoint": "nbckpt.states.states_checkpoint",
    "save_state": "nbckpt.states.save_state",
    "save_on_signal": "nbckpt.states.save_on_signal",
    "should_stop": "nbckpt.states.should_stop",
    "save_and_exit": "nbckpt.states.save_and_exit",
    "replica": "nbckpt.states.replica",
    "Syncer": "nbckpt.sync.Syncer",
    "SyncerCallback": "nbckpt.trials.SyncerCallback",
    "RetentionPolicy": "nbckpt.trials.RetentionPolicy",
    "Callback": "nbckpt.trials.Callback",
    "DurableTrainable": "nbckpt.trials.DurableTrainable",
    "durable": "nbckpt.trials.durable",
    "wrap_function": "nbckpt.trials.wrap_function",
    "checkpoint_dir": "nbckpt.trials.checkpoint_dir",
    "Trainable": "nbckpt.trials.Trainable",
    "CodecError": "nbckpt.errors.CodecError",
    "CorruptError": "nbckpt.errors.CorruptError",
    "FormatError": "nbckpt.errors.FormatError",
    "RefusedError": "nbckpt.errors.RefusedError",
    "StoreError": "nbckpt.errors.StoreError",
    "TrialError": "nbckpt.errors.TrialError",
    "UntrustedError": "nbckpt.errors.UntrustedError",
    "Settings": "nbckpt.settings.Settings",
    "panel": "nbckpt.notebook.panel",
    "FILES": "nbckpt.Checkpoint.FILES",
}


if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(
        __name__, _HOMES, defined=_DEFINED, namespaces=_NAMESPACES, moved=_MOVED
    )


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%ckpt` available; called by `%load_ext nbckpt`."""
    from nbckpt.notebook.magic import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take `%ckpt` away again; called by `%unload_ext nbckpt`."""
    from nbckpt.notebook.magic import unload

    unload(shell)
