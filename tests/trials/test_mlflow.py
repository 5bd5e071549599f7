"""MLflow: what its callback logged, read back by MLflow's client from a database of the test's own."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from late import library
from nbckpt.errors import UsageError
from nbckpt.integrations.mlflow import MLflowCallback
from nbckpt.trials import Experiment
from nbckpt.trials.engine import shutdown

mlflow = library("mlflow", reason="needs MLflow")
pytestmark = [
    pytest.mark.slow,  # the import and the first use of a database
    # MLflow's own use of SQLAlchemy.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)  # where artifacts go
    return tmp_path / "store"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database; making one takes seconds, so the tests share it and each has its own names."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/runs.db"


def run(fn: Any, uri: str, name: str, config: dict[str, Any] | None = None, **kwargs: Any) -> Experiment:
    callbacks = kwargs.pop("callbacks", [MLflowCallback(uri)])
    experiment = ran(fn, config, name=name, callbacks=callbacks, **kwargs)
    assert experiment.notes == []
    return experiment


def runs(uri: str, name: str) -> list[Any]:
    client = mlflow.MlflowClient(uri)
    matching = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    return sorted(matching, key=lambda run: run.data.tags["nbckpt.trial"])


def history(uri: str, run: Any, metric: str) -> list[tuple[int, float]]:
    return [
        (point.step, point.value)
        for point in mlflow.MlflowClient(uri).get_metric_history(run.info.run_id, metric)
    ]


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 4):
        nbckpt.report(
            loss=float(i), test={"top 1%": 0.5}, kind="x", checkpoint={"i": i + 1} if i == 1 else None
        )
        if i == 2 and config.get("fails") and (checkpoint is None or config["fails"] == "always"):
            raise ValueError("once")


def test_each_trial_is_a_run_with_its_params_and_metrics(uri: str) -> None:
    run(train, uri, "grid", {"lr": nbckpt.grid_search([0.1, 0.2]), "opt": {"kind": "sgd"}})
    one, two = runs(uri, "grid")
    assert one.data.params == {"lr": "0.1", "opt/kind": "sgd"}
    assert two.data.params == {"lr": "0.2", "opt/kind": "sgd"}
    for logged, trial in ((one, "t0"), (two, "t1")):
        assert logged.info.status == "FINISHED"
        assert logged.data.tags["nbckpt.trial"] == logged.info.run_name == f"grid/{trial}"
        assert history(uri, logged, "loss") == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]
        assert history(uri, logged, "test/top 1_") == [(step, 0.5) for step in range(1, 5)]
        assert {"kind", "done"}.isdisjoint(logged.data.metrics)


def test_odd_names_and_long_values_turn_nothing_off(uri: str) -> None:
    odd = {"": 1, "a:b": 2, "a;b": 3, "/top": 4, "x/../y": 5, "z" * 400: 6}
    run(lambda config: odd | {"big": 10**400}, uri, "odd", odd | {"list": [*range(5000)]})
    (logged,) = runs(uri, "odd")
    names = {"_": 1, "a_b": 2, "a_b_": 3, "top": 4, "x/y": 5, "z" * 240: 6}
    assert logged.info.status == "FINISHED"
    assert names.items() <= logged.data.metrics.items()
    assert {name: logged.data.params[name] for name in names} == {name: str(n) for name, n in names.items()}
    assert len(logged.data.params["list"]) == 6000


def test_many_params_and_many_results_are_sent_in_parts(uri: str) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(60):
            nbckpt.report({f"m{j}": i for j in range(20)})

    run(train, uri, "many", {f"p{i}": i for i in range(150)})
    (logged,) = runs(uri, "many")
    assert len(logged.data.params) == 150
    assert history(uri, logged, "m19") == [(i + 1, i) for i in range(60)]


def test_a_retried_trial_is_one_run_with_each_iteration_once(uri: str) -> None:
    run(train, uri, "retried", {"fails": "once"}, max_failures=1)
    (logged,) = runs(uri, "retried")
    assert logged.info.status == "FINISHED"
    assert history(uri, logged, "loss") == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]


def test_a_failed_trial_is_a_failed_run_until_it_is_resumed(uri: str) -> None:
    run(train, uri, "failed", {"fails": "once"})
    (logged,) = runs(uri, "failed")
    assert logged.info.status == "FAILED"
    assert history(uri, logged, "loss")[-1] == (3, 2.0)
    shutdown.live.clear()
    experiment = Experiment.read(Path("store/experiments/failed").absolute()).resume(errored=True)
    assert experiment.wait(60)
    assert experiment.notes == []
    (again,) = runs(uri, "failed")
    assert again.info.run_id == logged.info.run_id
    assert again.info.status == "FINISHED"
    assert history(uri, again, "loss") == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]


@pytest.mark.parametrize("wish", ["pause", "stop"])
def test_a_paused_or_stopped_trial_is_a_killed_run(uri: str, wish: str) -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0, checkpoint={})
        reported.set()
        assert go.wait(60)
        nbckpt.report(loss=0.5, checkpoint={})
        nbckpt.report(loss=0.1)

    experiment = nbckpt.run(train, name=wish, callbacks=[MLflowCallback(uri)])
    assert reported.wait(60)
    getattr(experiment, wish)()
    go.set()
    assert experiment.wait(60)
    (logged,) = runs(uri, wish)
    assert logged.info.status == "KILLED"
    assert history(uri, logged, "loss") == [(1, 1.0), (2, 0.5)]


def test_a_new_experiment_with_an_old_name_has_its_own_runs(uri: str, tmp_path: Path) -> None:
    run(train, uri, "renewed", {"lr": 1})
    run(train, uri, "renewed", {"lr": 2}, folder=tmp_path / "elsewhere")
    assert sorted(run.data.params["lr"] for run in runs(uri, "renewed")) == ["1", "2"]


def test_one_callback_can_follow_two_experiments_at_once(uri: str) -> None:
    both = threading.Barrier(2)

    def train(config: dict[str, Any]) -> None:
        for i in range(3):
            both.wait(60)
            nbckpt.report(loss=config["n"] + i)

    callbacks = [MLflowCallback(uri, "shared")]
    experiments = [nbckpt.run(train, {"n": n}, name=f"both{n}", callbacks=callbacks) for n in (0, 10)]
    assert all(experiment.wait(60) for experiment in experiments)
    one, two = runs(uri, "shared")
    assert history(uri, one, "loss") == [(1, 0), (2, 1), (3, 2)]
    assert history(uri, two, "loss") == [(1, 10), (2, 11), (3, 12)]


@pytest.mark.parametrize("wanted", [True, False])
def test_checkpoints_are_logged_on_request(uri: str, wanted: bool) -> None:
    run(train, uri, f"files{wanted}", callbacks=[MLflowCallback(uri, log_checkpoints=wanted)])
    (logged,) = runs(uri, f"files{wanted}")
    client = mlflow.MlflowClient(uri)
    paths = [file.path for file in client.list_artifacts(logged.info.run_id)]
    assert paths == (["checkpoint_000002"] if wanted else [])
    if wanted:
        place = client.download_artifacts(logged.info.run_id, paths[0])
        assert nbckpt.Checkpoint.from_directory(place).to_dict() == {"i": 2}


def test_a_pickled_callback_has_no_open_runs(uri: str) -> None:
    callback = MLflowCallback(uri, "name", log_checkpoints=True)
    run(train, uri, "kept", callbacks=[callback])
    back = pickle.loads(pickle.dumps(callback))
    assert (back.tracking_uri, back.experiment_name, back.log_checkpoints) == (uri, "name", True)
    assert back._experiments == {}


def test_without_mlflow_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match=r"^MLflowCallback needs MLflow: pip install 'nbckpt\[mlflow\]'$"):
        MLflowCallback()
