"""The account by the link's log: every slot, by the first rule that applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.carried import carried
from multitracer.diagnosis.idle import idle
from multitracer.diagnosis.link_time import LinkTime
from multitracer.diagnosis.outages import Outages, outages
from multitracer.diagnosis.ranges import merged, within
from multitracer.diagnosis.sender_view import SenderView
from multitracer.diagnosis.use import Cause, Use
from multitracer.diagnosis.uses import Uses
from multitracer.diagnosis.waiting import backlog, reading, stops
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join import Join
    from multitracer.tables import Array, Table


def measured(joined: Join) -> Table:
    """Return LINK_USE of a transfer whose link was logged at its sender."""
    transfer = joined.transfer
    time = LinkTime.of(transfer)
    begin, end = time.ticks(np.array([transfer.begin_ns, transfer.end_ns])).tolist()
    out = outages(transfer, joined.delivery)
    busy = carried(joined, time, begin, end, out)
    silent = _Silence(joined, time, begin, end, out)
    rest = [part.runs() for part in (silent.outages(), silent.queued(), silent.idle())]
    return Uses.together([busy, *rest]).table(time.stamps)


class _Silence:
    """The slots between two places that carry no data frame, or in which an outage made it vain."""

    def __init__(self, joined: Join, time: LinkTime, begin: float, end: float, out: Outages) -> None:
        assert joined.transfer.near is not None
        self._joined, self._time, self._out = joined, time, out
        self._near = joined.transfer.near
        frames = self._near.frames
        data = np.flatnonzero(frames["sent"] & (frames["payload_bytes"] > 0) & (frames["tick"] != NA))
        self._data_tick, self._data = frames["tick"][data], data
        self._attempt = frames["attempt"][data]
        queue, stop, reads = backlog(joined), stops(self._near), reading(joined)
        edges = [self._data_tick, self._data_tick + 1, out.begin, out.end, *queue, *stop[:2], reads[1]]
        inner = np.unique(np.concatenate(edges)).astype(np.float64)
        inner = inner[(inner > begin) & (inner < end)]
        places = np.concatenate([[begin], inner, [end]])
        left = places[:-1]
        self._in_outage = within(left, out.begin, out.end)
        carries = within(left, *merged(self._data_tick, self._data_tick + 1)) >= 0
        silent = ~carries | (self._in_outage >= 0)
        self.begin, self.end = left[silent], places[1:][silent]
        self._in_outage = self._in_outage[silent]
        self._queued = within(self.begin, *queue) >= 0
        self._stopped = within(self.begin, *stop[:2])
        self._stop_row = np.append(stop[2], NA)
        last = np.searchsorted(reads[0], self.begin, side="right") - 1
        self._read = (last >= 0) & (self.begin < np.append(reads[1], NA)[last])

    def _uses(self, chosen: Array, use: Array | Use, **columns: Array) -> Uses:
        begin, end = self.begin[chosen], self.end[chosen]
        return Uses.of(begin, end, use, (end - begin) * self._time.slot_s, **columns)

    def outages(self) -> Uses:
        """Rule 1."""
        which = self._in_outage[self._in_outage >= 0]
        out = self._out
        return self._uses(
            self._in_outage >= 0,
            Use.OUTAGE,
            cause=out.cause[which],
            source=out.source[which],
            row=out.row[which],
        )

    def queued(self) -> Uses:
        """Rule 3."""
        chosen = self._queued & (self._in_outage < 0)
        return self._stopped_or_arq(chosen)

    def _stopped_or_arq(self, chosen: Array) -> Uses:
        stopped = self._stopped[chosen]
        return self._uses(
            chosen,
            np.where(stopped >= 0, Use.XOFF, Use.ARQ),
            source=np.where(stopped >= 0, "near.events", "near.frames"),
            row=np.where(stopped >= 0, self._stop_row[stopped], self._frame_before(self.begin[chosen])),
        )

    def _frame_before(self, places: Array) -> Array:
        """Return the row in near.frames of the last data frame before each place, NA before the first."""
        at = np.searchsorted(self._data_tick, places, side="left") - 1
        return np.where(at < 0, NA, np.append(self._data, NA)[at])

    def idle(self) -> Uses:
        """Rule 4; a gap that a repeated frame ends belongs to the link's recovery."""
        chosen = ~self._queued & (self._in_outage < 0)
        begin = self.begin[chosen]
        gap_begin = self._gap_begin(chosen)
        following = np.searchsorted(self._data_tick, begin, side="left")
        repeats = np.append(self._attempt, 1)[following] > 1
        ender = self._ender(gap_begin)
        why = idle(SenderView(self._joined.transfer), self._time.stamps(gap_begin), ender)
        use, cause = why.use.copy(), why.cause.copy()
        waits = (use != Use.HANDSHAKE) & (use != Use.IDLE_APP)
        for where, instead, its_cause in (
            (waits & self._read[chosen], Use.XOFF, Cause.FAR_BUFFER),
            (waits & (self._stopped[chosen] >= 0), Use.XOFF, Cause.NONE),
            ((use != Use.HANDSHAKE) & repeats, Use.ARQ, Cause.NONE),
        ):
            use[where], cause[where] = instead, its_cause
        stopped = self._stopped[chosen] >= 0
        stopped &= use == Use.XOFF
        return self._uses(
            chosen,
            use,
            cause=cause,
            back_off=np.where(use == Use.IDLE_RTO, why.back_off, NA),
            source=np.where(stopped, "near.events", "near.frames"),
            row=np.where(stopped, self._stop_row[self._stopped[chosen]], self._frame_before(begin)),
            ended_row=ender,
        )

    def _gap_begin(self, chosen: Array) -> Array:
        """Return where the gap that each chosen stretch belongs to began."""
        begin, end = self.begin[chosen], self.end[chosen]
        opens = np.ones(len(begin), dtype=bool)
        opens[1:] = begin[1:] > end[:-1]
        return (
            begin[np.maximum.accumulate(np.where(opens, np.arange(len(begin)), 0))] if len(begin) else begin
        )

    def _ender(self, gap_begin: Array) -> Array:
        """Return the row of `sender` that ended each gap: the first to be queued after it had begun."""
        carriages, transfer = self._joined.carriages, self._joined.transfer
        segment = carriages["segment_row"]
        occupies = (segment != NA) & (
            transfer.sender["end_bytes"][segment] > transfer.sender["seq_bytes"][segment]
        )
        mine = np.flatnonzero(occupies)
        queued = np.where(
            carriages["queued_tick"] == NA, carriages["first_tick"] - 1, carriages["queued_tick"]
        )[mine]
        at = np.searchsorted(np.maximum.accumulate(queued), np.floor(gap_begin), side="left")
        ended: Array = np.append(segment[mine], NA)[at]
        return ended
