"""Contenders: several ways to save and restore a namespace, behind one small interface.

This module runs in a worker process. A contender imports its library when it is created, so that no
measurement contains an import. Peers call fsync too, since nbckpt's saves are durable.
"""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Kernel:
    """Run cells in `__main__`, as a notebook does, and know which names are the user's."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = vars(sys.modules["__main__"])
        self.hidden = frozenset(self.namespace)

    def run(self, source: str) -> None:
        """Run one cell."""
        exec(compile(source, "<cell>", "exec"), self.namespace)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression."""
        return eval(expression, self.namespace)

    def variables(self) -> dict[str, Any]:
        """Return the user's variables, without modules."""
        return {
            name: value
            for name, value in self.namespace.items()
            if name not in self.hidden
            and not name.startswith("_")
            and not isinstance(value, types.ModuleType)
        }


class Contender:
    """One way to save and restore the whole namespace of *kernel*.

    Attributes:
        runs_cells: Whether a save happens by running a cell; then `save` runs the cell that changes data.
    """

    runs_cells = False

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def open(self, folder: Path) -> None:
        """Prepare for saves into an empty *folder*; not measured."""
        self.folder = folder

    def save(self, source: str) -> dict[str, int]:
        """Save durably. Return `new_bytes` if the contender reports it."""
        raise NotImplementedError

    def prepare_restore(self, folder: Path) -> None:
        """Prepare to restore from *folder*; not measured."""

    def restore(self, folder: Path, *, lazy: bool) -> None:
        """Restore the last save in *folder* into the kernel's namespace."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the resources that `open` acquired."""


class Nbckpt(Contender):
    """nbckpt."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        from nbckpt import Tracker

        self._make = Tracker

    def open(self, folder: Path) -> None:
        """See `Contender.open`."""
        self._tracker = self._make(folder)

    def save(self, source: str) -> dict[str, int]:
        """See `Contender.save`."""
        del source
        saved = self._tracker.save(self.kernel.namespace, name="bench", hidden=self.kernel.hidden)
        if saved.manifest.skipped:
            raise RuntimeError(f"not everything was saved: {saved.manifest.skipped}")
        return {"new_bytes": saved.new_bytes}

    def restore(self, folder: Path, *, lazy: bool) -> None:
        """See `Contender.restore`."""
        with self._make(folder) as tracker:
            restored = tracker.restore("bench", self.kernel.namespace, lazy=lazy)
        if restored.failed:
            raise RuntimeError(f"not everything was restored: {restored.failed}")

    def close(self) -> None:
        """See `Contender.close`."""
        self._tracker.close()


class FilePeer(Contender):
    """A peer that writes one file: `dump` writes to an open file, `load` reads from one."""

    dump: Callable[[Any, Any], None]
    load: Callable[[Any], Any]

    def save(self, source: str) -> dict[str, int]:
        """See `Contender.save`."""
        del source
        with (self.folder / "state").open("wb") as file:
            self.dump(self.chosen(), file)
            file.flush()
            os.fsync(file.fileno())
        return {}

    def chosen(self) -> dict[str, Any]:
        """Return the variables that this peer can save."""
        return self.kernel.variables()

    def restore(self, folder: Path, *, lazy: bool) -> None:
        """See `Contender.restore`."""
        del lazy
        with (folder / "state").open("rb") as file:
            self.kernel.namespace.update(self.load(file))


class Cloudpickle(FilePeer):
    """cloudpickle, protocol 5."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        import pickle

        import cloudpickle

        self.dump = lambda value, file: cloudpickle.dump(value, file, protocol=5)
        self.load = pickle.load


class Dill(FilePeer):
    """dill."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        import dill

        self.dump, self.load = dill.dump, dill.load


class Joblib(FilePeer):
    """joblib. It cannot save a notebook's functions, classes and instances, so these are left out."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        import joblib

        self.dump, self.load = joblib.dump, joblib.load

    def chosen(self) -> dict[str, Any]:
        """See `FilePeer.chosen`."""
        own = {"Point", "points"}
        return {
            name: value
            for name, value in self.kernel.variables().items()
            if name not in own and not isinstance(value, types.FunctionType)
        }


class RayCheckpoint(Contender):
    """Ray 2.6.3's `Checkpoint.from_dict(...).to_directory(...)`."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        from ray.air import Checkpoint

        self._made = Checkpoint

    def save(self, source: str) -> dict[str, int]:
        """See `Contender.save`."""
        del source
        target = self.folder / "state"
        self._made.from_dict(self.kernel.variables()).to_directory(str(target))
        for file in target.iterdir():
            fd = os.open(file, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        return {}

    def restore(self, folder: Path, *, lazy: bool) -> None:
        """See `Contender.restore`."""
        del lazy
        self.kernel.namespace.update(self._made.from_directory(str(folder / "state")).to_dict())


class Shell(Kernel):
    """A real IPython shell."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self.shell = InteractiveShell.instance()
        self.namespace = self.shell.user_ns
        self.hidden = frozenset(self.namespace)

    def run(self, source: str) -> None:
        """See `Kernel.run`."""
        self.shell.run_cell(source).raise_error()

    def evaluate(self, expression: str) -> Any:
        """See `Kernel.evaluate`."""
        return self.shell.ev(expression)


class Kishu(Contender):
    """Kishu 0.3.4 with its default settings. It saves after every cell, so a save is a cell."""

    runs_cells = True

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        # Kishu reads this variable at import and requires that the folder exists.
        root = Path(os.environ["KISHU_PATH_ROOT"])
        root.mkdir(parents=True, exist_ok=True)
        from kishu import init_kishu

        self._init = init_kishu

    def open(self, folder: Path) -> None:
        """See `Contender.open`."""
        super().open(folder)
        (folder / "notebook.ipynb").write_text(
            '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
        )
        self._attach(folder)

    def _attach(self, folder: Path) -> Any:
        notebook = str(folder / "notebook.ipynb")
        # Kishu's tests run it without a Jupyter server in this way.
        os.environ |= {"TEST_NOTEBOOK_PATH": notebook, "ENV_KISHU_TEST_MODE": "1"}
        assert isinstance(self.kernel, Shell)
        with self.kernel.shell.builtin_trap:
            self._init(notebook)
        return self.kernel.shell.user_ns["_kishu"]

    def save(self, source: str) -> dict[str, int]:
        """See `Contender.save`."""
        self.kernel.run(source)
        return {}

    def restore(self, folder: Path, *, lazy: bool) -> None:
        """See `Contender.restore`."""
        del lazy
        self._tracked.checkout(json.loads((folder / "head.json").read_text()))

    def prepare_restore(self, folder: Path) -> None:
        """See `Contender.prepare_restore`: users attach Kishu after each restart of the kernel."""
        self._tracked = self._attach(folder)

    def close(self) -> None:
        """Write the id of the last commit to a file."""
        assert isinstance(self.kernel, Shell)
        tracked = self.kernel.shell.user_ns["_kishu"]
        (self.folder / "head.json").write_text(json.dumps(tracked._kishu_branch.get_head().commit_id))


CONTENDERS: dict[str, type[Contender]] = {
    "nbckpt": Nbckpt,
    "cloudpickle": Cloudpickle,
    "joblib": Joblib,
    "dill": Dill,
    "kishu": Kishu,
    "ray": RayCheckpoint,
}
