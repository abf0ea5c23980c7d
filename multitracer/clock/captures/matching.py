"""The same packets at two capture points, matched by fields that the path does not change.

Rules of the file
-----------------
- A packet's identity is its IPv4 identification, sequence and ACK number, payload length, flags and timestamp
  value. Endpoints are not included, since a NAT between the points may change them.
- Packets without a match are tried again without ACK number, flags and timestamp (which header compression or
  a middlebox may rewrite), then again without the IP identification.
- If almost no packet matches, the path rewrote the identification (a NAT, "scrub random-id"). Then it is left
  out first. If that finds matches, an identification that is equal by chance cannot pair different packets.
- A weaker identity counts only if the order is kept: at the far point, its packet must be within some
  thousand rows of its neighbours' matches. So an identification that is used again after a wrap does not pair
  different packets.
- The n-th packet with an identity at one point matches the n-th at the other if both points have equal
  numbers. With unequal numbers only the first ones match, and only if the identity includes the IP identification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark
from multitracer.native import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Table

EXACT = ("ip_id", "seq", "ack", "payload_bytes", "flags", "tsval")
REWRITTEN = ("ip_id", "seq", "payload_bytes")
RENUMBERED = ("seq", "ack", "payload_bytes", "flags", "tsval")
UNSTAMPED = ("ip_id", "seq", "ack", "payload_bytes", "flags")
"""Fields of an identity: EXACT has all of them, REWRITTEN only those that header compression keeps, RENUMBERED all
except the IP identification, UNSTAMPED all that a capture still has whose snap length cut the options."""

_UNEXPECTED = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Knuth, The Art of Computer Programming 3, 6.4)
_MIX = np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64 (Steele, Lea, Flood 2014)
_MIN_PAIRS = 20
"""Minimum number of exact matches that define an order."""
_ASTRAY_ROWS = 2_000
"""Maximum distance from the neighbours' rows: IP identifications wrap at 65,536, which is far more than 2,000 rows, and
a long queue is shorter."""
_MOST_ROWS = 1 << 18
"""With more packets only some runs are matched: the clocks of two hosts need no more evidence."""
_RUN_ROWS = 1 << 10  # a run must hold both directions and some round trips. Not measured
_ENOUGH = 0.95
"""Share of matched packets from which weaker identities are not tried for the rest."""


def identities(segments: Table, rows: Array | None, fields: tuple[str, ...] = EXACT) -> Array:
    """Return a 64-bit hash of the fields of each packet.

    Parameters
    ----------
    segments : Table
    rows : ndarray of int64, shape (n_rows,), or None
        None: all rows.
    fields : tuple of str
        Columns with the same value at all points of a path.

    Returns
    -------
    ndarray of uint64, shape (n_rows,)
    """
    if (native := kernel()) is not None:
        columns = [np.ascontiguousarray(segments[name]) for name in fields]
        return native.identities(columns, None if rows is None else np.ascontiguousarray(rows))
    key = np.zeros(len(segments if rows is None else rows), dtype=np.uint64)
    for name in fields:
        key ^= segments[name][slice(None) if rows is None else rows].astype(np.uint32)
        key *= _UNEXPECTED
        key ^= key >> np.uint64(31)
        key *= _MIX
    return key ^ (key >> np.uint64(29))


def copies(key: Array) -> tuple[Array, Array]:
    """Return for each packet how many earlier packets have the same identity, and how many there are in all.

    Parameters
    ----------
    key : ndarray of uint64, shape (n,)
        As returned by `identities`.

    Returns
    -------
    number, total : ndarray of int64, shape of `key`
        `number` from 0, `total` from 1.
    """
    if (native := kernel()) is not None:
        return native.copies(np.ascontiguousarray(key))
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(len(key), dtype=np.int64), np.ones(len(key), dtype=np.int64)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0])[: len(key)])
    lengths = np.diff(np.append(starts, len(key)))
    number, total = np.empty(len(key), dtype=np.int64), np.empty(len(key), dtype=np.int64)
    number[order] = np.arange(len(key)) - np.repeat(starts, lengths)
    total[order] = np.repeat(lengths, lengths)
    return number, total


def among(key: Array, wanted: Array) -> Array:
    """Return the indexes of the packets whose identity is one of the identities in `wanted`.

    Parameters
    ----------
    key, wanted : ndarray of uint64, shapes (n,), (n_wanted,)
        As returned by `identities`.

    Returns
    -------
    ndarray of int64, shape (n_found,), ascending
    """
    if (native := kernel()) is not None:
        return native.among(np.ascontiguousarray(key), np.ascontiguousarray(wanted))
    if not len(wanted):
        return np.empty(0, dtype=np.int64)
    ordered = np.sort(wanted)
    at = np.minimum(np.searchsorted(ordered, key), len(ordered) - 1)
    return np.flatnonzero(ordered[at] == key)


def shared(key: Array, others: Sequence[Array]) -> list[int]:
    """Return for each array in `others` how many different packets it has in common with `key`.

    Parameters
    ----------
    key : ndarray of uint64, shape (n,)
        As returned by `identities`.
    others : sequence of ndarray of uint64
        Identities of other captures.
    """
    wanted, counts = _distinct(key), []
    for other in others:
        few, many = sorted((wanted, _distinct(other)), key=len)
        place = np.searchsorted(many, few)
        inside = place < len(many)
        counts.append(int(np.count_nonzero(many[place[inside]] == few[inside])))
    return counts


def _distinct(key: Array) -> Array:
    ordered = np.sort(key)
    distinct: Array = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]]
    return distinct


def join(near_key: Array, near_copy: Array, far_key: Array, far_copy: Array) -> tuple[Array, Array]:
    """Return the indexes of packets with equal identity and equal number at both points.

    Pairs are in the order of the near point.

    Parameters
    ----------
    near_key, far_key : ndarray of uint64, shapes (n_near,), (n_far,)
        As returned by `identities`.
    near_copy, far_copy : ndarray of int64, shapes (n_near,), (n_far,)
        The number of each packet among those with its identity, as returned by `copies`.

    Returns
    -------
    near, far : ndarray of int64, shape (n_matched,)
    """
    if (native := kernel()) is not None:
        return native.join(*map(np.ascontiguousarray, (near_key, near_copy, far_key, far_copy)))
    near_name, far_name = (
        key + copy.astype(np.uint64) * _MIX for key, copy in ((near_key, near_copy), (far_key, far_copy))
    )
    near_order, far_order = np.argsort(near_name), np.argsort(far_name)
    wanted, names = near_name[near_order], far_name[far_order]
    place = np.searchsorted(names, wanted)
    has_name = place < len(names)
    has_name[has_name] = names[place[has_name]] == wanted[has_name]
    partner = np.full(len(near_name), -1, dtype=np.int64)
    partner[near_order[has_name]] = far_order[place[has_name]]
    paired = np.flatnonzero(partner >= 0)
    return paired, partner[paired]


def is_long(near: CaptureTables) -> bool:
    """Return whether the capture is so long that `match` compares only runs of packets by default."""
    return len(near.segments) > _MOST_ROWS


def match(near: CaptureTables, far: CaptureTables, *, complete: bool = False) -> tuple[Array, Array]:
    """Return the rows of the packets that are in both captures, in order of the near capture.

    In captures of more than some hundred thousand packets, only regularly spaced runs of a thousand packets
    are matched, if nearly all of these have a match.

    Parameters
    ----------
    near, far : CaptureTables
        Any two captures; their clocks are not used.
    complete : bool
        Whether to match all packets also in long captures.

    Returns
    -------
    near_rows, far_rows : ndarray of int64, shape (n_matched,)
        Row of each packet in either capture's segments.
    """
    runs = None if complete else _runs(len(near.segments))
    near_rows, far_rows = _match_by(near.segments, None, far.segments, None, EXACT, only=runs)
    if runs is not None:
        if len(near_rows) >= _ENOUGH * len(runs):
            return near_rows, far_rows
        near_rows, far_rows = _match_by(near.segments, None, far.segments, None, EXACT)
    enough = _ENOUGH * min(len(near.segments), len(far.segments))
    ordered = len(near_rows) >= _MIN_PAIRS
    for fields in (REWRITTEN, RENUMBERED) if ordered else (RENUMBERED, REWRITTEN):
        if len(near_rows) >= (enough if ordered else min(enough, _MIN_PAIRS)):
            break
        near_left = np.delete(np.arange(len(near.segments)), near_rows)
        far_left = np.delete(np.arange(len(far.segments)), far_rows)
        more = _match_by(near.segments, near_left, far.segments, far_left, fields)
        kept = _in_order(near_rows, far_rows, *more)
        near_rows = np.concatenate([near_rows, more[0][kept]])
        far_rows = np.concatenate([far_rows, more[1][kept]])
        order = np.argsort(near_rows)
        near_rows, far_rows = near_rows[order], far_rows[order]
    return near_rows, far_rows


def _runs(rows: int) -> Array | None:
    """Return rows in evenly spaced contiguous runs, from the first row to the last; None for all rows."""
    if rows <= _MOST_ROWS:
        return None
    begins = np.arange(0, rows, -(-rows // _MOST_ROWS) * _RUN_ROWS)
    runs = (begins[:, None] + np.arange(_RUN_ROWS)).ravel()
    last = rows - _RUN_ROWS
    return np.concatenate([runs[runs < last], np.arange(last, rows)])


def _in_order(near_rows: Array, far_rows: Array, near_more: Array, far_more: Array) -> Array:
    """Return which additional pairs keep the order: near their neighbours' matches at the far point."""
    if len(near_rows) < _MIN_PAIRS:
        return np.ones(len(near_more), dtype=bool)
    expected = np.interp(near_more, near_rows, far_rows)
    kept: Array = np.abs(expected - far_more) <= _ASTRAY_ROWS
    return kept


