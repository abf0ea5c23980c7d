"""Types say what a value is: an array has one of four names, and `Any` stays where others force it."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("multitracer", "parsers", "collectors")
ARRAYS = re.compile(r"^\s*(Array|Times|Numbers|Mask)( *:[^=]+)? *= *(NDArray|np\.)", re.MULTILINE)
MOST_LINES_WITH_ANY = 52
"""What pyarrow, click, pandas and JSON from outside leave; a change may lower it, and may not raise it."""


def test_the_names_of_arrays_are_defined_once() -> None:
    folders = (*PACKAGES, "tests", "docs", "sample_traces/recording")
    found = [
        (path.relative_to(ROOT).as_posix(), match[1])
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in ARRAYS.finditer(path.read_text("utf-8"))
    ]
    assert found == [("multitracer/tables.py", name) for name in ("Array", "Times", "Numbers", "Mask")]


def test_any_does_not_spread() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in _lines_with_any(path)
    ]
    assert len(lines) <= MOST_LINES_WITH_ANY, "say `object`, Row, Document, Json or what it is: see the last"


def _lines_with_any(path: Path) -> set[int]:
    """Return the lines that have the name `Any` outside of comments and strings."""
    with path.open("rb") as stream:
        tokens = list(tokenize.tokenize(stream.readline))
    return {each.start[0] for each in tokens if each.type == tokenize.NAME and each.string == "Any"}
