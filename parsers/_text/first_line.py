"""The line of a CSV log that names its columns."""

from __future__ import annotations

import csv
import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 100_000
_MOST_COMMENTS = 50
_SEPARATOR = re.compile(r"sep=.", re.IGNORECASE)


def first_line(lines: Iterable[str]) -> str:
    """Return the line that names the columns: the first that is no comment; empty if there is none."""
    for text in islice(lines, _MOST_COMMENTS):
        stripped = text.strip("\ufeff \t")
        if stripped and not stripped.startswith("#") and not _SEPARATOR.fullmatch(stripped):
            return text
    return ""


def names_in(text: str, delimiter: str) -> list[str]:
    """Return the names in the first line of a log; none if it is no CSV."""
    try:
        return next(csv.reader([text[:_LONGEST]], delimiter=delimiter), [])
    except csv.Error:
        return []
