"""Style: figures without a background, in colours that can be read on white and on black."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.errors import UsageError, visible
from nbckpt.render import Picture, short
from nbckpt.store.files import explained, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# A picture cannot follow the theme. Each colour has a contrast of at least 3:1 to #ffffff and to #111111.
# See docs/decisions/0080.
GREY = "#7b7b7b"
COLOURS = (
    *("#4c8bf5", "#e06c00", "#2e9e5b", "#d6489f", "#9b6bdf"),
    *("#0f9aa8", "#e0484d", "#8f8a1c", "#a9713b", "#6f86a3"),
)
BEST = "#e06c00"
SCALE = ("#e06c00", "#b5527a", "#9b6bdf", "#4c8bf5")
"""From the best value to the worst."""

INCHES = 100
"""How many pixels an inch has in a notebook."""
_SHARP = (2.0, 1.5, 1.0)
_MOST_BYTES = 150_000
_MOST_SVG_MARKS = 5_000
_PALETTES = (256, 96, 32)
"""How many colours a large PNG has. A palette takes a quarter of the space."""
_LONGEST = 48
_IDS = re.compile(rb'(?<=["#])[a-z][0-9a-f]{10}(?=[")])')
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches. It does not belong to pyplot, so any thread may draw it.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("plots need matplotlib: pip install matplotlib") from None
    drawn = Figure(figsize=(width, height), dpi=INCHES, layout="constrained", facecolor="none")
    FigureCanvasAgg(drawn)
    return drawn


def dress(axes: Axes, x: str = "", y: str = "", *, grid: bool = True) -> None:
    """Give axes the style of all plots, and their labels."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(which="both", colors=GREY, labelsize="small")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_offset_text().set_color(GREY)
    # Users' names are not mathematics: a `$` in a name is a plain `$`.
    axes.set_xlabel(label(x), color=GREY, parse_math=False)
    axes.set_ylabel(label(y), color=GREY, parse_math=False)
    if grid:
        axes.grid(color=GREY, alpha=0.25, linewidth=0.6)


def logarithmic(axis: Axis) -> None:
    """Give the numbers beside a logarithmic axis a plain form: 0.01 and not a power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(map(abs, axis.get_view_interval()))
    few = high < 50 * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def label(text: str, most: int = _LONGEST) -> str:
    """Return a name for a plot: one line that is not too long."""
    return short(visible(text), most)


def scale() -> Colormap:
    """Return the colours of values, from the best (0) to the worst (1)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("nbckpt", SCALE).with_extremes(bad=GREY)


def plain_texts(texts: Sequence[Any]) -> None:
    """Make texts of a legend or of ticks grey, and take no `$` in them as mathematics."""
    for text in texts:
        text.set_color(GREY)
        text.set_parse_math(False)


def picture(drawn: Figure, alt: str, marks: int) -> Picture:
    """Return a figure as a picture for light and dark pages, of at most 150 kB.

    Args:
        drawn: The figure.
        alt: The description for people who cannot see it.
        marks: How many points and lines it has. Few make an SVG, many make a PNG for sharp screens.
    """
    height = round(drawn.get_figheight() * INCHES)
    if marks <= _MOST_SVG_MARKS:
        vector = svg(drawn)
        if len(vector) <= _MOST_BYTES:
            return Picture(alt, vector, height, "svg", framed=False)
    return Picture(alt, png(drawn), height, framed=False)


def svg(drawn: Figure) -> bytes:
    """Return a figure as SVG. The same figure makes the same bytes."""
    file = io.BytesIO()
    drawn.savefig(file, format="svg", metadata=_NO_METADATA)
    names: dict[bytes, bytes] = {}
    return _IDS.sub(lambda match: names.setdefault(match[0], b"i%d" % len(names)), file.getvalue())


def png(drawn: Figure) -> bytes:
    """Return a figure as PNG, twice as sharp as it is shown if that takes at most 150 kB."""
    from PIL import Image  # matplotlib needs Pillow

    data = b""
    for times in _SHARP:
        file = io.BytesIO()
        drawn.savefig(file, format="png", dpi=times * INCHES)
        data = file.getvalue()
        for colours in _PALETTES:
            if len(data) <= _MOST_BYTES:
                return data
            smaller = io.BytesIO()
            palette = Image.open(file).convert("RGBA").quantize(colours, Image.Quantize.FASTOCTREE)
            palette.save(smaller, "png", optimize=True)
            data = smaller.getvalue()
    return data


def write(drawn: Figure, file: Path) -> None:
    """Write a figure to a file, in the format of its ending. An older file is replaced.

    Raises:
        UsageError: The ending names no format of matplotlib.
        StoreError: The disk failed; an older file is unchanged.
    """
    form, formats = file.suffix[1:].lower(), drawn.canvas.get_supported_filetypes()
    if form not in formats:
        raise UsageError(f"{str(file)!r} has no ending of a picture: use one of {', '.join(sorted(formats))}")
    with explained("write", file), writing(file) as opened:
        drawn.savefig(opened, format=form, dpi=_SHARP[0] * INCHES)
