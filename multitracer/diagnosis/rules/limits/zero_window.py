"""The receiver offered no room at all: nobody read what had arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.diagnosis.limits.spans import Spans
from multitracer.units import NS_PER_S
from multitracer.words import about, count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array


KIND = "zero-window"
HELP = "A program that reads what has arrived; look at what it waited for."
_LEAST_S = 0.05
"""Nobody notices less."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, however small its share: a closed window is never in order.

    A window of less than a segment is the limit too, but it is not closed: that is `receiver-limited`.
    """
    acks, closed = _closed(diagnosis)
    waited_s = closed.length_ns * diagnosis.transfer.speed / NS_PER_S
    total_s = float(waited_s.sum())
    if total_s < _LEAST_S:
        return
    largest_s = float(waited_s.max())
    sentence = (
        f"The receiver offered a window of zero for {total_s:.1f} s, {count(len(waited_s), 'time')} "
        f"(up to {about(largest_s)}): its program did not read what had arrived."
    )
    numbers = {
        "stretches": len(waited_s),
        "median_s": float(np.median(waited_s)),
        "largest_s": largest_s,
        "share": total_s / diagnosis.limited.total_s,
    }
    begin_ns, end_ns = int(closed.begin[0]), int(closed.end[-1])
    yield Finding(KIND, begin_ns, end_ns, total_s, None, rows("sender", acks), sentence, numbers=numbers)


def _closed(diagnosis: Diagnosis) -> tuple[Array, Spans]:
    """Return the ACKs that closed the window, and for how long each kept data waiting."""
    table, acks = diagnosis.transfer.sender, diagnosis.transfer.acks
    waits = Spans.of(*stretches(diagnosis.limited, Limit.RECEIVER_WINDOW, LimitSubtype.ZERO))
    is_zero = table["window_bytes"][acks] == 0
    shuts = np.flatnonzero(is_zero & ~np.append(False, is_zero[:-1])[: len(acks)])
    opens = np.flatnonzero(~is_zero)
    until = np.searchsorted(opens, shuts)
    time_ns = np.append(table["time_ns"][acks], np.iinfo(np.int64).max)
    begin, end = time_ns[shuts], time_ns[np.append(opens, len(acks))[until]]
    kept = waits.overlap_ns(begin, np.minimum(end, waits.end.max(initial=0))) > 0
    begin, end = begin[kept], np.minimum(end[kept], waits.end.max(initial=0))
    return acks[shuts[kept]], Spans.of(begin, end)
