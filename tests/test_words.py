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
    "room": 13,
    "world": 7,
    "arm": 7,
    "arms": 8,
    "clap": 10,
    "claps": 6,
    "clapperboard": 4,
    "road": 10,
    "stays": 9,
    "talk": 5,
    "talks": 4,
    "away": 11,
    "copies": 9,
    "held": 20,
    "kept": 26,
    "once": 24,
    "told": 13,
    "tells": 4,
    "says": 9,
    "whole": 24,
    "odd": 6,
    "strange": 3,
    "stray": 7,
    "strays": 5,
    "giant": 4,
    "giants": 3,
    "piece": 24,
    "pieces": 20,
    "folded": 6,
    "recut": 7,
    "bunches": 0,
    "quiet": 9,
    "silence": 14,
    "silences": 5,
    "silent": 11,
    "pause": 14,
    "pauses": 12,
    "doubt": 6,
    "doubts": 3,
    "surroundings": 6,
    "still": 9,
    "lead": 7,
    "culprit": 4,
    "usual": 19,
    "least": 125,
    "goodbye": 7,
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
