"""Stores and archives of a stranger: each is small, and says that it holds more than there is.

    python -m attack.hostile FOLDER

builds all of them and asks of each what a user would. It prints the cases, and what went wrong.
"""

from __future__ import annotations

import io
import os
import shutil
import struct
import sys
import traceback
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attack import share
from attack.limits import begin, limit_memory
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.manifest_json import canonical
from nbckpt.core.packs.format import RAW, Piece, build, compressed, pack_key, read_head
from nbckpt.core.packs.relocation import moved_key, table
from nbckpt.errors import NbckptError
from nbckpt.mirror import AutoMirror, Mirror
from nbckpt.render import html_of
from nbckpt.store import STAGING, LocalStore, Store
from nbckpt.tracker import Tracker

T = TypeVar("T")

GOOD = {"text": "mine", "array": np.arange(200_000)}
MOMENT = "2026-01-01T00:00:00.000000Z"

MOST_SHOWN = 1_000_000

Body = dict[str, Any]


def sealed(body: Body) -> tuple[str, bytes]:
    """Return the key and the bytes of a manifest that is right in itself, and signed by nobody."""
    raw = canonical(body)
    name = PREFERRED.digest(raw).hex()
    moment = "".join(c for c in body.get("created_at", "") if c in "0123456789TZ")
    return f"checkpoints/{moment}-{name}.json", b'{"checkpoint":' + raw + b"," + canonical({"id": name})[1:]


def body(**changes: Any) -> Body:
    value = {"name": "x", "at": [0, 0], "digest": "", "preview": {"type": "int", "text": "1"}}
    group = {"record": [10, [0, 0, 1]], "roots": []}
    return {
        "format": 1,
        "kind": "variables",
        "created_at": MOMENT,
        "packs": ["ab" * 32],
        "values": [value],
        "groups": [group],
    } | changes


def put_pack(store: Store, *blobs: bytes) -> str:
    pieces = [Piece(PREFERRED.digest(blob), blob, len(blob), RAW, aligned=False) for blob in blobs]
    pack, parts = build(pieces, PREFERRED)
    store.put(pack_key(pack), b"".join(bytes(part) for part in parts))
    return pack


def forged_pack(store: Store, entries: int, entry: tuple[bytes, int, int, int, int], tail: bytes) -> str:
    head = struct.pack("<8sQ", PREFERRED.magic, entries) + struct.pack("<32sQQQQ", *entry) * min(entries, 999)
    pack = PREFERRED.digest(head).hex()
    store.put(pack_key(pack), head + tail)
    return pack


def put(store: Store, **changes: Any) -> None:
    key, data = sealed(body(**changes))
    store.put(key, data)


def record(*content: Any) -> list[Body]:
    return [{"record": list(content), "roots": []}]


def huge_run(store: Store) -> None:
    put(store, groups=record(1 << 60, [0, 0, 1 << 45]), packs=[put_pack(store, b"a", b"b")])


def huge_run_of_no_pack(store: Store) -> None:
    put(store, groups=record(1 << 60, [0, 1 << 40, 1 << 45]))


def many_runs(store: Store) -> None:
    pack = put_pack(store, *(b"%d" % n for n in range(20_000)))
    put(store, groups=record(1 << 60, *[[0, 0, 20_000]] * 20_000), packs=[pack])


def table_of_itself(store: Store) -> None:
    pack = put_pack(store, b"a")
    store.put(moved_key(pack), table(read_head(store, pack), [pack]))
    store.delete(pack_key(pack))
    put(store, packs=[pack])


def tables_that_fan_out(store: Store) -> None:
    packs = [put_pack(store, b"%d" % n) for n in range(30)]
    for pack in packs:
        store.put(moved_key(pack), table(read_head(store, pack), packs))
        store.delete(pack_key(pack))
    put(store, packs=packs[:1])


def long_table(store: Store) -> None:
    pack = put_pack(store, b"a")
    store.put(moved_key(pack), table(read_head(store, pack), [pack] * 100_000))
    store.delete(pack_key(pack))
    put(store, packs=[pack])


def repeated_picture(store: Store) -> None:
    pack = put_pack(store, bytes(8 << 20))
    picture = [3 << 20, *[[0, 0, 1]] * 700]
    put(store, packs=[pack], values=[body()["values"][0] | {"picture": picture}])


def large_picture(store: Store) -> None:
    pack = put_pack(store, bytes(8 << 20))
    put(store, packs=[pack], values=[body()["values"][0] | {"picture": [560 << 23, *[[0, 0, 1]] * 560]}])


def overlapping_blobs(store: Store) -> None:
    data = bytes(60_000_000)
    small = compressed(data, PREFERRED.digest(data), PREFERRED)
    at = 16 + 999 * 64
    pack = forged_pack(
        store, 999, (small.digest, at, len(small.data), len(data), small.codec), bytes(small.data)
    )
    put(store, packs=[pack])


