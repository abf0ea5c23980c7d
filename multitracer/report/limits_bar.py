"""The bar of limits: what held a transfer back, the culprit in the strongest colour, with its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Confidence, Limit, LimitShare, by_limit
from multitracer.report.limit_words import name_of, percent, says, surely
from multitracer.report.markup import Markup, element
from multitracer.units import NS_PER_S
from multitracer.words import duration, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.group import ConnectionGroup

_WIDE = 0.16
"""Share from which on a piece of the bar has room for its name."""
_SHADES = 3
"""Colours: the culprit's, the next one's, and that of all others."""


def limits_bar(rows: list[LimitShare], of_link: str = "", *, label: str) -> list[Markup]:
    """Return the bar and its legend.

    Parameters
    ----------
    rows : list of LimitShare
        Parts of one limit are put beside each other; the largest limit is the culprit.
    of_link : str
        The numbers that stand in the link's row.
    label : str
        Of what it is, for those who hear the page.
    """
    order = list(by_limit(rows))
    ordered = sorted((row for row in rows if row.seconds > 0), key=lambda row: order.index(row.limit))
    shades = {limit: min(place, _SHADES - 1) for place, limit in enumerate(order)}
    words = ", ".join(f"{name_of(row)} {percent(row.share)}" for row in ordered)
    pieces = [_piece(row, shades[row.limit]) for row in ordered]
    legend = [_entry(row, shades[row.limit], of_link if row.limit is Limit.LINK else "") for row in ordered]
    return [
        element("div", pieces, class_="limits", role="img", aria_label=f"{label}: {words}"),
        element("dl", legend, class_="uses"),
    ]


def rows_of_group(group: ConnectionGroup) -> list[LimitShare]:
    """Return the wall time of a group by limit, as rows of the bar."""
    total = max(group.total_s, 1e-12)
    return [
        LimitShare(limit, part, seconds, share, share, share, sure)
        for (limit, part), (seconds, sure) in group.seconds.items()
        for share in [seconds / total]
    ]


def _class(row: LimitShare, shade: int) -> str:
    unsure = " unsure" if row.confidence is Confidence.WEAK or row.limit is Limit.UNKNOWN else ""
    return f"limit shade{shade}{unsure}"


def _piece(row: LimitShare, shade: int) -> Markup:
    label = f"{name_of(row)} {row.share:.0%}"
    name = element("span", label) if row.share >= _WIDE else None
    return element(
        "div",
        name,
        class_=_class(row, shade),
        style=f"flex-grow:{row.share:.6f}",
        title=f"{label}: {says(row)}",
    )


def _entry(row: LimitShare, shade: int, numbers: str) -> Markup:
    swatch = element("span", class_=_class(row, shade), aria_hidden="true")
    took = f"{duration(row.seconds * NS_PER_S)} · {percent(row.share)}"
    return element(
        "div",
        element("dt", swatch, name_of(row)),
        element(
            "dd",
            f"{took} · {surely(row)}",
            element("small", printable("; ".join(filter(None, [says(row), numbers])))),
        ),
    )
