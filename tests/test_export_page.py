"""Pages about experiments: one file for somebody without nbckpt, as HTML and as Markdown."""

from __future__ import annotations

import errno
import html.parser
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.provenance import background
from nbckpt.provenance import trial as provenance
from nbckpt.render import Column, Fold, Frame, Page, Picture, Table
from nbckpt.render.document import Section, document
from nbckpt.render.markdown import fenced, markdown, plain
from nbckpt.store import LocalStore, files
from nbckpt.tracker import Tracker

HOSTILE = "</title></style><script>alert(1)</script><img src=https://evil.example/x>|`*_[a](b)\x1b[31m"


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=2 * config["lr"])
    nbckpt.report(loss=config["lr"], story=nbckpt.media.Text(f"a story {HOSTILE}"))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session whose store has the experiment `grid` and the checkpoint `cleaned`."""
    store = LocalStore(tmp_path / "store")
    session = Session(Tracker(store), AutoMirror(store, in_background=False), {})
    space = {"lr": nbckpt.grid_search([0.3, 0.1, 0.2]), "name": HOSTILE}
    folder = session.library.folder
    nbckpt.run(train, space, name="grid", folder=folder, executor="inline", metric="loss", mode="min")
    session.tracker.save({"x": 1}, "cleaned")
    return session


def run(session: Session, *words: str) -> Any:
    return parse(TABLE, words, "%ckpt").run(session)


class Tags(html.parser.HTMLParser):
    """Collects the tags of a document, and the addresses that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "data"}]


def exported(session: Session, tmp_path: Path, ref: str = "grid", ending: str = "html") -> str:
    file = tmp_path / f"page.{ending}"
    run(session, "export", ref, str(file), "--overwrite")
    return file.read_text()


def test_the_page_of_an_experiment_has_all_parts(session: Session, tmp_path: Path) -> None:
    shown = run(session, "export", "grid", str(tmp_path / "page.html"))
    assert str(shown).startswith(f"Wrote a page about grid to {tmp_path / 'page.html'}, ")
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert headings[:4] == ["Trials", "Curves", "Parameters", "Configuration"]
    assert "Best trial by loss (min): t1" in headings
    assert "a story" in text
    assert str(tmp_path / "store") not in text
    assert len(text) < 5_000_000


def test_a_page_has_no_script_and_loads_nothing(session: Session, tmp_path: Path) -> None:
    for ref in ("grid", "grid/t0"):
        text = exported(session, tmp_path, ref)
        page = Tags(text)
        assert {"script", "link", "object", "embed", "base", "form"}.isdisjoint(page.tags)
        assert all(address.startswith(("data:", "#")) for address in page.loaded)
        assert "default-src 'none'" in text
        assert "@import" not in text
        assert "\x1b" not in text


def test_the_page_of_a_trial_has_its_curves(session: Session, tmp_path: Path) -> None:
    text = exported(session, tmp_path, "grid/t2")
    assert "<title>grid/t2</title>" in text
    assert re.findall(r"<h2[^>]*>([^<]*)</h2>", text)[:2] == ["Trial", "Curves"]


def test_markdown_escapes_what_it_would_read(session: Session, tmp_path: Path) -> None:
    text = exported(session, tmp_path, ending="md")
    outside = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert text.startswith("# grid\n")
    assert "\n## Configuration\n" in text
    assert not re.search(r"(?<!\\)<", outside)
    assert "\x1b" not in text


