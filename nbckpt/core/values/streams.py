"""Streams: what IPython adds to `sys.stdout` and `sys.stderr` while a cell runs is not the user's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_IPYTHON = "IPython.core.interactiveshell"


@contextmanager
def without_tee() -> Iterator[None]:
    """Take IPython's `write` off the streams in this block: it leads to the shell, which cannot be saved.

    After the cell IPython sets the method itself in its place, which changes nothing, so that goes for good.
    """
    removed = []
    for stream in {id(stream): stream for stream in (sys.stdout, sys.stderr)}.values():
        write = getattr(stream, "__dict__", {}).get("write")
        is_own = getattr(write, "__self__", None) is stream and getattr(write, "__name__", "") == "write"
        if is_own or getattr(write, "__module__", "") == _IPYTHON:
            del stream.write
            removed += [] if is_own else [(stream, write)]
    try:
        yield
    finally:
        for stream, write in removed:
            vars(stream)["write"] = write


_kernels: dict[str, Any] = {}


def reduce_kernel_stream(stream: Any) -> Any:
    """Reduce a stream of Jupyter's kernel to its name."""
    if getattr(stream, "name", None) not in ("stdout", "stderr"):
        return NotImplemented
    _kernels[stream.name] = stream  # later, `sys.stdout` may be another stream
    return kernel_stream, (stream.name,)


def kernel_stream(name: str) -> Any:
    """Return a stream of this kernel. Records call it."""
    return _kernels.get(name) or getattr(sys, name)
