"""Parts of wholes: a trace of a figure of plotly, and a quantity of a registry of pint."""

from __future__ import annotations

from typing import Any

import pytest

from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker


def restored(setup: str) -> tuple[dict[str, Any], list[str]]:
    """Run code, save, and restore in the same process. Return the variables and the warnings of the save."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(setup, names)
    tracker = Tracker(MemoryStore())
    manifest = tracker.save(names, "s").manifest
    tracker.restore("s", names)
    return names, [*manifest.warnings]


@pytest.mark.parametrize(
    "part", ["fig.data[0]", "fig.data[0].marker", "fig.layout", "fig.layout.xaxis", "fig.layout.shapes[1]"]
)
def test_a_part_of_a_figure_stays_its_part(part: str) -> None:
    pytest.importorskip("plotly")
    names, _ = restored(
        "import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))\n"
        f"fig.add_shape(type='line'); fig.add_shape(type='rect'); part = {part}"
    )
    assert eval(part, names) is names["part"]
    assert names["part"].figure is names["fig"]


def test_a_trace_without_a_figure_comes_back() -> None:
    pytest.importorskip("plotly")
    names, _ = restored("import plotly.graph_objects as go; trace = go.Scatter(x=[1])")
    assert names["trace"].x == (1,)


def test_a_quantity_stays_in_its_registry() -> None:
    pytest.importorskip("pint")
    names, warnings = restored(
        "import pint; ureg = pint.UnitRegistry(); q = 5 * ureg.meter; u = ureg.second\n"
        "plain = pint.Quantity('2 m')"
    )
    assert str(names["q"] + 1 * names["ureg"].meter) == "6 meter"
    assert str(names["q"] / names["u"]) == "5.0 meter / second"
    assert str(names["plain"] + names["pint"].Quantity("1 m")) == "3 meter"
    assert [text.partition(":")[0] for text in warnings] == ["q", "u"]
