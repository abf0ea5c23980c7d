"""What the culprit's panel shows of the cause: the rate of a policer or of the link, and dead times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.spans import Spans
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import cause
from multitracer.report.screen.lost_run import lost_run
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.tables import Array

_SAMPLES = 500
"""Of what was outstanding, for its median. Not measured."""
_MOST_BANDS = 400
"""Closer ones are drawn as one: they lie within two pixels."""


class Marks(NamedTuple):
    """Moments that are drawn at the upper edge of the picture: int64, ns, recorded time, shape (n,)."""

    kind: str
    time_ns: Array
    words: str


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
    marks : list of Marks
        Losses, and marks of a router.
    """

    level: float | None
    words: str
    bands_ns: list[tuple[int, int]]
    marks: list[Marks]
    dead: str = "outage: nothing came through"


NOTHING_KNOWN: Known = Known(None, "", [], [])


def known_cause(diagnosis: Diagnosis, panel: str) -> Known:
    """Return what the panel of this key can show of the cause."""
    dead = Spans.of(*stretches(diagnosis.limited, Limit.OUTAGE))
    cells = diagnosis.limited.cells
    dead = dead.bridged(float(cells.end.max() - cells.begin.min()) / _MOST_BANDS if len(cells.end) else 0.0)
    bands_ns = list(zip(dead.begin.tolist(), dead.end.tolist(), strict=True))
    run, words = lost_run(diagnosis), NOTHING_KNOWN.dead
    if run is not None:
        bands_ns, words = [(run.begin_ns, run.end_ns)], "no data came through"
    return Known(*_level(diagnosis, panel), bands_ns, _marks(diagnosis), words)


def _marks(diagnosis: Diagnosis) -> list[Marks]:
    """Return when segments were lost, and when ACKs reported the mark of a router."""
    seen = diagnosis.limited.seen
    if seen is None:
        return []
    lost, marked = seen.sends.time_ns[seen.sends.lost == 1], seen.answers.time_ns[seen.answers.marked]
    kinds = [
        Marks("lost", lost, f"lost: {count(len(lost), 'segment')}"),
        Marks("marked", marked, f"ECN mark in {count(len(marked), 'ACK')}"),
    ]
    return [each for each in kinds if len(each.time_ns)]


def _level(diagnosis: Diagnosis, panel: str) -> tuple[float | None, str]:
    """Return what held the panel's quantity, and its name with its number; None where nothing known did."""
    if panel == "throughput":
        level, name = _rate_bps(diagnosis)
        return level, "" if level is None else f"{name}, {rate(level)}"
    if panel == "flight" and diagnosis.headline.limit is Limit.SENDER_BUFFER:
        held = held_bytes(diagnosis.limited)
        return held, "" if held is None else f"the send buffer let {size(held)} out"
    first = cause(diagnosis)
    path_s = None if first is None else diagnosis.findings[first.parts[0]].numbers.get("unloaded_rtt_s")
    if panel == "rtt" and path_s:
        return path_s, f"least round trip of a data segment, {duration(path_s * NS_PER_S)}"
    return None, ""


def held_bytes(limited: Limited) -> float | None:
    """Return what was outstanding for most of the time in which the send buffer was full, bytes."""
    begin, end = stretches(limited, Limit.SENDER_BUFFER)
    if limited.seen is None or not len(begin):
        return None
    passed = np.concatenate([[0], np.cumsum(end - begin)])
    evenly = np.linspace(0, passed[-1], _SAMPLES, endpoint=False)
    place = np.searchsorted(passed, evenly, side="right") - 1
    return float(
        np.median(limited.seen.outstanding(begin[place] + np.rint(evenly - passed[place]).astype(np.int64)))
    )


def _rate_bps(diagnosis: Diagnosis) -> tuple[float | None, str]:
    """Return the rate of the policer, else that of the link where it was the limit; none of a scaled run."""
    limited = diagnosis.limited
    if diagnosis.transfer.speed != 1:
        return None, ""
    if limited.seen is not None and limited.seen.policer is not None:
        return limited.seen.policer.rate_bytes_per_s * BITS_PER_BYTE, "policer's rate"
    link = None if limited.shown is None else limited.shown.link.rate
    if link is None or diagnosis.headline.limit is not Limit.LINK:
        return None, ""
    return link.median * BITS_PER_BYTE, "link's rate"


def legend_of(known: Known, picture: Markup) -> list[Markup]:
    """Return the entries of a legend."""
    level = [_entry("known", "M2 5H22", known.words)] if 'class="known"' in picture else []
    band = [_entry("dead", "M2 0H22V10H2z", known.dead)] if 'class="dead"' in picture else []
    marks = [_entry(each.kind, "M8 1V9M12 1V9M16 1V9", each.words) for each in known.marks]
    return [*level, *band, *marks]


def _entry(kind: str, line: str, words: str) -> Markup:
    sign = element("svg", element("path", d=line, class_=kind), viewBox="0 0 24 10", aria_hidden="true")
    return element("li", sign, words)
