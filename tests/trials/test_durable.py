"""DurableTrainable: what was saved is on remote storage, whole, and comes back on an empty disk."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.store import Data, MemoryStore, Store, base, open_store
from nbckpt.testing import Call, FaultyStore, RecordingStore
from nbckpt.trials import DurableTrainable, NotDurableError, RetentionPolicy, Status, Trainable, durable
from nbckpt.trials.checkpoints.durable import DurableFolder
from nbckpt.trials.engine.runner import runner_of


class Counter(DurableTrainable):
    """Counts its steps, and keeps the count in two files and an empty folder."""

    stores: dict[str, Store] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"backoff_s": 0.0, **options})

    @classmethod
    def open_storage(cls, url: str) -> Store:
        return cls.stores.get(url) or super().open_storage(url)

    def set_timeout(self, seconds: float | None) -> None:
        """Set the timeout: short for a call that must hang, none for a call that must end."""
        assert isinstance(self._durable, DurableFolder)
        self._durable.timeout = seconds

    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        folder = Path(checkpoint_dir)
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "empty").mkdir()
        (folder / "n.txt").write_text(str(self.n))
        (folder / "deep" / "er" / "ü n.bin").write_bytes(b"%d" % self.n * 1000)
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: str) -> None:
        self.n = int((Path(checkpoint) / "n.txt").read_text())
        assert (Path(checkpoint) / "deep" / "er" / "ü n.bin").read_bytes() == b"%d" % self.n * 1000
        assert (Path(checkpoint) / "empty").is_dir()


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return (tmp_path / "the remote").as_uri()
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}/here"
    return f"{request.getfixturevalue('s3_bucket')}/some/where"


def around(store: Store) -> str:
    """Return the URL under which a Counter finds *store*."""
    where = f"test://{uuid.uuid4().hex}"
    Counter.stores[where] = store
    return where


def checked(store: Store) -> dict[str, int]:
    """Return the checkpoints that a reader of the store finds, whole each, with their iterations."""
    files = {}
    for key in list(store.keys()):
        if key.endswith(".json") and "/" not in key:
            record = json.loads(store.get(key))
            for path, (size, _) in record["files"].items():
                assert len(store.get(f"{record['name']}/{path}")) == size
            files[record["name"]] = record["iteration"]
    return files


def trained(trainable: Trainable, steps: int) -> dict[str, Any]:
    for _ in range(steps):
        result = trainable.train()
    return result


@contextmanager
def saved(store: Store, folder: Path, steps: int = 1, **options: Any) -> Iterator[tuple[Counter, str]]:
    """Yield a counter that was saved after its steps, and the path of its checkpoint."""
    with Counter(around(store), {}, folder, **options) as counter:
        trained(counter, steps)
        yield counter, counter.save()


def test_each_save_is_restored_on_wiped_and_on_other_machines(url: str, tmp_path: Path) -> None:
    with Counter(url, {}, tmp_path / "one") as counter:
        trained(counter, 1)
        first = counter.save()
        trained(counter, 2)
        second = counter.save()
        assert first != second
        shutil.rmtree(tmp_path / "one")
        counter.restore(first)
        assert (counter.n, counter.iteration) == (1, 1)
        assert counter.train()["training_iteration"] == 2
    shutil.rmtree(tmp_path / "one")
    with Counter(url, {}, tmp_path / "two") as again:
        for path, n in ((second, 3), (first, 1), (tmp_path / "two" / Path(second).name, 3)):
            again.restore(path)
            assert (again.n, again.iteration) == (n, n)


def test_save_uploads_before_it_returns_and_delete_removes_all(url: str, tmp_path: Path) -> None:
    with Counter(url, {}, tmp_path) as counter:
        trained(counter, 2)
        path = counter.save()
        assert checked(open_store(url)) == {"checkpoint_000002": 2}
        counter.delete_checkpoint(path)
    assert list(open_store(url).keys()) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("checkpoint")]


def count(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
    begin = int((Path(checkpoint_dir) / "i").read_text()) if checkpoint_dir else 0
    for i in range(begin + 1, config.get("n", 9) + 1):
        with nbckpt.trials.checkpoint_dir(i) as folder:
            (folder / "i").write_text(str(i))
        nbckpt.report(i=i)


def test_a_function_is_restored_to_a_new_object_on_an_empty_disk(url: str, tmp_path: Path) -> None:
    train = durable(count, url)
    with train({}, tmp_path / "one", trial_name="e/t0") as runner:
        trained(runner, 3)
        path = runner.save()
        assert runner.save() == path
    assert checked(open_store(f"{url}/e/t0")) == {"checkpoint_000003": 3}
    shutil.rmtree(tmp_path / "one")
    with train({}, tmp_path / "two", trial_name="e/t0") as again:
        again.restore(path)
        result = again.train()
    assert (result["i"], result["training_iteration"]) == (4, 4)


def test_objects_never_touch_the_remote_storage(tmp_path: Path) -> None:
    store = RecordingStore(MemoryStore())
    with Counter(around(store), {}, tmp_path) as counter:
        trained(counter, 2)
        saved = counter.save_to_object()
        trained(counter, 1)
        counter.restore_from_object(saved)
        assert counter.n == 2
    assert store.calls == []


class Hanging(MemoryStore):
    """A store whose put of a key that ends so hangs until it is let go."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self.ending = ending
        self.hangs = threading.Event()
        self.free = threading.Event()

    def put(self, key: str, data: Data) -> None:
        if key.endswith(self.ending):
            self.hangs.set()
            self.free.wait()
        super().put(key, data)


