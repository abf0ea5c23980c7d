"""Cross traffic used the link: packets waited longer than the own packets before them explain.

There are two methods. For a while, gaps between the own packets are longer than the link needs, on any link.
And on a steady link, single packets wait although no own packet is before them (`work_of_others`). The second
method is not used if the link's rate made a step: behind a slower link packets wait, too. In the log of a
cell, packets of other mobiles have other stream numbers, and nothing is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.account.uses import Use
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.service_times import in_chunks, rate_step
from multitracer.diagnosis.work_of_others import work_of_others
from multitracer.protocols.link_events import STREAM_BITS
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.service_times import ArrivalGaps
    from multitracer.tables import Array, Table

KIND = "competing-traffic"
HELP = (
    "Look who else uses the link; fair queueing (fq_codel, CAKE) gives each flow its share. "
    "In a cell, changes of its own rate look alike: the log of the modem shows which."
)
CELL_HELP = "A cell with fewer users, or more channels; a fair scheduler cannot give more than a share."
_CHUNK, _MIN_CHUNK, _CHUNKS = 16, 8, 24
"""Maximum number of gaps in a chunk: enough for a quantile, few enough for bursts of cross traffic. With
fewer than `_CHUNKS` such chunks, chunks are smaller, but have at least `_MIN_CHUNK` gaps."""
_SHORTER = 0.25  # quantile of the gaps that is the link's own time, as in `service_times`
_SHARED, _ALONE = 1.4, 1.1
"""Minimum mean gap with cross traffic (`_SHARED`), and maximum mean gap without it (`_ALONE`), as multiples
of the time that the link needs for a segment."""
_FEW = 0.1
"""Lower quantile that is used for the link's own time if it is much shorter: with steady cross traffic only
0.13 to 0.3 of the gaps are without it."""
_ALIKE = 0.4
"""Maximum difference of gaps without cross traffic, as part of the time for a segment: each other packet adds
a whole time. If the link became slower, all gaps are similar."""
_LONGEST = 4
"""Maximum length of a gap that counts, in shorter gaps: a path that becomes longer makes one long gap."""
_NEXT = 5
"""Number of neighbouring even chunks whose median is the link's own time."""
_MIN_CHUNKS = 2  # with others: at a step of the rate one has gaps of both rates
_MIN_GAPS = 24  # with others: fewer may be one burst. Not measured
_MIN_SHARED, _MIN_ALONE = 0.09, 0.2
"""Minimum share of the observed time with cross traffic (`_MIN_SHARED`) and without it (`_MIN_ALONE`).
Without any cross traffic, up to 0.06 seems to have it; on a radio there is always some."""
_MIN_WORK = 0.04
"""Minimum share of the transfer's time that others used: 0.1 and 0.14 of two shared links, 0.01 to 0.02 of three whose
rate or delay varied, where a few packets of a burst arrived apart."""
_SAME = 0.05
"""Maximum relative difference of the link's own time between chunks without cross traffic: otherwise its rate changes.
"""


class _Watched(NamedTuple):
    """Chunks of gaps in which the later packet waited for the whole gap."""

    time_ns: Array
    row: Array
    took_ns: Array
    service_ns: Array
    """Lower quantile of the gaps: the link's own time for a segment, unless most gaps include cross traffic."""
    spread_ns: Array
    """Difference between long and short gaps."""
    mean_ns: Array
    """Mean time per segment."""
    many: Array
    """Number of segments."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if cross traffic used the link; captures at both endpoints are needed.

    With one capture, cross traffic looks like a slow link. With a radio log there is no finding: the rate of a radio
    follows its signal within tenths of a second, and a slower rate separates two packets as cross traffic does.
    """
    if diagnosis.is_link_logged:
        yield from _in_cell(diagnosis)
        return
    if diagnosis.limited.view is not Viewpoint.BOTH_ENDS or diagnosis.transfer.radio:
        return
    gaps = diagnosis.arrival_gaps
    watched = None if gaps is None else _watched(gaps)
    min_work_ns = _MIN_WORK * diagnosis.limited.total_s / diagnosis.transfer.speed * NS_PER_S
    shared = None if watched is None else _shared(watched, min_work_ns)
    if watched is not None and shared is not None:
        where, own_ns = shared
        took_ns = watched.took_ns[where]
        others_ns = float(took_ns.sum() - (own_ns * watched.many)[where].sum())
        words = "packets that stood behind each other arrived apart"
        yield _finding(diagnosis, watched.time_ns[where], watched.row[where], took_ns, others_ns, words)
    elif (work := work_of_others(diagnosis)) is not None and (
        gaps is None or rate_step(diagnosis.limited, gaps) is None
    ):
        words = "packets waited although none of ours was before them"
        yield _finding(diagnosis, work.time_ns, work.row, work.took_ns, float(work.others_ns.sum()), words)


