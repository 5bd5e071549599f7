"""Folders are layers: a module imports only from layers above its own, and each library has one home."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nbckpt"
LAYERS = [
    "lazy",
    "errors",
    "settings",
    "render",
    "store",
    "core",
    "state",
    "sync",
    "trials",
    "listing",
    "tracker mirror",
    "commands",
    "cli notebook",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
RANK |= {"integrations": RANK["tracker"], "testing": RANK["core"]}
HOMES = {
    "IPython": "notebook",
    "ipywidgets": "notebook",
    "fsspec": "store",
    "jinja2": "render",
    "tabulate": "render",
    "ray": "trials",
    "optuna": "trials",
    "mlflow": "integrations",
    "tensorboard": "integrations",
    "platformdirs": "settings",
}
MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.parent != PACKAGE or path.stem not in {"__init__", "__main__"}
)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module named in an import, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def trespasses(name: str, layer: str) -> bool:
    top, *rest = name.split(".")
    if top in HOMES:
        return HOMES[top] != layer
    if top != "nbckpt" or not rest or rest[0] == "__version__":
        return False
    other = rest[0]
    return other != layer and RANK.get(other, 99) >= RANK[layer]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_layers_above_it(path: Path) -> None:
    layer = layer_of(path)
    assert [name for name in imported(ast.parse(path.read_text())) if trespasses(name, layer)] == []


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("IPython", "core"),
        ("nbckpt.tracker.Tracker", "core"),
        ("nbckpt.core.checkpoint.Checkpoint", "render"),
        ("nbckpt.testing", "core"),
        ("nbckpt.cli", "notebook"),
    ],
)
def test_the_rule_sees_a_trespass(name: str, layer: str) -> None:
    assert trespasses(name, layer)
