"""Each number of four packages has a reason beside it: a standard, a sweep, or "not measured"."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "multitracer"
PACKAGES = ("analysis", "clock", "diagnosis", "protocols")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_constant_has_its_reason(path: Path) -> None:
    assert without_reason(path.read_text("utf-8")) == []


def without_reason(text: str) -> list[str]:
    """Return the constants of a module that hold numbers, and have no comment and no docstring."""
    body, lines = ast.parse(text).body, text.splitlines()
    found = []
    for node, follower in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _holds_numbers(node.value):
            continue
        last = node.end_lineno or node.lineno
        beside = any("#" in line for line in lines[node.lineno - 1 : last])
        above = lines[node.lineno - 2].startswith("#") if node.lineno > 1 else False
        if not (beside or above or _is_docstring(follower)):
            found.append(lines[node.lineno - 1])
    return found


def _holds_numbers(value: ast.expr | None) -> bool:
    """Return whether a value rests on numbers that stand in it; tables are explained where they begin."""
    if value is None or isinstance(value, ast.Dict):
        return False
    inside = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
    return any(isinstance(each, int | float) and not isinstance(each, bool) for each in inside)


def _is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_a_bare_number_is_found() -> None:
    assert without_reason('A = 3\nB = 4  # of five\nC = (1.5, 2)\n"""Why."""\nD = "7"\n# why\nE = 1\n') == ["A = 3"]
