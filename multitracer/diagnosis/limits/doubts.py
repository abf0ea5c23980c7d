"""What a capture does not hold, and what may not be asserted then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Mark
from multitracer.diagnosis.limits.names import Limit, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.stamps import sent_by_stamps
from multitracer.diagnosis.ranges import merged
from multitracer.tcp import WindowScaleBy

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.transfer import Transfer

ALL_BUT_HANDSHAKE = frozenset(limit for limit in Limit if limit is not Limit.HANDSHAKE)
NOT_CAPTURED = "the capture lost packets that the receiver got"


def weak_limits(transfer: Transfer, view: View, *, coarse: bool = False) -> frozenset[Limit]:
    """Return the limits that are weak in this capture, whatever its view shows elsewhere.

    All but the handshake with coarse times of the sender, or options (SACK, timestamps) that were cut off;
    the link where a round trip cannot be parted into the ways of data and ACKs; the receiver's window where
    only what was sent tells its scale.
    """
    if coarse or _is_cut(transfer):
        return ALL_BUT_HANDSHAKE
    weak = set()
    one_end = view in (View.SENDER, View.SENDER_STATE)
    if one_end and sent_by_stamps(transfer.sender, transfer.acks) is None:
        weak.add(Limit.LINK)
    if window_scale_by(transfer) is not WindowScaleBy.SYN:
        weak.add(Limit.RECEIVER_WINDOW)
    return frozenset(weak)


def _is_cut(transfer: Transfer) -> bool:
    """Return whether most of the packets were captured without all of their options."""
    cut = has(transfer.sender["marks"], Mark.HEADER_CUT)
    return 2 * int(np.count_nonzero(cut)) > len(cut)


def window_scale_by(transfer: Transfer) -> WindowScaleBy:
    """Return how the scale of the receiver's window is known."""
    directions = transfer.layers.part.analysis.directions
    receiver = 2 * (transfer.layers.connection - 1) + (not transfer.reverse)
    return WindowScaleBy(int(directions["window_shift_by"][receiver]))


def not_captured(seen: Observed) -> Spans:
    """Return from when until when the capture lost data that the receiver acknowledged.

    Data that are in no segment of the capture and were acknowledged all the same; from the segment before
    them to the one behind.
    """
    sends = seen.sends
    begin, end = merged(sends.begin, sends.end)
    known = begin[1:] <= (int(seen.answers.ack.max()) if len(seen.answers) else 0)
    after, before = begin[1:][known], end[:-1][known]
    first_behind = np.searchsorted(seen.highest, after, side="right")
    last_before = np.searchsorted(seen.highest, before, side="right") - 1
    some = (first_behind < len(sends)) & (last_before >= 0)
    return Spans.of(sends.time_ns[last_before[some]], sends.time_ns[first_behind[some]])
