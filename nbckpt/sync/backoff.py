"""Backoff: the pauses between attempts. They grow, and a part of each is random."""

from __future__ import annotations

from random import SystemRandom

# Not the generator of `random`, which is the user's: a retry in the background would change the numbers that
# a notebook draws next.
_own = SystemRandom()


def backoff(failures: int, longest: float, first: float = 5.0) -> float:
    """Return the seconds to wait after a number of failures in a row: growing, and never the same."""
    return min(longest, first * 2.0 ** min(failures, 20)) * _own.uniform(0.5, 1)


def jitter(longest: float) -> float:
    """Return a random number of seconds, at most *longest*."""
    return _own.uniform(0, longest)
