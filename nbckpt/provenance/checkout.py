"""Checkout: the code at the commit of a provenance, with its uncommitted changes, in a new folder.

The repository may be on this machine, or it is cloned from its remote. A provenance may come from anybody:
only commit ids and URLs of common transports are passed to git, and `git apply` refuses paths outside of the
folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from nbckpt.core.masking import MASK
from nbckpt.provenance.git import Git, GitError, find_root
from nbckpt.provenance.patches import masked_places, unmasked

CLONE_S = 600.0
"""How long a clone may take."""

_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
_REMOTE = re.compile(r"(https?|ssh|git|file)://[^\s-][^\s]*|[\w.-]+@[\w.-]+:[^\s]+|/[^\s]*")
_MOST_PLACES = 5
_MOST_SHOWN = 64 << 20


def check_out(commit: str, patch: bytes, sources: Sequence[str], folder: Path) -> Iterator[str]:
    """Write the code at a commit, with a patch applied, into *folder*. Yield a sentence for what is missing.

    Args:
        commit: The id of the commit.
        patch: The uncommitted changes.
        sources: The folders of working trees, and URLs of remotes. The first that has the commit is used.
        folder: The folder, which does not exist.

    Raises:
        GitError: No source has the commit, or git is missing.
    """
    if not _COMMIT.fullmatch(commit):
        raise GitError(f"{commit[:60]!r} is not the id of a commit")
    errors = []
    for source in dict.fromkeys(filter(None, sources)):
        try:
            _clone(source, commit, folder)
            break
        except GitError as error:
            errors.append(f"{source}: {error}")
    else:
        raise GitError("; ".join(errors) or "neither the repository nor its remote is known")
    if patch:
        yield from _apply(patch, commit, folder)


def _clone(source: str, commit: str, folder: Path) -> None:
    """Clone the repository into the folder, at the commit. Nothing is left of a failure."""
    deadline = time.monotonic() + CLONE_S
    root = find_root(Path(source)) if Path(source).is_absolute() else None
    if root is not None:
        Git(root, deadline).ask("cat-file", "-e", f"{commit}^{{commit}}")
        words = ["clone", "--quiet", "--shared", "--no-checkout", "--", str(root), str(folder)]
    elif _REMOTE.fullmatch(source) and MASK not in source.partition("@")[2]:
        words = ["clone", "--quiet", "--no-checkout", "--", _without_user(source), str(folder)]
    else:
        raise GitError("this is neither a repository here nor a URL that can be cloned")
    Git(folder.parent, deadline).ask(*words)
    git = Git(folder, deadline)
    git.ask("-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", commit)


def _without_user(url: str) -> str:
    """Return a URL of HTTP without the masked user: git asks its own helpers for credentials."""
    return re.sub(rf"^(https?://)(?:[^/@]*:)?{re.escape(MASK)}@", r"\1", url)


def _apply(patch: bytes, commit: str, folder: Path) -> Iterator[str]:
    git = Git(folder, time.monotonic() + CLONE_S)
    whole = unmasked(patch, partial(_lines_at, git, commit))
    file = folder / ".git" / "applied.patch"
    file.write_bytes(whole)
    try:
        git.ask("apply", "--whitespace=nowarn", "--binary", str(file))
    except GitError as error:
        yield f"The uncommitted changes were not applied, see patch.diff: {error}"
    if places := masked_places(patch):
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        yield f"Secrets were masked, write them again: {', '.join(places[:_MOST_PLACES])}{more}"


def _lines_at(git: Git, commit: str, path: str) -> list[str]:
    """Return the lines of a file at the commit; none if git does not have it."""
    try:
        text = git.ask("show", f"{commit}:{path}", most=_MOST_SHOWN).decode("utf-8", "surrogateescape")
    except GitError:
        return []
    return text.split("\n")
