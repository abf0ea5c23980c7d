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
    "room": 12,
    "world": 0,
    "arm": 3,
    "arms": 0,
    "clap": 0,
    "claps": 0,
    "clapperboard": 0,
    "road": 3,
    "stays": 0,
    "talk": 0,
    "talks": 0,
    "away": 9,
    "copies": 7,
    "held": 19,
    "kept": 25,
    "once": 21,
    "told": 11,
    "tells": 1,
    "says": 6,
    "whole": 2,
    "odd": 1,
    "strange": 0,
    "stray": 0,
    "strays": 0,
    "giant": 0,
    "giants": 0,
    "piece": 3,
    "pieces": 0,
    "folded": 0,
    "recut": 0,
    "bunches": 0,
    "quiet": 0,
    "silence": 4,
    "silences": 0,
    "silent": 7,
    "pause": 12,
    "pauses": 2,
    "doubt": 0,
    "doubts": 0,
    "surroundings": 0,
    "still": 3,
    "lead": 3,
    "culprit": 0,
    "usual": 1,
    "least": 4,
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
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
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
    assert len(names) <= NAMES_TODAY[word], f"docs/contributing/words.md has a better word than {word}: {names}"


def test_every_old_word_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [word for word in NAMES_TODAY if not re.search(rf"\b{word}\b", page)] == []
