"""PBT: population based training. Bad trials go on from good ones, with other values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.drawing import MISSING, Keys, complete, domains, value_at, with_values
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.scheduling import GENERATION
from nbckpt.trials.model.space import Domain, Grid, SampleFrom
from nbckpt.trials.model.trial import Trial, rungs_of, state_of
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.schedulers.base import Scheduler
from nbckpt.trials.schedulers.explore import Range, explored, range_of
from nbckpt.trials.schedulers.population import Population, Turns


class PBT(Scheduler):
    """Population based training (Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846).

    Each *interval* ends a generation. A trial that is then among the worst quarter of the population goes on
    from the newest checkpoint of a random trial of the best quarter, with that trial's configuration. A
    function that does not read `get_checkpoint` begins again there, and may never end without *max_t*. Each
    value of this is drawn again with a chance of *resample*; else it is multiplied by one of the *factors*,
    or moves to a neighbour in a list. A whole number stays one, unless its range has fractions. The trial's
    own results and counts go on.

    If there are more trials than workers, the trials take turns: each trains a generation. A trial without a
    checkpoint goes on as it is. A trial that has ended leaves the population.

    Args:
        interval: How much training makes a generation.
        mutations: The values that change, by their keys, such as `lr` or `opt/momentum`. Each is a range, a
            list, or a function that draws one. By default all values that vary in the configuration.
        max_t: The trial ends here. By default it ends by itself.
        quantile: Which share of the population goes on from which other share. At most 0.5.
        resample: The chance that a value is drawn again.
        factors: What numbers are multiplied by.
        time_attr: The metric that says how long a trial has trained, which must grow.
        metric: The metric that is compared; by default that of the experiment.
        mode: Whether `min` or `max` of it is best; by default that of the experiment.

    Raises:
        UsageError: An argument is impossible.

    Examples:
        >>> def train(config):
        ...     checkpoint = nbckpt.get_checkpoint()  # of another trial, after an exploit
        ...     for step in range(checkpoint.to_dict()["step"] + 1 if checkpoint else 0, 4):
        ...         nbckpt.report(loss=config["lr"], checkpoint={"step": step})
        >>> rates = {"lr": nbckpt.uniform(0, 1)}
        >>> pbt = nbckpt.trials.PBT(interval=2, mutations=rates, metric="loss", mode="min")
        >>> nbckpt.run(train, rates, num_samples=4, scheduler=pbt).wait()
        True
    """

    takes_turns = True

    def __init__(
        self,
        interval: float = 1,
        *,
        mutations: Mapping[str, Grid | Domain | Sequence[Any] | Callable[[], Any]] | None = None,
        max_t: float | None = None,
        quantile: float = 0.25,
        resample: float = 0.25,
        factors: Sequence[float] = (1.2, 0.8),
        time_attr: str = ITERATION,
        metric: str = "",
        mode: str = "",
    ) -> None:
        super().__init__(metric, mode, time_attr)
        if not interval > 0:
            raise UsageError(f"interval={interval} is impossible: give a number above 0")
        if max_t is not None and max_t < interval:
            raise UsageError(f"max_t={max_t} is below interval={interval}: no generation ends")
        if not 0 < quantile <= 0.5:
            raise UsageError(f"quantile={quantile} is impossible: give a number above 0, at most 0.5")
        if not 0 <= resample <= 1:
            raise UsageError(f"resample={resample} is impossible: give a number from 0 to 1")
        if not factors or not all(factor > 0 for factor in factors):
            raise UsageError(f"factors={factors} is impossible: give numbers above 0, such as (1.2, 0.8)")
        self.interval, self.max_t, self.quantile = interval, max_t, quantile
        self.resample, self.factors = resample, tuple(factors)
        self.mutations = {key: range_of(key, values) for key, values in (mutations or {}).items()}
        self._experiment: ExperimentView | None = None
        self._population, self._turns = Population(quantile), Turns()
        self._step = 1.0

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the arguments only. `setup` comes before everything else."""
        arguments = {
            name: value for name, value in vars(self).items() if name not in {"_population", "_turns"}
        }
        return arguments | {"_experiment": None}

    def check(self, config: Mapping[str, Any]) -> None:
        """See `Scheduler.check`."""
        for key in self.mutations:
            if value_at(config, _path(key)) is MISSING:
                hint = suggestion(key, config)
                raise UsageError(f"mutations has {key!r}, but the configuration has not. {hint}".rstrip())
        if not self._ranges(config):
            raise UsageError(
                "PBT has nothing to change: give ranges in the configuration, such as "
                "lr=loguniform(1e-4, 1), or mutations={'lr': …}"
            )

    def setup(self, experiment: ExperimentView) -> None:
        """See `Scheduler.setup`. The journals tell the values and the generations."""
        self._experiment, self._population, self._turns = experiment, Population(self.quantile), Turns()
        for trial in experiment.trials:
            scheduling = state_of(trial).scheduling
            if scheduling.rungs and not trial.finished:
                self._take_in(trial, self.badness(scheduling.value), rungs_of(trial))
            if trial.iteration:
                self._step = self.trained(trial.metrics) / trial.iteration or 1.0

    def reported(self, trial: Trial) -> Decision | None:
        """See `Scheduler.reported`."""
        done, value = self.trained(trial.metrics), self.value(trial.metrics)
        self._step, generation = done / trial.iteration or 1.0, self._generation(done)
        if self.max_t is not None and done >= self.max_t:
            return Decision("end", f"{GENERATION}{generation}: {self.time_attr} reached {self.max_t:g}")
        if generation <= self._population.generation(trial.id):
            return None
        self._take_in(trial, self.badness(value), generation)
        population = self._population
        reason = f"{GENERATION}{generation}: number {population.rank(trial.id)} of {len(population)}"
        if population.is_bad(trial.id) and population.has_best:
            return Decision("pause", f"{reason}, among the worst", generation - 1, value)
        return Decision("yield", reason, generation - 1, value)

    def wants_checkpoint(self, trial: Trial) -> bool:
        """See `Scheduler.wants_checkpoint`. Each trial is saved when its generation ends."""
        done = self.trained(trial.metrics)
        return self._generation(done + self._step) > self._generation(done)

    def next_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """See `Scheduler.next_trial`. The trial of the earliest generation comes first."""
        trial = self._turns.first(held)
        return trial, self._going_on(trial)

    def last_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """See `Scheduler.last_trial`."""
        return self.next_trial(held)

    def ended(self, trial: Trial) -> None:
        """See `Scheduler.ended`."""
        self._population.leave(trial.id)

    def _take_in(self, trial: Trial, badness: float, generation: int) -> None:
        self._population.put(trial.id, badness, generation)
        self._turns.wait(trial.id, generation)

    def _going_on(self, trial: Trial) -> Decision:
        """Decide how a paused trial goes on: as it is, or from another one if it is still among the worst."""
        assert self._experiment is not None  # `setup` came first
        generation = rungs_of(trial)
        rung = generation - 1 if generation else None
        # The same after a restart, whatever else was drawn.
        source = random.Random(f"{self._experiment.spec.seed}, {trial.id}, generation {generation}")
        donor = self._donor(source) if self._population.is_bad(trial.id) else None
        if donor is None:
            return Decision("promote", f"{GENERATION}{generation}: it goes on as it is", rung)
        badness = self._population.badness(donor.id)
        # It has that one's weights, as in algorithm 1.
        self._population.put(trial.id, badness, self._population.generation(trial.id))
        value = self.badness(badness)
        reason = f"{GENERATION}{generation}: it goes on from {donor.id}, whose {self.metric} was {value:g}"
        config = self._explored(donor.config, source)
        name = donor.checkpoint_name or ""
        return Decision("exploit", reason, rung, value, donor=donor.id, checkpoint=name, config=config)

    def _donor(self, source: random.Random) -> Trial | None:
        """Draw one of the best that has a checkpoint to give; None if none has."""
        assert self._experiment is not None
        names = [*self._population.best()]
        while names:
            at = source.randrange(len(names))
            trial = self._experiment.trial(names[at])
            if _can_give(trial):
                return trial
            names[at] = names[-1]
            names.pop()
        return None

    def _explored(self, config: Mapping[str, Any], source: random.Random) -> dict[str, Any]:
        """Return a configuration with other values. What follows from these is computed again."""
        assert self._experiment is not None
        space = self._experiment.spec.config
        drawn = [path for path, domain in domains(space).items() if not isinstance(domain, SampleFrom)]
        values = {path: value_at(config, path) for path in drawn}
        for path, values_of in self._ranges(space).items():
            old = value_at(config, path)
            values[path] = explored(old, values_of, source, self.resample, self.factors)
        there = {path: value for path, value in values.items() if value is not MISSING}
        return complete(with_values(space, there), {}, source)

    def _ranges(self, space: Mapping[str, Any]) -> dict[Keys, Range]:
        """Return the values that change, by their keys in the configuration."""
        if self.mutations:
            return {_path(key): values for key, values in self.mutations.items()}
        return {path: values for path, values in domains(space).items() if not isinstance(values, SampleFrom)}

    def _generation(self, done: float) -> int:
        """Return how many generations end within that much training."""
        return int(done // self.interval)


def _can_give(trial: Trial) -> bool:
    """Return whether a trial has a checkpoint of its present configuration: not before it has taken over."""
    return bool(trial.checkpoint_name) and state_of(trial).scheduling.takeover is None


def _path(key: str) -> Keys:
    return tuple(key.split("/"))
