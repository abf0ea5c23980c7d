"""Resets that the end in whose name they came did not send: a device on the path made them.

Two signs show it. The end goes on: behind the reset it sends new data, or acknowledges more, which a TCP that had reset
the connection cannot (RFC 9293, section 3.10.7). Or the reset took another way: its TTL, or hop limit, differs from
that of all packets which the same end sent shortly before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.recording.read_again import hop_limit, packets_of_rows

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_COMPARED = 8
"""Number of packets of the same end before, and after, a reset whose TTL is compared with its. Not measured."""
_FEWEST = 2
"""Minimum number of segments behind a reset without such a TTL: the path may have mixed one with the reset."""
_MOST_HOPS = 2
"""Maximum difference of the TTLs of one end's packets: paths that share a load differ by one or two hops."""


class InjectedReset(NamedTuple):
    """A reset that did not come from the end that it names."""

    row: int
    """Its row in `sender`."""
    hop_limit: int | None
    """Its TTL or hop limit, if that shows it; else None."""
    other_hop_limit: int | None
    """That of the other packets of the same end."""
    later_rows: Array
    """Rows of segments that the same end sent behind it: int64."""


def injected_resets(transfer: Transfer, resets: Array) -> list[InjectedReset]:
    """Return the resets among some that a device on the path made.

    Parameters
    ----------
    transfer : Transfer
    resets : ndarray of int64, shape (n_resets,)
        Rows of `sender`.
    """
    own_rows = [_neighbours(transfer, row) for row in resets.tolist()]
    files = transfer.at_sender.capture.tables.files
    packets = packets_of_rows(files, transfer.sender, np.unique(np.concatenate([resets, *own_rows])))
    limits = {row: hop_limit(packet) for row, packet in packets.items()}
    injected = []
    for row, near in zip(resets.tolist(), own_rows, strict=True):
        own, other = _other_way(limits.get(row), [limits.get(each) for each in near.tolist()])
        later = _sent_on(transfer, row)
        if len(later) >= _FEWEST or own is not None:
            injected.append(InjectedReset(row, own, other, later))
    return injected


def _sent_on(transfer: Transfer, row: int) -> Array:
    """Return the rows behind a reset that show that its end goes on: new data, or ACKs of more than before.

    New data begin where the reset did: others may have left before it.
    """
    table = transfer.sender
    mine = (table["reverse"] == table["reverse"][row]) & ~has(table["flags"], Flag.RST)
    acked = int(table["ack_bytes"][: row + 1][table["reverse"][: row + 1] == table["reverse"][row]].max())
    goes_on = (table["new_bytes"] > 0) & (table["end_bytes"] > table["seq_bytes"][row]) | (table["ack_bytes"] > acked)
    return np.flatnonzero(mine & goes_on & (np.arange(len(table)) > row))


def _neighbours(transfer: Transfer, row: int) -> Array:
    """Return the rows of the packets that the end of a reset sent shortly before and after it."""
    table = transfer.sender
    mine = np.flatnonzero((table["reverse"] == table["reverse"][row]) & ~has(table["flags"], Flag.RST))
    at = int(np.searchsorted(mine, row))
    return mine[max(at - _COMPARED, 0) : at + _COMPARED]


def _other_way(own: int | None, near: list[int | None]) -> tuple[int | None, int | None]:
    """Return the TTL of a reset, and the nearest one of its neighbours, if none of these has such a TTL."""
    others = [each for each in near if each is not None]
    if own is None or not others or min(abs(own - each) for each in others) <= _MOST_HOPS:
        return None, None
    return own, min(others, key=lambda each: abs(own - each))
