"""A line is split into words as people read it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.errors import UsageError
from nbckpt.notebook.tokenize import split
from notebook.conftest import Notebook

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
