"""The slots without a data frame, cut where anything changed: outages and waiting packets (rules 1 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.diagnosis.account.link_entries import Entries
from multitracer.diagnosis.account.use_rows import Uses
from multitracer.diagnosis.account.waiting_packets import backlog, reading, stops
from multitracer.diagnosis.ranges import merged, within
from multitracer.diagnosis.use import Use
from multitracer.tables import NA

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from multitracer.diagnosis.account.link_time import LinkTime
    from multitracer.diagnosis.account.outages import Outages
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array


_UNLOGGED_SLOTS = 5
"""A segment that TCP sent so long before or after a log was not missed by chance: the log was cut."""


class Silence:
    """The stretches between two places among the slots in which no data frame was sent, or an unneeded one.

    Attributes
    ----------
    begin, end : ndarray of float64
        The stretches, in order; within one nothing changes.
    queued : ndarray of bool
        A packet waited.
    stop : ndarray of int64
        Row in near.events of the XOFF that held, NA if none did.
    read : ndarray of bool
        The far end still read what the link had brought.
    repeats : ndarray of bool
        The next data frame repeats one.
    frame : ndarray of int64
        Row in near.frames of the last data frame before, NA before the first.
    entries : Entries
        What TCP handed to the link, and when.
    """

    def __init__(self, joined: Join, time: LinkTime, begin: float, end: float, out: Outages) -> None:
        assert joined.transfer.near is not None
        self.joined, self.time, self._out = joined, time, out
        self.entries = Entries.of(joined, time)
        frames = joined.transfer.near.frames
        data = np.flatnonzero(frames["sent"] & (frames["payload_bytes"] > 0) & (frames["tick"] != NA))
        tick = frames["tick"][data]
        queue, stop, reads = backlog(joined), stops(joined.transfer.near), reading(joined)
        edges = [tick, tick + 1, out.begin, out.end, *queue, *stop[:2], reads[1], self.entries.refused]
        inner = distinct(np.concatenate(edges)).astype(np.float64)
        places = np.concatenate([[begin], inner[(inner > begin) & (inner < end)], [end]])
        self._logged = _logged(joined.transfer.near, self.entries.tick)
        outage = within(places[:-1], out.begin, out.end)
        carries = within(places[:-1], *merged(tick, tick + 1)) >= 0
        silent = np.flatnonzero(~carries | (outage >= 0))
        self.begin, self.end, self._outage = places[silent], places[silent + 1], outage[silent]
        self._is_queued = within(self.begin, *queue) >= 0
        self.stop = np.append(stop[2], NA)[within(self.begin, *stop[:2])]
        last = np.searchsorted(reads[0], self.begin, side="right") - 1
        self.read = (last >= 0) & (self.begin < np.append(reads[1], NA)[last])
        after = np.searchsorted(tick, self.begin, side="left")
        self.repeats = np.append(frames["attempt"][data], 1)[after] > 1
        self.frame = np.append(data, NA)[after - 1]
        self.frame[after == 0] = NA

    @property
    def _is_known(self) -> Array:
        """Stretches of the slots that the link's log covers."""
        first, last = self._logged
        return np.asarray((self.begin >= first) & (self.begin < last))

    def unlogged(self) -> Uses:
        """Return what lies beyond the link's log."""
        return self.uses(np.flatnonzero(~self._is_known & (self._outage < 0)), Use.UNKNOWN)

    @property
    def idle(self) -> Array:
        """Stretches of rule 4 (nothing was sent, nothing waited): int64 indexes of `begin`, ascending."""
        return np.flatnonzero(~self._is_queued & (self._outage < 0) & self._is_known)

    def uses(self, chosen: Array, use: Array | Use, **columns: ArrayLike) -> Uses:
        """Return rows of the account for some stretches."""
        begin, end = self.begin[chosen], self.end[chosen]
        return Uses.of(begin, end, use, (end - begin) * self.time.slot_s, **columns)

    def outages(self) -> Uses:
        """Return the uses of rule 1."""
        chosen, out = np.flatnonzero(self._outage >= 0), self._out
        which = self._outage[chosen]
        facts = {"cause": out.cause[which], "source": out.source[which], "row": out.row[which]}
        return self.uses(chosen, Use.OUTAGE, **facts)

    def queued(self) -> Uses:
        """Return the uses of rule 3: stopped by the far end, else busy with recovery."""
        chosen = np.flatnonzero(self._is_queued & (self._outage < 0) & self._is_known)
        stopped = self.stop[chosen] != NA
        return self.uses(
            chosen,
            np.where(stopped, Use.XOFF, Use.ARQ),
            source=np.where(stopped, "near.events", "near.frames"),
            row=np.where(stopped, self.stop[chosen], self.frame[chosen]),
        )


def _logged(near: LinkSide, entered: Array) -> tuple[float, float]:
    """Return the slots that the log covers; unbounded where TCP sent nothing beyond its ends.

    Idle frames are not logged, so silence at an end of the log does not mean that it was cut.
    """
    ticks = np.concatenate([table["tick"][table["tick"] != NA] for table in (near.frames, near.events)])
    first, last = float(ticks.min()), float(ticks.max()) + 1
    begin = first if (entered < first - _UNLOGGED_SLOTS).any() else -np.inf
    end = last if (entered > last + _UNLOGGED_SLOTS).any() else np.inf
    return begin, end
