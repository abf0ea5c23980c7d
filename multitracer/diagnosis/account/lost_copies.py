"""What began the wait for a retransmission: the event at the link that lost the copy sent before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.join.segments_and_frames import Fate
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.tables import Array, Table


def lost_by(joined: Join, verdicts: Table, again: Array) -> Array:
    """Return the row in near.events of what lost the earlier copy of each segment: a drop or a reset.

    Parameters
    ----------
    joined : Join
    verdicts : Table
        VERDICTS of the transfer.
    again : ndarray of int64, shape (n,)
        Rows of `sender`, or NA.

    Returns
    -------
    ndarray of int64, shape of `again`
        NA for NA, for what is no retransmission, and where no event shows what lost the copy (or its ACK).
    """
    if not len(verdicts):
        return np.full(len(again), NA, dtype=np.int64)
    at = np.minimum(np.searchsorted(verdicts["row"], again), len(verdicts) - 1)
    earlier = np.where(verdicts["row"][at] == again, verdicts["earlier_row"][at], NA)
    by_queue = _looked_up(joined.dropped, joined.dropped_rows, earlier)
    carriage = np.where(earlier == NA, NA, joined.carriage_of[earlier])
    return np.where(by_queue != NA, by_queue, _resets(joined, carriage, again))


def _looked_up(keys: Array, values: Array, wanted: Array) -> Array:
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted)
    has_value = np.append(keys[order], NA - 1)[at] == wanted
    return np.where(has_value & (wanted != NA), np.append(values[order], NA)[at], NA)


def _resets(joined: Join, carriage: Array, again: Array) -> Array:
    """Return the reset that lost each carriage or its ACK, or put the decompressor out of step before it.

    That is the first to begin between the carriage and what was sent again; for a wrong header else the last
    before the carriage.
    """
    near, carriages = joined.transfer.near, joined.carriages
    assert near is not None
    resets = near.rows("reset_started")
    if not len(carriages) or not len(resets):
        return np.full(len(carriage), NA, dtype=np.int64)
    written = carriages["event_row"]
    next_one = np.searchsorted(resets, written[carriage])
    until = np.where(again == NA, NA, joined.carriage_of[again])
    in_time = np.append(resets, np.iinfo(np.int64).max)[next_one] < written[until]
    wrong = np.isin(carriages["fate"][carriage], (Fate.DAMAGED, Fate.TOSSED)) & (next_one > 0)
    which = np.where(in_time, next_one, next_one - 1)
    known = (carriage != NA) & (until != NA) & (in_time | wrong)
    return np.where(known, np.append(resets, NA)[which], NA)
