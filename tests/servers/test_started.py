from __future__ import annotations

import sys

import pytest

from servers.started import program, started


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)], ids=["CI", "elsewhere"]
)
def test_a_missing_server_fails_in_ci_and_skips_elsewhere(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-server is not installed: ask for it"):
        program("no-such-server", "ask for it")


def test_a_server_that_ends_too_early_fails_with_its_output() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="the port is taken"),
        started([sys.executable, "-c", "print('the port is taken')"], "ready"),
    ):
        pass
