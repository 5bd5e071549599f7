"""States as one types them: %ckpt save --states, ls, diff, restore, undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook.conftest import Notebook

MAKE = """
import nbckpt, pickle
class Counter(nbckpt.State):
    def __init__(self, name, count=0):
        super().__init__(name)
        self.count = count
    def save(self, fileobj):
        pickle.dump(self.count, fileobj)
    def load(self, fileobj):
        self.count = pickle.load(fileobj)
class Holder: pass
holder = Holder()
holder.counter = Counter("steps", 3)   # no variable itself
rates = [0.1]
schedule = nbckpt.State.of("schedule", rates)
"""


@pytest.fixture
def made(notebook: Notebook) -> Notebook:
    """A notebook with two states, one of them a variable."""
    notebook.run(MAKE)
    return notebook


def test_states_are_saved_on_request_and_listed(made: Notebook) -> None:
    assert "6 variables, " in str(made.run("%ckpt save plain -x holder"))
    assert "6 variables and 2 states, " in str(made.run("%ckpt save one -x holder --states"))
    assert "state:steps" in str(made.run("%ckpt show one"))
    assert "states: schedule, steps" in str(made.run("%ckpt save only rates --states", "%ckpt ls only"))


def test_a_save_of_states_needs_a_state(notebook: Notebook) -> None:
    notebook.run("a = 1")
    assert "there are no states to save" in notebook.error("%ckpt save --states")


def test_restore_loads_live_states_and_undo_reverts_them(made: Notebook) -> None:
    made.run("%ckpt save one rates --states", "holder.counter.count = 9; rates.append(0.2)")
    restored = str(made.run("%ckpt restore one"))
    assert restored.startswith("Restored 1 variable and 2 states from one")
    assert (made.names["holder"].counter.count, made.names["rates"]) == (3, [0.1])
    assert "state:steps" in str(made.run("%ckpt undo"))
    assert (made.names["holder"].counter.count, made.names["rates"]) == (9, [0.1, 0.2])
    assert made.after("%ckpt undo")["holder"].counter.count == 3


def test_a_state_is_restored_by_its_name_alone(made: Notebook) -> None:
    made.run("%ckpt save one --states -x holder", "holder.counter.count = 9; rates.append(0.2)")
    made.run("%ckpt restore one state:steps")
    assert (made.names["holder"].counter.count, made.names["rates"]) == (3, [0.1, 0.2])


def test_a_dry_run_and_a_prefix_load_no_states(made: Notebook) -> None:
    made.run("%ckpt save one rates --states", "holder.counter.count = 9")
    text = str(made.run("%ckpt restore one --dry-run"))
    assert "replaced" in text
    assert "state:steps" in text
    made.run("%ckpt restore one --as old_")
    assert (made.names["holder"].counter.count, made.names["old_rates"]) == (9, [0.1])


def test_a_state_that_is_not_live_is_named_with_advice(made: Notebook) -> None:
    restored = str(made.run("%ckpt save one rates --states", "holder.counter.close()", "%ckpt restore one"))
    assert "1 variable and 1 state" in restored
    assert "no live state has this name. Make the state first" in restored


def test_diff_compares_saved_states_with_live_states(made: Notebook) -> None:
    assert "state:" not in str(made.run("%ckpt save one rates --states", "%ckpt diff one"))
    text = str(made.run("holder.counter.count = 9", "%ckpt diff one"))
    assert "state:steps" in text
    assert "state:schedule" not in text


def test_leaving_the_states_out_of_a_later_save_deletes_none(made: Notebook) -> None:
    manifest = made.run("%ckpt save one -x holder --states", "%ckpt save two", "%ckpt show two").row.manifest
    assert manifest.deleted == ()


def test_a_state_and_its_variable_are_restored_as_one_object(made: Notebook) -> None:
    names = made.after("%ckpt save one rates schedule --states", "rates.append(0.2)\n%ckpt restore one")
    assert names["schedule"].value is names["rates"]
    names["rates"].append(0.3)
    made.run("%ckpt save two rates --states", "rates.clear()\n%ckpt restore two state:schedule")
    assert names["rates"] == [0.1, 0.3]
    made.run("%ckpt undo\n%ckpt undo")


@pytest.mark.slow
def test_a_new_kernel_restores_states_that_are_variables(made: Notebook, tmp_path: Path) -> None:
    from nbckpt import Tracker
    from nbckpt.states.registry import current

    made.run("counter = Counter('epochs', 5)")
    made.run("%ckpt save one counter rates schedule Counter pickle --states")
    for name in ("counter", "schedule", "holder", "Counter"):
        made.names.pop(name)
    made.run("%reset -f\n%load_ext nbckpt")
    assert current.get().live() == []
    fresh: dict[str, object] = {}
    with Tracker(tmp_path / ".nbckpt") as tracker:
        restored = tracker.restore("one", fresh)
    assert sorted(name for name, _ in current.get().live()) == ["epochs", "schedule"]
    assert [failure.names for failure in restored.failed] == [("state:steps",)]
    assert getattr(fresh["counter"], "count", None) == 5


def test_a_state_that_fails_to_load_is_named_and_others_restored(made: Notebook) -> None:
    made.run("%ckpt save one rates --states")
    made.run(
        "def fails(fileobj): raise ValueError('not today')\nholder.counter.load = fails; rates.append(1)"
    )
    restored = str(made.run("%ckpt restore one"))
    assert "ValueError: not today" in restored
    assert made.names["rates"] == [0.1]


TRAIN = """
def train(config):
    counter = Counter("steps")
    nbckpt.load_state(counter)
    while counter.count < 4:
        counter.count += 1
        nbckpt.report(at=counter.count)
"""


def test_states_of_a_trial_can_be_loaded_in_the_notebook(made: Notebook) -> None:
    restored = str(made.run(TRAIN, "%ckpt run train --name e --every 2 --wait", "%ckpt restore t0@2"))
    assert restored.startswith("Restored 0 variables and 1 state from e/t0@2")
    assert made.names["holder"].counter.count == 2
    assert made.after("%ckpt undo")["holder"].counter.count == 3
