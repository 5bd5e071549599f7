"""A real IPython shell for each test."""

from __future__ import annotations

import atexit
import builtins
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from traitlets.config import Config

from nbckpt.render import Result
from notebook.lab import Lab, browser, chromium, lab, loaded, python, server, server_of
from notebook.typed import Clock, Typed

__all__ = ["AUTO_ON", "Notebook", "notebook", "published"]
__all__ += ["browser", "chromium", "lab", "loaded", "python", "server", "server_of"]  # fixtures

MOST_SEEN = 2000
AUTO_ON = "%ckpt auto on --budget 1000000%"
"""A point after each cell, also on a machine so busy that a point takes a thousand times as long."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what a page showed when its test failed, and where the threads of its kernels were."""
    report = yield
    if report.when == "call" and report.failed:
        for page in (value for value in item.funcargs.values() if isinstance(value, Lab)):
            seen = page.seen(item.name)
            if crash := getattr(report.longrepr, "reprcrash", None):
                crash.message += f"\n{seen[-MOST_SEEN:]}"  # the summary at the end shows it
            report.sections.append((f"page of {page.folder.name}", f"{seen}\n{page.stacks()}"))
    return report


class Notebook:
    """A shell whose cells are run one by one, in a folder of its own."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, *cells: str) -> Any:
        """Run cells, one after the other, and return the value of the last; an exception is raised."""
        for cell in cells:
            result = self.attempt(cell)
            result.raise_error()
        return result.result

    def after(self, *cells: str) -> dict[str, Any]:
        """Run cells, and return the live variables."""
        self.run(*cells)
        return self.names

    def printed(self, *cells: str) -> CapturedIO:
        """Run cells, and return what they print and show."""
        with capture_output() as shown:
            self.run(*cells)
        return shown

    def attempt(self, cell: str) -> ExecutionResult:
        """Run a cell and return all of its outcome."""
        return self.shell.run_cell(cell, store_history=True)

    def error(self, cell: str) -> str:
        """Run a cell that must fail, and return what it says."""
        result = self.attempt(cell)
        assert result.error_in_exec is not None
        return f"{type(result.error_in_exec).__name__}: {result.error_in_exec}"

    @property
    def magics(self) -> Any:
        """The object that runs the commands."""
        return self.shell.magics_manager.registry["CheckpointMagics"]

    @property
    def names(self) -> dict[str, Any]:
        """The live variables."""
        return self.shell.user_ns

    @property
    def count(self) -> int:
        """The number of the last cell."""
        return len(self.shell.history_manager.input_hist_raw) - 1


def notes(result: Result) -> str:
    """Return the notes of a result, as one text."""
    return " ".join(result.page().notes)


@contextmanager
def new_shell() -> Iterator[InteractiveShell]:
    """Make a shell that keeps no history, and let go of it."""
    InteractiveShell.clear_instance()
    # The files of a history stay open, and each look for what may write to memory passes over all of them.
    without_files = Config(HistoryAccessor={"enabled": False})
    shell = InteractiveShell.instance(colors="nocolor", config=without_files)
    yield shell
    # Otherwise all shells live to the end of the process, and each then collects the garbage of all.
    atexit.unregister(shell.atexit_operations)
    InteractiveShell.clear_instance()


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A shell with the extension loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("NBCKPT_PANEL", "core")  # tests of the other panel ask for it themselves
    # A doctest leaves `_` in builtins; IPython then takes it for gettext's, and sets no `_` of its own.
    monkeypatch.delattr(builtins, "_", raising=False)
    with new_shell() as shell:
        made = Notebook(shell)
        made.run("%load_ext nbckpt")
        yield made
        made.attempt("%unload_ext nbckpt")


@pytest.fixture
def watched(notebook: Notebook, request: pytest.FixtureRequest) -> Notebook:
    """The shell with a point after each cell. If the test's module has a `SETUP`, it is run before."""
    if setup := getattr(request.module, "SETUP", ""):
        notebook.run(setup)
    notebook.run(AUTO_ON)
    return notebook


@pytest.fixture
def typed(notebook: Notebook) -> Typed:
    """The commands of the shell, as the panel runs them."""
    return Typed(notebook)


@pytest.fixture
def clock() -> Clock:
    """A clock that the test sets."""
    return Clock()


@pytest.fixture
def published(notebook: Notebook) -> Iterator[list[dict[str, Any]]]:
    """Make the shell look like a kernel's; return the outputs that it publishes."""
    notebook.shell.kernel = object()
    former, notebook.shell.display_pub = notebook.shell.display_pub, CapturingDisplayPublisher()
    notebook.run("%reload_ext nbckpt")
    yield notebook.shell.display_pub.outputs
    notebook.shell.display_pub = former
    del notebook.shell.kernel
