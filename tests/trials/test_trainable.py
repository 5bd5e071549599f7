"""Trainables: counted, saved and restored between any two steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import CorruptError, NotFoundError, TrialError, UsageError
from nbckpt.trials import CheckpointFolder, Trainable


class Counter(Trainable):
    """Counts up from `config["start"]`; saves in the form that `config["form"]` names."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n = config.get("start", 0)
        self.calls: list[str] = []

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        place = Path(checkpoint_dir)
        form = self.config.get("form", "dict")
        if form == "dict":
            return {"n": self.n}
        if form == "nothing":
            (place / "n").write_text(str(self.n))
            return None
        inner = {"folder": place, "sub": place / "a/b", "file": place / "a"}[form]
        inner.mkdir(parents=True, exist_ok=True)
        (inner / "n").write_text(str(self.n))
        return inner / "n" if form == "file" else str(inner)

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.calls.append("load")
        form = self.config.get("form", "dict")
        if form == "dict":
            self.n = checkpoint["n"]
        else:
            self.n = int((Path(checkpoint) / ("" if form == "file" else "n")).read_text())

    def cleanup(self) -> None:
        self.calls.append("cleanup")


Make = Callable[..., Counter]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda config=None, place="trial": Counter(config, tmp_path / place)


def trained(trainable: Trainable, steps: int) -> dict[str, Any]:
    return [trainable.train() for _ in range(steps)][-1]


def test_every_return_form_of_save_checkpoint_is_restored(make: Make, subtests: pytest.Subtests) -> None:
    for form in ("dict", "folder", "sub", "file", "nothing"):
        for by_object in (False, True):
            with (
                subtests.test(form=form, by_object=by_object),
                make({"form": form}, f"{form}{by_object}") as one,
                make({"form": form, "start": 9}, f"other {form}{by_object}") as other,
            ):
                trained(one, 2)
                saved: Any = one.save_to_object() if by_object else one.save()
                trained(one, 1)
                for trainable in (one, other):
                    trainable.restore_from_object(saved) if by_object else trainable.restore(saved)
                    result = trainable.train()
                    assert (result["n"], result["training_iteration"]) == (3, 3)


def test_an_empty_dict_is_a_checkpoint(tmp_path: Path) -> None:
    loaded = []

    class Empty(Trainable):
        def step(self) -> dict[str, Any]:
            return {}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

        def load_checkpoint(self, checkpoint: Any) -> None:
            loaded.append(checkpoint)

    with Empty(None, tmp_path) as trainable:
        trained(trainable, 3)
        trainable.restore(trainable.save())
        trainable.restore_from_object(trainable.save_to_object())
        assert (loaded, trainable.iteration) == ([{}, {}], 3)


def test_saves_restore_their_own_state_in_any_order(make: Make) -> None:
    with make() as trainable:
        paths = [(trained(trainable, 1)["n"], trainable.save()) for _ in range(3)]
        for n, path in [*reversed(paths), *paths]:
            trainable.restore(path)
            assert (trainable.n, trainable.iteration) == (n, n)


def test_totals_need_increments_and_survive_a_restore(tmp_path: Path) -> None:
    """An increment of 0 counts."""

    class Totals(Counter):
        def step(self) -> dict[str, Any]:
            more = {"timesteps_this_iter": 0, "time_this_iter_s": 2}
            return super().step() | (more if self.n > 1 else {})

    with Totals(None, tmp_path) as trainable:
        assert "timesteps_total" not in trainable.train()
        result = trainable.train()
        assert (result["timesteps_total"], result["time_this_iter_s"]) == (0, 2)
        assert "episodes_total" not in result
        path, before = trainable.save(), result["time_total_s"]
        trained(trainable, 3)
        trainable.restore(path)
        assert trainable.train()["time_total_s"] == before + 2


def test_changing_a_result_does_not_change_the_checkpoint(make: Make) -> None:
    with make() as trainable:
        trainable.train()["n"] = 99
        record = CheckpointFolder(trainable.logdir).read(Path(trainable.save()).name)
        assert record.metrics["n"] == 1
    with make() as trainable:
        trainable.train()
        path = Path(trainable.save())
        before = path.with_name(path.name + ".json").stat().st_mtime_ns
        trainable.save_to_object()
        assert path.with_name(path.name + ".json").stat().st_mtime_ns == before
        assert len(list(Path(trainable.logdir).iterdir())) == 2


def odd(folder: Path, **methods: Any) -> Trainable:
    """Make a counter with other methods."""
    return type("Odd", (Counter,), methods)(None, folder)


@pytest.mark.parametrize("error", [ValueError("why"), SystemExit("why")])
def test_an_exception_in_a_step_is_the_cause_of_a_trial_error(tmp_path: Path, error: BaseException) -> None:
    def fails(self: Trainable) -> None:
        raise error

    with odd(tmp_path, step=fails) as trainable, pytest.raises(TrialError, match=r"\w: why") as caught:
        trainable.train()
    assert caught.value.__cause__ is error


