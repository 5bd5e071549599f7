"""Output: one output of a cell, which is updated in place."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Mapping
from typing import Any


class Output:
    """One output of a cell. The first `put` creates it in the running cell; later ones replace its contents.

    A terminal cannot update an output in place: there only the first contents are shown. Without IPython
    nothing is shown. Any thread may use an output. Some kernels accept it only in the context of the cell.

    Attributes:
        is_shown: Whether the output exists.
    """

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self.is_shown = False

    def put(self, data: Mapping[str, Any]) -> None:
        """Show *data*, a mapping of MIME types to contents."""
        shell = current_shell()
        if shell is None:
            return
        with self._lock:
            is_update, self.is_shown = self.is_shown, True
            if not is_update or is_kernel(shell):
                # Not `publish_display_data`: a library must not import IPython in a script.
                shell.display_pub.publish(
                    data=dict(data), metadata={}, transient={"display_id": self._id}, update=is_update
                )


def current_shell() -> Any:
    """Return the IPython shell of this process, or None. It does not import IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_kernel(shell: Any) -> bool:
    """Tell whether a shell belongs to a kernel. A kernel can update outputs in place."""
    return getattr(shell, "kernel", None) is not None
