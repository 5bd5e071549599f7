"""Seeds: the states of the random generators of random, numpy and torch, as JSON.

They say where the generators stand when a trial starts. No generator is started for that, and CUDA is not.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from sys import modules
from typing import Any

STATES = ("random", "numpy", "torch", "torch.cuda")


def read_seeds() -> dict[str, Any]:
    """Return the states of the generators of the imported libraries, by the names of `STATES`."""
    states: dict[str, Any] = {}
    if random := modules.get("random"):
        version, words, gauss = random.getstate()
        states["random"] = [version, _text(words), gauss]
    if numpy := modules.get("numpy"):
        name, words, at, has_gauss, gauss = numpy.random.get_state()
        if name == "MT19937":
            states["numpy"] = [[int(at), int(has_gauss), float(gauss)], _text(words.tolist())]
    if torch := modules.get("torch"):
        states["torch"] = _bytes(torch.get_rng_state())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["torch.cuda"] = [_bytes(state) for state in torch.cuda.get_rng_state_all()]
    return states


def write_seeds(states: Mapping[str, Any]) -> list[str]:
    """Set the generators to states that `read_seeds` returned. Return the names of those that were set.

    Libraries that are not installed, and states of another form, are left out.
    """
    done = []
    for name in STATES:
        if name in states:
            try:
                _WRITERS[name](states[name])
            except Exception:  # noqa: BLE001  a state may come from anybody, and a library rejects it
                continue
            done.append(name)
    return done


def _text(words: Any) -> str:
    return base64.b64encode(b"".join(word.to_bytes(4, "little") for word in words)).decode()


def _words(text: str) -> list[int]:
    data = base64.b64decode(text, validate=True)
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def _bytes(tensor: Any) -> str:
    return base64.b64encode(bytes(tensor.tolist())).decode()


def _tensor(text: str) -> Any:
    import torch

    return torch.tensor(list(base64.b64decode(text, validate=True)), dtype=torch.uint8)


def _write_random(state: Any) -> None:
    import random

    version, words, gauss = state
    random.setstate((version, tuple(_words(words)), gauss))


def _write_numpy(state: Any) -> None:
    import numpy as np

    (at, has_gauss, gauss), words = state
    np.random.set_state(("MT19937", np.array(_words(words), dtype=np.uint32), at, has_gauss, gauss))


def _write_torch(state: Any) -> None:
    import torch

    torch.set_rng_state(_tensor(state))


def _write_cuda(state: Any) -> None:
    import torch

    torch.cuda.set_rng_state_all([_tensor(text) for text in state])


_WRITERS = {"random": _write_random, "numpy": _write_numpy, "torch": _write_torch, "torch.cuda": _write_cuda}
