"""Images and figures: everything that becomes a PNG."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

from nbckpt.core.values.preview import draw
from nbckpt.errors import UsageError
from nbckpt.media.base import Encoded, Media, bounded, check_size, file_bytes
from nbckpt.media.png import check_pixels, dimensions, png_of, thumbnail

_DPI = 144
_DRAWING = threading.RLock()
"""Held while a figure is drawn: matplotlib promises nothing to threads that draw at once."""
_LONGEST_SIDE = 4_000
_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}
"""The modes of PIL that a PNG can have as they are."""


class Image(Media):
    """An image. It is stored as a PNG.

    Args:
        image: An array, an image of PIL, the path of a file, or the bytes of a file. An array has the shape
            (height, width) or (height, width, channels) with 1 to 4 channels; channels may come first. Its
            values are integers from 0 to 255, floats from 0 to 1, or bools.
        caption: A short text that is shown with it.

    Raises:
        UsageError: The array has another shape or other values, or the image has too many pixels.
        NotFoundError: There is no such file.

    Examples:
        >>> import numpy
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(sample=nbckpt.media.Image(numpy.zeros((8, 8)), caption="black"))
    """

    def __init__(self, image: Any, caption: str = "") -> None:
        self.caption = caption
        self._png = _png(image)

    def encode(self) -> Encoded:
        """See `Media.encode`."""
        return _encoded("image", self._png, self.caption)


class Figure(Media):
    """A figure of matplotlib, or its axes. It is drawn when this object is made.

    Raises:
        UsageError: This is not a figure of matplotlib.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(curve=nbckpt.media.Figure(Figure()))
    """

    def __init__(self, figure: Any, caption: str = "") -> None:
        self.caption = caption
        figure = figure if hasattr(figure, "savefig") else getattr(figure, "figure", None)
        if figure is None or not hasattr(figure, "get_size_inches"):
            raise UsageError("media.Figure takes a figure of matplotlib. For an array write media.Image")
        inches = max(*figure.get_size_inches(), 0.1)
        with _DRAWING:
            self._png = draw(figure, min(_DPI, _LONGEST_SIDE / inches))

    def encode(self) -> Encoded:
        """See `Media.encode`."""
        return _encoded("figure", self._png, self.caption)


def _encoded(kind: str, png: bytes, caption: str) -> Encoded:
    width, height = dimensions(png) or (0, 0)
    preview = {"width": width, "height": height, "caption": caption[:200], "png": thumbnail(png)}
    return bounded(kind, png, preview)


def _png(image: Any) -> bytes:
    if isinstance(image, (str, os.PathLike)):
        image = file_bytes("image", image)
    if isinstance(image, (bytes, bytearray, memoryview)):
        data = bytes(image)
        check_size("image", len(data))
        if (sides := dimensions(data)) is not None:
            check_pixels(*sides)
            return data
        return _of_pil(_opened(data))
    if hasattr(image, "save") and getattr(image, "mode", "F") != "F":  # F: floats, as in an array
        return _of_pil(image)
    return png_of(_pixels(image))


def _opened(data: bytes) -> Any:
    try:
        from PIL import Image as Pil
    except ImportError:
        raise UsageError("without Pillow only PNG files and arrays are images: pip install pillow") from None
    try:
        return Pil.open(io.BytesIO(data))
    except Exception as error:
        raise UsageError(
            f"this is not an image that Pillow can read: {error}. For SVG write media.Svg"
        ) from error


def _of_pil(image: Any) -> bytes:
    check_pixels(*image.size)
    file = io.BytesIO()
    picture = image if image.mode in _MODES else image.convert("RGBA" if "A" in image.mode else "RGB")
    picture.save(file, "png")
    return file.getvalue()


def _pixels(image: Any) -> Any:
    """Return an array as bytes with the shape (height, width, channels)."""
    import numpy

    if hasattr(image, "detach"):  # a tensor of torch
        image = image.detach().cpu()
    array = numpy.asarray(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim == 3 and array.shape[2] > 4 and array.shape[0] <= 4:
        array = numpy.moveaxis(array, 0, 2)
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4:
        raise UsageError(
            f"an array of shape {numpy.shape(image)} is not an image: it has (height, width) or (height, "
            "width, channels) with 1 to 4 channels"
        )
    check_pixels(array.shape[1], array.shape[0])
    return numpy.ascontiguousarray(_as_bytes(array))


def _as_bytes(array: Any) -> Any:
    import numpy

    if array.dtype == numpy.uint8:
        return array
    if array.dtype.kind not in "biuf":
        raise UsageError(f"an array of {array.dtype} is not an image: give integers, floats or bools")
    most = 255 if array.dtype.kind in "iu" else 1
    if array.dtype.kind == "f":
        array = numpy.nan_to_num(array, nan=0.0, posinf=numpy.inf, neginf=-numpy.inf)
    low, high = array.min(), array.max()
    if low < 0 or high > most:
        raise UsageError(
            f"the image has values from {low:g} to {high:g}; {array.dtype.name} must be from 0 to {most}. "
            "Scale it first: (image - image.min()) / (image.max() - image.min())"
        )
    return (array if most == 255 else array * 255 + 0.5 * (array.dtype.kind == "f")).astype(numpy.uint8)
