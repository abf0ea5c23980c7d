"""The mobile changed its cell, channel or technology during the transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.serving import Serving
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.diagnosis.limits.spans import Spans
from multitracer.recording.transfer import LINK, STAMPS
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Table

KIND = "handover"
HELP = "The handover parameters of the two cells; look whether others lose time there, too."
_AROUND_NS = 2 * NS_PER_S
"""Maximum time, in ns, between a change of cell and a stop that is counted as its cost; radios are read about
once a second."""


_FARTHEST_NS = 5 * NS_PER_S
"""Maximum time between two readings, in ns, for which a change of cell between them has a known time; as in
`no_service`. Not measured."""
_BY_STAMPS = "; nothing but the stamps of its log says when, so no pause of the packets is laid to it"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each cell change between two readings, with the interruption around it.

    A change over a gap of the log, as a restarted collector leaves it, is none: its time is not known.
    """
    for host, radio in diagnosis.transfer.radio:
        has_stamps_alone = radio.provenance.get(LINK) == STAMPS
        stopped, caveat = (Spans.none(), _BY_STAMPS) if has_stamps_alone else (_stopped(diagnosis), "")
        serving = Serving.of(radio)
        gaps_ns = serving.time_ns[serving.gaps]
        for before, after, what in _changes(radio):
            began_ns, ended_ns = (int(radio["time_ns"][row]) for row in (before, after))
            if ((gaps_ns >= began_ns) & (gaps_ns < ended_ns)).any():
                continue
            is_far = ended_ns - began_ns > _FARTHEST_NS
            first_ns, last_ns = (began_ns, ended_ns) if is_far else (ended_ns, began_ns)
            if first_ns < diagnosis.transfer.begin_ns or last_ns > diagnosis.transfer.end_ns:
                continue  # nobody knows that it fell into the transfer
            near = (stopped.begin < ended_ns + _AROUND_NS) & (stopped.end > began_ns - _AROUND_NS)
            cost_s, at_s = diagnosis.link_s(0, stopped.where(near).total_ns), diagnosis.at_s(ended_ns)
            began_ns, ended_ns = (
                int(stopped.begin[near].min(initial=began_ns)),
                int(stopped.end[near].max(initial=ended_ns)),
            )
            sentence = f"The mobile changed its {what} {at_s:.1f} s into the transfer ({host}){caveat}."
            yield Finding(KIND, began_ns, ended_ns, cost_s, None, rows("radio", [before, after]), sentence)


def _stopped(diagnosis: Diagnosis) -> Spans:
    """Return the intervals in which nothing arrived, or the sender waited for its timer."""
    cells = diagnosis.limited.cells
    waits = (cells.limit == Limit.RECOVERY) & (cells.part == LimitSubtype.TIMER)
    is_stopped = (cells.limit == Limit.OUTAGE) | waits
    return Spans.of(cells.begin[is_stopped], cells.end[is_stopped])


def _changes(radio: Table) -> Iterator[tuple[int, int, str]]:
    """Yield the rows before and after each change of the serving cell, and the changed property."""
    serving = np.flatnonzero(radio["role"] != "neighbour")
    seen: set[tuple[int, int]] = set()
    for name, what in (("rat", "technology"), ("cell_id", "cell"), ("channel", "channel")):
        values = radio[name][serving]
        known = serving[values != ("" if values.dtype.kind == "U" else NA)]
        steps = np.flatnonzero(radio[name][known[1:]] != radio[name][known[:-1]])
        for place in steps.tolist():
            change = int(known[place]), int(known[place + 1])
            if not any(left < change[1] and change[0] < right for left, right in seen):
                seen.add(change)
                was, now = (radio[name][row] for row in change)
                yield (*change, f"{what}: {was} before, {now} after")
