"""Generators: the state of the random numbers that all code of a process shares."""

from __future__ import annotations

from sys import modules
from typing import IO, Any

from nbckpt.core import environment
from nbckpt.state.state import State
from nbckpt.state.values import read, write

_SAVED = ("random.state", "numpy.random.state", "torch.random.state")
_DEVICES = "torch.cuda.random.state"


class RandomState(State):
    """The state of the global random generators: of `random`, of NumPy, and of torch with its CUDA devices.

    Those libraries count that are imported when it is saved. After a load each goes on where it was: the next
    `random.random()`, `numpy.random.rand()`, `torch.rand(1)` give what they gave after the save. A generator
    in a variable has a state of its own: `State.of("rng", generator)`.

    Args:
        name: The name of the state.

    Raises:
        UsageError: Another live state has the name.
    """

    def __init__(self, name: str = "random") -> None:
        super().__init__(name)

    def save(self, fileobj: IO[bytes]) -> None:
        """See `State.save`."""
        states = {name: it for name, it in environment.read_states().items() if name in _SAVED}
        if (cuda := _cuda()) is not None:
            states[_DEVICES] = cuda.get_rng_state_all()
        write(states, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        """See `State.load`.

        Raises:
            CorruptError: The file is none that `save` wrote.
        """
        states = read(fileobj)
        devices = states.pop(_DEVICES, [])
        environment.write_states(states)
        if devices and (cuda := _cuda()) is not None:
            cuda.set_rng_state_all(devices[: cuda.device_count()])


def _cuda() -> Any:
    """Return torch's module for CUDA, or None where there is no device or torch is not imported."""
    torch = modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None
