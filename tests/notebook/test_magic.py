"""%ckpt in a real shell: words of a line, variables, and classes of the notebook."""

from __future__ import annotations

import ast
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import provisionalcompleter

import nbckpt
from nbckpt.commands.restoring import RestoreResult
from nbckpt.core.memory.pages import page_record
from nbckpt.errors import UsageError
from nbckpt.notebook import names
from nbckpt.notebook.stores import OpenStores
from nbckpt.notebook.tokenize import split
from nbckpt.render import Page
from notebook.conftest import Notebook


def completions(notebook: Notebook, text: str) -> list[str]:
    with provisionalcompleter():
        completions = list(notebook.shell.Completer.completions(text, len(text)))
    assert all(completion.type == "nbckpt" for completion in completions)
    return [completion.text for completion in completions]


def test_deleted_variables_are_restored(notebook: Notebook) -> None:
    notebook.run("import numpy as np; a = np.arange(5.); b = a", "%ckpt save work a b", "del a, b")
    assert notebook.after("%ckpt restore work")["a"].tolist() == [0, 1, 2, 3, 4]
    assert notebook.names["b"] is notebook.names["a"]


def test_a_save_of_everything_leaves_out_ipythons_variables(notebook: Notebook) -> None:
    saved = notebook.run("x = 1", "x", "%ckpt save").saved
    assert [value.name for value in saved.manifest.values if "." not in value.name] == ["x"]
    assert str(saved.ref) == "session@1"


def test_all_includes_earlier_results(notebook: Notebook) -> None:
    saved = notebook.run("40 + 2", "%ckpt save --all").saved
    names = {value.name for value in saved.manifest.values}
    assert "_" in names
    assert names.isdisjoint({"In", "Out", "get_ipython", "_i", "_oh"})


def test_a_name_of_ipython_that_the_user_assigned_is_saved(notebook: Notebook) -> None:
    notebook.run("for exit in [5]: pass", "%ckpt save n exit", "for exit in [6]: pass", "%ckpt restore n")
    assert notebook.names["exit"] == 5


def test_undo_restores_the_same_object(notebook: Notebook) -> None:
    live = notebook.after("a = [1]", "%ckpt save n", "a = [2]; b = 3")["a"]
    assert notebook.after("%ckpt restore n")["a"] == [1]
    assert notebook.after("%ckpt undo")["a"] is live
    assert notebook.after("%ckpt undo")["a"] == [1]


