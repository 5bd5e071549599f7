"""Head: the commit and the branch of a working tree, read at once from the files of git."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from nbckpt.provenance.git import Code, find_root

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/(?!.*\.\.)[^\0]{1,500}")
_MOST = 4 << 20
_NOTE = "git had not answered yet: uncommitted changes are not known"


def read_head(folders: tuple[str, ...]) -> Code | None:
    """Return the commit and the branch of the first folder that is in a working tree, or None.

    It starts no program. The commit is empty if there is none yet, or if it cannot be found in this way.
    """
    for folder in map(Path, folders):
        if root := find_root(folder):
            commit, branch = _commit_and_branch(root)
            return Code(commit, branch, "", str(root), folder.relative_to(root).as_posix(), note=_NOTE)
    return None


def _commit_and_branch(root: Path) -> tuple[str, str]:
    with suppress(OSError, ValueError):
        own = root / ".git"
        if own.is_file():  # a further working tree of a repository, or a submodule
            own = root / _text(own).removeprefix("gitdir: ")
        head = _text(own / "HEAD")
        ref = head.removeprefix("ref: ")
        if ref == head:
            return (head if _COMMIT.fullmatch(head) else ""), ""
        if _REF.fullmatch(ref):
            common = own / _text(own / "commondir") if (own / "commondir").is_file() else own
            return _commit_of(common, ref), ref.removeprefix("refs/heads/")
    return "", ""


def _commit_of(common: Path, ref: str) -> str:
    """Return the commit of a branch, from its own file or the list of packed branches."""
    with suppress(OSError):
        if _COMMIT.fullmatch(commit := _text(common / ref)):
            return commit
    with suppress(OSError):
        lines = (line.partition(" ") for line in _text(common / "packed-refs").splitlines())
        return next((commit for commit, _, name in lines if name == ref and _COMMIT.fullmatch(commit)), "")
    return ""


def _text(file: Path) -> str:
    """Return the text of a file of git, without the end of its line.

    Raises:
        OSError: It cannot be read, or it is not a file of a usual size.
    """
    if not file.is_file() or file.stat().st_size > _MOST:
        raise OSError(f"{file} is not a file of git")
    return file.read_text("utf-8", "surrogateescape").rstrip("\n")