def test_a_page_is_not_written_over_a_file_unasked(session: Session, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(UsageError, match="use --overwrite"):
        run(session, "export", "grid", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == "mine"
    assert len(exported(session, tmp_path)) > 1000


def test_the_ending_of_the_file_chooses_what_is_written(session: Session, tmp_path: Path) -> None:
    run(session, "export", "cleaned", str(tmp_path / "cleaned.ckpt"))
    run(session, "import", str(tmp_path / "cleaned.ckpt"))
    with pytest.raises(UsageError, match="'cleaned' is neither: there are grid"):
        run(session, "export", "cleaned", str(tmp_path / "page.html"))
    with pytest.raises(UsageError, match=r"grid is an experiment. Write a page about it: %ckpt export grid"):
        run(session, "export", "grid", str(tmp_path / "grid.ckpt"))
    with pytest.raises(UsageError, match="--full is for pages"):
        run(session, "export", "cleaned", str(tmp_path / "b.ckpt"), "--full")


def test_an_experiment_without_results_has_a_page(session: Session, tmp_path: Path) -> None:
    folder = session.library.folder
    nbckpt.run(lambda config: None, name="empty", folder=folder, executor="inline", metric="loss", mode="min")
    text = exported(session, tmp_path, "empty")
    assert "no trial of &#39;empty&#39; reported &#39;loss&#39;" in text
    assert "Best trial" not in text


def test_what_has_no_room_is_left_out_and_counted() -> None:
    picture = Page("", pictures=(Picture("large", b"x" * 5000),))
    sections = [
        Section("first", Page("one")),
        Section("second", picture, lighter=Page("two")),
        Section("third", picture),
        Section("fourth", Page("four")),
    ]
    for form in ("html", "md"):
        text = document(form, "all", sections, 3000).decode()
        assert "two" in text
        assert "four" in text
        assert "third" not in text
        assert "1 section is shown without pictures and 1 section is left out, because this file" in text
        assert "third" in document(form, "all", sections, None).decode()


@pytest.mark.parametrize("form", ["html", "md"])
def test_every_text_of_a_document_is_escaped(form: Any) -> None:
    table = Table(HOSTILE, (Column(HOSTILE),), ((HOSTILE,),))
    page = Page(
        HOSTILE, (table,), (HOSTILE,), (Fold(HOSTILE, HOSTILE),), (Picture(HOSTILE, b"", caption=HOSTILE),)
    )
    frames = (Frame(HOSTILE, HOSTILE),)
    sections = [Section(HOSTILE, page), Section(HOSTILE, Page(HOSTILE, frames=frames), folded=True)]
    text = document(form, HOSTILE, sections, None).decode()
    assert "\x1b" not in re.sub(r'srcdoc="[^"]*"', "", text)  # markup in the sandbox stays as it is
    if form == "html":
        assert {"script", "link"}.isdisjoint(Tags(text).tags)
        assert all(address.startswith(("data:", "#")) for address in Tags(text).loaded)
    else:
        code = fenced(HOSTILE)
        assert not re.search(r"(?<!\\)<script", text.replace(code, ""))


def test_markdown_of_odd_texts_stays_one_line() -> None:
    assert plain("a\n# b\n\n---") == r"a \# b ---"
    assert plain("<https://x.example>") == r"\<https\://x.example\>"
    assert fenced("a\n````\nb").startswith("`````\n")
    assert markdown(Page("", code="x")).startswith("```\nx\n```")


def test_the_code_of_a_trial_is_on_the_page(session: Session, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    monkeypatch.setattr(provenance, "sources", lambda: ["x = 1", f"y = {HOSTILE!r}"])
    nbckpt.run(train, {"lr": 1}, name="code", folder=session.library.folder, executor="inline")
    background.settle()
    for ending in ("html", "md"):
        text = exported(session, tmp_path, "code", ending)
        assert "Code of t0" in text
        assert "x = 1" in text
    assert "script" not in Tags(exported(session, tmp_path, "code")).tags


def test_damaged_trials_and_missing_media_have_a_page(session: Session, tmp_path: Path) -> None:
    folder = session.library.folder / "grid"
    for file in (folder / "media").rglob("*"):
        if file.is_file():
            file.unlink()
    (folder / "t0" / "params.json").write_text("{")
    text = exported(session, tmp_path)
    assert "damaged" in text
    assert "Best trial by loss (min): t1" in text


def test_without_matplotlib_the_page_says_what_is_missing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "plots need matplotlib" in exported(session, tmp_path)


def test_a_disk_that_is_full_leaves_the_older_page(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(session, tmp_path)
    before = (tmp_path / "page.html").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(StoreError, match="No space left"):
        exported(session, tmp_path)
    assert (tmp_path / "page.html").read_bytes() == before


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_page_shows_the_notes_and_tags_of_every_trial(
    session: Session, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbckpt.trials.views.report.MOST_TRIALS", 0)
    run(session, "note", "grid/t0", "slow but steady")
    run(session, "tag", "grid/t2", "good")
    text = exported(session, tmp_path, ending=ending)
    assert all(said in text for said in ("slow but steady", "good"))
