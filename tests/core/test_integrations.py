"""Checkpoints of scikit-learn estimators."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest

from late import library
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.integrations.sklearn import SklearnCheckpoint

linear_model = library("sklearn.linear_model", reason="needs scikit-learn")

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10.0)


@pytest.mark.slow
def test_a_fitted_estimator_predicts_the_same(tmp_path: Path) -> None:
    model = linear_model.Ridge().fit(X, Y)
    made = SklearnCheckpoint.from_estimator(model, score=0.5)
    folder = made.to_directory(tmp_path / "made")
    uri = made.to_uri(f"memory://{uuid.uuid4().hex}")
    for back in (Checkpoint.from_directory(folder), Checkpoint.from_uri(uri), made):
        assert isinstance(back, SklearnCheckpoint)
        assert np.array_equal(back.get_estimator().predict(X), model.predict(X))
        assert back.to_dict()["score"] == 0.5


def test_a_value_that_is_not_an_estimator_is_refused() -> None:
    with pytest.raises(UsageError, match="not dict"):
        SklearnCheckpoint.from_estimator({})
    with pytest.raises(UsageError, match="estimator, not"):
        SklearnCheckpoint.from_estimator(linear_model.Ridge)


def test_a_checkpoint_without_an_estimator_is_a_clear_error() -> None:
    with pytest.raises(NotFoundError, match="holds no estimator"):
        SklearnCheckpoint.from_dict({"a": 1}).get_estimator()


@pytest.mark.parametrize("name", ["torch", "sklearn"])
def test_an_integration_imports_its_library_on_first_use(name: str) -> None:
    code = f"import sys, nbckpt.integrations.{name}; sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
