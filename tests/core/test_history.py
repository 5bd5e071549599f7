"""Names, versions, and what a reference means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nbckpt.core import orphans, references, trash
from nbckpt.core.history import History, VanishedError
from nbckpt.core.manifest import Group, Manifest, now
from nbckpt.core.names import check_name, encode_name
from nbckpt.core.packs.content import Content
from nbckpt.core.references import Entry
from nbckpt.core.resolving import fallbacks
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.testing import FaultyStore, RecordingStore
from nbckpt.tracker import Tracker

HOSTILE = [
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "a/b",
    "a\\b",
    "C:",
    "a:b",
    "%2e%2e",
    "a b",
    "*?",
    '"<>|',
    "#1",
    "&",
]
RESERVED = ["con", "CON", "nul", "aux.txt", "com1", "LPT9", "prn.a.b"]
FOREIGN = ["Größe", "模型", "naïve é", "🦆", "\u0130", "ß", "e\u0301"]
LONG = ["x" * 200, "é" * 33, "a.b-c_d" * 20]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def history(store: MemoryStore) -> History:
    return History(store, open_signer)


def saved(history: History, name: str = "", message: str = "") -> str:
    return history.publish(Manifest(created_at=now(), message=message), name)[0].id


def test_every_name_is_kept_inside_the_store_and_found(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for at, name in enumerate(HOSTILE + RESERVED + FOREIGN + LONG):
        with subtests.test(name):
            parent = tmp_path / str(at)
            history = History(LocalStore(parent / "s"), open_signer)
            made = saved(history, name)
            assert history.resolve(name).id == history.resolve(f"{name}@1").id == made
            assert [(ref.name, ref.version) for ref in history.refs()] == [(normalize("NFC", name), 1)]
            assert [path.name for path in parent.iterdir()] == ["s"]
            (folder,) = (parent / "s" / "refs").iterdir()
            assert folder.is_dir()


def test_an_invalid_name_is_refused_with_the_reason(history: History, subtests: pytest.Subtests) -> None:
    for name in ("", " a", "a ", "a\nb", "\x1b[2J", "a\0b", "latest", "-a", "a@b", "a~2", "x" * 201):
        with subtests.test(name):
            with pytest.raises(UsageError, match="cannot be a checkpoint's name: "):
                check_name(name)
            with pytest.raises(UsageError):
                history.add_ref(name, Entry("", "0" * 64, ""))
            assert list(history.store.keys()) == []


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_two_names_are_two_files_on_every_system(a: str, b: str) -> None:
    assume(a != b)
    assert encode_name(a).casefold() != encode_name(b).casefold()


@given(st.text(min_size=1, max_size=30))
def test_a_file_of_a_name_can_be_on_every_system(name: str) -> None:
    encoded = encode_name(name)
    assert encoded.isascii()
    assert not set(encoded) & set('/\\:*?"<>| \0')
    assert not encoded.endswith(".")
    assert not encoded.startswith(".")
    assert encoded.partition(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


def test_names_that_differ_in_case_are_two(history: History) -> None:
    lower, upper = saved(history, "model"), saved(history, "Model")
    assert history.resolve("model").id == lower
    assert history.resolve("Model").id == upper


def test_versions_count_up(history: History) -> None:
    ids = [saved(history, "a", str(n)) for n in range(3)]
    assert [str(ref) for ref in history.refs("a")] == ["a@1", "a@2", "a@3"]
    assert [history.resolve(f"a@{n}").id for n in (1, 2, 3)] == ids
    assert history.resolve("a").id == ids[-1]


def test_two_writers_of_one_version_are_both_kept(history: History, store: MemoryStore) -> None:
    a, b = sorted([saved(history), saved(history)])
    for made in (a, b):
        store.put(f"refs/x/00000001-{made}", b"")
    assert (history.resolve("x@1").id, history.resolve("x@2").id) == (a, b)
    assert history.add_ref("x", history.resolve(a)).version == 3


@pytest.mark.parametrize("target", ["0" * 64, "f" * 64], ids=["earlier", "later"])
def test_a_writer_that_died_changes_no_number(history: History, store: MemoryStore, target: str) -> None:
    ids = [saved(history, "a", str(n)) for n in range(3)]
    store.put(f"refs/a/00000002-{target}", b"")
    assert [history.resolve(f"a@{n}").id for n in (1, 2, 3)] == ids
    made, ref = history.publish(Manifest(created_at=now()), "a")
    assert history.resolve(str(ref)).id == made.id
    assert (f"refs/a/00000002-{target}", target) in history.claims()  # it may be alive


def test_a_look_while_a_writer_takes_another_number_is_right() -> None:
    class Moving(MemoryStore):
        """After a look at the names, the writer of one of them takes its key back and goes on."""

        moves: Callable[[], object] | None = None

        def keys(self, prefix: str = "") -> Iterator[str]:
            keys, then = list(super().keys(prefix)), self.moves
            if then and prefix.startswith("refs/"):
                self.moves = None
                then()
            return iter(keys)

    store = Moving()
    history = History(store, open_signer)
    ids = [saved(history, "a", str(n)) for n in range(3)]
    late = saved(history)
    manifest = history.store.get(history.resolve(late).key)
    key, taken = history.resolve(late).key, f"refs/a/00000001-{late}"
    store.delete(key)
    store.put(taken, b"")

    def move() -> None:
        store.delete(taken)
        store.put(f"refs/a/00000004-{late}", b"")
        store.put(key, manifest)

    store.moves = move
    assert [ref.id for ref in history.refs("a")] == [*ids, late]
    assert [ref.version for ref in history.refs("a")] == [1, 2, 3, 4]


def test_a_writer_that_died_frees_no_removed_number(
    history: History, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(store)
    for n in range(2):
        saved(history, "a", str(n))
    for ref in ("a@2", "a@1"):
        trash.remove(history, history.resolve(ref))
    store.put(f"refs/a/00000003-{'f' * 64}", b"")
    monkeypatch.setattr(orphans, "ORPHAN_AGE", timedelta(0))
    tracker.collect()
    assert list(store.keys("refs/")) == []
    assert str(history.publish(Manifest(created_at=now()), "a")[1]) == "a@3"


def test_a_save_ends_even_if_others_take_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crowded(MemoryStore):
        def keys(self, prefix: str = "") -> Iterator[str]:
            others = [f"{prefix}{'0' * 64}"] if prefix.endswith("-") else []
            return iter([*others, *super().keys(prefix)])

    monkeypatch.setattr(references, "PATIENCE_S", (0.0,) * 3)
    history = History(Crowded(), open_signer)
    made = saved(history, "x")
    assert history.resolve("x").id == made


def test_a_version_keeps_its_number_if_another_is_removed(history: History, store: MemoryStore) -> None:
    a, b = sorted([saved(history), saved(history)])
    for made in (a, b):
        store.put(f"refs/x/00000001-{made}", b"")
    trash.remove(history, history.resolve("x@1"))
    assert history.resolve("x@2").id == b
    with pytest.raises(NotFoundError):
        history.resolve("x@1")


@pytest.mark.parametrize("emptied", [False, True], ids=["trash", "collected"])
def test_a_removed_version_number_is_not_reused(history: History, emptied: bool) -> None:
    tracker = Tracker(history.store)
    for n in range(3):
        saved(history, "a", str(n))
    for ref in ("a@3", "a@2"):
        trash.remove(history, history.resolve(ref))
    if emptied:
        tracker.collect()
    assert history.publish(Manifest(created_at=now()), "a")[1].version == 4


def test_latest_and_tilde_find_the_newest_and_older_ones(history: History) -> None:
    ids = [saved(history, "", str(n)) for n in range(4)]
    assert [history.resolve(ref).id for ref in ("latest", "latest~0", "latest~1", "latest~3")] == [
        ids[3], ids[3], ids[2], ids[0],
    ]  # fmt: skip


def test_tilde_counts_back_in_the_list_of_its_reference(history: History) -> None:
    ids = [saved(history, name, str(n)) for n, name in enumerate("abab")]
    assert history.resolve("a~1").id == ids[0]
    assert history.resolve("a@2~1").id == ids[0]
    assert history.resolve(f"{ids[2]}~1").id == ids[1]


def test_four_characters_of_an_id_are_enough(history: History) -> None:
    made = saved(history)
    for length in (4, 8, 64):
        assert history.resolve(made[:length]).id == made
    with pytest.raises(NotFoundError):
        history.resolve(made[:3])


def test_an_ambiguous_id_prefix_is_refused(history: History, store: MemoryStore) -> None:
    for tail in "ab":
        store.put(f"checkpoints/20260101T000000Z-{'ab' * 31}{tail}0.json", b"")
    with pytest.raises(UsageError, match="several ids begin with"):
        history.resolve("abab")


def test_a_name_takes_precedence_over_an_id(history: History) -> None:
    first = saved(history)
    second = saved(history, first[:6])
    assert history.resolve(first[:6]).id == second


def test_a_name_of_digits_is_found(history: History) -> None:
    for name in ("2026", "0", "123456"):
        first, second = saved(history, name), saved(history, name)
        assert history.resolve(name).id == second
        assert history.resolve(f"{name}@1").id == first
        assert history.resolve(f"{name}~1").id == first
        assert [ref for ref, _ in fallbacks(history, name)] == [f"{name}@2", f"{name}@1"]


def test_a_tilde_without_a_number_is_refused(history: History, subtests: pytest.Subtests) -> None:
    saved(history, "a")
    for ref in ("latest~", "latest~x", "latest~-1", "a~1~1", "latest~²", "latest~" + "9" * 5000):
        with subtests.test(ref), pytest.raises(UsageError, match="has no number after"):
            history.resolve(ref)


def test_an_unknown_reference_is_not_found(history: History, subtests: pytest.Subtests) -> None:
    saved(history, "a")
    for ref in ("a@2", "a@0", "a@²", "a@" + "9" * 5000, "@1", "", "~0", "zz", "../x", "a/b", "\0"):
        with subtests.test(ref), pytest.raises(NotFoundError, match=r"See `%ckpt ls`"):
            history.resolve(ref)


def test_a_tilde_number_beyond_the_oldest_names_their_count(history: History) -> None:
    saved(history, "a")
    with pytest.raises(NotFoundError, match="'a' has 1"):
        history.resolve("a~1")


def test_a_misspelled_name_gives_a_suggestion(history: History) -> None:
    saved(history, "cleaned")
    with pytest.raises(NotFoundError, match="Did you mean 'cleaned'"):
        history.resolve("claened")


def test_an_empty_store_gives_a_hint_how_to_save(history: History) -> None:
    with pytest.raises(NotFoundError, match=r"has none. Make one in a notebook with `%ckpt save`"):
        history.resolve("latest")


def test_a_name_of_a_missing_checkpoint_is_ignored(history: History, store: MemoryStore) -> None:
    made = saved(history, "a")
    store.put(f"refs/a/00000002-{'0' * 64}", b"")
    assert history.resolve("a").id == made
    with pytest.raises(NotFoundError):
        history.resolve("a@2")


def test_an_imported_cell_is_found_under_its_name(history: History) -> None:
    kept = history.publish(Manifest(created_at=now()), "cell:prep", kind="cells")[0].id
    imported = saved(history, "cell:prep", "imported")
    refs = "cell:prep", "cell:prep~0", "cell:prep@2~1", "cell:prep@1"
    assert [history.resolve(ref).id for ref in refs] == [imported, imported, kept, kept]
    with pytest.raises(NotFoundError, match="Did you mean 'cell:prep'"):
        history.resolve("cell:perp")


def test_a_removed_checkpoint_can_be_brought_back_with_its_names(history: History) -> None:
    made = saved(history, "a")
    history.add_ref("b", history.resolve(made))
    entry = history.resolve("a")
    refs = trash.remove(history, entry)
    assert history.entries() == []
    assert history.refs() == []
    trash.bring_back(history, entry, refs)
    assert [history.resolve(name).id for name in "ab"] == [made, made]
    assert list(history.store.keys("trash/")) == []


def test_undo_can_continue_after_a_failure(history: History) -> None:
    saved(history, "a")
    entry = history.resolve("a")
    refs = trash.remove(history, entry)
    for n in range(1, 12):
        with suppress(StoreError):
            trash.bring_back(History(FaultyStore(history.store, fail_at=n), open_signer), entry, refs)
    trash.bring_back(history, entry, refs)
    assert history.resolve("a@1").id == entry.id
    assert list(history.store.keys("trash/")) == []


def test_a_collected_checkpoint_cannot_be_brought_back(history: History) -> None:
    saved(history, "a")
    entry = history.resolve("a")
    refs = trash.remove(history, entry)
    Tracker(history.store).collect()
    with pytest.raises(NotFoundError, match="cannot be brought back: `gc` has deleted it"):
        trash.bring_back(history, entry, refs)
    assert history.entries() == []
    assert history.refs() == []


def test_a_manifest_that_needs_a_missing_pack_is_not_published(store: MemoryStore) -> None:
    group = Group(Content(1, (("ab" * 32, 0, 1),)))
    recording = RecordingStore(store)
    with pytest.raises(VanishedError):
        History(recording, open_signer).publish(Manifest(created_at=now(), groups=(group,)), "a")
    assert list(store.keys("refs/")) == []
    assert [call for call in recording.changes if call.op == "put" and "checkpoints/" in call.key] == []


CALLS: dict[str, Callable[[Tracker], object]] = {
    "ls": Tracker.entries,
    "save": lambda tracker: tracker.save({"a": 1}),
    "gc": Tracker.collect,
}


def test_a_foreign_store_json_is_refused(store: MemoryStore, subtests: pytest.Subtests) -> None:
    foreign = [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format":"1"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":1}',
        b"1" * 5000,
    ]
    for about in foreign:
        store.put("store.json", about)
        for name, call in CALLS.items():
            with subtests.test(name, about=about[:20]):
                with pytest.raises(FormatError, match="is not an nbckpt store"):
                    call(Tracker(store))
                assert list(store.keys()) == ["store.json"]


def test_a_newer_store_is_refused_and_not_changed(store: MemoryStore) -> None:
    store.put("store.json", json.dumps({"format": 2}).encode())
    with pytest.raises(FormatError, match=r"newer nbckpt \(format 2\).*upgrade"):
        Tracker(store).save({"a": 1})
    assert list(store.keys()) == ["store.json"]


def test_listing_does_not_create_a_store(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path / "s")
    assert tracker.entries() == []
    assert not (tmp_path / "s").exists()


def test_a_valid_name_is_returned_unchanged() -> None:
    assert check_name("after cleaning (2)") == "after cleaning (2)"


def test_a_manifest_under_the_key_of_another_one_is_damage(store: MemoryStore) -> None:
    tracker = Tracker(store)
    tracker.save({"x": "first"}, "a")
    tracker.save({"x": "second"}, "b")
    one, two = tracker.find("a"), tracker.find("b")
    data = store.get(one.key), store.get(two.key)
    store.put(one.key, data[1])
    store.put(two.key, data[0])
    namespace: dict[str, object] = {}
    for ref in ("a", "b", one.id, two.id):
        with pytest.raises(CorruptError, match="its key holds the manifest of"):
            tracker.restore(ref, namespace)
    assert namespace == {}
    assert [damage.touches for damage in tracker.verify().damages] == [((two.id, ()),), ((one.id, ()),)]


def test_a_manifest_under_the_key_of_another_time_is_damage(store: MemoryStore) -> None:
    tracker = Tracker(store)
    tracker.save({"x": "first"}, "a")
    tracker.save({"x": "second"}, "b")
    old = tracker.find("a")
    store.put(f"checkpoints/29990101T000000000000Z-{old.id}.json", store.get(old.key))
    with pytest.raises(CorruptError, match="its key holds the manifest of"):
        tracker.restore("latest", {})
