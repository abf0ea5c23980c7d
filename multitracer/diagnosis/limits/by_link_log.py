"""The account of a link's log as limits: where there is one it says more exactly what limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, first_painters
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.diagnosis.limits.partition import Cells
from multitracer.diagnosis.use import Use, UseCause

if TYPE_CHECKING:
    from multitracer.diagnosis.account.lost_time import Account
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array

_LIMITS: dict[Use, tuple[Limit, Part]] = {
    Use.USEFUL: (Limit.LINK, Part.NONE),
    Use.OTHER: (Limit.LINK, Part.NONE),
    Use.ARQ: (Limit.LINK, Part.ARQ),
    Use.ACCESS: (Limit.LINK, Part.ACCESS),
    Use.XOFF: (Limit.LINK, Part.XOFF),
    Use.OUTAGE: (Limit.OUTAGE, Part.NONE),
    Use.HANDSHAKE: (Limit.HANDSHAKE, Part.NONE),
    Use.IDLE_APP: (Limit.APPLICATION, Part.WRITES),
    Use.IDLE_RWND: (Limit.RECEIVER_WINDOW, Part.NONE),
    Use.IDLE_SNDBUF: (Limit.SENDER_BUFFER, Part.NONE),
    Use.IDLE_RTO: (Limit.RECOVERY, Part.TIMER),
    Use.IDLE_CWND: (Limit.CONGESTION_WINDOW, Part.NONE),
    Use.WASTED: (Limit.RECOVERY, Part.NONE),
    Use.REDUNDANT: (Limit.RECOVERY, Part.NONE),
    Use.UNKNOWN: (Limit.UNKNOWN, Part.NONE),
}
_BY_CAUSE: dict[tuple[Use, UseCause], tuple[Limit, Part]] = {
    (Use.IDLE_CWND, UseCause.RECOVERY): (Limit.RECOVERY, Part.FAST),
    (Use.IDLE_CWND, UseCause.SLOW_START): (Limit.SLOW_START, Part.NONE),
    (Use.IDLE_APP, UseCause.NAGLE): (Limit.APPLICATION, Part.NAGLE),
    (Use.WASTED, UseCause.REFUSED): (Limit.LINK, Part.NONE),
    (Use.WASTED, UseCause.UNFINISHED): (Limit.LINK, Part.NONE),
}
"""Where the cause decides. What the receiver no longer wanted, and what was still under way at the end, was
not lost: nothing waits for its repair, and the link has it queued or in service."""


def by_link_log(account: Account, begin_ns: int) -> Cells:
    """Return a measured account as pieces of T: from the connection's first SYN to the last payload's ACK."""
    uses, end_ns = account.uses, payload_end_ns(account.transfer)
    begin, end = np.minimum(uses["begin_ns"], end_ns), np.minimum(uses["end_ns"], end_ns)
    some = np.flatnonzero(end > begin)
    edges = distinct(np.concatenate([[begin_ns, end_ns], begin[some], end[some]]))
    edges = edges[(edges >= begin_ns) & (edges <= end_ns)]
    left = np.searchsorted(edges, np.maximum(begin[some], begin_ns))
    right = np.searchsorted(edges, np.maximum(end[some], begin_ns))
    real = right > left
    owner = first_painters(left[real], right[real], max(len(edges) - 1, 0))
    limit, part = _named(uses["use"][some][real], uses["cause"][some][real])
    limit, part = np.append(limit, Limit.HANDSHAKE)[owner], np.append(part, Part.NONE)[owner]
    return Cells(edges[:-1], edges[1:], limit, part, np.zeros(len(limit), dtype=bool)).joined()


def _named(use: Array, cause: Array) -> tuple[Array, Array]:
    """Return limit and part of each class with its cause."""
    table = np.zeros((len(Use), len(UseCause) + 1, 2), dtype=np.int64)
    for each, named in _LIMITS.items():
        table[each] = named
    for (each, why), named in _BY_CAUSE.items():
        table[each, why] = named
    limit_and_part = table[use, cause]
    return limit_and_part[:, 0], limit_and_part[:, 1]


def payload_end_ns(transfer: Transfer) -> int:
    """Return when the ACK of the last payload byte came; the end of the account where it never did."""
    rows, table = transfer.data, transfer.sender
    if not len(rows):
        return transfer.end_ns
    fin = (table["flags"][rows] & 1).astype(np.int64)
    last = int((table["end_bytes"][rows] - fin).max())
    covering = transfer.acks[table["ack_bytes"][transfer.acks] >= last]
    return int(table["time_ns"][covering[0]]) if len(covering) else transfer.end_ns
