"""A program that reports media and reads them back: it uses every name of `nbckpt.media`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import nbckpt
from nbckpt.media import Figure, File, Html, Image, Media, StoredMedia, Svg, Table, Text
from nbckpt.trials import Trial


def train(config: dict[str, Any], figure: Any, array: Any) -> None:
    """Report one object of each kind."""
    media: list[Media] = [Image(array, caption="a ramp"), Figure(figure), Table([[1]], columns=["a"])]
    media += [Text("long"), Html(Path("page.html")), Svg("<svg/>"), File("weights.bin")]
    nbckpt.report(loss=config["lr"], samples=media, mask=nbckpt.media.Image(array))


def read(trial: Trial) -> Any:
    """Read the newest."""
    newest = assert_type(trial.media[-1], StoredMedia)
    assert_type(newest.read(), bytes)
    assert_type(
        (newest.name, newest.step, newest.type, newest.digest, newest.size), tuple[str, int, str, str, int]
    )
    return newest.load()
