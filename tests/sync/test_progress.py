"""Progress: data that only goes forward, whatever thread it comes from."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from sync.trees import write

from nbckpt.errors import StoreError
from nbckpt.store import MemoryStore
from nbckpt.sync.download import download
from nbckpt.sync.progress import Progress, ProgressTracker
from nbckpt.sync.transfer import TransferOptions
from nbckpt.sync.upload import upload
from nbckpt.testing import FaultyStore


def test_rate_and_time_left_are_known_after_the_first_bytes() -> None:
    assert (Progress().rate, Progress().seconds_left) == (0.0, None)
    assert str(Progress(files=2, size=100)) == "0 of 2 files, 0 bytes of 100 bytes, 0 bytes/s"
    halfway = Progress(files=2, files_done=1, size=100, done=25, seconds=5.0)
    assert (halfway.rate, halfway.seconds_left) == (5.0, 15.0)


def test_files_and_bytes_of_all_threads_add_up() -> None:
    now, steps = iter(range(10_000)), list[Progress]()
    meter = ProgressTracker(steps.append, clock=lambda: float(next(now)))
    meter.plan(100, 1000)
    met = threading.Barrier(4, timeout=30)

    def move(n: int) -> None:
        if n < 4:
            met.wait()
        with meter.file(f"{n}") as moved:
            for _ in range(10):
                moved(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(100)))
    end = meter.now
    assert (end.files, end.files_done, end.size, end.done) == (100, 100, 1000, 1000)
    for before, after in pairwise(steps):
        assert before.done <= after.done
        assert before.files_done <= after.files_done
        assert before.seconds < after.seconds


def test_a_failed_transfer_does_not_count() -> None:
    meter = ProgressTracker()
    meter.plan(1, 10)
    with suppress(StoreError), meter.file("a") as moved:
        moved(7)
        raise StoreError("cut")
    assert (meter.now.done, meter.now.files_done, meter.now.current) == (0, 0, "a")


def test_progress_ends_complete_after_any_retries(tmp_path: Path) -> None:
    files = {f"{n}": b"x" * n for n in range(20)}
    folder = write(tmp_path / "folder", files | {"big": b"x" * (40 << 20), "gone": b"x"})
    store, size = MemoryStore(), 190 + (40 << 20)
    failing = {"3", "big"}

    def fails_once(call: object) -> bool:
        key = getattr(call, "key", "")
        if key == "0":
            (folder / "gone").unlink(missing_ok=True)
        return key in failing and (failing.remove(key) is None)

    steps, got = list[Progress](), list[Progress]()
    faulty = FaultyStore(store, when=fails_once, halfway=True)
    sent = upload(folder, faulty, options=TransferOptions(backoff_s=0, on_progress=steps.append))
    failing = {"3", "big"}
    download(faulty, tmp_path / "other", options=TransferOptions(backoff_s=0, on_progress=got.append))
    assert failing == set()
    assert (steps[-1].files, steps[-1].files_done) == (sent.files, sent.files)
    for end in (steps[-1], got[-1]):
        assert end.files == end.files_done
        assert end.size == end.done >= size
        assert end.seconds_left == 0
    done = [step.done for step in steps]
    assert any(0 < size % (16 << 20) < 200 and size > 1 << 20 for size in done)  # within a large file
