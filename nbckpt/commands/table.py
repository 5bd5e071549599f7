"""The command table: one definition per command, for the magic, the shell, the help and the completer."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, get_type_hints

from nbckpt.commands.options import Option, options_of
from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion

if TYPE_CHECKING:
    from nbckpt.cells.key import CellCode
    from nbckpt.mirror import AutoMirror
    from nbckpt.render import Result
    from nbckpt.sync.progress import Progress
    from nbckpt.timeline.auto import Auto
    from nbckpt.tracker import Tracker
    from nbckpt.tracker.cells import CellResults
    from nbckpt.trials import Catalog, Experiment

IN_NOTEBOOKS = frozenset({"save", "restore", "track", "cell", "panel", "auto", "redo", "checkout"})
"""Commands that need live variables or a notebook: a shell refuses them."""

EXIT_STATUS = "0 success, 1 error, 2 damage, 130 Ctrl-C, 128 + N after signal N"
"""The exit status of the command in a shell."""
_ONLY_THERE = "This command works only in a notebook or in IPython, after %load_ext nbckpt."
_ELSEWHERE = {
    **dict.fromkeys(("load", "open", "recover"), "restore"),
    **dict.fromkeys(("delete", "remove", "drop"), "rm"),
    **dict.fromkeys(("info", "describe", "view", "cat"), "show"),
    **dict.fromkeys(("clean", "cleanup", "prune"), "gc"),
    **dict.fromkeys(("revert", "rollback", "back"), "undo"),
    **dict.fromkeys(("upload", "backup"), "push"),
    **dict.fromkeys(("store", "commit"), "save"),
    "check": "verify",
    "download": "pull",
    "kill": "stop",
    "list": "ls",
    "log": "history",
}
"""Words for our commands that other tools use, so that somebody may try them here."""
_ALIKE = 0.75
"""How alike options must be to be suggested: all begin with hyphens."""


class Bar(Protocol):
    """A function that shows the progress of long work."""

    def __call__(self, done: int, total: int, transfer: Progress | None = None) -> None:
        """Show that *done* of *total* bytes are done, and the progress of a transfer if there is one."""


@dataclass(frozen=True)
class Body:
    """The code below a command, in a notebook.

    Attributes:
        code: The code.
        results: Returns the kept results of cells in the tracker's store.
    """

    code: CellCode
    results: Callable[[Tracker], CellResults]


@dataclass(frozen=True)
class Session:
    """The objects that a command works with.

    Attributes:
        tracker: The open tracker.
        auto: Syncs the store in the background.
        namespace: The live variables; None in a shell, which has no variables.
        hidden: Names in the namespace that are not the user's variables.
        history: The hidden names that hold earlier results of the notebook.
        where: The origin of the command: the cell, the notebook.
        progress: Shows the progress of long work.
        insert: Inserts text into a new cell.
        watch: Shows a result, and updates it at each change of its experiment until the experiment ends.
        run_cell: Runs the source of a cell. Returns its error as text; empty if there is none.
        panel: Shows the panel with the given tab in front.
        points: Makes a point after each cell; None in a shell.
        table: All commands.
        face: How users write a command here: `%ckpt` or `nbckpt`.
        body: The code below the command; None if there is none.
    """

    tracker: Tracker
    auto: AutoMirror
    namespace: dict[str, Any] | None = None
    hidden: Container[str] = frozenset()
    history: frozenset[str] = frozenset()
    where: Mapping[str, Any] = field(default_factory=dict)
    progress: Bar | None = None
    insert: Callable[[str], None] | None = None
    watch: Callable[[Result, Experiment], None] | None = None
    run_cell: Callable[[str], str] | None = None
    panel: Callable[[str], None] | None = None
    points: Auto | None = None
    table: Mapping[str, Command] = field(default_factory=dict)
    face: str = "%ckpt"
    body: Body | None = None

    @property
    def library(self) -> Catalog:
        """The experiments that belong to the store.

        Raises:
            UsageError: The folder of the experiments is a link out of the store.
        """
        from nbckpt.trials.catalog import Catalog
        from nbckpt.trials.home import experiments_folder, inside_store

        return Catalog(inside_store(experiments_folder(self.tracker.store.url)))

    def live(self, command: str) -> dict[str, Any]:
        """Return the live variables.

        Raises:
            UsageError: This is a shell, which has no live variables.
        """
        if self.namespace is None:
            raise UsageError(
                f"`{command}` needs live variables, which a shell does not have: "
                "use it in a notebook or in IPython, after %load_ext nbckpt"
            )
        return self.namespace


@dataclass(frozen=True)
class Command:
    """One row of the table.

    Attributes:
        name: The name that users type.
        run: The function that runs the command; the first line of its docstring is the help.
    """

    name: str
    run: Callable[..., Result | None]

    @property
    def help(self) -> str:
        """One line about the command."""
        return (inspect.getdoc(self.run) or "").split("\n", 1)[0]

    @property
    def description(self) -> str:
        """All sentences about the command, without those about its options."""
        return (inspect.getdoc(self.run) or "").partition("\n\nArgs:")[0]

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The arguments and options."""
        return options_of(self.run)


