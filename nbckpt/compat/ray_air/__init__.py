"""Ray AIR: `from nbckpt.compat import ray_air as air` in place of `from ray import air` or `train`."""

from types import ModuleType

from nbckpt.compat.arguments import refused_names
from nbckpt.compat.ray_air import session
from nbckpt.compat.ray_air.checkpoint import Checkpoint
from nbckpt.compat.ray_air.session import get_checkpoint, report
from nbckpt.compat.settings import CheckpointConfig, FailureConfig, RunConfig

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "RunConfig",
    "get_checkpoint",
    "get_context",
    "report",
    "session",
]


def get_context() -> ModuleType:
    """Return the object with `get_trial_id`, `get_trial_name` and the others."""
    return session


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            "DatasetConfig",
            "ScalingConfig",
            "Result",
        ),
        "nbckpt trains with the code of your function: start its replicas with torchrun",
    ),
)
