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
        """Make a checkpoint of a model, or of its `state_dict()`, and other fields.

        A state dict is the better choice if the model's code may change before the checkpoint is loaded.

        Raises:
            UsageError: *model* is neither a module nor a state dict.
        """
        import torch

        if not isinstance(model, (torch.nn.Module, Mapping)):
            raise UsageError(f"from_model takes a module or a state dict, not {type(model).__name__}")
        return cls.from_dict({_MODEL: model, **fields})

    def get_model(self, model: nn.Module | None = None) -> nn.Module:
        """Return the model, or *model* with the saved state loaded into it.

        Args:
            model: The model to load the saved state into; it is changed and returned. It is required if only
                a state dict was saved.

        Raises:
            NotFoundError: The checkpoint holds no model.
            UsageError: Only a state dict was saved and *model* is missing, or the state does not fit *model*.
            UntrustedError: Someone else wrote the checkpoint.
        """
        saved = self._field(_MODEL)
        if saved is None:
            raise NotFoundError(f"{self!r} holds no model: make one with from_model")
        if model is None:
            if isinstance(saved, Mapping):
                raise UsageError(f"{self!r} holds a state dict: give the model to load it into")
            module: nn.Module = saved
            return module
        state = saved if isinstance(saved, Mapping) else saved.state_dict()
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise UsageError(f"the state in {self!r} does not fit the model: {error}") from error
        return model
