"""What a sender's congestion control was doing when: slow start, congestion avoidance, recovery, loss.

From the sender's own variables where they were recorded, else concluded from its packets and marked so.

Rules for packets alone
-----------------------
- The first retransmission opens an episode; it ends with the ACK of everything that had been sent by then
  (the recovery point of RFC 6582).
- It is *recovery* if an ACK had just arrived that could have caused it, else, after silence, *loss*. Silence
  within an episode turns recovery into loss.
- Before the first episode a sender is in slow start up to the last round trip whose peak of outstanding
  bytes is two fifths above all before. After loss it is in slow start until half of what was outstanding at
  the loss is outstanding again. Otherwise it is in congestion avoidance.
- A tail loss probe follows silence too, and is taken for loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.kind import Kind
from multitracer.analysis.sender.sender_state import applied
from multitracer.protocols.sock_diag import CaState, ReadBy
from multitracer.sender import JOINED_STATE, TCP_PHASES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.tables import Array


class Phase(IntEnum):
    """The phases of TCP_PHASES."""

    SLOW_START = 1
    CONGESTION_AVOIDANCE = 2
    REDUCTION = 3
    """The window shrinks without a loss: ECN, or a drop in the host itself (Linux: CWR)."""
    RECOVERY = 4
    """Fast retransmit and fast recovery."""
    LOSS = 5
    """A retransmission timeout, until everything sent before it is acknowledged."""


_OF_CA_STATE = {
    CaState.CWR: Phase.REDUCTION,
    CaState.RECOVERY: Phase.RECOVERY,
    CaState.LOSS: Phase.LOSS,
}
_GROWS = 1.4
"""Slow start with delayed ACKs grows half as fast again per round trip on old senders, twice on new ones."""
_MOST_ROUNDS = 10_000
"""Round trips after which nobody is in slow start for the first time any more."""
_LEAST_SILENCE_NS = 10 * NS_PER_MS
"""A silence is this and a quarter of the shortest round trip: hosts send sooner. Not measured."""


def phases_of_state(state: Table, *, events: Table | None = None) -> Table:
    """Return TCP_PHASES of one sender from its variables.

    Parameters
    ----------
    state : Table
        JOINED_STATE of one sender (one connection and direction), tcp_probe's rows with their congestion
        state (`with_ca_state`).
    events : Table, optional
        JOINED_EVENTS of the same recording; with them a timeout begins when it happened.

    Returns
    -------
    Table
        A reading without congestion state (of `ss`, of siftr) cannot show recovery. It is used only if no
        reading has one; the phases are then marked `reconstructed`.
    """
    polled = state.take(state["method"] != ReadBy.TCP_PROBE)
    both = Table.concatenate(JOINED_STATE, [polled, applied(state, events=events)])
    points = both.take(np.lexsort((both["method"], both["time_ns"])))
    phase = _phase_of_rows(points)
    known = (phase != 0) & (points["time_ns"] != NOT_A_TIME)
    if (points["ca_state"][known] != NA).any():
        known &= points["ca_state"] != NA
    points, phase = points.take(known), phase[known]
    return _runs(points["time_ns"], phase, points["ca_state"] == NA)


def _phase_of_rows(points: Table) -> Array:
    """Return the phase that each reading shows, 0 where it shows none."""
    cwnd, ssthresh = points["cwnd_segments"], points["ssthresh_segments"]
    in_bytes = cwnd == NA
    cwnd = np.where(in_bytes, points["cwnd_bytes"], cwnd)
    ssthresh = np.where(in_bytes, points["ssthresh_bytes"], ssthresh)
    below = (ssthresh == NA) | (cwnd < ssthresh)
    phase: Array = np.where(below, int(Phase.SLOW_START), int(Phase.CONGESTION_AVOIDANCE))
    phase[cwnd == NA] = 0
    for ca_state, shown in _OF_CA_STATE.items():
        phase[points["ca_state"] == ca_state] = shown
    return phase


def _runs(time_ns: Array, phase: Array, reconstructed: Array) -> Table:
    """Return the intervals of equal phases."""
    if not len(phase):
        return Table.empty(TCP_PHASES)
    first = np.flatnonzero(np.diff(phase, prepend=0) != 0)
    begin = time_ns[first]
    columns = {
        "begin_after_ns": np.concatenate([begin[:1], time_ns[first[1:] - 1]]),
        "begin_ns": begin,
        "end_ns": np.append(begin[1:], time_ns[-1]),
        "phase": phase[first].astype(np.uint8),
        "reconstructed": reconstructed[first],
    }
    return Table(TCP_PHASES, columns)


@dataclass(slots=True)
class _Sender:
    """One direction's packets as its sender's capture shows them."""

    time_ns: Array
    sent: Array
    """Rows that occupy sequence space in this direction."""
    again: Array
    """Rows that are retransmissions."""
    arrived: Array
    """Rows that came back, with an acknowledgment."""
    highest: Array
    """Highest byte sent before or in each row."""
    reached: Array
    """Highest byte acknowledged before or in each row."""
    flight: Array
    """Bytes outstanding after each row."""
    silence_ns: int
    """How long after an arrival a retransmission is no longer put down to it."""


@dataclass(slots=True)
class _Episode:
    """From a first retransmission to the ACK of everything sent before it; rows."""

    begin: int
    end: int
    loss: int | None
    """The first retransmission after silence."""
    flight_bytes: int


def phases_of_packets(segments: Table, *, reverse: bool) -> Table:
    """Return TCP_PHASES of one direction as its packets suggest them, all `reconstructed`.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection, captured at or near this direction's sender.
    reverse : bool
        Whose phases: False the initiator's, True the responder's.
    """
    sender = _sender(segments, reverse=reverse)
    if not len(sender.sent):
        return Table.empty(TCP_PHASES)
    episodes = _episodes(sender)
    marks = [(int(sender.sent[0]), Phase.SLOW_START)]
    end = episodes[0].begin if episodes else len(sender.time_ns)
    if (ceased := _growth_ceased(sender, end)) is not None:
        marks.append((ceased, Phase.CONGESTION_AVOIDANCE))
    ends = [*(episode.begin for episode in episodes[1:]), len(sender.time_ns)]
    for episode, until in zip(episodes, ends, strict=False):
        marks += _marks(episode, sender, until)
    rows = np.array([row for row, _ in marks])
    phase = np.array([int(phase) for _, phase in marks])
    last = max(int(sender.sent[-1]), int(sender.arrived[-1]) if len(sender.arrived) else 0)
    time_ns = sender.time_ns[np.append(rows, last)]
    return _runs(time_ns, np.append(phase, phase[-1]), np.ones(len(phase) + 1, dtype=bool))


def _sender(segments: Table, *, reverse: bool) -> _Sender:
    own = segments["reverse"] == reverse
    occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
    probes = Kind.ZERO_WINDOW_PROBE | Kind.KEEP_ALIVE | Kind.CAPTURE_DUPLICATE
    plain = (segments["kind"] & np.uint32(probes)) == 0
    again = occupies & plain & ((segments["kind"] & np.uint32(Kind.RETRANSMISSION)) != 0)
    back = ~own & (segments["ack_bytes"] != NA)
    sampled = segments["rtt_ns"][own & (segments["rtt_ns"] > 0)]
    least_rtt_ns = int(sampled.min()) if len(sampled) else 0
    highest = np.maximum.accumulate(np.where(occupies, segments["end_bytes"], 0))
    reached = np.maximum.accumulate(np.where(back, segments["ack_bytes"], 0))
    return _Sender(
        segments["time_ns"],
        np.flatnonzero(occupies & plain),
        np.flatnonzero(again),
        np.flatnonzero(back),
        highest,
        reached,
        np.maximum(highest - reached, 0),
        _LEAST_SILENCE_NS + least_rtt_ns // 4,
    )


def _episodes(sender: _Sender) -> list[_Episode]:
    episodes: list[_Episode] = []
    silent = _silent(sender)
    at = 0
    while at < len(sender.again):
        begin = int(sender.again[at])
        point = sender.highest[max(begin - 1, 0)]
        end = int(np.searchsorted(sender.reached, point))
        if end < begin:  # a copy of what is acknowledged already
            at += 1
            continue
        following = (
            int(np.searchsorted(sender.again, end)) if end < len(sender.time_ns) else len(sender.again)
        )
        losses = sender.again[at:following][silent[at:following]]
        loss = int(losses[0]) if len(losses) else None
        episodes.append(_Episode(begin, end, loss, int(sender.flight[max(begin - 1, 0)])))
        at = max(following, at + 1)
    return episodes


def _silent(sender: _Sender) -> Array:
    """Return for each retransmission whether no segment that could have caused it arrived shortly before."""
    before = np.searchsorted(sender.arrived, sender.again) - 1
    arrived_ns = np.append(sender.time_ns[sender.arrived], 0)[before]
    silent: Array = (before < 0) | (sender.time_ns[sender.again] - arrived_ns > sender.silence_ns)
    return silent


def _growth_ceased(sender: _Sender, end: int) -> int | None:
    """Return the row behind the last round trip whose peak flight is two fifths above all before."""
    at, peak, ceased = 0, 0, None
    for _ in range(_MOST_ROUNDS):
        if at >= len(sender.sent):
            break
        row = int(sender.sent[at])
        answered = max(int(np.searchsorted(sender.reached, sender.highest[row])), row)
        if answered >= end:
            break
        highest = int(sender.flight[row : answered + 1].max())
        if highest >= _GROWS * peak:
            ceased = None
        elif ceased is None:
            ceased = row
        peak = max(peak, highest)
        at = max(int(np.searchsorted(sender.sent, answered)), at + 1)
    return ceased


def _marks(episode: _Episode, sender: _Sender, until: int) -> list[tuple[int, Phase]]:
    """Return where phases begin within an episode and after it, up to row `until`."""
    marks = []
    if episode.loss != episode.begin:
        marks.append((episode.begin, Phase.RECOVERY))
    if episode.loss is not None:
        marks.append((episode.loss, Phase.LOSS))
    if episode.end >= until:
        return marks
    if episode.loss is None:
        return [*marks, (episode.end, Phase.CONGESTION_AVOIDANCE)]
    marks.append((episode.end, Phase.SLOW_START))
    half = np.flatnonzero(sender.flight[episode.end : until] >= episode.flight_bytes / 2)
    return [*marks, (episode.end + int(half[0]), Phase.CONGESTION_AVOIDANCE)] if len(half) else marks
