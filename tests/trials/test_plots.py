"""Plots over parameters: parallel coordinates, a scatter plot, importance; and the pictures of all plots."""

from __future__ import annotations

import io
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from trials.test_table import Made

from nbckpt.errors import UsageError
from nbckpt.render import Picture
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.importance import rank_correlation
from nbckpt.trials.views.plots.plot import Plot, plot
from nbckpt.trials.views.plots.request import PlotRequest
from nbckpt.trials.views.plots.scales import scale_of

matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib")
to_rgb = pytest.importorskip("matplotlib.colors", reason="needs matplotlib").to_rgb
PLOTS: dict[str, dict[str, Any]] = {
    "curves": {},
    "parallel": {"parallel": True},
    "scatter": {"scatter": ("lr", "loss")},
    "importance": {"importance": True},
}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "e")


def drawn(made: Made, **request: Any) -> Plot:
    return plot(made.experiment, PlotRequest(**request))


def tuned(made: Made, trials: int = 12) -> Made:
    """Add trials whose loss follows the learning rate, and nothing else."""
    chance = random.Random(0)
    for at in range(trials):
        opt = chance.choice(["adam", "sgd"])
        made.trial({"loss": float(at)}, lr=10.0 ** (at - 6), model={"opt": opt}, seed=7)
    return made


def texts(figure: Any) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def pixels(picture: Picture) -> Any:
    return matplotlib.image.imread(io.BytesIO(picture.data))


@pytest.mark.slow
@pytest.mark.parametrize("request_", PLOTS.values(), ids=PLOTS)
def test_every_plot_is_a_small_picture_without_background(made: Made, request_: dict[str, Any]) -> None:
    shown = drawn(tuned(made), **request_)
    assert shown.picture.form == "svg"
    assert len(shown.picture.data) < 150_000
    assert b"#ffffff" not in shown.picture.data
    assert b"#000000" not in shown.picture.data
    namespaces = rb'(xmlns(:\w+)?|PUBLIC [^"]*"[^"]*")="?[^"]*"|<!DOCTYPE[^>]*>'
    assert b"http" not in re.sub(namespaces, b"", shown.picture.data)
    assert shown.picture.alt
    page = shown._repr_mimebundle_()["text/html"]
    assert 'src="data:image/svg+xml;base64,' in page
    assert "background:white" not in page
    assert drawn(made, **request_).picture == shown.picture


@pytest.mark.slow
def test_many_points_make_a_sharp_png_below_the_limit(made: Made) -> None:
    chance = random.Random(0)
    for _ in range(20):
        noise = [(at, chance.random(), chance.random()) for at in range(1, 401)]
        made.trial(*[{"loss": 1 / at + one / 9, "noise": other} for at, one, other in noise])
    assert len(drawn(made, metrics=["noise"], smooth=0.9).picture.data) < 150_000
    shown = drawn(made, smooth=0.9)
    assert shown.picture.form == "png"
    assert len(shown.picture.data) < 150_000
    assert pixels(shown.picture).shape == (800, 1600, 4)
    assert pixels(shown.picture)[0, 0, 3] == 0


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2])


def test_every_colour_can_be_seen_on_light_and_dark(subtests: pytest.Subtests) -> None:
    for colour in sorted({style.GREY, style.BEST, *style.COLOURS, *style.SCALE}):
        for page in ["#ffffff", "#111111"]:
            with subtests.test(colour=colour, page=page):
                low, high = sorted([luminance(colour), luminance(page)])
                assert (high + 0.05) / (low + 0.05) >= 3


def test_parallel_coordinates_have_an_axis_per_parameter(made: Made) -> None:
    tuned(made).trial({"loss": float("nan")}, lr=1.0, model={"opt": "sgd"}, seed=7)
    shown = drawn(made, parallel=True)
    assert shown.title == "e: lr, model/opt, loss"
    assert shown.notes == ("1 trial without a finite loss is left out.",)
    assert shown.picture.alt.endswith("12 trials of e: lr, model/opt, loss. Best by loss (min): t0, 0.")
    figure = made.experiment.plot("loss", parallel=True)
    assert type(figure) is matplotlib.figure.Figure
    assert figure.get_facecolor()[3] == 0
    assert {"lr", "opt", "loss", "t0", "adam", "sgd"} <= set(texts(figure))


def test_a_scatter_plot_takes_parameters_and_metrics(made: Made) -> None:
    tuned(made)
    figure = made.experiment.plot(scatter=("config/lr", "loss"))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_xscale(), axes.get_ylabel()) == ("config/lr", "log", "loss")
    assert texts(figure) == ["t0"]
    axes, bar = made.experiment.plot(scatter=("lr", "model/opt")).axes
    assert {text.get_text() for text in axes.get_yticklabels()} == {"adam", "sgd"}
    assert bar.get_ylabel() == "loss"
    with pytest.raises(UsageError, match=r"'lrr' is neither a parameter nor a metric: .* mean 'lr'\?"):
        made.experiment.plot(scatter=("lrr", "loss"))


