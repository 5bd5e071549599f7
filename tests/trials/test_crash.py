"""Crashes: whenever the kernel dies, no report is lost, none is there twice, and the rest goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from attack import share
from nbckpt.store.base import CACHE
from nbckpt.trials import Catalog, Status
from nbckpt.trials.model.journal import read

ROUNDS = share.of(12, 5)
LAST = 60

KERNEL = textwrap.dedent(
    """
    import sys
    import nbckpt

    def train(config):
        checkpoint = nbckpt.get_checkpoint()
        start = checkpoint.to_dict()["i"] if checkpoint else 0
        for i in range(start + 1, 61):
            nbckpt.report(i=i, checkpoint={"i": i} if i % 4 == 0 else None)
            sys.stdout.write(f"{config['trial']} {i}\\n")
            sys.stdout.flush()

    experiment = nbckpt.run(
        train, {"trial": nbckpt.grid_search(["a", "b"])}, name="e", max_concurrent=2, keep_checkpoints=2
    )
    experiment.wait()
    """
)


def start(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        env=os.environ | {"NBCKPT_STORE": str(store)},
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_after(store: Path, lines: int) -> list[str]:
    """Run a kernel, kill it after so many reports returned, and return those that it told of."""
    with start(store) as kernel:
        assert kernel.stdout is not None
        printed = [line for line, _ in zip(kernel.stdout, range(lines), strict=False)]
        kernel.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        return printed + kernel.stdout.read().split("\n")[:-1]


def reported(folder: Path) -> list[int]:
    return [event["result"]["i"] for event in read(folder / "events.jsonl") if event["event"] == "result"]


def torn(journal: bytes) -> bytes:
    """Return a journal as a power cut may leave it while the last line is written, or the one after it."""
    before = journal.rfind(b"\n", 0, -1) + 1  # 0: the other trial reported everything
    result = json.loads(journal[before:]).get("result", {})
    is_synced = result.get("i", 1) % 4 == 0  # before the checkpoint of it was made
    return (journal if is_synced else journal[:before]) + journal[before : before + 8]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_run_keeps_every_returned_report_and_resumes(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    library = Catalog(tmp_path / "experiments")
    for _ in range(3):
        printed = killed_after(tmp_path, draw.randrange(1, 40))
        experiment = library.open("e")
        for trial in experiment.trials:
            mine = {int(line.split()[1]) for line in printed if line.split()[0] == trial.config["trial"]}
            assert mine <= set(reported(trial.folder))
            assert experiment.interrupted(trial) or trial.finished
            indexes = [result["i"] for result in trial.results]
            assert indexes == list(range(1, len(indexes) + 1))
    experiment = library.open("e")
    if not all(trial.finished for trial in experiment.trials):
        experiment.resume()
        assert experiment.wait(60)
    for trial in experiment.trials:
        assert trial.status == Status.TERMINATED
        assert [result["i"] for result in trial.results] == list(range(1, LAST + 1))
        assert [result["training_iteration"] for result in trial.results] == list(range(1, LAST + 1))
        assert [record.iteration for record in trial.checkpoints.records()] == [LAST - 4, LAST]
        left = [file.name for file in trial.folder.iterdir() if file.name.startswith(".")]
        assert [name for name in left if not name.startswith(CACHE)] == []


@pytest.mark.slow
def test_a_torn_last_line_is_ignored_and_later_lines_are_read(tmp_path: Path) -> None:
    killed_after(tmp_path, 10)
    library = Catalog(tmp_path / "experiments")
    journal = library.open("e").trials[0].folder / "events.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(torn(whole))
    results = library.open("e").trials[0].results
    assert len(results) in {whole.count(b'"result":'), whole.count(b'"result":') - 1}
    experiment = library.open("e")
    experiment.resume()
    assert experiment.wait(60)
    trial = Catalog(tmp_path / "experiments").open("e").trials[0]
    assert [result["i"] for result in trial.results] == list(range(1, LAST + 1))
