"""nbckpt: an experiment tracker that lives in the notebook.

    %load_ext nbckpt
    %ckpt save cleaned df model -m "after cleaning"
    %ckpt restore cleaned

Importing this module costs next to nothing: the names below are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import getter

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbckpt import states as states
    from nbckpt.core.checkpoint import Checkpoint as Checkpoint
    from nbckpt.core.files import FILES as FILES
    from nbckpt.errors import CodecError as CodecError
    from nbckpt.errors import CorruptError as CorruptError
    from nbckpt.errors import FormatError as FormatError
    from nbckpt.errors import NbckptError as NbckptError
    from nbckpt.errors import NotFoundError as NotFoundError
    from nbckpt.errors import RefusedError as RefusedError
    from nbckpt.errors import StoreError as StoreError
    from nbckpt.errors import TrialError as TrialError
    from nbckpt.errors import UntrustedError as UntrustedError
    from nbckpt.errors import UsageError as UsageError
    from nbckpt.notebook.magic import panel as panel
    from nbckpt.settings import Settings as Settings
    from nbckpt.states import RandomState as RandomState
    from nbckpt.states import State as State
    from nbckpt.states import load_state as load_state
    from nbckpt.states import replica as replica
    from nbckpt.states import save_all_states as save_all_states
    from nbckpt.states import save_and_exit as save_and_exit
    from nbckpt.states import save_on_signal as save_on_signal
    from nbckpt.states import save_state as save_state
    from nbckpt.states import should_stop as should_stop
    from nbckpt.states import states_checkpoint as states_checkpoint
    from nbckpt.sync.config import SyncConfig as SyncConfig
    from nbckpt.sync.syncer import Syncer as Syncer
    from nbckpt.tracker import Tracker as Tracker
    from nbckpt.trials.engine.upload import SyncerCallback as SyncerCallback
    from nbckpt.trials.model.callback import Callback as Callback
    from nbckpt.trials.model.retention import RetentionPolicy as RetentionPolicy
    from nbckpt.trials.model.space import choice as choice
    from nbckpt.trials.model.space import grid_search as grid_search
    from nbckpt.trials.model.space import loguniform as loguniform
    from nbckpt.trials.model.space import randint as randint
    from nbckpt.trials.model.space import sample_from as sample_from
    from nbckpt.trials.model.space import uniform as uniform
    from nbckpt.trials.run import run as run
    from nbckpt.trials.training.durable import DurableTrainable as DurableTrainable
    from nbckpt.trials.training.durable import durable as durable
    from nbckpt.trials.training.function import wrap_function as wrap_function
    from nbckpt.trials.training.session import checkpoint_dir as checkpoint_dir
    from nbckpt.trials.training.session import get_checkpoint as get_checkpoint
    from nbckpt.trials.training.session import get_context as get_context
    from nbckpt.trials.training.session import report as report
    from nbckpt.trials.training.session import should_checkpoint as should_checkpoint
    from nbckpt.trials.training.trainable import Trainable as Trainable

__version__ = "0.1.0"

_HOMES = {
    "run": "nbckpt.trials.run",
    "report": "nbckpt.trials.training.session",
    "get_checkpoint": "nbckpt.trials.training.session",
    "get_context": "nbckpt.trials.training.session",
    "checkpoint_dir": "nbckpt.trials.training.session",
    "should_checkpoint": "nbckpt.trials.training.session",
    "Trainable": "nbckpt.trials.training.trainable",
    "DurableTrainable": "nbckpt.trials.training.durable",
    "durable": "nbckpt.trials.training.durable",
    "wrap_function": "nbckpt.trials.training.function",
    "grid_search": "nbckpt.trials.model.space",
    "choice": "nbckpt.trials.model.space",
    "uniform": "nbckpt.trials.model.space",
    "loguniform": "nbckpt.trials.model.space",
    "randint": "nbckpt.trials.model.space",
    "sample_from": "nbckpt.trials.model.space",
    "panel": "nbckpt.notebook.magic",
    "State": "nbckpt.states",
    "RandomState": "nbckpt.states",
    "states_checkpoint": "nbckpt.states",
    "load_state": "nbckpt.states",
    "save_state": "nbckpt.states",
    "save_all_states": "nbckpt.states",
    "save_on_signal": "nbckpt.states",
    "should_stop": "nbckpt.states",
    "save_and_exit": "nbckpt.states",
    "replica": "nbckpt.states",
    "SyncConfig": "nbckpt.sync.config",
    "Syncer": "nbckpt.sync.syncer",
    "RetentionPolicy": "nbckpt.trials.model.retention",
    "Callback": "nbckpt.trials.model.callback",
    "SyncerCallback": "nbckpt.trials.engine.upload",
    "TrialError": "nbckpt.errors",
    "FILES": "nbckpt.core.files",
    "Checkpoint": "nbckpt.core.checkpoint",
    "CodecError": "nbckpt.errors",
    "CorruptError": "nbckpt.errors",
    "FormatError": "nbckpt.errors",
    "NbckptError": "nbckpt.errors",
    "NotFoundError": "nbckpt.errors",
    "Settings": "nbckpt.settings",
    "RefusedError": "nbckpt.errors",
    "StoreError": "nbckpt.errors",
    "Tracker": "nbckpt.tracker",
    "UntrustedError": "nbckpt.errors",
    "UsageError": "nbckpt.errors",
}

_NAMESPACES = ("states",)
_MOVED = {"state": "nbckpt.states"}

__all__ = [*_HOMES, "load_ipython_extension", "unload_ipython_extension"]

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__ = getter(__name__, _HOMES, namespaces=_NAMESPACES, moved=_MOVED)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%ckpt` available; called by `%load_ext nbckpt`."""
    from nbckpt.notebook.magic import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take `%ckpt` away again; called by `%unload_ext nbckpt`."""
    from nbckpt.notebook.magic import unload

    unload(shell)
