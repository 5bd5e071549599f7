"""Folders are layers: a module imports only from layers above its own, and each library has one home."""

from __future__ import annotations

from pathlib import Path

from syntax import syntax

PACKAGE = Path(__file__).parents[1] / "nbckpt"
LAYERS = [
    "lazy hook suggestion _private_apis",
    "errors",
    "settings",  # see docs/decisions/0010
    "render",  # see docs/decisions/0033
    "store",
    "core",
    "provenance cells",
    "states",
    "sync",
    "media",
    "trials",
    "listing",
    "tracker mirror",
    "timeline",
    "commands compat",
    "cli notebook",
]
ROOMS = {
    # Of trials/, from the bottom to the top. What is in no room is above all of them.
    "trials": ["checkpoints", "model", "views training schedulers search", "executors", "engine"],
    # Of core/: packs rely on memory, values on packs, and everything else stands on them.
    "core": ["memory", "packs", "values"],
    # Of notebook/: the two panels, which do not know each other.
    "notebook": ["panels widget"],
}
BELOW = {
    "notebook": {"runner", "static_copy", "tokenize"},
    "core": {
        *(
            "algorithms",
            "bytecode",
            "construction",
            "ctypes_data",
            "dataclass_methods",
            "definitions",
            "depth",
        ),
        "elsewhere",
        *("enumerations", "instances", "manifest", "named_objects", "object_arrays", "parts", "reducers"),
        *("schema", "spans"),
    },
}
"""Modules of no room that the rooms may import."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
RANK |= {"integrations": RANK["tracker"], "testing": RANK["tracker"]}
HOMES = {
    "IPython": "notebook",
    "ipywidgets": "notebook",
    "anywidget": "notebook",
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


def imported(path: Path) -> tuple[str, ...]:
    """Every module named in an import, also inside functions and under TYPE_CHECKING."""
    assert not syntax(path).are_relative, "relative imports hide the layer"
    return syntax(path).imports


def room_of(name: str) -> tuple[str, int]:
    """Return the layer of a module that has rooms, and the number of its room; -1 for what is below them."""
    _, layer, *rest = [*name.split("."), "", ""]
    rooms = {room: rank for rank, names in enumerate(ROOMS.get(layer, ())) for room in names.split()}
    if rest[0] in BELOW.get(layer, ()):
        return layer, -1
    return layer, rooms.get(rest[0], len(rooms))


def climbs(name: str, module: str) -> bool:
    """Tell whether an import leads from a room to one that is above or beside it."""
    (layer, here), (other, there) = room_of(module), room_of(name)
    if layer != other or layer not in ROOMS or here == -1:
        return False
    return there > here or (
        there == here and name.split(".")[2] != module.split(".")[2] and here < len(ROOMS[layer])
    )


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def trespasses(name: str, layer: str) -> bool:
    top, *rest = name.split(".")
    if top in HOMES:
        return HOMES[top] != layer
    if top != "nbckpt" or not rest or rest[0] == "__version__":
        return False
    other = rest[0]
    return other != layer and RANK.get(other, 99) >= RANK[layer]


def test_modules_import_only_from_layers_above_them() -> None:
    imports = [(path, name) for path in MODULES for name in imported(path)]
    assert len(imports) > 1000
    assert [(str(path), name) for path, name in imports if trespasses(name, layer_of(path))] == []


def test_the_layer_rule_detects_a_forbidden_import() -> None:
    assert trespasses("IPython", "core")
    assert trespasses("nbckpt.tracker.Tracker", "core")
    assert trespasses("nbckpt.core.checkpoint.Checkpoint", "render")
    assert trespasses("nbckpt.testing", "core")
    assert trespasses("nbckpt.cli", "notebook")


def test_rooms_import_only_from_rooms_below_them() -> None:
    modules = [path for path in MODULES if path.name != "__init__.py"]
    imports = [(module_of(path), name) for path in modules for name in imported(path)]
    ours = [(module, name) for module, name in imports if name.startswith("nbckpt.")]
    assert len(ours) > 1000
    assert [(module, name) for module, name in ours if climbs(name, module)] == []


def test_the_room_rule_detects_an_upward_import() -> None:
    assert climbs("nbckpt.trials.engine.pool", "nbckpt.trials.model.trial")
    assert climbs("nbckpt.trials.views.table", "nbckpt.trials.training.function")
    assert climbs("nbckpt.trials.run", "nbckpt.trials.engine.pool")
    assert climbs("nbckpt.core.gc", "nbckpt.core.packs.writer")
    assert not climbs("nbckpt.trials.model.trial", "nbckpt.trials.engine.pool")


def test_no_modules_import_each_other_in_a_circle() -> None:
    files = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    imports: dict[str, set[str]] = {}
    for module, path in files.items():
        names = {_known(name, files) for name in imported(path)}
        imports[module] = names - {"", module}
    while leaves := {module for module, names in imports.items() if not names & imports.keys()}:
        for leaf in leaves:
            del imports[leaf]
    assert imports == {}


def _known(name: str, files: dict[str, Path]) -> str:
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name
