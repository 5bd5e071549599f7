"""Outputs: records what a cell prints and displays, and shows it again."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_WIDGET = "application/vnd.jupyter.widget-view+json"


class Recorder:
    """Records the outputs of a cell while they are shown as usual.

    Attributes:
        outputs: The outputs, as in a notebook file. An updated display has its last form.
        lost: The outputs that cannot be kept.
    """

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self._clears = self._is_muted = False
        self._lock = threading.Lock()
        here = threading.get_ident()
        self._bystanders = {thread.ident for thread in threading.enumerate()} - {here}

    def printed(self, name: str, text: object) -> None:
        """Record printed text, except text with which a terminal shows other outputs."""
        if not isinstance(text, str) or not text or self._is_muted:
            return
        last = self.outputs[-1] if self.outputs and not self._clears else {}
        if last.get("name") == name and self._is_ours():
            last["text"] += text
        else:
            self._add({"output_type": "stream", "name": name, "text": text})

    def displayed(self, data: Mapping[str, Any], metadata: Any = None, **more: Any) -> None:
        """Record a display, or the update of one."""
        kept = {"output_type": "display_data", **self._bundle(data, metadata)}
        display_id = (more.get("transient") or {}).get("display_id")
        if display_id:
            kept["display_id"] = str(display_id)
        if not more.get("update"):
            self._add(kept)
            return
        former = [output for output in self.outputs if output.get("display_id") == display_id]
        for output in former:
            output |= {field: kept[field] for field in ("data", "metadata")}
        if not former:
            self._add(kept | {"update": True})

    def resulted(self, data: Mapping[str, Any], metadata: Any = None) -> None:
        """Record the value of the last expression."""
        self._add({"output_type": "execute_result", **self._bundle(data, metadata)})

    def cleared(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002  as IPython calls it
        """Forget the outputs, now or with the next one."""
        if self._is_ours():
            self._clears = True
            if not wait:
                self.outputs.clear()
                self._clears = False

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Record no printed text meanwhile."""
        before, self._is_muted = self._is_muted, True
        try:
            yield
        finally:
            self._is_muted = before

    def _is_ours(self) -> bool:
        return threading.get_ident() not in self._bystanders

    def _add(self, output: dict[str, Any]) -> None:
        if self._is_ours():
            with self._lock:
                if self._clears:
                    self.outputs.clear()
                    self._clears = False
                self.outputs.append(output)

    def _bundle(self, data: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
        """Return a mime bundle as JSON. What is not JSON is lost."""
        if _WIDGET in data:
            self.lost.append("a widget")
        kept = {}
        for mime, content in data.items():
            encoded = base64.b64encode(content).decode() if isinstance(content, bytes) else content
            if mime != _WIDGET and _is_json(encoded):
                kept[mime] = encoded
        return {"data": kept, "metadata": metadata if _is_json(metadata) and metadata else {}}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


@contextmanager
def recording(shell: InteractiveShell) -> Iterator[Recorder]:
    """Record the outputs of the code that runs meanwhile."""
    recorder = Recorder()
    publisher, hook, muted = shell.display_pub, shell.displayhook, recorder.muted
    undo = [
        _spy(publisher, "publish", recorder.displayed, muted),
        _spy(publisher, "clear_output", recorder.cleared, muted),
        _spy(hook, "write_output_prompt", lambda: None, muted),
        _spy(hook, "write_format_data", recorder.resulted, muted),
        _spy(hook, "finish_displayhook", lambda: None, muted),
        _spy(sys.stdout, "write", partial(recorder.printed, "stdout"), nullcontext),
        _spy(sys.stderr, "write", partial(recorder.printed, "stderr"), nullcontext),
    ]
    try:
        yield recorder
    finally:
        for take_back in reversed(undo):
            take_back()


def _spy(
    owner: Any, name: str, note: Callable[..., object], around: Callable[[], AbstractContextManager[None]]
) -> Callable[[], None]:
    """Have *note* called with the arguments of a method, which then runs. Return a function to end it."""
    below, own = getattr(owner, name), vars(owner).get(name)

    def method(*arguments: Any, **options: Any) -> Any:
        note(*arguments, **options)
        with around():
            return below(*arguments, **options)

    def take_back() -> None:
        if vars(owner).get(name) is method:
            delattr(owner, name)
            if own is not None:
                setattr(owner, name, own)

    setattr(owner, name, method)
    return take_back


def replay(shell: InteractiveShell, outputs: Iterable[Mapping[str, Any]], value: Any) -> None:
    """Show recorded outputs again. The last value becomes `_` and an entry of `Out`, as in a plain cell."""
    for output in outputs:
        data, metadata = output.get("data", {}), output.get("metadata", {})
        if output["output_type"] == "stream":
            stream = sys.stderr if output.get("name") == "stderr" else sys.stdout
            stream.write(output.get("text", ""))
            stream.flush()
        elif output["output_type"] == "execute_result":
            hook = shell.displayhook
            hook.start_displayhook()
            hook.write_output_prompt()
            hook.write_format_data(data, metadata)
            if value is not None:
                hook.update_user_ns(value)
                hook.fill_exec_result(value)
            hook.finish_displayhook()
        else:
            display_id = output.get("display_id")
            transient = {"display_id": display_id} if display_id else {}
            update = bool(output.get("update"))
            shell.display_pub.publish(data, metadata, transient=transient, update=update)
