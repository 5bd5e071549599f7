"""diff: frames with other columns, a part of the variables, and the checkpoints of trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt.cli import main
from notebook import conftest
from notebook.conftest import Notebook

notebook = conftest.notebook

FRAME = (
    "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [1.0, 2.0, 3.0, 4.0]})\n%ckpt save n df"
)
TRAIN = """
import nbckpt
def train(config):
    for i in range(1, 4):
        nbckpt.report(loss=1 / i, checkpoint={"i": i, "same": "x"} if config["fields"] else folder(i))
def folder(i):
    from pathlib import Path
    Path(f"out{i}").mkdir()
    Path(f"out{i}/model.bin").write_bytes(b"x" * i)
    Path(f"out{i}/same.txt").write_text("same")
    return nbckpt.Checkpoint.from_directory(f"out{i}")
"""


def details(notebook: Notebook, line: str) -> dict[str, tuple[str, ...]]:
    compared = notebook.run(line).compared
    return {
        difference.name: difference.details
        for difference in compared.differences
        if difference.change != "same"
    }


def test_diff_shows_changed_values_beside_an_added_column(notebook: Notebook) -> None:
    notebook.run(FRAME)
    notebook.run("df.loc[0, 'a'] = 9; df['c'] = 'x'")
    lines = details(notebook, "%ckpt diff n")["df"]
    assert "column a: 25 % of 4 rows differ" in lines
    assert any("column c added" in detail for detail in lines)
    assert not any("column b" in detail for detail in lines)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("df = df.drop(columns='b'); df.loc[1:, 'a'] = 0", "column a: 75 % of 4 rows differ"),
        ("df['a'] = [9.5, 2, 3, 4]", "column a: 25 % of 4 rows differ"),
        ("df = df[['b', 'a']]; df.loc[0, 'b'] = 7", "column b: 25 % of 4 rows differ"),
        ("df = pd.concat([df, df[['a']]], axis=1); df.iloc[0, 1] = 7", "column b: 25 % of 4 rows differ"),
    ],
)
def test_shared_columns_are_compared_in_every_shape(notebook: Notebook, change: str, said: str) -> None:
    notebook.run(FRAME)
    notebook.run(change)
    assert said in details(notebook, "%ckpt diff n")["df"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 7**220", "x += 1"),
        ("x = 7**30_000", "x += 1"),
        ("x = 'a' * 5000", "x = 'a' * 4999 + 'b'"),
        ("x = {n: 0 for n in range(1000)}", "x[999] = 1"),
        ("import numpy as np\nx = np.ma.array([1, 2, 3], mask=[0, 1, 0])", "x.mask = [0, 1, 1]"),
        ("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.index.name = 'i'"),
        ("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.attrs['unit'] = 'm'"),
    ],
)
def test_values_with_equal_previews_differ(notebook: Notebook, before: str, after: str) -> None:
    notebook.run(f"{before}\n%ckpt save n x")
    assert details(notebook, "%ckpt diff n") == {}
    notebook.run(after)
    assert list(details(notebook, "%ckpt diff n")) == ["x"]


@pytest.mark.parametrize(
    "setup",
    [
        "import matplotlib.pyplot as plt\nx, ax = plt.subplots()\nax.plot([1, 2], label='a')\nax.legend()",
        "from sklearn.linear_model import Ridge\nx = Ridge().fit([[1.0], [2.0]], [0, 1])",
        "import functools\nclass A:\n    @functools.lru_cache\n    def f(self): return 1\nx = A()\nx.f()",
        "try: 1 / 0\nexcept Exception as error: x = error",
        "import pandas as pd\nx = pd.DataFrame({'a': ['u', 'v']}).groupby('a')\nx.groups",
    ],
)
def test_a_restored_value_does_not_differ(notebook: Notebook, setup: str) -> None:
    notebook.run(f"import matplotlib\nmatplotlib.use('agg')\n{setup}\n%ckpt save n\ndel x")
    notebook.run("%ckpt restore n")
    assert details(notebook, "%ckpt diff n") == {}


def test_a_comparison_opens_no_figure(notebook: Notebook) -> None:
    notebook.run(
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nx, ax = plt.subplots()"
    )
    notebook.run("%ckpt save n")
    notebook.run("ax.plot([1, 2])")
    assert set(details(notebook, "%ckpt diff n")) == {"x", "ax"}
    assert notebook.run("plt.get_fignums()") == [1]


def test_names_are_found_in_every_spelling(notebook: Notebook) -> None:
    notebook.run("caf\u00e9 = 1\n\ufb01t = 2\n%ckpt save cafe\u0301 cafe\u0301 \ufb01t")
    notebook.run("del caf\u00e9, fit\n%ckpt restore caf\u00e9 \ufb01t")
    assert notebook.run("fit") == 2
    assert notebook.run("%ckpt restore cafe\u0301@1 caf\u00e9") is not None
    assert notebook.run("caf\u00e9") == 1


def test_a_partial_checkpoint_is_compared_with_its_variables(notebook: Notebook) -> None:
    notebook.run("x, y, z = 1, 2, 3\n%ckpt save part x y")
    notebook.run("x = 5; del y; new = 1")
    comparison = notebook.run("%ckpt diff part")
    assert {difference.name: difference.change for difference in comparison.compared.differences} == {
        "x": "changed",
        "y": "removed",
    }
    assert "part holds a part of all variables. Only this part is compared." in str(comparison)


def test_a_full_checkpoint_is_compared_with_all_live_variables(notebook: Notebook) -> None:
    notebook.run("x, y = 1, 2\n%ckpt save all")
    notebook.run("new = 1")
    assert details(notebook, "%ckpt diff all") == {"new": ("int",)}


def test_checkpoints_of_trials_are_compared(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run(TRAIN)
    notebook.run("r = %ckpt run train fields=True --name e --executor inline --wait")
    assert details(notebook, "%ckpt diff e/t0@1 e/t0@3") == {"i": ("1 -> 3 (+200.0%)",)}
    notebook.run("i, same, other = 3, 'x', 1")
    assert details(notebook, "%ckpt diff t0@3") == {}
    assert details(notebook, "%ckpt diff t0@1") == {"i": ("1 -> 3 (+200.0%)",)}
    notebook.run("r = %ckpt save v i same")
    assert details(notebook, "%ckpt diff v e/t0@2") == {"i": ("3 -> 2 (-33.3%)",)}
    assert "there are 1, 2, 3" in notebook.error("%ckpt diff e/t0@9 e/t0@1")
    capsys.readouterr()
    assert main(["diff", "e/t0@1", "e/t0@2"]) == 0
    assert capsys.readouterr().out.startswith("e/t0@1 -> e/t0@2: 1 variable differs\n")


def test_folders_of_trials_are_compared_by_their_files(notebook: Notebook) -> None:
    notebook.run(TRAIN)
    notebook.run("r = %ckpt run train fields=False --name e --executor inline --wait")
    comparison = notebook.run("%ckpt diff e/t0@1 e/t0@3")
    assert [
        (difference.name, difference.change, difference.details) for difference in comparison.compared.files
    ] == [
        ("model.bin", "changed", ("1 bytes -> 3 bytes",)),
        ("same.txt", "same", ()),
    ]
    assert "0 variables differ, 1 file differs" in str(comparison)


def test_an_untrusted_trial_checkpoint_is_compared_unloaded(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another secret signed the checkpoint, so no value is loaded."""
    notebook.run(TRAIN)
    notebook.run("r = %ckpt run train fields=True --name e --executor inline --wait")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    notebook.run("%reload_ext nbckpt")
    comparison = notebook.run("%ckpt diff e/t0@1 e/t0@2")
    assert not comparison.compared.loaded
    assert [
        difference.name for difference in comparison.compared.differences if difference.change != "same"
    ] == ["i"]
