"""Search: the sources of configurations."""

from nbckpt.trials.search.base import Search
from nbckpt.trials.search.sampler import OptunaSampler

__all__ = ["OptunaSampler", "Search"]
