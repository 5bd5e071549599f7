"""results, best, compare, plot: the results of trials, as rows, the best, side by side and as plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from nbckpt.commands.browsing import first_row
from nbckpt.commands.meaning import is_ref, is_trial
from nbckpt.commands.options import ExperimentName, File, Metric, Mode, Number, PageNumber, Target, Word
from nbckpt.commands.table import Session
from nbckpt.commands.trials import target_of
from nbckpt.errors import UsageError
from nbckpt.media.stored import StoredMedia
from nbckpt.render import Cell, Column, Hint, Page, Result, Table, count
from nbckpt.trials.comparing import BEST, compare_in
from nbckpt.trials.model.frame import beside, with_media
from nbckpt.trials.model.metrics import flat, is_number, plain
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.views.comparison import TrialsCompared
from nbckpt.trials.views.formats import shown_value, tail
from nbckpt.trials.views.front import no_single_best
from nbckpt.trials.views.metrics import Scope, inferred, likely_mode
from nbckpt.trials.views.plots.plot import Plot
from nbckpt.trials.views.plots.plot import plot as draw
from nbckpt.trials.views.plots.request import PlotRequest
from nbckpt.trials.views.trial_page import TrialShown

_SHOWN = 20


@dataclass(frozen=True, repr=False)
class TrialResults(Result):
    """Results of trials, each as a row.

    Attributes:
        name: The experiment or the trial.
        rows: For each shown result: the trial, its configuration as `config/…`, and the metrics.
        total: The number of all results.
        first: The index of the first row among all.
        csv: Whether they are shown as CSV.
    """

    name: str
    rows: tuple[Mapping[str, Any], ...]
    total: int
    first: int = 0
    csv: bool = False

    def page(self) -> Page:
        """See `Result.page`."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        if self.csv:
            return Page("", code=_csv(names, self.rows))
        headline = f"{self.name}: {count(self.total, 'result')}"
        if not self.rows:
            return Page(headline)
        last = self.first + len(self.rows)
        if len(self.rows) < self.total:
            headline += f"; {self.first + 1:,} to {last:,} of them"
        numbers = {name for name in names if all(is_number(row.get(name, 0)) for row in self.rows)}
        columns = tuple(Column(tail(name), number=name in numbers) for name in names)
        rows = tuple(tuple(_cell(row.get(name, "")) for name in names) for row in self.rows)
        table = Table("results", columns, rows)
        following = self.first // len(self.rows) + 2
        pages = [Hint("Next page", f"%ckpt results {self.name} --page {following}")] * (last < self.total)
        return Page(headline, (table,), hints=(*pages, Hint("As CSV", f"%ckpt results {self.name} --csv")))


def _cell(value: Any) -> Cell:
    return Cell(value) if isinstance(value, str) else shown_value(value)


def _csv(names: list[str], rows: tuple[Mapping[str, Any], ...]) -> str:
    table: list[list[Any]] = [list(names), *([row.get(name) for name in names] for row in rows)]
    return "".join(",".join(map(_quoted, cells)) + "\n" for cells in table)


def _quoted(value: Any) -> str:
    """Return a cell of CSV. The module csv leaves ends of lines other than its own without quotes."""
    text = "" if value is None else str(value)
    is_bare = {*text}.isdisjoint(',"') and text.splitlines() in ([], [text])
    return text if is_bare else '"' + text.replace('"', '""') + '"'


def results(
    session: Session,
    target: Target = "",
    *,
    most: Number = _SHOWN,
    page: PageNumber = 1,
    csv: bool = False,
) -> TrialResults:
    """Show every result of an experiment or of one trial.

    Args:
        most: The number of rows on a page; 0 for all.
        csv: Show all results as CSV.
    """
    experiment, trial = target_of(session.library, target)
    trials = experiment.trials if trial is None else (trial,)
    rows = [row for one in trials for row in _rows(one)]
    name = experiment.name if trial is None else f"{experiment.name}/{trial.id}"
    if csv:
        return TrialResults(name, tuple(rows), len(rows), csv=True)
    first = first_row(len(rows), most, page, "result")
    return TrialResults(name, tuple(rows[first:][: most or None]), len(rows), first)


