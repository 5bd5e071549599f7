"""Examples of states, as a training program would write them: epochs, a place in the data, running sums.

After a restart the program runs from its top. What these states held done is not done again.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import IO, Any

import nbckpt
from nbckpt.states import replica


class Epochs(nbckpt.State):
    """Epochs, each of them finished once."""

    def __init__(self, name: str = "epochs") -> None:
        super().__init__(name)
        self.finished = 0
        self.current: int | None = None
        nbckpt.load_state(self)

    def until(self, count: int) -> Iterator[int]:
        """Go through the epochs that remain until *count* are finished."""
        while self.finished < count:
            self.current = self.finished
            try:
                yield self.current
            finally:
                self.current = None
            self.finished += 1

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump(self.finished, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.finished = pickle.load(fileobj)


class PerEpoch(nbckpt.State):
    """What is counted anew in each epoch; when one is repeated its steps are counted from the first on."""

    def __init__(self, name: str, epochs: Epochs) -> None:
        super().__init__(name)
        self.epochs = epochs
        self.epoch: int | None = None
        self.step = 0
        nbckpt.load_state(self)

    def next_step(self) -> int:
        """Return which step of its kind in this epoch the program is at now."""
        if self.epoch != self.epochs.current:
            self.epoch, self.step = self.epochs.current, 0
            self.begin()
        self.step += 1
        return self.step

    def begin(self) -> None:
        """Forget the epoch before."""
        raise NotImplementedError

    def kept(self) -> tuple[str, ...]:
        """Return the names of the attributes that are saved."""
        raise NotImplementedError

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump({name: getattr(self, name) for name in ("epoch", *self.kept())}, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        vars(self).update(pickle.load(fileobj))


class Data(PerEpoch):
    """Samples that the replicas share out, each of them read once in a loop.

    A loop's batches are as many on every replica; in the last one some may be empty. Between two batches the
    job ends, with everything saved, if one replica was asked to.
    """

    def __init__(
        self, name: str, samples: Sequence[Any], epochs: Epochs, any_of: Callable[[bool], bool]
    ) -> None:
        self.samples = samples
        self.any_of = any_of
        self.begin()
        super().__init__(name, epochs)

    def begin(self) -> None:
        self.loops = 0
        self.read = 0

    def kept(self) -> tuple[str, ...]:
        return "loops", "read"

    def __iter__(self) -> Iterator[Sequence[Any]]:
        if self.next_step() <= self.loops:
            return
        try:
            while self.read < len(self.samples):
                if nbckpt.states.should_stop(self.any_of):
                    nbckpt.states.save_and_exit()
                until = self.read + replica.count()
                yield self.samples[self.read : until][replica.rank() :][:1]
                self.read = min(until, len(self.samples))
        finally:
            self.loops, self.read = self.loops + 1, 0


class Sums(PerEpoch):
    """Sums to which each replica adds on its own; they are brought together where they are read or saved."""

    def __init__(self, name: str, epochs: Epochs, gather: Callable[[Any], list[Any]]) -> None:
        self.gather = gather
        self.sums: Counter[Hashable] = Counter()
        self.added: Counter[Hashable] = Counter()
        self.begin()
        super().__init__(name, epochs)

    def begin(self) -> None:
        self.results: list[Counter[Hashable]] = []

    def kept(self) -> tuple[str, ...]:
        return "sums", "results"

    def add(self, key: Hashable, amount: int = 1) -> None:
        self.added[key] += amount

    def sync(self) -> None:
        for added in self.gather(self.added):
            self.sums.update(added)
        self.added.clear()

    def together(self) -> Counter[Hashable]:
        """Return the sums of all replicas; in an epoch's repetition, what they were here the first time."""
        step = self.next_step()
        if step > len(self.results):
            self.sync()
            self.results.append(self.sums.copy())
        self.added.clear()
        return self.results[step - 1]
