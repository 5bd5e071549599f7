"""Results as text and as HTML."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from nbckpt.commands import TABLE
from nbckpt.commands.housekeeping import Tagged
from nbckpt.core.references import Ref
from nbckpt.render import Cell, Column, Fold, Page, Picture, Table, short
from nbckpt.render.html import html
from nbckpt.render.markdown import markdown
from nbckpt.render.text import text

HOSTILE = "<img src=x onerror=alert(1)>"


class Everything(Tagged):
    """A result that says something hostile in every place where something can be said."""

    def page(self) -> Page:
        table = Table(
            HOSTILE, (Column(HOSTILE), Column("b", number=True)), ((Cell(HOSTILE, HOSTILE), HOSTILE),)
        )
        picture = (Picture(f'"{HOSTILE}', b"png"),)
        return Page(HOSTILE, (table,), (HOSTILE,), (Fold(HOSTILE, HOSTILE),), picture, HOSTILE, HOSTILE)


def everything() -> Everything:
    return Everything(Ref(1, "a" * 64, HOSTILE, ""))


def test_hostile_text_is_escaped_in_html() -> None:
    shown = everything()._repr_mimebundle_()["text/html"]
    assert "<img src=x" not in shown
    assert shown.count("&lt;img src=x onerror=alert(1)&gt;") >= 9


def test_the_html_survives_in_an_untrusted_notebook() -> None:
    shown = everything()._repr_mimebundle_()["text/html"]
    assert not re.search(r"<(style|script|svg|link|iframe)\b", shown)
    assert "var(--" not in shown
    assert "<caption" in shown
    assert 'scope="col"' in shown
    assert 'scope="row"' in shown
    assert 'src="data:image/png;base64,' in shown


def test_the_text_has_no_control_characters() -> None:
    assert text(Page("bell \x07 and escape \x1b[31m")) == r"bell \x07 and escape \x1b[31m"


def test_a_result_offers_both_forms() -> None:
    bundle = everything()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == repr(everything())


def test_a_users_template_renders_its_class_and_subclasses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tagged.html.j2").write_text("<b>{{ result.ref.name }}</b>")
    monkeypatch.setenv("NBCKPT_TEMPLATES", str(tmp_path))
    for kind in (Tagged, Everything):
        shown = kind(Ref(1, "a" * 64, "mine & yours", ""))._repr_mimebundle_()
        assert shown["text/html"] == "<b>mine &amp; yours</b>"
    (tmp_path / "everything.html.j2").write_text("narrower")
    assert everything()._repr_mimebundle_()["text/html"] == "narrower"


def test_a_users_template_may_override_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "{% extends '_page.html.j2' %}{% block headline %}<h4>mine</h4>{% endblock %}"
    (tmp_path / "everything.html.j2").write_text(own)
    monkeypatch.setenv("NBCKPT_TEMPLATES", str(tmp_path))
    shown = everything()._repr_mimebundle_()["text/html"]
    assert "<h4>mine</h4>" in shown
    assert "<table" in shown


def test_every_command_has_help_and_so_has_every_option() -> None:
    assert [command.name for command in TABLE.values() if not command.help.endswith(".")] == []
    assert [option.flags for command in TABLE.values() for option in command.options if not option.help] == []


def test_the_list_of_commands_cuts_no_help() -> None:
    assert [command.help for command in TABLE.values() if short(command.help) != command.help] == []


@pytest.mark.parametrize("width", [40, 60, 200])
def test_tables_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = tuple(Column(name, number=name == "size") for name in ("checkpoint", "size", "message"))
    rows = tuple((f"name@{at}", "12.3 MB", "a message of several words " * 2) for at in range(3))
    page = Page("A headline", (Table("rows", columns, rows),))
    plain = text(page)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = text(page)
    assert max(map(len, shown.splitlines())) <= width
    assert (shown == plain) == (width == 200)


def test_a_table_with_wide_characters_is_aligned() -> None:
    columns = (Column("name"), Column("size", number=True), Column("of"))
    rows = (("a", "10", "x"), ("日本", "9", ""), ("é", Cell("-", course=(1.0, 2.0)), "y"))
    assert text(Page("", (Table("t", columns, rows),))).splitlines()[2:] == [
        "name      size  of",
        "------  ------  ----",
        "a           10  x",
        "日本         9",
        "é         ▁█ -  y",
    ]


def test_a_row_of_one_cell_is_a_heading() -> None:
    rows = (("a", "1"), ("<part>",), ("b", "2"))
    page = Page("", (Table("t", (Column("name"), Column("size")), rows),))
    lines = ["name     size", "-------  ------", "a        1", "", "<part>:", "b        2"]
    assert text(page).splitlines()[2:] == lines
    assert markdown(page).splitlines()[2:] == [
        "| name | size |",
        "| --- | --- |",
        "| a | 1 |",
        r"| *\<part\>* |  |",
        "| b | 2 |",
    ]
    heading = re.search(r"<th [^>]*colspan=\"2\"[^>]*>&lt;part&gt;</th>", html(["_page.html.j2"], None, page))
    assert heading is not None
