"""Others used the link meanwhile: packets waited longer than all of ours before them explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.bottleneck.service_times import arrival_gaps, in_pieces
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.limits.names import View
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.bottleneck.service_times import Gaps
    from multitracer.tables import Array

KIND = "competing-traffic"
HELP = "Look who else uses the link; fair queueing (fq_codel, CAKE) gives each flow its share."
_PIECE = 16
"""Gaps: enough for a quantile, few enough for bursts of others."""
_SHORTER = 0.25
_GRAIN = 0.2
"""Of a segment's time, by which a wait may fall short of the gap before it."""
_SHARED, _ALONE = 1.4, 1.1
"""Times the link's own time for a segment: with others, and without."""
_LEAST_PIECES = 8
_LEAST_SHARED, _LEAST_ALONE = 0.12, 0.2
"""Shares of the time watched: without others 0.13 and four pieces at most, and radio is never quite alone."""
_SAME = 0.05
"""By so much the link's own time may differ with and without others: else its rate changed."""


class _Watched(NamedTuple):
    """Pieces of gaps in which the later packet had waited for all of the gap."""

    time_ns: Array
    row: Array
    took_ns: Array
    service_ns: Array
    times: Array
    """What a segment took, in the link's own time for one."""


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, from both ends: one capture cannot tell others from a slower link."""
    if case.is_link_logged or case.limited.view is not View.BOTH_ENDS:
        return
    gaps = arrival_gaps(case)
    watched = None if gaps is None else _watched(gaps)
    if watched is None:
        return
    shared, alone = watched.times >= _SHARED, watched.times <= _ALONE
    of_shared, of_alone = (watched.took_ns[each].sum() / watched.took_ns.sum() for each in (shared, alone))
    if shared.sum() < _LEAST_PIECES or of_shared < _LEAST_SHARED or of_alone < _LEAST_ALONE:
        return
    if abs(np.median(watched.service_ns[shared]) / np.median(watched.service_ns[alone]) - 1) <= _SAME:
        yield _finding(case, watched, shared)


def _watched(gaps: Gaps) -> _Watched | None:
    """Return what segments took that stood behind another of ours: a link of our own sends them at once."""
    width = _PIECE
    if len(gaps.gap_ns) < width:
        return None
    gap, waited = in_pieces(gaps.gap_ns, width), in_pieces(gaps.waited_ns, width)
    service = np.quantile(gap, _SHORTER, axis=1)
    queued = waited >= gap - _GRAIN * np.median(service)
    known = queued.sum(axis=1) >= width // 2
    if not known.any():
        return None
    took = (gap * queued).sum(axis=1)[known]
    times = took / (service * queued.sum(axis=1))[known]
    middle = in_pieces(np.arange(len(gaps.gap_ns)), width)[known, width // 2]
    return _Watched(gaps.time_ns[middle], gaps.row[middle], took, service[known], times)


def _finding(case: Case, watched: _Watched, shared: Array) -> Finding:
    time = watched.time_ns[shared]
    took_s = float(watched.took_ns[shared].sum()) * case.transfer.speed / NS_PER_S
    theirs = 1 - float((watched.took_ns / watched.times)[shared].sum() / watched.took_ns[shared].sum())
    sentence = (
        f"Something else used the link between {case.at_s(int(time[0])):.1f} and "
        f"{case.at_s(int(time[-1])):.1f} s: for {took_s:.1f} s packets that stood behind each other arrived "
        f"apart, and {theirs:.0%} of the link's time went to others."
    )
    numbers = {"shared_s": took_s, "others_share": theirs}
    evidence = rows("sender", watched.row[shared])
    return Finding(KIND, int(time[0]), int(time[-1]), 0.0, None, evidence, sentence, numbers=numbers)
