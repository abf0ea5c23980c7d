"""The segments of a transfer as the path carried them, and when each arrived.

A device with segmentation offload shows its capture one packet for what leaves as up to 44 segments, and
another joins what arrives (GSO, TSO, GRO, LRO). What happens on a path happens to its segments: each was lost
or not, each waited in the queue. So packets that were cut or joined between two captures are cut here into
full segments, and what arrived is told by bytes (as in `two_points/recut.py`). Without offload a segment is a
packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.analysis.two_points.alike import Copies, arrivals
from multitracer.analysis.two_points.packets import Outcome
from multitracer.analysis.verdicts import Cause, Necessity
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join.recorded_transfer import Pairs
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array, Table


class WireSegments(NamedTuple):
    """Segments with payload in the data direction, in the order of the sender's capture.

    Attributes
    ----------
    row : ndarray of int64, shape (n,)
        Row of `sender`; several segments share one that was cut behind the capture.
    payload_bytes : ndarray of int64, shape (n,)
    arrived : ndarray of int64, shape (n,)
        Row of `receiver` in which it arrived; NA if it did not, or nobody knows.
    closes : ndarray of bool, shape (n,)
        It is the last segment of that row: when it arrived is known. What came before it in the same row had
        to wait to be joined.
    lost : ndarray of bool, shape (n,)
    """

    row: Array
    payload_bytes: Array
    arrived: Array
    closes: Array
    lost: Array

    def __len__(self) -> int:
        return len(self.row)


class _Pieces(NamedTuple):
    row: Array
    begin: Array
    end: Array


def wire_segments(transfer: Transfer, full_bytes: int, offered_bytes: int | None) -> WireSegments:
    """Return the segments of a transfer; as its sender sent them if no capture shows what arrived.

    Parameters
    ----------
    transfer : Transfer
    full_bytes : int
        Payload of a full segment.
    offered_bytes : int or None
        The most that the receiver offered to take in one (MSS, RFC 9293, section 3.7.1), if that is known:
        what is larger was joined.
    """
    pairs, receiver = transfer.data_pairs, transfer.receiver
    if pairs is None or receiver is None:
        return _as_sent(transfer)
    outcome, arrived = _of_rows(pairs, len(transfer.sender))
    table, rows = transfer.sender, transfer.data
    joined = outcome[rows] == Outcome.RECUT
    if offered_bytes is not None:
        joined |= transfer.payload_bytes > offered_bytes
    if not joined.any():
        return _as_captured(transfer, outcome, arrived)
    pieces = _cut(table, rows, np.where(joined, full_bytes, np.iinfo(np.int32).max))
    exact = outcome[pieces.row] == Outcome.MATCHED
    came = np.where(exact, arrived[pieces.row], _by_bytes(transfer, pieces, _arrivals(transfer, pairs)))
    lost = (came == NA) & (outcome[pieces.row] != Outcome.NOT_COVERED)
    closes = (came != NA) & np.append(came[1:] != came[:-1], True)[: len(came)]
    return WireSegments(pieces.row, pieces.end - pieces.begin, came, closes, lost)


def _of_rows(pairs: Pairs, count: int) -> tuple[Array, Array]:
    """Return the outcome of each row of `sender` (NOT_COVERED if it has none), and where it arrived."""
    sent = np.flatnonzero(pairs.sent != NA)
    outcome = np.full(count, Outcome.NOT_COVERED, dtype=np.uint8)
    arrived = np.full(count, NA, dtype=np.int64)
    outcome[pairs.sent[sent]] = pairs.table["outcome"][sent]
    arrived[pairs.sent[sent]] = pairs.arrived[sent]
    return outcome, arrived


def _as_sent(transfer: Transfer) -> WireSegments:
    """Return the segments as one capture shows them: lost is what had to be sent again."""
    verdicts, rows = transfer.verdicts, transfer.data
    needed = (verdicts["necessity"] == Necessity.NECESSARY) & (verdicts["cause"] != Cause.LOCAL_DROP)
    nowhere = np.full(len(rows), NA, dtype=np.int64)
    payload = transfer.payload_bytes.astype(np.int64)
    lost = np.isin(rows, verdicts["earlier_row"][needed])
    return WireSegments(rows, payload, nowhere, nowhere != NA, lost)


def _as_captured(transfer: Transfer, outcome: Array, arrived: Array) -> WireSegments:
    rows = transfer.data
    outcome, came = outcome[rows], arrived[rows]
    came[outcome != Outcome.MATCHED] = NA
    payload = transfer.payload_bytes.astype(np.int64)
    return WireSegments(rows, payload, came, came != NA, outcome == Outcome.LOST)


def _cut(table: Table, rows: Array, full_bytes: Array) -> _Pieces:
    """Return the rows, each cut into segments of so many bytes and what is left of it."""
    payload = table["payload_bytes"][rows].astype(np.int64)
    many = np.maximum(-(-payload // full_bytes), 1)
    of = np.repeat(np.arange(len(rows)), many)
    number = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
    first = table["seq_bytes"][rows][of]
    begin = first + number * full_bytes[of]
    return _Pieces(rows[of], begin, np.minimum(begin + full_bytes[of], first + payload[of]))


def _arrivals(transfer: Transfer, pairs: Pairs) -> _Pieces:
    """Return what arrived with payload, in order, its bytes as the sender's capture counts them."""
    table, other = transfer.sender, transfer.receiver
    assert other is not None
    rows = distinct(pairs.arrived[pairs.arrived != NA])
    rows = rows[other["payload_bytes"][rows] > 0]
    both = np.flatnonzero((pairs.sent != NA) & (pairs.arrived != NA))[:1]
    shift = table["seq_bytes"][pairs.sent[both]] - other["seq_bytes"][pairs.arrived[both]]
    begin = other["seq_bytes"][rows] + int(shift.sum())
    return _Pieces(rows, begin, begin + other["payload_bytes"][rows])


def _by_bytes(transfer: Transfer, pieces: _Pieces, came: _Pieces) -> Array:
    """Return the row in which the last byte of each piece arrived; NA where it did not."""
    assert transfer.receiver is not None
    of, end = _holding(came, distinct(pieces.end))
    came_ns = transfer.came_ns[came.row[of]]
    sent = Copies(pieces.end, transfer.sender["time_ns"][pieces.row])
    left, arrived = arrivals(sent, Copies(end, came_ns))
    arrival_rows = np.full(len(pieces.row), NA, dtype=np.int64)
    arrival_rows[left] = came.row[of[arrived]]
    return arrival_rows


def _holding(pieces: _Pieces, ends: Array) -> tuple[Array, Array]:
    """Return pairs of a piece and an end, where the piece holds the byte before the end; by piece."""
    first, last = (np.searchsorted(ends, each, side="right") for each in (pieces.begin, pieces.end))
    many = last - first
    of = np.repeat(np.arange(len(many)), many)
    number = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    return of, ends[number]
