"""Transport: jobs, results and errors as bytes, for a trial in another process."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NoReturn

from nbckpt.core.values.by_value import dump, dumps
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.diagnose import blame
from nbckpt.errors import CodecError, NbckptError, TrialError
from nbckpt.render import error_text
from nbckpt.trials.executors.base import Job
from nbckpt.trials.model.metrics import Result, plain
from nbckpt.trials.training.function import FunctionRunner
from nbckpt.trials.training.trainable import failure


class RemoteTraceback(Exception):  # noqa: N818  never raised: as a cause it shows where an error arose
    """The traceback of an error that was raised in another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def outcome(function: Callable[..., Any], *arguments: Any) -> bytes:
    """Call *function*. Return its value or exception as bytes for `result_of` in another process.

    If a result cannot be pickled, the plain form that a journal keeps is sent instead.
    """
    try:
        returned = function(*arguments)
    except BaseException as error:  # noqa: BLE001  any exception is raised again in the other process
        return _failed(error)
    try:
        return _dump((returned, None))
    except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything
        if isinstance(returned, Result):
            return _dump((replace(returned, metrics=plain(returned.metrics)), None))
        return _failed(TrialError(f"the reported result cannot be sent: {error_text(error)}"))


def result_of(data: bytes) -> Any:
    """Return the value in the bytes of an `outcome`.

    Raises:
        TrialError: The function failed, and its exception is the cause; or its value cannot be loaded here.
        NbckptError: The function raised this error.
    """
    try:
        returned, failed = Classes().load(data, ())
    except Exception as error:
        raise TrialError(f"the reported result cannot be loaded here: {error_text(error)}") from error
    if failed is not None:
        _raise(*failed)
    return returned


def _dump(value: Any) -> bytes:
    """Pickle a value. Plain pickle comes first, because it takes a tenth of the time."""
    with suppress(Exception):
        return pickle.dumps(value, protocol=5)
    return dumps(value)


def pack(job: Job) -> bytes:
    """Return a job as bytes for another process: the pickle of its first five fields.

    Raises:
        CodecError: The job cannot be pickled; the message names the part.
    """
    parts = (job.trainable, dict(job.config), job.folder, job.trial, job.name)
    try:
        return dumps(parts)
    except Exception as error:
        path, reason = _guilty(job)
        raise CodecError(
            f"cannot send {path} to another process: {reason}. Make it inside the function, or use "
            "executor='thread'"
        ) from error


def _guilty(job: Job) -> tuple[str, str]:
    """Return the part of a job that cannot be pickled, and the reason."""
    trainable, config = job.trainable, dict(job.config)
    value: Any = trainable._function if issubclass(trainable, FunctionRunner) else trainable
    for name, part in (("config", config), (trainable.__name__, value)):
        visited: list[object] = []
        try:
            dump(part, BytesIO(), visited)
        except Exception as error:  # noqa: BLE001  an object's own pickling may raise anything
            return blame(name, part, error, visited, _pickle_part)
    return trainable.__name__, "its parts can be pickled, but not together"


def _pickle_part(part: Any, *, write: Callable[[bytes], object]) -> None:
    dump(part, SimpleNamespace(write=write))


def _failed(error: BaseException) -> bytes:
    cause = error.__cause__
    if not isinstance(error, NbckptError):
        error, cause = failure(error), error
    text, pickled = "", b""
    if cause is not None:
        text = "".join(traceback.format_exception(cause)).rstrip()
        with suppress(Exception):  # an exception that cannot be pickled is shown by its traceback
            pickled = _dump(cause)
    return _dump((None, (error, pickled, text)))


def _raise(error: NbckptError, pickled: bytes, text: str) -> NoReturn:
    if not text:
        raise error
    remote = RemoteTraceback(text)
    try:
        cause = Classes().load(pickled, ())
    except Exception:  # noqa: BLE001  its class may be unknown here, or its unpickling may fail
        raise error from remote
    cause.__cause__ = remote
    raise error from cause
