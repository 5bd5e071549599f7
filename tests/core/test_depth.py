"""Deeply nested objects are saved, or named. They never overflow the stack, which would kill the kernel."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nbckpt import Tracker
from nbckpt.core.depth import bounded, deeply
from nbckpt.store import MemoryStore

KINDS = {
    "linked instances": "Node(deep)",
    "lists": "[deep]",
    "dicts": "{'in': deep}",
    "closures": "(lambda inner: lambda: inner)(deep)",
    "instances that pickle their parts": "Packed(deep)",
    "instances with a recursive repr": "Shown(deep)",
}
PROGRAM = """
import os, pickle, sys, nbckpt
class Node:
    def __init__(self, after): self.after = after
class Shown(Node):
    def __repr__(self): return f"Shown({self.after!r})"
    def __eq__(self, other): return type(other) is Shown and self.after == other.after
class Packed(Node):
    def __reduce__(self): return unpack, (pickle.dumps(self.after),)
def unpack(data): return Packed(pickle.loads(data))
sys.setrecursionlimit(10**6)
deep = None
for _ in range(COUNT): deep = KIND
values, new = {"deep": deep, "box": [1, {"deep": deep}], "n": 5}, {}
tracker = nbckpt.Tracker(nbckpt.store.MemoryStore())
skipped = tracker.save(values, "deep").manifest.skipped
tracker.diff("deep", "", values)
tracker.restore("deep", new)
print(sorted(new), [(skip.path, skip.reason) for skip in skipped], sys.getrecursionlimit())
sys.stdout.flush()
os._exit(0)  # Python itself overflows the stack when it frees deep closures
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_recursion_limit_kills_no_kernel(kind: str, tmp_path: Path) -> None:
    count = 2000 if kind == "instances that pickle their parts" else 30_000
    program = PROGRAM.replace("KIND", KINDS[kind]).replace("COUNT", str(count))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" 1000000\n")
    is_saved = done.stdout.startswith("['box', 'deep', 'n'] [] ")
    is_named = done.stdout.startswith("['n'] [('deep: ") and "it is nested too deeply" in done.stdout
    assert is_saved or (is_named and (3, 12) <= sys.version_info < (3, 14))


def nested(depth: int) -> Any:
    value = None
    for _ in range(depth):
        value = [value]
    return value


def test_a_deep_object_is_named_and_the_rest_is_saved() -> None:
    values = {"box": {"flat": [1], "deep": nested(20_000)}, "n": 5}
    manifest = Tracker(MemoryStore()).save(values, "a").manifest
    assert [skip.path for skip in manifest.skipped] == ["box['deep']: list"]
    assert "it is nested too deeply" in manifest.skipped[0].reason
    assert manifest.find("n")


@pytest.fixture
def raised_limit() -> Any:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("raised_limit")
def test_bounds_end_with_the_last_block() -> None:
    first, second = bounded(), bounded()
    with first:
        with second:
            inner = sys.getrecursionlimit()
        assert sys.getrecursionlimit() >= inner
    assert inner < 10**6 or sys.version_info >= (3, 12)
    assert sys.getrecursionlimit() == 10**6


@pytest.mark.usefixtures("raised_limit")
def test_other_errors_are_not_tried_again() -> None:
    calls: list[None] = []

    def fail() -> None:
        calls.append(None)
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        deeply(fail)
    assert len(calls) == 1


@pytest.mark.usefixtures("raised_limit")
@pytest.mark.skipif((3, 12) <= sys.version_info < (3, 14), reason="a fixed limit for C code")
def test_deep_work_runs_again_on_a_larger_stack() -> None:
    stacks: list[threading.Thread] = []

    def pickle_it() -> int:
        stacks.append(threading.current_thread())
        if len(stacks) == 1:
            raise RecursionError
        return 5

    assert deeply(pickle_it) == 5
    assert stacks[0] is threading.current_thread() is not stacks[1]
