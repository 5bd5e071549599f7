"""Trust: whose checkpoints are loaded, and what never runs before."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nbckpt.commands import TABLE, Session, parse
from nbckpt.core import trash
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.history import History
from nbckpt.core.manifest_json import canonical, decode, encode
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, FormatError, NbckptError, StoreError, UntrustedError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.settings import Settings
from nbckpt.store import LocalStore, MemoryStore, Store
from nbckpt.tracker import Tracker


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def person(home: Path, name: str, store: Store) -> Tracker:
    return Tracker(store, settings=Settings(store="", secret_file=home / name))


def ask(tracker: Tracker, words: str, namespace: dict[str, Any] | None = None) -> str:
    session = Session(tracker, AutoMirror(tracker.store), {} if namespace is None else namespace)
    return str(parse(TABLE, words.split(), "%ckpt").run(session))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def me(tmp_path: Path, store: MemoryStore) -> Tracker:
    return person(tmp_path, "mine", store)


@pytest.fixture
def stranger(tmp_path: Path, store: MemoryStore) -> Tracker:
    return person(tmp_path, "theirs", store)


@pytest.fixture
def fuse(tmp_path: Path) -> Path:
    return tmp_path / "boom"


LOOKS = ["", "ls", "ls -n 0", "show b", "diff b", "diff b b", "restore b --dry-run", "verify", "snippet b"]
LOOKS += ["doctor"]
MOVES = ["tag b c", "export b {}/x.ckpt", "trust b", "rm b --dry-run", "rm b", "gc --dry-run"]


def test_no_command_unpickles_untrusted_values(fuse: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for words in LOOKS + MOVES:
        with subtests.test(words):
            store = MemoryStore()
            me = person(tmp_path, "mine", store)
            me.save({"a": 1}, "a")  # so that the store is mine
            person(tmp_path, "theirs", store).save({"b": Bomb(fuse), "x": 1}, "b")
            assert ask(me, words.format(tmp_path), {"b": 1, "x": 2})
            assert not fuse.exists()


def test_show_names_both_ways_to_what_another_saved(me: Tracker, stranger: Tracker) -> None:
    me.save({"a": 1}, "a")
    stranger.save({"b": 1}, "b")
    shown = ask(me, "show b")
    assert "once: %ckpt restore b@1 --trust. To sign it for good: %ckpt trust b@1" in shown
    stranger.save({"b": 1}, "two words")
    with pytest.raises(
        UntrustedError, match="`%ckpt restore 'two words' --trust` or `%ckpt trust 'two words'`"
    ):
        me.restore("two words", {})


def test_importing_an_untrusted_checkpoint_runs_no_code(me: Tracker, fuse: Path, tmp_path: Path) -> None:
    there = person(tmp_path, "theirs", MemoryStore())
    there.save({"b": Bomb(fuse)}, "b")
    there.export("b", tmp_path / "b.ckpt")
    with pytest.raises(UsageError, match=r"is a folder\. For the checkpoints in a store: %ckpt pull "):
        ask(me, f"import {tmp_path}")
    assert "Not signed by you" in ask(me, f"import {tmp_path}/b.ckpt")
    with pytest.raises(UntrustedError):
        me.restore("b", {})
    assert not fuse.exists()


def test_restoring_an_untrusted_checkpoint_is_refused(me: Tracker, stranger: Tracker, fuse: Path) -> None:
    me.save({"a": 1}, "a")
    stranger.save({"b": Bomb(fuse)}, "b")
    namespace = {"b": "mine"}
    with pytest.raises(UntrustedError, match=r"made by someone else.*--trust"):
        me.restore("b", namespace)
    assert namespace == {"b": "mine"}
    assert not fuse.exists()


def test_restoring_with_trust_loads_the_values(me: Tracker, stranger: Tracker, fuse: Path) -> None:
    me.save({"a": 1}, "a")
    stranger.save({"b": Bomb(fuse)}, "b")
    me.restore("b", {}, trust=True)
    assert fuse.exists()
    with pytest.raises(UntrustedError):
        me.restore("b", {})


def test_trust_signs_only_the_named_checkpoint(me: Tracker, stranger: Tracker) -> None:
    me.save({"a": 1}, "a")
    stranger.save({"b": 1}, "b")
    stranger.save({"c": 1}, "c")
    assert len(me.trust(["b"])) == 1
    assert me.trust(["b"]) == []
    me.restore("b", {})
    with pytest.raises(UntrustedError):
        me.restore("c", {})


def test_trust_store_signs_all_present_checkpoints(me: Tracker, stranger: Tracker) -> None:
    for name in "bc":
        stranger.save({name: 1}, name)
    assert "Signed 2 checkpoints" in ask(me, "trust --store")
    me.restore("b", {})
    me.restore("c", {})
    stranger.save({"d": 1}, "d")
    with pytest.raises(UntrustedError):
        me.restore("d", {})


def test_trust_store_skips_unreadable_checkpoints(me: Tracker, stranger: Tracker) -> None:
    damaged = [stranger.save({name: 1}, name).manifest.id for name in "bcd"][1]
    key = me.find("c").key
    me.store.delete(key)
    me.store.put(key, b"{}")
    said = ask(me, "trust --store")
    assert said.startswith("Signed 2 checkpoints")
    assert f"{damaged[:8]}  checkpoint {damaged[:8]} is not an nbckpt manifest" in said
    me.restore("d", {})
    assert ask(me, "trust --store").startswith("Nothing to sign: every readable checkpoint")


def test_an_unsigned_checkpoint_is_named_as_unsigned(me: Tracker, store: MemoryStore) -> None:
    made = me.save({"a": 1}, "a").manifest
    unsigned, data = encode(made)
    trash.remove(me.history, me.find("a"))
    me.history.adopt(unsigned, data, "u")
    with pytest.raises(UntrustedError, match="is not signed"):
        me.restore("u", {})


def test_a_lost_secret_has_its_own_error(me: Tracker, tmp_path: Path) -> None:
    me.save({"a": 1}, "a")
    (tmp_path / "mine").unlink()
    me = person(tmp_path, "mine", me.store)
    with pytest.raises(
        UntrustedError,
        match=r"secret is another one.*someone else.*show a`.*--trust.*NBCKPT_SECRET_FILE.*trust --store",
    ):
        me.restore("a", {})
    me.trust([])
    me.restore("a", {})


def test_a_forged_signature_is_not_valid(me: Tracker, stranger: Tracker, store: MemoryStore) -> None:
    me.save({"a": 1}, "a")
    made = stranger.save({"b": 1}, "b").manifest
    for hmac in ("", "0" * 64, "é", "\ufffd" * 64):
        store.put(f"signatures/{made.id}/{me.history.signer.key}", hmac.encode())
        assert not me.history.trusted(me.manifest("b"))


def edited(data: bytes, change: str) -> bytes:
    """Return a signed manifest, edited by someone who knows the format."""
    document = json.loads(data)
    body, signature = document["checkpoint"], document["signature"]
    if change == "signature of another":
        body["message"] = "evil"
        made = canonical(body)
        tail = canonical({"id": PREFERRED.digest(made).hex(), "signature": signature})
        return b'{"checkpoint":' + made + b"," + tail[1:]
    evil = canonical(body | {"message": "evil"})
    if change == "body":
        return data.replace(canonical(body), evil)
    if change == "second body":
        return data[:-1] + b',"checkpoint":' + evil + b"}"
    if change == "body in front":
        return b'{"checkpoint":' + evil + b"," + data[1:]
    if change == "second id":
        name = PREFERRED.digest(evil).hex().encode()
        return data[:-1] + b',"id":"' + name + b'","checkpoint":' + evil + b"}"
    raise AssertionError(change)


def test_an_edited_manifest_is_never_trusted(
    me: Tracker, store: MemoryStore, subtests: pytest.Subtests
) -> None:
    me.save({"a": 1}, "a")
    (key,) = store.keys("checkpoints/")
    for change in ("body", "second body", "body in front", "second id", "signature of another"):
        with subtests.test(change), suppress(CorruptError, FormatError):
            manifest = decode(edited(store.get(key), change))
            assert manifest.message != "evil" or not me.history.trusted(manifest)


HOSTILE_FIELDS: dict[str, Any] = {
    "preview text": {"values": [{"name": "a", "at": [0, 0], "digest": "", "preview": "x"}]},
    "preview shape": {"values": [{"name": "a", "at": [0, 0], "digest": "", "preview": {"shape": 3}}]},
    "preview bytes": {"values": [{"name": "a", "at": [0, 0], "digest": "", "preview": {"bytes": "x"}}]},
    "preview columns": {"values": [{"name": "a", "at": [0, 0], "digest": "", "preview": {"columns": [1]}}]},
    "no such group": {"values": [{"name": "a", "at": [7, 0], "digest": "", "preview": {}}]},
    "group before all": {"values": [{"name": "a", "at": [-1, 0], "digest": "", "preview": {}}]},
    "provenance": {"provenance": []},
    "cell": {"provenance": {"cell": "x"}},
    "packages": {"provenance": {"packages": [1]}},
    "new bytes": {"provenance": {"new_bytes": -1}},
    "moment": {"created_at": "yesterday"},
    "moment of nowhere": {"created_at": "2026-01-01T00:00:00"},
    "huge size": {"groups": [{"record": [10**400], "roots": []}]},
    "no such buffer": {"groups": [{"record": [0], "roots": [], "buffers": [[0, 0, 1]]}]},
    "buffer past the end": {"groups": [{"record": [0], "roots": [[5]], "buffers": [[0, 4, 2]]}]},
    "no such pack": {"groups": [{"record": [1, [9, 0, 1]], "roots": []}]},
    "values": {"values": 5},
    "inline": {"inline": {"ab": "!"}},
    "signature": {"signature": [1]},
    "file outside": {"files": {"../x": [0]}},
    "escape": {
        "message": "\x1b[2J<script>",
        "values": [{"name": "<b>\x07", "at": [0, 0], "digest": "", "preview": {}}],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["ls", "show {}", "diff {}", "verify", "rm {} --dry-run", "export {} {}/x.ckpt"]
)
def test_a_hostile_manifest_is_shown_or_refused(
    words: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for change, fields in HOSTILE_FIELDS.items():
        with subtests.test(change):
            me = person(tmp_path, "mine", MemoryStore())
            me.save({"a": 1}, "a", variables=["a"])
            (key,) = me.store.keys("checkpoints/")
            made = canonical(json.loads(me.store.get(key))["checkpoint"] | fields)
            name = PREFERRED.digest(made).hex()
            me.store.put(
                f"checkpoints/20260101T000000000000Z-{name}.json",
                b'{"checkpoint":' + made + b',"id":"' + name.encode() + b'"}',
            )
            try:
                answer = ask(me, words.format(name, tmp_path), {"a": 1})
            except NbckptError as error:
                answer = str(error)
            assert answer
            assert "\x1b" not in answer
            assert {path.name for path in tmp_path.iterdir()} <= {"mine", "x.ckpt"}
            (tmp_path / "x.ckpt").unlink(missing_ok=True)


def test_the_secret_is_the_users_only(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "down" / "secret"
    old = os.umask(0)
    try:
        open_signer(Settings(store="", secret_file=file))
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["secret"]


def test_the_secret_is_made_once(tmp_path: Path) -> None:
    settings = Settings(store="", secret_file=tmp_path / "secret")
    assert open_signer(settings) == open_signer(settings)
    other = open_signer(Settings(store="", secret_file=tmp_path / "other"))
    assert other.key != open_signer(settings).key


def test_processes_that_make_the_secret_at_once_agree(tmp_path: Path) -> None:
    code = "import nbckpt.core.trust as t; input(); print(t.open_signer().key)"
    env = os.environ | {"NBCKPT_SECRET_FILE": str(tmp_path / "secret")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", code], env=env, **pipes) for _ in range(6)]
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert len({process.communicate()[0] for process in started}) == 1
    assert [process.returncode for process in started] == [0] * 6
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("where", ["a file/secret", "a folder"])
def test_a_home_that_cannot_be_written_is_one_clear_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "a file").write_text("x")
    (tmp_path / "a folder").mkdir()
    tracker = Tracker(tmp_path / "s", settings=Settings(store="", secret_file=tmp_path / where))
    with pytest.raises(StoreError, match=r"cannot read or make the secret .*NBCKPT_SECRET_FILE"):
        tracker.save({"a": 1})
    assert tracker.entries() == []


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc")
    with pytest.raises(StoreError, match="too short"):
        open_signer(Settings(store="", secret_file=tmp_path / "secret"))


def test_a_history_alone_can_check_trust(tmp_path: Path) -> None:
    Tracker(tmp_path / "s").save({"a": 1}, "a")
    history = History(LocalStore(tmp_path / "s"), open_signer)
    assert not history.trusted(encode(history.read(history.resolve("a")))[0])
