"""The account without a link log: when the link must have been idle, from the sender's packets and its TCP.

Rules of the file
-----------------
- A segment has left the link when it reached the receiver, or else when its own ACK came back, less the
  shortest such time of the transfer: what remains of each is what it waited and was sent. No rate is needed
  for that, so a link that stalls is not taken for an idle one.
- Segments leave in order. From the departure of one until the next is sent the link was idle.
- A copy of which neither is known left no trace: it follows the one before it, after the time of its octets
  at the transfer's rate. Copies but the last are `redundant`; with the receiver's capture, copies that did
  not arrive are `wasted`.
- What the link itself did (arq, xoff, outage) cannot be distinguished from `useful`.
- One direction alone, or a capture made at the receiver, does not tell when the sender waited: all of the
  time is `unknown` then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import places
from multitracer.analysis.two_points.packets import Outcome
from multitracer.analysis.verdicts import Cause
from multitracer.diagnosis.account.by_slots import opens_or_closes
from multitracer.diagnosis.account.uses import Use, Uses, idle
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.diagnosis.ranges import first_covered
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array, Document

_HEADERS_BYTES = 40  # of IPv4 and TCP without options (RFC 791, section 3.1; RFC 9293, section 3.1)
_RATE_SEGMENTS = 16  # ACKs over which a rate is taken: one alone may cover several segments. Not measured
_RATE_QUANTILE = 0.75  # of these rates is the link's: above lie bunches of ACKs, below pauses. Not measured


def inferred(transfer: Transfer) -> Table:
    """Return LINK_USE of a transfer, concluded from its packets."""
    view = transfer.once(SenderView)
    rows = _carried_rows(transfer)
    begin_ns, end_ns = transfer.begin_ns, transfer.end_ns
    if not len(rows) or untold(transfer):
        return _unknown(transfer, rows)
    sent = np.clip(transfer.sender["time_ns"][rows] - begin_ns, 0, None)
    sent = np.maximum.accumulate(sent)
    seen = _seen(transfer, rows)
    fresh, rest = _fresh(transfer, rows, seen)
    left = _departures(view, rows, sent, seen, in_vain=(rest != Use.OTHER) & (fresh == 0))
    limit = end_ns - begin_ns
    sent, left = np.minimum(sent, limit), np.minimum(left, limit)
    before = np.concatenate([[0], left[:-1]])
    per_ns = transfer.speed / NS_PER_S
    served = _served(transfer, rows, (fresh, rest), (np.maximum(sent, before), left), per_ns)
    idle_begin, idle_end = np.append(before, left[-1]), np.append(np.maximum(sent, before), limit)
    ender = next_occupying(transfer, np.append(rows, NA))
    gaps = np.flatnonzero(idle_end > idle_begin)
    why = idle(view, begin_ns + idle_begin[gaps], ender[gaps])
    empty = Uses.of(
        idle_begin[gaps],
        idle_end[gaps],
        why.use,
        (idle_end - idle_begin)[gaps] * per_ns,
        cause=why.cause,
        back_off=why.back_off,
        source="sender",
        row=np.append(rows[:1], rows)[gaps],
        ended_row=ender[gaps],
    )
    return Uses.together([*served, empty]).table(lambda places: begin_ns + np.rint(places).astype(np.int64))


def untold(transfer: Transfer) -> str:
    """Return why the packets do not tell what the link was used for; empty if they do."""
    if len(transfer.sent) in {0, len(transfer.sender)}:
        return "only one direction was captured"
    if transfer.layers.vantage is Vantage.NEAR_RECEIVER:
        return "it was captured at the receiver, where the sender's waiting does not show"
    return ""


def _unknown(transfer: Transfer, rows: Array) -> Table:
    """Return the account of a transfer of which packets tell no more than what was delivered."""
    seen = transfer.sender["time_ns"][rows]
    payload = _fresh(transfer, rows, seen)[0].sum() if len(rows) else 0
    stamps = np.array([[transfer.begin_ns, transfer.end_ns]])[: int(transfer.total_s > 0 or payload > 0)]
    seconds = np.full(len(stamps), transfer.total_s)
    places = stamps - transfer.begin_ns
    nothing = Uses.of(places[:, 0], places[:, 1], Use.UNKNOWN, seconds, payload=np.full(len(stamps), payload))
    return nothing.table(lambda places: transfer.begin_ns + places.astype(np.int64))


def _carried_rows(transfer: Transfer) -> Array:
    """Return the rows of the data direction from the first SYN on, but for copies that never left."""
    rows, verdicts = transfer.sent, transfer.verdicts
    refused = verdicts["earlier_row"][verdicts["cause"] == Cause.LOCAL_DROP]
    left = (transfer.sender["time_ns"][rows] >= transfer.begin_ns) & ~np.isin(rows, refused)
    return np.asarray(rows[left])


def _seen(transfer: Transfer, rows: Array) -> Array:
    """Return when each segment or else its ACK arrived, by the sender's clock; NOT_A_TIME if neither."""
    pairs = transfer.data_pairs
    if pairs is not None and (pairs.table["outcome"] == Outcome.MATCHED).any():
        arrived = np.full(len(transfer.sender), NOT_A_TIME, dtype=np.int64)
        both = np.flatnonzero((pairs.sent != NA) & (pairs.arrived != NA))
        arrived[pairs.sent[both]] = transfer.came_ns[pairs.arrived[both]]
        return arrived[rows]
    return _acknowledged(transfer, rows)


