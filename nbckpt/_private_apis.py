"""Private names of other libraries that nbckpt uses. Each function says what happens without the name."""

from __future__ import annotations

import json
import opcode
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, suppress
from sys import modules
from types import CellType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary


class ClassTracker(NamedTuple):
    """Classes that are pickled by value, and their numbers; both tables change under the lock."""

    numbers: MutableMapping[type, str]
    classes: MutableMapping[str, type]
    lock: AbstractContextManager[Any]


_own_numbers: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_own_classes: WeakValueDictionary[str, type] = WeakValueDictionary()
_own_lock = threading.Lock()


def class_tracker() -> ClassTracker:
    """Return cloudpickle's tables of the classes that it pickled by value.

    Without them, tables of restored classes alone.
    """
    from cloudpickle import cloudpickle

    prefix = "_DYNAMIC_CLASS_TRACKER_"
    return ClassTracker(
        getattr(cloudpickle, f"{prefix}BY_CLASS", _own_numbers),
        getattr(cloudpickle, f"{prefix}BY_ID", _own_classes),
        getattr(cloudpickle, f"{prefix}LOCK", _own_lock),
    )


def json_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return an encoder of compact JSON, which takes a value and 0. Other values become their `repr`.

    It is a fifth faster than `JSONEncoder.encode`, which sets up a new encoder for each call and which is
    returned without the private name.
    """
    usual = json.JSONEncoder(separators=(",", ":"), default=repr, check_circular=False)
    make, text = getattr(json.encoder, "c_make_encoder", None), json.encoder.encode_basestring_ascii
    try:
        encode = make(None, repr, text, None, ":", ",", *(False, False, True))  # type: ignore[misc]
    except TypeError:  # another Python has another signature
        return lambda value, _: usual.encode(value)
    return encode  # type: ignore[no-any-return]


def data_type_of(kind: type) -> Any:
    """Return the type of the data of an enumeration's members. Without the private name, `object`."""
    return vars(kind).get("_member_type_", object)


def boundary_of(kind: type) -> Any:
    """Return what an enumeration of flags does with unknown bits. Without the private name, None."""
    return vars(kind).get("_boundary_")


def lock_of(condition: threading.Condition) -> Any:
    """Return the lock of a condition. Without the private name, None."""
    return vars(condition).get("_lock")


def run_before_threads_end(work: Callable[[], object]) -> None:
    """Run *work* at interpreter shutdown, before thread pools close. Without the private name, do nothing."""
    register = getattr(threading, "_register_atexit", lambda _work: None)
    with suppress(RuntimeError):  # shutdown has begun already
        register(work)


def target_of(thread: threading.Thread) -> object:
    """Return the function that a thread runs, or None if it is not known."""
    return getattr(thread, "_target", None)


def captured_write(write: Any) -> CellType | None:
    """Return the cell in which IPython's capturing `write` keeps the `write` of the stream, or None.

    If IPython keeps it elsewhere, its `write` counts as the stream's own.
    """
    names = getattr(getattr(write, "__code__", None), "co_freevars", ())
    return write.__closure__[names.index("original_write")] if "original_write" in names else None


def s3_call(fs: Any) -> Any:
    """Return the method with which s3fs makes one request with retries, or None.

    Without it, a store puts large objects by `pipe_file`, and a retry begins with the first part.
    """
    return getattr(fs, "_call_s3", None)


def optuna_trial_id(trial: Any) -> int | None:
    """Return the number of a trial in Optuna's storage, or None: then the study takes it as a new trial."""
    return getattr(trial, "_trial_id", None)


def optuna_rung(at: int) -> str:
    """Return the name under which Optuna's halving keeps a trial's value at a rung.

    If Optuna had another one, a restart would lose the rungs of pruners.
    """
    return f"completed_rung_{at}"


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def index_references(index: Any) -> Any:
    """Return the list of references to the memory of an index of pandas; None if it uses no column's memory.

    Without it None, and a write to the column changes the index.
    """
    return vars(index).get("_references")


def set_index_references(index: Any, refs: Any) -> None:
    """Set the list that `index_references` returned."""
    index._references = refs


def tensor_hooks(tensor: Any) -> tuple[Any, Any]:
    """Return a tensor's hooks and its post-accumulation hooks; None for those that PyTorch does not show."""
    backward, after = (getattr(tensor, name, None) for name in _HOOKS)
    return backward, after


def set_tensor_hooks(tensor: Any, *hooks: Any) -> None:
    """Set the hooks that `tensor_hooks` returned. Hooks that are None or empty change nothing."""
    for name, given in zip(_HOOKS, hooks, strict=True):
        if given:
            setattr(tensor, name, given)


def lock_handle(lock: Any) -> int | None:
    """Return the open file of an acquired lock of filelock, or None: then a child cannot inherit the lock."""
    handle = getattr(getattr(lock, "_context", None), "lock_file_fd", None)
    return handle if isinstance(handle, int) else None


def free_comm(comm: Any) -> None:
    """Let the front end choose the shell that handles the next message of a comm.

    ipykernel 7.4 notes at each message that it sends from which shell it came, and sends the answers there:
    a click would wait for the running cell. Without the private name, the front end chooses anyway.
    """
    getattr(comm, "__dict__", {}).pop("_reply_subshell_id", None)


def inline_caches() -> dict[str, int]:
    """Return the number of cache entries after an instruction of Python, by the instruction's name.

    Without the private name, code of records without a version is taken for another Python's.
    """
    entries: Any = getattr(opcode, "_inline_cache_entries", {})
    if isinstance(entries, dict):  # since Python 3.13
        return entries
    return {name: entries[number] for name, number in opcode.opmap.items() if number < len(entries)}


@contextmanager
def unchanged_figures() -> Iterator[None]:
    """Remove figures from pyplot that the block adds. Without the private name, they stay."""

    def numbered() -> MutableMapping[Any, Any]:
        manager = getattr(modules.get("matplotlib._pylab_helpers"), "Gcf", None)
        return getattr(manager, "figs", {})

    before = set(numbered())
    try:
        yield
    finally:
        for number in numbered().keys() - before:
            numbered().pop(number, None)
