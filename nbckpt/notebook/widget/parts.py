"""Parts: the modules and style sheets of the panel, as the browser gets them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

FRONT = Path(__file__).parent / "front"
LOADER = "loader.js"
_BEFORE = {LOADER, "mount.js", "panel.js"}

# see docs/decisions/0142
_COMMENTS = {
    ".js": re.compile(r"/\*\*(?:(?!\*/).)*\*/|^[ \t]*//[^\n]*$", re.DOTALL | re.MULTILINE),
    ".css": re.compile(r"/\*(?:(?!\*/).)*\*/", re.DOTALL),
}
_MARGINS = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)


@cache
def front_parts() -> Mapping[str, bytes]:
    """Return the modules and style sheets of the panel by their names, such as `vendor/uPlot.esm.js`.

    They come without indentation and comments. Lines keep their numbers. The last part, `names.json`, has the
    names of the modules that `panel.js` loads.
    """
    files = [file for file in FRONT.rglob("*") if file.suffix in {".js", ".css"} and file.is_file()]
    named = {file.relative_to(FRONT).as_posix(): file.read_bytes() for file in sorted(files)}
    parts = {name: _bare(name, data) for name, data in named.items() if name != LOADER}
    names = [file.stem for file in sorted(FRONT.glob("*.js")) if file.name not in _BEFORE]
    return parts | {"names.json": json.dumps(names).encode()}


def loader() -> str:
    """Return the module that gets the parts from the kernel."""
    return _bare(LOADER, (FRONT / LOADER).read_bytes()).decode()


@cache
def version() -> str:
    """Return a text that differs if any part differs, so that a page keeps parts by it."""
    whole = sha256()
    for data in front_parts().values():
        whole.update(sha256(data).digest())
    return whole.hexdigest()[:12]


def _bare(name: str, data: bytes) -> bytes:
    if "/" in name:
        return data
    comments = _COMMENTS[Path(name).suffix]
    text = comments.sub(lambda comment: "\n" * comment[0].count("\n"), data.decode())
    return _MARGINS.sub("", text).encode()
