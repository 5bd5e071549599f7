"""Mirror: a store and its experiments at another place too; once, or kept so in the background."""

from nbckpt.mirror.auto import PERIOD_S, AutoMirror, AutoStatus
from nbckpt.mirror.mirror import Mirror, Mirrored

__all__ = ["PERIOD_S", "AutoMirror", "AutoStatus", "Mirror", "Mirrored"]
