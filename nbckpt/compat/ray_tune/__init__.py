"""Ray Tune: `from nbckpt.compat import ray_tune as tune` in place of `from ray import tune`.

The function API of 1.0 (`run`, `report`, `checkpoint_dir`) and that of 2.x (`Tuner`, `session`).
"""

from nbckpt.compat.arguments import REFUSED, refused_names
from nbckpt.compat.ray_air import Checkpoint, get_checkpoint, get_context, session
from nbckpt.compat.ray_tune import schedulers, search
from nbckpt.compat.ray_tune.analysis import ExperimentAnalysis
from nbckpt.compat.ray_tune.callbacks import Callback
from nbckpt.compat.ray_tune.function_api import (
    checkpoint_dir,
    get_trial_dir,
    get_trial_id,
    get_trial_name,
    is_session_enabled,
    report,
)
from nbckpt.compat.ray_tune.results import Result, ResultGrid
from nbckpt.compat.ray_tune.running import Tuner, register_trainable, run, with_resources
from nbckpt.compat.ray_tune.space import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from nbckpt.compat.ray_tune.stopper import Stopper
from nbckpt.compat.ray_tune.trainable import DurableTrainable, Trainable, durable
from nbckpt.compat.settings import CheckpointConfig, FailureConfig, RunConfig, SyncConfig, TuneConfig
from nbckpt.errors import TrialError as TuneError
from nbckpt.sync.config import get_node_to_storage_syncer
from nbckpt.sync.syncer import Syncer
from nbckpt.trials.training.parameters import with_parameters

Analysis = ExperimentAnalysis

__all__ = [
    "Analysis",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "DurableTrainable",
    "ExperimentAnalysis",
    "FailureConfig",
    "Result",
    "ResultGrid",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Syncer",
    "Trainable",
    "TuneConfig",
    "TuneError",
    "Tuner",
    "checkpoint_dir",
    "choice",
    "durable",
    "get_checkpoint",
    "get_context",
    "get_node_to_storage_syncer",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "grid_search",
    "is_session_enabled",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_trainable",
    "report",
    "run",
    "sample_from",
    "schedulers",
    "search",
    "session",
    "uniform",
    "with_parameters",
    "with_resources",
]

__getattr__ = refused_names(
    __name__,
    {
        "CLIReporter": REFUSED["progress_reporter"],
        "JupyterNotebookReporter": REFUSED["progress_reporter"],
        "Experiment": "call tune.run() for each experiment",
        "run_experiments": "call tune.run() for each experiment",
        "PlacementGroupFactory": "give a dict such as {'cpu': 2}",
        "ResumeConfig": REFUSED["resume_config"],
        "create_scheduler": schedulers.FIFOScheduler.ADVICE,
        "create_searcher": search.ADVICE,
    },
)
