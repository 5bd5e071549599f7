"""TorchCheckpoint: a checkpoint that holds a PyTorch model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from torch import nn

_MODEL = "model"


class TorchCheckpoint(Checkpoint):
    """A checkpoint with a model, or a model's state, under the key `model`."""

    @classmethod
    def from_model(cls, model: nn.Module | Mapping[str, Any], **fields: Any) -> Self:
        """Make a checkpoint of a model, or of what its `state_dict()` returned, and other fields.

        A state dict is the better choice where the model's code may change until it is loaded.

        Raises:
            UsageError: *model* is neither.
        """
        import torch

        if not isinstance(model, (torch.nn.Module, Mapping)):
            raise UsageError(f"from_model takes a module or a state dict, not {type(model).__name__}")
        return cls.from_dict({_MODEL: model, **fields})

    def get_model(self, model: nn.Module | None = None) -> nn.Module:
        """Return the model, or *model* with the saved state loaded into it.

        Args:
            model: Needed where only a state dict was saved; it is changed and returned.

        Raises:
            NotFoundError: There is no model in the checkpoint.
            UsageError: Only a state dict was saved, and *model* is missing or does not fit.
            UntrustedError: Someone else wrote it.
        """
        saved = self._field(_MODEL, None)
        if saved is None:
            raise NotFoundError(f"{self!r} holds no model: make one with from_model")
        if model is None:
            if isinstance(saved, Mapping):
                raise UsageError(f"{self!r} holds a state dict: give the model to load it into")
            found: nn.Module = saved
            return found
        state = saved if isinstance(saved, Mapping) else saved.state_dict()
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise UsageError(f"the state in {self!r} does not fit the model: {error}") from error
        return model
