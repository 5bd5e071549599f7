"""Generators: the state of the global random generators of a process."""

from __future__ import annotations

import logging
from sys import modules
from typing import IO, Any

from nbckpt.core import environment
from nbckpt.errors import CorruptError
from nbckpt.render import count
from nbckpt.states.state import State, name_of
from nbckpt.states.values import read, write

_SAVED = ("random.state", "numpy.random.state", "torch.random.state")
_DEVICES = "torch.cuda.random.state"

_log = logging.getLogger("nbckpt")


class RandomState(State):
    """The state of the global random generators of `random`, NumPy, and torch with its CUDA devices.

    A save covers the libraries that are imported at that moment. After a load the next `random.random()`,
    `numpy.random.rand()` and `torch.rand(1)` return the same numbers as after the save. A warning names each
    generator that cannot be set here. A generator in a variable needs its own state:
    `State.of("rng", generator)`.

    Args:
        name: The name of the state.

    Raises:
        UsageError: Another live state has the name.

    Examples:
        >>> import random
        >>> generators = nbckpt.states.RandomState()
        >>> folder, drawn = nbckpt.save_all_states(), random.random()
        >>> nbckpt.load_state(generators), random.random() == drawn
        (True, True)
    """

    def __init__(self, name: str = "random") -> None:
        super().__init__(name)

    def save(self, fileobj: IO[bytes]) -> None:
        """See `State.save`."""
        states = {name: state for name, state in environment.read_states().items() if name in _SAVED}
        if (cuda := _cuda()) is not None:
            states[_DEVICES] = cuda.get_rng_state_all()
        write(states, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        """See `State.load`.

        Raises:
            CorruptError: `save` did not write the file.
        """
        states = read(fileobj)
        if type(states) is not dict or not states.keys() <= {*_SAVED, _DEVICES}:
            file = getattr(fileobj, "name", "the file")
            raise CorruptError(
                f"{file!r} is not a state of the random generators: another state of this name saved it"
            )
        devices, cuda = states.pop(_DEVICES, []), _cuda()
        _, reasons = environment.write_states(states)
        if cuda is not None and devices:
            cuda.set_rng_state_all(devices[: cuda.device_count()])
        if (number := 0 if cuda is None else cuda.device_count()) < len(devices):
            reasons[_DEVICES] = (
                f"it was saved for {count(len(devices), 'device')}, and this machine has {number}"
            )
        for name, reason in reasons.items():
            _log.warning("state %r: %s is not set: %s", name_of(self), name, reason)


def _cuda() -> Any:
    """Return torch's CUDA module, or None if there is no device or torch is not imported."""
    torch = modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None
