"""Documents: tables, texts, pages and files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.media.base import ENDING, Encoded, Media, bounded, check_size, file_bytes
from nbckpt.render import short

_MOST_CELLS = 1_000_000
_LONGEST_CELL = 1_000
_PREVIEW_TEXT = 600
_PREVIEW_ROWS, _PREVIEW_COLUMNS, _PREVIEW_CELL = 5, 8, 30


class Text(Media):
    """A long text. A short one needs no class: `nbckpt.report(note="better edges")`.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(summary=nbckpt.media.Text("It learns.", caption="summary"))
    """

    _kind = "text"

    def __init__(self, text: str, caption: str = "") -> None:
        self.caption = caption
        self._text = str(text)

    def encode(self) -> Encoded:
        """See `Media.encode`."""
        check_size(self._kind, len(self._text))
        preview = {"caption": self.caption[:200], "characters": len(self._text)}
        preview["text"] = self._text[:_PREVIEW_TEXT]
        return bounded(self._kind, self._text.encode("utf-8", "replace"), preview)


class Html(Text):
    """A page or a part of a page in HTML. It is shown apart from the notebook, without scripts.

    Args:
        html: The HTML, the `Path` of a file, or an object that a notebook shows as HTML.
        caption: A short text that is shown with it.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(page=nbckpt.media.Html("<h1>It learns</h1>"))
    """

    _kind = "html"

    def __init__(self, html: Any, caption: str = "") -> None:
        if isinstance(html, os.PathLike):
            html = file_bytes(self._kind, html).decode("utf-8", "replace")
        elif not isinstance(html, str):
            html = self._shown(html)
        super().__init__(html, caption)

    def _shown(self, value: Any) -> str:
        """Return what a notebook shows for a value."""
        show = getattr(value, f"_repr_{self._kind}_", None)
        shown = show() if callable(show) else None
        if not isinstance(shown, str):
            name = type(self).__name__
            raise UsageError(f"media.{name} takes a text or a pathlib.Path, not {type(value).__name__}")
        return shown


class Svg(Html):
    """A drawing in SVG. It is shown as `Html` is.

    Args:
        svg: The SVG, the `Path` of a file, or an object that a notebook shows as SVG.
        caption: A short text that is shown with it.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(dot=nbckpt.media.Svg('<svg viewBox="0 0 2 2"><circle r="1"/></svg>'))
    """

    _kind = "svg"

    def __init__(self, svg: Any, caption: str = "") -> None:
        super().__init__(svg, caption)


class Table(Media):
    """A table with at most 1,000,000 cells.

    Args:
        data: A frame or a series of pandas or polars, a dict of columns, or a list of rows, each a dict or a
            list.
        columns: The names of the columns, if the rows are lists.
        caption: A short text that is shown with it.

    Raises:
        UsageError: This is not a table, or it has too many cells.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(errors=nbckpt.media.Table([["a", 3], ["b", 0]], columns=["class", "errors"]))
    """

    def __init__(self, data: Any, columns: Sequence[str] | None = None, caption: str = "") -> None:
        self.caption = caption
        try:
            names, rows, total = _table(data, columns)
        except TypeError as error:
            raise UsageError(f"this is not a table: {error}. Give a frame, or a list of dicts") from None
        if total * max(1, len(names)) > _MOST_CELLS:
            raise UsageError(
                f"the table has {total:,} rows of {len(names):,} columns; the limit is {_MOST_CELLS:,} "
                "cells. Report a part of it, such as frame.head(1000), or save it as a file: media.File(path)"
            )
        self._columns = [str(name) for name in names]
        self._rows = [[_cell(value) for value in row] for row in rows if isinstance(row, (list, tuple))]
        if len(self._rows) != total or any(len(row) != len(names) for row in self._rows):
            raise UsageError(f"each row of the table must have {len(names)} values, one for each column")

    def encode(self) -> Encoded:
        """See `Media.encode`."""
        whole = {"columns": self._columns, "rows": self._rows}
        head = [[_short(value) for value in row[:_PREVIEW_COLUMNS]] for row in self._rows[:_PREVIEW_ROWS]]
        preview = {
            "caption": self.caption[:200],
            "rows": len(self._rows),
            "width": len(self._columns),
            "columns": [short(name, _PREVIEW_CELL) for name in self._columns[:_PREVIEW_COLUMNS]],
            "head": head,
        }
        return bounded("table", json.dumps(whole, allow_nan=False, ensure_ascii=True).encode(), preview)


class File(Media):
    """A file, whose bytes are kept with the results.

    Args:
        path: The file.
        caption: A short text that is shown with it.

    Raises:
        NotFoundError: There is no such file.
        UsageError: It is too large.

    Examples:
        >>> size = Path("log.csv").write_text("1,2")
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(log=nbckpt.media.File("log.csv"))
    """

    def __init__(self, path: str | os.PathLike[str], caption: str = "") -> None:
        self.caption = caption
        self._name = Path(path).name
        self._data = file_bytes("file", path)

    def encode(self) -> Encoded:
        """See `Media.encode`."""
        ending = self._name.rpartition(".")[2].lower()
        preview = {"caption": self.caption[:200], "name": short(self._name, 200)}
        return bounded("file", self._data, preview, ending if ENDING.fullmatch(ending) else "")


def _table(data: Any, columns: Sequence[str] | None) -> tuple[Sequence[Any], Iterable[Any], int]:
    """Return the names of the columns, the rows and their number."""
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):  # a series
        data = data.to_frame()
    if hasattr(data, "itertuples"):  # pandas
        return _of_pandas(data)
    if hasattr(data, "iter_rows"):  # polars
        return list(data.columns), data.iter_rows(), len(data)
    if isinstance(data, Mapping):
        values = [list(column) for column in data.values()]
        return list(data), zip_longest(*values), max(map(len, values), default=0)
    if not isinstance(data, (list, tuple)):
        raise UsageError(
            f"media.Table takes a frame, a dict of columns or a list of rows, not {type(data).__name__}"
        )
    if all(isinstance(row, Mapping) for row in data):
        names = list(columns or dict.fromkeys(name for row in data for name in row))
        return names, ([row.get(name) for name in names] for row in data), len(data)
    wide = max((len(row) for row in data if isinstance(row, (list, tuple))), default=0)
    return columns or [f"column {number}" for number in range(wide)], data, len(data)


def _of_pandas(frame: Any) -> tuple[Sequence[Any], Iterable[Any], int]:
    """Return the same for a frame of pandas. An index of its own becomes the first columns."""
    index, rows = frame.index, frame.itertuples(index=False, name=None)
    if type(index).__name__ == "RangeIndex":
        return list(frame.columns), rows, len(frame)
    names = ["index" if name is None else name for name in index.names]
    keys = index if index.nlevels > 1 else ((key,) for key in index)
    both = ((*key, *row) for key, row in zip(keys, rows, strict=True))
    return [*names, *frame.columns], both, len(frame)


def _cell(value: Any) -> Any:
    """Return the value of a cell in a type of JSON."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, (bool, type(None))):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else str(value)
    return short(str(value), _LONGEST_CELL)


def _short(value: Any) -> Any:
    return short(value, _PREVIEW_CELL) if isinstance(value, str) else value
