"""Saving and loading states: one save is whole or not there, and what is loaded is what was saved."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import runpy
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mounting import mounted, needs_mount

import nbckpt
from nbckpt import UsageError
from nbckpt.core import schema
from nbckpt.errors import CorruptError, FormatError, StoreError
from nbckpt.states.folder import StateFolder
from nbckpt.states.saving import NO_FOLDER
from nbckpt.store import files, fsync
from state.conftest import Number, restarted, saves


def save(value: int, **options: Any) -> Path:
    """Make a save of one number."""
    state = Number("n", value)
    try:
        made = nbckpt.save_all_states(**options)
    finally:
        state.close()
    assert made is not None
    return Path(made)


def edit(folder: Path, **changes: Any) -> None:
    """Change a manifest."""
    manifest = folder / "manifest.json"
    read = json.loads(manifest.read_bytes()) | changes
    del read[schema.CHECKSUM]
    manifest.write_bytes(schema.seal(read))


def as_replica(monkeypatch: pytest.MonkeyPatch, rank: int, count: int) -> None:
    monkeypatch.setenv("NBCKPT_REPLICA_RANK", str(rank))
    monkeypatch.setenv("NBCKPT_NUM_REPLICAS", str(count))


class Broken(nbckpt.State):
    """A state whose save writes a half and fails."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(name)
        self.error = error

    def save(self, fileobj: IO[bytes]) -> None:
        fileobj.write(b"half")
        raise self.error


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# One save after another.


