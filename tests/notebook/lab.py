"""Real front ends, driven through a real browser: fixtures for the tests that look at them.

One server has them all: JupyterLab, Notebook 7 and Voila.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from late import Library
from ports import free_ports

nbformat = Library("nbformat")

ROOT = Path(__file__).parents[2]
PICTURES = Path(os.environ.get("NBCKPT_CI_OUTPUT", ROOT / "ci-output"))
SETTINGS = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "completer-extension/manager": {"providerTimeout": 60_000},  # or a busy kernel's answer is dropped
}
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
FLAGS = (
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--ServerApp.disable_check_xsrf=True",
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",
    "--LabApp.extension_manager=readonly",
    *(("--KernelManager.transport=ipc",) if os.name == "posix" else ()),  # see kernels.py
)

VIEWPORT: ViewportSize = {"width": 1280, "height": 900}
LAB, NOTEBOOK, VOILA = "lab/tree", "notebooks", "voila/render"

# What a front end would fetch from elsewhere is missing at once, wherever the tests run.
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

# The idle indicator lies: it is shown before the kernel is attached, and what runs then is dropped.
READY = """() => {
    const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
    const context = widget && widget.sessionContext;
    const kernel = context && context.session && context.session.kernel;
    return !!(kernel && widget.context && widget.context.isReady && context.isReady
        && kernel.connectionStatus === 'connected' && kernel.status === 'idle');
}"""
OF_NOTEBOOK = re.compile(
    r"Cannot read properties of undefined \(reading 'schema'\)|Command 'f\S+' .*registered\."
)
LONGEST_MS = 60_000
LONGEST_COMMAND_MS = 200_000
LOG = ".log"
"""The output of a server and its kernels, in the folder of the notebooks."""
expect.set_options(timeout=LONGEST_MS)

WAITING_TRIALS = """
%load_ext nbckpt
import os, pathlib, threading, time, nbckpt
os.environ["NBCKPT_PANEL"] = ""
allowed, turn = 1, threading.Condition()
def go_on(steps=6):
    global allowed
    with turn:
        allowed += steps
        turn.notify_all()
def train(config):
    for step in range(6):
        with turn:
            assert turn.wait_for(lambda: step < allowed, timeout=3000)
        wanted = {"step_of_trial": step} if nbckpt.should_checkpoint() else None
        nbckpt.report(loss=1 / (step + 1), checkpoint=wanted)
