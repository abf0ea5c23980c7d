"""Rule 4 of the account: why nothing was sent though nothing was queued.

A gap takes the class of what ended it, for that is what the sender had waited for. The sender's limits are
those of the moment before: what was outstanding as the gap began, and what its TCP was last read to have
before the segment from the peer that ended the gap.

Four readings of the definition. A gap with the FIN outstanding that a retransmission of payload ends is no
handshake. One that nothing ended, in a transfer that was never completed, waited for the timer in vain. One
that new data ended while something sent again was outstanding waited for recovery, though the advertised
window was full. And an application that wrote less than a segment, which Nagle's algorithm keeps back, has
nothing to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import Kind
from multitracer.capture import Flag
from multitracer.diagnosis.packets.timeouts import timeouts
from multitracer.diagnosis.use import Use, UseCause
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.sender_view import SenderView
    from multitracer.tables import Array


class Idle(NamedTuple):
    """Why each of some gaps was."""

    use: Array
    cause: Array
    back_off: Array
    """1 for the first timeout in a row, NA where no timer ended the gap."""


def idle(view: SenderView, begin_ns: Array, ender: Array) -> Idle:
    """Return the class of gaps.

    Parameters
    ----------
    view : SenderView
    begin_ns : ndarray of int64, shape (n_gaps,)
        When the link had nothing left to send.
    ender : ndarray of int64, shape (n_gaps,)
        Row of `sender` that ended each gap: data, SYN or FIN; NA if none did.
    """
    table = view.transfer.sender
    row = np.maximum(ender, 0)
    kind, flags = (np.where(ender == NA, 0, table[name][row]) for name in ("kind", "flags"))
    payload = np.where(ender == NA, 0, table["payload_bytes"][row])
    again = (kind & int(Kind.RETRANSMISSION)) != 0
    probe = (kind & int(Kind.ZERO_WINDOW_PROBE)) != 0
    use, cause = _limits(view, begin_ns, ender, payload)
    _set(use, cause, probe, Use.IDLE_RWND)
    tries = _tries(view, ender)
    _set(use, cause, again, Use.IDLE_CWND, UseCause.RECOVERY)
    _set(use, cause, tries > 0, Use.IDLE_RTO)
    _set(use, cause, (ender == NA) & _unanswered(view, begin_ns), Use.IDLE_RTO, UseCause.UNFINISHED)
    closing = _fin_outstanding(view, begin_ns) & ~(again & (payload > 0)) & (use != Use.IDLE_RTO)
    _set(use, cause, closing | _opening(view, begin_ns, ender, flags), Use.HANDSHAKE)
    back_off = np.where(use == Use.IDLE_RTO, np.where(tries > 0, tries, NA), NA)
    return Idle(use, cause, back_off)


def _tries(view: SenderView, rows: Array) -> Array:
    """Return which timeout in a row sent each row, 0 for those that no timer sent."""
    by_timer, number = timeouts(view.transfer)
    at = np.minimum(np.searchsorted(by_timer, rows), max(len(by_timer) - 1, 0))
    has_timeouts = len(by_timer) > 0
    return (
        np.where(by_timer[at] == rows, number[at], 0) if has_timeouts else np.zeros(len(rows), dtype=np.int64)
    )


def _set(use: Array, cause: Array, where: Array, its_use: Use, its_cause: UseCause = UseCause.NONE) -> None:
    use[where], cause[where] = its_use, its_cause


def _limits(view: SenderView, begin_ns: Array, ender: Array, payload: Array) -> tuple[Array, Array]:
    """Return the class of each gap as if new data had ended it."""
    row = np.maximum(ender, 0)
    trigger = np.where(ender == NA, NA, view.trigger(row))
    before = np.where(trigger != NA, trigger, row) - 1
    at_begin = view.row_at(begin_ns)
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
    use = np.full(len(ender), Use.UNKNOWN, dtype=np.uint8)
    cause = np.zeros(len(ender), dtype=np.uint8)
    _set(use, cause, waiting & full, Use.IDLE_SNDBUF)
    _set(use, cause, waiting & (window_reached | cwnd_reached), Use.IDLE_RWND)
    _set(use, cause, by_cwnd, Use.IDLE_CWND)
    _set(use, cause, by_cwnd & _growing(view, woken, cwnd), Use.IDLE_CWND, UseCause.SLOW_START)
    _set(use, cause, waiting & view.in_recovery(moment), Use.IDLE_CWND, UseCause.RECOVERY)
    _set(use, cause, ~waiting, Use.IDLE_APP)
    mss = view.variable_before("snd_mss_bytes", woken)
    small = (use == Use.UNKNOWN) & (unsent > 0) & (unsent < mss) & (flight > 0)
    _set(use, cause, small, Use.IDLE_APP, UseCause.NAGLE)
    return use, cause


def _growing(view: SenderView, rows: Array, cwnd: Array) -> Array:
    """Return whether the window was below the slow-start threshold, or that was not set yet."""
    threshold = view.variable_before("ssthresh_bytes", rows)
    growing: Array = (cwnd != NA) & ((threshold == NA) | (cwnd < threshold))
    return growing


def _opening(view: SenderView, begin_ns: Array, ender: Array, flags: Array) -> Array:
    """Return which gaps lie before the first data segment, or are ended by a SYN."""
    data = view.transfer.data
    syn = (flags & int(Flag.SYN)) != 0
    if not len(data):
        return np.ones(len(ender), dtype=bool)
    first_ns = int(view.transfer.sender["time_ns"][data[0]])
    before: Array = syn | ((ender != NA) & (ender <= data[0])) | (begin_ns < first_ns)
    return before


def _fin_outstanding(view: SenderView, begin_ns: Array) -> Array:
    """Return whether the FIN had left and its ACK had not come as each gap began."""
    table, sent = view.transfer.sender, view.transfer.sent
    fins = sent[(table["flags"][sent] & np.uint16(Flag.FIN)) != 0]
    if not len(fins):
        return np.zeros(len(begin_ns), dtype=bool)
    covering = view.transfer.acks[table["ack_bytes"][view.transfer.acks] >= table["end_bytes"][fins[0]]]
    over_ns = int(table["time_ns"][covering[0]]) if len(covering) else np.iinfo(np.int64).max
    outstanding: Array = (begin_ns >= table["time_ns"][fins[0]]) & (begin_ns < over_ns)
    return outstanding


def _unanswered(view: SenderView, begin_ns: Array) -> Array:
    """Return whether payload was outstanding at the begin of each gap in a transfer never completed."""
    if view.transfer.is_complete:
        return np.zeros(len(begin_ns), dtype=bool)
    waiting: Array = view.flight_bytes(np.maximum(view.row_at(begin_ns), 0)) > 0
    return waiting
