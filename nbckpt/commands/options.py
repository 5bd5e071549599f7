"""Options: the arguments and options of a command, from its function's signature and docstring.

See docs/decisions/0069.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Kind = Literal[
    "ref",
    "variable",
    "name",
    "file",
    "command",
    "text",
    "function",
    "experiment",
    "trial",
    "ref or trial",
    "ref or step",
    "ref or experiment",
    "ref or any",
]
_SHORT = {"message": "-m", "exclude": "-x", "most": "-n", "output": "-o"}
"""The short form of an option, the same in every command."""


@dataclass(frozen=True)
class Word:
    """How users write the value of a parameter; for `Annotated`.

    Attributes:
        metavar: The placeholder of the value in the help.
        kind: The kind of the value, which the completer uses.
        help: The help for commands whose docstring does not describe the parameter.
    """

    metavar: str
    kind: Kind = "text"
    help: str = ""


Text = Annotated[str, Word("TEXT")]
Name = Annotated[str, Word("NAME", "name")]
Variable = Annotated[str, Word("VAR", "variable")]
File = Annotated[str, Word("FILE", "file")]
Reference = Annotated[str, Word("REF", "ref")]
Step = Annotated[
    str, Word("REF", "ref or step", "A checkpoint; EXP/t3@10 or t3@10 for a checkpoint of a trial.")
]
Item = Annotated[str, Word("REF|EXP", "ref or experiment")]
Exportable = Annotated[str, Word("REF|EXP", "ref or any")]
ExperimentName = Annotated[str, Word("EXP", "experiment", "An experiment; by default the newest.")]
Target = Annotated[
    str,
    Word("EXP|TRIAL", "trial", "An experiment or a trial, EXP/t3 or t3; by default the newest experiment."),
]
Metric = Annotated[str, Word("M", help="The metric that ranks trials; a/b means the key b of the dict a.")]
Mode = Annotated[
    Literal["", "min", "max"], Word("", help="Whether the smallest or the largest value is the best.")
]
Number = Annotated[int, Word("N")]
PageNumber = Annotated[int, Word("K", help="The page to show.")]
DryRun = Annotated[bool, Word("", help="Only show what would happen.")]


@dataclass(frozen=True)
class Option:
    """An argument or option of a command.

    Attributes:
        name: The name of the function's parameter.
        flags: The names on a command line; an argument has one name without dashes.
        help: One line for the help.
        kind: The kind of its values, which the completer uses.
        extra: More arguments for argparse.
    """

    name: str
    flags: tuple[str, ...]
    help: str
    kind: Kind = "text"
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_argument(self) -> bool:
        """Whether it is an argument, which has no dashes."""
        return not self.flags[0].startswith("-")

    @property
    def many(self) -> bool:
        """Whether it is an argument that takes any number of words."""
        return self.extra.get("nargs") == "*"

    @property
    def switch(self) -> bool:
        """Whether it is an option that takes no value."""
        return self.extra.get("action") == "store_true"


def options_of(run: Callable[..., Any]) -> tuple[Option, ...]:
    """Return the arguments and options of a command.

    A positional parameter is an argument, and `*words` is an argument that takes any number of words. A
    keyword-only parameter is an option: a switch if it is a bool, repeatable if it is a `Sequence`, with
    several values if it is a `tuple`. The first parameter is the session.
    """
    hints = get_type_hints(run, include_extras=True)
    helps = _helps(inspect.getdoc(run) or "")
    _, *parameters = inspect.signature(run).parameters.values()
    return tuple(
        _option(parameter, hints[parameter.name], helps.get(parameter.name, "")) for parameter in parameters
    )


def _helps(doc: str) -> dict[str, str]:
    """Return the texts of the Args section of a docstring."""
    section = doc.partition("\nArgs:\n")[2].split("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _option(parameter: inspect.Parameter, hint: Any, text: str) -> Option:
    name, default = parameter.name, parameter.default
    type_, choices, word, values = _value(hint)
    extra: dict[str, Any] = {"type": type_} | ({"choices": choices} if choices else {})
    if word.metavar:
        extra["metavar"] = word.metavar
    if values > 1:
        extra |= {"nargs": values, "metavar": tuple(word.metavar.split())}
    if parameter.kind is parameter.VAR_POSITIONAL:
        extra |= {"nargs": "*", "default": []}
    elif parameter.kind is not parameter.KEYWORD_ONLY:
        extra |= {} if default is parameter.empty else {"nargs": "?", "default": default}
    elif type_ is bool:
        extra = {"action": "store_true"}
    else:
        extra |= {"action": "append", "default": []} if default == () else {"default": default}
    flags: tuple[str, ...] = (name,)
    if parameter.kind is parameter.KEYWORD_ONLY:
        flags = (*filter(None, [_SHORT.get(name)]), "--" + name.strip("_").replace("_", "-"))
        extra["dest"] = name
    shown = f" (default: {default})" if default and isinstance(default, (int, float, str)) else ""
    return Option(name, flags, ((text or word.help) + shown).strip(), word.kind, extra)


def _value(hint: Any) -> tuple[Any, Sequence[str], Word, int]:
    """Return the type of a value of a parameter, its choices, how users write it, and how many there are."""
    word, values = Word(""), 1
    while (origin := get_origin(hint)) not in {None, Literal}:
        if origin is Annotated:
            word = hint.__metadata__[0]
        elif origin is tuple:
            values = len(get_args(hint))
        hint = get_args(hint)[0]  # of `Sequence[X]`, `X | None` and `Annotated[X, …]`
    if not origin:
        return hint, (), word, values
    return str, [choice for choice in get_args(hint) if choice], word, values