def _match_by(
    near: Table,
    near_rows: Array | None,
    far: Table,
    far_rows: Array | None,
    fields: tuple[str, ...],
    *,
    only: Array | None = None,
) -> tuple[Array, Array]:
    """Return the near rows and the far rows of packets with the same identity.

    The arguments `near_rows` and `far_rows` may be None for all rows. Matches are searched for all near
    packets, or only for those in `only`.
    """
    if (native := kernel()) is not None:
        sides = [
            ([np.ascontiguousarray(table[name]) for name in fields], rows)
            for table, rows in ((near, near_rows), (far, far_rows))
        ]
        (a, b), (first, equal, alone) = native.same_packets(sides[0], sides[1], only)
    else:
        (a, b), (first, equal, alone) = _same_packets((near, near_rows), (far, far_rows), fields, only)
    rows = (a, b) if near_rows is None or far_rows is None else (near_rows[a], far_rows[b])
    is_exact = fields == EXACT
    sure = equal | (first & (near["ip_id"][rows[0]] != 0)) if is_exact else equal & first & alone
    if "ip_id" not in fields:
        sure &= near["payload_bytes"][rows[0]] > 0
    return rows[0][sure], rows[1][sure]


def _same_packets(
    near: tuple[Table, Array | None], far: tuple[Table, Array | None], fields: tuple[str, ...], only: Array | None
) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    """Return the index pairs of packets with the same identity, and three masks over these pairs.

    The masks are True for the first packet with its identity, for identities that are equally frequent at
    both points, and for identities that occur once at each point.
    """
    near_key, far_key = identities(*near, fields), identities(*far, fields)
    (near_copy, near_total), (far_copy, far_total) = copies(near_key), copies(far_key)
    if only is None:
        a, b = join(near_key, near_copy, far_key, far_copy)
    else:
        a, b = join(near_key[only], near_copy[only], far_key, far_copy)
        a = only[a]
    return (a, b), (near_copy[a] == 0, near_total[a] == far_total[b], near_total[a] == 1)


