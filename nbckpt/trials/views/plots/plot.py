"""Plot: the picture of an experiment that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nbckpt.render import Cell, Column, Hint, Page, Picture, Result, Table
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.curves import curves
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.importance import importance
from nbckpt.trials.views.plots.parallel import parallel
from nbckpt.trials.views.plots.pareto import pareto
from nbckpt.trials.views.plots.request import PlotRequest, check
from nbckpt.trials.views.plots.scatter import scatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Plot(Result):
    """A plot of an experiment, as a picture.

    Attributes:
        title: The experiment and what is drawn.
        picture: The picture.
        notes: Which trials are missing in the picture, and why.
        hints: The next commands.
        importance: How much each parameter matters, if the plot shows that.
    """

    title: str
    picture: Picture
    notes: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    importance: Mapping[str, float] = field(default_factory=dict)

    def page(self) -> Page:
        """See `Result.page`."""
        columns = Column("parameter", code=True), Column("importance", number=True)
        rows = tuple((name, Cell(f"{share:.3f}", repr(share))) for name, share in self.importance.items())
        table = Table("parameters, the most important first", columns, rows)
        return Page(self.title, (table,), self.notes, pictures=(self.picture,), hints=self.hints)


def plot(experiment: ExperimentView, request: PlotRequest, file: Path | None = None) -> Plot:
    """Return a plot of an experiment as a picture. Any thread may call this.

    Args:
        experiment: The experiment.
        request: What to draw.
        file: Also write the picture to this file, in the format of its ending. An older file is replaced.

    Raises:
        UsageError: The request cannot be drawn; or the ending names no format of matplotlib.
        StoreError: The disk failed; an older file is unchanged.
    """
    drawn = _draw(experiment, request)
    notes = drawn.notes
    if file is not None:
        style.write(drawn.figure, file)
        notes = (*notes, f"Written to {file}.")
    hint = Hint("Details", f"%ckpt show {experiment.name}/{drawn.trial.id}")
    picture = style.picture(drawn.figure, drawn.alt, drawn.marks)
    return Plot(drawn.title, picture, notes, (hint,), drawn.importance)


def figure(experiment: ExperimentView, request: PlotRequest) -> Figure:
    """Return a plot of an experiment as an ordinary figure of matplotlib. A notebook shows it.

    The figure does not belong to pyplot, whose figures belong to one thread. Notes are its title.

    Raises:
        UsageError: The request cannot be drawn.
    """
    drawn = _draw(experiment, request)
    if drawn.notes:
        title = "\n".join(drawn.notes)
        drawn.figure.axes[0].set_title(
            title, loc="left", fontsize="small", color=style.GREY, parse_math=False
        )
    drawn.figure._repr_png_ = partial(_shown, drawn.figure)  # type: ignore[attr-defined]  # what IPython shows
    return drawn.figure


def _shown(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """Return a figure as PNG, and the size at which a notebook shows it."""
    width, height = figure.get_size_inches() * style.INCHES
    return style.png(figure), {"width": round(width), "height": round(height)}


def _draw(experiment: ExperimentView, request: PlotRequest) -> Drawn:
    check(request)
    if request.parallel:
        return parallel(experiment, request)
    if request.scatter:
        return scatter(experiment, request)
    if request.pareto:
        return pareto(experiment, request)
    return importance(experiment, request) if request.importance else curves(experiment, request)
