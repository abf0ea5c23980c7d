"""The receiver advertised a zero window: its program did not read the data."""

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

KIND = "zero-window"
HELP = "A program that reads what has arrived; look at what it waited for."
_MIN_S = 0.05
"""Minimum duration in s that is noticeable."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the receiver advertised a zero window for any time.

    A window of less than a segment also limits, but it is not zero: that is `receiver-limited`.
    """
    table, acks = diagnosis.transfer.sender, diagnosis.transfer.acks
    waits = Spans.of(*stretches(diagnosis.limited, Limit.RECEIVER_WINDOW, LimitSubtype.ZERO))
    is_zero = table["window_bytes"][acks] == 0
    shuts = np.flatnonzero(is_zero & ~np.append(False, is_zero[:-1])[: len(acks)])
    opens = np.flatnonzero(~is_zero)
    until = np.searchsorted(opens, shuts)
    time_ns = np.append(table["time_ns"][acks], np.iinfo(np.int64).max)
    begin = time_ns[shuts]
    end = np.minimum(time_ns[np.append(opens, len(acks))[until]], waits.end.max(initial=0))
    kept = waits.overlap_ns(begin, end) > 0  # data waiting
    closed = Spans.of(begin[kept], end[kept])
    waited_s = closed.length_ns * diagnosis.transfer.speed / NS_PER_S
    total_s = float(waited_s.sum())
    if total_s < _MIN_S:
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
    evidence = rows("sender", acks[shuts[kept]])
    yield Finding(KIND, begin_ns, end_ns, total_s, None, evidence, sentence, numbers=numbers)
