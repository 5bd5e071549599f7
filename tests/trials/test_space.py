"""Search spaces: grids are whole, draws are inside and can be done again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbckpt
from nbckpt.trials.model.space import configs, domains, with_values

grids = st.dictionaries(
    st.text("abc", min_size=1), st.lists(st.integers(), min_size=1, max_size=3), max_size=3
)


@given(grids, st.integers(1, 3))
def test_every_combination_occurs_once_per_sample(values: dict[str, list[int]], samples: int) -> None:
    space = {key: nbckpt.grid_search(it) for key, it in values.items()}
    found = [tuple(config[key] for key in values) for config in configs(space, samples, 0)]
    assert found == list(itertools.product(*values.values())) * samples


@given(st.integers(0, 1 << 31), st.integers(1, 5))
def test_more_samples_of_a_seed_extend_the_same_draw(seed: int, samples: int) -> None:
    space = {
        "rate": nbckpt.loguniform(1e-5, 1),
        "inner": {"share": nbckpt.uniform(-1, 1), "kind": nbckpt.choice(["xy"])},
    }
    few, many = list(configs(space, samples, seed)), list(configs(space, samples + 2, seed))
    assert many[:samples] == few
    for config in many:
        assert 1e-5 <= config["rate"] <= 1
        assert -1 <= config["inner"]["share"] <= 1
        assert config["inner"]["kind"] == "xy"


def test_a_space_is_unchanged_and_configurations_share_no_dicts() -> None:
    space = {"inner": {"n": nbckpt.grid_search([1, 2])}}
    one, two = configs(space, 1, 0)
    one["inner"]["n"] = 5
    assert two == {"inner": {"n": 2}}
    assert next(configs(space, 1, 0)) == {"inner": {"n": 1}}


def test_values_are_set_under_the_path_of_their_domain() -> None:
    space = {"a/b": 1, "inner": {3: nbckpt.uniform(0, 1), "m": 2}}
    assert list(domains(space)) == [("inner", 3)]
    assert with_values(space, {("inner", 3): 0.5}) == {"a/b": 1, "inner": {3: 0.5, "m": 2}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nbckpt.grid_search([]), "grid_search got no values"),
        (lambda: nbckpt.choice([]), "choice got no values"),
        (lambda: nbckpt.grid_search("abc"), r"grid_search\(\['abc'\]\)"),
        (lambda: nbckpt.grid_search(5), r"grid_search\(\[5\]\)"),
        (lambda: nbckpt.uniform(1, 0), "smaller number first"),
        (lambda: nbckpt.uniform(float("nan"), 1), r"uniform\(nan, 1\) is empty"),
        (lambda: nbckpt.loguniform(0, 1), "positive"),
    ],
)
def test_an_invalid_domain_is_refused(make: Any, message: str) -> None:
    with pytest.raises(nbckpt.UsageError, match=message):
        make()
