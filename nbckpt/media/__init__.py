"""Media: results that are not numbers, such as images, tables, texts and pages.

    nbckpt.report(loss=0.1, samples=figure, table=frame, mask=nbckpt.media.Image(array))

    nbckpt.open_experiment("net").trial("t0").media[-1].load()

Figures of matplotlib, images of PIL, and frames of pandas or polars need no class: `report` recognises them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

if TYPE_CHECKING:
    from nbckpt.media.base import Media as Media
    from nbckpt.media.documents import File as File
    from nbckpt.media.documents import Html as Html
    from nbckpt.media.documents import Svg as Svg
    from nbckpt.media.documents import Table as Table
    from nbckpt.media.documents import Text as Text
    from nbckpt.media.images import Figure as Figure
    from nbckpt.media.images import Image as Image
    from nbckpt.media.stored import StoredMedia as StoredMedia

_HOMES = {
    "Image": "nbckpt.media.images",
    "Figure": "nbckpt.media.images",
    "Table": "nbckpt.media.documents",
    "Text": "nbckpt.media.documents",
    "Html": "nbckpt.media.documents",
    "Svg": "nbckpt.media.documents",
    "File": "nbckpt.media.documents",
    "Media": "nbckpt.media.base",
    "StoredMedia": "nbckpt.media.stored",
}

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(__name__, _HOMES)
