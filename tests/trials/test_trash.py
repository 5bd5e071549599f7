"""rm takes experiments and trials' checkpoints away, undo brings them back, and only gc deletes them."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.cli import main
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.trials import trash
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec_file


def train(config: dict[str, Any]) -> None:
    for step in (1, 2, 3):
        nbckpt.report(loss=1 / step, checkpoint={"step": step})


@pytest.fixture
def library(experiments: Path) -> Catalog:
    """Return a catalog of two experiments."""
    for name in ("e", "f"):
        ran(train, name=name)
    return Catalog(experiments)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.suffix != ".lock"
    }


def steps(library: Catalog, name: str = "e/t0") -> list[int]:
    return [record.step for record in library.trial(name)[1].checkpoints.records()]


def test_experiments_are_listed_as_they_began(library: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the folders changes all their times; and each file is read once."""
    (library.folder / "f").rename(library.folder / "copied")
    shutil.copytree(library.folder / "e", library.folder / "e2")
    shutil.rmtree(library.folder / "e")
    assert library.names() == ["e2", "copied"]
    monkeypatch.setattr(spec_file, "only_files", lambda *_: pytest.fail("it was read again"))
    assert library.names() == ["e2", "copied"]


def test_a_damaged_experiment_has_the_time_of_its_file(library: Catalog) -> None:
    file = library.folder / "e" / spec_file.FILE
    file.write_bytes(b"{}")
    assert library.names() == ["f", "e"]
    os.utime(file, (0, 0))
    assert library.names() == ["e", "f"]
    os.utime(file, (1e15, 1e15))  # the year 30 million, where the disk can say so
    assert library.names() == ["f", "e"]


def test_undo_brings_back_removed_experiments_and_checkpoints(library: Catalog) -> None:
    before = contents(library.folder)
    removal = library.remove("e", "f/t0@2")
    assert removal.labels == ["e", "f/t0@2"]
    assert library.names() == ["f"]
    assert steps(library, "f/t0") == [1, 3]
    (listed,) = trash.removals(library.folder)
    assert listed == removal
    listed.bring_back()
    assert contents(library.folder) == before
    assert trash.removals(library.folder) == []
    before = contents(library.folder)
    library.remove("e/t0@1", "e").bring_back()
    assert contents(library.folder) == before
    assert library.remove("e", "e").labels == ["e"]
    assert library.remove("f/t0@1", "f/t0@001").labels == ["f/t0@1"]


def failing(number: int) -> Callable[..., Any]:
    """Return a function that fails as a call of the system does."""

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fails


@contextmanager
def unreadable(end: str, *calls: str) -> Iterator[None]:
    """Let calls of the system fail for paths with this end. The block must say so."""

    def failing_at_end(call: Callable[..., Any]) -> Callable[..., Any]:
        def fails(path: Any = ".", *args: Any, **options: Any) -> Any:
            return (failing(errno.EIO) if str(path).endswith(end) else call)(path, *args, **options)

        return fails

    says = pytest.raises(StoreError, match=f"cannot read .*{end}': Input/output error")
    with pytest.MonkeyPatch.context() as patch, says:
        for name in calls:
            patch.setattr(os, name, failing_at_end(getattr(os, name)))
        yield


def test_rm_moves_all_of_a_checkpoint_or_nothing(library: Catalog) -> None:
    whole = sorted(library.folder.rglob("*"))
    with unreadable("checkpoint_000001.json", "stat", "lstat"):
        library.remove("e/t0@1")
    assert sorted(library.folder.rglob("*")) == whole


def test_a_folder_that_cannot_be_read_is_one_clear_error(library: Catalog) -> None:
    with unreadable("/e", "listdir"):
        assert library.open("f").trials[0].iteration == 3
        library.open("e")
    experiment = Experiment(library.folder / "e", library.open("e").spec)
    with unreadable("e/experiment.json", "stat"):
        experiment.refresh()
    library.remove("e")
    with unreadable("/experiments", "listdir"):
        trash.removals(library.folder)


