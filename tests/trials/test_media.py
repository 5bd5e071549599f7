"""Media: results that are not numbers, from the report to the journal, the file and the page."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.media.base import Encoded
from nbckpt.media.nesting import is_flat
from nbckpt.media.png import SIGNATURE, dimensions
from nbckpt.media.stored import StoredMedia, store, stored
from nbckpt.mirror import AutoMirror
from nbckpt.render.html import sandboxed
from nbckpt.render.result import html_of
from nbckpt.render.text import text
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.trial import Trial, state_of

numpy = pytest.importorskip("numpy", reason="makes images")

ARRAY = numpy.arange(48, dtype=numpy.uint8).reshape(4, 4, 3)

Ran = Callable[..., Trial]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    local = LocalStore(tmp_path / "store")
    return Session(Tracker(local), AutoMirror(local, in_background=False), {})


@pytest.fixture
def ran(session: Session) -> Ran:
    """Run a function that makes these reports, and return its trial as its journal says it."""

    def run(*reports: dict[str, Any], executor: str = "inline", name: str = "e") -> Trial:
        def train(config: dict[str, Any]) -> None:
            for report in reports:
                nbckpt.report(report)

        nbckpt.run(train, {}, name=name, folder=session.library.folder, executor=executor).wait()
        return Trial.read(session.library.folder / name / "t0")

    return run


def said(session: Session, line: str) -> str:
    return text(parse(TABLE, line.split(), "%ckpt").run(session).page())


def only(trial: Trial, name: str) -> StoredMedia:
    """Return the media of a name, of which there is one."""
    (media,) = [media for media in trial.media if media.name == name]
    return media


@pytest.mark.parametrize("executor", ["thread", "inline", "process"])
def test_media_of_each_executor_are_stored(ran: Ran, executor: str) -> None:
    image = nbckpt.media.Image(ARRAY, caption="a ramp")
    trial = ran({"loss": 1.0, "ramp": image}, {"loss": 0.5}, executor=executor)
    assert trial.status == "TERMINATED", trial.error
    assert [result["loss"] for result in trial.results] == [1.0, 0.5]
    assert all("ramp" not in result for result in trial.results)
    media = only(trial, "ramp")
    assert (media.type, media.step) == ("image", 1)
    assert (media.preview["width"], media.preview["caption"]) == (4, "a ramp")
    pytest.importorskip("PIL", reason="loads images")
    assert (numpy.asarray(media.load()) == ARRAY).all()
    assert media.path == trial.folder.parent / "media" / f"{media.digest}.png"


def test_the_values_of_a_trainable_class_are_media_too(session: Session) -> None:
    class Steps(nbckpt.trials.Trainable):
        def step(self) -> dict[str, Any]:
            return {"loss": 1.0, "note": nbckpt.media.Text("long"), "done": self.iteration == 1}

    nbckpt.run(Steps, {}, name="e", folder=session.library.folder, executor="inline").wait()
    trial = Trial.read(session.library.folder / "e" / "t0")
    notes = [(media.name, media.step, media.load()) for media in trial.media]
    assert notes == [("note", 1, "long"), ("note", 2, "long")]
    assert len(list((session.library.folder / "e" / "media").iterdir())) == 1


def test_train_returns_the_media_encoded(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0, note=nbckpt.media.Text("long"))

    with nbckpt.trials.wrap_function(train)({}, tmp_path) as trainable:
        assert trainable.train()["note"].data == b"long"


def test_equal_bytes_of_trials_are_stored_once(session: Session) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["lr"], ramp=nbckpt.media.Image(ARRAY), other=nbckpt.media.Image(ARRAY))

    space = {"lr": nbckpt.grid_search([1, 2, 3])}
    experiment = nbckpt.run(train, space, name="e", folder=session.library.folder)
    experiment.wait()
    assert sum(len(trial.media) for trial in experiment.trials) == 6
    assert len(list((experiment.folder / "media").iterdir())) == 1


def test_a_bare_figure_and_its_axes_are_drawn(ran: Ran) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="needs matplotlib")
    figure = figures.Figure(figsize=(2, 1))
    axes = figure.subplots()
    trial = ran({"loss": 1.0, "figure": figure, "axes": axes})
    assert [media.type for media in trial.media] == ["figure", "figure"]
    media = only(trial, "figure")
    assert (media.preview["width"], media.preview["height"]) == (288, 144)
    assert media.preview["png"]


def test_bare_frames_and_series_are_tables(ran: Ran) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"label": ["a", "b"], "score": [0.5, float("nan")]})
    counts = pandas.Series([3, 4], index=["cat", "dog"], name="count")
    trial = ran({"loss": 1.0, "frame": frame, "counts": counts})
    assert only(trial, "frame").load().to_json() == frame.to_json()
    assert only(trial, "counts").load().to_dict("list") == {"index": ["cat", "dog"], "count": [3, 4]}


class Columns:
    """As much of a frame of polars as a table needs."""

    columns = ("a", "b")

    def __len__(self) -> int:
        return 2

    def iter_rows(self) -> Iterator[tuple[int, str]]:
        yield from [(1, "x"), (2, "y")]


@pytest.mark.parametrize("library", ["polars", "like polars"])
def test_a_bare_frame_of_polars_is_a_table(ran: Ran, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if library == "polars":
        frame = pytest.importorskip("polars", reason="needs polars").DataFrame({"a": [1, 2], "b": ["x", "y"]})
    else:
        monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=Columns))
        frame = Columns()
    trial = ran({"loss": 1.0, "frame": frame})
    assert json.loads(only(trial, "frame").read()) == {"columns": ["a", "b"], "rows": [[1, "x"], [2, "y"]]}


def test_a_bare_image_of_pil_is_an_image(ran: Ran) -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs Pillow")
    trial = ran({"loss": 1.0, "image": pil.new("CMYK", (3, 2))})
    assert only(trial, "image").load().size == (3, 2)
    assert dimensions(nbckpt.media.Image(pil.new("I;16", (4, 3))).encode().data) == (4, 3)
    assert dimensions(nbckpt.media.Image(pil.new("F", (4, 3), 0.5)).encode().data) == (4, 3)
    with pytest.raises(UsageError, match="must be from 0 to 1"):
        nbckpt.media.Image(pil.new("F", (4, 3), 2.0))


def test_media_in_dicts_and_lists_have_paths(ran: Ran) -> None:
    image = nbckpt.media.Image(ARRAY)
    trial = ran({"val": {"loss": 1.0, "samples": [image, image]}, "plain": [1, 2]})
    assert {media.name for media in trial.media} == {"val/samples/0", "val/samples/1"}
    assert (trial.results[0]["val"], trial.results[0]["plain"]) == ({"loss": 1.0}, [1, 2])
    inside: dict[str, Any] = {"note": nbckpt.media.Text("long"), "number": 1}
    inside |= {f"again{number}": inside for number in range(20)}
    plain: list[Any] = [1]
    plain += [plain] * 20
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    trial = ran({"loss": 1.0, "inside": inside, "plain": plain, "deep": deep}, name="f")
    assert trial.status == "TERMINATED", trial.traceback[-600:]
    assert only(trial, "inside/note").load() == "long"
    assert trial.results[0]["inside"]["number"] == 1


def test_a_short_text_stays_and_a_long_one_is_stored(ran: Ran) -> None:
    trial = ran({"loss": 1.0, "short": "a b", "long": "x" * 3_000})
    assert trial.results[0]["short"] == "a b"
    assert only(trial, "long").load() == "x" * 3_000


def kept_as_text(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages about values that are kept as text."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if "only its text is kept" in message]


@pytest.mark.parametrize("array", [ARRAY, numpy.zeros(3)])
def test_a_bare_array_says_once_what_to_write(ran: Ran, caplog: pytest.LogCaptureFixture, array: Any) -> None:
    trial = ran({"loss": 1.0, "mask": array}, {"loss": 1.0, "mask": array})
    (message,) = kept_as_text(caplog)
    assert message == (
        f"e/t0: 'mask' is an array of shape {array.shape}, and only its text is kept. Write "
        "mask=nbckpt.media.Image(mask) for an image, or a number of it, such as mask=mask.mean()"
    )
    assert trial.results[1]["mask"] == repr(array)
    assert trial.media == []


def test_another_object_says_once_for_each_metric(ran: Ran, caplog: pytest.LogCaptureFixture) -> None:
    ran(*[{"loss": numpy.float32(1), "one": {1}, "two": {"a": Path("a")}, "list": [1, None]}] * 3)
    messages = kept_as_text(caplog)
    assert len(messages) == 2
    assert "'two/a' is neither" in messages[1]
    assert "'one' is neither a number nor media but set" in messages[0]


def test_media_above_a_limit_of_size_or_number_leave_a_text(
    ran: Ran, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbckpt.media.base.LARGEST", 1_000)
    trial = ran(*[{"loss": 1.0, "note": nbckpt.media.Text("x" * 1_001)}] * 2)
    why = "not kept: the text has 1 kB; the limit is 1 kB. Report a smaller one, or save it in a checkpoint"
    assert [result["note"] for result in trial.results] == [why] * 2
    assert len([record for record in caplog.records if "was not kept" in record.getMessage()]) == 1
    assert trial.status == "TERMINATED"
    trial = ran({"loss": 1.0, "notes": [nbckpt.media.Text(str(at)) for at in range(103)]}, name="f")
    assert len(trial.media) == 100
    assert trial.results[0]["notes"][0].startswith("not kept: the limit is 100 media for one report")


# matplotlib 3.9 calls a newer pyparsing by names that are deprecated there.
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_a_figure_that_cannot_be_drawn_leaves_a_text(ran: Ran) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="needs matplotlib")
    figure = figures.Figure()
    figure.suptitle("$\\nope$")
    trial = ran({"loss": 1.0, "figure": figure})
    assert trial.results[0]["figure"].startswith("not kept: ValueError")


def test_what_is_not_an_image_is_refused(subtests: pytest.Subtests) -> None:
    pytest.importorskip("PIL", reason="reads other files than PNG")
    for given, message in [
        (numpy.zeros(3), "shape (3,) is not an image"),
        (numpy.full((2, 2), 1.5), "has values from 1.5 to 1.5; float64 must be from 0 to 1"),
        (numpy.full((2, 2), 300), "must be from 0 to 255"),
        (numpy.full((2, 2), numpy.inf), "has values from inf to inf"),
        (numpy.zeros((2, 2), complex), "an array of complex128 is not an image"),
        (numpy.zeros((0, 2)), "has 2 x 0 pixels"),
        (numpy.broadcast_to(numpy.uint8(1), (10_000, 10_000)), "the limit is 50,000,000"),
        (b"GIF9", "not an image that Pillow can read"),
    ]:
        with subtests.test(message), pytest.raises(UsageError, match=re.escape(message)):
            nbckpt.media.Image(given)


def test_arrays_become_images_that_others_read(subtests: pytest.Subtests) -> None:
    pil = pytest.importorskip("PIL.Image", reason="reads PNG")
    for array in [
        numpy.ones((2, 3), bool),
        numpy.linspace(0, 1, 6).reshape(2, 3),
        numpy.full((2, 3), numpy.nan, numpy.float16),
        numpy.arange(6).reshape(2, 3),
        numpy.zeros((2, 3, 1), numpy.uint8),
        numpy.zeros((2, 3, 2), numpy.uint8),
        numpy.zeros((3, 2, 5), numpy.uint8),
        numpy.zeros((2, 3, 4), numpy.uint8),
    ]:
        with subtests.test(array=array):
            png = io.BytesIO(nbckpt.media.Image(array).encode().data)
            with pil.open(png) as image:
                image.load()
                assert image.size in {(3, 2), (5, 2)}


def test_a_file_keeps_its_ending(ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "w.tar"
    file.write_bytes(b"abc")
    trial = ran({"loss": 1.0, "weights": nbckpt.media.File(file)})
    media = only(trial, "weights")
    assert (media.load(), media.path.suffix, media.preview["name"]) == (b"abc", ".tar", "w.tar")
    with pytest.raises(NotFoundError, match="there is no file"):
        nbckpt.media.File(tmp_path / "none")


def test_a_repeated_step_replaces_its_media(session: Session) -> None:
    def train(config: dict[str, Any]) -> None:
        saved = nbckpt.get_checkpoint()
        start = saved.to_dict()["step"] if saved else 0
        marker = Path(config["folder"]) / "failed"
        for step in range(start, 3):
            note = nbckpt.media.Text(f"{step} {marker.exists()}")
            nbckpt.report(loss=1.0, note=note, checkpoint={"step": 1} if step == 0 else None)
            if step == 1 and not marker.exists():
                marker.touch()
                raise ValueError("once")

    folder = session.library.folder
    config = {"folder": str(folder.parent)}
    nbckpt.run(train, config, name="e", folder=folder, executor="inline", max_failures=1).wait()
    trial = Trial.read(folder / "e" / "t0")
    texts = [(media.step, media.load()) for media in trial.media]
    assert texts == [(1, "0 False"), (2, "1 True"), (3, "2 True")]


def test_the_journal_has_a_small_preview(ran: Ran) -> None:
    noise = numpy.random.default_rng(1).integers(0, 256, (300, 300, 4), numpy.uint8)
    table = nbckpt.media.Table([["\U0001f600" * 99] * 50] * 50)
    trial = ran({"loss": 1.0, "noise": nbckpt.media.Image(noise), "table": table})
    event = json.loads((trial.folder / "events.jsonl").read_text().splitlines()[1])
    for media in event["media"].values():
        assert media.keys() == {"type", "digest", "size", "preview"}
        assert len(json.dumps(media["preview"])) <= 8_000


def test_a_hostile_journal_names_no_other_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    line = {"type": "image", "digest": "ab" * 32, "size": 3, "preview": {}}
    for change in [
        {"digest": "../../secret"},
        {"digest": "ab"},
        {"ending": "../png"},
        {"ending": "exe"},
        {"type": "../x"},
        {"type": 3},
        {"size": -1},
        {"size": 1 << 40},
        {"size": True},
    ]:
        with subtests.test(change=change):
            assert list(stored(tmp_path, 1, {"a": line | change})) == []
    assert len(list(stored(tmp_path, 1, {"a": line}))) == 1
    assert list(stored(tmp_path, 1, ["a"])) == []
    (media,) = stored(tmp_path, 1, {"a": line | {"preview": {"png": "x" * 9_000}}})
    assert media.preview == {}


def test_changed_missing_and_linked_files_are_refused(ran: Ran, tmp_path: Path) -> None:
    media = only(ran({"loss": 1.0, "note": nbckpt.media.Text("long")}), "note")
    media.path.write_bytes(b"lung")
    with pytest.raises(CorruptError, match="is not what was reported"):
        media.load()
    media.path.unlink()
    with pytest.raises(NotFoundError, match="'note' of result 1 is not here"):
        media.load()
    (tmp_path / "secret").write_bytes(b"long")
    media.path.symlink_to(tmp_path / "secret")
    with pytest.raises(CorruptError, match="leads outside"):
        media.load()


def test_show_has_the_media_by_step(session: Session, ran: Ran) -> None:
    image, table = nbckpt.media.Image(ARRAY), nbckpt.media.Table([{"a": 1, "b": "x"}])
    trial = ran(
        {"loss": 1.0, "ramp": image, "note": nbckpt.media.Text("first")},
        {"loss": 1.0, "ramp": nbckpt.media.Image(ARRAY + 1), "preds": table},
    )
    shown = said(session, "show e/t0")
    assert "pictures (shown in a notebook): ramp, step 2" in shown
    assert "note, step 1:\n    first" in shown
    assert "preds, step 2:" in shown
    assert "1, 2" in shown
    assert "ramp, step 1" in said(session, "show e/t0 --step 1")
    assert "preds" not in said(session, "show e/t0 --step 1")
    assert "note, step" not in said(session, "show e/t0 --name ramp")
    with pytest.raises(UsageError, match="no media at step 9: there are some at 1, 2"):
        said(session, "show e/t0 --step 9")
    with pytest.raises(UsageError, match=r"no media 'rump'\. Did you mean 'ramp'"):
        said(session, "show e/t0 --name rump")
    html = html_of(parse(TABLE, ["show", "e/t0"], "%ckpt").run(session))
    assert html.count("data:image/png") == 1
    only(trial, "preds").path.write_bytes(b"{}")
    assert "'preds' of result 2 is not what was reported" in said(session, "show e/t0")
    trial = ran({"loss": 1.0, "note": nbckpt.media.Text("long")}, name="f")
    shown = json.loads(said(session, "show f/t0 --json"))
    digest = only(trial, "note").digest
    assert shown["media"] == [{"name": "note", "step": 1, "type": "text", "digest": digest, "size": 4}]
    pytest.importorskip("PIL", reason="makes previews")
    only(ran({"loss": 1.0, "ramp": nbckpt.media.Image(ARRAY)}, name="g"), "ramp").path.unlink()
    shown = said(session, "show g/t0")
    assert "ramp, step 1 (preview)" in shown
    assert "'ramp' of result 1 is not here" in shown


def kept(trial: Trial) -> set[str]:
    return {file.name for file in (trial.folder.parent / "media").iterdir()}


def test_gc_and_rm_keep_the_media_that_a_journal_names(session: Session, ran: Ran) -> None:
    trial = ran({"loss": 1.0, "note": nbckpt.media.Text("long")})
    used, unused = kept(trial), trial.folder.parent / "media" / f"{'ab' * 32}.png"
    unused.write_bytes(b"x" * 2_000)
    other = unused.with_name("mine.txt")
    other.write_text("a file of the user")
    assert "deleted 1 file of media, 2 kB" in said(session, "gc --dry-run")
    assert unused.exists()
    assert "Freed 2 kB" in said(session, "gc")
    assert kept(trial) == used | {other.name}
    assert only(trial, "note").load() == "long"
    said(session, "rm e")
    said(session, "undo")
    assert only(Trial.read(trial.folder), "note").load() == "long"


@pytest.mark.slow
def test_gc_keeps_the_media_of_a_running_experiment(session: Session) -> None:
    folder, reached, gate = session.library.folder, threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        reached.set()
        gate.wait(60)
        nbckpt.report(loss=1.0, note=nbckpt.media.Text("long"))

    experiment = nbckpt.run(train, {}, name="e", folder=folder, executor="thread")
    assert reached.wait(60)
    # A report writes its media first; its line of the journal comes a moment later.
    media = store(folder / "e", {"note": nbckpt.media.Text("long").encode()})
    said(session, "gc")
    file = folder / "e" / "media" / f"{media['note']['digest']}.txt"
    assert file.exists()
    gate.set()
    assert experiment.wait(60)
    said(session, "gc")
    assert file.exists()


def test_gc_keeps_all_media_beside_a_strange_journal(session: Session, ran: Ran) -> None:
    trial = ran({"loss": 1.0, "note": nbckpt.media.Text("long")})
    only(trial, "note").path.with_name(f"{'ab' * 32}.wav").touch()
    line = {"type": "audio", "digest": "ab" * 32, "size": 0, "preview": {}}
    journal = Journal(trial.folder / "events.jsonl")
    journal.append({"event": "result", "result": {"training_iteration": 2}, "media": {"sound": line}})
    journal.close()
    before = kept(trial)
    said(session, "gc")
    assert kept(trial) == before
    assert len(Trial.read(trial.folder).media) == 1
    trial = ran({"loss": 1.0, "note": nbckpt.media.Text("long")}, name="f")
    before, file = kept(trial), trial.folder / "events.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"digest":"', b'"digest":"0'))
    said(session, "gc")
    assert kept(trial) == before


def test_no_link_to_other_media_is_followed(session: Session, ran: Ran, tmp_path: Path) -> None:
    trial = ran({"loss": 1.0})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{'ab' * 32}.png").touch()
    (trial.folder.parent / "media").symlink_to(outside)
    said(session, "gc")
    with pytest.raises(UsageError, match="it is a link that leads outside"):
        store(trial.folder.parent, {"note": nbckpt.media.Text("long").encode()})
    assert len(list(outside.iterdir())) == 1


def test_verify_reads_the_media(session: Session, ran: Ran) -> None:
    note = nbckpt.media.Text("long")
    trial = ran({"loss": 1.0, "note": note}, {"loss": 1.0, "note": note})
    assert "1 file of media, no damage" in said(session, "verify")
    trial.media[0].path.write_bytes(b"lung")
    result = parse(TABLE, ["verify", "e/t0"], "%ckpt").run(session)
    assert result.exit_status == 2
    assert "'note' of result 1 is not what was reported" in text(result.page())


# HTML and SVG in a sandbox; see also tests/notebook/test_hostile_browser.py.


class Attributes(HTMLParser):
    """Collects the tags of a page and their attributes, as a browser reads them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


