"""A column of whole numbers as text of a page: differences, zigzag, byte planes, gzip, base64.

The differences of neighbouring numbers are small, zigzag makes them positive, and the planes (all lowest
bytes, then all second ones, ...) put what is alike side by side, where gzip finds it. `decoder.js` holds the
inverse: a browser can inflate gzip by itself.
"""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array

_GZIP_LEVEL = 6
"""Of 9, which took 15 times as long for 5 % less of the times, frames and numbers of a recorded transfer."""


class Column(NamedTuple):
    """One column as the page holds it."""

    text: str
    """In base64."""
    planes: int
    """Bytes of each number, from 1 to 8."""


def zigzag(numbers: Array) -> Array:
    """Return the differences of numbers, the first one from 0, as numbers without a sign.

    Parameters
    ----------
    numbers : ndarray of int, shape (n,)

    Returns
    -------
    ndarray of uint64, shape (n,)
        0, 1, 2, 3, ... for the differences 0, -1, 1, -2, ...
    """
    deltas = numbers.astype(np.int64)
    deltas[1:] -= numbers.astype(np.int64)[:-1]
    coded: Array = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)
    return coded


def column(numbers: Array) -> Column:
    """Return a column as text.

    Parameters
    ----------
    numbers : ndarray of int, shape (n,)
        Any; a page reads them exactly up to 2^52.
    """
    coded = zigzag(numbers)
    most = int(coded.max()) if len(coded) else 0
    planes = max(1, -(-most.bit_length() // 8))
    lowest_first = coded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
    packed = gzip.compress(np.ascontiguousarray(lowest_first.T).tobytes(), _GZIP_LEVEL, mtime=0)
    return Column(base64.b64encode(packed).decode(), planes)
