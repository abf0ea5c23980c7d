"""Which packets that only one point shows arrived all the same, cut or joined otherwise.

A device with segmentation offload hands segments of up to 64 kB to the capture and cuts them behind it, and
joins what arrives before the other capture sees it (GSO, TSO, GRO, LRO). Such packets have no partner, but
their bytes have: a byte arrived if the far point saw it as often as the near one. Of a byte that it saw less
often the copies that left first were lost, for TCP repeats what was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import distinct, unwrapped
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_WRAP = 1 << 32  # RFC 9293, 3.4: sequence numbers have 32 bits


class Bytes(NamedTuple):
    """The payload of packets of one direction: its place in the stream, up to a constant."""

    begin: Array
    end: Array


class Recut(NamedTuple):
    """Which packets of each point have all of their bytes at the other, though in other packets."""

    near: Array
    far: Array


def recut(near: Table, near_rows: Array, far: Table, far_rows: Array) -> Recut:
    """Return which packets with payload arrived, by their bytes; masks over the rows of both points.

    Parameters
    ----------
    near, far : Table
        SEGMENTS of both points.
    near_rows, far_rows : ndarray of int64, shapes (n_near,), (n_far,)
        Rows in them, of one direction of one connection, at least one each.
    """
    first = int(near["seq"][near_rows[0]])
    sent, came = _bytes(near, near_rows, first), _bytes(far, far_rows, first)
    edges = distinct(np.concatenate([*sent, *came]))
    times_sent, times_came = _depth(sent, edges), _depth(came, edges)
    missing, extra = np.maximum(times_sent - times_came, 0), np.maximum(times_came - times_sent, 0)
    return Recut(~_among_first(sent, edges, missing), ~_among_first(came, edges, extra))


def _bytes(table: Table, rows: Array, first: int) -> Bytes:
    sequence, flags = table["seq"][rows], table["flags"][rows]
    away = (int(sequence[0]) - first + _WRAP // 2) % _WRAP - _WRAP // 2
    begin = away + unwrapped(sequence, np.array([0, len(rows)])) + has(flags, Flag.SYN)
    return Bytes(begin, begin + np.maximum(table["payload_bytes"][rows], 0))


def _depth(stretches: Bytes, edges: Array) -> Array:
    """Return how many of the stretches hold each piece between two edges."""
    change = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, stretches.begin), 1)
    np.add.at(change, np.searchsorted(edges, stretches.end), -1)
    return np.cumsum(change)[: max(len(edges) - 1, 0)]


def _among_first(stretches: Bytes, edges: Array, most: Array) -> Array:
    """Return which stretches are empty or hold a piece as one of the first `most` that hold it."""
    begin, end = np.searchsorted(edges, stretches.begin), np.searchsorted(edges, stretches.end)
    many = end - begin
    of = np.repeat(np.arange(len(many)), many)
    piece = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin, many)
    order = np.argsort(piece, kind="stable")
    ordered = piece[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    is_first = many == 0
    is_first[of[order[rank < most[ordered]]]] = True
    return np.asarray(is_first)
