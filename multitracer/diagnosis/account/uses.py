"""The classes of use of the link, a table of uses, and the classification of idle gaps.

In a gap nothing was sent and nothing was queued. A gap takes the class of the segment that ended it, because this shows
what the sender waited for (rule 4 of docs/lost_time.md). The sender's limits are those at the begin of the gap: the
outstanding bytes, and the TCP variables as last read before the peer's segment that ended the gap.

Four special cases. A gap with an outstanding FIN that a retransmission of payload ends is not `handshake`. A
gap that nothing ended, in a transfer that was never completed, was a wait for the timer. A gap that new data
ended while a retransmission was outstanding was a wait for recovery, even if the advertised window was full.
An application that wrote less than a segment, which Nagle's algorithm holds back, has nothing to send.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.captured import Flag
from multitracer.diagnosis.packets.dead_times import timeouts
from multitracer.schemas.findings import LINK_USE
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, DTypeLike

    from multitracer.diagnosis.packets.sender_view import SenderView
    from multitracer.tables import Array


class Use(IntEnum):
    """The classes of use of the link; each moment has one class."""

    USEFUL = 0
    """New payload in transit: the receiving TCP got it first from this carriage."""
    ARQ = 1
    """The link repeats a frame, or waits for the answer to one."""
    XOFF = 2
    """The far end has stopped the sender."""
    ACCESS = 3
    """Waiting for a contended channel."""
    OUTAGE = 4
    """The link delivers nothing."""
    OTHER = 5
    """Other flows, and pure ACKs."""
    IDLE_APP = 6
    """The application has nothing to send."""
    HANDSHAKE = 7
    """Opening and closing the connection."""
    IDLE_RTO = 8
    """Waiting for the retransmission timer."""
    IDLE_CWND = 9
    """The congestion window is full."""
    IDLE_RWND = 10
    """The advertised window is full."""
    IDLE_SNDBUF = 11
    """The send buffer is full: the application may not write."""
    REDUNDANT = 12
    """Payload that the receiver already had."""
    WASTED = 13
    """Payload that never reached the receiving TCP intact."""
    UNKNOWN = 14
    """None of the other classes."""

    @property
    def label(self) -> str:
        """The name in documents, for example `idle:rto`."""
        return self.name.lower().replace("_", ":")


IDLE = (Use.HANDSHAKE, Use.IDLE_RTO, Use.IDLE_CWND, Use.IDLE_RWND, Use.IDLE_SNDBUF)
"""T_idle of the utilization: TCP could have used the link."""
REPEATED = (Use.REDUNDANT, Use.WASTED)
"""T_redundant of the utilization: TCP used the link uselessly."""
LOST: tuple[Use, ...] = IDLE + REPEATED
"""All classes that lower the utilization."""

SAYS = {
    Use.USEFUL: "new data under way",
    Use.ARQ: "the link repeated frames or waited for itself",
    Use.XOFF: "the far end of the link stopped it",
    Use.ACCESS: "the link waited for its turn on a shared channel",
    Use.OUTAGE: "the link delivered nothing",
    Use.OTHER: "other traffic and pure ACKs",
    Use.IDLE_APP: "the application had nothing to send",
    Use.HANDSHAKE: "the connection was opened or closed",
    Use.IDLE_RTO: "TCP waited for its retransmission timer",
    Use.IDLE_CWND: "the congestion window was full",
    Use.IDLE_RWND: "the receiver's window was full",
    Use.IDLE_SNDBUF: "the send buffer was full",
    Use.REDUNDANT: "data that had arrived were sent again",
    Use.WASTED: "data were sent that were lost or arrived broken",
    Use.UNKNOWN: "nothing explains it",
}
"""A description of each class in words."""


class UseCause(IntEnum):
    """The cause of a use, for classes with several causes."""

    NONE = 0
    RESET = 1
    """A link reset."""
    RADIO = 2
    """All frames were lost."""
    DECOMPRESSOR = 3
    """The header decompressor was out of step."""
    RECOVERY = 4
    """The window was full of data that must be sent again."""
    SLOW_START = 5
    """The window was still growing."""
    REFUSED = 6
    """The receiver had aborted the connection."""
    UNFINISHED = 7
    """The recording ended first."""
    NAGLE = 9
    """Less than a segment was written, and TCP waited for more (RFC 9293, section 3.7.4)."""
    FAR_BUFFER = 8
    """The far end is slower than the link, and still reads data from its buffer."""

    NETWORK = 10
    """Lost after the link."""

    @property
    def label(self) -> str:
        """The name in documents; empty for NONE."""
        return self.name.lower().replace("_", "-") if self else ""


WASTED_SAYS = {
    UseCause.RESET: "were lost in a reset of the link",
    UseCause.DECOMPRESSOR: "arrived broken, with wrong headers",
    UseCause.REFUSED: "the receiver had given up",
    UseCause.UNFINISHED: "had not arrived when the recording ended",
    UseCause.NETWORK: "were lost behind the link",
    UseCause.NONE: "were lost",
}
"""The fate of data that were carried uselessly, by cause, in words."""


_KINDS: dict[str, tuple[DTypeLike, object]] = {
    "cause": (np.uint8, 0),
    "back_off": (np.int16, NA),
    "payload": (np.float64, 0.0),
    "source": ("U11", ""),
    "row": (np.int64, NA),
    "ended_row": (np.int64, NA),
}
"""Columns that a rule may omit, each with its dtype and default value."""


class Uses(NamedTuple):
    """Intervals of one transfer's link with the class of use of each; columns as in LINK_USE.

    Times are float64, in slots or in ns, as `by_slots` and `by_bursts` count them.
    """

    begin: Array
    end: Array
    use: Array
    seconds: Array
    cause: Array
    back_off: Array
    payload: Array
    source: Array
    row: Array
    ended_row: Array

    @classmethod
    def of(cls, begin: Array, end: Array, use: Array | Use, seconds: Array, **more: ArrayLike) -> Uses:
        """Return uses; a column that is not given has its default value, a scalar applies to all rows."""
        shape = np.shape(begin)
        rest = {
            name: np.broadcast_to(np.asarray(more.get(name, typical), dtype=dtype), shape)
            for name, (dtype, typical) in _KINDS.items()
        }
        return cls(
            np.asarray(begin, dtype=np.float64),
            np.asarray(end, dtype=np.float64),
            np.broadcast_to(np.asarray(use, dtype=np.uint8), shape),
            np.asarray(seconds, dtype=np.float64),
            **rest,
        )

    def where(self, chosen: Array) -> Uses:
        """Return the rows that a mask or an index array selects."""
        count = int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
        if chosen.dtype == bool and count == len(chosen):
            return self
        return Uses(*(np.broadcast_to(c[:1], count) if _is_constant(c) else c[chosen] for c in self))

    @classmethod
    def together(cls, parts: list[Uses]) -> Uses:
        """Return the rows of several `Uses` as one, in order of time."""
        joined = []
        for columns in zip(*parts, strict=True):
            filled = [column for column in columns if len(column)]
            is_one = filled and all(map(_is_constant, filled)) and len({c[0].item() for c in filled}) == 1
            count = sum(map(len, filled))
            joined.append(np.broadcast_to(filled[0][:1], count) if is_one else np.concatenate(columns))
        rows = cls(*joined)
        return rows.where(np.lexsort((rows.end, rows.begin)))

    def runs(self) -> Uses:
        """Return the rows (in order of time) with neighbours merged that have the same event and use."""
        if not len(self.begin):
            return self
        differs = np.ones(len(self.begin), dtype=bool)
        differs[1:] = self.begin[1:] > self.end[:-1]
        for column in (self.use, self.cause, self.source, self.row, self.ended_row):
            differs[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(differs)
        last = np.append(starts[1:], len(differs)) - 1
        return self.where(starts)._replace(
            end=self.end[last],
            seconds=np.add.reduceat(self.seconds, starts),
            payload=np.add.reduceat(self.payload, starts),
        )

    def table(self, stamps: Callable[[Array], Array]) -> Table:
        """Return LINK_USE; `stamps` converts times (float64) to stamps of the sender's clock (int64, ns)."""
        columns = self._asdict() | {"begin_ns": stamps(self.begin), "end_ns": stamps(self.end)}
        columns["payload_bytes"] = columns.pop("payload")
        return Table(LINK_USE, {name: columns[name] for name in LINK_USE.names})


