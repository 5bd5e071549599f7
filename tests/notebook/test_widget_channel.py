"""The kernel's end of the panel: what it answers, what it refuses, and how little it sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from nbckpt.errors import UsageError
from nbckpt.notebook.widget.channel import Channel
from nbckpt.notebook.widget.messages import Follow, Ping, Question, message_of

NOT_MESSAGES = [
    None,
    [],
    "ping",
    {},
    {"kind": "ping"},
    {"kind": "ping", "n": True},
    {"kind": "ping", "n": 1 << 60},
    {"kind": "ping", "n": 1, "view": 3},
    {"kind": "ping", "n": 1, "pane": ["trials"]},
    {"kind": "follow"},
    {"kind": "follow", "pane": 3},
    {"kind": "follow", "pane": None, "view": ["a"]},
    {"kind": "follow", "pane": "trials", "experiment": ["x"]},
    {"kind": "act", "n": 1, "verb": "x" * 2000},
    {"kind": "act", "n": "1", "verb": "pause"},
    {"kind": "act", "n": 1, "verb": "pause", "ids": "t0"},
    {"kind": "act", "n": 1, "verb": "pause", "ids": [1]},
    {"kind": "act", "n": 1, "verb": "pause", "ids": ["t0"] * 30_000},
    {"kind": "act", "n": 1, "verb": "pause", "options": [1]},
    {"kind": "act", "n": 1, "verb": "pause", "options": {"dry": {"deep": 1}}},
    {"kind": "act", "n": 1, "verb": "note", "options": {"text": "x" * 200_000}},
    {"kind": "detail", "n": 1, "of": None},
]


class Commands:
    busy = False

    def session(self) -> Any:
        raise AssertionError

    def run(self, *words: str, progress: Any = None) -> Any:
        raise AssertionError

    def is_busy(self) -> bool:
        return self.busy


class FakeWire:
    """A wire whose data the test sets."""

    OF: ClassVar[frozenset[str]] = frozenset({"trial"})
    VERBS: ClassVar[frozenset[str]] = frozenset({"pause", "restore", "undo"})
    NEEDS_VARIABLES: ClassVar[frozenset[str]] = frozenset({"restore"})
    SLOW: ClassVar[frozenset[str]] = frozenset({"pause"})

    def __init__(self, name: str = "trials") -> None:
        self.name = name
        self.news: list[Any] = []
        self.renewed = 0
        self.count = ""
        self.acts: list[tuple[Any, ...]] = []

    def full(self) -> Iterator[dict[str, Any]]:
        yield {"kind": self.name, "rows": [], "buffers": [b"12"]}

    def changes(self) -> Iterator[dict[str, Any]]:
        news, self.news = self.news, []
        for message in news:
            if isinstance(message, Exception):
                raise message
            yield message

    def tab(self) -> str:
        return self.count

    def token(self) -> object:
        return self.count

    def renew(self) -> None:
        self.renewed += 1

    def detail(self, of: str, ids: Sequence[str], options: Any) -> dict[str, Any]:
        return {"html": f"{of} {ids}", "data": {}}

    def act(self, verb: str, ids: Sequence[str], options: Any) -> dict[str, Any]:
        self.acts.append((verb, tuple(ids)))
        if verb == "undo":
            raise UsageError("nothing to undo. See %ckpt ls.")
        if "bad" in ids:
            raise ZeroDivisionError("by <b>")
        return {"ok": True, "text": "done", "undo": False, "html": "", "confirm": ""}


class Ends:
    """A channel whose thread does not start, its panes, and what it sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trials, self.history, self.sync = FakeWire("trials"), FakeWire("history"), FakeWire("sync")
        self.sent: list[tuple[dict[str, Any], Sequence[bytes]]] = []
        self.commands, self.now = Commands(), 0.0
        self.started: list[threading.Thread] = []
        monkeypatch.setattr("nbckpt.notebook.widget.channel.starts", self._starts)
        self.channel = Channel(
            self.commands,
            lambda message, buffers: self.sent.append((message, buffers)),
            {wire.name: wire for wire in (self.trials, self.sync, self.history)},
            clock=lambda: self.now,
        )

    def _starts(self, thread: threading.Thread) -> bool:
        self.started.append(thread)
        return True

    def ask(self, **content: Any) -> dict[str, Any]:
        self.sent.clear()
        self.channel.hear(content)
        return self.sent[0][0]

    def follow(self, pane: str | None = "trials", **more: Any) -> None:
        self.channel.hear({"kind": "follow", "pane": pane, **more})

    def steps(self, most: int) -> list[bool]:
        return [self.channel.step() for _ in range(most)]

    def kinds(self) -> list[str]:
        return [message["kind"] for message, _ in self.sent]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    return Ends(monkeypatch)


def test_what_is_not_a_message_is_refused(ends: Ends, subtests: pytest.Subtests) -> None:
    for content in NOT_MESSAGES:
        with subtests.test(str(content)[:80]):
            assert message_of(content) is None
            ends.sent.clear()
            ends.channel.hear(content)
            assert ends.kinds() == ["said"]
            assert ends.trials.acts == []