# How long an IP packet was, computed from the payload and the options of a capture's segment.


_IP_BYTES = {4: 20, 6: 40}
_FARTHEST_BYTES = 1 << 17
"""Maximum gap in sequence numbers: two windows without scaling; a larger gap is an outlier, not a hole."""
_APART = 1 << 40
"""Distance between flows in one array, far beyond the 2^32 sequence numbers: flows never mix."""
_TCP_BYTES, _TIMESTAMP_BYTES, _SACK_BYTES, _SACK_BLOCK_BYTES = 20, 12, 4, 8
"""Length of the TCP header (RFC 9293, 3.1), timestamps with two NOPs (RFC 7323, 3.2), SACK with two NOPs and each SACK
block (RFC 2018, 3)."""


def ip_lengths(capture: CaptureTables, rows: Array) -> Array:
    """Return the length of each IP packet, including the options that its segment shows.

    Parameters
    ----------
    capture : CaptureTables
    rows : ndarray of int64, shape (n,)
        Rows of its segments.

    Returns
    -------
    ndarray of float64, bytes, shape of `rows`
    """
    segments, flows = capture.segments, capture.flows
    version = flows["ip_version"][segments["flow"][rows] >> 1]
    size = np.where(version == 6, _IP_BYTES[6], _IP_BYTES[4]) + _TCP_BYTES
    size = size + segments["payload_bytes"][rows]
    size += np.where(segments["marks"][rows] & CaptureMark.HAS_TIMESTAMPS, _TIMESTAMP_BYTES, 0)
    blocks = segments["sack_blocks"][rows].astype(np.int64)
    size += np.where(blocks > 0, _SACK_BYTES + _SACK_BLOCK_BYTES * blocks, 0)
    size += _syn_bytes(capture)[rows]
    return size.astype(np.float64)


