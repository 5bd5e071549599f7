"""Plots: learning curves, and parameters in parallel coordinates, in a scatter plot and by importance."""

from __future__ import annotations

import io
import random
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from trials.test_table import Made

from nbckpt.errors import UsageError
from nbckpt.render import Picture
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.curves import smoothed
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


def curves(experiment: Any, metric: str, names: Any, mode: str = "") -> Plot:
    return plot(experiment, PlotRequest([metric], names, mode))


def lines(figure: Any) -> dict[str, list[float]]:
    return {line.get_label().partition(",")[0]: list(line.get_ydata()) for line in figure.axes[0].lines}


def test_named_trials_are_drawn_once_in_the_given_order(made: Made) -> None:
    for at in range(3):
        made.trial({"loss": at}, {"other": 1}, {"loss": at + 0.5}, lr=at)
    figure = made.experiment.plot("loss", ["t2", made.experiment.trials[0], "t2"])
    assert lines(figure) == {"t2": [2, 2.5], "t0": [0, 0.5]}
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("iteration", "loss")
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 3]] * 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["t2, lr=2", "★ t0, lr=0"]


@pytest.mark.slow
def test_the_best_of_many_trials_are_drawn_with_a_note(tmp_path: Path) -> None:
    made = Made(tmp_path / "e", metric="loss", mode="min")
    for at in range(30):
        made.trial({"loss": -at, "note": "x"} if at != 29 else {"note": "x"})
    figure = made.experiment.plot()
    assert list(lines(figure)) == [f"t{at}" for at in range(28, 8, -1)]
    note = "Showing the 20 best of 29 trials by loss (min)."
    assert curves(made.experiment, "", None).notes == (note,)
    assert figure.axes[0].get_title(loc="left") == note
    assert len(lines(made.experiment.plot("loss", [f"t{at}" for at in range(25)]))) == 25


def test_the_name_of_a_metric_says_which_trials_are_best(made: Made) -> None:
    for at in range(21):
        made.trial({"val_loss": at, "acc": at, "x": at})
    assert list(lines(made.experiment.plot("val_loss"))) == [f"t{at}" for at in range(20)]
    assert list(lines(made.experiment.plot("acc"))) == [f"t{at}" for at in range(20, 0, -1)]
    shown = curves(made.experiment, "acc", None)
    assert shown.notes == ("Showing the 20 best of 21 trials by acc (max).",)
    assert shown.picture.alt.endswith("of e, by iteration. Best by acc (max): t20, 20.")


def test_without_a_mode_the_first_trials_are_drawn(made: Made) -> None:
    for at in range(21):
        made.trial({"x": -at})
    assert list(lines(made.experiment.plot("x"))) == [f"t{at}" for at in range(20)]
    note = curves(made.experiment, "x", None).notes[0]
    assert note == "Showing the first 20 of 21 trials. Show the best: %ckpt plot e --metric x --mode max"


def test_a_given_mode_draws_the_best_trials_by_the_drawn_metric(tmp_path: Path) -> None:
    made = Made(tmp_path / "e", metric="loss", mode="min")
    for at in range(200):
        made.trial({"loss": -at, "acc": at % 50})
    shown = curves(made.experiment, "acc", None, "max")
    assert shown.notes == ("Showing the 20 best of 200 trials by acc (max).",)
    assert shown.picture.alt.startswith("acc of t49, t99, t149, t199, t48, t98")


def test_a_trial_without_the_metric_is_left_out_and_named(made: Made) -> None:
    made.trial({"loss": 1})
    made.trial({"accuracy": 1})
    shown = curves(made.experiment, "loss", ["t0", "t1"])
    assert shown.notes == ("t1 reported no loss",)
    assert shown.picture.alt == "loss of t0 of e, by iteration"
    lacking = "none of these trials of 'e' reported 'loss': there are loss, accuracy"
    with pytest.raises(UsageError, match=lacking):
        curves(made.experiment, "loss", ["t1"])
    with pytest.raises(UsageError, match="has no trial 't7'"):
        made.experiment.plot("loss", ["t7"])


def test_curves_that_cannot_be_drawn_are_an_error(made: Made) -> None:
    made.trial()
    with pytest.raises(UsageError, match="no trial of 'e' reported a number: there are none yet"):
        curves(made.experiment, "", None)
    made.trial({"loss": float("nan"), "acc": 2}, {"loss": float("inf")})
    with pytest.raises(UsageError, match=r"there are loss, acc\. Did you mean 'loss'\?"):
        curves(made.experiment, "los", None)
    with pytest.raises(UsageError, match="'loss' has no value that can be drawn"):
        made.experiment.plot("loss")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["$x", "$\\frac", "a_b^{", "<b>loss</b>", "\x00\n", "_hidden", "x" * 400, "{}%s", "a/b"]
)
def test_a_metric_with_any_name_can_be_drawn(made: Made, name: str) -> None:
    values = [float("nan"), float("inf"), 1e308, -1e308, 10**400, 5]
    made.trial(*[{name: value} for value in values], **{name: "$y$\\"})
    made.trial({name: 1}, **{name: "z"})
    shown = curves(made.experiment, name, None)
    assert shown.picture.form == "svg"
    assert b"<script" not in shown.picture.data
    picture = matplotlib.image.imread(io.BytesIO(made.experiment.plot(name)._repr_png_()[0]))
    assert picture.shape[:2] == (800, 1600)
    assert "<b>" not in shown._repr_mimebundle_()["text/html"]


