"""Several inputs: a report each, and a page that lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.report.index_row import HEADS, index_row, is_empty, order
from multitracer.report.markup import Markup, element
from multitracer.report.page import document, write
from multitracer.report.write import Request, write_report
from multitracer.words import count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from multitracer.recording.recording import Recording
    from multitracer.report.assets import Assets

INDEX = "index.html"
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Input:
    """What one report is made of."""

    name: str
    """As the user named it; its last part becomes the report's name."""
    recording: Recording
    request: Request = field(default_factory=Request)


def write_reports(
    inputs: Iterable[Input], folder: str | os.PathLike[str], *, assets: Assets | None = None
) -> Path:
    """Write a report of each input and an index page into a folder, and return the index page's path.

    Parameters
    ----------
    inputs : iterable of Input
        Taken one by one, so that a generator needs the memory of one input only.
    folder : path
        Made if it is missing.
    assets : Assets, optional
        Where script and style of all pages go; by default into each page.

    Raises
    ------
    InputError
        If the folder or a file cannot be written; see also `write_report`.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise InputError(
            f"{place}: cannot make this folder: {failure.strerror}; choose another one"
        ) from failure
    taken: set[str] = set()
    rows: list[tuple[float, list[Markup]]] = []
    try:
        for each in inputs:
            name = file_name(each.name, taken)
            answer = write_report(each.recording, place / name, replace(each.request, assets=assets))
            rows.append((order(answer), index_row(each.recording, answer, title=each.name, page=name)))
    finally:  # what was written before a failure is whole, and stays to be found
        listed = [row for _, row in sorted(rows, key=lambda row: row[0])]
        write(place / INDEX, document(count(len(rows), "report"), _section(listed), assets=assets))
    return place / INDEX


def file_name(title: str, taken: set[str]) -> str:
    """Return a plain file name that no input before has, and add it to `taken`.

    Only ASCII letters, digits, dot, hyphen and underscore of the last part of the title are kept, so that a
    hostile name leads nowhere.
    """
    last = re.split(r"[/\\]", title.rstrip("/\\"))[-1]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip(".-")[:_LONGEST_NAME] or "report"
    names = (f"{stem}{number}.html" for number in ("", *(f"-{n}" for n in range(2, len(taken) + 4))))
    name = next(n for n in names if n.lower() not in taken and n.lower() != INDEX)
    taken.add(name.lower())
    return name


def _section(rows: list[list[Markup]]) -> Markup:
    """Return the table; a column of which no report knows anything is left out."""
    shown = [at for at in range(len(HEADS)) if not all(is_empty(row[at]) for row in rows)]
    cells = [
        element(
            "th", element("button", name, type="button"), scope="col", class_="number" if number else None
        )
        for name, number in (HEADS[at] for at in shown)
    ]
    box = element("input", id="filter", type="search", placeholder="Filter…", aria_label="Filter rows")
    status = element("span", id="filter-told", class_="muted", role="status")
    table = element(
        "table",
        element("caption", "Reports, the slowest first"),
        element("thead", element("tr", cells)),
        element("tbody", [element("tr", [row[at] for at in shown]) for row in rows]),
        class_="sortable free cards index",
        data_filter="filter",
    )
    return element(
        "section",
        element("div", box, status, class_="bar"),
        element("div", table, class_="scroll"),
        class_="long",
    )
