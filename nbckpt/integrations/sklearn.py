"""SklearnCheckpoint: a checkpoint that holds a scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_ESTIMATOR = "estimator"


class SklearnCheckpoint(Checkpoint):
    """A checkpoint with an estimator under the key `estimator`."""

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, **fields: Any) -> Self:
        """Make a checkpoint of an estimator, fitted or not, and other fields.

        Raises:
            UsageError: *estimator* is not a scikit-learn estimator.
        """
        from sklearn.base import BaseEstimator

        if not isinstance(estimator, BaseEstimator):
            kind = type(estimator).__name__
            raise UsageError(f"from_estimator takes a scikit-learn estimator, not {kind}")
        return cls.from_dict({_ESTIMATOR: estimator, **fields})

    def get_estimator(self) -> BaseEstimator:
        """Return the estimator.

        Raises:
            NotFoundError: The checkpoint holds no estimator.
            UntrustedError: Someone else wrote the checkpoint.
        """
        estimator = self._field(_ESTIMATOR)
        if estimator is None:
            raise NotFoundError(f"{self!r} holds no estimator: make one with from_estimator")
        return estimator
