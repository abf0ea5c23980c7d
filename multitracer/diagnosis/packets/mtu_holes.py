"""Dead times in which only full-size segments were lost: a path MTU black hole.

The thresholds below first exclude dead times that chance or an outage may have caused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.two_points import PacketOutcome
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.packets.packet_delays import WireSegments
    from multitracer.recording.transfer import Transfer

_SMALL_BYTES = 536
"""Every path carries segments of this size (RFC 9293, section 3.7.1); their loss has another cause."""
_MIN_TRIES = 3
"""Minimum number of full-size tries that were lost: chance seldom loses three in a row. One is enough if both
captures show that larger segments were lost later, too. Not measured."""
_MIN_FROM_THE_FIRST = 4  # one more where no full segment ever passed: nothing shows a path. Not measured
_MIN_LOST = 5  # full segments, none through, where both captures show each. Not measured
_MIN_LATER = 2
"""Minimum number of large segments lost after smaller ones arrived again, which excludes an outage. Not measured."""
MIN_SMALLER = 20
"""Minimum number of smaller segments after the dead time that were answered, without a full-size one."""
_BY_CHANCE = 0.02
"""Maximum share of arrivals after the dead time that have full size by chance, because small segments were joined."""
_AT_ONCE_S = 1.0
"""Maximum time, in s, between the arrival of a small packet and the first full-size segment."""


def mtu_holes(transfer: Transfer, segments: WireSegments, dead_times: list[DeadTime], full: int) -> list[DeadTime]:
    """Return the dead times (nothing arrived) that a path MTU black hole caused.

    Only full-size segments were lost in them, and one of these conditions holds. The dead time ended with a
    smaller copy, and no delivered segment after it had full size (black-hole detection of RFC 4821), or, if offload
    joined them, was made of such. Or no
    full-size segment ever arrived, from the first one on, shortly after smaller packets did. Or both captures
    show that smaller segments arrived meanwhile, or that larger ones were also lost later, when smaller ones
    arrived. Other dead times of the same black hole are included.
    """
    is_hole = (dead.failed and _is_hole(transfer, segments, dead, full) for dead in dead_times)
    holes = (at for at, is_one in enumerate(is_hole) if is_one)
    first = next(holes, len(dead_times))
    begin = transfer.sender["seq_bytes"]
    while 0 < first < len(dead_times):
        if begin[dead_times[first - 1].tries[0]] != begin[dead_times[first].tries[0]]:
            break
        first -= 1
    return [dead for dead in dead_times[first:] if dead.failed]


def _is_hole(transfer: Transfer, segments: WireSegments, dead: DeadTime, full: int) -> bool:
    payload = transfer.sender["payload_bytes"]
    vanished = payload[dead.tries[: dead.failed]] >= full
    if full <= _SMALL_BYTES or not vanished.any():
        return False
    if vanished.all() and _larger_lost_after(transfer, dead, full):
        return True
    if np.count_nonzero(vanished) < _MIN_TRIES - (dead.answer != NA):
        return False
    if vanished.all() and (_none_ever(transfer, dead, full) or _smaller_passed(transfer, dead, full)):
        return True
    return dead.answer != NA and dead.failed >= _MIN_TRIES and _smaller_after(transfer, segments, dead, full)


def _smaller_after(transfer: Transfer, segments: WireSegments, dead: DeadTime, full: int) -> bool:
    table, data = transfer.sender, transfer.data
    if transfer.receiver is not None and segments.closes.any():
        came = segments.closes & (table["time_ns"][segments.row] >= dead.end_ns)
        payload = transfer.receiver["payload_bytes"][segments.arrived[came]]
        return len(payload) >= MIN_SMALLER and float((payload % full == 0).mean()) <= _BY_CHANCE
    after = data[table["time_ns"][data] >= dead.end_ns]
    after = after[table["end_bytes"][after] <= int(table["ack_bytes"][transfer.acks].max())]
    payload = table["payload_bytes"][after]
    if len(after) < MIN_SMALLER or (payload < full).all():
        return len(after) >= MIN_SMALLER
    # offload joins segments, mostly of one size: of full ones it makes a multiple
    answered = dead.tries[dead.failed : dead.failed + 1]
    is_smaller = len(answered) > 0 and bool((table["payload_bytes"][answered] < full).all())
    return is_smaller and float((payload % full == 0).mean()) <= _BY_CHANCE


def _smaller_passed(transfer: Transfer, dead: DeadTime, full: int) -> bool:
    """Return whether both captures show that only full-size segments were lost after the begin of `dead`.

    All full-size segments must have been lost, and no smaller one.
    """
    pairs, table = transfer.data_pairs, transfer.sender
    if pairs is None:
        return False
    since = (pairs.sent != NA) & (table["time_ns"][np.maximum(pairs.sent, 0)] >= dead.begin_ns)
    is_full = table["payload_bytes"][np.maximum(pairs.sent, 0)] >= full
    passed, lost = (since & (pairs.table["outcome"] == which) for which in (PacketOutcome.MATCHED, PacketOutcome.LOST))
    smaller = np.any(passed & ~is_full) and not np.any(lost & ~is_full)
    return bool(smaller and not np.any(passed & is_full) and np.count_nonzero(lost & is_full) >= _MIN_LOST)


def _larger_lost_after(transfer: Transfer, dead: DeadTime, full: int) -> bool:
    """Return whether all segments larger than the largest that arrived were lost, also after `dead`.

    Here `dead` is an interval without arrivals. Both captures must show it. Other segments may be lost meanwhile, in a
    full queue or by chance. A sender that probes for the path MTU sends larger segments now and then (RFC 4821).
    """
    pairs, table = transfer.data_pairs, transfer.sender
    if pairs is None:
        return False
    sent = np.maximum(pairs.sent, 0)
    since = (pairs.sent != NA) & (table["time_ns"][sent] >= dead.begin_ns)
    later = since & (table["time_ns"][sent] >= dead.end_ns)
    outcome, payload = pairs.table["outcome"], table["payload_bytes"][sent]
    passed = outcome == PacketOutcome.MATCHED
    most = int(payload[since & passed].max(initial=0))
    if most >= full or np.any(since & (outcome == PacketOutcome.RESEGMENTED)):
        return False
    larger = (outcome == PacketOutcome.LOST) & (payload > most)
    is_later = np.count_nonzero(later & larger) >= _MIN_LATER
    is_passed = np.count_nonzero(later & passed & (payload > 0)) >= MIN_SMALLER
    return bool(is_later and is_passed and np.count_nonzero(since & larger) >= _MIN_LOST)


def _none_ever(transfer: Transfer, dead: DeadTime, full: int) -> bool:
    table, data, acks = transfer.sender, transfer.data, transfer.acks
    large = data[table["payload_bytes"][data] >= full]
    acked = int(table["ack_bytes"][acks].max())
    first_ns = int(table["time_ns"][large[0]])
    earlier = acks[acks < large[0]]
    soon_s = (first_ns - int(table["time_ns"][earlier[-1]])) / NS_PER_S if len(earlier) else _AT_ONCE_S
    never = acked < table["seq_bytes"][large].min() + full and not table["sack_blocks"][acks].any()
    return bool(never and dead.failed >= _MIN_FROM_THE_FIRST and soon_s < _AT_ONCE_S)
