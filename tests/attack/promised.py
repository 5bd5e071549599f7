"""What killed processes were told, and the check that all of it is still true. See working.py."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attack.working import STEPS, values
from nbckpt.mirror import note
from nbckpt.states import State, load_state, use_folder
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from nbckpt.trials import Catalog, Status


@dataclass
class Promised:
    """What the killed processes were told.

    Attributes:
        saved: Checkpoints that are there.
        gone: Checkpoints that are not there any more.
        named: The checkpoint of each name with its version, such as best@3.
        loose: Names of checkpoints whose versions a pull may have changed.
        trusted: Checkpoints of somebody else that this user signed.
        pushing: Checkpoints that the other place may have, so that `pull` may bring them back.
        pushed: Checkpoints that the other place has.
        trials: The status of the trials of each experiment, "" if it is not known; and the least number of
            results of t0.
        dropped: Experiments that are not there any more.
        notes: The note of each trial.
        labels: The trials that have the tag blue and not the tag good.
        stepped: The step of a checkpoint that was asked for, by experiment.
        pages: The number of pages that were written to one file.
        folders: The folders in which a checkpoint is made again.
        reported: The least number of results of each tracked trial.
        synced: The location of the sync, or off; "" if it is not known.
        is_spoiled: Whether a pack may be damaged of which the other place has a copy.
        cell: The kept result of the cell; "" if there is none.
        states: The number in the newest saved state.
        words: All words so far.
    """

    saved: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    named: dict[str, str] = field(default_factory=dict)
    loose: set[tuple[str, str]] = field(default_factory=set)
    trusted: set[str] = field(default_factory=set)
    pushing: set[str] = field(default_factory=set)
    pushed: set[str] = field(default_factory=set)
    trials: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    stepped: dict[str, int] = field(default_factory=dict)
    pages: int = 0
    folders: set[str] = field(default_factory=set)
    reported: dict[str, int] = field(default_factory=dict)
    synced: str = ""
    is_spoiled: bool = False
    cell: str = ""
    states: int = -1
    words: set[str] = field(default_factory=set)

    def hear(self, line: str) -> None:
        """Take in a line of a process."""
        word, *rest = line.split()
        assert word != "error", line
        self.words.add(word)
        if hear := getattr(self, f"_{word}", None):
            hear(*rest)

    def _saved(self, *ids: str) -> None:
        self.saved |= {*ids}
        self.gone -= {*ids}

    def _removing(self, target: str) -> None:  # from here on it may be there or not
        self.saved.discard(target)
        self.trusted.discard(target)
        self.named = {ref: id_ for ref, id_ in self.named.items() if id_ != target}
        self.loose = {(name, id_) for name, id_ in self.loose if id_ != target}

    def _removed(self, target: str) -> None:
        self.gone.add(target)

    def _undoing(self, *ids: str) -> None:
        self.gone -= {*ids}

    def _named(self, ref: str, target: str) -> None:
        self.named[ref] = target

    def _trusted(self, target: str) -> None:
        self.trusted.add(target)

    def _pushing(self, *ids: str) -> None:
        self.pushing |= {*ids}

    def _pushed(self, *ids: str) -> None:
        self.pushed |= {*ids}

    def _pulling(self) -> None:
        self.gone -= self.pushing
        self.dropped.clear()
        self.loose |= {(ref.partition("@")[0], target) for ref, target in self.named.items()}
        self.named.clear()

    def _spoiling(self) -> None:
        self.is_spoiled = True

    def _repaired(self) -> None:
        self.is_spoiled = False

    def _syncing(self) -> None:
        self.synced = ""

    def _synced(self, url: str) -> None:
        self.synced = url

    def _ran(self, name: str) -> None:
        self.trials[name] = Status.TERMINATED, STEPS

    def _paused(self, name: str, number: str) -> None:
        self.trials[name] = Status.PAUSED, int(number)

    def _resuming(self, name: str) -> None:
        self.trials[name] = "", self.trials.get(name, ("", 0))[1]

    def _ended(self, name: str, number: str) -> None:
        assert int(number) >= self.trials.get(name, ("", 0))[1]
        self.trials[name] = Status.TERMINATED, int(number)
        self.dropped.discard(name)

    def _dropping(self, name: str) -> None:
        self.trials.pop(name, None)
        self.dropped.discard(name)
        self.notes.pop(f"{name}/t0", None)
        self.labels.discard(f"{name}/t0")
        self.stepped.pop(name, None)

    def _dropped(self, name: str) -> None:
        self.dropped.add(name)

    def _noting(self, trial: str) -> None:
        self.notes.pop(trial, None)

    def _noted(self, trial: str, text: str) -> None:
        self.notes[trial] = text

    def _labelling(self, trial: str) -> None:
        self.labels.discard(trial)

    def _labelled(self, trial: str) -> None:
        self.labels.add(trial)

    def _stepped(self, name: str, step: str) -> None:
        self.stepped[name] = int(step)

    def _paged(self) -> None:
        self.pages += 1

    def _reproduced(self, folder: str) -> None:
        self.folders.add(folder)

    def _reported(self, trial: str, number: str) -> None:
        self.reported[trial] = int(number)

    def _kept(self, target: str) -> None:
        self.cell = target

    def _states(self, number: str) -> None:
        self.states = int(number)

    def check(self, folder: Path, known: Container[str] = ()) -> None:
        """Check that all of it is true in their folder. Restore all but the *known* checkpoints."""
        store = LocalStore(folder / "store")
        if self.is_spoiled:
            Tracker(store).verify(repair_from=folder / "remote")
            self.is_spoiled = False
        check_store(store, self.saved, self.gone, known)
        self._check_names(Tracker(store))
        self._check_experiments(Catalog(folder / "store" / "experiments"))
        self._check_states(folder / "states")
        self._check_files(folder)
        if self.synced:
            noted = note.read(folder / "store" / note.FILE)
            assert (noted.url if noted else "off") == self.synced

    def _check_names(self, tracker: Tracker) -> None:
        assert {ref: tracker.find(ref).id for ref in self.named} == self.named
        assert self.loose <= {(ref.name, ref.id) for ref in tracker.history.refs()}
        assert all(tracker.history.trusted(tracker.manifest(target)) for target in self.trusted)
        if self.cell:
            assert self.cell in {entry.id for entry in tracker.history.entries("cells")}

    def _check_experiments(self, library: Catalog) -> None:
        names = set(library.names())
        assert self.trials.keys() <= names
        assert not self.dropped & names
        for name in sorted(names):
            trials = library.open(name).trials
            for trial in trials:
                assert [result["step"] for result in trial.results] == list(range(1, trial.iteration + 1))
                assert trial.iteration >= self.reported.get(f"{name}/{trial.id}", 0)
            status, least = self.trials.get(name, ("", 0))
            assert not trials or trials[0].iteration >= least
            assert {trial.status for trial in trials} <= ({status} if status else {*Status})
        assert {trial: library.trial(trial)[1].annotation.note for trial in self.notes} == self.notes
        for trial in self.labels:
            assert library.trial(trial)[1].annotation.tags == ("blue",)
        for name, step in self.stepped.items():
            checkpoint = library.open(name).trial("t0").checkpoint
            assert checkpoint is not None
            assert checkpoint.to_dict()["step"] >= step

    def _check_states(self, folder: Path) -> None:
        if self.states < 0:
            return
        with use_folder(folder):
            state = State.of("count", {"saved": -1})
            assert load_state(state)
            assert state.value["saved"] >= self.states

    def _check_files(self, folder: Path) -> None:
        page = folder / "page.html"
        assert page.exists() or not self.pages
        if page.exists():
            assert page.read_text("utf-8").rstrip().endswith("</html>")
        made = {path.name for path in folder.glob("again*")}
        assert self.folders <= made
        assert all((folder / name / "run.py").read_text("utf-8").strip() for name in made)


WORDS = frozenset(name[1:] for name in vars(Promised) if re.fullmatch("_[a-z]+", name))
"""The words that change what is promised."""


def check_store(store: LocalStore, expected: set[str], gone: set[str], known: Container[str] = ()) -> None:
    """Check a store; restore all checkpoints but the *known* ones."""
    tracker = Tracker(store)
    assert tracker.verify().damages == []
    there = {entry.id for entry in tracker.entries()}
    assert expected <= there
    assert not gone & there
    for target in sorted(target for target in there if target not in known):
        namespace: dict[str, Any] = {}
        assert tracker.restore(target, namespace, trust=True).failed == ()
        whole = values(namespace["number"])
        assert namespace.keys() == whole.keys()
        assert np.array_equal(namespace["array"], whole["array"])
