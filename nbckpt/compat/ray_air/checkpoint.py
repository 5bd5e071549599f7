"""Checkpoint by Ray's name. It also reads the dicts, bytes and folders that Ray wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from nbckpt.compat.ray_air import forms
from nbckpt.core import checkpoint as core
from nbckpt.core.files import KIND
from nbckpt.core.tree import Tree
from nbckpt.errors import UntrustedError

_PICKLE = b"\x80"


class Checkpoint(core.Checkpoint):
    """A checkpoint that also reads what Ray wrote; see `nbckpt.Checkpoint`.

    It writes nbckpt's forms. The dict form has no reserved keys of text: any files are under the key
    `nbckpt.Checkpoint.FILES`.
    """

    @classmethod
    def from_dict(cls, data: Mapping[Any, Any]) -> Self:
        """See `nbckpt.Checkpoint.from_dict`. *data* may be the dict of a checkpoint of Ray."""
        return super().from_dict(forms.plain_dict(data))

    def to_dict(self, *, device: str = "") -> dict[Any, Any]:
        """See `nbckpt.Checkpoint.to_dict`. Of a folder that Ray wrote, it returns the fields in its pickles.

        Raises:
            UntrustedError: Somebody else wrote the fields, or Ray wrote them and no trust was given.
            CorruptError: The fields are damaged.
            CodecError: A pickle of Ray cannot be loaded here.
        """
        data = super().to_dict(device=device)
        if type(self) is Checkpoint:
            data.pop(KIND, None)
        if not (pickles := forms.pickled_fields(self._tree.files)):
            return data
        if not self._source.trust:
            raise UntrustedError(
                f"{self!r} was written by Ray, and loading its pickle {pickles[0]!r} could run anything. If "
                "you know who wrote it, pass trust=True to from_…()"
            )
        return forms.folder_dict(data)

    @classmethod
    def from_bytes(cls, data: bytes, *, trust: bool = False) -> Self:
        """See `nbckpt.Checkpoint.from_bytes`. *data* may be the bytes of a checkpoint of Ray, a pickle.

        Raises:
            UntrustedError: Ray wrote the bytes, and *trust* was not given.
            CorruptError: The bytes are truncated or changed.
            CodecError: The pickle of Ray cannot be loaded here.
        """
        if bytes(data[:1]) != _PICKLE:
            return super().from_bytes(data, trust=trust)
        if not trust:
            raise UntrustedError(
                "these bytes are a pickle, as Ray writes it, and loading it could run anything. If you know "
                "who wrote it, pass trust=True to from_bytes()"
            )
        loaded = forms.unpickled(bytes(data), "bytes")
        return cls.from_dict(loaded if isinstance(loaded, dict) else {"bytes_data": loaded})

    def get_preprocessor(self, *, trust: bool = False) -> Any:
        """See `nbckpt.Checkpoint.get_preprocessor`."""
        if forms.pickled_fields(self._tree.files):
            return self.to_dict().get("_preprocessor")
        return super().get_preprocessor(trust=trust)

    def _outgoing(self) -> Tree:
        # What a trial or a store keeps does not depend on this module.
        return (
            core.Checkpoint.from_checkpoint(self)._outgoing()
            if type(self) is Checkpoint
            else super()._outgoing()
        )
