"""Metrics: results with the counts that nbckpt adds, how to look up a metric, and metrics as JSON."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeGuard

from nbckpt.core.schema import MOST_NESTED
from nbckpt.errors import UsageError
from nbckpt.media.base import Encoded
from nbckpt.media.intake import NUMBERS
from nbckpt.provenance.worker import WorkerOrigin
from nbckpt.trials.checkpoints.record import Kind, Record, name_of

DONE = "done"
ITERATION = "training_iteration"
TIME_THIS_ITER = "time_this_iter_s"
_TOTALS = {f"{name}_this_iter": f"{name}_total" for name in ("timesteps", "episodes")}
_GIVEN: dict[str, Callable[[Any], float]] = {TIME_THIS_ITER: float, **dict.fromkeys(_TOTALS, int)}
"""The counts that a report may give, each with the function that reads it."""
# Counts of nbckpt, and values that describe a result: not the metrics that people look for.
_AUTOMATIC = re.compile(r"(time|timesteps|episodes)_(total|this_iter)(_s)?|training_iteration|timestamp|done")
TOO_DEEP = "not kept: it is nested too deeply"
"""The text that stands for such a value."""
_DEEPEST = MOST_NESTED - 20
"""The deepest nesting of a kept value. Files put the value inside a few more lists and objects."""
PLAIN = frozenset({int, float, str, bool, type(None)})
_NAMES = frozenset({str})
_ADDRESS = re.compile(" at 0x[0-9A-Fa-f]+")


@dataclass  # not frozen: that would take half a microsecond more for each report
class Result:
    """One result that the user's code pushes to its trial. Nobody changes it.

    Attributes:
        metrics: The metrics, and the counts that nbckpt adds. Empty if the code ended after its last result.
        checkpoint: `given` if one came that is to be saved, `missing` if one was asked for and none came.
        done: Whether no further result follows.
        media: The media that came with the metrics, by their names; None if there are none.
        numbers: Whether `all_numbers` holds for the metrics. If not, it is not known.
    """

    metrics: dict[str, Any]
    checkpoint: Literal["", "given", "missing"] = ""
    done: bool = False
    media: Mapping[str, Encoded] | None = None
    numbers: bool = False


@dataclass
class FirstResult(Result):
    """The first result from a process of the trial's own.

    Attributes:
        origin: The machine and the seeds of that process.
    """

    origin: WorkerOrigin = field(default_factory=WorkerOrigin)


def with_origin(result: Result, seeds: Mapping[str, Any]) -> FirstResult:
    """Return a process's first result with its machine and its seeds."""
    return FirstResult(**vars(result), origin=WorkerOrigin(seeds=seeds))


OnResult = Callable[[Result], bool]
"""Takes each result. Returns whether the trial may continue."""