def test_messages_of_the_browser_are_read() -> None:
    assert message_of({"kind": "ping", "n": 3}) == Ping(3)
    assert message_of({"kind": "ping", "n": 3, "view": "a", "pane": "trials"}) == Ping(3, "a", "trials")
    assert message_of({"kind": "follow", "pane": None}) == Follow(None)
    follow = {"kind": "follow", "pane": "trials", "experiment": "a", "metric": None}
    assert message_of(follow) == Follow("trials", "a", "")
    again = follow | {"view": "b", "fresh": False}
    assert message_of(again) == Follow("trials", "a", "", "b", is_fresh=False)
    act = {"kind": "act", "n": 1, "verb": "pause", "ids": ["t0"], "options": {"dry": True}, "pane": "trials"}
    assert message_of(act) == Question(1, "pause", True, ("t0",), {"dry": True}, "trials")


def test_a_ping_is_answered_with_its_number_and_the_time(ends: Ends) -> None:
    pong = ends.ask(kind="ping", n=7)
    assert (pong["kind"], pong["n"], pong["busy"]) == ("pong", 7, False)
    assert isinstance(pong["time"], float)


def test_a_followed_pane_is_sent_in_full_with_its_bytes(ends: Ends) -> None:
    ends.follow()
    assert ends.sent == [({"kind": "trials", "rows": []}, [b"12"])]


def test_errors_of_a_deed_become_sentences_without_commands(ends: Ends) -> None:
    answer = ends.ask(kind="act", n=1, verb="undo")
    assert (answer["ok"], answer["text"]) == (False, "Nothing to undo.")
    answer = ends.ask(kind="act", n=2, verb="pause", ids=["bad"])
    assert (answer["n"], answer["ok"], answer["text"]) == (2, False, "ZeroDivisionError: by <b>")
    assert ends.ask(kind="act", n=3, verb="format")["ok"] is False


def test_a_deed_on_variables_waits_for_the_cell(ends: Ends) -> None:
    ends.commands.busy = True
    answer = ends.ask(kind="act", n=1, verb="restore", ids=["t0"])
    assert (answer["ok"], answer["busy"], ends.trials.acts) == (False, True, [])
    assert ends.ask(kind="act", n=2, verb="pause", ids=["t0"])["ok"] is True
    ends.commands.busy = False
    assert ends.ask(kind="act", n=3, verb="restore", ids=["t0"])["ok"] is True


def test_a_verb_of_two_panes_goes_to_the_one_in_front(ends: Ends) -> None:
    ends.ask(kind="act", n=1, verb="pause", pane="history")
    ends.follow("history")
    ends.ask(kind="act", n=2, verb="pause", ids=["x"])
    ends.ask(kind="act", n=3, verb="pause", pane="trials")
    assert ends.history.acts == [("pause", ()), ("pause", ("x",))]
    assert ends.trials.acts == [("pause", ())]


def test_only_a_deed_that_is_done_makes_all_panes_look_again(ends: Ends) -> None:
    ends.ask(kind="act", n=1, verb="pause", options={"dry": True})
    assert (ends.trials.renewed, ends.history.renewed) == (0, 0)
    ends.ask(kind="act", n=1, verb="pause")
    assert (ends.trials.renewed, ends.history.renewed) == (1, 1)


def test_one_step_sends_one_message(ends: Ends) -> None:
    ends.follow()
    ends.sent.clear()
    ends.trials.news = [{"kind": "trials", "at": at} for at in range(3)]
    assert ends.steps(4) == [True, True, True, False]
    assert [message["at"] for message, _ in ends.sent] == [0, 1, 2]


def test_an_error_in_the_background_is_said_once(ends: Ends) -> None:
    ends.follow()
    ends.sent.clear()
    for _ in range(3):
        ends.trials.news = [OSError("disk")]
        ends.channel.step()
    assert [message["text"] for message, _ in ends.sent] == ["OSError: disk"]


def test_nothing_is_pushed_while_nobody_looks(ends: Ends) -> None:
    ends.channel.renew()
    ends.channel.hear({"kind": "ping", "n": 1})
    assert ends.started == []
    ends.follow()
    assert len(ends.started) == 1
    ends.channel.renew()
    assert len(ends.started) == 1
    ends.now = 60.0
    ends.started[0].run()  # it ends, because the browser was last heard a minute ago
    ends.channel.renew()
    assert len(ends.started) == 1
    ends.channel.hear({"kind": "ping", "n": 2})
    assert len(ends.started) == 1  # a view in which the panel is hidden
    ends.channel.hear({"kind": "ping", "n": 3, "pane": "trials"})
    assert len(ends.started) == 2


