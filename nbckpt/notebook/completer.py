"""Completion of `%ckpt`: verbs, options, references, variables, functions, experiments, trials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

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
    from nbckpt.core.references import Entry, Ref
    from nbckpt.tracker import Tracker
    from nbckpt.trials import Catalog

_LINE = re.compile(r"^\s*%{1,2}ckpt\s+(.*)$")
_MARK = "_nbckpt_matcher"


def register(shell: InteractiveShell, session: Callable[[], Session]) -> None:
    """Add the completion to a shell."""

    @context_matcher()
    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        line = context.full_text.split("\n")[context.cursor_line][: context.cursor_position]
        match = _LINE.match(line)
        if match is None:
            return SimpleMatcherResult(completions=[])
        words = match[1].split(" ")
        fragment = words[-1]
        found_words = candidates(words[:-1], fragment, session)
        options = dict.fromkeys(text for text in found_words if text.startswith(fragment))
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type="nbckpt") for text in options],
            matched_fragment=fragment,
            suppress=bool(options),
            ordered=True,
        )

    setattr(matcher, _MARK, True)
    shell.Completer.custom_matchers.append(matcher)


def unregister(shell: InteractiveShell) -> None:
    """Remove the completion from a shell."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if not hasattr(matcher, _MARK)]


def candidates(before: list[str], fragment: str, session: Callable[[], Session]) -> Iterable[str]:
    """Return the words that can follow *before*, the likeliest first."""
    given = [word for word in before if word]
    if not given:
        return sorted(TABLE)
    if given[0] not in TABLE:
        return ()
    command = TABLE[given[0]]
    if fragment.startswith("-"):
        return sorted(flag for option in command.options for flag in option.flags if flag.startswith("--"))
    option = _option_at(command, given[1:])
    return _values(option, session(), fragment) if option else ()


def _option_at(command: Command, words: list[str]) -> Option | None:
    """Return the option or argument that the next word is a value of."""
    by_flag = {flag: option for option in command.options for flag in option.flags}
    last = by_flag.get(words[-1]) if words else None
    if last is not None and words[-1].startswith("-") and not last.switch:
        return last
    arguments = [option for option in command.options if not option.flags[0].startswith("-")]
    takes = {flag for flag, option in by_flag.items() if flag.startswith("-") and not option.switch}
    position = sum(
        not word.startswith("-") and (at == 0 or words[at - 1] not in takes) for at, word in enumerate(words)
    )
    return arguments[min(position, len(arguments) - 1)] if arguments else None


def _values(option: Option, session: Session, fragment: str) -> Iterable[str]:
    live = session.namespace or {}
    variables = sorted(name for name in live if name not in session.hidden and not name.startswith("__"))
    match option.kind:
        case "variable":
            return variables
        case "function":
            return [name for name in variables if callable(live[name])]
        case "command":
            return sorted(TABLE)
        case "name":
            return _names(_named(session.tracker))
        case "text" | "file":
            return ()
    kinds = option.kind.split(" or ")
    refs = _refs(session.tracker, fragment) if "ref" in kinds else []
    return [*refs, *_in_experiments(session.library, kinds[-1], fragment)]


def _in_experiments(library: Catalog, kind: str, fragment: str) -> Iterable[str]:
    """Yield the names of experiments, of the trials of the newest experiment, or of their checkpoints.

    There may be hundreds of checkpoints. So they are offered only after the trial is typed.
    """
    names = library.names()
    if kind in {"experiment", "trial", "any"}:
        yield from reversed(names)
    if kind not in {"trial", "step", "any"} or not names:
        return
    word, at, _ = fragment.partition("@")
    for trial in library.open().trials:
        for name in (trial.id, f"{names[-1]}/{trial.id}"):
            if not at:
                yield name
            elif kind in {"step", "any"} and name == word:
                yield from (f"{name}@{record.step}" for record in reversed(trial.checkpoints.records()))


def _named(tracker: Tracker, fragment: str = "") -> list[tuple[Ref, Entry]]:
    """Return the versions of names with their checkpoints; an empty list if the store cannot be read.

    Kept results of cells are among them only if the fragment has a letter of their prefix.
    """
    from nbckpt.core.names import CELL

    hidden = (" ",) if fragment and CELL.startswith(fragment[: len(CELL)]) else (" ", CELL)
    try:
        refs = [ref for ref in tracker.history.refs() if not any(part in ref.name for part in hidden)]
        return tracker.history.named(refs)
    except NbckptError:
        return []


def _names(named: Iterable[tuple[Ref, Entry]]) -> list[str]:
    """Return the names of checkpoints, newest first."""
    newest: dict[str, str] = {}
    for ref, entry in named:
        newest[ref.name] = max(newest.get(ref.name, ""), entry.moment)
    return sorted(newest, key=lambda name: newest[name], reverse=True)


def _refs(tracker: Tracker, fragment: str) -> Iterable[str]:
    """Yield names and `latest`. After the first letter also yield versions, newest first, and ids."""
    from nbckpt.core.references import SHORT

    named = _named(tracker, fragment)
    yield from _names(named)
    yield "latest"
    if not fragment:
        return
    yield from (str(ref) for ref, _ in reversed(named))
    try:
        yield from (entry.id[:SHORT] for entry in tracker.history.entries())
    except NbckptError:
        return
