"""How a report opens: one sentence, the account of the time as one bar, and the findings, dearest first."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from multitracer.diagnosis.diagnose import headline
from multitracer.diagnosis.use import LOST, SAYS, Use
from multitracer.report.markup import Markup, element
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Finding
    from multitracer.diagnosis.diagnose import Diagnosis

_FIRST = 6
"""Findings that are seen at once; the others unfold."""
_MOST = 60
_AROUND = 0.15
"""Room on both sides of what a finding shows, as a part of its length."""
_LEAST_ROOM_S = 1.0
_ORDER = (
    Use.USEFUL, Use.ARQ, Use.XOFF, Use.ACCESS, Use.OTHER, Use.IDLE_APP, Use.OUTAGE, Use.HANDSHAKE,
    Use.IDLE_RTO, Use.IDLE_CWND, Use.IDLE_RWND, Use.IDLE_SNDBUF, Use.REDUNDANT, Use.WASTED, Use.UNKNOWN,
)  # fmt: skip
"""Of the bar: what the link did, then what it could not help, then what TCP lost."""


def diagnosis_section(found: Diagnosis, *, origin_ns: int, speed: float, figure: bool) -> Markup:
    """Return the section.

    Parameters
    ----------
    found : Diagnosis
    origin_ns : int
        What the figure calls 0.
    speed : float
        Seconds of the figure in a second of the recording.
    figure : bool
        Whether the first figure of the page shows the transfer, so that findings can lead there.
    """
    return element(
        "section",
        element("h2", "Why was it slow?"),
        element("p", printable(headline(found)), class_="lead"),
        *(
            []
            if isnan(found.account.utilization)
            else [_bar(found), element("dl", _legend(found), class_="uses")]
        ),
        _findings(found, origin_ns, speed, figure=figure),
        class_="diagnosis",
    )


def _shares(found: Diagnosis) -> list[tuple[Use, float, float]]:
    """Return the classes that occur, their seconds, and their part of the whole."""
    books = found.account
    pairs = [(use, books.seconds[use]) for use in _ORDER]
    return [(use, seconds, seconds / books.total_s) for use, seconds in pairs if seconds > 0]


def _bar(found: Diagnosis) -> Markup:
    shares = _shares(found)
    pieces = [
        element(
            "span", class_=_class(use), style=f"flex-grow:{share:.6f}", title=f"{use.label}: {seconds:.1f} s"
        )
        for use, seconds, share in shares
    ]
    said = ", ".join(f"{use.label} {share:.1%}" for use, _, share in shares)
    return element("div", pieces, class_="account", role="img", aria_label=f"Where the time went: {said}")


def _class(use: Use) -> str:
    return f"use {use.label.replace(':', '-')}{' lost' if use in LOST else ''}"


def _legend(found: Diagnosis) -> Iterator[Markup]:
    for use, seconds, share in _shares(found):
        swatch = element("span", class_=_class(use), aria_hidden="true")
        yield element(
            "div",
            element("dt", swatch, use.label),
            element("dd", f"{seconds:.1f} s · {share:.1%}", element("small", SAYS[use])),
        )


def _findings(found: Diagnosis, origin_ns: int, speed: float, *, figure: bool) -> Markup:
    if not found.findings:
        told = not isnan(found.account.utilization)
        return element("p", "No known fault was found.", class_="muted") if told else element("div")
    items = [
        element("li", _finding(finding, origin_ns, speed, figure=figure))
        for finding in found.findings[:_MOST]
    ]
    rest = len(found.findings) - _MOST
    if rest > 0:
        items.append(element("li", f"and {rest:,} more; `multitracer diagnose` lists all"))
    return element(
        "div",
        element("ol", items[:_FIRST], class_="findings"),
        element(
            "details",
            element("summary", f"{len(found.findings) - _FIRST:,} more that cost less"),
            element("ol", items[_FIRST:], class_="findings", start=_FIRST + 1),
        )
        if len(items) > _FIRST
        else None,
    )


def _finding(finding: Finding, origin_ns: int, speed: float, *, figure: bool) -> list[Markup]:
    begin_s, end_s = ((stamp - origin_ns) * speed / 1e9 for stamp in (finding.begin_ns, finding.end_ns))
    room_s = max((end_s - begin_s) * _AROUND, _LEAST_ROOM_S)
    cost = f"{finding.cost_s:.1f} s" if finding.cost_s > 0 else "no time"
    show = element(
        "button", "Show", type="button", data_show="0", data_from=f"{begin_s - room_s:.3f}",
        data_to=f"{end_s + room_s:.3f}", title=f"Show {begin_s:.1f} s to {end_s:.1f} s in the figure",
    )  # fmt: skip
    return [
        element("strong", finding.kind),
        element("span", f" cost {cost}, {begin_s:.1f} s to {end_s:.1f} s ", class_="muted"),
        *([show] if figure else []),
        element("p", printable(finding.sentence)),
    ]