def _in_cell(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if the channel carried other mobiles of the cell during the transfer."""
    uses, near = diagnosis.account.uses, diagnosis.transfer.near
    at = np.flatnonzero((uses["use"] == Use.OTHER) & (uses["source"] == "near.events") & (uses["row"] != NA))
    if near is None or not len(at):
        return
    stream, own = _streams(near.events)[uses["row"][at]], diagnosis.transfer.own_stream
    at = at[(stream != NA) & (stream != own) & (own != NA)]
    theirs_s = float(uses["seconds"][at].sum())
    if theirs_s < _MIN_SHARED * diagnosis.account.total_s:
        return
    begin_ns, end_ns = int(uses["begin_ns"][at].min()), int(uses["end_ns"][at].max())
    share = theirs_s / diagnosis.account.total_s
    sentence = (
        f"Other mobiles of the cell used its channel for {theirs_s:.1f} s ({100 * share:.0f} % of the transfer), "
        f"between {diagnosis.at_s(begin_ns):.1f} and {diagnosis.at_s(end_ns):.1f} s."
    )
    evidence = rows("near.events", uses["row"][at])
    numbers = {"shared_s": theirs_s, "others_share": share}
    yield Finding(KIND, begin_ns, end_ns, 0.0, None, evidence, sentence, help=CELL_HELP, numbers=numbers)


def _streams(events: Table) -> Array:
    """Return the number of the mobile of each event in a cell's log, from 0; NA if it is not logged."""
    of_chunk = (events["event"] == "piece_sent") & (events["offset_bytes"] != NA)
    return np.where(of_chunk, events["offset_bytes"] >> STREAM_BITS, NA)


def _shared(watched: _Watched, min_work_ns: float = 0.0) -> tuple[Array, Array] | None:
    """Return which chunks contain cross traffic, and the link's own time for a segment at each chunk.

    It is None if there are too few chunks, or if others used the link for less than `min_work_ns`.
    """
    even = watched.mean_ns <= _ALONE * watched.service_ns
    even &= watched.spread_ns <= _ALIKE * watched.service_ns
    if not even.any():
        return None

    # the link's own time for a segment at each piece: that of the next even ones before or behind it, the
    # longer of both, so that a link that became faster or slower is not taken for a shared one
    known = watched.service_ns[np.flatnonzero(even)]
    width = min(_NEXT, len(known))
    middle = np.median(np.lib.stride_tricks.sliding_window_view(known, width), axis=1)
    many: Array = np.cumsum(even)
    before: Array = many - width
    behind: Array = many - even
    last = len(middle) - 1
    lower = np.where(before >= 0, middle[np.clip(before, 0, last)], 0)
    upper = np.where(behind <= last, middle[np.clip(behind, 0, last)], 0)
    without = np.where((before < 0) & (behind > last), middle.max(), 0)
    own_ns = np.maximum(np.maximum(lower, upper), without)
    alone = even & (np.abs(watched.service_ns / own_ns - 1) <= _SAME)
    shared = ~even & (watched.mean_ns >= _SHARED * own_ns)
    of_shared, of_alone = (watched.took_ns[each].sum() / watched.took_ns.sum() for each in (shared, alone))
    enough = shared.sum() >= _MIN_CHUNKS and watched.many[shared].sum() >= _MIN_GAPS
    enough &= (watched.took_ns - own_ns * watched.many)[shared].sum() >= min_work_ns
    return (shared, own_ns) if enough and of_shared >= _MIN_SHARED and of_alone >= _MIN_ALONE else None


def _watched(gaps: ArrivalGaps) -> _Watched | None:
    """Return chunks of the arrival gaps in which the later segment waited; None if there are too few."""
    width = int(np.clip(len(gaps.gap_ns) // _CHUNKS, _MIN_CHUNK, _CHUNK))
    if len(gaps.gap_ns) < width:
        return None
    gap, queued, many = (in_chunks(each, width) for each in (gaps.gap_ns, gaps.queued, gaps.many))
    few, shorter, most = np.quantile(gap, (_FEW, _SHORTER, 1 - _FEW), axis=1, method="lower")
    service = np.where(few * _SHARED <= shorter, few, shorter)
    known = queued.sum(axis=1) >= width // 2
    if not known.any():
        return None
    typical = np.minimum(gap, _LONGEST * service[:, np.newaxis])
    took, count = (typical * many * queued).sum(axis=1)[known], (many * queued).sum(axis=1)[known]
    middle = in_chunks(np.arange(len(gaps.gap_ns)), width)[known, width // 2]
    spread = (most - few)[known]
    return _Watched(
        gaps.time_ns[middle], gaps.row[middle], took, service[known], spread, took / count, count
    )  # fmt: skip


def _finding(diagnosis: Diagnosis, time_ns: Array, row: Array, took_ns: Array, others_ns: float, words: str) -> Finding:
    began_ns, ended_ns = int(time_ns[0]), int(time_ns[-1])
    took_s = float(took_ns.sum()) * diagnosis.transfer.speed / NS_PER_S
    theirs = others_ns / float(took_ns.sum())
    sentence = (
        f"Something else used the link between {diagnosis.at_s(began_ns):.1f} and "
        f"{diagnosis.at_s(ended_ns):.1f} s: for {took_s:.1f} s {words}, "
        f"and {100 * theirs:.0f} % of the link's time went to others."
    )
    numbers = {"shared_s": took_s, "others_share": theirs}
    return Finding(KIND, began_ns, ended_ns, 0.0, None, rows("sender", row), sentence, numbers=numbers)
