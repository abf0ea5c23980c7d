"""The data in flight filled the window that the receiver advertised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import held, window_varies
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import is_read_late
from multitracer.diagnosis.packets.options import lacks_scaling
from multitracer.words import ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.tables import Array

KIND = "receiver-limited"
HELP = "A larger receive buffer (SO_RCVBUF, tcp_rmem), or none set, so that the kernel tunes it."
_READ_LATE_HELP = "A receiving program that reads sooner: data waited in its buffer, and a larger one would fill, too."
_VARIES_HELP = "A program that reads sooner, or a larger SO_RCVBUF: the receiver's TCP state (ss) shows which."
_UNSCALED_HELP = "Window scaling: without it no window exceeds 65,535 bytes, however large the buffer is."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the advertised window was full for a considerable share of the time."""
    limit = held(diagnosis.limited, Limit.RECEIVER_WINDOW)
    if limit is None:
        return
    smallest, middle, most = _offered(diagnosis)
    low, high = f"{smallest:,}", f"{most:,}"
    sentence = (
        f"The receiver's window of {ends(low, high)} bytes was full for {limit.seconds:.1f} s, "
        f"{100 * limit.share:.0f} % of the time."
    )
    numbers = limit.numbers | {"window_bytes": float(middle)}
    finding = limit.finding(KIND, sentence, numbers)
    seen = diagnosis.limited.seen
    if lacks_scaling(diagnosis.transfer, numbers["window_bytes"]):
        finding = finding._replace(help=_UNSCALED_HELP)
    elif seen is not None and is_read_late(seen):
        finding = finding._replace(help=_READ_LATE_HELP)
    elif window_varies(diagnosis.limited):
        finding = finding._replace(help=_VARIES_HELP)
    yield finding


def _offered(diagnosis: Diagnosis) -> tuple[int, int, int]:
    """Return the least, the median and the largest advertised window of the times when it was full, in bytes.

    Other windows are left out: the median of a large and a closed window was never advertised.
    """
    seen, acks = diagnosis.limited.seen, diagnosis.transfer.acks
    begin, end = stretches(diagnosis.limited, Limit.RECEIVER_WINDOW)
    if seen is None:
        at = np.searchsorted(diagnosis.transfer.time_ns[acks], begin, side="right") - 1
        return _of(diagnosis.transfer.sender["window_bytes"][acks[np.maximum(at, 0)]])
    held = Spans(begin, end)
    of_moments = ((each.edge - np.maximum(each.acknowledged, 1))[held.holds(each.time_ns)] for each in seen.moments())
    offered = np.concatenate([seen.window_edge(begin) - np.maximum(seen.acknowledged(begin), 1), *of_moments])
    np.maximum(offered, 0, out=offered)
    return _of(offered)


def _of(offered: Array) -> tuple[int, int, int]:
    """Return the least, the median and the largest of some windows, which are put into order; at least one."""
    offered.sort()
    return int(offered[0]), int(offered[(len(offered) - 1) // 2]), int(offered[-1])
