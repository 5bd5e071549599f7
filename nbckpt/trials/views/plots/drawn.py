"""Drawn: a figure with its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbckpt.trials.model.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn:
    """A figure with its description.

    Attributes:
        figure: The figure of matplotlib.
        title: A headline.
        alt: What people hear who cannot see it.
        notes: What is missing in it, and why; a sentence each.
        marks: The number of its points and lines.
        trial: The trial to look at next.
        importance: How much each parameter matters, if it shows that.
    """

    figure: Figure
    title: str
    alt: str
    notes: tuple[str, ...]
    marks: int
    trial: Trial
    importance: Mapping[str, float] = field(default_factory=dict)
