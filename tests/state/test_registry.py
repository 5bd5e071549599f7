"""The registry of states: by name, weak, in their order. Any text is a name, each with its own file."""

from __future__ import annotations

import gc
import itertools
import os
import re
import subprocess
import sys
import threading
import unicodedata
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

import nbckpt
from nbckpt import UsageError
from nbckpt.states.folder import StateFolder
from nbckpt.states.registry import current
from nbckpt.states.save import file_name
from notebook.conftest import new_shell
from state.conftest import Number, restarted

pytestmark = pytest.mark.usefixtures("job")


def names() -> list[str]:
    return [name for name, _ in current.get().live()]


# Life and order.


def test_the_registry_keeps_no_state_alive() -> None:
    state = Number()
    gone = weakref.ref(state)
    del state
    assert (gone(), names()) == (None, [])
    Number()
    assert names() == []


def test_the_name_of_a_deleted_state_is_free() -> None:
    Number("a")
    state = Number("a", 3)
    assert current.get().find("a") is state


def made_in_turn(argument: int) -> list[str]:
    first = Number("first")
    second = Number("second", argument)
    del first
    return [*names(), second.__class__.__name__]


def test_a_new_state_keeps_no_other_local_variable_alive() -> None:
    assert made_in_turn(1) == ["second", "Number"]


@pytest.mark.slow
def test_a_state_in_a_cycle_exists_until_it_is_collected() -> None:
    state = Number()
    state.me = state  # type: ignore[attr-defined]
    del state
    gc.collect()
    assert names() == []


def test_states_keep_creation_order_also_with_a_reused_name() -> None:
    first = Number("z")
    kept = [Number("m")]
    del first
    kept += [Number("z"), Number("a")]
    assert names() == ["m", "z", "a"]


def test_a_closed_state_is_not_saved_and_its_name_is_free() -> None:
    state, other = Number("a"), Number("b")
    state.close()
    state.close()
    again = Number("a")
    state.close()
    assert names() == ["b", "a"]
    assert (other.value, again.value) == (0, 0)


@pytest.mark.parametrize("name", [5, None, b"a", Path("a")])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(UsageError, match="a state's name is text, not"):
        Number(name)
    assert names() == []


def test_a_missing_super_init_call_is_a_clear_error(tmp_path: Path) -> None:
    class Forgetful(nbckpt.State):
        def __init__(self) -> None:
            pass

    state = Forgetful()
    for call in (lambda: nbckpt.load_state(state), lambda: nbckpt.states.save_state(state, tmp_path / "x")):
        with pytest.raises(UsageError, match=r"Forgetful.__init__ must call super\(\).__init__"):
            call()
    state.close()
    assert not (tmp_path / "x").exists()


