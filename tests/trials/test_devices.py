"""Devices: each trial has GPUs and processors of its own; and the machine's load, kept beside results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog, Experiment, Status
from nbckpt.trials.engine import system
from nbckpt.trials.engine.system import PERIOD_S, SystemSampler
from nbckpt.trials.executors import ThreadExecutor, gpus, most_at_once, open_executor
from nbckpt.trials.executors.reservations import Needs, ReservationPool, Reserved
from nbckpt.trials.views.trial_page import TrialShown
from waiting import until

ONE = Needs(gpus=1)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one GPU and locks of its own."""
    monkeypatch.setenv("NBCKPT_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.setenv("NBCKPT_GPUS", "gpu-a")
    monkeypatch.setattr(gpus, "driver_uuids", lambda: ())


def taken(needs: Needs = ONE, pool: ReservationPool | None = None) -> Reserved | None:
    """What is free now, or None."""
    return (pool or ReservationPool()).reserve(needs, lambda _: False)


def held(needs: Needs = ONE, pool: ReservationPool | None = None) -> Reserved:
    """What is free now, which must be enough."""
    reserved = taken(needs, pool)
    assert reserved is not None
    return reserved


def seen() -> Callable[[dict[str, Any]], None]:
    """Return a function that reports what it sees of the machine."""

    def train(config: dict[str, Any]) -> None:
        import os

        names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        nbckpt.report(pid=os.getpid(), **{name: os.environ.get(name, "unset") for name in names})

    return train


def started(train: Any = None, **options: Any) -> Experiment:
    return nbckpt.run(train or seen(), executor="process", name="e", **options)


def result_of(**options: Any) -> dict[str, Any]:
    experiment = started(**options)
    assert experiment.wait(60)
    (trial,) = experiment.trials
    assert trial.status == Status.TERMINATED
    return trial.results[-1]


def test_a_trial_sees_only_its_own_gpus_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_GPUS", "3,GPU-x,7")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "8")
    result = result_of(gpus=2, cpus=2)
    assert result["CUDA_VISIBLE_DEVICES"] == "3,GPU-x"
    assert (result["OMP_NUM_THREADS"], result["MKL_NUM_THREADS"]) == ("1", "2")


def test_a_trial_without_gpus_sees_none() -> None:
    assert result_of(gpus=0)["CUDA_VISIBLE_DEVICES"] == ""


def test_a_trial_that_names_no_devices_sees_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    result = result_of()
    assert (result["CUDA_VISIBLE_DEVICES"], result["OMP_NUM_THREADS"]) == ("5,6", "3")


def test_visible_devices_of_the_kernel_bound_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NBCKPT_GPUS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert result_of(resources_per_trial={"GPU": 1})["CUDA_VISIBLE_DEVICES"] == "5"


def test_a_waiting_trial_says_for_what_and_then_runs() -> None:
    gpu = held()
    experiment = started(gpus=1)
    (trial,) = experiment.trials
    until(lambda: trial.note == "waits for 1 GPU: 0 of 1 are free")
    assert "t0 waits for 1 GPU: 0 of 1 are free" in " ".join(str(experiment).split())
    gpu.release()
    assert experiment.wait(60)
    assert (trial.status, trial.note) == (Status.TERMINATED, "done")


@pytest.mark.slow
def test_trials_of_one_experiment_take_turns() -> None:
    experiment = started(gpus=1, num_samples=3, max_concurrent=3)
    assert experiment.wait(60)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 3
    assert {trial.results[0]["CUDA_VISIBLE_DEVICES"] for trial in experiment.trials} == {"gpu-a"}


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "status"), [("pause", Status.PAUSED), ("stop", Status.TERMINATED)])
def test_a_waiting_trial_can_be_paused_and_stopped(verb: str, status: Status) -> None:
    gpu = held()
    experiment = started(gpus=1)
    (trial,) = experiment.trials
    until(lambda: trial.note.startswith("waits"))
    getattr(experiment, verb)()
    assert experiment.wait(60)
    assert (trial.status, trial.iteration) == (status, 0)
    gpu.release()
    if verb == "pause":
        experiment.resume()
        assert experiment.wait(60)
        assert (trial.status, trial.iteration) == (Status.TERMINATED, 1)


def test_a_waiting_trial_ends_with_a_kill() -> None:
    gpu = held()
    experiment = started(gpus=1)
    until(lambda: experiment.trials[0].note.startswith("waits"))
    experiment.kill()
    assert experiment.wait(60)
    gpu.release()