def _is_constant(column: Array) -> bool:
    """Return whether all elements of a column share one memory cell, as `Uses.of` makes a scalar.

    An empty column does not count.
    """
    return len(column) > 0 and column.strides == (0,)


class Idle(NamedTuple):
    """For each idle gap, the class of use, its cause, and the number of the timeout that ended it."""

    use: Array
    cause: Array
    back_off: Array
    """Position of the timeout among consecutive timeouts, from 1; NA where no timer ended the gap."""


def idle(view: SenderView, begin_ns: Array, ender: Array) -> Idle:
    """Return the class of use of each idle gap: what the sender waited for.

    Parameters
    ----------
    view : SenderView
    begin_ns : ndarray of int64, shape (n_gaps,)
        When the link had nothing left to send.
    ender : ndarray of int64, shape (n_gaps,)
        Row of `sender` that ended each gap: data, SYN or FIN; NA if none did.
    """
    transfer, table = view.transfer, view.transfer.sender
    row = np.maximum(ender, 0)
    kind, flags = (np.where(ender == NA, 0, table[name][row]) for name in ("kind", "flags"))
    payload = np.where(ender == NA, 0, table["payload_bytes"][row])
    again = (kind & int(SegmentKind.RETRANSMISSION)) != 0
    probe = (kind & int(SegmentKind.ZERO_WINDOW_PROBE)) != 0
    use, cause = _limits(view, begin_ns, ender, payload)

    # the timer ended it, or would have: what was outstanding was never acknowledged
    by_timer, number = timeouts(transfer)
    at = np.searchsorted(by_timer, ender)
    tries = np.where(np.append(by_timer, NA - 1)[at] == ender, np.append(number, 0)[at], 0)
    in_vain = np.zeros(len(ender), dtype=bool)
    if not transfer.is_complete:
        at_begin = np.maximum(np.searchsorted(transfer.time_ns, begin_ns, side="right") - 1, 0)
        in_vain = (ender == NA) & (view.flight_bytes(at_begin) > 0)

    # the FIN had left, and its ACK had not come
    closing = np.zeros(len(ender), dtype=bool)
    fins = transfer.sent[(table["flags"][transfer.sent] & np.uint16(Flag.FIN)) != 0]
    if len(fins):
        covering = transfer.acks[table["ack_bytes"][transfer.acks] >= table["end_bytes"][fins[0]]]
        over_ns = int(table["time_ns"][covering[0]]) if len(covering) else np.iinfo(np.int64).max
        closing = (begin_ns >= table["time_ns"][fins[0]]) & (begin_ns < over_ns)
        closing &= ~(again & (payload > 0)) & (tries == 0) & ~in_vain

    # before the first data, or ended by a SYN
    opening = ((flags & int(Flag.SYN)) != 0) | (len(transfer.data) == 0)
    if len(transfer.data):
        first = transfer.data[0]
        opening |= ((ender != NA) & (ender <= first)) | (begin_ns < int(table["time_ns"][first]))

    for where, its_use, its_cause in (
        (probe, Use.IDLE_RWND, UseCause.NONE),
        (again, Use.IDLE_CWND, UseCause.RECOVERY),
        (tries > 0, Use.IDLE_RTO, UseCause.NONE),
        (in_vain, Use.IDLE_RTO, UseCause.UNFINISHED),
        (closing | opening, Use.HANDSHAKE, UseCause.NONE),
    ):
        use[where], cause[where] = its_use, its_cause
    back_off = np.where(use == Use.IDLE_RTO, np.where(tries > 0, tries, NA), NA)
    return Idle(use, cause, back_off)