def test_a_restore_makes_its_page_once(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook.run("a = 1", "%ckpt save n")
    made: list[Page] = []
    page = RestoreResult.page
    monkeypatch.setattr(RestoreResult, "page", lambda result: made.append(page(result)) or made[-1])
    notebook.run("%ckpt restore n")
    assert len(made) == 1


def test_a_dry_run_of_restore_changes_nothing(notebook: Notebook) -> None:
    notebook.run("a = [1]; same = 'x'; gone = 2", "%ckpt save n", "a = [2]; del gone")
    result = notebook.run("%ckpt restore n --dry-run")
    assert dict(result.restored.changes) == {"a": "changed", "same": "same", "gone": "new"}
    assert notebook.names["a"] == [2]
    assert "gone" not in notebook.names


def test_a_prefix_does_not_change_the_live_variables(notebook: Notebook) -> None:
    notebook.run("a = 1", "%ckpt save n", "a = 2", "%ckpt restore n --as old_")
    assert (notebook.names["a"], notebook.names["old_a"]) == (2, 1)
    for prefix in ("1", "'a b'", "old-"):
        assert "no variable's name begins so" in notebook.error(f"%ckpt restore n --as {prefix}")


def test_a_pattern_restores_every_match(notebook: Notebook) -> None:
    notebook.run("df_a, df_b, other = 1, 2, 3", "%ckpt save n", "df_a = df_b = other = 0")
    notebook.run("%ckpt restore n df_*")
    assert [notebook.names[name] for name in ("df_a", "df_b", "other")] == [1, 2, 0]


def test_an_unpicklable_object_is_named_and_the_rest_is_saved(notebook: Notebook) -> None:
    """The name is the path to the object inside the variable."""
    notebook.run("class Loader: pass\nloader = Loader(); loader.file = open('x', 'w'); ok = 1")
    result = notebook.run("%ckpt save n")
    notebook.run("loader.file.close()")
    assert [skip.path for skip in result.saved.manifest.skipped] == ["loader.file: _io.TextIOWrapper"]
    assert "loader.file: _io.TextIOWrapper" in str(result)
    assert [value.name for value in result.saved.manifest.values if value.name == "ok"] == ["ok"]


def test_a_checkpoint_named_like_a_variable_says_what_it_holds(notebook: Notebook) -> None:
    assert "To save only the variable: %ckpt save x x" in str(notebook.run("x, y = 1, 2", "%ckpt save x"))
    assert "that variable was not saved: %ckpt save NAME x y" in str(notebook.run("%ckpt save x y"))
    assert not notebook.run("%ckpt save x x y").warns
    assert not notebook.run("%ckpt save n x y").warns


def test_restoring_a_skipped_variable_names_the_reason(notebook: Notebook) -> None:
    notebook.run("g = (i for i in ()); ok = 1", "%ckpt save n")
    assert "It was not saved (g: generator" in notebook.error("%ckpt restore n g")


def test_a_cell_is_run_and_then_saved(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    result = notebook.run("%%ckpt save n -m 'all at once'\nx = 20\nx + 1")
    assert "21" in capsys.readouterr().out
    assert notebook.names["x"] == 20
    assert result.saved.manifest.provenance["cell"]["source"].endswith("x = 20\nx + 1")


def test_a_failing_cell_raises_and_is_not_saved(notebook: Notebook) -> None:
    assert notebook.error("%%ckpt save n\n1 / 0").startswith("ZeroDivisionError")
    assert notebook.run("%ckpt ls").total == 0


def test_a_cell_with_await_is_a_clear_error(notebook: Notebook) -> None:
    assert "await" in notebook.error("%%ckpt save n\nimport asyncio\nawait asyncio.sleep(0)")


ERRORS = {
    "%ckpt restore nope": "has none. Make one in a notebook with `%ckpt save`",
    "%ckpt save n nope": "there is no variable 'nope'",
    "%ckpt sav": "Did you mean 'save'?",
    "%ckpt ls --nope": "ls takes no '--nope'",
    "%ckpt save 'a@b'": "cannot be a checkpoint's name",
    '%ckpt save -m "open': "close the quotation marks",
    "%ckpt undo": "the trash is empty. Cells of a notebook are undone while %ckpt auto is on; %ckpt history",
    "%ckpt restore": "required: REF. See",
    "%%ckpt ls\n1": "%%ckpt works only with save",
}


def test_an_error_is_one_line_with_advice(notebook: Notebook, subtests: pytest.Subtests) -> None:
    for cell, words in ERRORS.items():
        with subtests.test(cell):
            said = notebook.error(cell)
            assert said.startswith("UsageError: ")
            assert words in said


def test_braces_and_dollars_are_not_expanded(notebook: Notebook) -> None:
    assert notebook.run("x = 1", "%ckpt save n -m '{x} $x'").saved.manifest.message == "{x} $x"


def test_the_snippet_restores_without_magics(notebook: Notebook) -> None:
    code = notebook.run("x = [1]", "%ckpt save n", "%ckpt snippet n").code
    notebook.run("del x")
    exec(code, notebook.names)
    assert notebook.names["x"] == [1]


def test_the_cell_and_the_packages_are_kept(notebook: Notebook) -> None:
    provenance = notebook.run("import numpy as np; x = np.zeros(2)", "%ckpt save n").saved.manifest.provenance
    assert provenance["cell"] == {"count": 3, "source": "%ckpt save n"}
    assert provenance["packages"]["numpy"] == np.__version__


def test_a_password_in_the_cell_is_not_kept_with_the_checkpoint(notebook: Notebook) -> None:
    manifest = notebook.run("url = 'sftp://me:pw@host/x'\n%ckpt save n").saved.manifest
    assert manifest.provenance["cell"]["source"] == "url = 'sftp://me:***@host/x'\n%ckpt save n"


def test_an_unknown_variable_in_a_url_shows_no_password(notebook: Notebook) -> None:
    assert "me:***@$host" in (said := notebook.error("%ckpt push sftp://me:pw@$host/x"))
    assert "pw@" not in said


def test_the_verbs_are_completed(notebook: Notebook) -> None:
    assert completions(notebook, "%ckpt re") == ["redo", "reproduce", "restore", "results", "resume"]
    assert "snippet" in completions(notebook, "x = 1\n%ckpt ")


def test_references_variables_and_options_are_completed(notebook: Notebook) -> None:
    notebook.run("apple = 1; avocado = 2", "%ckpt save morning")
    assert completions(notebook, "%ckpt restore mor") == ["morning", "morning@1"]
    assert completions(notebook, "%ckpt restore morning a") == ["apple", "avocado"]
    assert completions(notebook, "%ckpt restore lat") == ["latest"]
    assert completions(notebook, "%ckpt save --m") == ["--message"]
    assert completions(notebook, "%ckpt save n -x av") == ["avocado"]
    assert completions(notebook, "%%ckpt sa") == ["save"]


def test_completion_offers_own_names_first_and_ids_by_prefix(notebook: Notebook) -> None:
    notebook.run("import nbckpt\ndef f(config):\n    for i in range(9): nbckpt.report(checkpoint={'i': i})")
    notebook.run("x = 1\nr = %ckpt save zebra x\nr = %ckpt save apple x\nr = %ckpt save zebra x")
    notebook.run("r = %ckpt run f --name e --executor inline --wait")
    assert completions(notebook, "%ckpt restore ") == ["zebra", "apple", "latest", "t0", "e/t0"]
    assert completions(notebook, "%ckpt restore zebra@") == ["zebra@2", "zebra@1"]
    assert completions(notebook, "%ckpt restore e/t0@") == [f"e/t0@{at}" for at in range(9, 0, -1)]
    assert completions(notebook, "%ckpt restore t0@1") == ["t0@1"]
    entry = notebook.run("l = %ckpt ls\nl.rows[0].id")
    assert completions(notebook, f"%ckpt restore {entry[:3]}") == [entry[:8]]


def test_completion_leaves_out_names_without_checkpoint(notebook: Notebook) -> None:
    notebook.run("x = 1\nr = %ckpt save zebra")
    for key in ("zebra/00000002", "zeal/00000001"):
        nbckpt.Tracker().store.put(f"refs/{key}-{'f' * 64}", b"")  # a save that died
    assert completions(notebook, "%ckpt restore ze") == ["zebra", "zebra@1"]


def test_the_extension_can_be_loaded_again_and_unloaded(notebook: Notebook) -> None:
    notebook.run("%load_ext nbckpt", "%reload_ext nbckpt", "x = 1", "%ckpt save n")
    assert completions(notebook, "%ckpt rest") == ["restore"]
    notebook.run("%unload_ext nbckpt")
    assert "ckpt" not in notebook.shell.magics_manager.magics["line"]
    assert notebook.run("%load_ext nbckpt", "%ckpt ls").total == 1


def test_the_store_stays_in_place_after_a_chdir(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("x = 1", "%ckpt save n")
    (tmp_path / "elsewhere").mkdir()
    assert notebook.run("import os; os.chdir('elsewhere')", "%ckpt ls").total == 1


def test_a_command_accepts_another_store(notebook: Notebook, tmp_path: Path) -> None:
    assert notebook.run("x = 1", f"%ckpt save n --store '{tmp_path / 'other store'}'", "%ckpt ls").total == 0
    assert notebook.run(f"%ckpt ls --store '{tmp_path / 'other store'}'").total == 1


def test_doctor_finds_a_store_that_is_read_only(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbckpt.commands.about.os.access", lambda *_: False)
    result = notebook.run("%ckpt doctor")
    assert str(result).startswith("Found 1 problem.")
    assert "nothing can be saved, because " in str(result)
    assert result.exit_status == 1


def test_doctor_tells_whether_the_page_record_is_used(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding() -> str:
        checks = notebook.run("%ckpt doctor").checks
        return next(check.finding for check in checks if check.name == "page record")

    assert finding().startswith("used: " if not page_record().round().why_not else "not used, ")
    monkeypatch.setenv("NBCKPT_PAGE_RECORD", "0")
    assert finding().endswith("it is turned off by NBCKPT_PAGE_RECORD=0")


def test_doctor_names_the_problems(notebook: Notebook) -> None:
    result = notebook.run("bad = {'k': [open('x', 'w')]}", "%ckpt doctor")
    notebook.run("bad['k'][0].close()")
    assert [culprit[1] for culprit in result.culprits] == ["bad['k'][0]: _io.TextIOWrapper"]
    assert all(check.good for check in result.checks)
    assert str(result).startswith("Found 1 variable that cannot be saved.")
    assert str(notebook.run("del bad\n%ckpt doctor")).startswith("No problem found.")


def test_two_threads_open_one_tracker(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    inside, go = threading.Event(), threading.Event()

    class Slow(nbckpt.Tracker):
        def __init__(self, *given: Any) -> None:
            made.append(self)
            inside.set()
            go.wait(60)
            super().__init__(*given)

    monkeypatch.setattr("nbckpt.tracker.Tracker", Slow)
    monkeypatch.setattr(notebook.magics, "stores", OpenStores(notebook.shell))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(notebook.magics.stores.open, None)
        assert inside.wait(60)
        second = pool.submit(notebook.magics.stores.open, None)
        go.set()
        assert first.result(60) == second.result(60)
    assert len(made) == 1


def test_a_thread_tells_the_users_names_while_a_cell_binds_more(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def binds(name: str) -> str | None:
        notebook.names[f"new_{name}"] = 1
        return "history" if name == "hidden" else None

    notebook.run("hidden = 1")
    monkeypatch.setattr(names, "kind_of", binds)
    assert "hidden" in names.hidden_names(notebook.shell)
    assert names.history_names(notebook.shell) == {"hidden"}


def test_doctor_tells_of_a_name_that_is_deleted_meanwhile(notebook: Notebook) -> None:
    notebook.run(
        "class Deletes:\n    def __reduce__(self): globals().pop('later', None); raise TypeError('no')\n"
        "first, later = Deletes(), (i for i in 'ab')"
    )
    shown = str(notebook.run("_d = %ckpt doctor\n_d"))
    assert "first" in shown
    assert "later" in shown


CLASS = """
import math

class Circle:
    corners = 0

    def area(self):
        return math.pi

circle = Circle()
"""


def test_diff_does_not_change_live_classes(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; circle.size = 2", "%ckpt diff shapes")
    assert notebook.run("Circle.corners") == 1
    assert notebook.run("circle.area()") == pytest.approx(3.14159, abs=1e-5)


def test_an_instance_restored_alone_has_the_live_class(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; del circle", "%ckpt restore shapes circle")
    assert notebook.run("type(circle) is Circle, circle.corners") == (True, 1)


def test_restore_replaces_a_live_class_and_undo_brings_it_back(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; live = Circle")
    notebook.run("%ckpt restore shapes Circle circle")
    assert notebook.run("type(circle) is Circle, Circle.corners, live.corners") == (True, 0, 1)
    notebook.run("%ckpt undo")
    assert notebook.run("Circle is live, Circle.corners, type(circle) is live") == (True, 1, True)


def test_a_save_does_not_change_live_classes(notebook: Notebook) -> None:
    notebook.run("class Odd:\n    def __getstate__(self): return {}\n    def hi(self): return 1\nodd = Odd()")
    before = notebook.run("Odd.hi")
    assert notebook.run("%ckpt save odd", "Odd.hi") is before


def test_a_restored_class_counts_as_unchanged(notebook: Notebook) -> None:
    notebook.run(CLASS)
    notebook.run("class Disc(Circle):\n    def __init__(self):\n        self.radius = 2\ndisc = Disc()")
    first = notebook.run("%ckpt save shapes").saved.manifest.values
    differences = notebook.run("%ckpt restore shapes", "%ckpt diff shapes").compared.differences
    names = ["Circle", "Disc", "circle", "disc", "math"]
    assert {difference.name: difference.change for difference in differences} == dict.fromkeys(names, "same")
    second = notebook.run("%ckpt save shapes").saved.manifest.values
    assert {value.name: value.digest for value in second} == {value.name: value.digest for value in first}


def test_an_enum_is_restored_as_itself(notebook: Notebook) -> None:
    notebook.run("import enum\nclass Colour(enum.Enum):\n    RED = 1\nc = Colour.RED", "%ckpt save colours")
    assert notebook.run("del c, Colour", "%ckpt restore colours", "c is Colour.RED, c.value") == (True, 1)


LINES = {
    "run f a=[[1, 2], [3, 4]]": ["run", "f", "a=[[1, 2], [3, 4]]"],
    "run f a=[[1, 2],[3, 4]] b=2": ["run", "f", "a=[[1, 2],[3, 4]]", "b=2"],
    "run f a={'k': (1, [2, 3])} --wait": ["run", "f", "a={'k': (1, [2, 3])}", "--wait"],
    "run f a=[']', \"[\"] b=1": ["run", "f", "a=[']', \"[\"]", "b=1"],
    "run f a='x y' b=\"it's\"": ["run", "f", "a='x y'", 'b="it\'s"'],
    r"run f a='it\'s here' b=1": ["run", "f", r"a='it\'s here'", "b=1"],
    "run f a='''x 'y' z''' b=1": ["run", "f", "a='''x 'y' z'''", "b=1"],
    "run f --grid a=[1, 2],[3, 4] --name 'my e'": ["run", "f", "--grid", "a=[1, 2],[3, 4]", "--name", "my e"],
    "run f --grid=a=[1, 2],[3]": ["run", "f", "--grid=a=[1, 2],[3]"],
    "run f m/a=(1, (2, 3))": ["run", "f", "m/a=(1, (2, 3))"],
    "run 'my file(1.py:f' a=1": ["run", "my file(1.py:f", "a=1"],
    "run file(1.py:f a=1": ["run", "file(1.py:f", "a=1"],
    "run f  a=1\tb=2 ": ["run", "f", "a=1", "b=2"],
    "save n -m 'two words'": ["save", "n", "-m", "two words"],
}


UNCLOSED = {
    "run f a=[1, 2": "close the brackets, ']' is missing.",
    "run f a={'k': [1}": "close the brackets, ']' is missing.",
    "run f a='x": "close the quotation marks.",
    "run f a=[']": "close the quotation marks.",
    "run 'f a=1": "close the quotation marks.",
    "save 'f": "close the quotation marks.",
    "save f\\": "a backslash stands at its end.",
}


def test_a_line_is_split_into_words(subtests: pytest.Subtests) -> None:
    for line, words in LINES.items():
        with subtests.test(line):
            assert split(line) == words


def test_an_unclosed_quote_or_bracket_is_named(subtests: pytest.Subtests) -> None:
    for line, said in UNCLOSED.items():
        with subtests.test(line), pytest.raises(UsageError) as caught:
            split(line)
        assert str(caught.value) == f"cannot read {line!r}: {said}"


values = st.recursive(
    st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner, inner), st.tuples(inner)
    ),
    max_leaves=12,
).filter(lambda value: "inf" not in repr(value))


@pytest.mark.slow
@given(st.lists(values, max_size=4))
def test_every_literal_is_one_word(given_values: list[object]) -> None:
    words = split("run f " + " ".join(f"k{at}={value!r}" for at, value in enumerate(given_values)))
    assert [ast.literal_eval(word.partition("=")[2]) for word in words[2:]] == given_values


def test_run_takes_lists_of_lists(notebook: Notebook) -> None:
    notebook.run("def f(config): pass")
    run = notebook.run("%ckpt run f a=[[1, 2], [3, 4]] --grid b=[1, 2],[3] --executor inline --wait")
    assert [trial.config for trial in run.trials] == [
        {"a": [[1, 2], [3, 4]], "b": [1, 2]},
        {"a": [[1, 2], [3, 4]], "b": [3]},
    ]
