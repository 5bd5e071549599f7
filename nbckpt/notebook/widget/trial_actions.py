"""What the panel does with trials. Each deed is a command; with `dry` it tells what the command would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbckpt.errors import NbckptError, UsageError
from nbckpt.notebook.widget.wires import Commands, Message, answer, listed, plain, said, text_of
from nbckpt.render import count
from nbckpt.trials.engine.experiment import Experiment

_MOST_WRONG = 4
_LOST = "They cannot go on later. Their checkpoints are kept."
_LOST_ONE = "It cannot go on later. Its checkpoints are kept."
_DOING = {"pause": "Pausing", "stop": "Stopping", "checkpoint": "Saving a checkpoint of"}
_DOING |= {"resume": "Resumed", "retry": "Started again:"}


def _on_each(verb: str, *options: str) -> Deed:
    """Return a deed that runs a command on each of the trials, or on the experiment if there are none."""

    def do(commands: Commands, experiment: str, ids: Sequence[str], asked: Mapping[str, Any]) -> Message:
        targets = targets_of(commands, experiment, ids)
        if asked.get("dry"):
            return _would(verb, experiment, ids)
        command = "resume" if verb == "retry" else verb
        more = () if ids else options
        failed, last = [], None
        for target in targets:
            try:
                last = commands.run(command, target, *more)
            except NbckptError as error:
                failed.append(plain(str(error)))
        if last is None:
            raise UsageError("; ".join(failed[:_MOST_WRONG]))
        done = f"{_DOING[verb]} {listed(ids) if ids else f'all trials of {experiment}'}."
        return answer(" ".join([done, *failed[:_MOST_WRONG]]))

    return do


def targets_of(commands: Commands, experiment: str, ids: Sequence[str]) -> list[str]:
    """Return the names of trials as commands take them; without ids, that of the experiment.

    Raises:
        NbckptError: There is no such experiment or trial.
    """
    if not experiment:
        raise UsageError("there is no experiment yet")
    opened: Experiment = commands.session().library.open(experiment)
    return [f"{experiment}/{opened.trial(name).id}" for name in ids] or [experiment]


def _would(verb: str, experiment: str, ids: Sequence[str]) -> Message:
    """Return what a deed would do, and the text of the button for it."""
    word = {"retry": "Retry", "checkpoint": "Save a checkpoint of"}.get(verb, verb.capitalize())
    which = listed(ids) if ids else f"all trials of {experiment}"
    lost = "" if verb != "stop" else f" {_LOST_ONE if len(ids) == 1 else _LOST}"
    number = count(len(ids), "trial") if ids else "all"
    return answer(f"{word} {which}?{lost}", confirm=f"{word} {number}")


def _one(commands: Commands, experiment: str, ids: Sequence[str]) -> str:
    if len(ids) != 1:
        raise UsageError("choose one trial")
    return targets_of(commands, experiment, ids)[0]


def _restore(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    """Restore the checkpoint of a trial: that of a step, or the newest."""
    target, step = _one(commands, experiment, ids), options.get("step")
    ref = f"{target}@{step}" if type(step) is int else target
    result = commands.run("restore", ref, *(["--dry-run"] if options.get("dry") else []))
    if not options.get("dry"):
        return said(result, undo=True)
    return said(result) | {"confirm": f"Restore {ids[0]}"}


def _note(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    target, text = _one(commands, experiment, ids), options.get("text")
    words = ["--", text] if isinstance(text, str) and text.strip() else ["--clear"]
    commands.run("note", target, *words)
    return answer(f"Wrote the note of {ids[0]}." if words[0] == "--" else f"Removed the note of {ids[0]}.")


def _tag(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    name = text_of(options, "name", "a tag")
    verb = "untag" if options.get("remove") else "tag"
    for target in targets_of(commands, experiment, ids) if ids else []:
        commands.run(verb, target, name)
    return answer(f"{'Removed' if verb == 'untag' else 'Added'} the tag {name}.")


def _undo(commands: Commands, experiment: str, ids: Sequence[str], options: Mapping[str, Any]) -> Message:
    del experiment, ids, options
    return said(commands.run("undo"), undo=True)


Deed = Callable[[Commands, str, Sequence[str], Mapping[str, Any]], Message]

DEEDS: Mapping[str, Deed] = {
    **{verb: _on_each(verb) for verb in ("pause", "resume", "stop", "checkpoint")},
    "retry": _on_each("retry", "--errored"),
    "restore": _restore,
    "note": _note,
    "tag": _tag,
    "undo": _undo,
}
"""What each verb does: with the trials of an experiment, and further options."""