def hung(counter: Counter, store: Hanging) -> None:
    """Save until the store hangs: on a busy machine, the time may be over before."""
    counter.set_timeout(0.1)
    while not store.hangs.is_set():
        with pytest.raises(NotDurableError, match="did not end within"):
            counter.save()


def let_go(store: Hanging) -> None:
    store.free.set()
    for thread in threading.enumerate():
        if thread.name.startswith("nbckpt-sync"):
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["n.bin", "n.txt", "000002.json"])
def test_a_hanging_upload_is_given_up_and_stays_invisible(tmp_path: Path, ending: str) -> None:
    store = Hanging(ending)
    store.free.set()
    with Counter(around(store), {}, tmp_path, timeout=None) as counter:
        trained(counter, 1)
        counter.save()
        store.free.clear()
        trained(counter, 1)
        counter.set_timeout(0.2)
        with pytest.raises(NotDurableError, match=r"000002 is whole in .* did not end within 0.2 s"):
            counter.save()
        assert checked(store) == {"checkpoint_000001": 1}
        let_go(store)
        assert checked(store) == {"checkpoint_000001": 1}
        assert not [key for key in list(store.keys()) if "000002" in key and key.endswith(ending)]
        counter.set_timeout(None)
        counter.save()
        assert checked(store) == {"checkpoint_000001": 1, "checkpoint_000002": 2}


@pytest.mark.slow
def test_a_hanging_upload_prevents_a_second_one(tmp_path: Path) -> None:
    store = Hanging("n.txt")
    with Counter(around(store), {}, tmp_path, timeout=None) as counter:
        trained(counter, 1)
        hung(counter, store)
        with pytest.raises(NotDurableError, match="did not end within"):
            counter.save()
        assert len([thread for thread in threading.enumerate() if thread.name.startswith("nbckpt-sync")]) == 1
        let_go(store)
        counter.set_timeout(None)
        counter.save()
    assert checked(store) == {"checkpoint_000001": 1}


@pytest.mark.slow
def test_a_new_trainable_waits_for_a_hanging_upload_of_another(tmp_path: Path) -> None:
    store = Hanging("n.txt")
    where = around(store)
    with Counter(where, {}, tmp_path, timeout=None) as counter:
        trained(counter, 1)
        hung(counter, store)
    with Counter(where, {}, tmp_path, timeout=None) as again:
        trained(again, 1)
        again.set_timeout(0.1)
        store.ending = "nothing"
        with pytest.raises(NotDurableError, match="did not end within"):
            again.save()
        assert set(store.keys()) <= {"checkpoint_000001/deep/er/ü n.bin"}  # of the first, if it came so far
        let_go(store)
        again.set_timeout(None)
        again.save()
    assert checked(store) == {"checkpoint_000001": 1}


def test_training_continues_after_a_failed_upload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore(MemoryStore(), when=lambda call: call.op == "put" and call.key.endswith("n.txt"))
    with Counter(around(store), {}, tmp_path, attempts=4) as counter:
        trained(counter, 1)
        with caplog.at_level(logging.INFO), pytest.raises(NotDurableError, match=r"\(after 4 attempts\)"):
            counter.save()
        assert store.failed == 4
        assert "after 4 attempts" in caplog.text
        assert counter.train()["n"] == 2
        assert checked(store) == {}
        counter.restore(tmp_path / "checkpoint_000001")
        assert counter.n == 1


