"""One word has one meaning: a name is a noun of the field, and names one class."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("multitracer", "parsers", "collectors")
ONE_CLASS = ("Clock", "Endpoint", "Finding", "Recording", "Session")
"""Words that a user meets, in pages and messages: none of them means a second thing inside."""


def _trees() -> dict[Path, ast.Module]:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return {path: ast.parse(path.read_text("utf-8")) for path in paths}


def test_words_that_users_meet_name_one_class_each() -> None:
    nodes = [node for tree in _trees().values() for node in ast.walk(tree)]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert {name: classes[name] for name in ONE_CLASS} == dict.fromkeys(ONE_CLASS, 1)
