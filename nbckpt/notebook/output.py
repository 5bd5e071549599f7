"""Output: one output of a cell, which is updated in place."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data


class Output:
    """One output of a cell. The first `put` creates it in the running cell; later ones replace its contents.

    A terminal cannot update an output in place: there only the first contents are shown. Any thread may use
    an output. Some kernels accept it only in the context of the cell.

    Attributes:
        is_shown: Whether the output exists.
    """

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self.is_shown = False

    def put(self, data: Mapping[str, Any]) -> None:
        """Show *data*, a mapping of MIME types to contents."""
        with self._lock:
            is_update, self.is_shown = self.is_shown, True
            if not is_update or is_kernel(get_ipython()):
                publish_display_data(dict(data), transient={"display_id": self._id}, update=is_update)


def is_kernel(shell: Any) -> bool:
    """Tell whether a shell belongs to a kernel. A kernel can update outputs in place."""
    return hasattr(shell, "kernel")