def _acknowledged(transfer: Transfer, rows: Array) -> Array:
    """Return when the ACK of exactly each segment came; NOT_A_TIME for what was sent again or behind a hole.

    The ACK of what lies behind a hole tells when the hole was filled, not when it arrived. An ACK that a
    timer's retransmission may have brought about tells nothing either: the first one may have been lost.
    """
    rtt, time = transfer.sender["rtt_ns"][rows], transfer.sender["time_ns"]
    known = rtt >= 0  # one that is negative is the clock's fault
    verdicts = transfer.verdicts
    by_timer = np.isin(verdicts["cause"], (Cause.TIMEOUT, Cause.TAIL_LOSS_PROBE))
    timers = np.append(np.sort(time[verdicts["row"][by_timer]]), np.iinfo(np.int64).max)
    soonest = int(rtt[known].min()) if known.any() else 0
    came = time[rows] + np.where(known, rtt, 0)
    known &= timers[np.searchsorted(timers[:-1], time[rows], side="right")] > came - soonest
    return np.where(known, came, NOT_A_TIME)


def _departures(view: SenderView, rows: Array, sent: Array, seen: Array, *, in_vain: Array) -> Array:
    """Return when each segment had left the link, ns since the transfer began, ascending.

    What left no trace follows the one before it, after the time of its own octets, as far as what did leave
    one gives it that time: on a link that is busy all along there was none for a copy that was dropped.
    """
    transfer = view.transfer
    units = transfer.sender["payload_bytes"][rows] + _HEADERS_BYTES
    carries = transfer.sender["end_bytes"][rows] > transfer.sender["seq_bytes"][rows]
    own = np.where(carries, units / _rate(view), 0.0)
    known = carries & (seen != NOT_A_TIME)
    since = np.where(known, seen - transfer.begin_ns, 0)
    prompt = known & (since >= sent + own)
    rest = (since - sent - own)[prompt].min() if prompt.any() else 0.0
    by_sight = np.where(known, np.maximum(since - rest, sent), sent + own)
    unseen = np.where(known, 0.0, own)
    if in_vain.any():
        unseen[in_vain] *= _part_that_fits(unseen, (by_sight - own, by_sight), known, in_vain)
    passed = np.cumsum(unseen)
    left = np.maximum.accumulate(np.where(known, by_sight, sent + unseen) - passed) + passed
    latest = np.minimum.accumulate(np.where(known, by_sight - own, np.inf)[::-1])[::-1]
    left = np.where(known, left, np.minimum(left, latest))
    return np.asarray(np.rint(np.maximum.accumulate(left)).astype(np.int64))


def _part_that_fits(unseen: Array, service: tuple[Array, Array], known: Array, in_vain: Array) -> Array:
    """Return which part of each unneeded copy fits between the known departures around it.

    Parameters
    ----------
    unseen : ndarray of float64
        Time that the octets of each segment take, 0 for those whose departure is known.
    service : two ndarray of float64
        When the link began with each segment, and when it was done; valid for the known ones.
    known, in_vain : ndarray of bool
    """
    stretch = np.cumsum(known)
    room = np.append(service[0][known], np.inf) - np.append(0.0, service[1][known])
    taken = unseen > 0
    sums = [
        np.bincount(stretch[each], unseen[each], minlength=len(room))
        for each in (taken & ~in_vain, taken & in_vain)
    ]
    of = stretch[in_vain]
    return np.asarray(np.clip((room[of] - sums[0][of]) / np.maximum(sums[1][of], 1.0), 0.0, 1.0))


