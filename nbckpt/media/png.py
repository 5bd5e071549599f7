"""PNG: arrays as PNG files, the size of a PNG, and thumbnails."""

from __future__ import annotations

import io
import struct
import zlib
from base64 import b64encode
from contextlib import suppress
from typing import Any

from nbckpt.errors import UsageError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 50_000_000
_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
"""The colour type of a PNG for each number of channels."""
_THUMBNAILS = (96, 64, 40)
"""The longer sides of a thumbnail, in pixels. The first that is small enough is taken."""
_LARGEST_THUMBNAIL = 4_500


def png_of(pixels: Any) -> bytes:
    """Return an array of bytes as a PNG; it has the shape (height, width, channels)."""
    height, width, channels = pixels.shape
    rows = pixels.tobytes()
    stride = width * channels
    lines = b"".join(b"\0" + rows[at : at + stride] for at in range(0, len(rows), stride))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 6)) + _chunk(b"IEND", b"")
    return SIGNATURE + body


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Return the width and the height that a PNG states, or None if *data* is not a PNG."""
    if not data.startswith(SIGNATURE) or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def check_pixels(width: int, height: int) -> None:
    """Refuse an image without pixels or with too many.

    Raises:
        UsageError: It has none, or more than the limit.
    """
    if not width * height:
        raise UsageError(f"the image has {width} x {height} pixels: give at least one")
    if width * height > MOST_PIXELS:
        raise UsageError(
            f"the image has {width:,} x {height:,} pixels; the limit is {MOST_PIXELS:,}. Report a smaller "
            "one, such as every second pixel: image[::2, ::2]"
        )


def thumbnail(data: bytes) -> str:
    """Return a small PNG of a PNG, in base64; "" if that is not possible."""
    try:
        from PIL import Image
    except ImportError:
        return ""
    with suppress(Exception):  # a file that claims to be a PNG can be anything
        with Image.open(io.BytesIO(data)) as image:
            picture = image.convert("RGBA" if "transparency" in image.info or "A" in image.mode else "RGB")
        for side in _THUMBNAILS:
            file = io.BytesIO()
            picture.thumbnail((side, side))
            picture.save(file, "png", optimize=True)
            if file.tell() <= _LARGEST_THUMBNAIL:
                return b64encode(file.getvalue()).decode()
    return ""
