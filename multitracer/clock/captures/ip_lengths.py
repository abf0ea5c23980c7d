"""How long an IP packet was, computed from the payload and the options of a capture's segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Mark

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array


_IP_BYTES = {4: 20, 6: 40}
_FARTHEST_BYTES = 1 << 17
"""Two windows without scaling: a larger gap is no hole, but a number gone astray."""
_APART = 1 << 40
"""Far beyond the 2^32 of sequence space: flows that lie so far apart in one array never mix."""
_TCP_BYTES, _TIMESTAMP_BYTES, _SACK_BYTES, _SACK_BLOCK_BYTES = 20, 12, 4, 8
"""RFC 9293, 3.1; RFC 7323, 3.2 with two NOPs; RFC 2018, 3 with two NOPs."""


def ip_lengths(capture: Capture, rows: Array) -> Array:
    """Return the length of each IP packet, with the options that its segment shows.

    Parameters
    ----------
    capture : Capture
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
    size += np.where(segments["marks"][rows] & Mark.HAS_TIMESTAMPS, _TIMESTAMP_BYTES, 0)
    blocks = segments["sack_blocks"][rows].astype(np.int64)
    size += np.where(blocks > 0, _SACK_BYTES + _SACK_BLOCK_BYTES * blocks, 0)
    size += _syn_bytes(capture)[rows]
    return size.astype(np.float64)


def _syn_bytes(capture: Capture) -> Array:
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