def _syn_bytes(capture: CaptureTables) -> Array:
    """Return for each segment the bytes of TCP options that only SYN segments carry, a multiple of four."""
    extra = np.zeros(len(capture.segments), dtype=np.int64)
    options = capture.syn_options
    length = 4 * (options["mss_bytes"] > 0) + 3 * (options["window_scale"] >= 0) + 2 * options["sack_permitted"]
    extra[options["row"]] = (length + 3) // 4 * 4
    return extra


def unseen_bytes(flow: Array, seq: Array, payload_bytes: Array, size_bytes: Array) -> Array:
    """Return for each segment the bytes of its connection that were sent before it but not captured.

    Headers are included.

    Parameters
    ----------
    flow, seq, payload_bytes, size_bytes : ndarray, shape (n_packets,)
        Packets of one direction, sorted by send time.

    Returns
    -------
    ndarray of float64, shape (n_packets,)
        Bytes between the segment and everything sent before it; 0 if unknown.
    """
    payload = payload_bytes.astype(np.int64)
    gap = _ahead(flow, seq, payload)
    known = (payload > 0) & (gap > 0) & (gap < _FARTHEST_BYTES)
    typical = float(np.median(payload[payload > 0])) if known.any() else 1.0
    headers = (size_bytes - payload) * np.maximum(1.0, np.rint(gap / typical))
    return np.where(known, gap + headers, 0.0)


def _ahead(flow: Array, seq: Array, payload: Array) -> Array:
    """Return for each segment the bytes between the end of all earlier ones of its flow and its begin.

    It is 0 for the first segment of a flow.
    """
    order = np.argsort(flow, kind="stable")
    first = np.diff(flow[order], prepend=-1) != 0
    step = np.diff(seq[order], prepend=seq[order][:1]).astype(np.uint32).view(np.int32).astype(np.int64)
    step[first] = 0
    # each flow in a stretch of numbers of its own, so that the running maximum begins anew
    begin = np.cumsum(step) + np.cumsum(first) * _APART
    reached = np.maximum.accumulate(begin + payload[order])
    ahead = np.zeros(len(flow), dtype=np.int64)
    ahead[order[1:]] = np.where(first[1:], 0, begin[1:] - reached[:-1])
    return ahead
