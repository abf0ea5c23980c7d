"""When TCP handed each of its segments to the link: what ends a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.account.link_time import LinkTime
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.tables import Array


class Entries(NamedTuple):
    """The segments of the transfer that occupy sequence space, in order of sending."""

    row: Array
    """Row of `sender`."""
    tick: Array
    """Slot in which it was handed over: the link may carry it from the next on; ascending."""
    refused: Array
    """Slots from which the gap goes on, because what ended it was dropped at the queue's door."""

    @classmethod
    def of(cls, joined: Join, time: LinkTime) -> Entries:
        """Return what TCP handed over; what the link never logged stands where its capture says."""
        table, sent = joined.transfer.sender, joined.transfer.sent
        rows = sent[table["end_bytes"][sent] > table["seq_bytes"][sent]]
        carriage = joined.carriage_of[rows]
        tick = np.floor(time.ticks(table["time_ns"][rows])).astype(np.int64)
        queued = joined.carriages["queued_tick"][carriage] if len(joined.carriages) else carriage
        known = (carriage != NA) & (queued != NA)
        tick[known] = queued[known]
        return cls(rows, np.maximum.accumulate(tick), tick[carriage == NA] + 1)

    def after(self, places: Array) -> Array:
        """Return the first row handed over in or after the slot of each place, NA if there is none.

        Places are float64, shape (n,): slots, and parts of them. The rows of `sender` are int64, shape (n,).
        """
        at = np.searchsorted(self.tick, np.floor(places), side="left")
        row: Array = np.append(self.row, NA)[at]
        return row
