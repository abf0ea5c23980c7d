"""New names use the words of docs/contributing/words.md: no old word gets more names than it has today."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contributing" / "words.md"
NAMES_TODAY = {
    "room": 11,
    "world": 5,
    "arm": 5,
    "arms": 6,
    "clap": 8,
    "claps": 4,
    "clapperboard": 2,
    "road": 8,
    "stays": 6,
    "talk": 3,
    "talks": 2,
    "away": 7,
    "copies": 7,
    "held": 18,
    "kept": 24,
    "once": 22,
    "told": 10,
    "tells": 2,
    "says": 8,
    "whole": 22,
    "odd": 4,
    "strange": 1,
    "stray": 5,
    "strays": 3,
    "giant": 2,
    "giants": 1,
    "piece": 22,
    "pieces": 18,
    "folded": 4,
    "recut": 5,
    "bunches": 0,
    "quiet": 7,
    "silence": 12,
    "silences": 3,
    "silent": 8,
    "pause": 12,
    "pauses": 10,
    "doubt": 4,
    "doubts": 1,
    "surroundings": 4,
    "still": 6,
    "lead": 5,
    "culprit": 2,
    "usual": 17,
    "least": 123,
    "goodbye": 5,
}
"""Old word -> how many names of our code contain it; a change may lower a number, never raise it."""
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _names() -> set[str]:
    """Return the names that our code defines: of modules, classes, functions, parameters and variables."""
    found = set()
    for package in ("multitracer", "parsers", "collectors"):
        for path in (ROOT / package).rglob("*.py"):
            found |= {path.stem, path.parent.name}
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case (
                        ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name)
                    ):
                        found.add(name)
                    case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.Name(id=name, ctx=ast.Store()):
                        found.add(name)
                    case ast.Attribute(attr=name, ctx=ast.Store()):
                        found.add(name)
    return found


@pytest.fixture(scope="module")
def names_of() -> dict[str, set[str]]:
    """Return the names that contain a word, by word; words are split at underscores and capitals."""
    found = defaultdict(set)
    for name in _names():
        for part in _PARTS.findall(name):
            found[part.lower()].add(name)
    return found


@pytest.mark.parametrize("word", NAMES_TODAY)
def test_no_new_name_has_an_old_word(word: str, names_of: dict[str, set[str]]) -> None:
    names = sorted(names_of.get(word, ()))
    assert len(names) <= NAMES_TODAY[word], (
        f"docs/contributing/words.md has a better word than {word}: {names}"
    )


def test_every_old_word_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [word for word in NAMES_TODAY if not re.search(rf"\b{word}\b", page)] == []
