"""Series as text inside a page: whole-number deltas in variable-length bytes, base64.

A column is the zigzag-coded differences of its numbers, 7 bits a byte, lowest first, the high bit set on all
but the last byte of a number (the varint of Protocol Buffers). A typical segment costs 7 bytes instead of
the 20 of two floats and an integer. `points/table.js` holds the inverse.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def pack_columns(columns: Mapping[str, Array]) -> Document:
    """Return columns of whole numbers as JSON that `Columns.unpack` reads.

    Parameters
    ----------
    columns : mapping of str to ndarray of int, each of shape (n,)
        "time" is in ticks, and "value" may hold BREAK; both by `tick_s` and `scale` beside the columns.
    """
    data = b"".join(varints(column) for column in columns.values())
    points = len(next(iter(columns.values())))
    return {"points": points, "columns": list(columns), "data": base64.b64encode(data).decode()}
