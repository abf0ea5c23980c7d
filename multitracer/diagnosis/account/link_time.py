"""Link time: slots of the link's log against stamps of its host's clock.

Time of the account is counted in slots, by the number that the log gives each: a slot that a busy machine
served late is still one slot. Slot n covers n to n + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join.recorded_transfer import Recorded
    from multitracer.tables import Array


@dataclass(frozen=True, slots=True)
class LinkTime:
    """Maps stamps to slots and back; between two logged slots time runs evenly.

    Attributes
    ----------
    tick : ndarray of float64
        Numbers of logged slots, ascending.
    stamp_ns : ndarray of int64
        When each began.
    slot_s : float
        Link time of a slot.
    real_slot_ns : float
        The same as recorded: `slot_s` / speed.
    """

    tick: Array
    stamp_ns: Array
    slot_s: float
    real_slot_ns: float

    @classmethod
    def of(cls, transfer: Recorded) -> LinkTime:
        """Return the time of the link under the data's sender; its log numbers slots."""
        assert transfer.near is not None
        frames = transfer.near.frames
        rows = np.flatnonzero(frames["tick"] != NA)
        tick, first = np.unique(frames["tick"][rows], return_index=True)
        stamp = np.maximum.accumulate(frames["time_ns"][rows[first]])
        slot_ns = transfer.slot_ns
        return cls(tick.astype(np.float64), stamp, slot_ns / 1e9, slot_ns / transfer.speed)

    def ticks(self, stamps_ns: Array | int) -> Array:
        """Return the place of stamps among the slots (float64)."""
        stamps = np.asarray(stamps_ns, dtype=np.int64)
        origin = self.stamp_ns[0]
        inside = np.interp((stamps - origin).astype(np.float64), self.stamp_ns - origin, self.tick)
        before = np.minimum(stamps - origin, 0) / self.real_slot_ns
        after = np.maximum(stamps - self.stamp_ns[-1], 0) / self.real_slot_ns
        result: Array = inside + before + after
        return result

    def stamps(self, ticks: Array) -> Array:
        """Return the stamps (int64, ns) of places among the slots."""
        places = np.asarray(ticks, dtype=np.float64)
        origin = self.stamp_ns[0]
        inside = np.interp(places, self.tick, (self.stamp_ns - origin).astype(np.float64))
        before = np.minimum(places - self.tick[0], 0) * self.real_slot_ns
        after = np.maximum(places - self.tick[-1], 0) * self.real_slot_ns
        result: Array = origin + np.rint(inside + before + after).astype(np.int64)
        return result
