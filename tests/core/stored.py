"""Stores in tests: random values, saves and restores, and damage."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbckpt.core.gc import Collected, collect
from nbckpt.store import Store
from nbckpt.tracker import Tracker

KB, MB = 1 << 10, 1 << 20


def noise(size: int, seed: int = 0) -> np.ndarray:
    """Return random bytes, which nothing compresses."""
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def save(store: Store, namespace: dict[str, Any], name: str = "s") -> None:
    """Save these values alone."""
    Tracker(store).save(namespace, name, variables=list(namespace))


def restored(store: Store, ref: str = "latest") -> dict[str, Any]:
    """Return the values of a checkpoint, all of which can be restored."""
    namespace: dict[str, Any] = {}
    assert Tracker(store).restore(ref, namespace).failed == ()
    return namespace


def collected(store: Store, **options: Any) -> Collected:
    """Collect garbage, without the wait for saves that run."""
    return collect(Tracker(store).history, wait=lambda _: None, **options)


def flip(store: Store, key: str, at: int) -> None:
    """Flip a bit of the byte at this place."""
    data = bytearray(store.get(key))
    data[at] ^= 1
    store.put(key, bytes(data))


def pack_with(store: Store, array: np.ndarray) -> tuple[str, int]:
    """Return the key of the pack that has an array, and where in it."""
    for key in list(store.keys("packs/")):
        if (at := store.get(key).find(array.tobytes()[:64])) >= 0:
            return key, at
    raise AssertionError("no pack has it")