MARKUP = (
    "</iframe><script>alert(1)</script>",
    '"></iframe><script>alert(1)</script>',
    "'><img src=x onerror=alert(1)>",
    "&quot;&gt;<script>alert(1)</script>&lt;",
    "<svg onload=alert(1)>",
    "\ttabs\nlines\r\n\x0b\u202e and \ufeff",
    "<p>" * 10_000,
)


@pytest.mark.parametrize("kind", ["Html", "Svg"])
def test_markup_is_only_the_srcdoc_of_a_sandbox(session: Session, ran: Ran, kind: str) -> None:
    pages = {f"page{number}": getattr(nbckpt.media, kind)(html) for number, html in enumerate(MARKUP)}
    ran({"loss": 1.0, **pages})
    tags = Attributes(html_of(parse(TABLE, ["show", "e/t0"], "%ckpt").run(session))).tags
    frames = [attributes for tag, attributes in tags if tag == "iframe"]
    assert [frame["sandbox"] for frame in frames] == [""] * len(MARKUP)
    assert [frame["srcdoc"] for frame in frames] == [sandboxed(html) for html in MARKUP]
    assert sandboxed("x").startswith('<!doctype html><meta http-equiv="Content-Security-Policy"')
    assert not {tag for tag, _ in tags} & {"script", "svg"}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