def test_ctrl_c_in_a_step_raises_a_keyboard_interrupt(tmp_path: Path) -> None:
    class Busy(Counter):
        def step(self) -> dict[str, Any]:
            if self.n == 1 and "again" not in self.calls:
                self.calls.append("again")
                raise KeyboardInterrupt
            return super().step()

    with Busy(None, tmp_path) as trainable:
        trainable.train()
        with pytest.raises(KeyboardInterrupt):
            trainable.train()
        assert trainable.train()["training_iteration"] == 2


def test_a_step_that_returns_no_dict_is_an_error(tmp_path: Path) -> None:
    trainable = odd(tmp_path, step=lambda self: 5)
    with trainable, pytest.raises(TrialError, match="a dict of metrics, not int"):
        trainable.train()


def test_a_failed_save_leaves_only_the_older_checkpoints(make: Make) -> None:
    with make() as trainable:
        trainable.train()
        path = trainable.save()
        trainable.config["form"] = "unknown"
        for save in (trainable.save, trainable.save_to_object):
            with pytest.raises(TrialError, match="KeyError: 'unknown'"):
                save()
        names = sorted(path.name for path in Path(trainable.logdir).iterdir())
        assert names == [Path(path).name, Path(path).name + ".json"]


def test_a_save_to_an_invalid_folder_is_refused(make: Make, subtests: pytest.Subtests) -> None:
    for place in ["../outside", ".", "deep/checkpoint_1", "mine", "checkpoint_tmp1"]:
        with (
            subtests.test(place),
            make() as trainable,
            pytest.raises(UsageError, match="in the trial's folder"),
        ):
            trainable.save(Path(trainable.logdir) / place)
    with make() as trainable:
        trainable.train()
        path = trainable.save(Path(trainable.logdir) / "checkpoint_best")
        assert Path(path).name == "checkpoint_best"
        trainable.restore(path)


def test_save_checkpoint_returns_a_dict_or_a_path_inside(tmp_path: Path) -> None:
    trainable = odd(tmp_path, save_checkpoint=lambda self, folder: folder + "0")
    with trainable, pytest.raises(UsageError, match="outside the folder"):
        trainable.save()
    for value in (5, [1], b"x"):
        trainable = odd(tmp_path, save_checkpoint=lambda self, folder, value=value: value)
        with trainable, pytest.raises(UsageError, match="return a dict, a path in the"):
            trainable.save()


def test_a_damaged_checkpoint_is_not_restored(make: Make) -> None:
    with make({"form": "folder"}) as trainable:
        trainable.train()
        path = trainable.save()
        (Path(path) / "n").write_text("7")
        with pytest.raises(CorruptError, match="'n'"):
            trainable.restore(path)
        with pytest.raises(CorruptError, match=r"is not a (whole )?checkpoint"):
            trainable.restore_from_object(b"nothing")
        assert (trainable.n, trainable.calls) == (1, [])


def test_restores_from_objects_keep_one_temporary_folder(make: Make) -> None:
    """No temporary folder is left after stop()."""
    trainable = make({"form": "folder"})
    trained(trainable, 2)
    for _ in range(3):
        trainable.restore_from_object(trainable.save_to_object())
        temporary = [path.name for path in Path(trainable.logdir).iterdir() if path.is_dir()]
        assert len(temporary) == 1
        assert temporary[0].startswith("checkpoint_tmp")
    assert trained(trainable, 2)["training_iteration"] == 4
    trainable.stop()
    assert list(Path(trainable.logdir).iterdir()) == []


def test_a_failed_restore_leaves_no_temporary_files_after_stop(make: Make) -> None:
    packed = make({"form": "folder"}).save_to_object()
    trainable = make({"form": "sub"})
    for _ in range(2):
        trainable.restore_from_object(make({"form": "sub"}).save_to_object())
        trainable.config["form"] = "dict"
        with pytest.raises(TrialError):
            trainable.restore_from_object(packed)
        trainable.config["form"] = "sub"
    trainable.stop()
    assert list(Path(trainable.logdir).iterdir()) == []


def test_stop_runs_cleanup_once_and_removes_temporary_files(tmp_path: Path) -> None:
    """The files are removed also if cleanup() fails."""

    class Fails(Counter):
        def cleanup(self) -> None:
            super().cleanup()
            raise ValueError("in cleanup")

    trainable = Fails(None, tmp_path / "trial")
    trainable.restore_from_object(trainable.save_to_object())
    with pytest.raises(ValueError, match="in cleanup"):
        trainable.stop()
    trainable.stop()
    assert trainable.calls == ["load", "cleanup"]
    assert list(Path(trainable.logdir).iterdir()) == []


def test_any_path_in_a_checkpoint_deletes_it(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Deleting a missing checkpoint only logs a message."""
    with make({"form": "sub"}) as trainable:
        trainable.train()
        path = trainable.save()
        trainable.delete_checkpoint(f"{path}/a/b")
        assert list(Path(trainable.logdir).iterdir()) == []
        with pytest.raises(NotFoundError):
            trainable.restore(path)
        assert caplog.records == []
        trainable.delete_checkpoint(path)
        assert "there is no checkpoint" in caplog.text
