"""An untouched figure is saved as the same bytes."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from core.behaviour import fresh
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker

FIGURE = """
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
fig, (left, right) = plt.subplots(1, 2)
left.plot([1, 2, 3])
left.set_title("title")
left.legend(["a"])
left.callbacks.connect("xlim_changed", print)
fig.colorbar(right.imshow([[1, 2]]), ax=right)
"""


@pytest.fixture
def namespace() -> Any:
    made = fresh()
    exec(FIGURE, made)
    yield made
    plt.close("all")


def changed(tracker: Tracker, namespace: dict[str, Any]) -> list[str]:
    return [
        difference.name
        for difference in tracker.diff("x", namespace=namespace).differences
        if difference.change != "same"
    ]


@pytest.mark.slow
def test_an_unchanged_figure_adds_no_data_and_no_difference(namespace: dict[str, Any]) -> None:
    with Tracker(MemoryStore()) as tracker:
        tracker.save(namespace, "x")
        assert changed(tracker, namespace) == []
        assert [tracker.save(namespace, "x").new_bytes for _ in range(2)] == [0, 0]
        assert changed(tracker, namespace) == []
        namespace["left"].set_title("other")
        assert "fig" in changed(tracker, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["constrained", "tight"])
def test_an_unchanged_figure_with_a_layout_adds_no_data(namespace: dict[str, Any], layout: str) -> None:
    figure = namespace["fig"]
    figure.set_size_inches(5, 2.5)
    figure.set_layout_engine(layout)
    namespace["left"].plot(np.random.default_rng(0).normal(size=1000).cumsum())
    with Tracker(MemoryStore()) as tracker:
        tracker.save(namespace, "x")
        assert [tracker.save(namespace, "x").new_bytes for _ in range(3)] == [0, 0, 0]
        assert changed(tracker, namespace) == []
    assert type(figure.get_layout_engine()).__name__ in {"ConstrainedLayoutEngine", "TightLayoutEngine"}


@pytest.mark.slow
def test_a_restored_figure_accepts_new_callbacks(namespace: dict[str, Any]) -> None:
    with Tracker(MemoryStore()) as tracker:
        tracker.save(namespace, "x")
        tracker.restore("x", new := fresh())
        heard: list[Any] = []
        new["left"].callbacks.connect("xlim_changed", heard.append)
        new["left"].set_xlim(0, 50)
        assert heard == [new["left"]]
        new["fig"].canvas.draw()
        assert new["left"].transData.transform([50, 0])[0] == pytest.approx(new["left"].bbox.x1)
