"""The same packets at two capture points, by fields that routers, relays and header compression keep.

Rules of the file
-----------------
- A packet's identity is its IPv4 identification, sequence and ACK number, payload length, flags and timestamp
  value. Endpoints are no part of it: a translator (NAT) between the points may have changed them.
- Packets that find no partner that way are tried once more without ACK number, flags and timestamp (what
  header compression or a middlebox may have rewritten), then once more without the IP identification.
- If next to no packet is the same, the identification was written anew on the way (a NAT, "scrub random-id"):
  then it is left out first, and if that finds packets, one that is equal by chance pairs no strangers.
- A weaker identity counts only where it keeps the order: its packet lies, at the far point, within some
  thousand rows of where its neighbours lie, so that an identification that comes round again pairs no
  strangers.
- The n-th packet with an identity at one point is the n-th at the other if both points show equally many.
  With unequal numbers only the first are taken for the same, and only if the IP identification vouches for
  them.
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
"""Fields of an identity: the full one; without what compression rewrites; without the IP identification."""

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Knuth, The Art of Computer Programming 3, 6.4)
_MIX = np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64 (Steele, Lea, Flood 2014)
_LEAST_PAIRS = 20
"""With fewer exact pairs there is no order to keep."""
_ASTRAY_ROWS = 2_000
"""IP identifications come round after 65,536; 2,000 rows keep that far off and let a long queue pass."""
_MOST_ROWS = 1 << 18
"""Of more packets some runs are looked at: the clocks of two hosts need no more evidence."""
_RUN_ROWS = 1 << 10  # a run must hold both directions and some round trips. Not measured
_ENOUGH = 0.95
"""Of the packets that could be paired: the weaker identities are not tried for the rest."""


def identities(segments: Table, rows: Array | None, fields: tuple[str, ...] = EXACT) -> Array:
    """Return a 64-bit hash of the fields of each packet.

    Parameters
    ----------
    segments : Table
    rows : ndarray of int64, shape (n_rows,), or None
        None: all.
    fields : tuple of str
        Columns that all points of a path see alike.

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
        key *= _ODD
        key ^= key >> np.uint64(31)
        key *= _MIX
    return key ^ (key >> np.uint64(29))


def copies(key: Array) -> tuple[Array, Array]:
    """Return how many packets with the same identity came before each one, and how many there are.

    Parameters
    ----------
    key : ndarray of uint64, shape (n,)
        As of `identities`.

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
    """Return the indexes of the packets that are among some wanted ones.

    Parameters
    ----------
    key, wanted : ndarray of uint64, shapes (n,), (n_wanted,)
        As of `identities`.

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
    """Return how many different packets others hold, of each of these in turn.

    Parameters
    ----------
    key : ndarray of uint64, shape (n,)
        As of `identities`.
    others : sequence of ndarray of uint64
        The same of others.
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
    """Return the indexes of equal (identity, copy) at both points, in order of the near one.

    Parameters
    ----------
    near_key, far_key : ndarray of uint64, shapes (n_near,), (n_far,)
        As of `identities`.
    near_copy, far_copy : ndarray of int64, shapes (n_near,), (n_far,)
        The number of each copy, as of `copies`.

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
    """Return whether `match` looks only at runs of the packets, by default."""
    return len(near.segments) > _MOST_ROWS


