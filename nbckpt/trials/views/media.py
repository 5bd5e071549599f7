"""Media of a trial on its page: images, tables, texts, and pages in a sandbox."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from nbckpt.errors import NbckptError, UsageError
from nbckpt.media.nesting import is_flat
from nbckpt.media.png import dimensions
from nbckpt.media.stored import StoredMedia
from nbckpt.render import Cell, Column, Fold, Frame, Picture, Table, count, short, size
from nbckpt.suggestion import suggestion
from nbckpt.trials.model import reading
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.state import MOST_STEPS
from nbckpt.trials.model.trial import Status, Trial, state_of

_MOST_OBJECTS = 24
_MOST_BYTES = 4 << 20
"""The most bytes of media that one page contains."""
_MOST_WHILE_RUNNING = 1 << 20
"""The same for a trial that runs: a panel sends its page again with each result."""
_MOST_FRAME = 1 << 20
_MOST_TEXT = 4_000
_MOST_ROWS, _MOST_COLUMNS = 10, 12
_WIDEST = 110
_LARGEST_THUMBNAIL = 256


@dataclass
class MediaPage:
    """The parts of a page that show media."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    room: int = _MOST_BYTES


def newest_media(trial: Trial, step: int | None = None, name: str = "") -> list[StoredMedia]:
    """Return the newest media of each name, or those of one step or one name, in the order of their names.

    Raises:
        UsageError: The trial has no such media.
    """
    newest = [media.newest for media in state_of(trial).media.values()]
    every = newest if step is None else trial.media
    chosen = {media.name: media for media in every if step in {None, media.step} and name in {"", media.name}}
    if not chosen and (name or step is not None) and not short_texts(trial, step, name):
        raise UsageError(_nothing(trial, trial.media, step, name))
    return [chosen[key] for key in sorted(chosen)]


def short_texts(trial: Trial, step: int | None = None, name: str = "") -> list[tuple[str, str, str]]:
    """Return the newest short text of each name with its step, or those of one step or one name."""
    texts = state_of(trial).condensed.texts
    if step is not None:
        results = [result for result in trial.results if result[ITERATION] == step]
        texts = Condensed().extended(results).texts
    return [(key, text, str(at)) for key, (at, text) in sorted(texts.items()) if name in {"", key}]


def _nothing(trial: Trial, every: Sequence[StoredMedia], step: int | None, name: str) -> str:
    """Return a sentence about media that the trial does not have."""
    names = sorted({media.name for media in every})
    if not names:
        return f"{trial.id} reported no media: report(samples=figure), or one of nbckpt.media"
    if name and name not in names:
        return f"{trial.id} reported no media {name!r}. {suggestion(name, names)}There are {', '.join(names)}"
    steps = sorted({media.step for media in every if name in {"", media.name}})
    return f"{trial.id} reported no media at step {step}: there are some at {_steps(steps, len(steps))}"


def media_page(trial: Trial, step: int | None = None, name: str = "") -> MediaPage:
    """Return the parts of a trial's page that show its media. Each file is checked before it is shown.

    Raises:
        UsageError: The trial has no such media.
    """
    reading.complete(state_of(trial))
    page, chosen = MediaPage(), newest_media(trial, step, name)
    if trial.status == Status.RUNNING:
        page.room = _MOST_WHILE_RUNNING
    if texts := short_texts(trial, step, name):
        columns = (Column("text"), Column("content"), Column("step", number=True))
        page.tables.append(Table("texts", columns, tuple(texts)))
    if chosen:
        page.tables.append(_overview(trial, chosen))
    for media in chosen[:_MOST_OBJECTS]:
        try:
            _show(media, page)
        except NbckptError as error:
            page.notes.append(str(error))
            _show_preview(media, page)
    if len(chosen) > _MOST_OBJECTS:
        page.notes.append(
            f"{_MOST_OBJECTS} of {len(chosen)} media are shown. Show one: %ckpt show {trial.id} --name NAME"
        )
    return page


def _overview(trial: Trial, chosen: Sequence[StoredMedia]) -> Table:
    known = state_of(trial).media
    rows = tuple(
        (
            media.name,
            media.type,
            _facts(media),
            size(media.size),
            str(media.step),
            _steps(known[media.name].steps, known[media.name].count),
        )
        for media in chosen
    )
    columns = (Column("media"), Column("type"), Column("content"), Column("size", number=True))
    return Table("media", (*columns, Column("step", number=True), Column("all steps")), rows)


