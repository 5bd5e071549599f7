"""notes.json: the note and the tags that a user gives to a trial, at any time and from any process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbckpt.core.schema import SEALED, seal, unseal
from nbckpt.errors import CorruptError, NbckptError, StoreError, UsageError
from nbckpt.render import short
from nbckpt.store.files import explained, only_files, write_file
from nbckpt.store.fsync import sync_folder
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.store.scan import OUTSIDE, link_outside

FILE = "notes.json"
LONGEST_NOTE = 10_000
MOST_TAGS = 100
_MOST_BYTES = 1 << 20
LOCK_S = 10.0
_SHOWN = 40
_TAG = re.compile(r"[\w][\w.:/+-]{0,99}")
_FORM = {"format": int, "note": str, "tags": [str]}


@dataclass(frozen=True)
class Annotation:
    """What a user says about a trial.

    Attributes:
        note: A text; empty if there is none.
        tags: Short names, sorted.
        damage: Why the file could not be read; empty if it could.

    Examples:
        >>> nbckpt.trials.Annotation("clean data", ("good",)).tags
        ('good',)
    """

    note: str = ""
    tags: tuple[str, ...] = ()
    damage: str = ""

    def __repr__(self) -> str:
        return f"Annotation({short(self.note, _SHOWN)!r}, tags={short(', '.join(self.tags), _SHOWN)!r})"


def read(trial: Path) -> Annotation:
    """Return a trial's note and tags. It never fails: `damage` says what cannot be read."""
    try:
        return _read(trial)
    except NbckptError as error:
        return Annotation(damage=str(error))


def _read(trial: Path) -> Annotation:
    if link_outside(trial, FILE):
        raise CorruptError(f"{trial / FILE} is not read: {OUTSIDE}")
    try:
        with open(trial / FILE, "rb", opener=only_files) as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return Annotation()
    except OSError as error:
        raise StoreError(f"cannot read {str(trial / FILE)!r}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise CorruptError(f"{FILE} is larger than {_MOST_BYTES >> 20} MiB")
    document = unseal(data, _FORM, FILE)
    return Annotation(document["note"], tuple(sorted(set(document["tags"]))))


def change(
    trial: Path, *, note: str | None = None, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> Annotation:
    """Change a trial's note or its tags, durably. The trial may be running, in this or in another process.

    Args:
        trial: The trial's folder.
        note: The new note; None to keep it.
        add: Tags to add.
        remove: Tags to remove.

    Raises:
        UsageError: The note or a tag is not possible, or the trial does not have a tag to remove.
        StoreError: The disk failed; nothing changed.
        CorruptError: The file is damaged; nothing changed.
    """
    if note is not None and len(note) > LONGEST_NOTE:
        raise UsageError(
            f"a note has at most {LONGEST_NOTE:,} characters: this one has {len(note):,}. Keep a long "
            f"text in a file in {trial}"
        )
    for tag in (add := tuple(add)):
        if not _TAG.fullmatch(tag):
            raise UsageError(f"{tag[:40]!r} is not a tag: use letters, digits and . : / + - _")
    # see docs/decisions/0085
    lock = file_lock(trial.parent.parent / f".{trial.parent.name}.notes.lock", timeout=LOCK_S)
    with explained("lock", lock.lock_file):
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(
                f"another process changes the notes of {trial.parent.name!r}: try again"
            ) from None
    try:
        with explained("write", trial / FILE):
            return _changed(trial, note, add, tuple(remove))
    finally:
        lock.release()


def _changed(trial: Path, note: str | None, add: tuple[str, ...], remove: tuple[str, ...]) -> Annotation:
    before = _read(trial)
    if missing := [tag for tag in remove if tag not in before.tags]:
        known = ", ".join(before.tags) or "none"
        raise UsageError(f"{trial.name} has no tag {missing[0][:40]!r}: there are {known}")
    tags = tuple(sorted({*before.tags, *add} - {*remove}))
    if len(tags) > MOST_TAGS:
        raise UsageError(f"a trial has at most {MOST_TAGS} tags: untag some first")
    after = Annotation(before.note if note is None else note.strip(), tags)
    if after.note or after.tags:
        document = {"format": SEALED, "note": after.note, "tags": list(after.tags)}
        write_file(trial / FILE, seal(document))
    else:
        with suppress(FileNotFoundError):
            (trial / FILE).unlink()
            sync_folder(trial)
    return after