def test_a_checkpoint_with_a_shortened_file_is_not_committed(tmp_path: Path) -> None:
    with saved(MemoryStore(), tmp_path) as (_, path):
        Path(path, "n.txt").write_bytes(b"")
    folder = DurableFolder(tmp_path, store := MemoryStore(), attempts=1)
    with pytest.raises(NotDurableError, match=r"cannot read .*n\.txt.*became shorter"):
        folder.upload(folder.read(Path(path).name))
    assert checked(store) == {}


def test_calls_that_fail_now_and_then_are_retried(tmp_path: Path) -> None:
    puts = iter(range(100))
    store = FaultyStore(MemoryStore(), when=lambda call: call.op == "put" and next(puts) % 2 == 0)
    with saved(store, tmp_path):
        assert checked(store) == {"checkpoint_000001": 1}
    assert store.failed == 3


@pytest.mark.parametrize("halfway", [False, True])
def test_an_upload_that_fails_at_any_call_keeps_older_ones_whole(tmp_path: Path, halfway: bool) -> None:
    failed = 0
    for at in range(1, 7):
        whole = MemoryStore()
        with saved(whole, tmp_path / f"{at}") as (_, older):
            pass
        faulty = FaultyStore(whole, fail_at=at, halfway=halfway)
        with Counter(around(faulty), {}, tmp_path / f"{at}", attempts=1) as counter:
            counter.restore(older)
            trained(counter, 1)
            with suppress(NotDurableError):
                counter.save()
            failed += faulty.failed
            assert checked(whole).items() >= {"checkpoint_000001": 1}.items()
            assert len(checked(whole)) == 1 or halfway
            counter.save()
            assert checked(whole) == {"checkpoint_000001": 1, "checkpoint_000002": 2}
    assert failed == 6


def test_a_crash_at_any_moment_leaves_only_whole_checkpoints(tmp_path: Path) -> None:
    store = RecordingStore(MemoryStore())
    with saved(store, tmp_path) as (counter, path):
        shutil.rmtree(path)
        counter.n = 7  # the same name with other files
        counter.save()
        counter.delete_checkpoint(path)
    seen = [checked(left) for left in store.crashes()]
    assert seen[0] == seen[-1] == {}
    assert {"checkpoint_000001": 1} in seen


class Forms(Counter):
    """Returns its checkpoint in one of four forms."""

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        form, folder = self.config["form"], Path(checkpoint_dir)
        if form == "dict":
            return {"n": self.n}
        if form == "sub-folder":
            folder /= "sub"
            folder.mkdir()
        (folder / "n").write_text(str(self.n))
        return folder / "n" if form == "file" else folder

    def load_checkpoint(self, checkpoint: Any) -> None:
        if isinstance(checkpoint, dict):
            self.n = checkpoint["n"]
            return
        place = Path(checkpoint)
        assert place.is_file() == (self.config["form"] == "file")
        self.n = int((place if place.is_file() else place / "n").read_text())


@pytest.mark.parametrize("form", ["dict", "folder", "sub-folder", "file"])
def test_all_forms_of_a_checkpoint_are_restored(tmp_path: Path, form: str) -> None:
    where = around(MemoryStore())
    with Forms(where, {"form": form}, tmp_path / "one") as trainable:
        trained(trainable, 2)
        path = trainable.save()
    shutil.rmtree(tmp_path / "one")
    with Forms(where, {"form": form}, tmp_path / "two") as again:
        again.restore(path)
        assert (again.n, again.iteration) == (2, 2)


def test_an_uploaded_checkpoint_is_not_uploaded_again(tmp_path: Path) -> None:
    store = RecordingStore(MemoryStore())
    Counter.stores["test://once/t"] = store

    class Elsewhere(Counter, nbckpt.trials.wrap_function(count)):
        setup = nbckpt.trials.wrap_function(count).setup
        step = nbckpt.trials.wrap_function(count).step

    with Elsewhere("test://once/t", {}, tmp_path) as runner:
        trained(runner, 2)
        runner.save()
        puts = len(store.changes)
        runner.save()
    assert len(store.changes) == puts > 0