@pytest.mark.slow
def test_each_attempt_of_a_failing_trial_frees_its_gpu(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        import os
        from pathlib import Path

        nbckpt.report(gpu=os.environ["CUDA_VISIBLE_DEVICES"])
        if not Path(config["marker"]).exists():
            Path(config["marker"]).touch()
            os._exit(1)

    experiment = started(train, config={"marker": str(tmp_path / "marker")}, gpus=1, max_failures=1)
    assert experiment.wait(60)
    (trial,) = experiment.trials
    assert (trial.status, trial.failures) == (Status.TERMINATED, 1)
    held().release()


def test_a_job_that_cannot_start_frees_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    experiment = started(gpus=1)
    assert experiment.wait(60)
    assert experiment.trials[0].status == Status.ERROR
    held().release()


KERNEL = textwrap.dedent(
    """
    import sys, threading
    import nbckpt

    def train(config):
        import os
        nbckpt.report(pid=os.getpid())
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait()  # as a slow release of the GPU's memory

    class Says(nbckpt.trials.Callback):
        def on_trial_result(self, trial, result):
            print(result["pid"], flush=True)

    nbckpt.run(train, name="other", executor="process", gpus=1, callbacks=[Says()]).wait()
    """
)


@pytest.mark.slow
def test_a_killed_kernel_frees_a_gpu_when_its_trial_has_ended(tmp_path: Path) -> None:
    """The trial's process inherits the lock: its memory is on the GPU until it has ended."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    with subprocess.Popen(
        [sys.executable, "kernel.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        pid = int(kernel.stdout.readline())
        assert taken() is None
        experiment = started(gpus=1)
        until(lambda: experiment.trials[0].note == "waits for 1 GPU: 0 of 1 are free")
        kernel.send_signal(signal.SIGKILL)
        assert taken() is None
        assert experiment.wait(60)
    status = Path(f"/proc/{pid}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"
    assert experiment.trials[0].status == Status.TERMINATED
    other = Catalog(experiment.folder.parent).open("other")
    assert other.interrupted(other.trials[0])


def test_gpus_are_taken_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_GPUS", "a,b")
    first = held()
    assert taken(Needs(gpus=2)) is None
    second = held()
    assert {one.environment["CUDA_VISIBLE_DEVICES"] for one in (first, second)} == {"a", "b"}
    for one in (first, first, second):  # once more changes nothing
        one.release()
    held(Needs(gpus=2)).release()


def test_processors_are_counted_within_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    pool, said = ReservationPool(), list[str]()
    three = held(Needs(cpus=3), pool)
    assert pool.reserve(Needs(cpus=2), lambda text: bool(said.append(text))) is None
    assert said == ["waits for 2 CPUs: 1 of 4 are free"]
    three.release()
    three.release()
    held(Needs(cpus=4), pool)
    assert taken(Needs(cpus=1), pool) is None


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 2}, "gpus=2 will never be free: trials may use 1 GPU here. Ask for 1 or fewer"),
    ({"cpus": 10_000}, "cpus=10000 will never be free: this machine has"),
    ({"gpus": "1"}, "'1' of GPU is not a number"),
    ({"gpus": 0.5}, "gpus=0.5: a process on this machine has whole GPUs, 0 or more"),
    ({"gpus": float("inf")}, "gpus=inf: a process on this machine has whole GPUs"),
    ({"cpus": 0}, "cpus=0: a process on this machine has whole CPUs, 1 or more"),
    ({"resources_per_trial": {"memory": 5}}, "resources_per_trial has 'memory'"),
    ({"gpus": 1, "resources_per_trial": {"GPU": 1}}, "gpus and 'GPU' in resources_per_trial mean the same"),
    ({"gpus": 1, "executor": "thread"}, "go with executor='process', 'ray' or 'slurm', not 'thread'"),
    ({"cpus": 1, "executor": "inline"}, "not 'inline': leave them out"),
    ({"cpus": 1, "executor": ThreadExecutor()}, "not 'thread': leave them out"),
]


def test_impossible_devices_are_refused_at_once(store: Path, subtests: pytest.Subtests) -> None:
    for options, message in IMPOSSIBLE:
        with subtests.test(message):
            with pytest.raises(UsageError) as error:
                nbckpt.run(seen(), name="e", **{"executor": "process", **options})
            assert message in str(error.value)
            assert not (store / "experiments" / "e").exists()


def test_a_machine_without_gpus_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_GPUS", "")
    with pytest.raises(UsageError, match="there is no GPU that trials may use here: leave gpus out"):
        open_executor("process", {"GPU": 1})


def test_an_unwritable_folder_of_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NBCKPT_RUNTIME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match=r"cannot lock a GPU in .* Set NBCKPT_RUNTIME"):
        taken()


def test_no_more_trials_start_than_have_their_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("NBCKPT_GPUS", "a,b,c")
    asked: list[dict[str, float]] = [{}, {"GPU": 1}, {"GPU": 2}, {"CPU": 4}, {"CPU": 4, "GPU": 0}]
    assert [most_at_once("process", needs) for needs in asked] == [8, 3, 1, 2, 2]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs of which nobody says which are visible."""
    monkeypatch.delenv("NBCKPT_GPUS")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "driver_uuids", lambda: ("GPU-aa1", "GPU-bb2"))


def listed() -> list[tuple[str, str]]:
    return [(gpu.name, gpu.key) for gpu in gpus.gpus()]


