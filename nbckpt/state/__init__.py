"""State: named states that survive restarts, with any number of replicas.

The interface is that of AdaptDL's `adaptdl.checkpoint`: to run a program written for it, change its import.
"""

from nbckpt.state import replica
from nbckpt.state.generators import RandomState
from nbckpt.state.registry import Registry, states
from nbckpt.state.saving import load_state, save_all_states, save_state
from nbckpt.state.signals import save_and_exit, save_on_signal, should_stop
from nbckpt.state.snapshot import states_checkpoint
from nbckpt.state.state import State

__all__ = [
    "RandomState",
    "Registry",
    "State",
    "load_state",
    "replica",
    "save_all_states",
    "save_and_exit",
    "save_on_signal",
    "save_state",
    "should_stop",
    "states",
    "states_checkpoint",
]