def test_gc_deletes_removed_experiments_and_counts_them(
    library: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rm", "e"]) == 0
    size = trash.removals(library.folder)[0].size
    assert size > 0
    before = contents(library.folder)
    assert main(["gc", "--dry-run"]) == 0
    assert contents(library.folder) == before
    assert "deleted e, " in capsys.readouterr().out
    assert main(["gc"]) == 0
    assert set(contents(library.folder)) == {path for path in before if path.startswith("f/")}
    assert main(["undo"]) == 1


def test_rm_and_undo_work_in_a_shell(library: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(library.folder)
    assert main(["rm", "e", "f/t0@1"]) == 0
    assert "Undo: nbckpt undo" in capsys.readouterr().out
    assert main(["rm", "f"]) == 0
    assert library.names() == []
    assert main(["undo"]) == 0
    assert "Restored f" in capsys.readouterr().out
    assert library.names() == ["f"]
    assert main(["undo"]) == 0
    assert contents(library.folder) == before


def test_an_undo_that_would_replace_something_is_refused(library: Catalog) -> None:
    removal = library.remove("f", "e")
    ran(train, name="e")
    before = contents(library.folder)
    with pytest.raises(nbckpt.UsageError, match="'e' exists again"):
        removal.bring_back()
    assert contents(library.folder) == before
    library.remove("e")
    removal.bring_back()
    assert sorted(library.names()) == ["e", "f"]


@pytest.mark.parametrize("asked", ["resume", "pause", "stop"])
def test_an_experiment_removed_by_another_kernel_is_not_changed(library: Catalog, asked: str) -> None:
    experiment = library.open("e")
    library.remove("e")  # as another kernel does it: this one has the object still
    with pytest.raises(NotFoundError, match="was removed"):
        getattr(experiment, asked)()
    assert not (library.folder / "e").exists()


@pytest.mark.slow
def test_an_experiment_that_runs_is_not_removed(library: Catalog) -> None:
    go, began = Event(), Event()

    def waits(config: dict[str, Any]) -> None:
        began.set()
        assert go.wait(60)

    experiment = nbckpt.run(waits, name="live")
    assert began.wait(60)
    before = set(contents(library.folder))
    with pytest.raises(nbckpt.UsageError, match=r"live is running\. Stop it first: %ckpt stop live"):
        library.remove("e", "live")
    assert set(contents(library.folder)) == before
    go.set()
    assert experiment.wait(60)
    library.remove("live")


def test_a_damaged_experiment_can_be_removed(library: Catalog) -> None:
    (library.folder / "e" / "experiment.json").write_bytes(b"")
    library.remove("e")
    assert library.names() == ["f"]


def test_removing_a_linked_experiment_removes_only_the_link(library: Catalog) -> None:
    before = contents(library.folder / "f")
    library.remove("e")
    trash.empty(library.folder)
    (library.folder / "e").symlink_to(library.folder / "f")
    library.remove("e").bring_back()
    assert sorted(library.names()) == ["e", "f"]
    library.remove("e")
    trash.empty(library.folder)
    assert contents(library.folder / "f") == before


def test_a_checkpoint_behind_a_link_is_not_moved(library: Catalog, tmp_path: Path) -> None:
    outside = (library.folder / "e" / "t0").rename(tmp_path / "outside")
    before = contents(outside)
    (library.folder / "e" / "t0").symlink_to(outside)
    with pytest.raises(nbckpt.UsageError, match="e/t0 leads outside"):
        library.remove("e/t0@1")
    assert contents(outside) == before


def test_an_invalid_name_in_the_trash_is_ignored(library: Catalog, subtests: pytest.Subtests) -> None:
    for name in [
        ".removed~20260101T000000000000Z-00000000~..",
        ".removed~20260101T000000000000Z-00000000~..%2F..%2Fx",
        ".removed~20260101T000000000000Z-00000000~e~..~checkpoint_1",
        ".removed~20260101T000000000000Z-00000000~%2e%2e",
        ".removed~20260101T000000000000Z-00000000~.hidden",
        ".removed~20260101T000000000000Z-00000000~e%00f",
        ".removed~now~e",
        ".removed~~",
    ]:
        with subtests.test(name):
            (library.folder / name).mkdir()
            assert trash.removals(library.folder) == []
            trash.empty(library.folder)
            assert (library.folder / name).is_dir()


@contextmanager
def killed_after(moves: int) -> Iterator[None]:
    """End the block at a move, as a kill does; count the moves from 0."""
    move, left = trash.move, iter(range(moves))

    def dies(*args: Path) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        move(*args)

    killed = pytest.raises(KeyboardInterrupt)
    with pytest.MonkeyPatch.context() as patch, killed:
        patch.setattr(trash, "move", dies)
        yield


@pytest.mark.parametrize("moves", range(3))
def test_a_removal_killed_at_any_move_loses_nothing(library: Catalog, moves: int) -> None:
    before = contents(library.folder)
    with killed_after(moves):
        library.remove("e/t0@1", "f")
    library.trial("e/t0")[1].checkpoints.sweep()
    for removal in trash.removals(library.folder):
        removal.bring_back()
    assert contents(library.folder) == before


@pytest.mark.parametrize("moves", range(3))
def test_an_undo_killed_at_any_move_can_be_repeated(library: Catalog, moves: int) -> None:
    before = contents(library.folder)
    removal = library.remove("e/t0@1", "f")
    with killed_after(moves):
        removal.bring_back()
    library.trial("e/t0")[1].checkpoints.sweep()
    for left in trash.removals(library.folder):
        left.bring_back()
    removal.bring_back()
    assert contents(library.folder) == before


def test_a_killed_collection_is_finished_by_the_next_one(library: Catalog) -> None:
    removal = library.remove("e")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trash, "discard", lambda place: None)
        trash.empty(library.folder)
    with pytest.raises(nbckpt.NotFoundError, match="`gc` has deleted it"):
        removal.bring_back()
    _, freed = trash.empty(library.folder)
    assert freed > 0
    assert not any(path.startswith(".") for path in contents(library.folder))


def before_move(monkeypatch: pytest.MonkeyPatch, of: Callable[[Path], bool], act: Callable[[], Any]) -> None:
    """Have something happen before the first move of such a path."""
    move = trash.move

    def moves(folder: Path, source: Path, target: Path) -> None:
        if of(source):
            monkeypatch.setattr(trash, "move", move)
            act()
        move(folder, source, target)

    monkeypatch.setattr(trash, "move", moves)


@pytest.mark.parametrize("first", ["folder", "record"])
def test_a_collection_during_an_undo_leaves_no_half_checkpoint(
    library: Catalog, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    removal, is_record = library.remove("e/t0@1"), first == "record"

    def of_first(source: Path) -> bool:
        return (source.suffix == ".json") == is_record

    before_move(monkeypatch, of_first, lambda: trash.empty(library.folder))
    with pytest.raises(nbckpt.NotFoundError, match="`gc` has deleted it"):
        removal.bring_back()
    assert steps(library) == [2, 3]
    assert not (library.folder / "e/t0/checkpoint_000001.json").exists()


def test_rm_and_gc_of_experiments_need_no_space(library: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    full, opens = failing(errno.ENOSPC), os.open

    def opens_only_to_read(path: Any, flags: int, *more: Any, **names: Any) -> Any:
        return (full if flags & os.O_CREAT else opens)(path, flags, *more, **names)

    for name in ("mkdir", "write", "link", "symlink"):
        monkeypatch.setattr(os, name, full)
    monkeypatch.setattr(os, "open", opens_only_to_read)
    library.remove("e", "f/t0@1")
    labels, freed = trash.empty(library.folder)
    monkeypatch.undo()
    assert labels == ["e", "f/t0@1"]
    assert freed > 0
    assert library.names() == ["f"]


def test_a_removal_that_the_disk_refuses_has_no_effect(
    library: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(library.folder)
    before_move(monkeypatch, lambda source: source.name == "f", failing(errno.EACCES))
    with pytest.raises(StoreError, match="cannot remove 'f': Permission denied"):
        library.remove("e", "f")
    assert contents(library.folder) == before
    sync, number = trash.sync_folder, itertools.count(1)

    def fails(folder: Path) -> None:
        (failing(errno.EIO) if next(number) == 2 else sync)(folder)

    monkeypatch.setattr(trash, "sync_folder", fails)
    with pytest.raises(StoreError, match="cannot remove 'f': Input/output error"):
        library.remove("e", "f")
    assert contents(library.folder) == before


def test_an_undo_never_writes_behind_a_link_that_leads_outside(library: Catalog, tmp_path: Path) -> None:
    removal = library.remove("e/t0@1")
    outside = (library.folder / "e").rename(tmp_path / "outside")
    before = contents(outside)
    (library.folder / "e").symlink_to(outside)
    with pytest.raises(nbckpt.UsageError, match="a link that leads outside"):
        removal.bring_back()
    assert contents(outside) == before


def test_two_undos_at_once_bring_back_the_whole_checkpoint(
    library: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(library.folder)
    removal = library.remove("e/t0@1")
    before_move(monkeypatch, lambda source: source.suffix != ".json", removal.bring_back)
    removal.bring_back()
    assert contents(library.folder) == before


def test_a_name_that_is_not_unicode_can_be_removed_and_restored(library: Catalog) -> None:
    name = os.fsdecode(b"\xff~%")
    (library.folder / "e").rename(library.folder / name)
    before = contents(library.folder)
    library.remove(name).bring_back()
    assert contents(library.folder) == before


def test_a_power_cut_never_shows_partly_deleted_files(
    library: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.remove("e")
    calls: list[str] = []
    monkeypatch.setattr(trash, "sync_folder", lambda folder: calls.append("sync"))
    monkeypatch.setattr(trash, "discard", lambda place: calls.append("delete"))
    trash.empty(library.folder)
    assert calls[:2] == ["sync", "delete"]


def test_a_push_does_not_copy_the_trash(library: Catalog) -> None:
    library.remove("e")
    made = nbckpt.mirror.Mirror(nbckpt.Tracker().store, library.folder, "memory://trash-push")
    assert list(made.push().experiments) == ["f"]


def test_rm_of_a_checkpoint_needs_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = nbckpt.Tracker(tmp_path / "store")
    tracker.save({"x": 1}, "one")
    for name in ("write", "writev"):
        monkeypatch.setattr(os, name, failing(errno.ENOSPC), raising=False)
    tracker.remove(["one"])
    assert tracker.entries() == []
    monkeypatch.undo()
    tracker.undo({})
    assert [entry.id for entry in tracker.entries()] == [tracker.find("one").id]
