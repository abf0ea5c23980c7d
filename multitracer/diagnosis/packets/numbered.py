"""Packets that were not captured, by the numbers that their sender gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Flag
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_MOST_MISSING = 1 << 12
"""Numbers that go on so far were set anew, or wrapped; no queue loses so many in a row."""
_COUNTED = 0.8
"""Part of neighbours in the capture with neighbouring numbers from which on a sender counts its packets."""


def missing_before(table: Table, sent: Array) -> Array:
    """Return how many packets of one end were not captured just before each; NA where nobody knows.

    Linux and others number the packets of a connection in the IPv4 identification (RFC 6864 lets them).

    Parameters
    ----------
    table : Table
        TCP_SEGMENTS of a connection.
    sent : ndarray of int64
        Rows of that end, in capture order.

    Returns
    -------
    ndarray of int64, a value for each row of `table`
    """
    rows = sent[~has(table["flags"][sent], Flag.SYN)]
    missing = np.full(len(table), NA, dtype=np.int64)
    number = table["ip_id"][rows].astype(np.int64)
    if len(rows) < 2 or (number < 0).any():
        return missing
    step = np.diff(number) & 0xFFFF
    if (step == 1).mean() < _COUNTED:
        return missing
    missing[rows[1:]] = np.where(step < _MOST_MISSING, step - 1, 0)
    return missing
