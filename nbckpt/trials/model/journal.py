"""The journal of a trial: one line of JSON per event; lines are only ever appended.

A trial's state is a fold over its events. Each line ends with a checksum of the line. A crash can tear the
last line, which is then ignored; the next writer marks it. Any other line that differs from what was written
is damaged, and the reader of the journal learns which line and why.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbckpt._private_apis import json_encoder
from nbckpt.core.schema import MOST_NESTED, OneOf, check, parse
from nbckpt.errors import CorruptError, StoreError, UsageError
from nbckpt.store.files import only_files
from nbckpt.store.fsync import sync, sync_folder

FILE = "events.jsonl"

Event = dict[str, Any]
Stamp = tuple[int, int, int] | None
"""The inode of a file, its size, and its time in nanoseconds; None if there is no file."""

_CHECKSUM = re.compile(rb'"crc32":"([0-9a-f]{8})"\}')
_CHECKSUM_SIZE = 19
_TORN = b" #torn"
"""The end of a line that a crash tore; no line of JSON ends like this."""
_LONGEST_LINE = 64 << 20
SMALL = 1 << 20
"""The largest journal that is read at once."""
_SURELY_FLAT = MOST_NESTED // 2
"""A line with at most that many of each bracket is surely not nested too deeply."""

_AT = {"at?": OneOf(float, None)}
_KNOWN: dict[str, dict[str, Any]] = {
    "start": {"from": OneOf(str, None), "iteration": int, "origin?": str, "trial?": str, **_AT},
    "result": {"result": {"training_iteration": int, "time_total_s?": float, "timestamp?": float}},
    "checkpoint": {"name": str, "iteration": int, "donor?": str, **_AT},
    "pause": {"note?": str, "held?": bool, "rung?": int, **_AT},
    "end": {"note?": str, "early?": bool, **_AT},
    "error": {"error": str, "traceback": str, "retry": bool, **_AT},
    "queue": _AT,
    "decision": {
        "do": str,
        "reason": str,
        "rung?": int,
        "value?": OneOf(float, None),
        "donor?": str,
        "checkpoint?": str,
        "config?": dict,
        **_AT,
    },
    "load": {"load": {str: float}, **_AT},
}
"""The required fields of each event that a trial knows; a later version may write other events."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged line of a journal: *cause* names the line and the damage."""

    cause: str


_encode = json_encoder()


def line_of(event: Event) -> bytes:
    """Return an event as a line, which ends with a checksum of the rest of the line.

    Raises:
        UsageError: An integer in it is too long for a text.
    """
    try:
        text = f"{''.join(_encode(event, 0))[:-1]}{',' if event else ''}".encode()
    except ValueError:
        raise UsageError("a number has more than 4,300 digits: report it as a text, hex(…)") from None
    if len(text) > _LONGEST_LINE >> 1:
        raise OSError(f"{len(text):,} bytes are too many for one event. Save large values in a checkpoint")
    # see docs/decisions/0055
    return b'%b"crc32":"%08x"}\n' % (text, zlib.crc32(text))


def event_of(line: bytes, label: str) -> Event:
    """Return the event of a line that `line_of` made.

    Raises:
        CorruptError: The line is damaged.
    """
    line = line.removesuffix(b"\n")
    if _checksum_of(line) != zlib.crc32(line[:-_CHECKSUM_SIZE]):
        raise CorruptError(f"{label} is damaged: its contents do not match its checksum")
    event: Event = check(parse(line, label), dict, label)
    return event