def test_a_large_page_is_named_and_not_shown(session: Session, ran: Ran) -> None:
    ran({"loss": 1.0, "page": nbckpt.media.Html("<p>" * 3_500_000)})
    result = parse(TABLE, ["show", "e/t0"], "%ckpt").run(session)
    assert "'page' of step 1 is too large to show here (10.5 MB)" in text(result.page())
    assert len(html_of(result)) < 100_000


def test_markup_that_would_crash_a_browser_is_not_shown(subtests: pytest.Subtests) -> None:
    for markup, is_shown in [
        ("<div>" * 100_000, False),
        ("<a><div>" * 300, False),
        ("<div><!-- </div> -->" * 600, False),
        ("<br>" * 50_001, False),
        ("<svg>" + "<g>" * 600, False),
        ("<ul>" + "<li>a" * 2_000, True),
        ("<p>a<br>" * 2_000, True),
        ("<table>" + "<tr><td>a</td></tr>" * 5_000 + "</table>", True),
    ]:
        with subtests.test(markup=markup[:40]):
            assert is_flat(markup) == is_shown


def test_names_and_captions_are_escaped(session: Session, ran: Ran) -> None:
    mark = "<b onclick=x>\u202e"
    ran({"loss": 1.0, mark: nbckpt.media.Text("long", caption=mark), "t": nbckpt.media.Table([{mark: mark}])})
    shown = parse(TABLE, ["show", "e/t0"], "%ckpt").run(session)
    assert "\u202e" not in text(shown.page()) + html_of(shown)
    assert "<b onclick" not in html_of(shown)
    odd = {"\ud800": nbckpt.media.Text("a\ud800b\0"), "html": nbckpt.media.Html("\ud800")}
    trial = ran({"loss": 1.0, **odd}, name="g")
    assert [media.load() for media in trial.media] == ["a?b\0", "?"]
    trial = ran({"loss": 1.0, **{"n" * many: nbckpt.media.Text("long") for many in (501, 500)}}, name="f")
    assert trial.results[0]["n" * 501].startswith("not kept: the limit is 500 characters for a name")
    assert only(trial, "n" * 500).load() == "long"


