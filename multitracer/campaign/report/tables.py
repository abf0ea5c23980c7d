"""Tables of the page: cells that sort as numbers, and a bar for what is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.report.markup import Markup, element
from multitracer.units import NS_PER_S
from multitracer.words import duration, rate, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.report.markup import Child
    from multitracer.tables import Row

_WIDEST_EM = 4.0
"""The bar of a second that is always bad."""
_SEEN = 25
"""A table of more rows scrolls in a window of its own, so that the page stays short."""
Heads = tuple[tuple[str, bool], ...]
"""Names of columns, and whether they hold numbers."""
GROUP_HEADS: Heads = (
    ("Bad", True), ("Bad time", True), ("Judged", True), ("Throughput", True), ("RTT", True), ("Loss", True),
    ("Sessions", True),
)  # fmt: skip
"""Of the cells that `group_cells` makes."""


def table(caption: str, heads: Heads, rows: Iterable[Sequence[Markup]], *, filter_id: str = "") -> Markup:
    """Return a table that sorts by each column.

    Parameters
    ----------
    caption : str
    heads : Heads
    rows : iterable of sequence of Markup
        Cells, from `text` and `number`.
    filter_id : str, optional
        With it a box above filters the rows.
    """
    columns = (
        element(
            "th", element("button", name, type="button"), scope="col", class_="number" if is_number else None
        )
        for name, is_number in heads
    )
    lines = [element("tr", *row) for row in rows]
    made = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", columns)),
        element("tbody", lines),
        class_="sortable free",
        data_filter=filter_id or None,
    )
    height = "scroll tall" if len(lines) > _SEEN else "scroll"
    scrolled = element("div", made, class_=height, tabindex="0", role="group", aria_label=caption)
    if not filter_id:
        return scrolled
    box = element("input", id=filter_id, type="search", placeholder="Filter…", aria_label="Filter rows")
    status = element("span", id=f"{filter_id}-told", class_="muted", role="status")
    return element("div", element("div", box, status, class_="bar"), scrolled)


def text(*words: Child, wrap: bool = False) -> Markup:
    """Return a cell of text, which is escaped."""
    return element("td", *words, class_="wrap" if wrap else None)


def number(value: float | None, words: Callable[[float], str]) -> Markup:
    """Return a cell of a number, empty where it is missing; missing ones sort below all others."""
    if value is None:
        return element("td", class_="number", data_value="-1e99")
    return element("td", words(value), class_="number", data_value=value)


def seconds(value: float | None) -> Markup:
    """Return a cell of a length of time."""
    return number(value, lambda each: duration(each * NS_PER_S))


def bar(part: float, whole: float) -> Markup:
    """Return a cell of a percentage with a bar; empty without a whole."""
    if not whole:
        return number(None, str)
    drawn = (
        element("span", class_="share", style=f"width:{part / whole * _WIDEST_EM:.2f}em") if part else None
    )
    words = element("span", share(part, whole), class_="percent")
    return element("td", drawn, words, class_="number", data_value=part / whole)


def group_cells(row: Row) -> list[Markup]:
    """Return the cells of a group of seconds, as `groups.py` and `places.py` count it, under GROUP_HEADS."""
    return [
        bar(row["bad"], row["judged"]),
        seconds(row["bad"]),
        seconds(row["judged"]),
        number(row["throughput_bps"], rate),
        number(row["rtt_ns"], duration),
        number(row["loss"], lambda each: share(each, 1)),
        number(row["sessions"], lambda each: f"{each:,}"),
    ]
