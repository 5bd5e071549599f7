"""What Python gives back reads in a line: no bytes, no lists without an end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import command_lines
from test_json import ENDED, LINES
from test_json import session as session

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.mirror import Mirror
from notebook import conftest
from notebook.conftest import Notebook

notebook = conftest.notebook

LONGEST = 200
LONGEST_PAGE, LONGEST_LINE, MOST_LINES = 3000, 250, 60
MANY = command_lines("""
ls many, ls --newest, ls --find many, trials big, show big, show many@1, results big
diff many@1 many@2, plot big, rm big, undo, gc --dry-run, rm many --older, status, undo
""")


def answers(folder: Path) -> dict[str, Any]:
    """Return what the public methods give back over a store with many variables."""
    tracker = nbckpt.Tracker(folder / "store")
    random = np.random.default_rng(0)
    names = {f"v{at}": random.bytes(900) for at in range(100)}
    saved = tracker.save(dict(names), "a")
    less = tracker.save(names | {"x": 1, "g": (i for i in ())}, "b")
    results = {
        "save": saved,
        "save with one left out": less,
        "manifest": tracker.manifest("a"),
        "restore": tracker.restore("a", {}),
        "dry run": tracker.restore("a", dict(names), dry_run=True),
        "diff": tracker.diff("a", "b"),
        "verify": tracker.verify(),
        "entry": tracker.entries()[0],
        "ref": tracker.tag("a", "c"),
        "mirror": Mirror(tracker.store, folder / "experiments", str(folder / "there")).push(),
        "removed": tracker.remove(["b"]),
        "collect": tracker.collect(),
    }
    tracker.export("a", folder / "file.zip")
    return results | {"import": nbckpt.Tracker(folder / "other").import_file(folder / "file.zip")}


def test_results_of_a_tracker_have_a_one_line_repr(tmp_path: Path) -> None:
    said = {name: repr(value) for name, value in answers(tmp_path).items()}
    assert {name: text for name, text in said.items() if len(text) > LONGEST or "\\x" in text} == {}
    assert said["restore"].endswith(", 100 new)")
    assert said["diff"].endswith(", 1 added, 100 same)")
    assert said["save with one left out"].endswith(", 1 left out)")


@pytest.mark.slow
def test_results_of_commands_stay_short_with_many_checkpoints(session: Session) -> None:
    """Help on all commands is the longest text. What `show` says of packages depends on this machine."""
    for at in range(60):
        session.tracker.save({"x": at}, "many")
    grid = {"lr": nbckpt.grid_search([float(lr) for lr in range(40)])}
    nbckpt.run(once, grid, name="big", executor="inline", folder=session.library.folder)
    long = {}
    for line in [*LINES, *MANY]:
        if line.split()[0] not in ENDED:
            text = repr(parse(TABLE, line.split(), "%ckpt").run(session))
            text = re.sub(r"\n\d+ packages:\n.*", "", text)
            longest = max(map(len, text.splitlines()))
            if len(text) > LONGEST_PAGE or longest > LONGEST_LINE or text.count("\n") >= MOST_LINES:
                long[line] = text
    assert list(long) == [], long


def once(config: dict[str, Any]) -> None:
    nbckpt.report(loss=config["lr"], checkpoint={"step": 1})


def test_the_cell_that_snippet_makes_prints_a_line(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("import numpy\nvalues = [numpy.random.bytes(900) for _ in range(50)]\n%ckpt save n")
    code = notebook.run("%ckpt snippet n").code
    capsys.readouterr()
    notebook.run(code)
    assert "Restored(" in capsys.readouterr().out
    assert len(repr(notebook.names["_"])) < LONGEST
