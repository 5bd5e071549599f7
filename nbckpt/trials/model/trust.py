"""Trust: sign experiments and trials' checkpoints of somebody else with the user's own signature.

see docs/decisions/0057
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from nbckpt.core.manifest_json import canonical
from nbckpt.core.plain import read_manifest
from nbckpt.core.schema import parse
from nbckpt.core.tree import INSIDE
from nbckpt.core.trust import Signer, open_signer
from nbckpt.store.files import explained
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.origin import origin_of
from nbckpt.trials.checkpoints.record import SUFFIX, Record
from nbckpt.trials.model.trial import Trial


def trust_trials(experiment: Path, trials: Iterable[Trial]) -> None:
    """Sign the checkpoints of trials, so that the trials can resume from them. See `sign_checkpoints`."""
    signer = open_signer()
    for checkpoints in (origin_of(experiment), *(trial.checkpoints for trial in trials)):
        sign_checkpoints(checkpoints, checkpoints.records(), signer)


def sign_checkpoints(folder: CheckpointFolder, records: Iterable[Record], signer: Signer) -> list[str]:
    """Sign each checkpoint of a trial that holds values and is not signed yet. Return their names.

    A checkpoint is replaced by a signed copy, whole or not at all. Nothing in it is loaded.

    Raises:
        CorruptError: A checkpoint's files differ from those that were saved.
        StoreError: The disk failed; the checkpoint is unchanged.
    """
    return [record.name for record in records if _sign(folder, record, signer)]


def _sign(folder: CheckpointFolder, record: Record, signer: Signer) -> bool:
    own, file = folder.folder / record.name, folder.folder / (record.name + SUFFIX)
    manifest = read_manifest(own)
    if not manifest.values or signer.signed(manifest):
        return False
    folder.check(record)
    with explained("sign", own):
        written = file.stat()
        with folder.staged() as stage:
            shutil.copytree(own, stage, symlinks=True, dirs_exist_ok=True)
            signed = stage / INSIDE / "checkpoint.json"
            document = parse(signed.read_bytes(), str(signed))
            document["signature"] = asdict(signer.sign(manifest.id))
            signed.write_bytes(canonical(document))
            folder.commit(stage, record)
        os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))  # lists order checkpoints by this time
    return True
