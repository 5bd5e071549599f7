"""Spec file: `experiment.json`, the file of an experiment's spec, which includes the function."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbckpt.core.algorithms import BLAKE3, PREFERRED, named
from nbckpt.core.schema import SEALED, OneOf, seal, unseal
from nbckpt.core.trust import Signer
from nbckpt.core.values.by_value import dump
from nbckpt.core.values.classes import Classes
from nbckpt.errors import CodecError, CorruptError, NotFoundError, StoreError, UntrustedError
from nbckpt.store.files import exists, explained, only_files, write_file
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.objectives import Objective
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.spec import Spec

FILE = "experiment.json"
MOST_KEPT = 16 << 20  # see docs/decisions/0018
"""The function is saved only if it and the objects that it refers to take at most this many bytes."""

_YEAR_9999_S = 253_370_764_800
"""A time of a file is cut to what a `datetime` can hold: a damaged disk may say any."""

_HEAD = 4096
"""The bytes of the file in which `created_at` stands; the function may take megabytes behind it."""
_CREATED = re.compile(rb'^ "created_at": "(\d{4}-\d\d-\d\dT[\d:.]{8,15}Z)"', re.MULTILINE)

_AS_THEY_ARE = (
    "num_samples",
    "seed",
    "max_concurrent",
    "max_failures",
    "checkpoint_every",
    "executor",
    "metric",
    "mode",
    "created_at",
)

_FORM = {
    "format": int,
    **dict.fromkeys(("num_samples", "max_concurrent", "max_failures", "checkpoint_every"), int),
    **dict.fromkeys(("executor", "mode", "created_at"), str),
    "metric": OneOf(str, None),
    "seed": float,
    "config": dict,
    "keep_checkpoints": OneOf({"count": int, "metric": OneOf(str, None), "mode": str}, None),
    "resources_per_trial": {str: float},
    "sync?": {str: str},
    "origin?": str,
    "provenance?": bool,
    "system_metrics?": bool,
    "other_objectives?": [{"metric": str, "mode": re.compile("min|max")}],
    "trainable": {"name": str, **dict.fromkeys(("pickle?", "signature?", "left_out?", "algorithms?"), str)},
}


def write(folder: Path, spec: Spec, signer: Signer) -> None:
    """Write *spec* to an experiment's folder. The parts that JSON cannot express are pickled and signed.

    If the function cannot be pickled, or refers to too much data, it is left out, and the file says why.

    Raises:
        StoreError: The disk failed; the file is unchanged.
    """
    keep = None if spec.keep is None else vars(spec.keep)
    text = {
        "format": SEALED,
        "name": folder.name,
        **{name: getattr(spec, name) for name in _AS_THEY_ARE},
        "keep_checkpoints": keep,
        "resources_per_trial": dict(spec.resources),
        "stop": plain({"stop": spec.stop})["stop"],
        "upload_dir": spec.sync.upload_dir if spec.sync else None,
        "sync": dict(spec.sync.settings()) if spec.sync else {},
        **({} if spec.provenance else {"provenance": False}),
        **({"system_metrics": True} if spec.system_metrics else {}),
        **({"other_objectives": list(map(vars, spec.others))} if spec.others else {}),
        "config": plain(dict(spec.config)),
        **({"origin": spec.origin} if spec.origin else {}),
        "trainable": {"name": spec.function_name, **_packed(spec, signer)},
    }
    _put(folder, text)


def sign(folder: Path, signer: Signer) -> bool:
    """Sign a function that somebody else saved, without loading it. Return False if it was already signed.

    An experiment without a saved function returns False, too.

    Raises:
        CorruptError: The file is damaged.
        StoreError: The disk failed; the file is unchanged.
    """
    kept = read(folder)
    if not kept._pickle or signer.signed_bytes("experiment", kept._pickle, kept._signature):
        return False
    document = unseal((folder / FILE).read_bytes(), _FORM, str(folder / FILE))
    document["trainable"]["signature"] = signer.sign_bytes("experiment", kept._pickle)
    _put(folder, document)
    return True


def _put(folder: Path, document: dict[str, Any]) -> None:
    with explained("write", folder / FILE):
        write_file(folder / FILE, seal(document | {"format": SEALED}))


def _packed(spec: Spec, signer: Signer) -> dict[str, Any]:
    """Return the pickle of the parts that JSON cannot express, with its signature."""
    bundle = {
        "trainable": spec.trainable,
        "config": spec.config,
        "stop": spec.stop,
        "callbacks": spec.callbacks,
        "sync": spec.sync,
        "scheduler": spec.scheduler,
        "search": spec.search,
        "points": spec.points,
    }
    file = _Bounded()
    try:
        dump(bundle, file)
    except _TooLargeError:
        return {"left_out": f"it refers to more than {MOST_KEPT >> 20} MiB of data"}
    except Exception as error:  # noqa: BLE001  an object's own pickling may raise anything; the trials run
        return {"left_out": f"it cannot be pickled: {type(error).__name__}: {error}"}
    data = PREFERRED.compress(file.getvalue())
    kept = {"pickle": base64.b64encode(data).decode(), "signature": signer.sign_bytes("experiment", data)}
    return kept if PREFERRED.name == BLAKE3 else kept | {"algorithms": PREFERRED.name}


class _TooLargeError(Exception):
    """The pickle is larger than the limit."""


class _Bounded(io.BytesIO):
    """A file in memory with a size limit, because a function may refer to gigabytes."""

    def write(self, data: Any) -> int:
        """See `io.BytesIO.write`."""
        if self.tell() + memoryview(data).nbytes > MOST_KEPT:
            raise _TooLargeError
        return super().write(data)


@dataclass(frozen=True)
class Kept:
    """The content of an experiment's file. Nothing in it was unpickled.

    Attributes:
        spec: The spec, without the parts that only the pickle has.
        name: The function's name.
        left_out: Why the function was not saved; empty if it was.
        sync: Where and how the experiment is synced, as names and texts.
    """

    spec: Spec
    name: str
    left_out: str
    sync: Mapping[str, str]
    _pickle: bytes
    _signature: str
    _algorithms: str
    _folder: Path

    @property
    def has_function(self) -> bool:
        """Whether the function was saved."""
        return bool(self._pickle)

    def is_signed(self, signer: Signer) -> bool:
        """Return whether this user saved the function."""
        return bool(self._pickle) and signer.signed_bytes("experiment", self._pickle, self._signature)

    def load(self, signer: Signer, *, trust: bool = False) -> Spec:
        """Return the whole spec, with the function.

        Raises:
            UntrustedError: Somebody else wrote the function, and *trust* is False.
            NotFoundError: The function was not saved.
            CodecError: The function cannot be loaded here.
            FormatError: Its compression is not available here.
        """
        name = self._folder.name
        if not self._pickle:
            raise NotFoundError(
                f"the function of {name!r} was not saved: {self.left_out}. Define it and run it again under "
                f"the same name: nbckpt.run({self.name}, …, name={name!r})"
            )
        if not trust and not signer.signed_bytes("experiment", self._pickle, self._signature):
            raise UntrustedError(
                f"the function of {name!r} is not signed by you, and loading it can run any code. Read "
                f"{self._folder / FILE}, and pass --trust if you trust its author"
            )
        algorithms = named(self._algorithms, f"the function of {name!r}")
        try:
            pickle = algorithms.decompress(self._pickle, MOST_KEPT)
            return replace(self.spec, **Classes().load(pickle, ()))
        except Exception as error:
            raise CodecError(
                f"cannot load the function of {name!r}: {type(error).__name__}: {error}"
            ) from error


def is_there(folder: Path) -> bool:
    """Tell whether a folder holds an experiment.

    Raises:
        StoreError: The disk failed.
    """
    return exists(folder / FILE)


def check_there(folder: Path) -> None:
    """Refuse to continue an experiment that somebody removed.

    Raises:
        NotFoundError: The experiment was removed.
        StoreError: The disk failed.
    """
    if not is_there(folder):
        raise NotFoundError(
            f"the experiment {folder.name!r} was removed. Bring it back with %ckpt undo, or run it anew"
        )


def read(folder: Path) -> Kept:
    """Read the spec from an experiment's folder.

    Raises:
        NotFoundError: The folder does not hold an experiment.
        FormatError: A newer nbckpt wrote it.
        CorruptError: The file is damaged.
        StoreError: The disk failed.
    """
    file = folder / FILE
    try:
        if link_outside(folder, FILE):
            raise CorruptError(f"{file} is not read: {OUTSIDE}")
        with open(file, "rb", opener=only_files) as opened:
            document = unseal(opened.read(), _FORM, str(file))
    except FileNotFoundError:
        raise NotFoundError(f"there is no experiment {folder.name!r} in {folder.parent}") from None
    except OSError as error:
        raise StoreError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    kept, keep = document["trainable"], document["keep_checkpoints"]
    try:
        spec = Spec(
            None,
            document["config"],
            keep=RetentionPolicy(**keep) if keep else None,
            resources=document["resources_per_trial"],
            origin=document.get("origin", ""),
            provenance=document.get("provenance", True),
            system_metrics=document.get("system_metrics", False),
            others=tuple(Objective(**other) for other in document.get("other_objectives", ())),
            **{name: document[name] for name in _AS_THEY_ARE},
        )
        pickle = base64.b64decode(kept.get("pickle", ""), validate=True)
    except (ValueError, TypeError) as error:
        raise CorruptError(f"{file} is damaged: {error}") from error
    left_out, signature = kept.get("left_out", ""), kept.get("signature", "")
    algorithms, sync = kept.get("algorithms", BLAKE3), document.get("sync", {})
    return Kept(spec, kept["name"], left_out, sync, pickle, signature, algorithms, folder)


def began(folder: Path) -> str:
    """Return when an experiment was made, from the head of its file, which a copy or a sync does not change.

    If the head does not tell, it is the time of the file. The result is cached until the file changes.

    Raises:
        OSError: The file is missing or cannot be read.
    """
    file = (folder / FILE).stat()
    return _began(folder / FILE, file.st_mtime_ns, file.st_size)


@lru_cache(maxsize=10_000)
def _began(file: Path, changed_ns: int, _size: int) -> str:
    with open(file, "rb", opener=only_files) as opened:
        head = _CREATED.search(opened.read(_HEAD))
    if head:
        return head[1].decode()
    return datetime.fromtimestamp(max(0, min(changed_ns / 1e9, _YEAR_9999_S)), UTC).isoformat()


def created_at(data: bytes, label: str) -> str:
    """Return when an experiment was made, from the bytes of its file.

    Raises:
        FormatError: A newer nbckpt wrote it.
        CorruptError: The file is damaged.
    """
    made: str = unseal(data, _FORM, label)["created_at"]
    return made
