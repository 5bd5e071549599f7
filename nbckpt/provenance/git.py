"""Git: the commit, the branch, the remote and the uncommitted changes of a working tree.

git itself is asked, with a time limit for all questions together. Files that git ignores are never read;
untracked files are only named. The changes are a patch for `git apply`, without the values of secrets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from nbckpt.core.masking import masked_remote
from nbckpt.provenance.patches import cut, masked_patch
from nbckpt.provenance.processes import kill

LIMIT_S = 2.0
MOST_PATCH = 1 << 20
"""The most bytes of a patch. Files that do not fit are named."""

_MOST_FILE = 4 << 20
_MOST_NAMES = 200
_MOST_OUTPUT = 4 << 20
_MOST_FILES = 500  # `git diff` takes their names as arguments
_NOT_CODE = {".nbckpt", ".ipynb_checkpoints", "__pycache__"}
"""Folders that programs make beside the code: nobody misses them."""

_FIELDS = {"1": 7, "2": 8, "u": 9}
"""How many spaces come before the path, by the kind of a line of `git status`."""

_DIFF = (
    *("diff", "HEAD", "--binary", "--full-index", "--no-color", "--no-renames"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
)
# No programs that the repository configures, no waiting for a lock of another git.
_QUIETLY = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "diff.noprefix=false"),
    *("-c", "diff.mnemonicPrefix=false", "-c", "core.untrackedCache=false"),
)


class GitError(Exception):
    """git is missing, failed, or took too long."""


@dataclass(frozen=True)
class Code:
    """The state of a working tree.

    Attributes:
        commit: The full id of the commit; empty before the first commit.
        branch: The branch; empty for a commit without one.
        remote: The URL of the remote, without a password.
        root: The top folder of the working tree.
        folder: The folder that the program ran in, below the root.
        changed: The tracked files with uncommitted changes, at most 200.
        untracked: The files and folders that git does not track, at most 200. They are not kept.
        left_out: The changed files that the patch lacks, because they or the patch are too large.
        patch: The uncommitted changes of tracked files, for `git apply`.
        note: Why something is missing; empty if nothing is.
    """

    commit: str = ""
    branch: str = ""
    remote: str = ""
    root: str = ""
    folder: str = ""
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    patch: bytes = b""
    note: str = ""

    @property
    def is_dirty(self) -> bool:
        """Whether a tracked file has changes that no commit has."""
        return bool(self.changed or self.patch or self.left_out)


def find_root(folder: Path) -> Path | None:
    """Return the top folder of the working tree that *folder* is in; None if it is in none."""
    with suppress(OSError, ValueError):
        return next((top for top in (folder, *folder.parents) if (top / ".git").exists()), None)
    return None


def read_code(folder: Path, *, limit_s: float | None = None) -> Code | None:
    """Return the state of the working tree that *folder* is in, or None if it is in none.

    It never fails and takes little longer than the limit. `note` says what could not be read.
    """
    root = find_root(folder)
    if root is None:
        return None
    git = Git(root, time.monotonic() + (LIMIT_S if limit_s is None else limit_s))
    code = Code(root=str(root), folder=folder.relative_to(root).as_posix())
    try:
        status = git.ask("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
        code, paths = _with_status(code, status)
        code = replace(code, remote=masked_remote(_remote(git)))
        return _with_patch(code, git, paths) if paths and code.commit else code
    except GitError as error:
        return replace(code, note=str(error))


@dataclass
class Git:
    """Asks git about one working tree, until a moment of `time.monotonic`.

    Attributes:
        folder: The folder that git works in.
        deadline: When to give up.
        exit_s: How many seconds an ended process has to exit.
    """

    folder: Path
    deadline: float
    exit_s: float = 0.05
    _name: str = field(default="git", repr=False)

    def ask(self, *words: str, most: int = _MOST_OUTPUT, fails: bool = False) -> bytes:
        """Return what git says, at most *most* bytes and one more. It may exit with 1 if *fails*.

        Raises:
            GitError: git is missing, failed or took too long.
        """
        program = shutil.which(self._name)
        if program is None:
            raise GitError("git is not installed")
        process = self._start([program, *_QUIETLY, *words])
        reader = OutputReader(process, most)
        try:
            is_read = reader.wait(self._left_s())
            if is_read and len(reader.output) <= most and process.wait(self._left_s()) not in {0, int(fails)}:
                why = reader.errors() or f"exit status {process.returncode}"
                raise GitError(f"git {words[0]} failed: {why}")
        except subprocess.TimeoutExpired:
            is_read = False
        finally:
            _end(process, self.exit_s)
        if not is_read:
            raise GitError(f"git {words[0]} took too long")
        return bytes(reader.output)

    def _left_s(self) -> float:
        """Return how many seconds are left, but at least a moment, which a process needs to end."""
        return max(self.deadline - time.monotonic(), self.exit_s)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        own: dict[str, Any]
        # A session of its own: no Ctrl-C, no terminal to ask for a password, and one call ends all.
        own = {"creationflags": 0x08000000} if sys.platform == "win32" else {"start_new_session": True}
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, **own
            )
        except (OSError, ValueError) as error:  # also a browser, which cannot start processes
            raise GitError(f"git cannot be started: {error}") from None


class OutputReader:
    """Reads the output of a process in threads, because not every system reads a pipe with a time limit."""

    def __init__(self, process: subprocess.Popen[bytes], most: int) -> None:
        self.output, self._error = bytearray(), bytearray()
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = (process.stdout, self.output, most), (process.stderr, self._error, 4096)
        self._threads = [
            threading.Thread(target=_read, args=pipe, name="nbckpt-git", daemon=True) for pipe in pipes
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout: float) -> bool:
        """Wait until the output ended or is too long. Return False if that takes too long."""
        self._threads[0].join(max(timeout, 0))
        return not self._threads[0].is_alive()

    def errors(self) -> str:
        """Return the last line of the error output."""
        self._threads[1].join(1)
        lines = self._error.decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")[:200]


def _read(pipe: IO[bytes], output: bytearray, most: int) -> None:
    with suppress(OSError), pipe:
        while len(output) <= most and (piece := os.read(pipe.fileno(), 1 << 16)):
            output += piece[: most + 1 - len(output)]


def _end(process: subprocess.Popen[bytes], exit_s: float) -> None:
    """End a process that still runs, with the processes that it started."""
    if process.poll() is None:
        kill(process)
        with suppress(subprocess.TimeoutExpired):  # a process that a lost disk holds cannot be ended
            process.wait(exit_s)


def _remote(git: Git) -> str:
    """Return the URL of the remote `origin`, else of the first remote; empty if there is none."""
    listed = git.ask("config", "--get-regexp", r"^remote\..*\.url$", fails=True).decode("utf-8", "replace")
    urls = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    return urls.get("remote.origin.url", next(iter(urls.values()), ""))


def _with_status(code: Code, status: bytes) -> tuple[Code, list[str]]:
    """Take in what `git status` says. Return also the changed files that a patch may hold."""
    entries = iter(status.split(b"\0")[:-1])  # what a limit cut off has no end
    paths, changed, untracked, submodules = [], [], [], []
    headers: dict[str, str] = {}
    for entry in entries:
        kind, _, rest = os.fsdecode(entry).partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = "" if value.startswith("(") else value
        elif kind == "?":
            if Path(rest).name not in _NOT_CODE:
                untracked.append(_named(rest))
        elif kind in _FIELDS:
            fields = rest.split(" ", _FIELDS[kind])
            changed.append(_named(fields[-1]))
            if kind == "2":
                next(entries, b"")  # the former name
            if fields[1].startswith("S"):
                submodules.append(f"{changed[-1]} (submodule)")
            else:
                paths.append(fields[-1])
    return replace(
        code,
        commit=headers.get("branch.oid", ""),
        branch=headers.get("branch.head", ""),
        changed=tuple(changed[:_MOST_NAMES]),
        untracked=tuple(untracked[:_MOST_NAMES]),
        left_out=tuple(submodules[:_MOST_NAMES]),
    ), paths


def _named(path: str) -> str:
    """Return a path as text that any file can hold."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _with_patch(code: Code, git: Git, paths: Sequence[str]) -> Code:
    """Take in the changes of files. Notebooks come last, because their outputs may take all of the space."""
    chosen = [path for path in paths if _is_small(git.folder / path)]
    sources = [path for path in chosen if not path.endswith(".ipynb")][:_MOST_FILES]
    notebooks = [path for path in chosen if path.endswith(".ipynb")][:_MOST_FILES]
    patch, kept = b"", {*paths} - {*sources, *notebooks}
    left_out = [_named(path) for path in paths if path in kept]
    for group in filter(None, (sources, notebooks)):
        difference = git.ask(*_DIFF, "--", *(f":(top,literal){path}" for path in group), most=MOST_PATCH)
        whole, names = cut(difference, MOST_PATCH - len(patch))
        patch += whole
        if len(whole) < len(difference):
            left_out += [_named(path) for path in group if path not in names]
    return replace(code, patch=masked_patch(patch), left_out=(*code.left_out, *left_out)[:_MOST_NAMES])


def _is_small(file: Path) -> bool:
    try:
        return file.lstat().st_size <= _MOST_FILE
    except OSError:  # it was deleted, or replaced by a file that has a folder's name
        return True