def test_a_checkpoint_dir_must_really_be_in_the_trials_folder(tmp_path: Path) -> None:
    """Its path is resolved first: links and '..' are followed."""
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial-2").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "trial")
    store = MemoryStore()
    with Counter(around(store), {}, tmp_path / "trial") as counter:
        trained(counter, 1)
        for outside in (tmp_path / "trial-2" / "checkpoint_1", tmp_path / "trial" / ".." / "checkpoint_1"):
            with pytest.raises(UsageError, match="in the trial's folder"):
                counter.save(outside)
        assert checked(store) == {}
        assert Path(counter.save(tmp_path / "link" / "checkpoint_own")).name == "checkpoint_own"
    assert checked(store) == {"checkpoint_own": 1}


def test_a_save_uploads_only_its_own_checkpoint(tmp_path: Path) -> None:
    store = RecordingStore(MemoryStore())
    with Counter(around(store), {}, tmp_path) as counter:
        (tmp_path / "a log of the user's").write_text("x")
        trained(counter, 1)
        first = counter.save()
        trained(counter, 1)
        store.calls.clear()
        second = counter.save()
        assert {call.key[:17] for call in store.calls} == {"checkpoint_000002"}
        store.calls.clear()
        counter.restore(first)
        assert store.calls == []
        shutil.rmtree(second)
        counter.restore(second)
        assert {call.key[:17] for call in store.calls} == {"checkpoint_000002"}
        assert {call.op for call in store.calls} <= {"get", "exists"}


@pytest.mark.parametrize("gone", ["folder", "record", "both"])
def test_a_delete_without_a_local_copy_removes_the_remote_one(tmp_path: Path, gone: str) -> None:
    store = MemoryStore()
    with saved(store, tmp_path) as (counter, path):
        if gone != "record":
            shutil.rmtree(path)
        if gone != "folder":
            Path(f"{path}.json").unlink()
        counter.delete_checkpoint(path)
    assert list(store.keys()) == []
    assert not Path(path).exists()


def test_a_delete_keeps_the_checkpoint_of_another_trial(tmp_path: Path) -> None:
    store = MemoryStore()
    with saved(store, tmp_path / "a") as (counter, _), saved(MemoryStore(), tmp_path / "b") as (_, path):
        with pytest.raises(UsageError, match="of another trial"):
            counter.delete_checkpoint(path)
        counter.restore(path)
    assert checked(store) == {"checkpoint_000001": 1}
    assert Path(path).is_dir()


def test_a_delete_by_a_former_path_removes_all_copies(tmp_path: Path) -> None:
    store = MemoryStore()
    where = around(store)
    with Counter(where, {}, tmp_path / "former") as counter:
        trained(counter, 1)
        path = counter.save()
    with Counter(where, {}, tmp_path / "now") as again:
        again.delete_checkpoint(path)
    assert list(store.keys()) == []
    assert not Path(path).exists()


def test_a_delete_removes_a_partial_upload(tmp_path: Path) -> None:
    store = MemoryStore()
    faulty = FaultyStore(store, when=lambda call: call.op == "put" and call.key.endswith(".json"))
    with Counter(around(faulty), {}, tmp_path) as counter:
        trained(counter, 1)
        with pytest.raises(NotDurableError):
            counter.save()
        assert len(list(store.keys())) == 2
        shutil.rmtree(tmp_path / "checkpoint_000001")
        (tmp_path / "checkpoint_000001.json").unlink()
        counter.delete_checkpoint(tmp_path / "checkpoint_000001")
    assert list(store.keys()) == []


def test_a_failed_remote_delete_keeps_the_local_copy(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore(), when=lambda call: call.op == "delete" and "n.txt" in call.key)
    with saved(store, tmp_path) as (counter, path):
        with pytest.raises(StoreError, match="after 3 attempts"):
            counter.delete_checkpoint(path)
        counter.restore(path)


