"""Images, tables and pages by W&B's names. Each is one of `nbckpt.media`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt import media
from nbckpt.errors import UsageError


def Image(  # noqa: N802  W&B's name
    data_or_path: Any, mode: str | None = None, caption: str | None = None, **options: Any
) -> media.Media:
    """Return an image from an array, a tensor, an image of PIL, a figure of matplotlib, or a file.

    Floats from 0 to 255 are scaled, as W&B does.

    Raises:
        UsageError: An option is given that has no counterpart, such as masks or boxes.
    """
    del mode  # the number of channels says it
    refused = [name for name, value in options.items() if value is not None and name != "file_type"]
    if refused:
        raise UsageError(f"Image takes no {refused[0]!r} here: draw it into the image first")
    if hasattr(data_or_path, "savefig"):
        return media.Figure(data_or_path, caption or "")
    array = data_or_path
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    if getattr(getattr(array, "dtype", None), "kind", "") == "f" and array.size and array.max() > 1:
        array = array.clip(0, 255).astype("uint8")
    return media.Image(array, caption or "")


def Html(data: Any, inject: bool = True, **_: Any) -> media.Html:  # noqa: FBT001, FBT002, N802  W&B's signature
    """Return a page in HTML: a text, or the path of a file that ends with `.html`."""
    del inject
    if hasattr(data, "read"):
        data = data.read()
    return media.Html(data)


class Table(media.Media):
    """A table that grows by rows.

    Args:
        columns: The names of the columns.
        data: The rows, or a frame of pandas.
        dataframe: A frame of pandas.
        rows: The rows, by their older name.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        data: Any = None,
        rows: Sequence[Any] | None = None,
        dataframe: Any = None,
        **_: Any,
    ) -> None:
        given: Any = dataframe if dataframe is not None else data if data is not None else rows
        if hasattr(given, "columns"):
            self.columns = [str(name) for name in given.columns]
            self.data = [list(row) for row in given.itertuples(index=False)]
        else:
            self.columns = [str(name) for name in (columns or ("Input", "Output", "Expected"))]
            self.data = [list(row) for row in (() if given is None else given)]

    def add_data(self, *values: Any) -> None:
        """Add a row.

        Raises:
            UsageError: There are more or fewer values than columns.
        """
        if len(values) != len(self.columns):
            raise UsageError(
                f"the table has {len(self.columns)} columns, and the row has {len(values)} values"
            )
        self.data.append(list(values))

    def add_column(self, name: str, data: Sequence[Any]) -> None:
        """Add a column.

        Raises:
            UsageError: There are more or fewer values than rows.
        """
        if self.data and len(data) != len(self.data):
            raise UsageError(f"the table has {len(self.data)} rows, and the column has {len(data)} values")
        self.data = self.data or [[] for _ in data]
        self.columns.append(name)
        for row, value in zip(self.data, data, strict=True):
            row.append(value)

    def encode(self) -> Any:
        """See `Media.encode`."""
        return media.Table(self.data, self.columns).encode()


def loggable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `report` takes: a list of media becomes `name/0`, `name/1` and so on."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (list, tuple)) and any(isinstance(item, media.Media) for item in value):
            result |= {f"{name}/{at}": item for at, item in enumerate(value)}
        else:
            result[name] = value
    return result
