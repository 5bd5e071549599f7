"""What the tests of a browser's Python take: Pyodide, and the wheels that the site would have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lite.wheels import own_wheel, wheels_beside

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def pyodide() -> Path:
    """Return the npm package's folder, where the environment says that there is one."""
    folder = os.environ.get("NBCKPT_PYODIDE")
    if folder is None:
        pytest.skip("npm install pyodide@314.0.6, then set NBCKPT_PYODIDE to node_modules/pyodide")
    return Path(folder)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with our wheel, and pure ones of all that it needs in a browser."""
    wheel = own_wheel(tmp_path_factory.mktemp("wheels"))
    wheels_beside(wheel, "widget")
    return wheel.parent
