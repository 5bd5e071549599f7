"""The end of the process at a chosen moment, for tests of what a restart makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from nbckpt.trials.model.journal import Journal


class Killed(BaseException):
    """The end of the process, for a test."""


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int) -> list[int]:
    """End everything at a call of a function, and write no event after it. Return a count of the calls."""
    calls, function, append = [0], getattr(owner, name), Journal.append

    def dies(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] >= number:
            raise Killed
        return function(*args, **kwargs)

    def appends(self: Journal, event: Any, *, durable: bool = False) -> None:
        if calls[0] >= number:
            raise Killed
        append(self, event, durable=durable)

    if (owner, name) != (Journal, "append"):
        monkeypatch.setattr(Journal, "append", appends)
    monkeypatch.setattr(owner, name, dies)
    return calls