@dataclass
class Counts:
    """The counts that nbckpt adds to the results of a trial.

    Attributes:
        iteration: The number of results, including those before a restore.
        time_total_s: How long the trial has trained, in seconds.
        totals: `timesteps_total` and `episodes_total`, if the metrics have their increments.
        last: The last result.
    """

    iteration: int = 0
    time_total_s: float = 0.0
    totals: dict[str, int] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the counts at a checkpoint."""
        totals = {name: getattr(record, name) for name in _TOTALS.values()}
        known = {name: total for name, total in totals.items() if total is not None}
        return cls(record.iteration, record.time_total_s, known, dict(record.metrics))

    def add(self, result: dict[str, Any], elapsed_s: float) -> None:
        """Count a result, and add the counts to it."""
        self.time_total_s += float(result.setdefault(TIME_THIS_ITER, elapsed_s))
        if self.totals or not _TOTALS.keys().isdisjoint(result):
            self._add_totals(result)
        self.iteration += 1  # after what may raise
        result.setdefault(DONE, False)
        result[ITERATION] = self.iteration
        result["time_total_s"] = self.time_total_s
        result["timestamp"] = time.time()
        self.last = dict(result)  # a copy, because its receivers may change the result

    def _add_totals(self, result: dict[str, Any]) -> None:
        for this_iter, total in _TOTALS.items():
            if (more := result.get(this_iter)) is not None:
                self.totals[total] = self.totals.get(total, 0) + int(more)
        result.update(self.totals)

    def record(self, name: str | None = None, kind: Kind = "files", inner: str = "") -> Record:
        """Return the record of a checkpoint that is made now."""
        return Record(
            name or name_of(self.iteration),
            kind,
            self.iteration,
            self.time_total_s,
            self.totals.get("timesteps_total"),
            self.totals.get("episodes_total"),
            plain(self.last),
            inner,
        )


def check_counts(metrics: Mapping[str, Any]) -> None:
    """Refuse wrong values of the metrics that nbckpt reads: `done`, and the counts of one iteration.

    Raises:
        UsageError: `done` is neither True nor False, or a count is not a number.
    """
    for name in _GIVEN.keys() & metrics.keys():
        if metrics[name] is None and name in _TOTALS:
            continue
        try:
            _GIVEN[name](metrics[name])
        except (TypeError, ValueError, OverflowError):
            raise UsageError(
                f"{name}={_text(metrics[name])}: nbckpt adds up this metric, so it must be a number. Leave "
                "it out, or give it another name"
            ) from None
    if DONE in metrics and type(as_plain(metrics[DONE])) is not bool:
        raise UsageError(
            f"{DONE}={_text(metrics[DONE])}: {DONE!r} says whether the trial has ended, True or False. Give "
            "this metric another name, for example 'progress'"
        )


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number, and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole_number(name: str, value: Any) -> int:
    """Return a number that a user gave as int: also one of NumPy, and a float such as `os.cpu_count() / 2`.

    Raises:
        UsageError: It is not a whole number.
    """
    number = as_plain(value)
    if is_number(number) and number % 1 == 0:
        return int(number)
    raise UsageError(f"{name}={value!r} is not a whole number")


def as_float(value: float | None) -> float:
    """Return a number as float: an integer that is too large is infinite, None becomes NaN."""
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf if value and value > 0 else -math.inf


def lookup(result: Mapping[str, Any], name: str) -> Any:
    """Return a metric by its name; `a/b` means the metric b in the dict a. None if it is missing."""
    if name in result:
        return result[name]
    here: Any = result
    for part in name.split("/"):
        if not isinstance(here, Mapping) or part not in here:
            return None
        here = here[part]
    return here


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values; `a/b` means b in the dict a."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value


def numbers(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the numbers in a result, without nbckpt's counts; `a/b` means b in the dict a."""
    for name, value in flat(result):
        if is_number(value) and not is_automatic(name):
            yield name


def is_automatic(name: str) -> bool:
    """Return whether a name is that of a count that nbckpt adds, and not of a metric that people look for."""
    return _AUTOMATIC.fullmatch(name) is not None


def plain(values: Mapping[str, Any], above: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Return metrics in JSON form: NumPy's numbers as numbers, values that JSON cannot express as text."""
    if all_plain(values) and _NAMES.issuperset(map(type, values)):
        return dict(values)
    above |= {id(values)}
    return {str(key): as_plain(value, above) for key, value in values.items()}


def all_plain(values: Mapping[str, Any]) -> bool:
    """Return whether JSON can express all these values directly; such values never change."""
    return PLAIN.issuperset(map(type, values.values()))


def all_numbers(values: Mapping[str, Any]) -> bool:
    """Return whether all these values are plain numbers, bools or None, and their names texts."""
    return NUMBERS.issuperset(map(type, values.values())) and _NAMES.issuperset(map(type, values))


def as_plain(value: Any, above: frozenset[int] = frozenset()) -> Any:
    """Return a value in JSON form, or the text of its `repr`; also if it contains itself (is *above*)."""
    if type(value) in PLAIN:
        return value
    if id(value) in above or len(above) >= _DEEPEST:
        return _text(value)
    if isinstance(value, Mapping):
        return plain(value, above)
    if isinstance(value, (list, tuple)):
        above |= {id(value)}
        return [as_plain(item, above) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a scalar of NumPy, torch or jax
        return as_plain(value.item()) if type(value.item()) is not type(value) else _text(value)
    return _text(value)


def _text(value: Any) -> str:
    try:
        return without_addresses(repr(value))
    except RecursionError:
        return TOO_DEEP
    except Exception as error:  # noqa: BLE001  a class of the user's may raise anything
        return f"<{type(value).__name__} object, whose repr() raises {type(error).__name__}>"


def without_addresses(text: str) -> str:
    """Return a `repr` as every kernel writes it: `<function relu>` for `<function relu at 0x7f348994>`."""
    return _ADDRESS.sub("", text)