def match(near: CaptureTables, far: CaptureTables, *, whole: bool = False) -> tuple[Array, Array]:
    """Return the rows of the packets that both captures hold, in order of the near capture's rows.

    Of captures of more than some hundred thousand packets, runs of a thousand in a row at even distances are
    enough, if nearly all of those find their partner.

    Parameters
    ----------
    near, far : CaptureTables
        Any two captures; their clocks do not matter.
    whole : bool
        Whether to match all packets of long captures, too.

    Returns
    -------
    near_rows, far_rows : ndarray of int64, shape (n_matched,)
        Row of each packet in either capture's segments.
    """
    runs = None if whole else _runs(len(near.segments))
    near_rows, far_rows = _match_by(near.segments, None, far.segments, None, EXACT, only=runs)
    if runs is not None:
        if len(near_rows) >= _ENOUGH * len(runs):
            return near_rows, far_rows
        near_rows, far_rows = _match_by(near.segments, None, far.segments, None, EXACT)
    enough = _ENOUGH * min(len(near.segments), len(far.segments))
    ordered = len(near_rows) >= _LEAST_PAIRS
    for fields in (REWRITTEN, RENUMBERED) if ordered else (RENUMBERED, REWRITTEN):
        if len(near_rows) >= (enough if ordered else min(enough, _LEAST_PAIRS)):
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
    """Return rows in runs, so that neighbours stay neighbours, from the first to the last; None means all."""
    if rows <= _MOST_ROWS:
        return None
    begins = np.arange(0, rows, -(-rows // _MOST_ROWS) * _RUN_ROWS)
    runs = (begins[:, None] + np.arange(_RUN_ROWS)).ravel()
    last = rows - _RUN_ROWS
    return np.concatenate([runs[runs < last], np.arange(last, rows)])


def _in_order(near_rows: Array, far_rows: Array, near_more: Array, far_more: Array) -> Array:
    """Return which further pairs lie at the far point about where their neighbours do."""
    if len(near_rows) < _LEAST_PAIRS:
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
    """Return the rows of the packets with the same identity; among all rows where None are given.

    Partners are looked for of all near ones, or of `only` some.
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
    near: tuple[Table, Array | None],
    far: tuple[Table, Array | None],
    fields: tuple[str, ...],
    only: Array | None,
) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    """Return the indexes of packets that are the same, and which are first, equally many, and alone."""
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
"""Two windows without scaling: a larger gap is no hole, but a number gone astray."""
_APART = 1 << 40
"""Far beyond the 2^32 of sequence space: flows that lie so far apart in one array never mix."""
_TCP_BYTES, _TIMESTAMP_BYTES, _SACK_BYTES, _SACK_BLOCK_BYTES = 20, 12, 4, 8
"""RFC 9293, 3.1; RFC 7323, 3.2 with two NOPs; RFC 2018, 3 with two NOPs."""


def ip_lengths(capture: CaptureTables, rows: Array) -> Array:
    """Return the length of each IP packet, with the options that its segment shows.

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
    """Return the bytes of options that only SYN segments carry, in words of four."""
    extra = np.zeros(len(capture.segments), dtype=np.int64)
    options = capture.syn_options
    length = (
        4 * (options["mss_bytes"] > 0) + 3 * (options["window_scale"] >= 0) + 2 * options["sack_permitted"]
    )
    extra[options["row"]] = (length + 3) // 4 * 4
    return extra


def unseen_bytes(flow: Array, seq: Array, payload_bytes: Array, size_bytes: Array) -> Array:
    """Return how many bytes of a connection went before each segment that were not seen, headers included.

    Parameters
    ----------
    flow, seq, payload_bytes, size_bytes : ndarray, shape (n_packets,)
        Of packets in order of sending, of one direction.

    Returns
    -------
    ndarray of float64, shape (n_packets,)
        Bytes between the segment and all that was sent before it; 0 where that is unknown.
    """
    payload = payload_bytes.astype(np.int64)
    gap = _ahead(flow, seq, payload)
    known = (payload > 0) & (gap > 0) & (gap < _FARTHEST_BYTES)
    usual = float(np.median(payload[payload > 0])) if known.any() else 1.0
    headers = (size_bytes - payload) * np.maximum(1.0, np.rint(gap / usual))
    return np.where(known, gap + headers, 0.0)


def _ahead(flow: Array, seq: Array, payload: Array) -> Array:
    """Return how far each segment begins after the end of all before it in its flow; 0 for the first."""
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
