"""Matching: the configurations of an experiment, each with the trial that already has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.model import params
from nbckpt.trials.model.drawing import (
    Keys,
    canonical,
    computed,
    configs,
    has_grid,
    leaves,
    lookalikes,
    picks_of,
    value_at,
    with_earlier,
    without,
)
from nbckpt.trials.model.metrics import PLAIN, without_addresses
from nbckpt.trials.model.points import drawn
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Status, Trial, is_held, state_of
from nbckpt.trials.search.base import Search


def trials_to_run(runner: Runner, search: Search | None) -> list[Trial]:
    """Return the trials to run: one for each unfinished configuration, made if it is new."""
    spec, known = runner.spec, list(runner.trials.values())
    paths = computed(spec.config)
    pairs = list(match(known, _wanted(spec, is_searched=search is not None), paths))
    if search is not None:
        met = {trial.id for trial, _ in pairs if trial is not None}
        pairs += [(trial, trial.config) for trial in known if trial.id not in met]
    made = iter(runner.add(*(config for trial, config in pairs if trial is None)))
    trials = []
    for trial, config in pairs:
        if trial is None:
            trials.append(next(made))
        elif not trial.finished and not (spec.scheduler and is_held(trial)):
            if not state_of(trial).scheduling.donor:  # else it has another configuration by now
                state_of(trial).config = with_earlier(config, trial.config, paths)
            trials.append(trial)
    return trials


def _wanted(spec: Spec, *, is_searched: bool) -> Iterator[dict[str, Any]]:
    """Yield the configurations that are known before any trial ran: the points, then the others."""
    first = list(drawn(spec.points, spec.config, spec.seed))
    yield from first
    if is_searched:
        return
    others = configs(spec.config, spec.num_samples, spec.seed)
    if not has_grid(spec.config):
        yield from islice(others, max(spec.num_samples - len(first), 0))
        return
    lists = lookalikes(spec.config)
    tried = Counter(f"{canonical(point)} {picks_of(lists, point)}" for point in first)
    for config in others:
        if tried and tried[text := f"{canonical(config)} {picks_of(lists, config)}"]:
            tried[text] -= 1
        else:
            yield config


def match(
    trials: Iterable[Trial], configs: Iterable[Mapping[str, Any]], computed_paths: Iterable[Keys] = ()
) -> Iterator[tuple[Trial | None, Mapping[str, Any]]]:
    """Yield each configuration with the trial that already has it, or None. Each trial comes once.

    Values that a function computes do not count: the function may compute others each time. Two objects of
    this kernel that look the same in a file are not the same value.
    """
    waiting: dict[str, list[tuple[Trial, Mapping[str, Any]]]] = {}
    for trial in trials:
        if trial.status != Status.DAMAGED:  # its configuration is unknown
            compared = without(_first_config(trial), computed_paths)
            waiting.setdefault(canonical(compared), []).append((trial, compared))
    for config in configs:
        compared = without(config, computed_paths)
        alike = waiting.get(canonical(compared), [])
        at = next((at for at, (_, other) in enumerate(alike) if not _have_other_objects(other, compared)), -1)
        yield (None if at < 0 else alike.pop(at)[0]), config


def _have_other_objects(known: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Return whether two configurations have different objects of this kernel, such as two functions."""
    pairs = ((value, value_at(config, path)) for path, value in leaves(known))
    # A plain value beside an object is its text, from a file. It does not tell which of several it is.
    objects = ((repr(a), repr(b)) for a, b in pairs if a is not b and PLAIN.isdisjoint({type(a), type(b)}))
    return any(a != b and without_addresses(a) == without_addresses(b) for a, b in objects)


def _first_config(trial: Trial) -> Mapping[str, Any]:
    """Return the configuration that a trial was made with. A scheduler may have changed it since."""
    # see docs/decisions/0108
    return params.read(trial.folder) if state_of(trial).scheduling.donor else trial.config