class Equal(Number):
    """Equal to every other, and so not to be hashed."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Same(Equal):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


@pytest.mark.parametrize("kind", [Equal, Same])
def test_states_that_compare_equal_are_still_different(job: Path, kind: type[Number]) -> None:
    one, other = kind("one", 1), kind("other", 2)
    with pytest.raises(UsageError, match="already exists"):
        kind("one")
    nbckpt.save_all_states()
    assert (restarted(job, "one"), restarted(job, "other")) == ((True, 1), (True, 2))
    one.close()
    assert names() == ["other"]
    assert nbckpt.load_state(other)


@pytest.mark.parametrize("when", ["sync", "save"])
def test_a_state_created_during_a_save_is_not_in_that_save(job: Path, when: str) -> None:
    """What is saved is what there was at the beginning."""
    made: list[Number] = []

    class Fruitful(Number):
        def sync(self) -> None:
            self.make("sync")

        def save(self, fileobj: IO[bytes]) -> None:
            self.make("save")
            super().save(fileobj)

        def make(self, now: str) -> None:
            if now == when:
                made.append(Number(f"child {len(made)}", 7))

    state = Fruitful("parent", 1)
    nbckpt.save_all_states()
    assert restarted(job, "child 0") == (False, -1)
    nbckpt.save_all_states()
    assert (restarted(job, "parent"), restarted(job, "child 0")) == ((True, 1), (True, 7))
    assert names() == ["parent", "child 0", "child 1"]
    del state


# Scopes and threads.


def test_a_block_has_states_of_its_own(tmp_path: Path) -> None:
    outer = Number("a", 1)
    with nbckpt.states.use_folder(tmp_path / "one") as registry:
        inner = Number("a", 2)
        assert registry is current.get()
        assert names() == ["a"]
        nbckpt.save_all_states()
        with nbckpt.states.use_folder(tmp_path / "two"):
            assert names() == []
            assert not nbckpt.load_state(inner)
    assert current.get().find("a") is outer
    assert restarted(tmp_path / "one", "a") == (True, 2)


def test_a_block_that_fails_ends_too(tmp_path: Path) -> None:
    before = current.get()
    with pytest.raises(ZeroDivisionError), nbckpt.states.use_folder(tmp_path):
        raise ZeroDivisionError
    assert current.get() is before


def test_a_block_covers_its_thread_and_copies_of_its_context(tmp_path: Path) -> None:
    is_current: list[bool] = []

    def look() -> None:
        is_current.append(current.get() is here)

    with nbckpt.states.use_folder(tmp_path) as here:
        context = copy_context()
        for target in (look, lambda: context.run(look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert is_current == [False, True]


@pytest.mark.slow
def test_threads_create_and_drop_states_during_saves(job: Path) -> None:
    registry = current.get()
    errors: list[BaseException] = []
    enough = threading.Event()
    numbers = itertools.count()

    def make(name: str) -> None:
        token = current.set(registry)
        try:
            while not enough.is_set():
                kept = [Number(f"{name} {next(numbers)}", 0) for _ in range(5)]
                assert len({id(state) for state in kept}) == 5
        except BaseException as error:
            errors.append(error)
        finally:
            current.reset(token)

    stays = Number("stays", 3)
    threads = [threading.Thread(target=make, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        nbckpt.save_all_states()
    enough.set()
    for thread in threads:
        thread.join()
    assert (errors, restarted(job, "stays"), stays.value) == ([], (True, 3), 3)


# The same name again.


def line_of(text: str) -> str:
    """Return the file and the number of a line of this file."""
    lines = [line.strip() for line in Path(__file__).read_text().splitlines()]
    return f"{Path(__file__).name}:{1 + lines.index(text)}"


def test_an_error_names_both_places_that_create_one_name() -> None:
    """Issue, item 5."""
    kept = Number("the first")
    again, first = "the first", 'kept = Number("the first")'
    message = f"{line_of('Number(again)')} makes it, and .*{line_of(first)} made it before"
    with pytest.raises(ValueError, match=f"'the first' already exists: .*{message}"):
        Number(again)
    assert kept.value == 0


def test_code_outside_cells_never_replaces_a_state() -> None:
    def make(value: int) -> Number:
        return Number("a", value)

    kept = make(0)
    with pytest.raises(UsageError, match="Choose another name, or close"):
        make(1)
    assert kept.value == 0


class Deep(Number):
    def __init__(self, name: str) -> None:
        self.prepare(name)

    def prepare(self, name: str) -> None:
        super().__init__(name)


def test_the_error_names_the_line_that_calls_the_class() -> None:
    """The line is the same for a class with nested constructors."""
    made, again = [Deep("a")], "a"
    with pytest.raises(UsageError, match=f"{line_of('made.append(Deep(again))')} makes it"):
        made.append(Deep(again))
    assert names() == ["a"]


CELL = """
import nbckpt
class Mine(nbckpt.State):
    value = {value}
    def save(self, file):
        file.write(b"%d" % self.value)
"""


class Cells:
    """A shell that runs cells, with or without their ids."""

    def __init__(self, shell: InteractiveShell, *, tells_ids: bool) -> None:
        self.shell = shell
        self.tells_ids = tells_ids
        self.id = ""

    def run(self, code: str, cell: str = "") -> Any:
        self.id = cell
        result = self.shell.run_cell(code, store_history=True)
        result.raise_error()
        return result.result

    def parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": self.id}}


@pytest.fixture(params=["ids", "no ids"])
def cells(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    """A notebook, in a front end that tells the cells' ids and in one that does not."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with new_shell() as shell:
        made = Cells(shell, tells_ids=request.param == "ids")
        if made.tells_ids:
            monkeypatch.setattr(shell, "get_parent", made.parent, raising=False)
        made.run(CELL.format(value=1))
        yield made
        shell.reset()


