"""Where each segment lies and what is outstanding after it, by the native kernel in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segments.acknowledgments import first_units
from multitracer.native import kernel
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
    from multitracer.tables import Array


def placed(
    examination: Examination, order: Array, shift: Array, *, with_acked: bool
) -> dict[str, Array] | None:
    """Return columns of TCP_SEGMENTS in the order of its rows; None without the kernel.

    Parameters
    ----------
    examination : Examination
    order : ndarray of int64, shape (n_segments,)
        Positions, connection after connection, each in capture order.
    shift : ndarray of int64, shape (n_directions,)
        By how many bits the windows of each direction are scaled.
    with_acked : bool
        Whether the highest ACK of both sides at each row is needed, too.

    Returns
    -------
    dict of str to ndarray, each of shape (n_segments,), or None
        reverse, seq_bytes, end_bytes, ack_bytes, window_bytes and flight_bytes; with `with_acked` also
        acked_0 and acked_1, which are on the axis: less than a direction's `lowest` before any ACK of it.
    """
    native = kernel()
    if native is None:
        return None
    group, axis = examination.group, examination.axis
    pieces, acks, reach = axis.pieces, axis.acks, examination.coverage.reach
    return native.place_segments(
        _contiguous(group.bounds, group.seq, group.flags, group.window, group.units),
        _contiguous(pieces.position, pieces.bounds, pieces.start, reach),
        _contiguous(acks.position, acks.bounds, acks.value, acks.highest),
        _contiguous(axis.reference, axis.reference_seq, axis.origin, axis.lowest, first_units(axis), shift),
        np.ascontiguousarray(order),
        missing=NA,
        with_acked=with_acked,
    )


def _contiguous(*columns: Array) -> tuple[Array, ...]:
    return tuple(map(np.ascontiguousarray, columns))