def count_without_end(store: Store) -> None:
    put(store, packs=[forged_pack(store, 1 << 57, (bytes(32), 80, 1, 1, RAW), b"a")])


def deep_preview(store: Store) -> None:
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    put(store, values=[body()["values"][0] | {"preview": {"type": "int", "other": deep}}])


def long_preview(store: Store) -> None:
    long = "x" * 3_000_000
    preview = {"type": long, "text": long, "dtype": long, "shape": [1] * 100_000, "columns": [[long, long]]}
    put(store, values=[body()["values"][0] | {"preview": preview}])


def other_types(store: Store) -> None:
    put(store, provenance={"cell": "x"}, message=[], warnings={"a": 1})


def no_such_day(store: Store) -> None:
    put(store, created_at="2026-02-31T00:00:00.000000Z")


def strange_refs(store: Store) -> None:
    put(store)
    name = sealed(body())[0][-69:-5]
    for version in ("9" * 150, "0" * 8, "99999999"):
        store.put(f"refs/good/{version}-{name}", b"")
    store.put(f"refs/%1B%5B2J/00000001-{name}", b"")


def long_mark(store: Store) -> None:
    store.put("condemned/x", b"a " * 1_000_000)
    put(store)


STORES: dict[str, Callable[[Store], None]] = {
    make.__name__: make
    for make in (
        huge_run,
        huge_run_of_no_pack,
        many_runs,
        table_of_itself,
        tables_that_fan_out,
        long_table,
        repeated_picture,
        large_picture,
        overlapping_blobs,
        count_without_end,
        deep_preview,
        long_preview,
        other_types,
        no_such_day,
        strange_refs,
        long_mark,
    )
}


def archive(*members: tuple[str, bytes], compress: bool = False) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as made:
        for name, data in members:
            made.writestr(name, data)
    return file.getvalue()


def unpacks_to_gigabytes() -> bytes:
    key, _ = sealed(body())
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made,
        made.open(f"checkpoints/{key[-69:]}", "w") as at,
    ):
        for _ in range(1024):
            at.write(bytes(1 << 20))
    return file.getvalue()


def says_more_than_it_has() -> bytes:
    whole = bytearray(archive(("checkpoints/x.json", b"{}"), ("name", b"x")))
    at = whole.rindex(b"PK\x01\x02")
    whole[at + 20 : at + 28] = struct.pack("<LL", 1 << 30, 1 << 30)
    return bytes(whole)


def of_a_huge_run() -> bytes:
    key, data = sealed(body(groups=record(1 << 60, [0, 0, 1 << 45])))
    return archive((f"checkpoints/{key[-69:]}", data))


ARCHIVES: dict[str, Callable[[], bytes]] = {
    make.__name__: make for make in (unpacks_to_gigabytes, says_more_than_it_has, of_a_huge_run)
}


def linked(name: str) -> Callable[[Path, Path], None]:
    """Return what puts a link in place of a part of a store, to what is like it outside."""

    def build_it(store: Path, outside: Path) -> None:
        place = store / name
        target = outside / place.name
        if place.is_dir():
            shutil.copytree(place, target)
            shutil.rmtree(place)
        else:
            target.write_bytes(place.read_bytes() if place.exists() else b"x" * 300)
            place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    return build_it


def staging(store: Path, outside: Path) -> None:
    shutil.rmtree(store / STAGING, ignore_errors=True)
    (store / STAGING).symlink_to(outside)


def device(store: Path, outside: Path) -> None:
    del outside
    (store / "packs" / "zz").mkdir(parents=True)
    (store / "packs" / "zz" / f"{'0' * 64}.pack").symlink_to("/dev/zero")
    (store / "checkpoints" / f"20260101T000000000000Z-{'0' * 64}.json").symlink_to("/dev/zero")


LINKS: dict[str, Callable[[Path, Path], None]] = {
    name: linked(name)
    for name in ("refs", "packs", "checkpoints", "trash", "signatures", "condemned", "store.json")
} | {"staging": staging, "device": device}


def ask(tracker: Tracker, words: str, namespace: dict[str, Any] | None = None) -> str:
    session = Session(tracker, AutoMirror(tracker.store), {} if namespace is None else namespace)
    result = parse(TABLE, words.split(), "%ckpt").run(session)
    shown = f"{result}{html_of(result)}"
    assert len(shown) < MOST_SHOWN, f"{words} shows {len(shown)} characters"
    return shown


