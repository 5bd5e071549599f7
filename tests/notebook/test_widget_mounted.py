"""The widget of the panel: small in the notebook, never displayed, and gone when it is closed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager

from nbckpt._private_apis import free_comm
from notebook.conftest import Notebook

ipywidgets = pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.notebook.widget import parts  # noqa: E402
from nbckpt.notebook.widget.mounted import Mounted  # noqa: E402
from nbckpt.notebook.widget.parts import front_parts  # noqa: E402
from nbckpt.notebook.widget.place import Place  # noqa: E402

LARGEST_LOADER = 2_000


class Heard(Mounted):
    """A widget that keeps what it sends, and what it hears."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any]] = []
        self.heard: list[Any] = []
        super().__init__(lambda content, _: self.heard.append(content), "a-place")

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append((content, buffers))


def test_the_loader_is_small_and_the_state_has_no_modules() -> None:
    widget = Heard()
    state = widget.get_state()
    assert len(state["_esm"].encode()) <= LARGEST_LOADER
    assert len(str(state)) < 2_000
    widget.close()


def test_a_part_names_the_modules_that_the_panel_loads() -> None:
    names = json.loads(front_parts()["names.json"])
    ours = {name.removesuffix(".js") for name in front_parts() if name.endswith(".js") and "/" not in name}
    assert set(names) == ours - {"mount", "panel"}


def test_another_part_gives_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts.version.__wrapped__()
    changed = dict(front_parts(), **{"mount.js": b"changed"})
    monkeypatch.setattr(parts, "front_parts", lambda: changed)
    assert parts.version.__wrapped__() != before == parts.version()


def test_parts_are_sent_by_their_names_only() -> None:
    widget = Heard()
    for name in ("mount.js", "loader.js", "../mounted.py", 3, None):
        data = {"method": "custom", "content": {"kind": "part", "name": name}}
        widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
    assert widget.sent == [({"kind": "part", "name": "mount.js"}, [front_parts()["mount.js"]])]
    assert len(widget.heard) == 4
    widget.close()


def test_only_html_with_a_place_is_shown(notebook: Notebook, published: list[dict[str, Any]]) -> None:
    place = Place()
    published.clear()
    place.show()
    (output,) = published
    assert list(output["data"]) == ["text/html"]
    assert f'data-nbckpt-place="{place.name}"' in output["data"]["text/html"]
    assert "Run this cell again for the buttons." in output["data"]["text/html"]


def test_a_hundred_closed_widgets_leave_nothing() -> None:
    before = {*get_comm_manager().comms}
    for _ in range(100):
        Heard().close()
    assert {*get_comm_manager().comms} == before
    widget = Heard()
    widget.close()
    widget.close()  # closing again is allowed


def test_the_front_end_chooses_the_thread_of_the_next_message() -> None:
    comm = SimpleNamespace(_reply_subshell_id="a")
    free_comm(comm)
    assert vars(comm) == {}
    free_comm(comm)
    free_comm(None)


def test_each_message_lets_the_front_end_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    widget = Mounted(lambda *_: None, "a-place")
    for send in (lambda: widget.send({"kind": "said"}), lambda: setattr(widget, "pane", "trials")):
        widget.comm._reply_subshell_id = "of-a-cell"
        send()
        assert not hasattr(widget.comm, "_reply_subshell_id")
    widget.close()