class HelpRequest(Exception):  # noqa: N818  not an error: it leaves argparse
    """The user asked for help on one command or on all commands."""

    def __init__(self, command: str, text: str) -> None:
        super().__init__(text)
        self.command = command
        self.text = text


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises errors. The standard one exits the process, which is the kernel here."""

    def error(self, message: str) -> NoReturn:
        face, _, command = self.prog.partition(" ")
        raise UsageError(f"{message}. See `{face} help{command and ' ' + command}`")


class _HelpAction(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise HelpRequest(parser.prog.partition(" ")[2], parser.format_help().strip())


def build_parser(table: Mapping[str, Command], prog: str) -> argparse.ArgumentParser:
    """Return a parser for all commands of the table; *prog* is the program name, `%ckpt` or `nbckpt`.

    A shell shows the usage of a command that it refuses as a notebook has it, and says so.
    """
    parser = _Parser(prog=prog, add_help=False, exit_on_error=True)
    _add_common(parser, store=True)
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", parser_class=_Parser)
    for command in table.values():
        refused = prog == "nbckpt" and command.name in IN_NOTEBOOKS
        sub = verbs.add_parser(
            command.name,
            add_help=False,
            prog=f"{'%ckpt' if refused else prog} {command.name}",
            description=command.description,
            epilog=_ONLY_THERE if refused else None,
        )
        _add_common(sub, store=all("--store" not in option.flags for option in command.options))
        for option in command.options:
            sub.add_argument(*option.flags, help=option.help.replace("%", "%%"), **option.extra)
    return parser


@cache
def _parser_of(command: Command, face: str) -> argparse.ArgumentParser:
    return build_parser({command.name: command}, face)


def _add_common(parser: argparse.ArgumentParser, *, store: bool) -> None:
    parser.add_argument(
        "-h",
        "--help",
        nargs=0,
        action=_HelpAction,
        default=argparse.SUPPRESS,
        help="Show this help.",
    )
    if store:
        text = "The folder or URL of the store for this command."
        parser.add_argument("--store", default=argparse.SUPPRESS, metavar="STORE", help=text)
    for flag, text in (
        ("--json", "Show the result as JSON."),
        ("--schema", "Show the JSON Schema of --json."),
    ):
        parser.add_argument(
            flag, dest="form", action="store_const", const=flag[2:], default=argparse.SUPPRESS, help=text
        )


@dataclass(frozen=True)
class Request:
    """A parsed command line.

    Attributes:
        command: The command to run.
        arguments: The arguments of the command.
        store: The value of `--store`, or None.
        form: `json` for the result as JSON, `schema` for the schema of that JSON, which runs nothing.
    """

    command: Command
    arguments: Mapping[str, Any]
    store: str | None
    form: Literal["", "json", "schema"] = ""

    def run(self, session: Session) -> Result | None:
        """Run the command. Return its result, or None if the command has shown everything itself."""
        if not self.form:
            return self._run(session)
        from nbckpt.render.json import AsJson, Schema

        if self.form == "schema":
            return Schema(get_type_hints(self.command.run)["return"])
        result = self._run(replace(session, watch=None))
        return None if result is None else AsJson(result)

    def _run(self, session: Session) -> Result | None:
        arguments = dict(self.arguments)
        words: list[Any] = []
        for option in self.command.options:
            if option.is_argument:
                value = arguments.pop(option.name)
                words += value if option.many else [value]
        return self.command.run(session, *words, **arguments)


def parse(table: Mapping[str, Command], words: Sequence[str], face: str) -> Request:
    """Parse *words*. No words mean `status`, `--help` alone means `help`; `--version` is answered, too.

    Only the named command is looked up in the table.

    Raises:
        UsageError: The words are not a valid command.
        HelpRequest: The words ask for help or for the version.
    """
    verb = _verb(words)
    if not verb:
        if "--version" in words:
            from importlib.metadata import version

            raise HelpRequest("", f"nbckpt {version('nbckpt')}")
        asks_for_help = not {"-h", "--help"}.isdisjoint(words)
        verb, words = ("help", ["help"]) if asks_for_help else ("status", words)
    if verb not in table:
        raise no_command(table, verb, face)
    command = table[verb]
    if "--schema" in words:  # of a command whose arguments may be missing
        return Request(command, {}, None, "schema")
    # argparse of Python 3.11 takes the `--` in such a word for the end of all options, and gives a list.
    if bare := next((word for word in words if word[:2] == "--" and word.partition("=")[2] == "--"), ""):
        raise UsageError(f"{bare} has no value. See `{face} help {verb}`")
    parsed, left = _parser_of(command, face).parse_known_args(list(words))
    arguments = vars(parsed)
    if left and not _take_in(command, arguments, left):
        flags = [flag for option in command.options for flag in option.flags]
        hint = suggestion(left[0].partition("=")[0], flags, _ALIKE)
        raise UsageError(f"{verb} takes no {left[0]!r}. {hint}See `{face} help {verb}`")
    arguments.pop("verb")
    store = arguments.pop("store", None)
    return Request(command, arguments, store, arguments.pop("form", ""))


def no_command(table: Mapping[str, Command], verb: str, face: str) -> UsageError:
    """Return the error about a command that does not exist."""
    hint = suggestion(_ELSEWHERE.get(verb, verb), table)
    return UsageError(f"{verb!r} is not a command. {hint}List the commands with `{face} help`.")


def _verb(words: Sequence[str]) -> str:
    """Return the command's name: the first word that is neither an option nor the value of `--store`."""
    pairs = zip(("", *words), words, strict=False)
    return next((word for before, word in pairs if before != "--store" and not word.startswith("-")), "")


def _take_in(command: Command, arguments: dict[str, Any], left: Sequence[str]) -> bool:
    """Add words after an option, which argparse leaves over, to the argument that takes any number of words.

    Return False if the command has no such argument.
    """
    many = [option.name for option in command.options if option.many]
    if not many or any(word.startswith("-") for word in left):
        return False
    arguments[many[0]] = [*arguments[many[0]], *left]
    return True
