"""Where no thread can start, as in a browser, everything goes on in the cell."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from nbckpt.core.packs.pools import InlineExecutor, Pool
from nbckpt.sync.background import DefaultSyncer
from notebook.committed import FOLDER, code_cells, read
from notebook.conftest import AUTO_ON, Notebook

TRAIN = """
import nbckpt
def train(config):
    for step in range(3):
        nbckpt.report(loss=config["lr"] / (step + 1))
"""


@pytest.fixture
def no_threads(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """Return a notebook in which no thread can be started."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return notebook


def test_the_fixture_prevents_new_threads(no_threads: Notebook) -> None:
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threading.Thread(target=print).start()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_quickstart_runs_to_its_end(no_threads: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    results: list[Any] = []
    for cell in code_cells(read(FOLDER / "01_quickstart.ipynb")):
        results.append(no_threads.run(cell.source.replace("30_000", "3_000")))
    assert results[-1] == (["by_digit", "model"], 1)
    assert no_threads.names["features"].shape == (1797, 3000)


def test_an_array_of_many_blobs_is_saved_restored_and_verified(no_threads: Notebook) -> None:
    no_threads.run("import numpy as np\nbig, small = np.arange(3_000_000), {'a': [1]}\n%ckpt save base")
    assert no_threads.after("big[0] = 7\nsmall['a'].append(2)\n%ckpt restore base")["big"][0] == 0
    assert no_threads.names["small"] == {"a": [1]}
    assert str(no_threads.run("%ckpt verify")).startswith("Everything verified: ")


def test_damage_is_found_and_named(no_threads: Notebook, tmp_path: Path) -> None:
    no_threads.run("import numpy as np\nbig = np.arange(300_000)\n%ckpt save base")
    (pack,) = (tmp_path / ".nbckpt" / "packs").rglob("*.pack")
    data = bytearray(pack.read_bytes())
    data[100_000] ^= 1
    pack.unlink()
    pack.write_bytes(data)
    assert no_threads.after("big = None\n%ckpt restore base")["big"] is None
    assert "damaged" in str(no_threads.run("%ckpt verify"))


def test_trials_run_one_after_the_other_and_say_so_once(no_threads: Notebook) -> None:
    runs = no_threads.run(TRAIN, "runs = nbckpt.run(train, {'lr': nbckpt.grid_search([1.0, 2.0])})\nruns")
    assert [trial.status for trial in runs.trials] == ["TERMINATED"] * 2
    assert not runs.running
    note = "threads cannot start here: trials run one after the other in the cell"
    assert str(runs).count(note) == 1
    more = no_threads.run("%ckpt run train --grid lr=3,4")
    assert "2 done" in str(more)
    assert runs.best("loss", "min").config == {"lr": 1.0}


def test_a_sync_is_one_push_and_explains_the_next(no_threads: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    said = str(no_threads.run("x = 1\n%ckpt save one", f"%ckpt sync {there}"))
    assert said.startswith("Pushed 3 files")
    assert "Threads cannot start here, so each %ckpt sync pushes once." in said
    assert "with each %ckpt sync" in str(no_threads.run("x = 2\n%ckpt save one", "%ckpt sync --status"))
    assert len(list((there / "checkpoints").iterdir())) == 1
    assert str(no_threads.run("%ckpt sync")).startswith("Pushed 2 files")
    no_threads.run("%ckpt sync off")


def test_a_syncer_works_synchronously(no_threads: Notebook, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_text("x")
    with DefaultSyncer() as syncer:
        assert syncer.sync_up(str(tmp_path / "from"), (tmp_path / "to").as_uri())
        assert (tmp_path / "to" / "file").read_text() == "x"
        assert syncer.sync_down((tmp_path / "to").as_uri(), str(tmp_path / "back"))
        syncer.wait()
    assert (tmp_path / "back" / "file").read_text() == "x"


def test_the_panel_opens_without_threads(no_threads: Notebook) -> None:
    no_threads.run("x = 1\n%ckpt save one", "%ckpt panel")


def test_cells_are_undone_and_restored_without_threads(no_threads: Notebook) -> None:
    no_threads.run(AUTO_ON, "import numpy as np\nbig, small = np.zeros(300_000), [1]")
    no_threads.run("big[0] = 7; small.append(2)", "%ckpt undo")
    assert (float(no_threads.names["big"][0]), no_threads.names["small"]) == (0.0, [1])
    no_threads.run("%ckpt redo", "%%ckpt cell total\ntotal = big.sum()", "del total")
    assert float(no_threads.after("%%ckpt cell total\ntotal = big.sum()")["total"]) == 7.0


def test_the_inline_pool_defers_errors_but_raises_interrupts() -> None:
    pool = InlineExecutor()
    assert pool.submit(divmod, 7, 2).result() == (3, 1)
    assert isinstance(pool.submit(divmod, 7, 0).exception(), ZeroDivisionError)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.submit(interrupted)


def test_a_pool_uses_threads_if_they_are_available() -> None:
    with Pool(2, "test-pool") as pool:
        assert pool.submit(threading.current_thread).result().name.startswith("test-pool")