def test_importance_says_how_it_was_computed(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(made)
    monkeypatch.setitem(sys.modules, "optuna", None)
    shown = drawn(made, importance=True)
    assert shown.notes[0].startswith("Rank correlation without its sign")
    assert list(shown.importance) == ["lr", "model/opt"]
    assert shown.importance["lr"] == pytest.approx(1)
    assert "lr" in str(shown)
    assert shown.picture.alt.startswith("Importance of parameters of e for loss, of 12 trials: lr 1.00, ")


@pytest.mark.slow
def test_importance_is_fanova_where_optuna_is_installed(
    made: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    optuna = pytest.importorskip("optuna", reason="needs optuna")
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    levels: list[int] = []
    monkeypatch.setattr(optuna.logging, "set_verbosity", levels.append)
    optuna.logging.enable_propagation()
    try:
        shown = drawn(tuned(made, 20), importance=True)
    finally:
        optuna.logging.disable_propagation()
    assert shown.notes[0].startswith("fANOVA of Optuna")
    assert list(shown.importance) == ["lr", "model/opt"]
    assert sum(shown.importance.values()) == pytest.approx(1)
    assert (levels, caplog.text) == ([], "")


def test_rank_correlation_knows_ties_and_categories() -> None:
    values = {"up": [1, 2, 2, 9], "kind": ["a", "a", "b", "b"], "no": [1, 2, 2, 1]}
    shares = rank_correlation([scale_of(*named) for named in values.items()], [1.0, 2.0, 2.0, 3.0])
    assert shares["up"] == pytest.approx(1)
    assert shares["kind"] == pytest.approx(0.5**0.5)
    assert shares["no"] == pytest.approx(0, abs=1e-9)


def test_a_parameter_that_some_trials_lack_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for at in range(6):
        made.trial({"loss": at}, lr=at, **({"momentum": at} if at % 2 else {}))
    assert "Left out, because not all trials have them: momentum." in drawn(made, importance=True).notes
    assert drawn(made, parallel=True).title == "e: lr, momentum, loss"


@pytest.mark.parametrize("losses", [[], [1.0], [float("nan")]], ids=["none", "one", "nan"])
def test_too_few_trials_for_a_plot_are_a_clear_error(made: Made, losses: list[float]) -> None:
    for loss in losses:
        made.trial({"loss": loss}, lr=1)
    made.trial()
    message = "need|has no value|has no|reported a number|reported 'loss'"
    for request in ({"parallel": True}, {"importance": True}):
        with pytest.raises(UsageError, match=message):
            drawn(made, **request)
    if not losses:
        with pytest.raises(UsageError, match=message):
            drawn(made, scatter=("lr", "loss"))


def test_equal_values_can_be_drawn_but_not_explained(made: Made) -> None:
    for at in range(5):
        made.trial({"loss": 1.0}, lr=at)
    assert drawn(made, parallel=True).picture.data
    assert drawn(made, scatter=("lr", "loss")).picture.data
    with pytest.raises(UsageError, match="differ in a parameter and in a finite 'loss'"):
        drawn(made, importance=True)


def test_options_that_contradict_each_other_are_refused(made: Made, subtests: pytest.Subtests) -> None:
    tuned(made, 4)
    for request_, message in [
        ({"parallel": True, "importance": True}, "--parallel and --importance are different plots"),
        ({"parallel": True, "smooth": 0.5}, "--smooth is for curves"),
        ({"scatter": ("lr", "loss"), "logy": True}, "--logy is for curves"),
        ({"importance": True, "x": "time"}, "--x is for curves"),
        ({"parallel": True, "metrics": ["a", "b"]}, "at most 1 metric"),
    ]:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            drawn(made, **request_)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$x$", "$\\frac", "<b>", "\x00\n", "_a", "x" * 300, "{}%s", "--", "]]>"])
def test_hostile_names_and_values_can_be_drawn(made: Made, name: str) -> None:
    values = [name, 10**400, float("inf"), None, True, [1, 2], -1e308, 0.5]
    for at, value in enumerate(values):
        made.trial({name: float(at), "up": 10.0**at}, **{name: value, "n": at * 1e307})
    for request in PLOTS.values():
        wanted = {**request, **({"scatter": (f"config/{name}", "up")} if "scatter" in request else {})}
        shown = drawn(made, metrics=[name], mode="min", **wanted)
        assert b"<b>" not in shown.picture.data
        assert b"<script" not in shown.picture.data


def test_scales_are_linear_logarithmic_or_of_categories() -> None:
    assert scale_of("x", [1, 2, None]).fractions()[:2] == [0, 1]
    assert scale_of("x", [1, 10, 1000]).fractions() == pytest.approx([0, 1 / 3, 1])
    assert scale_of("x", ["b", "a", True]).categories == ["b", "a", "True"]
    assert scale_of("x", [5, 5]).fractions() == [0.5, 0.5]
    assert scale_of("x", []).ticks()
