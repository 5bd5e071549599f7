"""Points: configurations that are tried first."""

from __future__ import annotations

import pytest

import nbckpt
from nbckpt.commands.values import find_scheduler, words_of
from nbckpt.errors import UsageError
from nbckpt.trials.model.points import drawn

SPACE = {
    "lr": nbckpt.loguniform(1e-4, 1),
    "width": nbckpt.randint(1, 9),
    "opt": {"kind": nbckpt.grid_search(["sgd", "adam"])},
    "epochs": 3,
}


def test_spaces_in_quotes_and_brackets_separate_no_words(subtests: pytest.Subtests) -> None:
    for text, words in [
        ("lr=0.1 width=8", ["lr=0.1", "width=8"]),
        ("name='a b' lr=1", ["name='a b'", "lr=1"]),
        ('name="it\'s b=2" lr=1', ['name="it\'s b=2"', "lr=1"]),
        ("widths=[8, 16] opt={'a': 1, 'b': 2} lr=uniform(0, 1)", None),
        ("  lr=1   width=8 ", ["lr=1", "width=8"]),
        ("name='a b", ["name='a", "b"]),
    ]:
        with subtests.test(text):
            assert words_of(text) == (words or ["widths=[8, 16]", "opt={'a': 1, 'b': 2}", "lr=uniform(0, 1)"])


def test_a_scheduler_s_option_may_have_spaces() -> None:
    made = find_scheduler("pbt interval=5 mutations={'lr': [0.1, 1], 'name': ['a b', 'c']}", None)
    assert made.mutations["name"].values == ("a b", "c")


def test_a_point_gives_values_and_the_others_are_drawn() -> None:
    first, second = drawn([{"lr": 0.1, "opt": {"kind": "adam"}}, {}], SPACE, seed=1)
    assert (first["lr"], first["opt"], first["epochs"]) == (0.1, {"kind": "adam"}, 3)
    assert 1 <= first["width"] < 9
    assert 1e-4 <= second["lr"] <= 1
    assert second["opt"]["kind"] in {"sgd", "adam"}
    space = {"a": nbckpt.randint(0, 9), "b": nbckpt.sample_from(lambda spec: spec.config.a * 2)}
    assert list(drawn([{"a": 4}], space, seed=1)) == [{"a": 4, "b": 8}]


def test_points_are_drawn_alike_each_time_and_apart() -> None:
    points = list(drawn([{}, {}], SPACE, seed=1))
    assert points == list(drawn([{}, {}], SPACE, seed=1))
    assert points[0] != points[1]
    assert points[:1] != list(drawn([{}], SPACE, seed=2))


def test_a_point_outside_the_space_is_refused(subtests: pytest.Subtests) -> None:
    for point, message in [
        ({"lrr": 0.1}, "a point gives 'lrr', which does not vary in config. Did you mean 'lr'?"),
        ({"epochs": 4}, "'epochs', which does not vary in config. These vary: lr, opt/kind, width"),
        ({"opt": 1}, "a point gives 'opt', which does not vary"),
        ({"lr": 2}, "lr=2, which Uniform"),
        ({"width": 9}, "width=9, which Integer"),
        ({"width": 2.5}, "width=2.5, which Integer"),
        ({"opt": {"kind": "lion"}}, "opt/kind='lion', which Grid"),
    ]:
        with subtests.test(message), pytest.raises(UsageError, match=message.replace("?", r"\?")):
            list(drawn([point], SPACE, seed=1))
    with pytest.raises(UsageError, match=r"'y', which does not vary in config. Nothing varies there$"):
        list(drawn([{"y": 2}], {"x": 1}, seed=1))
