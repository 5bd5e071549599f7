"""Provenance that format 1 wrote is still read, by everything that reads it."""

from __future__ import annotations

from pathlib import Path

from nbckpt.provenance.lines import described
from nbckpt.provenance.trial import read_attempts

SAMPLE = Path(__file__).parent / "v1/provenance/e/t0"


def test_the_provenance_of_a_trial_is_read() -> None:
    (kept,) = read_attempts(SAMPLE)
    kept.check()
    assert kept.patch.endswith(b"-RATE = 1\n+RATE = 2\n")
    assert kept.packages == {"nbckpt": "0.1.0", "numpy": "2.0.0"}
    assert kept.cells == ["import train", "%ckpt run train.fit"]
    assert kept.seeds == {"torch": "AAEC"}
    assert [noted["path"] for noted in kept.inputs] == ["a.csv", "s3://b/c", "b.csv"]
    assert described(kept) == [
        "Code: 1111111111 on main of https://***@example.org/a.git, read 2.5 s before",
        "With: Python 3.12.1, 2 packages, Linux x86_64, A processor, A GPU (driver 1.2)",
        "Data: a.csv 2222222222 (3 bytes), s3://b/c x, b.csv 3333333333 (1 bytes)",
        "Run: cells 1 to 2, seeds of torch",
        "Not committed: 1 changed file; not kept: big.bin, new.py",
        "a note",
    ]
