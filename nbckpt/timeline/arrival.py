"""Arrival: make a namespace equal to a checkpoint, and touch nothing that is equal already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from sys import modules
from types import MappingProxyType
from typing import Any

from nbckpt.core import environment
from nbckpt.core.environment import is_same
from nbckpt.core.finalizers import keep_alive
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.reader import Reader
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.loading import Failure, load_values
from nbckpt.core.values.locks import Revival, revived
from nbckpt.core.values.variables import Print
from nbckpt.states.snapshot import is_state
from nbckpt.timeline.held import UNHELD, Held, ids_of
from nbckpt.timeline.patching import apply, plan
from nbckpt.timeline.returning import Returning
from nbckpt.tracker.binding import GONE, Binder

TakePrints = Callable[[Mapping[str, Any]], Mapping[str, Print]]
"""Returns the fingerprints of live values."""


@dataclass(frozen=True)
class Arrived:
    """The result of an arrival.

    Attributes:
        manifest: The checkpoint that the namespace equals now.
        changes: The change of each name: `new`, `changed` or `removed`.
        failed: The variables that could not be loaded. They stay as they were.
        unheld: The variables that the checkpoint could not hold wholly, and that are bound to something else
            than then, or to an object that cells used since. Those that do not change stay as they were.
        missing: The variables that the checkpoint could not hold, and that are not bound.
        held: The namespace now.
        unseen: What had changed since the last point, by an undo: that change was undone as the first step.
        beside: What had changed since the last point without a cell, before an undo. It went back too.
        left: What stays as it is, because it changed without a cell and a thread runs.
        alive: What stays as it is, because no point can hold it: no way would lead back to it.
        places: What became of the working directory and of the environment variables.
        missed: The number of cells without a point of their own that an undo took back with others.
    """

    manifest: Manifest
    changes: Mapping[str, str]
    failed: tuple[Failure, ...]
    unheld: tuple[str, ...]
    missing: tuple[str, ...]
    held: Held
    unseen: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    missed: int = 0


@dataclass(frozen=True)
class Unheld:
    """What a checkpoint, or any, cannot hold wholly.

    Attributes:
        kept: Objects that no checkpoint can hold, by the variables that have them afterwards.
        lost: Other variables that this checkpoint could not hold wholly.
        alive: Those in *kept* of which this checkpoint tells nothing, or something else.
    """

    kept: Mapping[str, Any]
    lost: Collection[str]
    alive: Collection[str]


def arrive(
    target: Manifest,
    here: Held,
    read: Callable[[Manifest], Reader],
    prints: TakePrints,
    namespace: dict[str, Any],
    variables: Mapping[str, Any],
    unheld: Unheld,
    left: Collection[str] = (),
    hold_off: Callable[[], object] = lambda: None,
    then: Mapping[str, Print] = MappingProxyType({}),
) -> Arrived:
    """Bind, replace and remove variables until the namespace equals *target*.

    First everything is loaded, then everything is bound. Arrays that differ only in their bytes get these
    bytes in place. Other variables that share objects change together, so that they share again: the objects
    get their former contents if *then* tells which these were, and new ones take their place otherwise. All
    others keep their objects. Nothing that is replaced is finalized.

    Args:
        target: A checkpoint that is trusted.
        here: The namespace as it is. It must be exact.
        read: Returns a reader for the bytes of a checkpoint.
        prints: Returns the fingerprints of live values.
        namespace: The namespace.
        variables: The user's variables in it.
        unheld: What checkpoints cannot hold.
        left: Variables that stay as they are, unless they share objects with others.
        hold_off: Called before anything changes, to hold off interrupts; once or several times.
        then: The fingerprints of the checkpoint's values, as their objects gave them; empty if not known.
    """
    there, kept = Held(target, {}, {}), unheld.kept
    stay_so = _apart(left, variables, there, here)
    differ = _differing(there, here, read)
    stayed = stay_so.intersection(differ) | (stay_so - there.values.keys())
    differ = [name for name in differ if name not in stayed and name not in kept]
    patches = plan(differ, there, here, read, namespace)
    patched = {name: "changed" for mates in patches for name in mates}
    differ = [name for name in differ if name not in patched]
    loaded, failed, live = _load(target, read(target), namespace, differ, hold_off, then)
    settings = {name: loaded.pop(name) for name in environment.NAMES & loaded.keys()}
    gone = sorted(variables.keys() - {*there.values, *unheld.lost, *kept, *stayed})
    former = {id(figure): figure for figure in _figures(variables.values())}
    bindings = {**loaded, **kept, **dict.fromkeys(gone, GONE)}
    hold_off()
    apply(patches.values())
    keep_alive(namespace[name] for name in bindings.keys() & namespace.keys())
    live.settle()
    changes = Binder().bind(bindings, settings, namespace, f"checkout of {target.id}", failed)
    changes = patched | live.changes | {name: change for name, change in changes.items() if change != "same"}
    bound = {name: namespace[name] for name in {*variables, *loaded, *kept} if name in namespace}
    _close(former, bound.values())
    lost = ({*unheld.lost} - there.values.keys()) | {*stayed, *unheld.alive}
    lost = lost.union(*(failure.names for failure in failed)) & bound.keys()
    # What could not be brought back may have shared objects with what was replaced.
    known = {name: _patched_print(name, there, here) for name in patched if len(there.mates[name]) == 1}
    taken = (lost | kept.keys() | (patched.keys() - known.keys())) & bound.keys()
    new = loaded | {name: bound[name] for name in taken}
    held = _held(target, ids_of(bound) | dict.fromkeys(lost, UNHELD), new, known, here, prints)
    present, missing, left, alive = map(_sorted, (*_split({*unheld.lost}, bound), stayed, unheld.alive))
    return Arrived(target, changes, tuple(failed), present, missing, held, left=left, alive=alive)


def _held(
    target: Manifest,
    ids: Mapping[str, int],
    new: Mapping[str, Any],
    known: Mapping[str, Print],
    here: Held,
    prints: TakePrints,
) -> Held:
    """Return the namespace after the arrival. The fingerprints of *new* values are taken."""
    states, stay = environment.read_states(), ids.keys() - new.keys()
    same = {name: here.prints[name] for name in here.prints.keys() & stay}
    same |= {**known, **_same_states(states, here)}
    taken = prints({**new, **{name: state for name, state in states.items() if name not in same}})
    return Held(target, ids, {**same, **taken}, states)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _split(names: set[str], bound: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    return names & bound.keys(), names - bound.keys()


def _apart(left: Collection[str], variables: Mapping[str, Any], there: Held, here: Held) -> set[str]:
    """Return those of these variables that share objects only with each other and with unchanged ones."""
    names = {*left} & variables.keys() - environment.NAMES
    same = {
        name
        for name, value in there.values.items()
        if name in here.values and here.values[name].digest == value.digest
    }
    mates = {name: {name, *here.mates.get(name, ()), *there.mates.get(name, ())} for name in names}
    return set[str]().union(*(group for group in mates.values() if group <= names | same))


def _same_states(states: Mapping[str, Any], here: Held) -> dict[str, Print]:
    """Return the fingerprints of the states of libraries that are as they were."""
    known = states.keys() & here.states.keys() & here.prints.keys()
    return {name: here.prints[name] for name in known if is_same(here.states[name], states[name])}


def _patched_print(name: str, there: Held, here: Held) -> Print:
    """Return the fingerprint of an array that was patched: its record was the same, and its bytes are now."""
    return replace(here.prints[name], digest=there.values[name].digest)


def _figures(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the figures among these values, and those that hold the axes and artists among them."""
    for value in values:
        module = str(type(value).__module__)  # a class may have any value there
        if module.startswith("matplotlib.") and (figure := getattr(value, "figure", None)):
            yield figure


