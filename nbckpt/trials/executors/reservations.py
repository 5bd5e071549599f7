"""Reservations: the GPUs and processors of this machine that each trial has for itself.

A GPU has a lock file that all processes of this user share. The kernel holds the lock, and the trial's
process inherits it: the GPU is free when both have let go of it or are dead. Processors are counted within
one experiment. See docs/decisions/0109.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbckpt._private_apis import lock_handle
from nbckpt.errors import StoreError, UsageError
from nbckpt.render import count
from nbckpt.settings import lock_folder, threads_set
from nbckpt.store.files import make_folder
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.trials.executors.base import Waits
from nbckpt.trials.executors.gpus import Gpu, gpus, order_of
from nbckpt.trials.model.trial import WAITS

if TYPE_CHECKING:
    from filelock import BaseFileLock

_LOOK_S = 0.25
"""How long a trial waits before it looks again for what other processes have let go of."""
_GATE_S = 1.0
_THREADS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
    *("RAYON_NUM_THREADS", "LOKY_MAX_CPU_COUNT"),
)
"""The variables by which libraries learn how many threads they may start."""


@dataclass(frozen=True)
class Needs:
    """The GPUs and processors that a trial needs; None for as many as it likes."""

    gpus: int | None = None
    cpus: int | None = None

    @classmethod
    def of(cls, resources: Mapping[str, float]) -> Needs:
        """Return the needs in a trial's resources.

        Raises:
            UsageError: They are not whole numbers of GPUs and processors.
        """
        for name in resources:
            if name not in {"CPU", "GPU"}:
                raise UsageError(
                    f"resources_per_trial has {name!r}: a process on this machine reserves CPU and GPU. "
                    f"Leave {name!r} out, or use executor='ray'"
                )
        return cls(_whole(resources, "GPU", 0), _whole(resources, "CPU", 1))

    def check(self) -> None:
        """Refuse more than this machine has.

        Raises:
            UsageError: A trial that needs this would wait for ever.
        """
        if self.gpus and self.gpus > (there := len(gpus())):
            has = (
                f"trials may use {count(there, 'GPU')} here. Ask for {there} or fewer"
                if there
                else "there is no GPU that trials may use here: leave gpus out, or see CUDA_VISIBLE_DEVICES"
            )
            raise UsageError(f"gpus={self.gpus} will never be free: {has}")
        if self.cpus and self.cpus > processors():
            raise UsageError(
                f"cpus={self.cpus} will never be free: this machine has {count(processors(), 'processor')}. "
                f"Ask for {processors()} or fewer"
            )

    def most_at_once(self, most: int) -> int:
        """Return how many trials have enough here at the same time: at least 1, at most *most*."""
        fits = [most]
        if self.gpus:
            fits.append(len(gpus()) // self.gpus)
        if self.cpus:
            fits.append(processors() // self.cpus)
        return max(min(fits), 1)


class Reserved:
    """The GPUs and processors that one trial has for itself until `release`.

    Attributes:
        environment: The variables for the trial's process.
        handles: Open lock files that the trial's process inherits.
    """

    def __init__(self, pool: ReservationPool, needs: Needs, taken: Sequence[Gpu], locks: ExitStack) -> None:
        self._pool, self._needs, self._locks = pool, needs, locks
        self.handles: tuple[int, ...] = ()
        self.environment = {} if needs.gpus is None else order_of(taken)
        if needs.cpus is not None:
            set_ = {name: threads_set(name) or needs.cpus for name in _THREADS}
            self.environment |= {name: str(min(number, needs.cpus)) for name, number in set_.items()}

    def release(self) -> None:
        """Let go of everything, once. The trial's process has ended."""
        self._pool.give_back(self._needs, self._locks)
        self._locks = ExitStack()
        self._needs = Needs()


class ReservationPool:
    """The GPUs and processors of this machine, for the trials of one executor. Any thread may call it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._cpus = processors()

    def reserve(self, needs: Needs, waits: Waits) -> Reserved | None:
        """Reserve what a trial needs, all of it at once. Wait for it; return None if *waits* returns False.

        Raises:
            StoreError: The folder of locks cannot be written.
        """
        while True:
            with self._changed:
                reserved, missing = self._try(needs)
            if reserved is not None:
                return reserved
            if not waits(missing):
                return None
            with self._changed:
                self._changed.wait(_LOOK_S)

    def give_back(self, needs: Needs, locks: ExitStack) -> None:
        """Release a reservation, and wake the trials that wait here."""
        with self._changed:
            locks.close()
            self._cpus += needs.cpus or 0
            self._changed.notify_all()

    def _try(self, needs: Needs) -> tuple[Reserved | None, str]:
        """Return a reservation, or None and what is missing."""
        if needs.cpus is not None and needs.cpus > self._cpus:
            return None, f"{WAITS}{count(needs.cpus, 'CPU')}: {self._cpus} of {processors()} are free"
        taken, locks, free = _take(needs.gpus or 0)
        if locks is None:
            return None, f"{WAITS}{count(needs.gpus or 0, 'GPU')}: {free} of {len(gpus())} are free"
        reserved = Reserved(self, needs, [gpu for gpu, _ in taken], locks)
        handles = (lock_handle(lock) for _, lock in taken)
        reserved.handles = tuple(handle for handle in handles if handle is not None and os.name != "nt")
        self._cpus -= needs.cpus or 0
        return reserved, ""


def processors() -> int:
    """Return the number of processors of this machine."""
    return os.cpu_count() or 1


def _take(number: int) -> tuple[list[tuple[Gpu, BaseFileLock]], ExitStack | None, int]:
    """Lock this number of GPUs. If fewer are free, return no locks, and how many are free."""
    taken: list[tuple[Gpu, BaseFileLock]] = []
    if not number:
        return taken, ExitStack(), 0
    folder = lock_folder() / "gpus"
    with ExitStack() as held:
        try:
            make_folder(folder)
            # One process at a time looks: else two could hold a part each, and both would find too few.
            with file_lock(folder / "looking.lock", timeout=_GATE_S, thread_local=False):
                for gpu in gpus():
                    lock = file_lock(folder / f"{gpu.key}.lock", timeout=0, thread_local=False)
                    with suppress(Timeout):
                        held.callback(lock.acquire().lock.release)
                        taken.append((gpu, lock))
                    if len(taken) == number:
                        return taken, held.pop_all(), number
        except Timeout:
            return [], None, 0
        except OSError as error:
            raise StoreError(
                f"cannot lock a GPU in {str(folder)!r}: {error.strerror or error}. Set NBCKPT_RUNTIME to a "
                "folder that all your kernels on this machine can write to"
            ) from error
    return [], None, len(taken)


def _whole(resources: Mapping[str, float], name: str, least: int) -> int | None:
    amount = resources.get(name)
    if amount is None:
        return None
    if amount < least or not float(amount).is_integer():
        raise UsageError(
            f"{name.lower()}s={amount:g}: a process on this machine has whole {name}s, {least} or more. "
            "executor='ray' shares them"
        )
    return int(amount)
