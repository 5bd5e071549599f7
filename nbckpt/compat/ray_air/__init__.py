"""Ray AIR: `from nbckpt.compat import ray_air as air` in place of `from ray import air` or `train`."""

from types import ModuleType

from nbckpt.compat.arguments import refused_names
from nbckpt.compat.ray_air import session
from nbckpt.compat.ray_air.checkpoint import Checkpoint
from nbckpt.compat.ray_air.session import get_checkpoint, report
from nbckpt.compat.settings import CheckpointConfig, FailureConfig, RunConfig, SyncConfig

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "RunConfig",
    "SyncConfig",
    "get_checkpoint",
    "get_context",
    "report",
    "session",
]


def get_context() -> ModuleType:
    """Return the object with `get_trial_id`, `get_trial_name` and the others."""
    return session


_ADVICE = "nbckpt trains with the code of your function: start its replicas with torchrun"

__getattr__ = refused_names(
    __name__,
    {
        "DatasetConfig": "load the data in the function",
        "Result": "import it from nbckpt.compat.ray_tune",
        **dict.fromkeys(("DataConfig", "ScalingConfig"), _ADVICE),
    },
)