def test_a_missing_checkpoint_is_a_clear_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "checkpoint_of_mine").mkdir()
    with Counter(around(MemoryStore()), {}, tmp_path / "checkpoint_of_mine") as counter:
        with pytest.raises(NotFoundError, match="neither in"):
            counter.restore(tmp_path / "checkpoint_of_mine" / "checkpoint_000009")
        counter.delete_checkpoint(tmp_path / "checkpoint_of_mine" / "checkpoint_000009")
    assert "Nothing was deleted" in caplog.text
    assert (tmp_path / "checkpoint_of_mine").is_dir()


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "record"])
def test_a_damaged_remote_checkpoint_is_named_and_not_restored(tmp_path: Path, damage: str) -> None:
    store = MemoryStore()
    with saved(store, tmp_path, 2) as (counter, path):
        trained(counter, 1)
        key = "checkpoint_000002/deep/er/ü n.bin"
        data = store.get(key)
        if damage == "flip":
            store.put(key, b"3" + data[1:])
        elif damage == "cut":
            store.put(key, data[:-1])
        elif damage == "remove":
            store.delete(key)
        else:
            store.put("checkpoint_000002.json", store.get("checkpoint_000002.json")[:-9])
        shutil.rmtree(path)
        named = r"checkpoint_000002\.json" if damage == "record" else "'deep/er/ü n.bin' of checkpoint_000002"
        with pytest.raises(CorruptError, match=named):
            counter.restore(path)
        assert (counter.n, counter.iteration) == (3, 3)
        assert not Path(path).exists()


@pytest.mark.parametrize("file", ["checkpoint_000002/n.txt", "checkpoint_000002.json"])
def test_a_damaged_local_copy_is_replaced_by_the_remote_one(tmp_path: Path, file: str) -> None:
    with saved(MemoryStore(), tmp_path, 2) as (counter, path):
        (tmp_path / file).write_text("9")
        counter.restore(path)
        assert counter.n == 2
        assert (tmp_path / file).read_text() != "9"


def test_a_hostile_record_writes_nothing_outside(tmp_path: Path) -> None:
    store = MemoryStore()
    with saved(store, tmp_path / "trial") as (counter, path):
        record = json.loads(store.get("checkpoint_000001.json"))
        del record["checksum"]  # of format 1, which had none
        record |= {"format": 1, "files": record["files"] | {"../../evil": [1, "00"]}}
        store.put("checkpoint_000001.json", json.dumps(record).encode())
        shutil.rmtree(path)
        with pytest.raises(CorruptError, match="evil"):
            counter.restore(path)
    assert [path.name for path in tmp_path.iterdir()] == ["trial"]


def test_a_large_file_is_not_read_into_memory(tmp_path: Path) -> None:
    class Sink(MemoryStore):
        def put(self, key: str, data: Data) -> None:
            size = sum(map(len, base.pieces_of(data)))
            super().put(key, data if size < base.PIECE else b"")

    class Large(Counter):
        def save_checkpoint(self, checkpoint_dir: str) -> None:
            with (Path(checkpoint_dir) / "large").open("wb") as file:
                file.truncate(64 << 20)

    with Large(around(Sink()), {}, tmp_path) as trainable:
        trainable.train()
        tracemalloc.start()
        trainable.save()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * base.PIECE


@pytest.mark.slow
def test_several_large_files_share_64_mib_of_memory(tmp_path: Path) -> None:
    lock, held, most = threading.Lock(), [0], [0]

    class Sink(MemoryStore):
        def put(self, key: str, data: Data) -> None:
            size = sum(map(len, base.parts_of(data)))
            with lock:
                held[0] += size
                most[0] = max(most[0], held[0])
            for piece in base.pieces_of(data):
                hashlib.sha256(piece).digest()
            with lock:
                held[0] -= size
            super().put(key, b"" if size > base.PIECE else data)

    class Large(Counter):
        def save_checkpoint(self, checkpoint_dir: str) -> None:
            for number in range(8):
                with (Path(checkpoint_dir) / f"{number}").open("wb") as file:
                    file.truncate(24 << 20)

    with Large(around(Sink()), {}, tmp_path) as trainable:
        trainable.train()
        trainable.save()
    assert 24 << 20 < most[0] <= 64 << 20


def test_a_file_of_several_ranges_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PIECE", 300)
    store = RecordingStore(MemoryStore())
    with saved(store, tmp_path) as (counter, path):
        shutil.rmtree(path)
        counter.restore(path)
    assert len([call for call in store.calls if call.op == "get" and call.key.endswith("n.bin")]) == 4


def test_impossible_arguments_are_refused(tmp_path: Path) -> None:
    for options in ({"attempts": 0}, {"timeout": -1}):
        with pytest.raises(UsageError, match="cannot be"):
            Counter("memory://x", {}, tmp_path, **options)
    with pytest.raises(UsageError, match="treasure://island"):
        Counter("treasure://island", {}, tmp_path)
    with pytest.raises(UsageError, match=r"nbckpt\.trials\.durable\(Counter, "):  # it lacks its URL
        Counter({"lr": 1}, tmp_path)