VISIBLE = {
    "1": [("1", "GPU-bb2")],
    "GPU-bb, 0": [("GPU-bb", "GPU-bb2"), ("0", "GPU-aa1")],
    "1,GPU-bb2": [("1", "GPU-bb2")],
    "0,9,1": [("0", "GPU-aa1")],
    "-1": [],
    "": [],
    "MIG-1/2/0": [("MIG-1/2/0", "MIG-1_2_0")],
}


@pytest.mark.usefixtures("driver")
def test_a_gpu_has_one_lock_under_all_its_names(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    assert listed() == [("0", "GPU-aa1"), ("1", "GPU-bb2")]
    for visible, expected in VISIBLE.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with subtests.test(visible):
            assert listed() == expected


def test_numbers_without_a_driver_name_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus.socket, "gethostname", lambda: "box")
    monkeypatch.setenv("NBCKPT_GPUS", "4")
    assert listed() == [("4", "box-4")]


@pytest.mark.usefixtures("driver")
def test_numbers_of_the_driver_say_how_they_count() -> None:
    reserved = held(Needs(gpus=2))
    assert reserved.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    reserved.release()


def test_the_library_of_the_driver_lists_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    library = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetUUID=lambda at: [b"GPU-a", "GPU-b"][at],
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert gpus.driver_uuids.__wrapped__() == ("GPU-a", "GPU-b")


def test_the_program_of_the_driver_lists_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --query-gpu=uuid ] && printf "GPU-a\\nGPU-b\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert gpus.driver_uuids.__wrapped__() == ("GPU-a", "GPU-b")
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.driver_uuids.__wrapped__() == ()


def test_the_command_takes_devices() -> None:
    tracker = nbckpt.Tracker()
    session = Session(tracker, AutoMirror(tracker.store, in_background=False), {"train": seen()})
    line = "run train --executor process --gpus 1 --cpus 1 --wait"
    experiment = parse(TABLE, line.split(), "%ckpt").run(session)
    assert experiment.trials[0].results[0]["CUDA_VISIBLE_DEVICES"] == "gpu-a"
    assert experiment.spec.resources == {"GPU": 1, "CPU": 1}


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries that always tell the same load, on a machine with two GPUs."""
    psutil = SimpleNamespace(
        __spec__=True,
        cpu_percent=lambda: 25,
        virtual_memory=lambda: SimpleNamespace(percent=50),
        Process=lambda: SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=3_000_000)),
    )
    nvml = SimpleNamespace(
        __spec__=True,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetMemoryInfo=lambda at: SimpleNamespace(used=at, total=4),
        nvmlDeviceGetUtilizationRates=lambda at: SimpleNamespace(gpu=10 * at),
    )
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


LOAD = {"cpu_percent": 25.0, "memory_percent": 50.0, "process_bytes": 3e6}
GPUS = {"gpu0_percent": 0.0, "gpu0_memory_percent": 0.0, "gpu1_percent": 10.0, "gpu1_memory_percent": 25.0}


@pytest.mark.usefixtures("libraries")
def test_the_load_is_sampled_once_in_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that fails is not asked again."""
    clock = Clock()
    sampler = SystemSampler(clock)
    assert sampler.sample() == LOAD | GPUS
    assert sampler.sample() == {}
    clock.now = PERIOD_S
    assert sampler.sample() == LOAD | GPUS

    asked = []

    def fail(handle: int) -> Any:
        asked.append(handle)
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetMemoryInfo", fail)
    for turn in (2, 3):
        clock.now = turn * PERIOD_S
        assert sampler.sample() == LOAD
    assert asked == [0]


@pytest.mark.usefixtures("libraries")
def test_a_trial_keeps_the_load_apart_from_its_results(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        for loss in (2, 1):
            nbckpt.report(loss=loss)

    nbckpt.run(train, name="e", folder=tmp_path, executor="inline", system_metrics=True)
    experiment = Catalog(tmp_path).open("e")
    (trial,) = experiment.trials
    (load,) = trial.loads
    assert load == LOAD | GPUS | {"at": load["at"]}
    assert trial.metric_names == ["loss"]
    page = str(TrialShown(experiment, trial))
    assert "process" in page
    assert "3 MB" in page
    assert experiment.spec.system_metrics


def test_a_machine_without_the_libraries_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install psutil"):
        nbckpt.run(lambda config: None, name="e", folder=tmp_path, system_metrics=True)
    with pytest.raises(UsageError, match="pip install psutil"):
        nbckpt.track("t", folder=tmp_path, system_metrics=True)
    assert list(tmp_path.iterdir()) == []


def test_a_strange_load_in_a_journal_is_damage(tmp_path: Path) -> None:
    experiment = nbckpt.run(lambda config: {"loss": 1}, name="e", folder=tmp_path, executor="inline")
    assert experiment.trials[0].loads == []  # it was not asked for
    assert "load of the machine" not in str(TrialShown(experiment, experiment.trials[0]))
    with (experiment.trials[0].folder / "events.jsonl").open("a") as journal:
        journal.write(json.dumps({"event": "load", "load": {"cpu_percent": "much"}}) + "\n")
    (trial,) = Catalog(tmp_path).open("e").trials
    assert "damaged" in trial.damage
    assert trial.metric("_metric") == []
