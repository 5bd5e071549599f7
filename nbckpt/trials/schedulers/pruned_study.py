"""PrunedStudy: what a pruner of Optuna knows of our trials, under numbers that a restart does not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from nbckpt._private_apis import optuna_rung
from nbckpt.trials.model import optuna

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_AUTO: dict[str, tuple[str, Callable[[int], int]]] = {
    "HyperbandPruner": ("max_resource", lambda step: step + 1),
    "SuccessiveHalvingPruner": ("min_resource", lambda step: max(step // 100, 1)),
}
"""The options that are `auto`, and what Optuna puts there when the first trial is complete at a step."""


class PrunedStudy:
    """A study of Optuna in memory, which only a pruner reads. Trials are not copied to ask the pruner.

    A trial is running there until it is complete: pruners treat all other ends alike.

    Args:
        mode: Whether `min` or `max` is best.
        name: The study's name. Hyperband draws the bracket of a trial by this name and the trial's number.
        pruner: The name of the pruner's class.
        options: Its arguments.
    """

    def __init__(self, mode: str, name: str, pruner: str, options: Mapping[str, Any]) -> None:
        from optuna.storages import InMemoryStorage

        self._storage = InMemoryStorage()
        self._study = optuna.new_study([mode], study_name=name, storage=self._storage)
        self._id = self._storage.get_study_id_from_name(name)
        self._ids: list[int] = []
        self._name, self._options = pruner, options
        self._pruner = optuna.make("Pruner", pruner, options)
        self._auto = _AUTO.get(type(self._pruner).__name__, ("", int))
        self._is_auto = bool(self._auto[0]) and options.get(self._auto[0], "auto") == "auto"

    def add(self, number: int, values: Mapping[int, float], rungs: Mapping[int, float | None]) -> None:
        """Add the trial of a number, with its values by step and those at its rungs."""
        # The storage gives its own object. To hand it a template would copy each value twice.
        trial = self._trial(number)
        trial.intermediate_values.update(values)
        trial.system_attrs.update({optuna_rung(at): value for at, value in _without_gaps(rungs).items()})

    def report(self, number: int, step: int, value: float) -> bool:
        """Report a value. Return False if the step is not new, or the trial is complete."""
        trial = self._trial(number)
        if trial.state.is_finished() or step <= max(trial.intermediate_values, default=-1):
            return False
        self._storage.set_trial_intermediate_value(self._ids[number], step, value)
        return True

    def is_pruned(self, number: int) -> bool:
        """Ask the pruner whether a trial stops after its newest report."""
        return bool(self._pruner.prune(self._study, self._trial(number)))

    def rungs(self, number: int) -> int:
        """Return how many rungs a trial has reached; 0 if the pruner has none."""
        known = self._trial(number).system_attrs
        return sum(1 for _ in takewhile(lambda at: optuna_rung(at) in known, count()))

    def complete(self, number: int, value: float) -> None:
        """Take in that a trial is complete. The first one says what `auto` means, also after a restart."""
        from optuna.trial import TrialState

        trial = self._trial(number)
        if trial.state.is_finished():
            return
        self._storage.set_trial_state_values(self._ids[number], TrialState.COMPLETE, [value])
        if self._is_auto and trial.intermediate_values:
            name, resource = self._auto
            options = {**self._options, name: resource(max(trial.intermediate_values))}
            self._is_auto, self._pruner = False, optuna.make("Pruner", self._name, options)

    def _trial(self, number: int) -> FrozenTrial:
        while len(self._ids) <= number:
            self._ids.append(self._storage.create_new_trial(self._id))
        return self._storage.get_trial(self._ids[number])


def _without_gaps(rungs: Mapping[int, float | None]) -> dict[int, float | None]:
    """Return the values at all rungs. One report may reach several, and only the highest is recorded."""
    whole: dict[int, float | None] = {}
    for rung in sorted(rungs):
        whole |= dict.fromkeys(range(len(whole), rung + 1), rungs[rung])
    return whole