def test_an_experiment_keeps_each_trials_checkpoints_remotely(url: str) -> None:
    config = {"n": nbckpt.grid_search([2, 3])}
    experiment = ran(durable(count, url), config, name="e", keep_checkpoints=1)
    assert [trial.note for trial in experiment.trials] == ["done", "done"]
    assert checked(open_store(f"{url}/e/t0")) == {"checkpoint_000002": 2}
    assert checked(open_store(f"{url}/e/t1")) == {"checkpoint_000003": 3}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_every_executor_keeps_checkpoints_remotely(tmp_path: Path, executor: str) -> None:
    remotely = tmp_path / "remote"
    experiment = ran(durable(count, remotely), {"n": 2}, name="e", executor=executor)
    assert experiment.trials[0].status == Status.TERMINATED, experiment.trials[0].traceback
    assert checked(open_store(remotely / "e" / "t0")) == {"checkpoint_000001": 1, "checkpoint_000002": 2}


def test_a_process_reports_that_a_checkpoint_is_not_remote(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    train = durable(count, tmp_path / "file", attempts=1)
    trial = ran(train, {"n": 2}, name="e", executor="process").trials[0]
    assert (trial.status, trial.iteration, trial.checkpoint_name) == (Status.TERMINATED, 2, None)
    assert "checkpoint_000002 is whole in" in trial.note


def resumed(experiment: nbckpt.trials.Experiment) -> list[int]:
    """Go on with the only trial, without its conditions, and return what it reported."""
    runner_of(experiment).spec = replace(experiment.spec, stop=None)
    experiment.resume("t0")
    assert experiment.wait(60)
    assert experiment.trials[0].status == Status.TERMINATED
    return [result["i"] for result in experiment.trials[0].results]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_trial_resumes_from_a_remote_copy_of_a_lost_checkpoint(
    tmp_path: Path, experiments: Path, damaged: bool
) -> None:
    began = []

    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        began.append(checkpoint_dir and Path(checkpoint_dir).name)
        count(config, checkpoint_dir)

    kept = tmp_path / "remote" / "e" / "t0"
    experiment = ran(durable(train, tmp_path / "remote"), {"n": 5}, name="e", stop={"i": 3})
    for path in (experiments / "e" / "t0").glob("checkpoint_*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if damaged:
        (kept / "checkpoint_000003" / "i").write_text("4")
    assert resumed(experiment) == [1, 2, 3, 4, 5]
    assert began == [None, "checkpoint_000002" if damaged else "checkpoint_000003"]


@pytest.mark.slow
def test_a_trial_with_unreachable_storage_does_not_start_over(experiments: Path) -> None:
    store = FaultyStore(MemoryStore(), when=lambda call: call.op in {"keys", "get"} and lost.is_set())
    lost = threading.Event()

    class Stepping(Counter):
        stores = {"test://s/e/t0": store}

    experiment = ran(durable(Stepping, "test://s"), name="e", stop={"n": 3}, checkpoint_every=1)
    shutil.rmtree(experiments / "e" / "t0" / "checkpoint_000003")
    lost.set()
    experiment.resume("t0")
    assert experiment.wait(60)
    trial = experiment.trials[0]
    assert (trial.status, trial.iteration) == (Status.ERROR, 3)
    assert "the storage failed" in trial.error


def test_a_checkpoint_that_is_not_uploaded_does_not_count() -> None:
    def fails(call: Call) -> bool:
        return call.op == "put" and "000003" in call.key

    class Stepping(Counter):
        stores = {"test://s/e/t0": FaultyStore(MemoryStore(), when=fails)}

    options = {"stop": {"n": 3}, "checkpoint_every": 1, "keep_checkpoints": RetentionPolicy(1)}
    trial = ran(durable(Stepping, "test://s"), name="e", **options).trials[0]
    assert (trial.status, trial.iteration) == (Status.TERMINATED, 3)
    assert (trial.checkpoint_name, trial.unsaved_results) == ("checkpoint_000002", 1)
    assert "checkpoint_000003 is whole in" in trial.note
    assert checked(Stepping.stores["test://s/e/t0"]) == {"checkpoint_000002": 2}
