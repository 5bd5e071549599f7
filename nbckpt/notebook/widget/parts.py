"""Parts: the modules and style sheets of the panel, as the browser gets them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FRONT = Path(__file__).parent / "front"
LOADER = "loader.js"

# see docs/decisions/0142
_DOCUMENTATION = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*$", re.DOTALL | re.MULTILINE)


@cache
def front_parts() -> Mapping[str, bytes]:
    """Return the modules and style sheets of the panel by their names, such as `vendor/uPlot.esm.js`.

    Modules come without the comments that document them, which are a fifth of all. Lines keep their numbers.
    """
    files = [file for file in FRONT.rglob("*") if file.suffix in {".js", ".css"} and file.is_file()]
    named = {file.relative_to(FRONT).as_posix(): file.read_bytes() for file in sorted(files)}
    return {name: _bare(name, data) for name, data in named.items() if name != LOADER}


def _bare(name: str, data: bytes) -> bytes:
    if not name.endswith(".js") or "/" in name:
        return data
    return _DOCUMENTATION.sub(lambda comment: "\n" * comment[0].count("\n"), data.decode()).encode()
