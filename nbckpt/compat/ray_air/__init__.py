"""Ray AIR: `from nbckpt.compat.ray_air import Checkpoint, session` in place of `ray.air`."""

from nbckpt.compat.ray_air import session
from nbckpt.compat.ray_air.checkpoint import Checkpoint

__all__ = ["Checkpoint", "session"]
