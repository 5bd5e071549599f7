"""Interpreter: a new Python that runs one trial. It inherits a connection, over which it gets its job.

See docs/decisions/0021. `spare.py` starts one ahead of time.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import IO, Any

from nbckpt.provenance.processes import kill

_BOOT = (
    "import pickle, sys; sys.path[:], handles = pickle.load(sys.stdin.buffer); "
    "from nbckpt.trials.executors.child import main; main(*handles)"
)

_open: weakref.WeakSet[Interpreter] = weakref.WeakSet()


class Interpreter:
    """A Python process that waits for a job. It ends if its stdin or its connection is closed.

    Args:
        environment: All environment variables of the process.
        handles: Open files that it inherits besides the connection.

    Attributes:
        connection: This end of the connection.
        process: The process, with pipes to its three streams.

    Raises:
        OSError: No process can be started.
    """

    def __init__(self, environment: Mapping[str, str], handles: Sequence[int] = ()) -> None:
        self.connection, theirs = Pipe()
        try:
            self.process = _start(environment, (theirs.fileno(), *handles))
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        _open.add(self)

    @property
    def outputs(self) -> tuple[IO[bytes], IO[bytes]]:
        """The pipes of its stdout and its stderr."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return self.process.stdout, self.process.stderr

    def close(self) -> None:
        """Close the connection and its stdin. The process ends when it notices."""
        self.connection.close()
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def end(self) -> None:
        """Kill it, with the processes that it started, and close everything. For one that got no job."""
        if self.process.poll() is None:
            kill(self.process)
        self.process.wait()
        self.close()
        for pipe in self.outputs:
            pipe.close()


def _start(environment: Mapping[str, str], handles: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a Python that inherits *handles* and calls `child.main` with them; the first is a connection."""
    options: dict[str, Any]
    if sys.platform == "win32":
        os.set_handle_inheritable(handles[0], True)  # noqa: FBT003  it takes no keyword
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handles[0]]})
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        options = {"startupinfo": startup, "creationflags": flags}
    else:
        # A separate session: Ctrl-C in the terminal is for the parent, which pauses its trials.
        options = {"pass_fds": tuple(handles), "start_new_session": True}
    # Not multiprocessing, which would run the user's script again: see docs/decisions/0021.
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable or "", "-c", _BOOT],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=dict(environment),
        **options,
    )
    assert process.stdin is not None
    with suppress(OSError):  # the first call notices that the process is gone
        pickle.dump((sys.path, tuple(handles)), process.stdin)
        process.stdin.flush()
    return process


def _let_go() -> None:
    """In a fork of this process: close the connections, so that children notice this process's end."""
    for interpreter in list(_open):
        interpreter.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