def test_the_page_shows_the_picture_at_its_height(made: Made) -> None:
    made.trial({"loss": 1})
    shown = curves(made.experiment, "loss", None)
    assert shown.picture.height == 400
    assert "max-height:400px" in shown._repr_mimebundle_()["text/html"]


def test_a_figure_needs_no_pyplot_and_works_in_any_thread(made: Made) -> None:
    from matplotlib import pyplot

    made.trial({"loss": 1}, {"loss": 2})
    before = pyplot.get_fignums()
    shown: list[Plot] = []
    thread = threading.Thread(target=lambda: shown.append(curves(made.experiment, "loss", None)))
    thread.start()
    thread.join()
    figure = made.experiment.plot("loss")
    assert pyplot.get_fignums() == before
    assert figure._repr_png_()[0].startswith(b"\x89PNG")
    assert shown[0].picture.data == curves(made.experiment, "loss", None).picture.data


def test_without_matplotlib_the_error_names_the_package(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.trial({"loss": 1})
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="pip install matplotlib"):
        made.experiment.plot("loss")


def test_smoothed_curves_stand_in_front_of_the_values(made: Made) -> None:
    made.trial({"loss": 4}, {"loss": 1}, {"loss": float("nan")}, {"loss": 1})
    raw, line = made.experiment.plot("loss", smooth=0.5).axes[0].lines
    assert list(raw.get_ydata())[:2] == [4, 1]
    assert list(line.get_ydata())[:2] == [4, 2]
    assert smoothed([(1, 1.0), (2, 3.0)], 0) == [(1, 1.0), (2, 3.0)]
    for weight in (1, -0.1, float("nan")):
        with pytest.raises(UsageError, match="give a number from 0 to below 1"):
            made.experiment.plot("loss", smooth=weight)


def test_several_metrics_share_a_legend_and_the_trials(made: Made) -> None:
    for at in range(3):
        made.trial({"loss": at, "acc": 1}, lr=at)
    made.trial({"loss": 5})
    figure = made.experiment.plot(["loss", "acc", "loss"])
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "acc"]
    assert [len(axes.lines) for axes in figure.axes] == [4, 3]
    assert len(figure.legends[0].get_texts()) == 4
    with pytest.raises(UsageError, match="at most 6 metrics"):
        made.experiment.plot([str(at) for at in range(7)])


def test_curves_over_time_choose_a_unit_that_fits(made: Made) -> None:
    made.trial({"loss": 1, "time_total_s": 60.0}, {"loss": 2, "time_total_s": 600.0})
    (axes,) = made.experiment.plot("loss", x="time").axes
    assert axes.get_xlabel() == "time in training (min)"
    assert list(axes.lines[0].get_xdata()) == [1, 10]


def test_a_logarithmic_curve_leaves_out_what_is_not_positive(made: Made) -> None:
    made.trial({"loss": 1}, {"loss": 0}, {"loss": -1}, {"loss": 2})
    made.trial({"up": -1})
    (axes,) = made.experiment.plot("loss", logy=True).axes
    assert axes.get_yscale() == "log"
    axes.figure.canvas.draw()
    texts = [text.get_text() for text in axes.get_yticklabels() if text.get_text()]
    assert {"1", "2"} <= set(texts)
    with pytest.raises(UsageError, match="'up' has no value above 0: leave out --logy"):
        made.experiment.plot("up", logy=True)


def test_a_diverged_trial_is_never_the_best(made: Made) -> None:
    made.trial({"loss": float("-inf")})
    made.trial({"loss": 1})
    made.trial({"loss": float("nan")})
    assert curves(made.experiment, "loss", None).picture.alt.endswith("Best by loss (min): t1, 1.")


@pytest.mark.parametrize("results", [9, 9000])
def test_curves_mark_where_the_scheduler_compared_trials(made: Made, results: int) -> None:
    compared = made.trial(end=False)
    with TrialRecorder(compared) as recorder:
        for at in range(1, results + 1):
            recorder.result({"training_iteration": at, "time_total_s": 1.0 * at, "loss": -float(at)})
            if at in {1, 3}:
                recorder.decided(Decision("continue", "good", at // 3, -float(at)))
        recorder.decided(Decision("promote", "the best", 1))
    made.trial({"loss": 1.0})
    figure = made.experiment.plot("loss", ["t0", "t1"])
    star, rungs = (list(map(tuple, drawn.get_offsets())) for drawn in figure.axes[0].collections)
    assert len(star) == 1
    assert [at for at, _ in rungs] == pytest.approx([1, 3], abs=results / 1000)
    assert all(value == -at for at, value in rungs)
    assert "Dots are rungs" in figure.axes[0].get_title(loc="left")
    assert "Dots are rungs" not in made.experiment.plot("loss", ["t1"]).axes[0].get_title(loc="left")


def test_curves_mark_where_generations_end(made: Made) -> None:
    with TrialRecorder(made.trial(end=False)) as recorder:
        for at in range(1, 5):
            recorder.result({"training_iteration": at, "time_total_s": 1.0 * at, "loss": -float(at)})
            if at in {2, 4}:
                recorder.decided(Decision("yield", f"generation {at // 2}: number 1 of 1", at // 2 - 1, -at))
    axes = made.experiment.plot("loss").axes[0]
    assert [at for at, _ in axes.collections[-1].get_offsets()] == [2, 4]
    assert "Dots are the ends of generations" in axes.get_title(loc="left")