def saved(job: Path) -> list[bytes]:
    folder = nbckpt.save_all_states()
    assert folder is not None
    return [file.read_bytes() for file in sorted(Path(folder).glob("*.state"))]


@pytest.mark.slow
def test_a_cell_that_is_run_again_replaces_its_state(cells: Cells, job: Path) -> None:
    """The new one is the one that is saved."""
    for value in (1, 2, 3):
        cells.run(f"Mine.value = {value}")
        cells.run('kept = globals().get("kept", []); kept.append(Mine("a"))', "cell")
        assert saved(job) == [b"%d" % value]
    assert len(cells.run("kept")) == 3
    cells.run("kept[-1].close()")
    assert names() == []


@pytest.mark.slow
def test_a_cell_may_redefine_the_class_and_make_several_states(cells: Cells, job: Path) -> None:
    for value in (1, 2):
        code = CELL.format(value=value) + 'old = globals().get("new"); new = [Mine("a"), Mine("b")]'
        cells.run(code, "cell")
    assert saved(job) == [b"2", b"2"]
    assert cells.run("old[0].value, new[0].value") == (1, 2)


@pytest.mark.slow
def test_a_rerun_cell_replaces_the_state_that_its_function_made(cells: Cells) -> None:
    cells.run("def make(name):\n    return Mine(name)", "function")
    for _ in range(2):
        cells.run('old = globals().get("a"); a = make("a")', "cell")
    assert names() == ["a"]


@pytest.mark.slow
def test_a_rerun_cell_replaces_a_state_made_by_a_module(cells: Cells) -> None:
    for _ in range(2):
        cells.run('from state.conftest import remade\nold = globals().get("a")\na = remade("a")', "cell")
    assert names() == ["a"]


@pytest.mark.slow
def test_one_cell_cannot_make_two_states_of_one_name(cells: Cells) -> None:
    with pytest.raises(UsageError, match="'a' already exists"):
        cells.run('one = Mine("a")\nother = Mine("a")', "cell")
    with pytest.raises(UsageError, match="'b' already exists"):
        cells.run('many = [Mine("b") for _ in range(2)]', "other cell")


@pytest.mark.slow
def test_a_name_used_in_another_cell_fails_and_names_both_cells(cells: Cells) -> None:
    cells.run('one = Mine("a")', "cell")
    message = '`other = Mine("a")` makes it, and cell [2], `one = Mine("a")` made it before'
    with pytest.raises(UsageError, match=re.escape(f"'a' already exists: cell [3], {message}")):
        cells.run('other = Mine("a")', "other cell")
    assert cells.run("one.value") == 1


@pytest.mark.slow
def test_a_state_of_another_class_is_not_replaced(cells: Cells) -> None:
    cells.run("kept = []\nkind = Mine")
    cells.run('kept.append(kind("a"))', "cell")
    cells.run("class Other(Mine): pass\nkind = Other")
    with pytest.raises(UsageError, match="'a' already exists"):
        cells.run('kept.append(kind("a"))', "cell")


@pytest.mark.slow
def test_a_cell_that_fails_after_making_a_state_can_run_again(cells: Cells) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cells.run('one = Mine("a")\n1 / 0', "cell")
    assert names() == ["a"]