def _limits(view: SenderView, begin_ns: Array, ender: Array, payload: Array) -> tuple[Array, Array]:
    """Return the class of use and the cause of each gap, if new data ended it."""
    row = np.maximum(ender, 0)
    trigger = np.where(ender == NA, NA, view.trigger(row))
    before = np.where(trigger != NA, trigger, row) - 1
    at_begin = np.searchsorted(view.transfer.time_ns, begin_ns, side="right") - 1
    moment = np.maximum(np.where(ender == NA, at_begin, np.minimum(at_begin, before)), 0)
    flight, window = view.flight_bytes(moment), view.window_bytes(moment)
    woken = np.where(ender == NA, moment, np.where(trigger != NA, trigger, row))
    cwnd, unsent = view.variable_before("cwnd_bytes", woken), view.variable_before("notsent_bytes", woken)
    full = (ender != NA) & view.buffer_is_full(moment, woken)
    window_reached = (window != NA) & (flight + payload > window)
    cwnd_reached = (cwnd != NA) & (flight + payload > cwnd)
    # without the sender's word: what an ACK set free had been held back, by the window or by cwnd
    silent = unsent == NA
    held = np.where(silent, (trigger != NA) & (flight > 0) | window_reached, unsent > 0)
    waiting = (ender != NA) & (payload > 0) & (held | full)
    by_cwnd = waiting & np.where(cwnd == NA, ~window_reached & silent, cwnd_reached & (cwnd < window))
    threshold = view.variable_before("ssthresh_bytes", woken)
    growing = (cwnd != NA) & ((threshold == NA) | (cwnd < threshold))
    use = np.full(len(ender), Use.UNKNOWN, dtype=np.uint8)
    cause = np.zeros(len(ender), dtype=np.uint8)
    for where, its_use, its_cause in (
        (waiting & full, Use.IDLE_SNDBUF, UseCause.NONE),
        (waiting & (window_reached | cwnd_reached), Use.IDLE_RWND, UseCause.NONE),
        (by_cwnd, Use.IDLE_CWND, UseCause.NONE),
        (by_cwnd & growing, Use.IDLE_CWND, UseCause.SLOW_START),
        (waiting & view.in_recovery(moment), Use.IDLE_CWND, UseCause.RECOVERY),
        (~waiting, Use.IDLE_APP, UseCause.NONE),
    ):
        use[where], cause[where] = its_use, its_cause
    mss = view.variable_before("snd_mss_bytes", woken)
    small = (use == Use.UNKNOWN) & (unsent > 0) & (unsent < mss) & (flight > 0)
    use[small], cause[small] = Use.IDLE_APP, UseCause.NAGLE
    return use, cause
