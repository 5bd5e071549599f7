"""Completion of `%ckpt`: verbs, options, references, variables, functions, experiments, trials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell

from nbckpt.commands import TABLE, Command, Option, Session
from nbckpt.errors import NbckptError

if TYPE_CHECKING:
    from nbckpt.tracker import Tracker
    from nbckpt.trials import Library

_LINE = re.compile(r"^\s*%{1,2}ckpt\s+(.*)$")
_MARK = "_nbckpt_matcher"
_MOST_IDS = 20


def register(shell: InteractiveShell, session: Callable[[], Session]) -> None:
    """Add the completion to a shell."""

    @context_matcher()
    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        line = context.full_text.split("\n")[context.cursor_line][: context.cursor_position]
        found = _LINE.match(line)
        if found is None:
            return SimpleMatcherResult(completions=[])
        words = found[1].split(" ")
        fragment = words[-1]
        options = sorted(
            {text for text in candidates(words[:-1], fragment, session) if text.startswith(fragment)}
        )
        completions = [SimpleCompletion(text, type="nbckpt") for text in options]
        return SimpleMatcherResult(completions=completions, matched_fragment=fragment, suppress=bool(options))

    setattr(matcher, _MARK, True)
    shell.Completer.custom_matchers.append(matcher)


def unregister(shell: InteractiveShell) -> None:
    """Take the completion away from a shell."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if not hasattr(matcher, _MARK)]


def candidates(before: list[str], fragment: str, session: Callable[[], Session]) -> Iterable[str]:
    """Return the words that can stand behind *before*."""
    given = [word for word in before if word]
    if not given:
        return TABLE
    command = TABLE.get(given[0])
    if command is None:
        return ()
    if fragment.startswith("-"):
        return (flag for it in command.options for flag in it.flags if flag.startswith("--"))
    option = _option_at(command, given[1:])
    return _values(option, session()) if option else ()


def _option_at(command: Command, words: list[str]) -> Option | None:
    """Return what the next word is a value of."""
    by_flag = {flag: it for it in command.options for flag in it.flags}
    last = by_flag.get(words[-1]) if words else None
    if last is not None and words[-1].startswith("-") and not last.switch:
        return last
    arguments = [it for it in command.options if not it.flags[0].startswith("-")]
    takes = {flag for flag, it in by_flag.items() if flag.startswith("-") and not it.switch}
    place = sum(
        not word.startswith("-") and (at == 0 or words[at - 1] not in takes) for at, word in enumerate(words)
    )
    return arguments[min(place, len(arguments) - 1)] if arguments else None


def _values(option: Option, session: Session) -> Iterable[str]:
    live = session.namespace or {}
    variables = [it for it in live if it not in session.hidden and not it.startswith("__")]
    match option.kind:
        case "variable":
            return variables
        case "function":
            return [it for it in variables if callable(live[it])]
        case "command":
            return TABLE
        case "name":
            return _refs(session.tracker, ids=False)
        case "text" | "file":
            return ()
    kinds = option.kind.split(" or ")
    refs = _refs(session.tracker, ids=True) if "ref" in kinds else []
    return [*refs, *_in_experiments(session.library, kinds[-1])]


def _in_experiments(library: Library, kind: str) -> Iterable[str]:
    """Yield the names of experiments, of the newest one's trials, or of its trials' checkpoints."""
    names = library.names()
    if kind in {"experiment", "trial"}:
        yield from names
    if kind in {"trial", "step"} and names:
        for trial in library.open().trials:
            steps = [f"@{it.step}" for it in trial.checkpoints.records()] if kind == "step" else [""]
            yield from (f"{place}{trial.id}{step}" for step in steps for place in ("", f"{names[-1]}/"))


def _refs(tracker: Tracker, *, ids: bool) -> list[str]:
    """Return the names, with *ids* also versions, ids and `latest`; none where the store cannot be read."""
    from nbckpt.core.history import SHORT

    history = tracker.history
    try:
        refs = history.refs()
        entries: list[Any] = history.entries()[:_MOST_IDS] if ids else []
    except NbckptError:
        return []
    names = [ref.name for ref in refs if " " not in ref.name]
    if not ids:
        return names
    return [
        *names,
        *(str(ref) for ref in refs if " " not in ref.name),
        *(it.id[:SHORT] for it in entries),
        "latest",
    ]
