"""What the culprit's panel shows of the cause: the rate of a policer or of the link, and dead times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.diagnosis.held import stretches
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.spans import Spans
from multitracer.report.markup import Markup, element
from multitracer.words import rate

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis

_BITS = 8  # in a byte
_MOST_BANDS = 400
"""Closer ones are drawn as one: they lie within two pixels."""


class Known(NamedTuple):
    """What is known of the cause.

    Attributes
    ----------
    level : float or None
        A value of the panel, in the unit of its axis; None where none is known of this panel.
    words : str
        What the level is, with its number.
    bands_ns : list of pair of int
        Begin and end of the times in which nothing came through, recorded time.
    """

    level: float | None
    words: str
    bands_ns: list[tuple[int, int]]


NOTHING_KNOWN = Known(None, "", [])


def known_cause(diagnosis: Diagnosis, panel: str) -> Known:
    """Return what the panel of this key can show of the cause."""
    dead = Spans.of(*stretches(diagnosis.limited, Limit.OUTAGE))
    cells = diagnosis.limited.cells
    dead = dead.bridged(float(cells.end.max() - cells.begin.min()) / _MOST_BANDS if len(cells.end) else 0.0)
    bands_ns = list(zip(dead.begin.tolist(), dead.end.tolist(), strict=True))
    level, name = _rate_bps(diagnosis) if panel == "throughput" else (None, "")
    return Known(level, "" if level is None else f"{name}, {rate(level)}", bands_ns)


def _rate_bps(diagnosis: Diagnosis) -> tuple[float | None, str]:
    """Return the rate of the policer, else that of the link where it was the limit; none of a scaled run."""
    limited = diagnosis.limited
    if diagnosis.transfer.speed != 1:
        return None, ""
    if limited.seen is not None and limited.seen.policer is not None:
        return limited.seen.policer.rate_bytes_per_s * _BITS, "policer's rate"
    link = None if limited.shown is None else limited.shown.link.rate
    if link is None or diagnosis.headline.limit is not Limit.LINK:
        return None, ""
    return link.median * _BITS, "link's rate"


def legend_of(known: Known, picture: Markup) -> list[Markup]:
    """Return the entries of a legend."""
    words = "outage: nothing came through"
    level = [_entry("known", "M2 5H22", known.words)] if 'class="known"' in picture else []
    band = [_entry("dead", "M2 0H22V10H2z", words)] if 'class="dead"' in picture else []
    return [*level, *band]


def _entry(kind: str, line: str, words: str) -> Markup:
    sign = element("svg", element("path", d=line, class_=kind), viewBox="0 0 24 10", aria_hidden="true")
    return element("li", sign, words)