def try_store(folder: Path, build_it: Callable[[Store], None]) -> list[str]:
    """Return what goes wrong with a store that has a good checkpoint, too, and what a stranger put there."""
    tracker = Tracker(folder)
    tracker.save(dict(GOOD), "good")
    mine = tracker.find("good").id
    build_it(LocalStore(folder))
    strange = [entry.id for entry in tracker.entries() if entry.id != mine]
    wrong = try_pull(folder.with_name(f"{folder.name}-own"), folder)
    commands = ["", "ls", "ls -n 0", "verify", "gc --dry-run", f"restore {mine}", "doctor", "gc"]
    of_each = ["show {}", "diff {}", "export {} " + f"{folder}.ckpt --overwrite", "rm {} --dry-run"]
    commands += [one.format(name) for name in strange for one in of_each]
    removals = [f"rm {name}" for name in strange]
    for words in [*commands, *removals, "gc", "verify", f"restore {mine}"]:
        namespace: dict[str, Any] = {}
        try:
            ask(Tracker(folder), words, namespace)
        except NbckptError as error:
            if words.split()[0] in {"ls", "verify", "gc", "rm", "restore"}:
                wrong.append(f"{words}: {error!r:.200}")
        except BaseException:
            wrong.append(f"{words}: {traceback.format_exc(limit=-4)}")
        if words.startswith("restore") and not np.array_equal(namespace.get("array", []), GOOD["array"]):
            wrong.append(f"{words}: the array is another one")
    if left := [entry.id for entry in Tracker(folder).entries() if entry.id != mine]:
        wrong.append(f"{left} cannot be removed")
    Tracker(folder).save({"new": 1}, "new")
    return wrong


def try_pull(own: Path, hostile: Path) -> list[str]:
    """Return what goes wrong in one's own store after a pull, whatever that brought."""
    Tracker(own).save(dict(GOOD), "mine")
    with suppress(NbckptError):
        Mirror(LocalStore(own), own / "experiments", hostile).pull()
    wrong = []
    for words in ("ls", "verify", "gc", "restore mine"):
        try:
            ask(Tracker(own), words)
        except BaseException:
            wrong.append(f"{words} after a pull: {traceback.format_exc(limit=-4)}")
    Tracker(own).save({"new": 1}, "new")
    return wrong


def try_links(folder: Path, build_it: Callable[[Path, Path], None]) -> list[str]:
    """Return what goes wrong with a store in which a link leads outside: nothing there may change."""
    store, outside = folder / "store", folder / "outside"
    outside.mkdir(parents=True)
    (outside / "precious").write_bytes(b"mine")
    os.utime(outside / "precious", (0, 0))  # older than anything that is swept
    tracker = Tracker(store)
    for name in ("good", "bad"):
        tracker.save(dict(GOOD), name)
    tracker.remove(["bad"])
    mine = tracker.find("good").id
    build_it(store, outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    wrong = []
    saves = [lambda: Tracker(store).save({"new": 1}, "new"), lambda: Tracker(store).trust([mine])]
    words = [
        "ls",
        "verify",
        "gc --dry-run",
        "restore good",
        f"rm {mine}",
        "gc",
        f"export good {folder}/x.ckpt",
    ]
    for work in [*saves, *(lambda words=words: ask(Tracker(store), words) for words in words)]:
        try:
            work()
        except NbckptError:
            pass
        except BaseException:
            wrong.append(traceback.format_exc(limit=-4))
    if {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} != before:
        wrong.append("what is outside has changed")
    return wrong


def try_archive(folder: Path, data: bytes) -> list[str]:
    """Return what goes wrong with an archive: it is refused, and leaves nothing."""
    file = folder.with_suffix(".ckpt")
    file.write_bytes(data)
    wrong = []
    for action, call in {
        "import": lambda: Tracker(folder).import_file(file),
        "from_bytes": lambda: Checkpoint.from_bytes(data, trust=True).to_dict(),
    }.items():
        try:
            call()
            wrong.append(f"{action}: it was taken")
        except NbckptError:
            pass
        except BaseException:
            wrong.append(f"{action}: {traceback.format_exc(limit=-4)}")
    return wrong + [str(path) for path in folder.rglob("*") if path.is_file()]


def chosen(cases: dict[str, T]) -> list[tuple[str, T]]:
    """Return the cases to try now, by their names."""
    return list(cases.items())[:: share.of(1, 3)]


def main(folder: Path) -> None:
    limit_memory()
    for name, build_it in chosen(STORES):
        begin(name)
        for line in try_store(folder / name, build_it):
            print(f"WRONG {name}: {line}")
    for name, link in chosen(LINKS):
        begin(f"a link: {name}")
        for line in try_links(folder / f"link-{name}", link):
            print(f"WRONG {name}: {line}")
    for name, make in chosen(ARCHIVES):
        begin(name)
        for line in try_archive(folder / name, make()):
            print(f"WRONG {name}: {line}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