def test_tables_and_frames_hold_media_apart_from_numbers(session: Session, ran: Ran) -> None:
    pytest.importorskip("pandas", reason="makes frames")
    trial = ran({"loss": 1.0, "note": nbckpt.media.Text("long")}, {"loss": 0.5})
    digest = only(trial, "note").digest
    rows = list(csv.DictReader(said(session, "results e --csv").splitlines()))
    assert [row["note"] for row in rows] == [f"text:{digest}", ""]
    frame = session.library.open("e").dataframe()
    assert frame["note"][0].load() == "long"
    assert frame["note"].isna().to_list() == [False, True]
    assert trial.history["note"][0].load() == "long"
    assert "note" not in said(session, "trials e")


def test_media_are_no_metric(session: Session, ran: Ran) -> None:
    ran({"loss": 1.0, "note": nbckpt.media.Text("long")})
    for command in ("best e --mode min", "plot e", "trials e --sort best --mode min"):
        try:
            answer = said(session, f"{command} --metric note")
        except UsageError as error:
            answer = str(error)
        assert "'note' is a text, not a number" in answer, command
        assert "loss" in answer, command


def test_short_texts_are_shown_by_step(session: Session, ran: Ran) -> None:
    second = {"loss": 1.0, "note": "more words", "val": {"a": "b"}}
    ran({"loss": 1.0, "note": "first words"}, second, {"loss": 1})
    shown = [line.split() for line in said(session, "show e/t0").splitlines()]
    assert ["note", "more", "words", "2"] in shown
    assert ["val/a", "b", "2"] in shown
    assert "first words" in said(session, "show e/t0 --step 1 --name note")
    with pytest.raises(UsageError, match="t0 reported no media"):
        said(session, "show e/t0 --step 3")
    for ref in ("e", "e/t0@1", "other"):
        with pytest.raises(UsageError, match="--step and --name are for the media of a trial"):
            said(session, f"show {ref} --step 1")


