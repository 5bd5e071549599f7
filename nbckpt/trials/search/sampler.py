"""OptunaSampler: a sampler of Optuna by its name, with a study that the journals make again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from nbckpt.errors import UsageError
from nbckpt.trials.model import optuna
from nbckpt.trials.model.objectives import listed
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.search.base import Search
from nbckpt.trials.search.optuna import OptunaSearch, check_spec

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class OptunaSampler(Search):
    """Asks a sampler of Optuna for configurations: `OptunaSampler("tpe", n_startup_trials=5)`.

    It needs no study. When the experiment resumes, in this kernel or in another, the sampler learns of all
    earlier trials from their journals.

    Args:
        sampler: The name of a class of `optuna.samplers`, as `TPESampler`, or `tpe` for short; or a sampler.
        options: The arguments of this class. By default its seed is that of the experiment.

    Raises:
        UsageError: Optuna is not installed or has no such sampler, or the sampler refuses the options or
            needs another package.
    """

    def __init__(self, sampler: str | BaseSampler, /, **options: Any) -> None:
        self.sampler, self.options = sampler, options
        self._search: OptunaSearch | None = None
        optuna.check_packages(self._made(0))

    def setup(self, experiment: ExperimentView) -> None:
        """See `Search.setup`."""
        spec = experiment.spec
        # Another seed after each restart: see docs/decisions/0088.
        seed = (spec.seed + len(experiment.trials)) % (1 << 32)
        unpruned = optuna.make("Pruner", "nop", {})  # a scheduler may prune
        study = optuna.new_study(
            [known.mode for known in spec.objectives], sampler=self._made(seed), pruner=unpruned
        )
        self._search = OptunaSearch(study, spec, prunes=False)
        self._search.setup(experiment)

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]  # nobody sets it
        """See `Search`."""
        return () if self._search is None else self._search.notes

    def check_objectives(self, spec: Spec) -> None:
        """Refuse several objectives if the sampler takes one only.

        Raises:
            UsageError: It does. Its answer to a question in a study of its own says so.
        """
        if not spec.others:
            return
        study = optuna.new_study([known.mode for known in spec.objectives], sampler=self._made(0))
        try:
            OptunaSearch(study, spec).suggest("t0")
        except ValueError as error:
            name = type(study.sampler).__name__
            raise UsageError(
                f"Optuna's {name} takes one objective, and there are {listed(spec.objectives)}: search with "
                f"'nsgaii' or 'tpe', or give one metric ({error})"
            ) from None

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """See `Search.suggest`."""
        return self._ready().suggest(trial_id)

    def reported(self, trial: Trial) -> str:
        """See `Search.reported`."""
        return self._ready().reported(trial)

    def ended(self, trial: Trial) -> None:
        """See `Search.ended`."""
        self._ready().ended(trial)

    def _ready(self) -> OptunaSearch:
        assert self._search is not None  # `setup` came first
        return self._search

    def _made(self, seed: int) -> Any:
        """Return a new sampler, or a copy of the user's."""
        if not isinstance(self.sampler, str):
            return copy.deepcopy(self.sampler)
        made = optuna.make("Sampler", self.sampler, self.options)
        if "seed" in self.options or "seed" not in inspect.signature(type(made)).parameters:
            return made
        return optuna.make("Sampler", self.sampler, {**self.options, "seed": seed})


def open_search(search: Any, spec: Spec) -> Search | None:
    """Return the search for a user's argument: a sampler's name, an Optuna study, or a `Search`.

    Raises:
        UsageError: The argument is none of these, or does not fit the experiment.
    """
    if search is None:
        return None
    if hasattr(search, "ask") and hasattr(search, "tell"):
        return OptunaSearch(search, spec)
    if isinstance(search, str | OptunaSampler):
        check_spec(spec)
        sampler = as_sampler(search)
        sampler.check_objectives(spec)
        return sampler
    if isinstance(search, Search):
        return search
    raise UsageError(
        f"search={search!r} is not a search: give the name of an Optuna sampler, such as 'tpe', an Optuna "
        "study, or a subclass of nbckpt.trials.Search"
    )


@overload
def as_sampler(search: str | OptunaSampler) -> OptunaSampler: ...
@overload
def as_sampler(search: Any) -> OptunaSampler | None: ...
def as_sampler(search: Any) -> OptunaSampler | None:
    """Return a sampler for a name, or a copy of a sampler; None for any other search."""
    if isinstance(search, str):
        return OptunaSampler(search)
    return copy.deepcopy(search) if isinstance(search, OptunaSampler) else None
