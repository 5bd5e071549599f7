"""The page record: a write is always named, and what is not named was not written."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbckpt import settings
from nbckpt.core.memory import pages, process, regions
from nbckpt.core.memory.pages import LEAST, Look, PageRecord, page_record
from nbckpt.core.memory.userfault import PAGE, Userfault

MB = 1 << 20
MIDDLE = 2 * MB
DONTNEED, HUGE, PAGEOUT, COLLAPSE = 4, 14, 21, 25

needs_record = pytest.mark.usefixtures("recorded")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks


def look(array: Any, since: Look | None = None) -> Look:
    with page_record().round() as looks:
        return looks.at(array.ctypes.data, array.nbytes, since)


def covers(seen: Look, offset: int) -> bool:
    return any(low <= offset < high for low, high in seen.dirty)


def open_files() -> int:
    """The number of descriptors of records. Other threads of the test process open other files meanwhile."""
    targets: list[str] = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            targets.append(str(file.readlink()))
    return len([target for target in targets if "userfaultfd" in target or target.endswith("/pagemap")])


def inner(seen: Look) -> list[tuple[int, int]]:
    """The dirty ranges without the partial pages at the ends."""
    return [(low, high) for low, high in seen.dirty if low >= PAGE and high <= seen.size - PAGE]


def fresh(size: int) -> np.ndarray:
    """Memory of a mapping of its own, which no earlier test used."""
    array = np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    array[:] = 1
    return array


@pytest.fixture
def array() -> np.ndarray:
    return fresh(4 * MB)


def address(array: np.ndarray, offset: int = MIDDLE) -> int:
    return int(array.ctypes.data) + offset


def advise(array: np.ndarray, advice: int, size: int = PAGE) -> int:
    start = -(-address(array) // PAGE) * PAGE
    return ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice)


def map_again(array: np.ndarray, offset: int, size: int) -> None:
    """Put new memory in the place of a part of the array."""
    libc, flags = ctypes.CDLL(None), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10
    place = ctypes.c_void_p(address(array, offset))
    libc.mmap(place, ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, ctypes.c_long(0))


def by_item(array: np.ndarray) -> None:
    array[MIDDLE] = 2


def by_pointer(array: np.ndarray) -> None:
    ctypes.memset(address(array), 2, 1)


def by_thread(array: np.ndarray) -> None:
    thread = threading.Thread(target=by_item, args=(array,))
    thread.start()
    thread.join()


def by_read(array: np.ndarray) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"2")
    os.readv(reading, [memoryview(array)[MIDDLE : MIDDLE + 1]])
    os.close(reading)
    os.close(writing)


def by_direct_read(array: np.ndarray) -> None:
    file = Path(os.environ["PYTEST_DIRECT"])
    file.write_bytes(b"\2" * PAGE)
    start = -address(array) % PAGE + MIDDLE
    try:
        opened = os.open(file, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("this file system has no direct reads")
    os.readv(opened, [memoryview(array)[start : start + PAGE]])
    os.close(opened)
    assert array[start] == 2


def by_own_memory_file(array: np.ndarray) -> None:
    with Path("/proc/self/mem").open("r+b", 0) as file:
        file.seek(address(array))
        file.write(b"2")


def by_dropping(array: np.ndarray) -> None:
    advise(array, DONTNEED)


def by_dropping_much(array: np.ndarray) -> None:
    advise(array, DONTNEED, MB)


def after_page_out(array: np.ndarray) -> None:
    advise(array, PAGEOUT, MB)
    by_item(array)


def after_collapse(array: np.ndarray) -> None:
    advise(array, COLLAPSE, MB)
    by_item(array)


def after_fork(array: np.ndarray) -> None:
    in_child(lambda: None)
    by_item(array)


def after_protection(array: np.ndarray) -> None:
    libc = ctypes.CDLL(None)
    start, size = ctypes.c_void_p(-(-address(array) // PAGE) * PAGE), ctypes.c_size_t(MB)
    assert libc.mprotect(start, size, mmap.PROT_READ) == 0
    assert libc.mprotect(start, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    array[MIDDLE + PAGE] = 2


def in_child(work: Callable[[], object]) -> int:
    """Run *work* in a forked child, and return its exit status."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


WRITES = [
    *(by_item, by_pointer, by_thread, by_read, by_direct_read, by_own_memory_file),
    *(by_dropping, by_dropping_much, after_page_out, after_collapse, after_fork, after_protection),
]