class Journal:
    """Appends to one trial's journal. Only one writer at a time may use a journal.

    Args:
        file: The journal, which is made with the first event.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._fd: int | None = None
        self._is_shown = False

    def append(self, event: Event, *, durable: bool = False) -> None:
        """Write one event.

        After the return, the event survives the death of the process; with *durable*, of the machine.

        Raises:
            StoreError: The disk failed; earlier events are whole.
        """
        try:
            fd = self._open() if self._fd is None else self._fd
            line = line_of(event)
            while line:
                line = line[os.write(fd, line) :]
            if durable:
                sync(fd)
                self._show()
        except OSError as error:
            self.close()  # the next event marks the line that may be torn now
            raise StoreError(f"cannot write to {str(self._file)!r}: {error.strerror or error}") from error

    def sync(self) -> None:
        """Make all events so far survive the death of the machine.

        Raises:
            StoreError: The disk failed.
        """
        if self._fd is not None:
            try:
                sync(self._fd)
                self._show()
            except OSError as error:
                raise StoreError(f"cannot write to {str(self._file)!r}: {error.strerror or error}") from error

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._fd = os.open(self._file, flags, 0o666)
        size = os.fstat(self._fd).st_size
        # End a line that a crash tore; otherwise the next event would be torn with it.
        if size and _last_byte(self._fd, size) != b"\n":
            os.write(self._fd, _TORN + b"\n")
        return self._fd

    def _show(self) -> None:
        """Make the journal's name durable, once."""
        if not self._is_shown:
            sync_folder(self._file.parent)
            self._is_shown = True

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def read(file: Path, containing: bytes = b"") -> Iterator[Event | Damage]:
    """Yield the events of a journal, and a `Damage` for each damaged line. Torn lines are left out.

    Args:
        file: The journal.
        containing: Leave out lines without these bytes.

    Raises:
        StoreError: The journal cannot be read.
    """
    is_sealed = False
    for number, line in enumerate(_lines(file), 1):
        if is_sealed and containing not in line:
            continue  # at once: most lines are passed here when results are looked for
        checksum = _checksum_of(line)
        is_sealed = is_sealed or checksum is not None
        if containing not in line:
            continue
        if line.endswith(_TORN) and not _is_whole_but_its_end(line.removesuffix(_TORN)):
            continue
        if not (is_sealed or number == 1 or _is_json(line)):
            continue  # in a journal without checksums, a line that is not JSON was torn
        where = f"line {number} of {FILE}"
        if is_sealed and checksum != zlib.crc32(line[:-_CHECKSUM_SIZE]):
            yield Damage(f"{where} is damaged: its contents do not match its checksum")
            continue
        try:
            yield _event(line, where)
        except CorruptError as error:
            yield Damage(str(error))


def read_whole(file: Path) -> list[Event] | None:
    """Return the events of a small journal, in half the time of `read`. None if it is large or unusual.

    Then `read` says what is damaged or torn, or that no line has a checksum.

    Raises:
        StoreError: The journal cannot be read.
    """
    try:
        with open(file, "rb", opener=only_files) as opened:
            data = opened.read(SMALL + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(file, error) from error
    *lines, rest = data.split(b"\n")
    if rest or len(data) > SMALL or not all(map(_is_sound, lines)):
        return None
    try:
        events = json.loads(b"[%b]" % b",".join(lines))  # one call: its beginning and end take half the time
        return [checked(event, FILE) for event in events] if len(events) == len(lines) else None
    except (ValueError, RecursionError, CorruptError):
        return None


def _is_sound(line: bytes) -> bool:
    """Return whether a line matches its checksum, and is surely not nested too deeply."""
    return (
        _checksum_of(line) == zlib.crc32(line[:-_CHECKSUM_SIZE])
        and line.count(b"{") <= _SURELY_FLAT
        and line.count(b"[") <= _SURELY_FLAT
    )


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines that have an end. The text after the last end was torn."""
    try:
        with open(file, "rb", opener=only_files) as opened:
            while (line := opened.readline(_LONGEST_LINE)).endswith(b"\n"):
                yield line[:-1]
            if len(line) == _LONGEST_LINE or _is_whole_but_its_end(line):
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot read {str(file)!r}: {error.strerror or error}")


def _checksum_of(line: bytes) -> int | None:
    match = _CHECKSUM.fullmatch(line[-_CHECKSUM_SIZE:])
    return None if match is None else int(match[1], 16)


def _is_whole_but_its_end(line: bytes) -> bool:
    """Return whether a line starts with a whole line whose end byte was changed, which no crash does."""
    return any(
        match.end() < len(line) and int(match[1], 16) == zlib.crc32(line[: match.start()])
        for match in _CHECKSUM.finditer(line)
    )


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _event(line: bytes, where: str) -> Event:
    """Return the event of a line, with all fields that a trial uses.

    Raises:
        CorruptError: A field is missing or has the wrong type.
    """
    return checked(parse(line, where), where)


def checked(document: Any, where: str) -> Event:
    """Return the event of a document: see `_event`."""
    event: Event = check(document, dict, where)
    event.pop("crc32", None)
    kind = event.get("event")
    if not (kind == "result" and _is_usual(event.get("result"))):
        check(event, _KNOWN.get(kind, dict) if isinstance(kind, str) else dict, where)
    return event


def _is_usual(result: Any) -> bool:
    """Return whether a result surely has its form. Results are many, and this is twice as fast as `check`."""
    return (
        type(result) is dict
        and type(result.get("training_iteration")) is int
        and result["training_iteration"] >= 0
        and type(result.get("time_total_s")) is type(result.get("timestamp")) is float
    )


def stamp(file: Path) -> Stamp:
    """Return a value that changes with every write to a journal; None if there is no journal."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _last_byte(fd: int, size: int) -> bytes:
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1)