def _close(former: Mapping[int, Any], values: Iterable[Any]) -> None:
    """Close the figures that no variable leads to now: pyplot would draw on them and keep them."""
    left = former.keys() - {id(figure) for figure in _figures(values)}
    if left and (pyplot := modules.get("matplotlib.pyplot")):
        for number in left:
            pyplot.close(former[number])


@dataclass(frozen=True)
class _Live:
    """The live objects among loaded values."""

    returning: Returning
    revival: Revival

    @property
    def changes(self) -> dict[str, str]:
        """The changes of the variables that stay bound to them."""
        return dict.fromkeys(self.returning.names, "changed")

    def settle(self) -> None:
        """Give each of them its state."""
        self.returning.apply()
        self.revival.settle()


def _load(
    target: Manifest,
    reader: Reader,
    namespace: dict[str, Any],
    names: list[str],
    hold_off: Callable[[], object],
    then: Mapping[str, Print],
) -> tuple[dict[str, Any], list[Failure], _Live]:
    """Load values. Their classes stay the live ones, and get back the attributes that they had.

    What threads wait on, and what *then* leads to, is the live object, which gets its state at last.
    """
    returning = Returning(namespace)
    with revived() as revival:
        classes = Classes("same", namespace, hold_off)
        loaded, failed = load_values(target, reader, names, namespace, classes=classes)
        returning.join(loaded, classes.doubles)
        returning.plan(target, loaded, then)
    return loaded, failed, _Live(returning, revival)


def _differing(there: Held, here: Held, read: Callable[[Manifest], Reader]) -> list[str]:
    """Return the values of a checkpoint that the namespace does not have just so, shared just so."""
    same: dict[frozenset[str], bool] = {}
    differ = []
    for value in there.manifest.values:
        mates = there.mates[value.name]
        if mates not in same:
            same[mates] = all(
                here.mates.get(name) == mates and here.values[name].digest == there.values[name].digest
                for name in mates
            ) and (len(mates) == 1 or _share_alike(value.name, there, here, read))
        if not same[mates] and not is_state(value.name):
            differ.append(value.name)
    return differ


def _share_alike(name: str, there: Held, here: Held, read: Callable[[Manifest], Reader]) -> bool:
    """Tell whether equal values share the same parts: then the records that hold them together are equal."""
    one, other = (held.manifest.groups[held.values[name].group] for held in (there, here))
    if one == other:
        return True
    if (one.record.size, one.buffers) != (other.record.size, other.buffers):
        return False
    records = []
    for held, group in ((there, one), (here, other)):
        reader = read(held.manifest)
        records.append(reader.read(reader.sized(group.record)))
    return records[0] == records[1]