@pytest.mark.slow
def test_a_recreated_state_of_a_value_gives_no_warning(
    cells: Cells, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        cells.run('numbers = [1]\nkept = nbckpt.State.of("numbers", numbers)', "cell")
    cells.run("kept.value.append(2); nbckpt.save_all_states()")
    assert (names(), caplog.messages) == (["numbers"], [])


@pytest.mark.slow
def test_an_edited_cell_is_recognized_only_by_its_id(cells: Cells) -> None:
    cells.run('a = Mine("a")', "cell")
    if not cells.tells_ids:
        with pytest.raises(UsageError):
            cells.run('b = Mine("a")  # edited', "cell")
        return
    cells.run('b = Mine("a")  # edited', "cell")
    with pytest.raises(UsageError, match="cell"):
        cells.run('b = Mine("a")  # edited', "a copy of the cell")
    assert names() == ["a"]


PROMPT = """
import nbckpt

class Mine(nbckpt.State): pass

def make():
    return Mine("a")

old = make()
new = make()
one = Mine("b")
one_more = Mine("b")
both = [Mine("c") for _ in range(2)]
print([name for name, _ in nbckpt.states.registry.current.get().live()])
print(nbckpt.states.registry.current.get().find("a") is new)
"""


def test_a_program_with_an_ipython_shell_is_not_a_prompt(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import nbckpt\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance()\n"
        "kept = []\n"
        "try:\n"
        "    for _ in range(2):\n"
        "        kept.append(nbckpt.State('a'))\n"
        "except nbckpt.UsageError:\n"
        "    nbckpt.states.save_and_exit()\n"
    )
    env = os.environ | {
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "NBCKPT_CHECKPOINT_PATH": str(tmp_path / "job"),
    }
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (143, "")


def test_an_input_at_a_plain_prompt_replaces_earlier_states() -> None:
    done = subprocess.run([sys.executable, "-iq"], input=PROMPT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-2:] == ["['a', 'b', 'c']", "True"]
    assert done.stderr.count("UsageError: state 'c' already exists") == 1


ODD = [
    *("", ".", "..", "...", "../../x", "/etc/passwd", "x/y", "x\\y", "C:\\x", "c:x", "~", "~root", "a~b"),
    *("con", "CON", "nul", "nul.txt", "com1", "lpt9.x", "aux ", "aux.", "con.state", "conin$"),
    *("a", "A", "ä", "a\u0308", "ß", "ss", "ſ", "İ", "i\u0307", "K", "k", "ﬁ", "fi"),  # noqa: RUF001  are alike
    *(" a", "a ", "a.", "a\n", "a\0", "\x7f", "*?<>|\"'", "%41", "\ud800", "\udfff\ud800", "-rf", "$(x)"),
    *("a" * 80, "a" * 81, "a" * 82, "é" * 300, "x" * 100_000),
    *("manifest.json", "manifest", "n.state", ".nbckpt-tmp"),
]
# With what systems do not tell apart close together.
texts = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(categories=None), max_size=30),
    st.text("aAbB.~_-/\\ä1", max_size=6),
)


def folded(file: str) -> str:
    """Return what is equal for files that some system does not tell apart."""
    return unicodedata.normalize("NFKC", file.casefold()).casefold().rstrip(". ")


@pytest.mark.slow
@settings(max_examples=500)
@given(texts, texts)
def test_two_names_never_share_a_file_on_any_system(one: str, other: str) -> None:
    assume(one != other)
    assert folded(file_name(one)) != folded(file_name(other))


def test_no_two_odd_names_share_a_file() -> None:
    names = defaultdict(list)
    for name in ODD:
        names[folded(file_name(name))].append(name)
    assert [alike for alike in names.values() if len(alike) > 1] == []


@pytest.mark.slow
@settings(max_examples=500)
@given(texts)
def test_every_file_name_is_valid_and_safe_on_every_system(name: str) -> None:
    file = file_name(name)
    assert re.fullmatch(r"[a-z0-9._~-]{0,94}\.state", file)
    assert PurePosixPath(file).name == PureWindowsPath(file).name == file
    assert not PureWindowsPath(file).is_reserved()


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@example(ODD)
@given(st.lists(texts, min_size=1, max_size=5, unique=True))
def test_states_with_any_names_load_their_own_values(tmp_path: Path, names: list[str]) -> None:
    job = tmp_path / "job"
    with nbckpt.states.use_folder(job):
        kept = [Number(name, value) for value, name in enumerate(names)]
        nbckpt.save_all_states()
        for state in kept:
            state.close()
    assert [restarted(job, name) for name in names] == [(True, value) for value in range(len(names))]
    assert [entry.name for entry in tmp_path.iterdir()] == ["job"]
    newest = StateFolder(job).newest()
    assert newest is not None
    assert len(list(newest.folder.glob("*.state"))) == len(names)


def test_a_plain_name_is_also_the_file_name() -> None:
    names = ["model", "step-1", "epoch_2", ".adaptdl-epoch", "v1.0"]
    assert list(map(file_name, names)) == [f"{name}.state" for name in names]


def test_an_odd_name_is_recognizable_in_its_file_name() -> None:
    assert file_name("Model/Encoder 1").startswith("model_encoder_1~")
