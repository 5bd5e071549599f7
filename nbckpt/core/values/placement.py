"""Placement: the device on which tensors are restored that were saved on a GPU.

A tensor on a GPU is saved by PyTorch's own pickling, which names its device. Tensors of the CPU are saved by
`core/reducers.py` and stay there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nbckpt.errors import CodecError, UsageError

LOADER = ("torch.storage", "_load_from_bytes")
"""The name by which records call PyTorch for the memory of a tensor that is not on the CPU."""

_device: ContextVar[str] = ContextVar("nbckpt_device", default="")


class MissingDeviceError(CodecError):
    """A tensor was saved on a device that is not here. `device` is its name."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"saved on {device}, which this machine does not have. Restore it to the CPU: --device cpu in a "
            "command, device='cpu' in Python"
        )
        self.device = device


@contextmanager
def restoring_to(device: str) -> Iterator[None]:
    """Restore tensors that were saved on a GPU to *device* during the block; "" means where they were.

    Raises:
        UsageError: There is no such device.
    """
    if device:
        _check(device)
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def load_storage(data: bytes) -> Any:
    """Return the memory of a tensor, on the chosen device or else on the one where it was.

    Raises:
        MissingDeviceError: It was on a device that is not here, and none was chosen.
    """
    import torch

    locate: Any = torch.serialization.default_restore_location
    places: list[str] = []

    def place(storage: Any, location: str) -> Any:
        places.append(location)
        chosen = _device.get() if location != "cpu" else ""
        return locate(storage, chosen or location)

    try:
        return torch.load(io.BytesIO(data), map_location=place, weights_only=False)
    except Exception as error:
        if places and not _device.get() and not _is_here(places[-1]):
            raise MissingDeviceError(places[-1]) from error
        raise


def _check(device: str) -> None:
    try:
        import torch
    except ImportError:
        raise UsageError("device is for tensors of PyTorch, which is not installed: leave it out") from None
    try:
        torch.empty(0, device=device)
    except Exception as error:
        raise UsageError(f"device={device!r} is not here: {error}. Use 'cpu'") from error


def _is_here(device: str) -> bool:
    import torch

    try:
        torch.empty(0, device=device)
    except Exception:  # noqa: BLE001  each kind of device has its own errors
        return False
    return True