@needs_record
@pytest.mark.parametrize("huge", [False, True], ids=["small pages", "huge pages"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_every_kind_of_write_is_named(
    write: Callable[[Any], None], huge: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DIRECT", str(tmp_path / "direct"))
    array = np.empty(8 * MB, np.uint8)
    if huge:
        advise(array, HUGE, 4 * MB)
    array[:] = 1
    first = look(array)
    second = look(array, first)
    before = array.copy()
    write(array)
    third = look(array, second)
    changed = np.flatnonzero(before != array)
    assert inner(second) == []
    assert len(changed)
    assert all(covers(third, at) for at in changed[:: max(1, len(changed) // 100)])
    assert inner(look(array, third)) == []
    assert all(covers(look(array, first), at) for at in (changed[0], changed[-1]))


@needs_record
def test_new_memory_at_an_old_address_is_dirty(array: np.ndarray) -> None:
    first = look(array)
    map_again(array, 0, array.nbytes)
    assert look(array, first).dirty == [(0, array.nbytes)]


@needs_record
def test_looks_of_two_uses_do_not_hide_writes(array: np.ndarray) -> None:
    one, other = look(array), look(array)
    by_item(array)
    assert covers(look(array, one), MIDDLE)
    assert covers(look(array, other), MIDDLE)


@needs_record
def test_a_look_at_a_view_hides_no_write_from_the_whole(array: np.ndarray) -> None:
    whole, view = look(array), array[MB : 3 * MB]
    part = look(view)
    by_item(array)
    assert covers(look(view, part), MIDDLE - MB)
    assert covers(look(array, whole), MIDDLE)


@needs_record
def test_a_larger_look_voids_that_at_a_part(array: np.ndarray) -> None:
    view = array[MB : 3 * MB]
    part = look(view)
    whole = look(array)
    by_item(array)
    assert look(view, part).dirty == [(0, view.nbytes)]
    assert covers(look(array, whole), MIDDLE)


@needs_record
def test_two_buffers_that_share_a_page_are_both_watched(array: np.ndarray) -> None:
    middle = 2 * MB + 100
    pair = array[:middle], array[middle:]
    first = [look(part) for part in pair]
    again = [look(part, seen) for part, seen in zip(pair, first, strict=True)]
    assert again[0].dirty == []
    assert again[1].dirty == [(0, PAGE - 100)]
    pair[0][-1] = pair[1][0] = 9
    third = [look(part, seen) for part, seen in zip(pair, again, strict=True)]
    assert covers(third[0], middle - 1)
    assert covers(third[1], 0)
    assert all(seen.proves for seen in third)
    pair[1][0] = 8
    assert covers(look(pair[1], third[1]), 0)


@needs_record
def test_an_unwritten_buffer_is_wholly_clean(array: np.ndarray) -> None:
    for part in (array, array[1:-1], fresh(64 * MB)[16:]):
        first = look(part)
        assert look(part, first).dirty == []
        part[0] = part[-1] = 9
        second = look(part, first)
        assert covers(second, 0)
        assert covers(second, len(part) - 1)
        assert look(part, second).dirty == []


@needs_record
@pytest.mark.parametrize("is_above", [True, False])
def test_a_page_of_a_buffer_that_is_gone_is_clean(array: np.ndarray, is_above: bool) -> None:
    below, above = array[: MIDDLE + 16], array[MIDDLE + 16 :]
    gone, part = (below, above) if is_above else (above, below)
    look(gone)
    start, size = (MIDDLE, len(array) - MIDDLE) if is_above else (0, MIDDLE + PAGE)
    map_again(array, start, size)
    array[start : start + size] = 1
    first = look(part)
    assert look(part, first).dirty == []


@needs_record
def test_memory_that_is_to_be_written_counts_as_written(array: np.ndarray) -> None:
    first = look(array)
    page_record().expect_write(address(array), 3 * PAGE)
    array[MIDDLE] = 2
    second = look(array, first)
    assert inner(second) == [(MIDDLE, MIDDLE + 3 * PAGE)]
    assert not inner(look(array, second))
    by_item(array)
    assert covers(look(array, second), MIDDLE)


@needs_record
def test_memory_that_nobody_watches_may_be_written(array: np.ndarray) -> None:
    page_record().expect_write(address(array), PAGE)
    look(array[:MB])
    page_record().expect_write(address(array, 0), 4 * MB)  # only a part is watched
    array[:] = 3


@needs_record
def test_many_looks_lose_no_write_of_long_ago(array: np.ndarray) -> None:
    first = latest = look(array)
    for step in range(40):
        array[MIDDLE + step * PAGE] = 2
        latest = look(array, latest)
    assert all(covers(look(array, first), MIDDLE + step * PAGE) for step in range(40))
    assert inner(look(array, latest)) == []


@needs_record
def test_thousands_of_written_pages_are_named() -> None:
    array = fresh(80 * MB)
    first = look(array)
    for step in (1, 2):
        array[: 40 * MB : 2 * PAGE] = step
        seen = look(array, first)
        assert all(covers(seen, at) for at in range(0, 40 * MB, 200 * PAGE))
        assert seen.dirty[-1][1] <= 40 * MB


@needs_record
def test_an_interrupted_look_loses_no_write(array: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    first = look(array)
    by_item(array)
    scan = Userfault.written

    def interrupted(self: Userfault, start: int, end: int) -> None:
        scan(self, start, end)
        raise KeyboardInterrupt

    monkeypatch.setattr(Userfault, "written", interrupted)
    with pytest.raises(KeyboardInterrupt):
        look(array, first)
    monkeypatch.undo()
    after = look(array, first)
    assert covers(after, MIDDLE)
    assert inner(look(array, after)) == []


@needs_record
def test_a_look_within_a_look_neither_waits_nor_loses_a_write(
    array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look(array)
    by_item(array)
    scan, within = Userfault.written, list[Look]()

    def signalled(self: Userfault, start: int, end: int) -> list[tuple[int, int]]:
        written = scan(self, start, end)
        monkeypatch.undo()
        within.append(look(array, first))
        return written

    monkeypatch.setattr(Userfault, "written", signalled)
    outer = look(array, first)
    assert covers(within[0], MIDDLE)
    assert covers(outer, MIDDLE)
    array[3 * MB] = 9
    assert all(covers(look(array, seen), 3 * MB) for seen in (first, outer, within[0]))


@needs_record
def test_what_a_region_remembers_is_bounded(array: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MOST_RANGES", 4)
    first = latest = look(array)
    for step in range(60):
        array[step * 7 * PAGE] = 2
        latest = look(array, latest)
    (region,) = page_record().regions.overlapping(array.ctypes.data, array.ctypes.data + 1)
    assert sum(len(ranges) for _, ranges in region.entries) < 60
    assert all(covers(look(array, first), step * 7 * PAGE) for step in range(60))


@needs_record
def test_a_mostly_written_buffer_rests_and_is_watched_again(array: np.ndarray) -> None:
    page_record().rests.clear()
    first = look(array)
    array[:] = 2
    second = look(array, first)
    assert second.dirty == [(0, array.nbytes)]
    assert not second.proves
    assert not look(array, second).proves
    third = look(array)
    assert third.proves
    assert inner(look(array, third)) == []


@needs_record
def test_a_resized_array_is_dirty_where_it_is_new(array: np.ndarray) -> None:
    grown = np.ones(64 * MB, np.uint8)
    first = look(grown)
    grown.resize(128 * MB, refcheck=False)
    assert look(grown, first).dirty == [(0, grown.nbytes)]
    second = look(grown)
    grown.resize(64 * MB, refcheck=False)
    third = look(grown, second)
    assert third.dirty == [(0, grown.nbytes)]
    grown[MIDDLE] = 5
    assert covers(look(grown, third), MIDDLE)


@needs_record
def test_memory_of_others_is_never_watched(tmp_path: Path) -> None:
    shared = SharedMemory(create=True, size=2 * MB)
    try:
        views = [
            np.memmap(tmp_path / "mapped", np.uint8, "w+", shape=2 * MB),
            np.frombuffer(mmap.mmap(-1, 2 * MB), np.uint8),
            np.ndarray(2 * MB, np.uint8, shared.buf),
            np.frombuffer(mmap.mmap(-1, 2 * MB, mmap.MAP_PRIVATE), np.uint8)[: LEAST // 2],
        ]
        assert [look(view).proves for view in views] == [False] * 4
        assert all(look(view, look(view)).dirty == [(0, view.nbytes)] for view in views)
        assert look(fresh(2 * MB)).proves
    finally:
        del views
        gc.collect()
        shared.close()
        shared.unlink()


@needs_record
def test_an_open_direct_file_makes_a_round_worthless(array: np.ndarray, tmp_path: Path) -> None:
    first = look(array)
    (tmp_path / "direct").write_bytes(bytes(PAGE))
    try:
        opened = os.open(tmp_path / "direct", os.O_RDONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("this file system has no direct reads")
    during = look(array, first)
    os.close(opened)
    assert during.dirty == [(0, array.nbytes)]
    assert look(array, during).dirty == [(0, array.nbytes)]
    assert process.unseen_writer() == ""


@needs_record
def test_a_device_opened_during_a_round_voids_it(array: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_record().round() as looks:
        during = looks.at(array.ctypes.data, array.nbytes)
        monkeypatch.setattr(pages, "unseen_writer", lambda: "/dev/nvidia0")
    monkeypatch.undo()
    assert not during.proves
    assert look(array, during).dirty == [(0, array.nbytes)]


@needs_record
def test_memory_that_became_a_file_in_a_round_is_let_go(
    array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    with page_record().round() as looks:
        during = looks.at(array.ctypes.data, array.nbytes)
        monkeypatch.setattr(pages, "private_memory", list)
    assert not during.proves


@needs_record
def test_a_forked_child_has_a_record_of_its_own(array: np.ndarray) -> None:
    first = look(array)
    files = open_files()

    def child() -> None:
        assert open_files() == files - 2
        assert look(array, first).dirty == [(0, array.nbytes)]
        mine = look(array)
        array[MIDDLE] = 7
        assert covers(look(array, mine), MIDDLE)

    assert in_child(child) == 0
    assert inner(look(array, first)) == []


@needs_record
def test_a_copy_of_the_dirty_ranges_keeps_up_with_threads(array: np.ndarray, often: None) -> None:
    stop = threading.Event()

    def write(first: int) -> None:
        step = 0
        while not stop.is_set():
            step += 1
            array[first + step % 300 * (PAGE // 3)] = step % 251

    threads = [threading.Thread(target=write, args=(PAGE * 100 * n,)) for n in (1, 3, 8)]
    latest, mirror = look(array), array.copy()
    for thread in threads:
        thread.start()
    for _ in range(100):
        latest = follow(array, latest, mirror)
    stop.set()
    for thread in threads:
        thread.join()
    latest = follow(array, latest, mirror)
    assert (mirror == array).all()
    assert inner(look(array, latest)) == []


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads take turns often: a look waits for its turn many times, each time 5 ms for each thread."""
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(former)


def follow(array: np.ndarray, latest: Look, mirror: np.ndarray) -> Look:
    seen = look(array, latest)
    for low, high in seen.dirty:
        mirror[low:high] = array[low:high]
    return seen


def off(error: OSError) -> PageRecord:
    def refuse() -> Userfault:
        raise error

    return PageRecord(refuse)


@pytest.mark.parametrize("number", [1, 38, 22, 24], ids=["EPERM", "ENOSYS", "EINVAL", "EMFILE"])
def test_without_a_record_everything_is_dirty(number: int, array: np.ndarray) -> None:
    record = off(OSError(number, f"userfaultfd: {os.strerror(number)}"))
    assert os.strerror(number) in record.why_off
    with record.round() as looks:
        first = looks.at(array.ctypes.data, array.nbytes)
        assert looks.at(array.ctypes.data, array.nbytes, first).dirty == [(0, array.nbytes)]
    assert not first.proves


def test_the_environment_turns_the_record_off(monkeypatch: pytest.MonkeyPatch, array: np.ndarray) -> None:
    monkeypatch.delenv("NBCKPT_PAGE_RECORD", raising=False)
    assert settings.wants_page_record()
    monkeypatch.setenv("NBCKPT_PAGE_RECORD", "0")
    assert "NBCKPT_PAGE_RECORD=0" in page_record().why_off
    assert look(array, look(array)).dirty == [(0, array.nbytes)]


@needs_record
def test_a_record_that_misses_a_write_is_turned_off() -> None:
    class Blind(Userfault):
        def written(self, start: int, end: int) -> list[tuple[int, int]]:
            super().written(start, end)
            return []

    files = open_files()
    assert PageRecord(Blind).why_off == "it is not exact here: a write through a pointer"
    assert open_files() == files


@needs_record
@pytest.mark.parametrize("call", ["protect", "written", "release"])
def test_a_refused_call_makes_a_buffer_dirty(
    call: str, array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look(array)

    def refuse(*_: object) -> None:
        raise OSError(16, "busy")

    monkeypatch.setattr(Userfault, call, refuse)
    other = fresh(2 * MB)
    look(other)
    if call == "written":
        assert look(array, first).dirty == [(0, array.nbytes)]
    if call == "protect":
        assert not look(other).proves


@pytest.mark.slow
@needs_record
def test_a_thousand_buffers_cost_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_REGIONS", 8)
    record = PageRecord()
    monkeypatch.setattr(pages.PROCESS, "record", record)
    files = open_files()
    kept = [fresh(MB + 2 * PAGE) for _ in range(40)]
    for array in kept:
        look(array)
    assert open_files() == files
    assert [look(kept[0]).proves, len(record.regions)] == [True, 8]
    record.close("tested")
