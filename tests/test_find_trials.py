"""`find_trials` at a URL reads the catalogue of trials, and shows what the files there say."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from paged import PagedStore

import nbckpt
from nbckpt.core.algorithms import PREFERRED
from nbckpt.mirror import Mirror, find
from nbckpt.store import LocalStore, PrefixStore, open_store
from nbckpt.sync.index import Index, Item
from nbckpt.sync.transfer import TransferOptions
from nbckpt.sync.upload import upload
from nbckpt.trials.engine import sheets, upload_note
from nbckpt.trials.engine.upload_note import UploadNote
from nbckpt.trials.model import annotation, journal, params
from nbckpt.trials.model.summary import VERSION
from nbckpt.trials.model.trial import Trial

pandas = pytest.importorskip("pandas")

SECONDS = 60
URL = "s3://paged/store"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> PagedStore:
    store = PagedStore()
    monkeypatch.setattr(find, "open_store", lambda _: store)
    return store


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here"


def score(config: dict[str, Any]) -> None:
    nbckpt.report(loss=config["lr"], note_="a text", nan=float("nan"))
    nbckpt.report(loss=config["lr"] / 2, nested={"acc": 0.5})
    if config["lr"] > 2:
        raise ValueError("too high")


def run(name: str = "e") -> None:
    space = {"lr": nbckpt.grid_search([1, 2, 3]), "net": {"size": 4}}
    assert nbckpt.run(score, space, name=name, executor="inline", max_failures=0).wait(SECONDS)


def files_of(number: int) -> dict[str, bytes]:
    """Return the files of a trial that is done."""
    events = (
        {"event": "start", "executor": "thread", "from": None, "iteration": 0, "at": 1.0},
        {"event": "result", "result": {"loss": number % 3 / 2, "training_iteration": 1}},
        {"event": "end", "note": "", "early": False, "at": 2.0},
    )
    return {
        f"t{number}/{params.FILE}": params.encode({"lr": number % 3}, f"t{number}"),
        f"t{number}/{journal.FILE}": b"".join(map(journal.line_of, events)),
    }


def grow(folder: Path, count: int) -> None:
    """Give an experiment *count* trials."""
    for number in range(3, count):
        (folder / f"t{number}").mkdir()
        for path, data in files_of(number).items():
            (folder / path).write_bytes(data)


def put_experiment(store: PagedStore, folder: str, spec: bytes, count: int) -> None:
    """Put an experiment of *count* trials, as a push does."""
    files = {"experiment.json": spec}
    for number in range(count):
        files |= files_of(number)
    for path, data in files.items():
        store.put(f"{folder}/{path}", data)
    items = {path: Item(len(data), 1, PREFERRED.checksum([data])) for path, data in files.items()}
    Index(items, looked_at=1).write(PrefixStore(store, folder))


def push(here: Path, store: PagedStore) -> None:
    Mirror(LocalStore(here), here / "experiments", store).push()


def same(store: PagedStore, where: str = "") -> Any:
    """Return the trials by the catalogue. Without the catalogue they are the same."""
    listed = nbckpt.find_trials(URL, where)
    store.lists_in_pages = False
    read = nbckpt.find_trials(URL, where)
    store.lists_in_pages = True
    pandas.testing.assert_frame_equal(listed, read)
    return listed


@pytest.mark.slow
def test_find_trials_takes_few_requests_however_many_trials(store: PagedStore, here: Path) -> None:
    run()
    grow(here / "experiments/e", 150)
    push(here, store)
    requests = store.count(lambda: nbckpt.find_trials(URL, "loss < 1"))
    assert requests == 3
    assert len(same(store, "status == 'done'")) == 149
    assert not [key for key in store.keys(sheets.FOLDER) if "changing" in key]


@pytest.mark.slow
def test_ten_thousand_trials_take_six_requests(store: PagedStore, here: Path) -> None:
    run()
    spec = (here / "experiments/e/experiment.json").read_bytes()
    for number in range(10):
        put_experiment(store, f"experiments/e{number}", spec, 1_000)
    sheets.renew_sheets(store, lambda _: None)
    assert store.count(lambda: nbckpt.find_trials(URL, "loss < 1")) == 6
    assert len(nbckpt.find_trials(URL, "loss < 1")) == 6_670


def test_the_frame_is_the_same_with_and_without(store: PagedStore, here: Path) -> None:
    run("a")
    run("b")
    annotation.change(here / "experiments/a/t1", note="better edges", add=["good"])
    push(here, store)
    assert len(same(store)) == 6
    assert len(same(store, "tag == 'good' and status == 'done' and net.size == 4")) == 1
    assert list(same(store, "status == 'failed'")["trial"]) == ["t2", "t2"]


def test_trials_that_changed_are_read_themselves(store: PagedStore, here: Path) -> None:
    run("a")
    run("b")
    push(here, store)
    annotation.change(here / "experiments/a/t0", note="new", add=["x"])
    (here / "experiments/b/t1/params.json").write_text(json.dumps({"lr": 9}))
    push(here, store)
    assert list(same(store, "tag == 'x'")["trial"]) == ["t0"]
    assert list(same(store, "lr == 9")["trial"]) == ["t1"]


def test_a_push_that_died_leaves_a_note_which_makes_readers_look(
    store: PagedStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("a")
    run("b")
    push(here, store)
    annotation.change(here / "experiments/a/t0", note="new")
    monkeypatch.setattr("nbckpt.mirror.mirror.renew_sheets", lambda *_: None)
    push(here, store)
    assert same(store)["note"].iloc[0] == "new"
    assert store.count(lambda: nbckpt.find_trials(URL)) <= 10  # the index, and the files of one trial
    monkeypatch.setattr("nbckpt.mirror.mirror.renew_sheets", sheets.renew_sheets)
    push(here, store)
    assert store.count(lambda: nbckpt.find_trials(URL)) == 3


def test_a_damaged_trial_is_a_damaged_row(store: PagedStore, here: Path) -> None:
    run("a")
    (here / "experiments/a/t1/params.json").write_text("{")
    push(here, store)
    assert list(same(store)["status"]) == ["done", "damaged", "failed"]


@pytest.mark.slow
def test_a_synced_run_writes_the_catalogue_when_it_ends(
    here: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{s3_bucket}/runs"
    for name in ("a", "b"):
        config = nbckpt.sync.SyncConfig(upload_dir=url)
        options: dict[str, Any] = {"executor": "inline", "max_failures": 0, "sync_config": config}
        experiment = nbckpt.run(score, {"lr": nbckpt.grid_search([1, 3])}, name=name, **options)
        assert experiment.wait(SECONDS)
    store = open_store(url)
    there = sheets.read_sheets(store)
    assert (there.exist, sorted(there.sheets), there.changing) == (True, ["a", "b"], {})
    listed = nbckpt.find_trials(url)
    assert list(listed["experiment"] + listed["trial"]) == ["at0", "at1", "bt0", "bt1"]
    monkeypatch.setattr(find, "read_sheets", lambda _: sheets.Sheets())
    pandas.testing.assert_frame_equal(listed, nbckpt.find_trials(url))


@pytest.mark.slow
def test_a_push_to_s3_writes_the_catalogue_of_trials(here: Path, s3_bucket: str) -> None:
    run("a")
    url = f"{s3_bucket}/store"
    Mirror(LocalStore(here), here / "experiments", url).push()
    annotation.change(here / "experiments/a/t0", note="new")
    Mirror(LocalStore(here), here / "experiments", url).push()
    there = sheets.read_sheets(open_store(url))
    assert (there.exist, list(there.sheets), there.changing) == (True, ["experiments/a"], {})
    assert list(nbckpt.find_trials(url, "note == 'new'")["trial"]) == ["t0"]


@pytest.fixture
def folder(here: Path) -> Path:
    """Return the folder of an experiment that ran."""
    run()
    return here / "experiments/e"


@pytest.fixture
def note(store: PagedStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> UploadNote:
    """Return the notes that a run of the experiment leaves at the URL."""
    monkeypatch.setattr(upload_note, "open_store", lambda _: store)
    return UploadNote(URL, folder)


def send(store: PagedStore, note: UploadNote, folder: Path, *names: str) -> None:
    """Send trials as a run does: after a note, each into a target of its own."""
    store.put(f"{folder.name}/experiment.json", (folder / "experiment.json").read_bytes())
    for name in names:
        options = TransferOptions(before=partial(note.tell, Trial.read(folder / name)))
        upload(folder / name, PrefixStore(store, f"{folder.name}/{name}"), options=options)


@pytest.mark.slow
def test_a_run_that_uploads_takes_few_requests_of_readers(
    store: PagedStore, folder: Path, note: UploadNote
) -> None:
    grow(folder, 60)
    send(store, note, folder, *(f"t{number}" for number in range(60)))
    assert store.count(lambda: nbckpt.find_trials(URL)) == 4
    assert len(same(store)) == 60
    note.settle()
    assert store.count(lambda: nbckpt.find_trials(URL)) == 3
    assert len(same(store)) == 60
    assert not sheets.read_sheets(store).changing


def test_a_note_of_a_run_is_never_older_than_the_files(
    store: PagedStore, folder: Path, note: UploadNote
) -> None:
    send(store, note, folder, "t0", "t1")
    sheets.renew_sheets(store, lambda _: None)  # as another run does when it ends
    annotation.change(folder / "t1", note="new")
    send(store, note, folder, "t1", "t2")
    assert list(same(store)["note"]) == ["", "new", ""]
    later = UploadNote(URL, folder)  # this process died, and another one continues
    annotation.change(folder / "t1", note="newest")
    send(store, later, folder, "t1")
    assert list(same(store)["note"]) == ["", "newest", ""]


def test_the_end_of_a_run_settles_what_another_run_settled_early(
    store: PagedStore, folder: Path, note: UploadNote
) -> None:
    note.tell(Trial.read(folder / "t0"))
    sheets.renew_sheets(store, lambda _: None)  # before the files of t0 are there
    send(store, UploadNote(URL, folder), folder, "t0")
    note.settle()
    assert list(same(store)["trial"]) == ["t0"]


def test_a_note_that_is_full_stays_beside_the_next_one(
    store: PagedStore, folder: Path, note: UploadNote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_note, "MOST_TRIALS", 2)
    send(store, note, folder, "t0", "t1", "t2", "t0", "t1")
    assert len(sheets.read_sheets(store).changing["e"]) == 3
    assert store.count(lambda: nbckpt.find_trials(URL)) == 5
    assert len(same(store)) == 3


def changed(store: PagedStore, key: str) -> None:
    store.put(key, store.get(key) + b" ")


def of_nothing(store: PagedStore, key: str) -> None:
    told(store, key, ["t0", {}])


def of_a_place_outside(store: PagedStore, key: str) -> None:
    told(store, key, ["../t0", {}])


def told(store: PagedStore, key: str, line: list[Any]) -> None:
    document = {"at": 1, "summaries": VERSION, "trials": [line]}
    data = bytes(memoryview(PREFERRED.compress(json.dumps(document).encode())))
    for note in list(store.keys(key[:-64])):
        store.delete(note)
    store.put(f"{key[:-64]}{PREFERRED.digest(data).hex()}", data)


@pytest.mark.parametrize(
    "attack", [changed, PagedStore.lose, of_nothing, of_a_place_outside], ids=lambda attack: attack.__name__
)
def test_a_damaged_note_of_a_run_shows_nothing_false(
    store: PagedStore, folder: Path, note: UploadNote, attack: Callable[[PagedStore, str], None]
) -> None:
    send(store, note, folder, "t0", "t1")
    attack(store, sheets.read_sheets(store).changing["e"][0])
    assert len(same(store)) == 2


@pytest.mark.slow
def test_trials_of_a_run_are_found_while_it_uploads(
    here: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = f"{s3_bucket}/runs", []

    def look(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["lr"], checkpoint={"at": 1})  # it is sent before this returns
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "sheet_at", lambda *_: pytest.fail("the files are read"))
            seen.append(nbckpt.find_trials(url))

    config = nbckpt.sync.SyncConfig(upload_dir=url)
    space = {"lr": nbckpt.grid_search([1, 2])}
    nbckpt.run(look, space, name="e", executor="inline", folder=here, sync_config=config).wait(SECONDS)
    assert [list(frame["loss"]) for frame in seen] == [[1], [1, 2]]
    assert list(nbckpt.find_trials(url)["status"]) == ["done", "done"]


def put_part(store: PagedStore, plain: bytes) -> None:
    shelf = sheets.shelf_of(store)
    top = json.dumps({"format": 1, "parts": [shelf.put_part(plain)], "summaries": VERSION}).encode()
    assert shelf.put_top(top, list(store.keys(sheets.FOLDER)), ())


def damaged(store: PagedStore) -> None:
    for key in list(store.keys(f"{sheets.FOLDER}parts/")):
        store.put(key, b"?")


def deep(store: PagedStore) -> None:
    put_part(store, b"[" * 100_000)


def outside(store: PagedStore) -> None:
    put_part(store, json.dumps(["../../x", "t1", "", {}]).encode())


def no_summary(store: PagedStore) -> None:
    put_part(store, json.dumps(["experiments/a", "t0", "", {"status": "x"}]).encode())


def of_the_future(store: PagedStore) -> None:
    shelf = sheets.shelf_of(store)
    assert shelf.put_top(b'{"format":2,"parts":[],"summaries":1}', list(store.keys(sheets.FOLDER)), ())


def test_a_hostile_catalogue_of_trials_shows_nothing_false(
    store: PagedStore, here: Path, subtests: pytest.Subtests
) -> None:
    run("a")
    push(here, store)
    for attack in (damaged, deep, outside, no_summary, of_the_future):
        with subtests.test(attack.__name__):
            attack(store)
            assert len(same(store)) == 3
            annotation.change(here / "experiments/a/t0", note=attack.__name__)
            push(here, store)
            assert list(same(store)["note"]) == [attack.__name__, "", ""]
            assert store.count(lambda: nbckpt.find_trials(URL)) == 3
