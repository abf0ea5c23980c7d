"""One word has one meaning: a name is a noun of the field, and names one class."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("multitracer", "parsers", "collectors")
NO_NOUNS = ("told", "met", "heard", "leaves", "foreign", "books", "asked", "beside", "said", "found")
"""Words that had up to six meanings as names; each meaning has a word of the field."""


@cache
def _nodes() -> dict[Path, list[ast.AST]]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path: list(ast.walk(ast.parse(path.read_text("utf-8")))) for path in paths}


def test_a_public_name_names_one_class() -> None:
    classes = Counter(node.name for node in chain(*_nodes().values()) if isinstance(node, ast.ClassDef))
    assert classes["Session"] == 1
    assert not {name for name, times in classes.items() if times > 1 and not name.startswith("_")}


def test_names_are_nouns_of_the_field() -> None:
    vague: set[str] = set()
    for path, nodes in _nodes().items():
        names = {path.stem} | {name for node in nodes for name in _names_in(node)}
        vague |= {f"{path.relative_to(ROOT)}: {name}" for name in names if name.strip("_") in NO_NOUNS}
    assert not vague


def test_helpers_are_named_by_nouns_and_verbs() -> None:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = {node.name for node in chain(*_nodes().values()) if isinstance(node, kinds)}
    assert "open" in functions
    assert not {name for name in functions if name.endswith(("_again", "_ends"))}


def _names_in(node: ast.AST) -> list[str]:
    """Return the names that a node binds or uses."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
    return []
