"""One changed byte: what nbckpt reads is right, or the damage is found. It is never other data."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack import samples, share
from attack.samples import V1
from nbckpt.errors import NbckptError

TRIES = share.of(1000, 60)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Samples of this code; the secret is that of the frozen ones."""
    folder = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NBCKPT_SECRET_FILE", str(V1 / "secret"))
        samples.make(folder)
        yield folder


def changed(data: bytes, rng: random.Random) -> tuple[int, bytes]:
    """Return the data with another byte at one place, and which place."""
    at = rng.randrange(len(data))
    new = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.choice(b'0159 ,:"}]\n'), rng.randrange(256)])
    return at, data[:at] + bytes([new]) + data[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("kind", samples.KINDS)
def test_a_changed_byte_is_always_found(kind: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(V1 / "secret"))
    rng = random.Random(kind)
    all_files = list(samples.files(made, kind))
    for file, read in all_files:
        data, right, status = file.read_bytes(), read(file), file.stat()
        try:
            for _ in range(max(TRIES // len(all_files), 1)):
                at, new = changed(data, rng)
                file.write_bytes(new)
                try:
                    assert read(file) == right, f"byte {at} of {file.relative_to(made)}: {new[at]:#x}"
                except NbckptError:
                    continue
        finally:
            file.write_bytes(data)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # a summary names a journal's time
