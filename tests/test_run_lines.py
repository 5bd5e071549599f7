"""The commands that the panel offers for the functions of a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbckpt
from nbckpt.commands import Session
from nbckpt.commands.run_lines import run_lines
from nbckpt.mirror import AutoMirror


def train(config: dict[str, Any]) -> None:
    nbckpt.report(loss=config["lr"] * config["width"] + config["not a name"])


def helper(text: str) -> str:
    return text


def two(one: int, other: int) -> None:
    nbckpt.report(loss=one + other)


def lines(tmp_path: Path, **names: Any) -> list[str]:
    tracker = nbckpt.Tracker(tmp_path / "store")
    return run_lines(Session(tracker, AutoMirror(tracker.store, in_background=False), names))


def test_functions_that_report_come_with_their_settings(tmp_path: Path) -> None:
    names = {"train": train, "helper": helper, "two": two, "_own": train, "x": 1, "run": nbckpt.run}
    assert lines(tmp_path, **names) == ["%ckpt run train --grid lr=0.1,0.01 width=1"]


def test_without_one_that_reports_the_notebooks_own_are_offered(tmp_path: Path) -> None:
    names = {"helper": helper, "two": two, "path": Path.home, "dedent": __import__("textwrap").dedent}
    assert lines(tmp_path, **names, __name__=__name__) == ["%ckpt run helper --grid lr=0.1,0.01"]


def test_a_function_without_source_has_an_example(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    exec("def made(config):\n    nbckpt.report(loss=config['rate'])", made)
    assert lines(tmp_path, made=made["made"]) == ["%ckpt run made --grid lr=0.1,0.01"]