@pytest.mark.parametrize("replicas", [1, 2])
def test_two_names_are_two_states_and_a_duplicate_is_an_error(
    job: Path, monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    for rank in range(replicas):
        as_replica(monkeypatch, rank, replicas)
        with nbckpt.states.use_folder(job):
            kept = [Number("a"), Number("b")]
            with pytest.raises(ValueError, match="'a' already exists"):
                Number("a")
            del kept


def test_two_replicas_load_a_save_of_one_and_replica_0_saves(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both replicas sync; only replica 0 writes."""
    events: list[str] = []

    class ProgressCallback(Number):
        def sync(self) -> None:
            events.append("sync")

        def save(self, fileobj: IO[bytes]) -> None:
            events.append("save")
            super().save(fileobj)

    save(7)
    for rank in (1, 0):
        as_replica(monkeypatch, rank, 2)
        with nbckpt.states.use_folder(job):
            state = ProgressCallback("n")
            assert nbckpt.load_state(state)
            assert state.value == 7
            events.clear()
            made = nbckpt.save_all_states()
            assert (made is not None, events) == (rank == 0, ["sync", "save"] if rank == 0 else ["sync"])


def test_a_first_run_loads_nothing_and_keeps_its_defaults(job: Path) -> None:
    assert restarted(job) == (False, -1)
    assert not job.exists()
    save(1)
    assert restarted(job, "other") == (False, -1)  # a state that the save lacks


def test_several_pickled_objects_load_in_the_same_order(job: Path) -> None:

    class Several(nbckpt.State):
        values: list[Any] = []

        def save(self, fileobj: IO[bytes]) -> None:
            for value in self.values:
                pickle.dump(value, fileobj)

        def load(self, fileobj: IO[bytes]) -> None:
            self.values = [pickle.load(fileobj) for _ in range(3)]

    state = Several("s")
    state.values = written = [1, {"two": 2}, [3] * 1000]
    nbckpt.save_all_states()
    state.values = []
    assert nbckpt.load_state(state)
    assert state.values == written


def test_every_save_of_a_process_has_its_own_number_and_loads(job: Path) -> None:
    for number in range(1, 11):
        assert save(number) == job / f"checkpoint-{number}"
        assert restarted(job) == (True, number)


@pytest.mark.parametrize("restarts", ["0", "3", "7"])
def test_save_numbers_continue_after_any_restart(
    job: Path, monkeypatch: pytest.MonkeyPatch, restarts: str
) -> None:
    for value in range(5):
        save(value)
    monkeypatch.setenv("ADAPTDL_NUM_RESTARTS", restarts)
    assert save(9).name == "checkpoint-6"
    assert saves(job) == ["checkpoint-5", "checkpoint-6"]
    assert restarted(job) == (True, 9)


def test_a_save_syncs_waits_at_a_barrier_writes_and_waits_again(job: Path) -> None:
    """Every state syncs before the first barrier and is written before the second."""
    events: list[str] = []

    class ProgressCallback(nbckpt.State):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.name = name

        def sync(self) -> None:
            events.append(f"sync {self.name}")

        def save(self, fileobj: IO[bytes]) -> None:
            events.append(f"save {self.name}")

    def barrier() -> None:
        events.append(f"barrier, {len(saves(job)) if job.exists() else 0} saves")

    kept = [ProgressCallback("a"), ProgressCallback("b")]
    nbckpt.save_all_states(barrier=barrier)
    order = ["sync a", "sync b", "barrier, 0 saves", "save a", "save b", "barrier, 1 saves"]
    assert events == order
    with nbckpt.states.use_folder(job, barrier=barrier):
        kept = [ProgressCallback("a"), ProgressCallback("b")]
        events.clear()
        nbckpt.save_all_states()
    assert events == [event.replace("1 saves", "2 saves").replace("0 saves", "1 saves") for event in order]
    del kept


def test_replicas_pass_the_second_barrier_if_replica_0_fails(job: Path) -> None:
    passed: list[None] = []
    state = Broken("s", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        nbckpt.save_all_states(barrier=lambda: passed.append(None))
    assert len(passed) == 2
    state.close()


def test_only_replica_0_writes_to_disk(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_replica(monkeypatch, 1, 2)
    state, passed = Number(), list[None]()
    assert nbckpt.save_all_states(barrier=lambda: passed.append(None)) is None
    assert (len(passed), job.exists(), state.value) == (2, False, 0)


def test_each_save_reads_the_folder_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nbckpt.states.use_folder():
        state = Number()
        for name in ("a", "b"):
            monkeypatch.setenv("NBCKPT_CHECKPOINT_PATH", str(tmp_path / name))
            state.value = -1
            assert not nbckpt.load_state(state)
            state.value = ord(name)
            assert nbckpt.save_all_states() == str(tmp_path / name / "checkpoint-1")
            assert nbckpt.load_state(state)
        monkeypatch.setenv("NBCKPT_CHECKPOINT_PATH", str(tmp_path / "a"))
        assert nbckpt.load_state(state)
        assert state.value == ord("a")


def test_a_relative_folder_is_resolved_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with nbckpt.states.use_folder("job"):
        (tmp_path / "else").mkdir()
        monkeypatch.chdir(tmp_path / "else")
        assert save(1).parent == tmp_path / "job"


@pytest.mark.parametrize("url", ["s3://bucket/job", "file:///tmp/job", "GS://x", "memory://x"])
def test_a_url_is_refused_before_any_work(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(UsageError, match="in a folder that all replicas reach"),
        nbckpt.states.use_folder(url),
    ):
        pass
    with nbckpt.states.use_folder():
        state = Number()
        for call in (nbckpt.save_all_states, partial(nbckpt.states.save_state, state)):
            with pytest.raises(UsageError, match="in a folder"):
                call(url)
        monkeypatch.setenv("ADAPTDL_CHECKPOINT_PATH", url)
        for call in (nbckpt.save_all_states, partial(nbckpt.load_state, state)):
            with pytest.raises(UsageError, match="in a folder"):
                call()
    assert list(tmp_path.iterdir()) == []


def test_a_save_without_states_writes_and_removes_nothing(
    job: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(1)
    for _ in range(3):
        assert nbckpt.save_all_states() is None
    assert restarted(job) == (True, 1)
    assert warnings(caplog) == ["no state is alive, so nothing is saved. Keep each state in a variable"] * 3


def test_one_state_is_a_file_in_a_folder_of_the_caller_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    with nbckpt.states.use_folder():
        state = Number("n", 5)
        monkeypatch.setattr(Number, "sync", lambda self: synced.append(self.value), raising=False)
        nbckpt.states.save_state(state, tmp_path / "new" / "folder")
        nbckpt.states.save_state(state, str(tmp_path / "else"), sync=False)
        as_replica(monkeypatch, 1, 2)
        nbckpt.states.save_state(state, tmp_path / "other replica")
    assert synced == [5, 5]
    for folder in ("new/folder", "else"):
        assert pickle.loads((tmp_path / folder / "n.state").read_bytes()) == 5
    assert not (tmp_path / "other replica").exists()


@pytest.mark.slow
def test_an_adaptdl_program_runs_with_only_its_import_changed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import pickle
        from nbckpt import states as checkpoint

        class Counter(checkpoint.State):
            def __init__(self):
                super().__init__("counter")
                self.count = 0
            def save(self, fileobj):
                pickle.dump(self.count, fileobj)
            def load(self, fileobj):
                self.count = pickle.load(fileobj)

        counter = Counter()
        checkpoint.load_state(counter)
        counter.count += 1
        checkpoint.save_all_states()
        checkpoint.save_state(counter, "extra", sync=False)
        print(counter.count)
        """
    )
    for run in range(3):
        env = os.environ | {"ADAPTDL_CHECKPOINT_PATH": "job", "ADAPTDL_NUM_RESTARTS": str(run)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == (f"{run + 1}\n", "")


# What is kept, and what goes.


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_saves_are_kept(job: Path, keep: int) -> None:
    for value in range(1, 8):
        save(value, keep=keep)
    assert saves(job) == [f"checkpoint-{number}" for number in range(8 - keep, 8)]


def test_two_saves_are_kept_unless_the_block_sets_another_number(job: Path) -> None:
    for value in range(4):
        save(value)
    assert saves(job) == ["checkpoint-3", "checkpoint-4"]
    with nbckpt.states.use_folder(job, keep=1):
        save(4)
    assert saves(job) == ["checkpoint-5"]


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_zero_saves_is_refused(job: Path, keep: int) -> None:
    with pytest.raises(UsageError, match=f"keep={keep}: keep at least one save"):
        save(1, keep=keep)
    with pytest.raises(UsageError, match=f"keep={keep}"), nbckpt.states.use_folder(job, keep=keep):
        pass
    assert not job.exists()


def test_foreign_folders_are_kept_and_not_loaded(
    job: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Other programs call their folders so, too."""
    for end in ("old", "", "007", "-1", "\u0661"):
        (job / f"checkpoint-{end}").mkdir(parents=True)
    (job / "best").mkdir()
    (job / "checkpoint-500" / "weights").mkdir(parents=True)
    (job / "checkpoint-12" / "manifest.json").mkdir(parents=True)
    for number, text in ((7, '{"files": 1}'), (8, "[1]")):
        (job / f"checkpoint-{number}").mkdir()
        (job / f"checkpoint-{number}" / "manifest.json").write_text(text)
    (job / "checkpoint-11").write_text("a file")
    before = saves(job)
    assert restarted(job) == (False, -1)
    assert "checkpoint-500 is skipped" in "\n".join(warnings(caplog))
    assert save(1).name == "checkpoint-501"
    for value in range(2, 5):
        save(value)
    assert saves(job) == sorted([*before, "checkpoint-503", "checkpoint-504"])
    assert restarted(job) == (True, 4)


def test_damaged_saves_do_not_count_as_kept_and_go_when_old(job: Path) -> None:
    for value in range(1, 4):
        save(value, keep=9)
    (job / "checkpoint-2" / "n.state").unlink()
    save(4, keep=2)
    assert saves(job) == ["checkpoint-3", "checkpoint-4"]
    (job / "checkpoint-4" / "manifest.json").write_bytes(b"")
    save(5, keep=2)
    assert saves(job) == ["checkpoint-3", "checkpoint-4", "checkpoint-5"]
    save(6, keep=2)
    assert saves(job) == ["checkpoint-5", "checkpoint-6"]


def test_the_next_save_removes_remains_of_crashes(job: Path) -> None:
    job.mkdir()
    for left in (".nbckpt-tmp-0123456789ab", ".nbckpt-tmp-ba9876543210"):
        (job / left).mkdir()
        (job / left / "z.state").write_text("half")
    made = save(1)
    assert saves(job) == ["checkpoint-1"]
    assert sorted(entry.name for entry in made.iterdir()) == ["manifest.json", "n.state"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, ConnectionResetError])
def test_a_later_save_publishes_nothing_of_a_failed_save(job: Path, error: type[BaseException]) -> None:
    save(1)
    kept = Number("n", 2), Broken("z", error())
    with pytest.raises(error):
        nbckpt.save_all_states()
    assert saves(job) == ["checkpoint-1"]
    assert restarted(job) == (True, 1)
    kept[1].close()
    made = nbckpt.save_all_states()
    assert made is not None
    assert sorted(entry.name for entry in Path(made).iterdir()) == ["manifest.json", "n.state"]
    assert restarted(job) == (True, 2)


def test_a_states_own_error_about_another_file_is_not_wrapped(job: Path, tmp_path: Path) -> None:
    state = Broken("s", PermissionError(13, "Permission denied", "/somewhere/else"))
    with pytest.raises(PermissionError, match="/somewhere/else") as caught:
        nbckpt.save_all_states()
    assert not isinstance(caught.value, StoreError)
    state.close()


# Damage.


def test_load_warns_and_falls_back_from_a_damaged_save(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(1)
    newest = save(2)
    (newest / "n.state").write_bytes(b"")
    assert restarted(job) == (True, 1)
    assert warnings(caplog) == [
        f"checkpoint-2 is skipped: '{newest / 'n.state'}', the state 'n', is not what was saved",
        f"loading the older save {job / 'checkpoint-1'}",
    ]
    assert save(3).name == "checkpoint-3"


def test_a_save_with_one_damaged_state_is_skipped_entirely(job: Path) -> None:
    """Never some states of one save and some of another."""
    for value in (1, 2):
        kept = [Number("a", value), Number("b", value)]
        newest = nbckpt.save_all_states()
        for state in kept:
            state.close()
    assert newest is not None
    (Path(newest) / "b.state").unlink()
    assert (restarted(job, "a"), restarted(job, "b")) == ((True, 1), (True, 1))


def flip(folder: Path) -> None:
    data = bytearray((folder / "n.state").read_bytes())
    data[2] ^= 1
    (folder / "n.state").write_bytes(data)


def link_file(folder: Path) -> None:
    (folder / "n.state").rename(folder / "there")
    (folder / "n.state").symlink_to(folder / "there")


def make_pipe(folder: Path) -> None:
    (folder / "n.state").unlink()
    os.mkfifo(folder / "n.state")
    edit(folder, states={"n": ["n.state", 0, "00"]})


def make_folder(folder: Path) -> None:
    (folder / "n.state").unlink()
    (folder / "n.state").mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda folder: (folder / "n.state").unlink(),
    "cut short": lambda folder: os.truncate(folder / "n.state", 3),
    "too long": lambda folder: (folder / "n.state").write_bytes((folder / "n.state").read_bytes() + b"x"),
    "changed": flip,
    "a link": link_file,
    "a pipe": make_pipe,
    "a folder": make_folder,
    "no manifest": lambda folder: (folder / "manifest.json").write_bytes(b""),
}


def test_load_detects_damage_and_fails_without_an_older_save(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name, damage in DAMAGES.items():
        job = tmp_path / name / "job"
        with subtests.test(name), nbckpt.states.use_folder(job):
            save(1)
            damage(save(2))
            assert restarted(job) == (True, 1)
            damage(job / "checkpoint-1")
            with pytest.raises(CorruptError, match=r"no save in '.*/job' is complete: .* move it away"):
                restarted(job)


FILES = ["../n.state", "/etc/n.state", "..\\n.state", "c:n.state", "m.state", "n.state\0", ""]
HOSTILE: list[dict[str, Any]] = [
    *({"states": {"n": [file, 4, "00"]}} for file in FILES),
    *({"states": {"n": ["n.state", size, "00"]}} for size in (float("inf"), -1)),
    *({"states": {"n": entry}} for entry in ([5, 1, "00"], ["n.state"], None)),
    *({"states": states} for states in (["n"], None)),
    *({"replicas": number} for number in (None, float("inf"))),
    {"states": [[[]]] * 3, "replicas": {}},
]


def test_a_hostile_manifest_is_corrupt(job: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "n.state").write_bytes(pickle.dumps(5))
    made = save(1)
    whole = (made / "manifest.json").read_bytes()
    for hostile in HOSTILE:
        (made / "manifest.json").write_bytes(whole)
        edit(made, **hostile)
        with subtests.test(str(hostile)), pytest.raises(CorruptError, match="no save in"):
            restarted(job)


def test_a_manifest_that_is_nested_too_deeply_is_corrupt(job: Path) -> None:
    made = save(1)
    (made / "manifest.json").write_text('{"states": ' + "[" * 100_000)
    with pytest.raises(CorruptError):
        restarted(job)


@pytest.mark.parametrize("key", ["format", "states", "replicas"])
def test_a_manifest_that_lacks_a_key_is_damaged(job: Path, key: str) -> None:
    manifest = save(1) / "manifest.json"
    manifest.write_text(manifest.read_text().replace(key, key.upper()))
    with pytest.raises((CorruptError, FormatError), match="no save in"):
        restarted(job)


def test_a_save_of_a_newer_version_is_an_error_and_is_kept(job: Path) -> None:
    made = save(1)
    edit(made, format=3)
    with pytest.raises(FormatError, match="has format 3, this nbckpt reads 2"):
        restarted(job)
    for value in (2, 3, 4):
        save(value)
    assert saves(job) == ["checkpoint-1", "checkpoint-3", "checkpoint-4"]


def test_a_linked_save_is_read_and_its_target_is_not_removed(job: Path) -> None:
    save(1).rename(job / "moved")
    (job / "checkpoint-1").symlink_to("moved")
    assert restarted(job) == (True, 1)
    for value in (2, 3, 4):
        save(value)
    assert (job / "checkpoint-1" / "n.state").read_bytes() == pickle.dumps(1)


@pytest.mark.parametrize("name", ["checkpoint-1", "checkpoint-1/manifest.json"])
def test_a_link_out_of_the_folder_of_states_is_not_read(job: Path, tmp_path: Path, name: str) -> None:
    save(1)
    (job / name).rename(tmp_path / "moved")
    (job / name).symlink_to(tmp_path / "moved")
    assert restarted(job) == (False, -1)
    for value in (2, 3, 4):
        save(value)
    assert (job / name).exists()


def test_a_changed_number_in_a_manifest_is_found(job: Path) -> None:
    manifest = save(1) / "manifest.json"
    assert b'"replicas": 1' in manifest.read_bytes()
    manifest.write_bytes(manifest.read_bytes().replace(b'"replicas": 1', b'"replicas": 2'))
    with pytest.raises(CorruptError, match=r"manifest\.json' is damaged: .*do not match its checksum"):
        restarted(job)


@pytest.fixture(scope="module")
def two_saves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two saves of two states, one of which has an odd name."""
    job = tmp_path_factory.mktemp("two") / "job"
    with nbckpt.states.use_folder(job):
        kept = Number("n"), Number("Odd name/é\ud800")
        for value in (1, 2):
            for state in kept:
                state.value = value
            nbckpt.save_all_states()
    return job


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), both=st.booleans())
def test_a_changed_byte_loads_the_older_save_or_raises_our_error(
    two_saves: Path, tmp_path: Path, data: st.DataObject, both: bool
) -> None:
    """The same holds for a file that is cut off."""
    job = tmp_path / "job"
    shutil.rmtree(job, ignore_errors=True)
    shutil.copytree(two_saves, job)
    for folder in [job / "checkpoint-2", job / "checkpoint-1"][: 2 if both else 1]:
        file = data.draw(st.sampled_from(sorted(folder.iterdir())))
        harm(file, data)
    for name in ("n", "Odd name/é\ud800"):
        try:
            loaded = restarted(job, name)
        except (CorruptError, FormatError):
            assert both
        else:
            # Not every byte of a manifest matters: the time, and how many replicas there were.
            assert loaded in {(True, 2), (True, 1)}


def harm(file: Path, data: st.DataObject) -> None:
    """Change one byte, or cut a file short."""
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    file.write_bytes(content)


def test_an_error_in_the_load_of_a_state_is_raised(job: Path) -> None:
    class Picky(Number):
        def load(self, fileobj: IO[bytes]) -> None:
            raise ZeroDivisionError

    save(1)
    state = Picky("n")
    with pytest.raises(ZeroDivisionError):
        nbckpt.load_state(state)


# Others at work in the same folder.


def test_all_states_load_from_one_save_while_another_is_written(job: Path) -> None:
    kept = [Number("a", 1), Number("b", 1)]
    nbckpt.save_all_states()
    with nbckpt.states.use_folder(job):
        a, b = Number("a"), Number("b")
        assert nbckpt.load_state(a)
        other = threading.Thread(target=save_in_another_job, args=(job, "ab"))
        other.start()
        other.join()
        assert nbckpt.load_state(b)
        assert (a.value, b.value) == (1, 1)
        nbckpt.save_all_states()
        assert nbckpt.load_state(b)
    assert (restarted(job, "a"), kept[0].value) == ((True, 1), 1)


def save_in_another_job(job: Path, names: str, **options: Any) -> None:
    """Save states whose value is two."""
    with nbckpt.states.use_folder(job):
        kept = [Number(name, 2) for name in names]
        nbckpt.save_all_states(**options)
        del kept


def test_load_finds_the_newer_save_if_the_older_disappears(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(1)
    real = StateFolder.folders
    listed: list[list[Path]] = []

    def folders(self: StateFolder) -> list[Path]:
        listed.append(real(self))
        if len(listed) == 1:
            save_in_another_job(job, "n", keep=1)
        return listed[-1]

    monkeypatch.setattr(StateFolder, "folders", folders)
    assert restarted(job) == (True, 2)
    assert listed[0] == [job / "checkpoint-1"]


WRITER = """
    import pickle, sys
    import nbckpt

    class Number(nbckpt.State):
        def save(self, fileobj):
            fileobj.write(pickle.dumps(int(sys.argv[1])))

    state = Number("n")
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(20):
        print(nbckpt.save_all_states(keep=1000), flush=True)
"""


@pytest.mark.slow
def test_two_processes_saving_to_one_folder_get_distinct_numbers(job: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(WRITER)]
    env = os.environ | {"NBCKPT_CHECKPOINT_PATH": str(job)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen([*command, "1"], env=env, text=True, **pipes) as one,
        subprocess.Popen([*command, "2"], env=env, text=True, **pipes) as other,
    ):
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        outputs = [process.communicate("go\n")[0].split() for process in (one, other)]
    assert sorted(outputs[0] + outputs[1]) == sorted(str(job / f"checkpoint-{n}") for n in range(1, 41))
    for value, output in enumerate(outputs, 1):
        for folder in output:
            assert pickle.loads((Path(folder) / "n.state").read_bytes()) == value
    assert len(StateFolder(job).newest().check().states) == 1  # type: ignore[union-attr]


def test_a_save_fails_while_another_process_keeps_writing(job: Path) -> None:
    failed: list[BaseException] = []

    class Slow(nbckpt.State):
        def save(self, fileobj: IO[bytes]) -> None:
            other = threading.Thread(target=attempt)
            other.start()
            other.join()

    def attempt() -> None:
        try:
            StateFolder(job, patience_s=0.01).write([], keep=1, replicas=1)
        except StoreError as error:
            failed.append(error)

    state = Slow("s")
    nbckpt.save_all_states()
    assert "another process has been writing to" in str(failed)
    assert (saves(job), nbckpt.load_state(state)) == (["checkpoint-1"], True)


# The disk.


@needs_mount
def test_a_full_disk_keeps_the_last_save_and_room_for_the_next(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "none") as disk:
        with nbckpt.states.use_folder(disk / "job"):
            save(1)
            big = nbckpt.State.of("big", bytes(8 << 20))
            for _ in range(3):
                with pytest.raises(StoreError, match=r"cannot write '.*big.state': No space left"):
                    nbckpt.save_all_states()
            big.close()
            assert saves(disk / "job") == ["checkpoint-1"]
            assert save(2).name == "checkpoint-2"
        assert restarted(disk / "job") == (True, 2)


@needs_mount
def test_a_read_only_folder_can_be_loaded_but_not_saved_to(job: Path, tmp_path: Path) -> None:
    save(1)
    with mounted(tmp_path / "ro", "--bind", "-o", "ro", str(job)) as folder:
        assert restarted(folder) == (True, 1)
        with pytest.raises(StoreError, match="Read-only file system"), nbckpt.states.use_folder(folder):
            save(2)


def test_a_file_in_place_of_the_folder_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "job"):
        for call in (lambda: restarted(folder), lambda: save(1)):  # noqa: B023
            with (
                pytest.raises(StoreError, match=r"cannot (read|write) '.*file.*"),
                nbckpt.states.use_folder(folder),
            ):
                call()


def test_the_folders_that_the_first_save_makes_are_durable_too(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("nbckpt.store.files.sync_folder", synced.append)
    save(1, checkpoint_dir=tmp_path / "a" / "b")
    assert synced[:2] == [tmp_path, tmp_path / "a"]


def test_a_save_removed_during_a_load_is_an_error_with_its_file(job: Path) -> None:
    kept = [Number("a", 1), Number("b", 1)]
    nbckpt.save_all_states()
    with nbckpt.states.use_folder(job):
        a, b = Number("a"), Number("b")
        assert nbckpt.load_state(a)
        shutil.rmtree(job)
        with pytest.raises(StoreError, match=r"cannot read '.*checkpoint-1/b\.state': No such file"):
            nbckpt.load_state(b)
    del kept


def test_importing_the_package_does_not_configure_logging() -> None:
    code = "import logging, nbckpt.states; print(logging.root.handlers, logging.getLogger('nbckpt').handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"


def test_a_save_syncs_files_and_manifest_before_the_rename(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is files, manifest, folder, rename, folder; only then older saves are removed."""
    save(1)
    events: list[str] = []

    def shown(path: Path) -> str:
        return "stage" if path.name.startswith(".nbckpt-tmp-") else path.name

    def spy(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *arguments: Any) -> Any:
            events.append(f"{kind} {shown(path)}")
            return real(path, *arguments)

        return call

    monkeypatch.setattr(fsync, "sync_file", spy("sync", fsync.sync_file))
    sync_folder = spy("sync", fsync.sync_folder)
    for module in (fsync, files):
        monkeypatch.setattr(module, "sync_folder", sync_folder)
    monkeypatch.setattr(Path, "replace", spy("rename", Path.replace))
    save(2, keep=1)
    assert sorted(events[:2]) == ["sync manifest.json", "sync n.state"]
    assert events[2:] == ["sync stage", "rename stage", "sync job", "rename checkpoint-1", "sync job"]


def test_scripts_without_a_folder_report_no_state_as_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A script keeps its state until it ends. Another script then saves in the same process, as %run does."""
    for name in ("one", "two"):
        script = tmp_path / f"{name}.py"
        script.write_text(
            f"import nbckpt\nstate = nbckpt.State.of({name!r}, [1])\nsaved = nbckpt.save_all_states()"
        )
        assert runpy.run_path(str(script))["saved"] is None
        gc.collect()
    assert caplog.messages == [NO_FOLDER, NO_FOLDER]


def test_without_a_folder_a_save_warns_that_nothing_is_saved(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with nbckpt.states.use_folder():
        assert nbckpt.save_all_states() is None
        assert caplog.messages == []
        kept = Number("n", 1)
        assert (nbckpt.save_all_states(), nbckpt.load_state(kept)) == (None, False)
        assert len(caplog.messages) == 1
        assert "no folder is set, so no state is saved. Set NBCKPT_CHECKPOINT_PATH" in caplog.text
        with pytest.raises(SystemExit, match="no state is saved"):
            nbckpt.states.save_and_exit()
        del kept
