"""State: named states that survive restarts, with any number of replicas.

The interface is that of AdaptDL's `adaptdl.checkpoint`: to run a program written for it, change its import.
"""

from nbckpt.states import replica
from nbckpt.states.generators import RandomState
from nbckpt.states.registry import Registry, use_folder
from nbckpt.states.saving import load_state, save_all_states, save_state
from nbckpt.states.signals import save_and_exit, save_on_signal, should_stop
from nbckpt.states.snapshot import states_checkpoint
from nbckpt.states.state import State

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
    "states_checkpoint",
    "use_folder",
]
