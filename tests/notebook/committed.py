"""The notebooks in `notebooks/`, and how tests run them, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.utils import run_sync

import kernels
from late import Library

if TYPE_CHECKING:
    from nbclient import NotebookClient
    from nbformat import NotebookNode

nbformat = Library("nbformat")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


@contextmanager
def kernel(notebook: NotebookNode, folder: Path) -> Iterator[NotebookClient]:
    """Lend a kernel that runs the notebook's cells in *folder*."""
    client = kernels.client_of(notebook, folder)
    with client.setup_kernel():
        yield client


def run(client: NotebookClient, cells: Iterable[NotebookNode]) -> None:
    for cell in cells:
        client.execute_cell(cell, client.nb.cells.index(cell))


def evaluate(client: NotebookClient, source: str) -> str:
    """Return what *source* prints in the notebook's kernel."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    run(client, [cell])
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def restart(client: NotebookClient) -> None:
    """Kill the kernel and start it again."""
    assert client.km is not None
    assert client.kc is not None
    run_sync(client.km.restart_kernel)(now=True)
    run_sync(client.kc.wait_for_ready)(timeout=60)
