"""Warning: a warning that names the line of the user's code, not a line of nbckpt."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def warn(message: str) -> None:
    """Warn at the line outside nbckpt that called it."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
