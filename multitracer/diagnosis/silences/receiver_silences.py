"""What a receiver's capture alone shows of a silence: how long, and whether data or their ACKs were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit, Part, View
from multitracer.diagnosis.silences.mtu_hole import LEAST_SMALLER
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case
    from multitracer.tables import Array

_SHORTEST_TIMEOUT_NS = NS_PER_S // 5
"""Of Linux; others wait for longer, and then fewer tries have failed."""
_CHANCE = 1e-4
"""As for the silences that a sender sees (`dead_link`): with which chance alone lost all of its tries."""
_LEAST_LOSS = 0.01  # share that every path may lose: a capture without loss proves no less. Not measured
_OPTIONS_BYTES = 40
"""By so much options alone make a segment smaller (RFC 9293, section 3.1)."""


class ReceiverSilence(NamedTuple):
    """A time without new data, though the sender had some outstanding."""

    begin_ns: int
    end_ns: int
    part: Part
    """`acks`: what had arrived came again and again; else nothing came."""


def silences(case: Case) -> Iterator[ReceiverSilence]:
    """Yield those of a receiver's capture that chance does not explain; none of any other view."""
    cells, shown = case.limited.cells, case.limited.shown
    if case.limited.view is not View.RECEIVER or shown is None:
        return
    spans = shown.out.spans
    held = cells.limit == Limit.OUTAGE
    for begin, end, part in zip(spans.begin.tolist(), spans.end.tolist(), shown.out.part, strict=True):
        is_limit = bool((held & (cells.begin < end) & (cells.end > begin)).any())
        if is_limit and not _by_chance(case, begin, end):
            yield ReceiverSilence(begin, end, Part(int(part)))


def _by_chance(case: Case, begin_ns: int, end_ns: int) -> bool:
    """Return whether the losses before it explain the tries that failed: a timer doubles with each."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    before = (sends.needed | sends.by_timer)[sends.time_ns <= begin_ns]
    share = max(float(before.mean()) if len(before) else 0.0, _LEAST_LOSS)
    timeout_ns = max(_SHORTEST_TIMEOUT_NS, seen.trip_ns, seen.floor_ns)
    tries = int(np.log2((end_ns - begin_ns) / timeout_ns + 1))
    return bool(share ** (tries + 1) > _CHANCE)


def is_smaller_after(case: Case, silence: ReceiverSilence) -> bool:
    """Return whether full segments had come before it, and of many after it none."""
    seen = case.limited.seen
    assert seen is not None
    size, time = seen.sends.end - seen.sends.begin, seen.sends.time_ns
    before, after = size[time <= silence.begin_ns], size[time >= silence.end_ns]
    return len(after) >= LEAST_SMALLER and int(before.max(initial=0)) > int(after.max()) + _OPTIONS_BYTES


def arrivals_around(case: Case, silence: ReceiverSilence) -> Array:
    """Return the row of what ended a silence, after that of the data that arrived just before."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    ended_by = sends.row[np.searchsorted(sends.time_ns, silence.end_ns)]
    arrived = np.sort(sends.row)
    return np.array([arrived[max(int(np.searchsorted(arrived, ended_by)) - 1, 0)], ended_by])


def repeated_in(case: Case, silence: ReceiverSilence) -> list[int]:
    """Return the rows of data that came again though they had arrived, in a silence."""
    seen = case.limited.seen
    assert seen is not None
    sends = seen.sends
    inside = (sends.time_ns >= silence.begin_ns) & (sends.time_ns <= silence.end_ns)
    return [int(row) for row in sends.row[inside & sends.again & ~sends.needed]]
