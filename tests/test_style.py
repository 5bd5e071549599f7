"""The bounds that keep the code easy to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from syntax import nodes, syntax

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbckpt"
TESTS = Path(__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION = 45
LONGEST_MODULE = 399
LONGEST_TEST_NAME = 60
EMPTY_NAMES = {"it", "its", "found", "told", "what", "thing", "things"}
PRINTS = {
    "cli.py": "the results of commands, as text() makes them, and errors",
    "notebook/magic.py": "errors in a notebook",
    "notebook/points.py": "a line about the last state, and trouble of auto",
    "notebook/progress.py": "the progress of a command",
    "notebook/outputs.py": "the recorded output of a user's cell again",
    "commands/rerun.py": "the comparison of a run.py",
    "compat/wandb/runs.py": "alerts, as W&B does",
    "timeline/rescue.py": "why the last state is not saved, when a kernel ends",
    "trials/engine/shutdown.py": "what a program waits for, when it ends",
    "trials/training/session.py": "that a result outside a trial is not kept",
    "trials/executors/slurm_job.py": "why a job of Slurm ends, in the job's log",
    "trials/executors/slurm_worker.py": "a trial's own output",
    "trials/executors/output.py": "nothing: it sends a trial's output to its log",
    "trials/executors/child.py": "nothing: it makes the streams of a worker",
    "render/text.py": "nothing: it asks for the width of the terminal",
    "core/elsewhere.py": "nothing: it compares a value with the streams",
    "core/values/streams.py": "nothing: it takes off what IPython adds to the streams",
    "cells/own_modules.py": "nothing: it looks at where print writes to",
    "testing/trainables.py": "output for the suite of executors",
}
"""The modules that may print or use the streams of the terminal, and what they write."""
MOST_PRIVATE = 20
PRIVATE = {
    "attack/ending.py": 2,  # a fork plays the kernel's process
    "attack/samples.py": 2,  # signs again what it has changed
    "attack/test_races.py": 1,  # how long a transfer waits for another
    "cluster/conftest.py": 1,  # Ray's state API has no public list of actors here
    "notebook/test_widget_mounted.py": 1,  # an attribute that ipykernel sets
    "test_private_apis.py": 3,  # the module under test, and threading's hook
    "trials/test_checkpoints.py": 1,  # Ray without an option
    "trials/test_handoff.py": 1,  # traces the lines of this method
    "trials/test_mlflow.py": 1,  # what a pickled callback leaves out
    "trials/test_pbt.py": 1,  # what the scheduler knows of other trials
    "trials/test_tensorboard.py": 2,  # what a pickled callback leaves out
}
"""How often each file of the tests uses private names, and why. The numbers only become smaller."""
READ_AT_ONCE = {"inner_text", "all_inner_texts", "text_content", "input_value", "is_visible", "count", "all"}


def test_functions_stay_short() -> None:
    lengths = {(str(path.relative_to(PACKAGE)), *made) for path in MODULES for made in syntax(path).functions}
    assert len(lengths) > 1000
    assert {(path, name, lines) for path, name, lines in lengths if lines > LONGEST_FUNCTION} == set()


def test_modules_stay_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert {path.name: lines for path, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_variables_are_named_after_what_they_hold() -> None:
    patterns = ("nbckpt/**/*.py", "tests/**/*.py", "benchmarks/*.py", "docs/**/*.py")
    files = [path for pattern in patterns for path in ROOT.glob(pattern)]
    names = {path: EMPTY_NAMES & syntax(path).variables for path in files}
    assert {path.relative_to(ROOT): empty for path, empty in names.items() if empty} == {}


def messages(path: Path) -> Iterator[str]:
    """Yield how the messages of errors and of the log begin."""
    for node in nodes(path):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        if (name.endswith("Error") or name == "warning") and isinstance(first, ast.Constant):
            yield str(first.value)


def test_messages_begin_with_a_small_letter_or_a_name() -> None:
    starts = {message.partition(" ")[0] for path in MODULES for message in messages(path)}
    assert len(starts) > 100
    assert {start for start in starts if start.istitle()} <= {"Image", "Optuna", "Slurm"}


def test_only_these_modules_write_to_the_terminal() -> None:
    """All others return a result or raise an error: cli.py and notebook/ make both safe for a terminal."""
    assert {path.relative_to(PACKAGE).as_posix() for path in MODULES if syntax(path).prints} == set(PRINTS)


def test_no_module_contains_a_todo() -> None:
    words = ("TODO", "FIXME", "XXX")
    assert [path.name for path in MODULES if any(word in path.read_text() for word in words)] == []


def test_every_test_name_is_short() -> None:
    files = [*TESTS.rglob("*.py"), *(PACKAGE / "testing").rglob("*.py")]
    names = [name for path in files for name, _ in syntax(path).functions if name.startswith("test_")]
    assert [name for name in names if len(name) > LONGEST_TEST_NAME] == []


def test_tests_use_public_names() -> None:
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}
    uses = {name: len(syntax(path).private) for name, path in files.items() if syntax(path).private}
    assert uses == PRIVATE, "use public names instead; lower each number that became smaller"
    assert sum(PRIVATE.values()) <= MOST_PRIVATE


def test_each_use_of_a_private_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(
        "from a import _one, two\n"
        "b._three.four._five()\n"
        "monkeypatch.setattr(c, '_six', 7)\n"
        "monkeypatch.setattr('d._eight.nine', 10)\n"
        "patch.object(e, '_eleven')\n"
        "getattr(f, '_twelve')\n"
    )
    (tmp_path / "none.py").write_text(
        "class A:\n    def __init__(self): self._own = cls._own = super().__init__()\n"
        "a._repr_html_(os._exit(0), b._replace(c=1), '_text')\n"
    )
    names = " ".join(sorted(syntax(tmp_path / "uses.py").private))
    assert names == "_eight _eleven _five _one _six _three _twelve"
    assert syntax(tmp_path / "none.py").private == ()


def test_browser_tests_wait_with_expect_or_text_of() -> None:
    """A call returns before the page has changed: what is read at once may be the former text."""
    files = [path for path in TESTS.rglob("test_*.py") if "\nfrom playwright." in path.read_text()]
    names = {
        path.name: {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)} for path in files
    }
    assert len(names) > 5
    assert {name: value & READ_AT_ONCE for name, value in names.items() if value & READ_AT_ONCE} == {}
