"""Search algorithms by Ray's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbckpt.compat.arguments import refused_names
from nbckpt.errors import UsageError
from nbckpt.trials.search import OptunaSampler

ADVICE = "use OptunaSearch, or leave it out"


class OptunaSearch(OptunaSampler):
    """Asks a sampler of Optuna for configurations.

    Args:
        space: Give it as the `config` of `tune.run`.
        metric: The metric that is compared, or several; by default that of `tune.run`.
        mode: Whether `min` or `max` of it is best, for each metric.
        points_to_evaluate: The configurations to try first.
        sampler: A sampler of Optuna; by default TPE.
        seed: The seed of TPE.

    Raises:
        UsageError: Optuna is not installed, or a space is given.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | list[str] | None = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        sampler: Any = None,
        seed: int | None = None,
    ) -> None:
        if space is not None:
            raise UsageError("OptunaSearch takes no space here: give it as the config of tune.run")
        options = {} if seed is None or sampler is not None else {"seed": seed}
        super().__init__(sampler or "tpe", **options)
        self.metric, self.mode = metric or "", mode or ""
        self.points = tuple(points_to_evaluate or ())


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            *(
                "AxSearch",
                "BasicVariantGenerator",
                "BayesOptSearch",
                "BlendSearch",
                "CFO",
                "ConcurrencyLimiter",
            ),
            *(
                "DragonflySearch",
                "HEBOSearch",
                "HyperOptSearch",
                "NevergradSearch",
                "Repeater",
            ),
            *("SigOptSearch", "SkOptSearch", "TuneBOHB", "ZOOptSearch", "create_searcher"),
        ),
        ADVICE,
    ),
)