def test_a_view_out_of_sight_leaves_the_other_live(ends: Ends) -> None:
    ends.follow("trials", view="a")
    ends.follow("history", view="b")
    ends.sent.clear()
    ends.trials.news, ends.history.news = [{"kind": "trials"}], [{"kind": "history"}]
    assert ends.steps(3) == [True, True, False]
    assert ends.kinds() == ["trials", "history"]
    ends.follow(None, view="b")
    assert ends.channel.is_watched()
    ends.trials.news, ends.history.news = [{"kind": "trials"}], [{"kind": "history"}]
    assert ends.steps(2) == [True, False]
    ends.follow(None, view="a")
    assert not ends.channel.is_watched()


def test_a_view_that_is_silent_is_forgotten_alone(ends: Ends) -> None:
    ends.follow("trials", view="a")
    ends.follow("history", view="b")
    ends.now = 29.0
    ends.channel.hear({"kind": "ping", "n": 1, "view": "b", "pane": "history"})
    ends.now = 31.0
    ends.sent.clear()
    ends.trials.news, ends.history.news = [{"kind": "trials"}], [{"kind": "history"}]
    assert ends.steps(2) == [True, False]
    assert ends.kinds() == ["history"]


def test_a_pane_that_comes_back_is_sent_only_if_it_changed(ends: Ends) -> None:
    ends.trials.count = "60"
    ends.follow("trials", view="a")
    ends.follow("history", view="a")
    while ends.channel.step():
        pass
    ends.sent.clear()
    ends.follow(None, view="a")
    ends.follow("trials", view="a", fresh=False)
    assert (ends.channel.step(), ends.sent, ends.trials.renewed) == (False, [], 1)
    ends.trials.news = [{"kind": "trials", "at": 1}]
    ends.follow("trials", view="a", fresh=False)
    assert [message for message, _ in ends.sent] == [{"kind": "trials", "at": 1}]
    ends.follow("trials", view="b")
    assert [message for message, _ in ends.sent[1:]] == [{"kind": "trials", "rows": []}]


def test_a_pane_that_failed_is_sent_in_full_again(ends: Ends) -> None:
    whole, ends.trials.full = ends.trials.full, lambda: iter([][1])  # type: ignore[method-assign]
    ends.follow("trials", view="a")
    ends.trials.full = whole  # type: ignore[method-assign]
    ends.sent.clear()
    ends.follow("trials", view="a", fresh=False)
    assert [message for message, _ in ends.sent] == [{"kind": "trials", "rows": []}]


def test_without_threads_changes_come_with_the_answers(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbckpt.notebook.widget.channel.starts", lambda _: False)
    ends.follow()
    ends.trials.news = [{"kind": "trials", "at": 1}]
    ends.sent.clear()
    ends.channel.hear({"kind": "ping", "n": 1, "pane": "trials"})
    assert ends.kinds() == ["pong", "trials"]


def test_a_closed_channel_sends_nothing_and_has_no_thread() -> None:
    sent: list[Any] = []
    wire = FakeWire()
    channel = Channel(Commands(), lambda message, _: sent.append(message), {"trials": wire})
    channel.hear({"kind": "follow", "pane": "trials"})
    channel.close()
    assert "nbckpt-panel" not in [thread.name for thread in threading.enumerate()]
    sent.clear()
    channel.hear({"kind": "ping", "n": 1})
    channel.renew()
    assert sent == []


def test_a_failed_sync_is_told_whichever_pane_is_in_front(ends: Ends) -> None:
    ends.follow()
    for wire in (ends.trials, ends.sync, ends.history):
        wire.news = [{"kind": wire.name}]
    ends.sent.clear()
    assert ends.steps(3) == [True, True, False]
    assert ends.kinds() == ["trials", "sync"]


def test_a_slow_deed_lets_the_thread_hear_its_cancellation(ends: Ends) -> None:
    hear = threading.Thread(target=ends.channel.hear, args=({"kind": "act", "n": 5, "verb": "pause"},))
    hear.start()
    hear.join()
    (worker,) = [thread for thread in ends.started if thread.name == "nbckpt-deed"]
    assert ends.trials.acts == []
    worker.run()
    assert ends.trials.acts == [("pause", ())]
    assert [message["n"] for message, _ in ends.sent if message["kind"] == "answer"] == [5]


def test_the_main_thread_does_a_slow_deed_itself(ends: Ends) -> None:
    assert ends.ask(kind="act", n=6, verb="pause")["ok"]
    assert "nbckpt-deed" not in {thread.name for thread in ends.started}


def test_tabs_tell_their_numbers_once_until_they_change(ends: Ends) -> None:
    ends.trials.count, ends.history.count = "60", ""
    ends.follow()

    def tabs() -> list[Any]:
        while ends.channel.step():
            pass
        return [message for message, _ in ends.sent if message["kind"] == "tabs"]

    assert tabs() == [{"kind": "tabs", "trials": "60"}]
    ends.channel.renew()
    assert len(tabs()) == 1
    ends.history.count = "7"
    ends.channel.renew()
    assert tabs()[1:] == [{"kind": "tabs", "trials": "60", "history": "7"}]
