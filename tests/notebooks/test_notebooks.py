"""The notebooks run from the top to the end, and are stored without output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_output(path: Path) -> None:
    for cell in code_cells(json.loads(path.read_text("utf-8"))):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:nbclient")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error:::__main__")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(path.parent)}})
    client.km = kernel()
    client.execute()
    assert all(not warned(cell) for cell in code_cells(notebook))


def kernel() -> AsyncKernelManager:
    """Return a manager of kernels of this interpreter, in which only what `.[all]` brings can be imported."""
    manager = AsyncKernelManager()
    spec = manager.kernel_spec_manager.get_kernel_spec("python3")
    spec.argv = [sys.executable, str(Path(__file__).with_name("only_extra_all.py")), "-f", "{connection_file}"]
    manager._kernel_spec = spec
    return manager


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def warned(cell: Any) -> list[str]:
    """Return what a cell said on standard error."""
    return [out["text"] for out in cell["outputs"] if out.get("name") == "stderr"]
