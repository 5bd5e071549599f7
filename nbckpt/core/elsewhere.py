"""Elsewhere: values whose contents live outside of the kernel, in files, databases or shared memory.

Records name the functions that open things again, so these functions keep their meaning.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Container, Iterable
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.core.instances import Reduced

if TYPE_CHECKING:
    import sqlite3

_APART, _REFERS = ": comes back with its contents, but apart from ", ": refers to "
_MOST_READ = 1 << 20
_LONGEST_CHAIN = 100  # the memory views of Cython may lead back to themselves
_SCAN = re.compile(r"SCAN \[([^\]]+)\]")


class Reserved(mmap):
    """Memory that nbckpt reserved for restored values: no file of the user."""


def notes_of(warnings: Iterable[str], names: Container[str]) -> list[str]:
    """Return the warnings of a checkpoint which say that contents of these variables live elsewhere."""
    about = (warning for warning in warnings if _APART in warning or _REFERS in warning)
    return [warning for warning in about if variable_of(warning) in names]


def variable_of(warning: str) -> str:
    """Return the variable that a warning of a checkpoint is about: it begins with a path in the variable."""
    end = next((at for at, letter in enumerate(warning) if not (letter.isalnum() or letter == "_")), None)
    return warning[:end]


def mapped_source(array: Any) -> str:
    """Return what an array shares its memory with, a file or other mapped memory; "" if it is its own."""
    base = array.base
    for _ in range(_LONGEST_CHAIN):
        if base is None or isinstance(base, mmap):
            break
        if filename := getattr(base, "filename", None):
            return f"the file {filename}"
        base = base.obj if type(base) is memoryview else getattr(base, "base", None)
    else:
        return ""
    return "the mapped file or shared memory" if base is not None and type(base) is not Reserved else ""


def source_of(value: Any) -> str:
    """Return the files that a value of zarr, xarray, polars or Arrow refers to, or ""."""
    if hasattr(value, "store_path"):  # zarr 3
        return "" if type(value.store).__name__ == "MemoryStore" else str(value.store_path)
    if type(value).__name__ == "LazyFrame":
        return ", ".join(dict.fromkeys(_SCAN.findall(value.explain(optimized=False))))
    if hasattr(value, "files"):  # a dataset of Arrow
        return ", ".join(map(str, value.files[:3]))
    return ", ".join(part for part in getattr(value, "_args", ()) if isinstance(part, str))


# Databases.


def reduce_connection(connection: sqlite3.Connection) -> Reduced:
    """Reduce a connection to a database in memory to its contents."""
    cursor = connection.cursor()
    cursor.row_factory = None
    databases = {name: file for _, name, file in cursor.execute("PRAGMA database_list")}
    # A database that was made from bytes has a name of SQLite's, which is not a path.
    if files := [file for file in databases.values() if Path(file).is_absolute()]:
        raise TypeError(f"it refers to {files[0]}: a connection to a file cannot be saved. Connect again")
    temporary = cursor.execute("SELECT count(*) FROM sqlite_temp_master").fetchone()[0]
    if temporary or not databases.keys() <= {"main", "temp"}:
        raise TypeError("a connection with attached databases or temporary tables cannot be saved")
    is_empty = not cursor.execute("PRAGMA page_count").fetchone()[0]  # SQLite refuses to serialize it
    data = b"" if is_empty else connection.serialize()
    factories = connection.row_factory, connection.text_factory
    return make_connection, (data, connection.isolation_level), factories, None, None, set_factories


def make_connection(data: bytes, isolation_level: Any) -> sqlite3.Connection:
    """Connect to a database in memory with these contents."""
    import sqlite3  # a browser may lack it

    connection = sqlite3.connect(":memory:", isolation_level=isolation_level)
    if data:
        connection.deserialize(data)
    return connection


def set_factories(connection: sqlite3.Connection, factories: tuple[Any, Any]) -> None:
    """Set what a connection makes of rows and texts."""
    connection.row_factory, connection.text_factory = factories


# Files. cloudpickle would put the text of the file in place of an open file, without a word.


def reduce_file(file: Any) -> Any:
    """Reduce the standard streams by name, and a file that is open for reading to its path and position."""
    if file in (sys.stdout, sys.stderr):
        return NotImplemented
    is_text = isinstance(file, io.TextIOWrapper)
    name, mode = getattr(file, "name", None), getattr(file, "mode", "")
    if file.closed or mode not in {"r", "rt", "rb"} or not isinstance(name, str) or not Path(name).is_file():
        raise TypeError("an open file cannot be saved")
    try:
        position = file.tell()
    except OSError:  # a loop reads its lines
        raise TypeError("an open file cannot be saved") from None
    options = {"encoding": file.encoding, "errors": file.errors} if is_text else {}
    if is_text and _has_returns(name):
        raise TypeError("an open file whose lines end in \\r\\n cannot be saved")
    return open_again, (name, str(Path(name).absolute()), mode, options, position, _facts(name))


def _has_returns(path: str) -> bool:
    """Tell whether the lines of a file read differently with another `newline`, which no file tells."""
    with Path(path).open("rb") as file:
        return b"\r" in file.read(_MOST_READ)


def _facts(path: str) -> tuple[int, int]:
    facts = Path(path).stat()
    return facts.st_size, facts.st_mtime_ns


def open_again(
    name: str, path: str, mode: str, options: dict[str, Any], position: int, facts: tuple[int, int]
) -> Any:
    """Open a file for reading at a position.

    Raises:
        OSError: It is gone or was changed.
    """
    if mode not in {"r", "rt", "rb"}:
        raise ValueError(f"a file is not opened again with the mode {mode!r}")
    if _facts(path) != tuple(facts):
        raise OSError(f"the file {path} was changed after the save: open it again")
    is_here = str(Path(name).absolute()) == path
    file = open(name if is_here else path, mode, **options)  # noqa: PTH123, SIM115  it keeps its name
    file.seek(position)
    return file
