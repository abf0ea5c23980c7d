"""Each package says what it is for: its docstring is a theory of operation, not a title."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "multitracer").glob("*/__init__.py"),
        *(ROOT / name / "__init__.py" for name in ("parsers", "collectors")),
    )
)
LEAST_LINES = 6


@pytest.mark.parametrize("package", PACKAGES)
def test_docstring_of_a_package_is_its_theory_of_operation(package: str) -> None:
    said = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text("utf-8")))
    assert said is not None, "say what comes in, what goes out, and what must hold"
    lines = [line for line in said.splitlines() if line.strip()]
    assert len(lines) >= LEAST_LINES, "say what comes in, what goes out, and what must hold"
