"""When the connections of a group filled the link together, though none of them alone shows it.

What stood in the queue of one link arrives as far apart as the link needs for each packet, whichever
connection it belongs to. So where the packets of all follow each other like this for a round trip and more,
the link had one of them in service all the time. Captures where they arrived show that,
and ACKs that did not wait on their own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.train_rate import HEADERS_BYTES
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_OWN = 0.25
"""Quantile of the time that a byte took to follow the one before: the link's own, as in `service_times`."""
_BEHIND, _HELD_NS = 2.5, 2 * NS_PER_MS
"""A packet follows if it came within so many times of the link for it, or this: as stretches of a queue."""
_FULL = 0.85
"""Part of a stretch that the link needs for what arrived in it: else senders, not the link, made the gaps."""
_LEAST = 16  # packets, as in a piece of `service_times`: of fewer the quantile is no rate. Not measured
_OTHERS = 0.1
"""Part of the bytes of a stretch that another connection than the largest has: else one explains it alone."""


class _Arrivals(NamedTuple):
    """Packets with data as they reached their receiver; arrays of shape (n,)."""

    time_ns: Array
    wire_bytes: Array


def filled_together(members: list[tuple[Limited, int]]) -> Spans:
    """Return when the packets of some transfers, of two at least, followed each other as from a queue.

    Parameters
    ----------
    members : list of (Limited, int)
        With what is to be added to its times, ns.

    Returns
    -------
    Spans
        Empty unless it is known of all when they arrived.
    """
    with_data = [(limited, later_ns) for limited, later_ns in members if limited.seen is not None]
    if len(with_data) < 2:
        return Spans.none()
    came = [_arrivals(limited, later_ns) for limited, later_ns in with_data]
    known = [each for each in came if each is not None]
    if len(known) < len(came):
        return Spans.none()
    owner = np.repeat(np.arange(len(known)), [len(each.time_ns) for each in known])
    time, size = (np.concatenate(column) for column in zip(*known, strict=True))
    order = np.argsort(time, kind="stable")
    floor_ns = max(limited.seen.floor_ns for limited, _ in with_data if limited.seen is not None)
    return _stretches(time[order], size[order], owner[order], floor_ns)


def _arrivals(limited: Limited, later_ns: int) -> _Arrivals | None:
    """Return the packets of a transfer that arrived; None where nothing shows when they did."""
    transfer = limited.transfer
    if limited.view is View.RECEIVER:
        rows = transfer.data
        time, payload = transfer.sender["time_ns"][rows], transfer.payload_bytes
    elif limited.view is View.BOTH_ENDS and transfer.data_pairs is not None and transfer.receiver is not None:
        rows = np.unique(transfer.data_pairs.arrived[transfer.data_pairs.arrived != NA])
        rows = rows[transfer.receiver["payload_bytes"][rows] > 0]
        time, payload = transfer.came_ns[rows], transfer.receiver["payload_bytes"][rows]
    else:
        return _by_answers(limited.seen, later_ns)
    return _Arrivals(np.asarray(time) + later_ns, np.asarray(payload) + HEADERS_BYTES)


def _by_answers(seen: Observed | None, later_ns: int) -> _Arrivals | None:
    """Return what arrived as its sender heard of it; None where the ACKs may have waited themselves."""
    if seen is None or Limit.LINK in seen.weak or np.median(seen.answers.lag_ns) > _HELD_NS:
        return None
    delivered = seen.answers.delivered
    more = np.diff(delivered, prepend=delivered[:1])
    some = np.flatnonzero(more > 0)
    segments = -(-more[some] // seen.mss_bytes)
    return _Arrivals(seen.answers.time_ns[some] + later_ns, more[some] + segments * HEADERS_BYTES)


def _stretches(time: Array, size: Array, owner: Array, floor_ns: int) -> Spans:
    """Return the stretches in which packets of several owners follow each other for a round trip and more."""
    gap, size = np.diff(time), size[1:]
    if len(gap) < _LEAST:
        return Spans.none()
    own = float(np.quantile(gap / size, _OWN))
    apart = np.flatnonzero(gap > np.maximum(_BEHIND * own * size, _HELD_NS))
    first, last = np.append(0, apart + 1), np.append(apart, len(gap))
    work = np.append(0, np.cumsum(size)) * own
    took_ns = time[last] - time[first]
    full = (last - first >= _LEAST) & (took_ns >= floor_ns) & (work[last] - work[first] >= _FULL * took_ns)
    shared = [
        (a, b)
        for a, b in zip(first[full].tolist(), last[full].tolist(), strict=True)
        if _is_shared(owner[a + 1 : b + 1], size[a:b])
    ]
    first, last = np.array(shared, dtype=np.int64).reshape(-1, 2).T
    return Spans.of(time[first], time[last])


def _is_shared(owner: Array, size: Array) -> bool:
    """Return whether more than one of the owners had a good part of the bytes."""
    many = np.bincount(owner, size)
    return bool(many.max() <= (1 - _OTHERS) * many.sum())
