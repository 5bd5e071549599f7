"""Hook: a function that a module of a lower layer calls and a module of a higher layer provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """Calls the function that it was given last.

    Attributes:
        function: That function.
    """

    function: Callable[P, R]

    def __init__(self, default: Callable[P, R] | None = None) -> None:
        if default is not None:
            self.function = default

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)