def _steps(steps: Sequence[int], number: int) -> str:
    """Return the last steps of media as text, and how many more there are of their *number*."""
    last = steps[-MOST_STEPS:]
    more = f"{number - len(last)} more, " if number > len(last) else ""
    return more + ", ".join(map(str, last))


def _facts(media: StoredMedia) -> Cell:
    """Return what a preview says about media. A preview may have been written by anybody."""
    preview = media.preview
    numbers = {key: value for key, value in preview.items() if type(value) is int}
    texts = {key: value for key, value in preview.items() if isinstance(value, str)}
    facts = []
    if {"width", "height"} <= numbers.keys():
        facts.append(f"{numbers['width']:,} x {numbers['height']:,} pixels")
    if "rows" in numbers:
        facts.append(f"{count(numbers['rows'], 'row')}, {count(numbers.get('width', 0), 'column')}")
    if "characters" in numbers:
        facts.append(count(numbers["characters"], "character"))
    if media.type == "text":
        facts.append(short(texts.get("text", ""), 40))
    facts += [texts[key] for key in ("name", "caption") if key in texts]
    text = "; ".join(filter(None, facts))
    return Cell(short(text, 60), text if len(text) > 60 else "")


def _title(media: StoredMedia) -> str:
    caption = media.preview.get("caption")
    said = f": {short(caption, 200)}" if isinstance(caption, str) and caption else ""
    return f"{media.name}, step {media.step}{said}"


def _show(media: StoredMedia, page: MediaPage) -> None:
    """Add media to a page.

    Raises:
        NbckptError: The file is missing, damaged or too large to show.
    """
    if media.type == "file":
        return
    if media.size > min(page.room, _MOST_FRAME if media.type in {"html", "svg"} else page.room):
        raise UsageError(
            f"{media.name!r} of step {media.step} is too large to show here ({size(media.size)}). Get it in "
            "Python: load() of a member of trial.media"
        )
    data = media.read()
    page.room -= len(data)
    if media.type in {"image", "figure"}:
        media.check_pixels(data)
        page.pictures.append(_picture(media, data, _title(media)))
    elif media.type == "table":
        page.tables.append(_table(media, *media.table(data)))
    elif media.type == "text":
        page.folds.append(_text(media, data.decode("utf-8", "replace")))
    else:
        markup = data.decode("utf-8", "replace")
        if not is_flat(markup):
            raise UsageError(
                f"{media.name!r} of step {media.step} has too many tags, or nests them too deeply, to show"
            )
        page.frames.append(Frame(_title(media), markup))


def _picture(media: StoredMedia, data: bytes, title: str) -> Picture:
    return Picture(title, data, 320, framed=media.type == "figure", caption=title)


def _text(media: StoredMedia, text: str) -> Fold:
    more = f"\n… ({len(text):,} characters)" if len(text) > _MOST_TEXT else ""
    lines = [part for line in text[:_MOST_TEXT].splitlines() for part in wrap(line, _WIDEST) or [""]]
    return Fold(_title(media), "\n".join(lines) + more, open=True)


def _table(media: StoredMedia, columns: list[str], rows: list[list[object]]) -> Table:
    shown = tuple(tuple(_cell(value) for value in row[:_MOST_COLUMNS]) for row in rows[:_MOST_ROWS])
    parts = [f"{_MOST_ROWS} of {len(rows):,} rows"] if len(rows) > _MOST_ROWS else []
    parts += [f"{_MOST_COLUMNS} of {len(columns):,} columns"] if len(columns) > _MOST_COLUMNS else []
    caption = "; ".join((_title(media), *parts))
    numbers = [
        all(isinstance(row[at], (int, float)) for row in rows[:_MOST_ROWS])
        for at in range(len(columns[:_MOST_COLUMNS]))
    ]
    headings = zip(columns, numbers, strict=False)
    return Table(caption, tuple(Column(short(name, 40), number=number) for name, number in headings), shown)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else short(str(value), 200)


def _show_preview(media: StoredMedia, page: MediaPage) -> None:
    """Add the preview of an image whose file is not here or not undamaged."""
    picture = media.preview.get("png")
    if media.type in {"image", "figure"} and isinstance(picture, str):
        try:
            data = b64decode(picture, validate=True)
        except ValueError:
            return
        if 0 < max(dimensions(data) or (0,)) <= _LARGEST_THUMBNAIL:
            page.pictures.append(_picture(media, data, f"{_title(media)} (preview)"))