def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.05)
"""
"""A cell that makes `train`: each trial reports once and then waits for `go_on`. The panel is the widget."""

COMMAND = """([name, args, longest]) => Promise.race([
    window.jupyterapp.commands.execute(name, args).then(() => true),
    new Promise((resolve) => { setTimeout(() => resolve(false), longest); }),
])"""
START = "() => { window.jupyterapp.commands.execute('notebook:run-cell'); }"
ACTIVATE = "(at) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = at; }"
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
ALONE = """(path) => {
    const all = [...window.jupyterapp.shell.widgets("main")];
    for (const widget of all.filter(({ context }) => !context || context.path !== path)) widget.dispose();
}"""
"""Close the launcher, which JupyterLab opens after the last document is closed."""
FOCUSED = "() => document.activeElement.outerHTML.slice(0, 300)"
CLEAR = """() => {
    const shell = window.jupyterapp && window.jupyterapp.shell;
    if (!location.pathname.startsWith("/lab") || !shell || document.querySelector(".jp-Dialog")) return false;
    for (const widget of [...shell.widgets("main")]) widget.dispose();
    localStorage.clear();
    return true;
}"""
"""Close all documents of JupyterLab; tell whether the page is as a fresh one now."""


@dataclass
class Lab:
    """One page of a running JupyterLab.

    Attributes:
        page: The browser's page.
        url: The server.
        folder: Where the module's notebooks are, just below the server's root.
        is_loaded: Whether the page has a JupyterLab without documents, from an earlier test.
        is_own: Whether no later test may go on with the page.
    """

    page: Page
    url: str
    folder: Path
    is_loaded: bool = False
    is_own: bool = False

    def open(self, name: str, *sources: str, front_end: str = LAB) -> None:
        """Make a notebook of these cells and open it, with its kernel ready."""
        self.write(name, *sources)
        if self.is_loaded and front_end == LAB:
            self.is_loaded = False
            path = f"{self.folder.name}/{name}"
            self.command("docmanager:open", path=path)
            self.page.evaluate(ALONE, path)
            self._ready_or_again(name, front_end)
        else:
            self.enter(name, front_end)

    def opened(self, name: str, *sources: str, run: int, front_end: str = LAB) -> Locator:
        """Open a notebook and run its first cells; return the output of the last of them."""
        self.open(name, *sources, front_end=front_end)
        return self.run(*range(run))

    def enter(self, name: str, front_end: str = LAB) -> None:
        """Go to a notebook that is there, and wait until its kernel is ready."""
        self.visit(name, front_end)
        self._ready_or_again(name, front_end)

    def _ready_or_again(self, name: str, front_end: str) -> None:
        try:
            self._ready(LONGEST_MS // 2)
        except PlaywrightTimeout:  # seldom, a page never hears that its kernel is idle; no cell runs now
            self.visit(name, front_end)
            self._ready()

    def write(self, name: str, *sources: str) -> None:
        """Make a notebook of these cells."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), self.folder / name)

    def visit(self, name: str, front_end: str = LAB) -> None:
        """Go to a notebook that is there."""
        self.is_loaded = False
        url = f"{self.url}/{front_end}/{self.folder.name}/{name}?reset"
        self.page.goto(url, wait_until="domcontentloaded")

    def own_page(self) -> Page:
        """Go on with a fresh page, for what other tests must not leave or meet: listeners, scripts, media."""
        browser = self.page.context.browser
        assert browser is not None
        self.page.close()
        self.page, self.is_loaded, self.is_own = new_page(browser), False, True
        return self.page

    def _ready(self, longest_ms: float = LONGEST_MS) -> None:
        """Wait until the notebook is there, and its kernel is ready."""
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.wait_for_function(READY, timeout=longest_ms)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands and wait for its end."""
        if not self.page.evaluate(COMMAND, [name, arguments, LONGEST_COMMAND_MS]):
            pytest.fail(f"{name} did not end.\n{self.stacks()}")

    def stacks(self) -> str:
        """End all kernels of the server, and return where each of their threads was."""
        try:
            kernels = kernels_of(self.url)
        except OSError as error:
            return f"the server does not answer: {error}"
        for kernel in kernels:
            subprocess.run(["pkill", "-ABRT", "-f", f"kernel-{kernel['id']}.json"], check=False)
        time.sleep(2)
        return f"{kernels}\n{(self.folder.parent / LOG).read_text()[-20_000:]}"

    def seen(self, name: str) -> str:
        """Keep a picture of the page. Return the text of the active cell, and what has the focus."""
        try:
            picture(self.page, f"failed-{name}")
            cells = self.page.locator(".jp-mod-active.jp-CodeCell").all_inner_texts()
            return "\n".join([*cells, self.page.evaluate(FOCUSED)])
        except PlaywrightError as error:  # the page may have crashed
            return str(error)

    def run(self, *ats: int) -> Locator:
        """Run cells, one after the other, and return the output of the last."""
        for at in ats:
            self.page.evaluate(ACTIVATE, at)
            self.command("notebook:run-cell")
        return self.output(ats[-1])

    def start(self, at: int) -> Locator:
        """Begin to run one cell and return its output."""
        self.page.evaluate(ACTIVATE, at)
        self.page.evaluate(START)
        return self.output(at)

    def output(self, at: int) -> Locator:
        """Return the output of a cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(at).locator(".jp-OutputArea")

    def restart(self) -> None:
        """Restart the kernel for real."""
        self.page.evaluate(RESTART)
        self.page.wait_for_function(READY)

    def theme(self, name: str) -> None:
        """Switch to the `light`, the `dark` or the `dark high contrast` theme."""
        theme = f"JupyterLab {name.title()}"
        self.command("apputils:change-theme", theme=theme)
        self.page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def complete(self, at: int) -> dict[str, str]:
        """Press Tab at the end of a cell; return what the popup offers, with the badges."""
        self.page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(at).click()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.press("Tab")
        popup = self.page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")
        popup.first.wait_for()
        return {
            item.locator(".jp-Completer-match").inner_text(): item.locator(
                ".jp-Completer-typeExtended"
            ).inner_text()
            for item in popup.all()
        }


def text_of(element: Locator) -> str:
    """Return the text of an element once it has one: a cell may end before its output is on the page."""
    expect(element).not_to_be_empty()
    return element.inner_text()


@pytest.fixture(scope="module")
def chromium() -> str:
    """Return Chromium's path; without it, a skip here and a failure in CI."""
    # The shell is Chromium without windows, tabs and a GPU, and needs half the processor time.
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        reason = "Chromium is not installed: apt-get install chromium-headless-shell fonts-dejavu-core"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return path


# Of the module, not of the session: while it is open, Playwright keeps an event loop running in
# this thread, in which other tests could not run theirs.
@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Run a browser without a window."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", OFFLINE]
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def python() -> str:
    """Return the Python that has the front ends and the kernel; a module may have another one."""
    return sys.executable


@dataclass(frozen=True)
class Server:
    """A running server: its address, the folder of all notebooks, and the folder of its settings."""

    url: str
    root: Path
    home: Path


@pytest.fixture(scope="session")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Return a function that starts a Python's server when a module first asks: a start takes seconds."""
    with ExitStack() as running:

        @functools.cache
        def started(python: str) -> Server:
            root, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter")
            return Server(running.enter_context(served(python, root, home)), root, home)

        yield started


