"""A reader finds a module by its folder: no floor is crowded, and no fragment serves one module alone."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("multitracer", "parsers", "collectors")
MOST_MODULES = 25
LEAST_LINES = 30
FOUND_BY_NAME = (
    "multitracer/cli",  # a command
    "multitracer/diagnosis/rules/",  # a diagnosis
    "multitracer/figures/panels",  # a panel of the stacked figure
    "multitracer/lab/tcp/congestion",  # a congestion control
    "parsers",  # a log format
)
"""Folders whose files are found or chosen by their names; with a slash at its end, the folders in it, too."""


def _modules() -> dict[str, Path]:
    paths = (path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def _is_found_by_name(folder: str) -> bool:
    return any(folder == each or (each[-1] == "/" and folder.startswith(each)) for each in FOUND_BY_NAME)


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_holds_more_than_can_be_overlooked(room: str) -> None:
    held = Counter(str(path.parent) for name, path in _modules().items() if path.name != "__init__.py")
    assert any(folder.startswith(room) for folder in held)
    crowded = {folder: count for folder, count in held.items() if folder.startswith(room)}
    crowded = {folder: count for folder, count in crowded.items() if count > MOST_MODULES}
    assert not {folder: count for folder, count in crowded.items() if not _is_found_by_name(folder)}


def test_no_fragment_serves_one_module_alone() -> None:
    modules = _modules()
    importers: Counter[str] = Counter()
    for path in modules.values():
        importers.update(_imported(path, modules))
    short = {
        name for name, path in modules.items() if len((ROOT / path).read_text().splitlines()) < LEAST_LINES
    }
    assert short
    fragments = {name for name in short if importers[name] == 1 and modules[name].stem[:2] != "__"}
    assert not {name for name in fragments if not _is_found_by_name(str(modules[name].parent))}


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return which of the modules a file imports, or imports from."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return names & modules.keys()
