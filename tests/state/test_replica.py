"""Which replica this is: what the environment says, in the order of the table in the module's docstring."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from nbckpt import UsageError
from nbckpt.states import replica


def cells_of(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")]


ROWS = [cells_of(line) for line in (replica.__doc__ or "").splitlines() if line.startswith("| `")]
CALLS: dict[str, Callable[[], Any]] = {row[0]: getattr(replica, row[0].removesuffix("()")) for row in ROWS}
ORDER = [(row[0], [name for name in row[1:4] if name]) for row in ROWS]
NUMBERS = [row for row in ORDER if row[0] != "checkpoint_path()"]


@pytest.fixture(autouse=True)
def enough_replicas(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let there be more replicas than a rank that is read."""
    if "rank()" in request.node.name:
        monkeypatch.setenv("NBCKPT_NUM_REPLICAS", "100")


def test_the_table_has_a_row_for_every_function() -> None:
    assert [*CALLS] == ["rank()", "count()", "restarts()", "checkpoint_path()"]
    assert [len(names) for _, names in ORDER] == [3, 3, 3, 2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_without_variables_each_function_has_its_default(
    row: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBCKPT_NUM_REPLICAS", raising=False)
    assert str(CALLS[row[0]]()) == row[4]


@pytest.mark.parametrize(("call", "names"), ORDER, ids=[call for call, _ in ORDER])
def test_the_first_variable_of_the_table_that_is_set_counts(
    call: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, name in enumerate(reversed(names), 5):
        monkeypatch.setenv(name, str(value))
        assert str(CALLS[call]()) == str(value)
    for name, then in pairwise(names):
        monkeypatch.setenv(name, "")
        value = 5 + names[::-1].index(then)
        assert str(CALLS[call]()) == str(value)


def test_every_call_reads_the_environment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("3", "4", "5"):
        monkeypatch.setenv("WORLD_SIZE", value)
        monkeypatch.setenv("ADAPTDL_CHECKPOINT_PATH", f"/job/{value}")
        assert (replica.count(), replica.checkpoint_path()) == (int(value), Path("/job") / value)


def test_an_invalid_number_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    values = ("-1", "1.0", "one", "0x1", "1_0", "\u0663", "1 2", "9" * 5000, "nan")
    for (call, names), value in product(NUMBERS, values):
        for name in names:
            wrong = re.escape(f"{name}={value!r} in the environment is not a whole number")
            with subtests.test(f"{name}={value[:9]}"), monkeypatch.context() as patch:
                patch.setenv(name, value)
                with pytest.raises(UsageError, match=wrong):
                    CALLS[call]()


def test_a_number_may_have_space_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("7", " 7 ", "007", "7\n"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", value)
        assert replica.restarts() == 7


def test_a_rank_is_below_the_number_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(UsageError, match="RANK=2, but there are 1 replicas"):
        replica.rank()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="RANK=2, but there are 2 replicas: ranks are below their number"):
        replica.rank()
    monkeypatch.setenv("NBCKPT_NUM_REPLICAS", "3")
    assert replica.rank() == 2


def test_there_is_one_replica_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTDL_NUM_REPLICAS", "0")
    with pytest.raises(UsageError, match="ADAPTDL_NUM_REPLICAS=0: a job has one replica at least"):
        replica.count()
