"""Which panel is shown: one widget if the libraries are there, else that of core widgets."""

from __future__ import annotations

import sys
from typing import Any

import ipywidgets
import pytest

from nbckpt.notebook.panels import Panel
from notebook.conftest import Notebook


def shown(notebook: Notebook) -> Any:
    """Show the panel, and return it."""
    notebook.run("x = 1\n%ckpt save one\n%ckpt panel")
    return notebook.magics.panel


def test_the_new_panel_is_shown_where_anywidget_is(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipywidgets", minversion="8")
    pytest.importorskip("anywidget")
    from nbckpt.notebook.widget.panel import WidgetPanel

    monkeypatch.delenv("NBCKPT_PANEL")
    assert isinstance(shown(notebook), WidgetPanel)


def test_core_widgets_are_shown_where_the_widget_is_not(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(shown(notebook), Panel)  # a setting asks for it
    monkeypatch.delenv("NBCKPT_PANEL")
    with monkeypatch.context() as older:
        older.setattr(ipywidgets, "__version__", "7.8.5")
        assert isinstance(shown(notebook), Panel)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert isinstance(shown(notebook), Panel)


def test_choices_go_on_when_the_cell_is_run_again(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipywidgets", minversion="8")
    pytest.importorskip("anywidget")
    monkeypatch.delenv("NBCKPT_PANEL")
    former = shown(notebook).widget
    former.sort = {"trials": [["n", "up"]]}
    former.filter = {"history": {"find": "x", "variable": ""}}
    former.chosen = {"trials": {"tab": "settings"}}
    widget = shown(notebook).widget
    assert widget is not former
    assert widget.choices() == {"sort": former.sort, "filter": former.filter, "chosen": former.chosen}
    notebook.run("%ckpt --store other panel")
    assert notebook.magics.panel.widget.choices() == {"sort": {}, "filter": {}, "chosen": {}}
