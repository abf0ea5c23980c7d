"""Series as text inside a page: whole-number deltas in variable-length bytes, base64.

A column is the zigzag-coded differences of its numbers, 7 bits a byte, lowest first, the high bit set on all
but the last byte of a number (the varint of Protocol Buffers). A typical segment costs 7 bytes instead of
the 20 of two floats and an integer. `figure.js` holds the inverse.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.figures.series import Series
    from multitracer.tables import Array, Document

_MOST_BYTES = 10
"""Of one number: 64 bits, 7 a byte."""


def varints(numbers: Array) -> bytes:
    """Return numbers as zigzag varints of their differences; the first one is from 0.

    Parameters
    ----------
    numbers : ndarray of int64, shape (n,)
        Any; NA is written as its number.
    """
    deltas = numbers.astype(np.int64)
    deltas[1:] -= numbers.astype(np.int64)[:-1]
    zigzag = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)
    shifts = np.uint64(7) * np.arange(_MOST_BYTES, dtype=np.uint64)
    groups = zigzag[:, None] >> shifts
    used = groups != 0
    used[:, 0] = True
    low = (groups & np.uint64(0x7F)).astype(np.uint8)
    low[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return bytes(low[used])


def pack(kept: Series, level: Array, *, of: int, origin_ns: int, tick_ns: int) -> Document:
    """Return a series as JSON for `figure.js`.

    Parameters
    ----------
    kept : Series, n points
    level : ndarray of uint8, shape (n,)
        Of each point; see `downsample.levels`.
    of : int
        Points of the series before it was thinned.
    origin_ns : int
        What the time axis calls 0.
    tick_ns : int
        Resolution of the times that are written.
    """
    columns = {"time": (kept.time_ns - origin_ns) // tick_ns, "value": kept.value, "level": level}
    if kept.until is not None:
        columns["until"] = kept.until - kept.value
    if kept.frame is not None:
        columns["frame"] = kept.frame
    if kept.answer is not None:
        columns["answer"] = kept.answer
    if kept.file is not None and bool(np.any(kept.file)):
        columns["file"] = kept.file
    return {"of": of, "tick_s": tick_ns / NS_PER_S, **pack_columns(columns)}


def pack_columns(columns: Mapping[str, Array]) -> Document:
    """Return columns of whole numbers as JSON that `Figures.unpack` reads.

    Parameters
    ----------
    columns : mapping of str to ndarray of int, each of shape (n,)
        "time" is in ticks, and "value" may hold BREAK; both by `tick_s` and `scale` beside the columns.
    """
    data = b"".join(varints(column) for column in columns.values())
    points = len(next(iter(columns.values())))
    return {"points": points, "columns": list(columns), "data": base64.b64encode(data).decode()}


def tick_for(span_ns: int) -> int:
    """Return the power of ten of ns that cuts a span into at most 10^10 ticks."""
    tick = 1
    while span_ns // tick > 10**10:
        tick *= 10
    return tick
