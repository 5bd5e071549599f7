"""The progress line: it comes late, goes at the end, and is drawn at most four times a second."""

from __future__ import annotations

from typing import Any

import pytest

from nbckpt.notebook import progress
from nbckpt.render import Page, Result
from nbckpt.sync.progress import Progress
from notebook.typed import Clock


class Moved(Result):
    """A result."""

    def page(self) -> Page:
        return Page("2 files moved")


def test_short_work_shows_nothing(published: list[dict[str, Any]], clock: Clock) -> None:
    with progress.ProgressLine(clock) as report:
        report(1, 2)
        report(2, 2)
    assert published == []


def test_long_work_shows_a_line_that_its_result_replaces(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    with progress.ProgressLine(clock) as report:
        for done in range(100):
            clock.time += 0.05
            report(done * 1_000_000, 100_000_000)
    assert report.become(Moved())
    assert 10 <= len(published) <= 20
    assert '<progress value="13000000" max="100000000"' in published[0]["data"]["text/html"]
    assert published[-1]["data"]["text/plain"] == "2 files moved"


def test_a_line_without_a_result_shows_the_last_progress(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(1_000_000, 2_000_000)
    report.end()
    assert published[-1]["data"]["text/plain"] == "1 MB of 2 MB"
    assert not progress.ProgressLine(clock).become(Moved())


def test_a_line_shows_the_progress_at_the_failure(published: list[dict[str, Any]], clock: Clock) -> None:
    def work() -> None:
        with progress.ProgressLine(clock) as report:
            clock.time = 5
            report(1, 2)
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        work()
    assert published[-1]["data"]["text/plain"] == "stopped at 1 bytes of 2 bytes"


def test_a_terminal_shows_one_line_that_is_erased(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(1_000_000, 2_000_000)
    assert capsys.readouterr().err.startswith("\r1 MB of 2 MB")


def test_a_transfer_shows_files_rate_time_left_and_current_file(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    transfer = Progress(10, 2, 40_000_000, 10_000_000, "packs/<b>", seconds=5)
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(transfer.done, transfer.size, transfer)
    said = "2 of 10 files, 10 MB of 40 MB, 2 MB/s, 15 s left: packs/&lt;b&gt;"
    assert published[0]["data"]["text/html"].startswith('<progress value="10000000" max="40000000"')
    assert published[0]["data"]["text/html"].endswith(f"</progress> {said}")


def test_first_bytes_give_no_remaining_time_and_names_are_cut() -> None:
    said = str(Progress(37, 1, 288_000_000, 99, "packs/" + 64 * "a", seconds=2))
    assert said == f"1 of 37 files, 99 bytes of 288 MB, 50 bytes/s: packs/{33 * 'a'}…"