def test_callbacks_and_searches_see_numbers_only(session: Session) -> None:
    seen: list[Mapping[str, Any]] = []

    class Sees(nbckpt.trials.Callback):
        def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
            assert trial.media[-1].load() == "long"
            seen.append(result)

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0, note=nbckpt.media.Text("long"))

    folder = session.library.folder
    nbckpt.run(train, {}, name="e", folder=folder, executor="inline", callbacks=[Sees()]).wait()
    assert ["loss" in result and "note" not in result for result in seen] == [True]


def test_a_full_disk_fails_the_trial_and_names_nothing(
    session: Session, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nbckpt.media.stored.write_file", full)
    trial = ran({"loss": 1.0}, {"loss": 0.5, "note": nbckpt.media.Text("long")})
    assert (trial.status, trial.iteration, trial.media) == ("ERROR", 1, [])
    assert "No space left on device" in trial.error


def test_only_the_newest_media_keep_their_previews(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "e" / "t0", {})
    (tmp_path / "e" / "t0").mkdir(parents=True)
    line = {"type": "text", "digest": "ab" * 32, "size": 3, "preview": {"text": "abc"}}
    events = Journal(trial.folder / "events.jsonl")
    for step in range(1, 1_001):
        event = {"event": "result", "result": {"training_iteration": step}, "media": {"a": line, "b": line}}
        events.append(event)
        state_of(trial).fold(event)
    events.close()
    kept = [media.step for media in trial.media if media.preview]
    assert (len(trial.media), len(kept), kept[0]) == (2_000, 200, 901)
    assert {name: media.count for name, media in state_of(trial).media.items()} == {"a": 1_000, "b": 1_000}


def test_media_of_format_1_are_read(tmp_path: Path) -> None:
    """Files that other versions wrote, as FORMAT.md describes them."""
    pytest.importorskip("blake3", reason="checks BLAKE3")
    folder = tmp_path / "e" / "t0"
    digest = "e5f974b54c614a21d7e7d67b6b9a4651854359d11817045093de2875fc85b6fe"
    media = f'{{"note":{{"type":"text","digest":"{digest}","size":4,"preview":{{"text":"long"}},"later":1}}}}'
    folder.mkdir(parents=True)
    (tmp_path / "e" / "media").mkdir()
    (tmp_path / "e" / "media" / f"{digest}.txt").write_bytes(b"long")
    result = '{"training_iteration":1,"loss":1.0}'
    (folder / "events.jsonl").write_text(f'{{"event":"result","result":{result},"media":{media}}}\n')
    (folder / "params.json").write_text("{}")
    assert only(Trial.read(folder), "note").load() == "long"


class Hostile(nbckpt.media.Text):
    """Media that a worker encodes as it likes."""

    def __init__(self, *encoded: Any) -> None:
        self.encoded = Encoded(*encoded)

    def encode(self) -> Encoded:
        return self.encoded


def test_a_hostile_table_is_no_table(session: Session, ran: Ran, subtests: pytest.Subtests) -> None:
    ragged = b'{"columns":["a"],"rows":[[1,2]]}'
    for at, table in enumerate([b"", b"3", b"{}", b'{"columns":{},"rows":{}}', ragged, b"[" * 9_000]):
        trial = ran({"loss": 1.0, "table": Hostile("table", table)}, name=f"e{at}")
        says = "'table' of result 1 is not a table"
        with subtests.test(table=table), pytest.raises(CorruptError, match=says):
            only(trial, "table").load()
        with subtests.test("shown", table=table):
            assert says in said(session, f"show e{at}/t0")


def test_a_hostile_image_is_no_image(session: Session, ran: Ran, subtests: pytest.Subtests) -> None:
    for at, png in enumerate([b"", b"GIF", SIGNATURE, SIGNATURE + b"\0\0\0\rIHDR" + b"\xff" * 20]):
        trial = ran({"loss": 1.0, "image": Hostile("image", png)}, name=f"e{at}")
        with subtests.test(png=png), pytest.raises(CorruptError, match="is not an image"):
            only(trial, "image").load()
        with subtests.test("shown", png=png):
            assert "image/png" not in html_of(parse(TABLE, ["show", f"e{at}/t0"], "%ckpt").run(session))


def test_a_tensor_with_channels_first_is_an_image() -> None:
    class Tensor:
        """As much of a tensor of torch as an image needs."""

        def __array__(self, *_: object, **__: object) -> Any:
            return numpy.moveaxis(ARRAY, 2, 0).repeat(2, 1).repeat(2, 2)

        def detach(self) -> Tensor:
            return self

        cpu = detach

    assert dimensions(nbckpt.media.Image(Tensor()).encode().data) == (8, 8)


@pytest.mark.parametrize(
    "encoded", [Encoded("image", b"", {}, "../x"), Encoded("../x", b""), Encoded("file", b"", {}, "a/b")]
)
def test_a_hostile_worker_writes_no_other_file(tmp_path: Path, encoded: Encoded) -> None:
    with pytest.raises(UsageError, match="is not media that nbckpt stores"):
        store(tmp_path, {"name": encoded})
    assert list(tmp_path.rglob("*")) == []


def test_tables_are_made_of_rows_and_columns(subtests: pytest.Subtests) -> None:
    for data, columns, rows in [
        ([], [], []),
        ([[1, None]], ["column 0", "column 1"], [[1, None]]),
        ([{"a": 1}, {"b": math.inf}], ["a", "b"], [[1, None], [None, "inf"]]),
        ({"a": [1, 2], "b": ["x"]}, ["a", "b"], [[1, "x"], [2, None]]),
        ([[numpy.int8(1), numpy.datetime64("2026-01-01"), 1 << 70]], None, [[1, "2026-01-01", str(1 << 70)]]),
    ]:
        with subtests.test(data=data):
            table = json.loads(nbckpt.media.Table(data).encode().data)
            assert table["rows"] == rows
            assert columns is None or table["columns"] == columns
    message = r"Table takes|of the table must have|not a table"
    for data in [3, "x", [1, 2], [[1], [1, 2]], [{"a": 1}, 2], {"a": 3}, None]:
        with subtests.test(data=data), pytest.raises(UsageError, match=message):
            nbckpt.media.Table(data)


@pytest.mark.parametrize("executor", ["inline", "process"])
def test_a_list_nested_too_deeply_is_said_and_left_out(
    tmp_path: Path, executor: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def train(config: dict[str, Any]) -> None:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        nbckpt.report(deep=deep, loss=1)

    experiment = nbckpt.run(train, folder=tmp_path, name="e", executor=executor)
    assert experiment.wait(100)
    trial = experiment.trial("t0")
    assert (trial.error, trial.metrics["loss"]) == ("", 1)
    assert trial.metrics["deep"] == "not kept: it is nested too deeply"
    if executor == "process":
        assert "is nested too deeply and is not kept" in "".join([*capfd.readouterr(), *trial.log()])
