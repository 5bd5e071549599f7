"""The wheel: built, installed in a fresh environment, and rendering its templates."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """
import nbckpt, pathlib
from nbckpt.commands.housekeeping import Tagged
from nbckpt.core.references import Ref
from nbckpt.render.html import template_folders
assert template_folders() == [pathlib.Path(nbckpt.__file__).parent / "templates"], template_folders()
print(Tagged(Ref(1, "ab" * 32, "<b>", ""))._repr_mimebundle_()["text/html"])
"""


def pip(verb: str, *words: str) -> None:
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", *words]
    subprocess.run(command, check=True, timeout=240)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_contains_the_templates_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = {f"nbckpt/templates/{path.name}" for path in (ROOT / "templates").iterdir()}
    assert ours | {"nbckpt/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.slow
def test_an_installed_wheel_renders_from_its_own_templates(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", system_site_packages=True, with_pip=False)
    python = tmp_path / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    target = tmp_path / "site"
    pip("install", "--target", str(target), str(wheel))
    # The libraries come from this environment, nbckpt from the wheel; the checkout is not on the path.
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    code = f"import sys; sys.path[:0] = [{str(target)!r}]; sys.path += {libraries!r}\n{SCRIPT}"
    done = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert "&lt;b&gt;@1" in done.stdout, done.stderr


def test_an_editable_checkout_renders_from_the_folder_beside_it() -> None:
    from nbckpt.render.html import template_folders

    assert template_folders()[-1] == ROOT / "templates"
