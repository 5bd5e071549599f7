"""The load of the machine while a trial ran, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbckpt.render import Cell, Column, Table, size, thinned
from nbckpt.trials.model.trial import Trial

_POINTS = 24


def load_tables(trial: Trial) -> Iterator[Table]:
    """Yield the table of a trial's load, if it was sampled."""
    loads = trial.loads
    names = dict.fromkeys(name for load in loads for name in load if name != "at")
    rows = []
    for name in names:
        values = [load[name] for load in loads if name in load and math.isfinite(load[name])]
        if values:
            shown = size if name.endswith("_bytes") else "{:.0f} %".format
            label = name.removesuffix("_bytes").removesuffix("_percent").replace("_", " ")
            last = Cell(shown(values[-1]), "", tuple(thinned(values, _POINTS)))
            rows.append((label, last, shown(max(values))))
    if rows:
        columns = Column("load"), Column("last", number=True), Column("highest", number=True)
        yield Table("load of the machine", columns, tuple(rows))