def _rows(trial: Trial) -> Iterator[dict[str, Any]]:
    own = {"trial": trial.id} | {f"config/{name}": value for name, value in flat(plain(trial.config))}
    for result in with_media(trial.results, trial.media):
        texts = {
            name: str(value) if isinstance(value, StoredMedia) else value for name, value in result.items()
        }
        yield own | beside(own, dict(flat(plain(texts))))


def best(
    session: Session,
    experiment: ExperimentName = "",
    *,
    metric: Metric = "",
    mode: Mode = "",
    scope: Scope = "last",
) -> TrialShown:
    """Show the trial with the best value of a metric.

    Args:
        scope: Whether the last or the best value of each trial counts.
    """
    opened = session.library.open(experiment)
    if opened.spec.others and not metric:
        raise no_single_best(opened.name, opened.spec.objectives)
    metric = metric or opened.spec.metric
    direction = mode or opened.spec.mode_of(metric) or opened.spec.mode
    if not metric or not direction:
        words, guess = f"best {experiment}".strip(), metric or next(iter(inferred(opened.trials)), "loss")
        direction = direction or likely_mode(guess) or "min"
        raise UsageError(f"which metric? %ckpt {words} --metric {quote(guess)} --mode {direction}")
    trial = opened.best(metric, direction, scope=scope)
    by = f"{metric} ({direction})" if scope == "last" else f"{metric} ({direction} of all its values)"
    return TrialShown(opened, trial, f"Best of {opened.name} by {by}: ")


def compare(
    session: Session,
    *trials: Annotated[str, Word("TRIAL", "trial")],
    metric: Sequence[Metric] = (),
    mode: Mode = "",
) -> TrialsCompared:
    """Compare trials: parameters, metrics, curves and more.

    To compare checkpoints, use diff.

    Args:
        trials: t3 or best of the newest experiment, EXP/t3, EXP/best; EXP stands for its best trial.
        metric: A metric to draw, and to find the best trial by; repeat for several.
    """
    library = session.library
    known = {*library.names(), BEST}
    others = [
        word for word in trials if not is_trial(word) and known.isdisjoint({word, word.rpartition("/")[2]})
    ]
    if refs := [word for word in others if is_ref(session, word)]:
        raise UsageError(
            f"{refs[0]} is a checkpoint. Compare checkpoints: %ckpt diff {' '.join(map(quote, refs[:2]))}"
        )
    return compare_in(library, trials, metric, mode)


def plot(
    session: Session,
    *targets: Annotated[str, Word("EXP|TRIAL", "trial")],
    metric: Sequence[Metric] = (),
    mode: Mode = "",
    smooth: Annotated[float, Word("W")] = 0.0,
    logy: bool = False,
    x: Literal["step", "time"] = "step",
    parallel: bool = False,
    scatter: Annotated[tuple[str, str] | None, Word("X Y")] = None,
    importance: bool = False,
    pareto: bool = False,
    output: File = "",
) -> Plot:
    """Draw an experiment: curves, a line per trial.

    Curves are drawn unless --parallel, --scatter, --importance or --pareto asks for another plot.

    Args:
        targets: An experiment, by default the newest, and its trials, by default the best 20.
        metric: The metric to draw; a/b means the key b of the dict a. Repeat for several curves.
        smooth: Smooth curves: 0 not at all, 0.6 well, 0.99 very much.
        logy: Draw curves on a logarithmic scale.
        x: Draw curves over the iterations or over the time in training.
        parallel: Draw an axis for each parameter and a line for each trial.
        scatter: Draw a point for each trial over two parameters or metrics.
        importance: Draw how much each parameter matters for the metric.
        pareto: Draw a point for each trial over two objectives, and the Pareto front as a line.
        output: Write the picture to this file, in the format of its ending: plot.png, plot.svg, plot.pdf.
    """
    library, words = session.library, list(targets)
    first = words.pop(0) if words and (words[0] in library.names() or not is_trial(words[0])) else ""
    pairs = [word.rpartition("/")[::2] for word in words]
    experiments = {experiment for experiment, _ in pairs if experiment} | ({first} if first else set())
    if len(experiments) > 1:
        raise UsageError(f"{', '.join(sorted(experiments))} are different experiments: draw one at a time")
    experiment = library.open(experiments.pop() if experiments else "")
    names = [trial for _, trial in pairs] or None
    request = PlotRequest(metric, names, mode, smooth, logy, x, parallel, scatter or (), importance, pareto)
    return draw(experiment, request, Path(output) if output else None)
