"""Search algorithms by Ray's names, all of which are refused."""

from __future__ import annotations

from nbckpt.compat.arguments import refused_names

ADVICE = "leave it out, or give search_alg an Optuna study: optuna.create_study(direction='minimize')"

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
                "OptunaSearch",
                "Repeater",
            ),
            *("SigOptSearch", "SkOptSearch", "TuneBOHB", "ZOOptSearch", "create_searcher"),
        ),
        ADVICE,
    ),
)