@pytest.fixture(scope="module")
def server(
    chromium: str, python: str, server_of: Callable[[str], Server], request: pytest.FixtureRequest
) -> Iterator[tuple[str, Path]]:
    """Return a server's address and a folder of the module's own; no kernel or setting is left to another."""
    del chromium  # without a browser there is no need for a server
    running = server_of(python)
    shutil.rmtree(running.home / "settings")
    write_settings(running.home)
    name = request.module.__name__.rpartition(".")[2]
    yield running.url, Path(tempfile.mkdtemp(prefix=f"{name}-", dir=running.root))
    end_kernels(running.url)


def end_kernels(url: str) -> None:
    """End all kernels of a server side by side."""

    def end(kernel: dict[str, Any]) -> None:
        request = urllib.request.Request(f"{url}/api/kernels/{kernel['id']}", method="DELETE")
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except HTTPError as error:
            if error.code != 404:  # Voila ends the kernel of a page that closes
                raise

    with ThreadPoolExecutor() as pool:
        list(pool.map(end, kernels_of(url)))


def kernels_of(url: str) -> list[dict[str, Any]]:
    """Return the kernels of a server, and whether each is busy."""
    with urllib.request.urlopen(f"{url}/api/kernels", timeout=60) as answer:
        kernels: list[dict[str, Any]] = json.load(answer)
    return kernels


@contextmanager
def served(python: str, folder: Path, home: Path, *options: str, **variables: str) -> Iterator[str]:
    """Run a server for the notebooks in *folder*, with all that is its own in *home*; return its address.

    Args:
        python: The Python that has it.
        folder: Where the notebooks are.
        home: Where its settings, data and secret are.
        options: More options of its command.
        variables: Variables of its environment.
    """
    (port,) = free_ports(1)
    own = f"--port={port}", f"--ServerApp.root_dir={folder}", *options
    command = [python, "-m", "jupyterlab", *FLAGS, *own]
    short = "/tmp" if os.name == "posix" else None  # the name of a socket has at most 100 characters
    with (
        tempfile.TemporaryDirectory(prefix="nbckpt-lab-", dir=short) as runtime,
        (folder / LOG).open("wb") as log,
        subprocess.Popen(
            command,
            env=environment(home) | {"JUPYTER_RUNTIME_DIR": runtime} | variables,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/api", process, folder / LOG)
            yield url
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server.

    It may wait for ever: for a kernel that starts, or for a thread of AnyIO whose loop has ended.
    """
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
    finally:  # also if the time limit of the test ends while it waits
        process.kill()


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a server whose settings, data and secret are below *home*."""
    write_settings(home)
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
        "NBCKPT_SECRET_FILE": "secret",
    }
    return {
        **os.environ,
        **{name: str(home / place) for name, place in own.items()},
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONFAULTHANDLER": "1",
        "NBCKPT_PANEL": "core",  # tests of the other panel ask for it themselves
    }


def write_settings(home: Path) -> None:
    """Write the settings that the tests begin with."""
    for name, settings in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + 120  # a start takes 4 s, and more beside other work
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def loaded(browser: Browser) -> dict[str, Page]:
    """The page of a JupyterLab without documents, by its server: to load another takes seconds."""
    del browser  # it must be open as long
    return {}


@pytest.fixture
def lab(browser: Browser, server: tuple[str, Path], loaded: dict[str, Page]) -> Iterator[Lab]:
    """Give the test a page. It is fresh, or has a JupyterLab without documents."""
    url, folder = server
    page = loaded.pop(url, None)
    if page is not None:
        page.set_viewport_size(VIEWPORT)
    lab = Lab(page or new_page(browser), url, folder, is_loaded=page is not None)
    yield lab
    if not lab.is_own and lab.page.evaluate(CLEAR):
        loaded[url] = lab.page
    else:
        lab.page.close()


@contextmanager
def page_of(browser: Browser, url: str, folder: Path) -> Iterator[Lab]:
    """Open a fresh page of a server."""
    page = new_page(browser)
    yield Lab(page, url, folder)
    page.close()


def new_page(browser: Browser) -> Page:
    page = browser.new_page(viewport=VIEWPORT)
    page.set_default_timeout(LONGEST_MS)
    return page


def pictures(lab: Lab, name: str) -> None:
    """Keep what the page looks like in the light and in the dark theme, for people."""
    for theme in ("dark", "light"):
        lab.theme(theme)
        picture(lab.page, f"{name}-{theme}")


def picture(page: Page, name: str) -> None:
    """Keep what a page looks like."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def page_errors(page: Page) -> list[str]:
    """Return the errors of a page, as they come, without those that Notebook 7 throws when it starts."""
    errors: list[str] = []
    page.on("pageerror", lambda error: OF_NOTEBOOK.fullmatch(str(error)) or errors.append(str(error)))
    return errors
