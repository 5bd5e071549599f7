"""Saving: the steps of one save, from the variables of a namespace to the manifest of a new checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nbckpt.core import environment
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.packs.writer import Packer, Progress
from nbckpt.core.selection import Selection
from nbckpt.core.values.variables import Captured, capture
from nbckpt.errors import CodecError, UsageError
from nbckpt.provenance.checkpoint import AGAIN, Attached, Origin
from nbckpt.states.snapshot import is_state, note_saved, snapshots


class Save:
    """One save of variables. It may be written more than once.

    Args:
        namespace: The variables.
        selection: Which of them to save.
        before: The checkpoint that the namespace came from.
        origin: The cell and the notebook.
        message: A note for people.
        states: Whether to save the live states too.
        again: What is needed to do it again; None to keep nothing of that.

    Raises:
        UsageError: There is no such variable, or no live state.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        selection: Selection,
        before: Manifest | None,
        origin: Mapping[str, Any],
        message: str,
        *,
        states: bool,
        again: Origin | None = None,
    ) -> None:
        self._namespace, self._before, self._origin, self._message = namespace, before, origin, message
        self._again = again
        self._whole = selection.whole
        self._chosen = selection.of(namespace)
        everything = {} if self._whole else Selection(hidden=selection.hidden).of(namespace)
        self._left = everything.keys() - self._chosen.keys()
        self._beside = environment.read_states() if self._whole else {}
        if states:
            self._beside |= (live := snapshots())
            if not live:
                raise UsageError(
                    "there are no states to save: make one with nbckpt.State, or leave --states out"
                )

    def write(self, packer: Packer, *, progress: Progress | None) -> Manifest:
        """Write the values, and return the manifest to publish.

        Raises:
            CodecError: None of the chosen values can be pickled.
        """
        captured = capture(self._chosen | self._beside, self._namespace, packer, left=self._left)
        if captured.skipped and not captured.drafts:
            first = captured.skipped[0]
            raise CodecError(f"cannot save {first.path}: {first.reason}. No variable is left to save")
        packer.finish(progress)
        again, attachments, inline = self._again.attach(packer) if self._again else Attached({}, {}, {})
        return Manifest(
            algorithms=packer.algorithms,
            kind="variables",
            created_at=now(),
            message=self._message,
            parent=self._before.id if self._before else "",
            values=captured.values(packer),
            groups=captured.groups(packer),
            skipped=tuple(captured.skipped),
            warnings=tuple(captured.warnings),
            deleted=self._deleted(captured),
            provenance={
                **environment.machine(),
                "packages": environment.packages(),
                "new_bytes": packer.new_bytes,
                **self._origin,
                **({AGAIN: again} if again else {}),
            },
            attachments=attachments,
            inline={**packer.inline, **inline},
        )

    def _deleted(self, captured: Captured) -> tuple[str, ...]:
        if not self._whole:  # what was not chosen is absent, too
            return ()
        return deleted_since(self._before, {*captured.order, *(skipped.name for skipped in captured.skipped)})

    def note(self) -> None:
        """Note in the live states that they are saved."""
        note_saved(self._beside)


def deleted_since(before: Manifest | None, present: Collection[str]) -> tuple[str, ...]:
    """Return the variables of earlier checkpoints that are absent: other absent names may be new work.

    See docs/decisions/0006.

    Args:
        before: The checkpoint that the namespace came from.
        present: The names of the variables now.
    """
    if before is None:
        return ()
    gone = {*(value.name for value in before.values), *before.deleted}.difference(present, environment.NAMES)
    return tuple(sorted(name for name in gone if not is_state(name)))