def _rate(view: SenderView) -> float:
    """Return octets per recorded ns that the link carried while it had enough: of ACKs over 16 segments.

    Infinite where never more than one segment was outstanding: then nothing tells how fast the link is.
    """
    transfer, acks = view.transfer, view.transfer.acks
    table, data = transfer.sender, transfer.data
    size = max(int(np.median(transfer.payload_bytes)) if len(data) else 1, 1)
    covered = view.highest_acked
    new = np.flatnonzero(np.diff(covered, prepend=covered[:1]) > 0)
    step = min(_RATE_SEGMENTS, len(new) - 1)
    if step < 1:
        return math.inf
    busy = view.flight_bytes(acks[new]) >= size
    count = np.append(0, np.cumsum(busy))
    kept_busy = (count[step:] - count[:-step])[: len(new) - step] == step
    time, covered = table["time_ns"][acks[new]], covered[new]
    gone, octets = time[step:] - time[:-step], covered[step:] - covered[:-step]
    rates = (octets * (1 + _HEADERS_BYTES / size) / np.maximum(gone, 1))[kept_busy]
    return float(np.quantile(rates, _RATE_QUANTILE)) if len(rates) else math.inf


def _served(
    transfer: Transfer,
    rows: Array,
    use: tuple[Array, Array],
    service: tuple[Array, Array],
    per_ns: float,
) -> list[Uses]:
    """Return what the time in which the link carried each segment was for: of new data, of others."""
    payload = transfer.sender["payload_bytes"][rows].astype(np.int64)
    fresh, rest = use
    share = fresh / np.maximum(payload, 1)
    seconds = (service[1] - service[0]) * per_ns
    facts: Document = {"source": "sender", "row": rows}
    new = Uses.of(*service, Use.USEFUL, seconds * share, payload=fresh, **facts)
    old = Uses.of(*service, rest, seconds * (1 - share), **facts)
    return [new.where((new.seconds > 0) | (new.payload > 0)), old.where(old.seconds > 0)]


def _fresh(transfer: Transfer, rows: Array, seen: Array) -> tuple[Array, Array]:
    """Return the payload that each copy brought first, and what the rest of it is for."""
    table = transfer.sender
    payload = table["payload_bytes"][rows].astype(np.int64)
    begin = table["end_bytes"][rows] - payload
    fresh = np.zeros(len(rows), dtype=np.int64)
    arrived = transfer.data_pairs is not None
    came = np.flatnonzero((payload > 0) & ((seen != NOT_A_TIME) | (not arrived)))
    order = came if arrived else came[::-1]
    fresh[order] = first_covered(begin[order], begin[order] + payload[order])
    fresh[begin + payload > _acknowledged_end(transfer)] = 0
    rest = np.where(payload > 0, Use.REDUNDANT, Use.OTHER).astype(np.uint8)
    if arrived:
        rest[(payload > 0) & (seen == NOT_A_TIME)] = Use.WASTED
    control = np.flatnonzero(payload == 0)
    rest[control[opens_or_closes(transfer, rows[control])]] = Use.HANDSHAKE
    return fresh, rest


def fresh_payload(transfer: Transfer, rows: Array) -> tuple[Array, Array]:
    """Return the payload that each copy brought first, and what the rest of it is for.

    By the receiver's capture; without it the last copy of each byte is the one that arrived.

    Parameters
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Rows of `sender` in the data direction, ascending.

    Returns
    -------
    fresh, rest : ndarray, shape of `rows`
        Bytes (int64, 0 and more), and a `Use`.
    """
    return _fresh(transfer, rows, _seen(transfer, rows))


def _acknowledged_end(transfer: Transfer) -> int:
    return int(transfer.sender["ack_bytes"][transfer.acks].max(initial=0))


def next_occupying(transfer: Transfer, rows: Array) -> Array:
    """Return for each row itself or the next that occupies sequence space; NA (also for NA) if none does.

    Parameters
    ----------
    transfer : Transfer
    rows : ndarray of int64, shape (n,)
        Rows of `sender`, or NA.

    Returns
    -------
    ndarray of int64, shape of `rows`
    """
    at = places(transfer.occupying, np.where(rows == NA, len(transfer.sender), rows))
    return np.append(transfer.occupying, NA)[at]
