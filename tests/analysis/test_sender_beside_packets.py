"""The sender's variables beside its packets: a real kernel's transfer, captured and traced at once.

What tcp_probe shows is checked against the packets by content, not by time: before a segment is applied, the
kernel's SND.UNA is what the segments before it acknowledged. Polling is checked against tcp_probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import parsers
from multitracer.analysis import analyse
from multitracer.analysis.group import SegmentKind
from multitracer.analysis.sender_state import (
    TcpPhase,
    applied,
    in_bytes,
    join,
    join_events,
    phases_of_packets,
    phases_of_state,
    with_ca_state,
)
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_US
from tests.collectors.transfer import record
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from multitracer.tables import Array

pytestmark = [pytest.mark.root, pytest.mark.realtime]  # 95 % of the readings within 1 ms, all within LATE_NS
MS = 1_000_000
SOME = 200  # readings of some 700; 370 to 600 at a load of 17 on two processors
LATE_NS = 20 * MS  # a busy machine may hand a packet to TCP late; the p99 is below 50 us
APPLYING_NS = MS // 2  # between the trace point and the end of what the segment does


class Run(NamedTuple):
    """One transfer: its segments, its sender's readings by both collectors, and the kernel's events."""

    segments: Table
    probes: Table
    polled: Table
    events: Table

    @property
    def arrivals(self) -> Table:
        return self.segments.take(self.segments["reverse"])

    @property
    def arrived_ns(self) -> Array:
        """When each arrived, less the part of a microsecond that ftrace cuts off the times of the kernel's records."""
        return self.arrivals["time_ns"] - NS_PER_US

    def packet_of(self, time_ns: Array) -> Array:
        """Return the arrival at or before each instant."""
        return np.searchsorted(self.arrived_ns, time_ns, side="right") - 1


@pytest.fixture(scope="module", params=["reno", "cubic"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    logs = record(tmp_path_factory.mktemp(request.param), congestion_control=request.param, seconds=5)
    capture = parsers.read_capture([logs.pcap])
    analysis = analyse(capture)
    parts = [tables_of(log) for log in (logs.tcp_probe, logs.tcp_info)]
    state = Table.concatenate(TCP_STATE, [part["tcp_state"] for part in parts])
    facts: dict[str, Any] = {"flows": capture.flows, "connections": analysis.connections}
    events = join_events(parts[0]["tcp_events"], **facts)
    joined = with_ca_state(in_bytes(join(state, **facts), directions=analysis.directions), events)
    ours = joined.take((joined["connection"] == 1) & ~joined["reverse"])
    probes, polled = (ours.take(ours["method"] == method) for method in (ReadBy.TCP_PROBE, ReadBy.TCP_INFO))
    assert len(analysis.connections) == 1
    own = events.take((events["connection"] == 1) & ~events["reverse"])
    return Run(analysis.tcp_segments(1), probes, polled, own)


def test_both_sources_know_the_same_socket(run: Run) -> None:
    assert len(run.probes) > 500
    assert len(run.polled) > SOME
    assert len(np.unique(np.concatenate([run.probes["socket"], run.polled["socket"]]))) == 1


def test_each_record_of_tcp_probe_stands_at_its_packet(run: Run) -> None:
    probed_ns, arrived_ns = run.probes["time_ns"], run.arrived_ns
    reached = np.maximum.accumulate(run.arrivals["ack_bytes"])
    una = (run.probes["snd_una"] - run.probes["snd_una"][0]) % 2**32 + 1
    by_time = run.packet_of(probed_ns)[:-1]
    by_content = np.searchsorted(reached, una[1:])  # what a record's packet did, the next record shows
    assert (reached[by_time] >= una[1:]).all(), "no record stands before its packet"
    assert np.mean(reached[by_time] == una[1:]) > 0.98  # two processors may hand ACKs over in either order
    advanced = np.diff(una) > 0
    delay = (probed_ns[:-1] - arrived_ns[by_content])[advanced]
    assert np.percentile(delay, 95) < MS
    assert delay.max() < LATE_NS, "and none long after it"


def test_each_change_of_cwnd_stands_at_the_packet_that_made_it(run: Run) -> None:
    moved = applied(run.probes, events=run.events)
    una = (run.probes["snd_una"] - run.probes["snd_una"][0]) % 2**32 + 1
    by_packet = moved["time_ns"] == moved["read_before_ns"]  # and not by the timer
    stays_open = (ca_state_before(moved) == TcpCaState.OPEN) & (moved["ca_state"] == TcpCaState.OPEN)
    stays_open &= ~passes_another_state(moved, run.events)
    change = np.diff(moved["cwnd_segments"], prepend=moved["cwnd_segments"][0])
    assert ((change > 0) & stays_open).sum() > 10
    assert not ((change < 0) & stays_open & by_packet).any(), "an open window never shrinks"
    changes = np.flatnonzero((change > 0) & stays_open & by_packet)
    advanced = una[changes + 1] > una[changes]
    undone = np.isin(una[changes], acknowledged_with_dsack(run.arrivals))
    assert (advanced | undone).all(), "and grows by new acknowledgments, or by a D-SACK that undoes a cut"
    changes = changes[advanced]
    assert len(changes) > 10
    packet = np.searchsorted(np.maximum.accumulate(run.arrivals["ack_bytes"]), una[changes + 1])
    assert (moved["time_ns"][changes] >= run.arrived_ns[packet]).all()
    needless = np.isin(una[changes + 1], acknowledged_with_dsack(run.arrivals))
    assert (change[changes] <= acknowledged(run, una)[changes] + needless).all(), "by what its packet tells"


def acknowledged(run: Run, una: Array) -> Array:
    """Return how many segments the packet of each record, but the last, acknowledges."""
    ends = np.unique(run.segments["end_bytes"][~run.segments["reverse"]])
    return np.diff(np.searchsorted(ends, una, side="right"))


def ca_state_before(moved: Table) -> Array:
    """Return the congestion state that each row's packet found; the first found an open one."""
    return np.concatenate([[int(TcpCaState.OPEN)], moved["ca_state"][:-1]])


def passes_another_state(moved: Table, events: Table) -> Array:
    """Return which rows' changes lie beside one of the state: a lost probe passes CWR within one ACK."""
    changed = events["time_ns"][events["event"] == TcpEvent.CA_STATE]
    first, last = (np.searchsorted(changed, moved[f"read_{end}_ns"]) for end in ("before", "after"))
    passes: Array = first < last
    return passes


def acknowledged_with_dsack(arrivals: Table) -> Array:
    """Return the ACK numbers that came with a D-SACK (tcp_try_undo_dsack restores the window then)."""
    numbers: Array = arrivals["ack_bytes"][(arrivals["kind"] & np.uint32(SegmentKind.DSACK)) != 0]
    return numbers


def test_slow_start_adds_no_more_than_its_packet_acknowledges(run: Run) -> None:
    """An ACK that also selectively acknowledges adds more, and leaves the open state.

    A D-SACK counts as delivered, too (tcp_dsack_seen): on a busy machine a tail loss probe is one too many.
    """
    cwnd = run.probes["cwnd_segments"]
    una = (run.probes["snd_una"] - run.probes["snd_una"][0]) % 2**32 + 1
    before_any_loss = (run.probes["ssthresh_segments"] == NA) & (run.probes["ca_state"] == TcpCaState.OPEN)
    within = before_any_loss[:-1] & before_any_loss[1:]
    grown = np.diff(cwnd)[within]
    assert (grown > 0).any()
    needless = np.isin(una[1:], acknowledged_with_dsack(run.arrivals))
    assert (grown <= (acknowledged(run, una) + needless)[within]).all()


def test_polling_agrees_with_tcp_probe_within_its_interval(run: Run) -> None:
    moved = applied(run.probes, events=run.events)
    at, cwnd = moved["time_ns"], moved["cwnd_segments"]
    before, after = (run.polled[f"read_{end}_ns"] for end in ("before", "after"))
    first = np.searchsorted(at, before - APPLYING_NS, side="right") - 1
    last = np.searchsorted(at, after, side="right") - 1
    timers = np.append(np.cumsum(moved["time_ns"] != moved["read_before_ns"]), 0)
    traced = (first >= 0) & (last < len(at) - 1)
    traced &= timers[first] == timers[last + 1]  # what the ACK before a timeout did is unseen
    assert traced.sum() > SOME
    for row in np.flatnonzero(traced):
        assert run.polled["cwnd_segments"][row] in cwnd[first[row] : last[row] + 1]


def test_timeout_stands_at_the_timer_not_at_a_packet(run: Run) -> None:
    timeouts = run.events["time_ns"][
        (run.events["event"] == TcpEvent.CA_STATE) & (run.events["ca_state"] == TcpCaState.LOSS)
    ]
    assert len(timeouts), "nothing passed for a second"
    moved = applied(run.probes, events=run.events)
    after = np.searchsorted(moved["time_ns"], timeouts[0])
    assert moved["time_ns"][after] == timeouts[0]
    assert moved["ca_state"][after] == TcpCaState.LOSS
    assert moved["cwnd_segments"][after] < moved["cwnd_segments"][after - 1]
    sent = run.segments.take(~run.segments["reverse"])
    nearest = np.abs(sent["time_ns"] - timeouts[0]).min()
    assert nearest < LATE_NS, "the timer retransmits at once"


def test_windows_are_in_bytes_by_the_segment_size_of_the_packets(run: Run) -> None:
    full = int(run.segments["payload_bytes"][~run.segments["reverse"]].max())
    for table in (run.probes, run.polled):
        shown = table.take(table["cwnd_segments"] != NA)  # a socket that waits for the other's FIN has none
        assert set(shown["snd_mss_bytes"].tolist()) == {full}
        assert (shown["cwnd_bytes"] == shown["cwnd_segments"] * full).all()


def test_flight_of_tcp_probe_is_that_of_the_packets(run: Run) -> None:
    packet = run.packet_of(run.probes["time_ns"])
    rows = np.flatnonzero(run.segments["reverse"])[packet]
    before = run.segments["flight_bytes"][rows - 1]
    same = np.abs(before - run.probes["flight_bytes"]) <= run.probes["snd_mss_bytes"]
    assert np.mean(same) > 0.9


def test_phases_of_the_kernel_show_the_losses(run: Run) -> None:
    phases = phases_of_state(run.probes, events=run.events)
    assert {TcpPhase.SLOW_START, TcpPhase.CONGESTION_AVOIDANCE, TcpPhase.LOSS} <= set(phases["phase"].tolist())
    assert not phases["reconstructed"].any()
    loss = phases["begin_ns"][phases["phase"] == TcpPhase.LOSS][0]
    entered = run.events["time_ns"][run.events["ca_state"] == TcpCaState.LOSS]
    assert loss in entered.tolist()


def test_each_reading_by_polling_shows_the_phase_that_the_kernel_was_in(run: Run) -> None:
    known = phases_of_state(run.probes, events=run.events)
    read = phases_of_state(run.polled)
    lasting = within_one(known, run.polled["read_before_ns"], run.polled["read_after_ns"])
    assert lasting.sum() > SOME
    for row in np.flatnonzero(lasting):
        assert phase_at(read, run.polled["time_ns"][row]) == phase_at(known, run.polled["time_ns"][row])


def test_phases_by_packets_show_each_loss_and_recovery_of_the_kernel(run: Run) -> None:
    """Not the reverse: a tail loss probe is not told from a timeout by packets alone."""
    known = phases_of_state(run.probes, events=run.events)
    by_packets = phases_of_packets(run.segments, reverse=False)
    instants = np.linspace(known["begin_ns"][0], known["end_ns"][-1], 10_000).astype(np.int64)
    settled = within_one(known, instants - LATE_NS, instants + LATE_NS)
    lost = instants[settled & (phase_at(known, instants) == TcpPhase.LOSS)]
    assert len(lost)
    assert (phase_at(by_packets, lost) == TcpPhase.LOSS).all()
    entered = known["begin_ns"][known["phase"] == TcpPhase.RECOVERY]
    shown = by_packets["begin_ns"][np.isin(by_packets["phase"], [TcpPhase.RECOVERY, TcpPhase.LOSS])]
    for entry in entered:
        inside = phase_at(by_packets, entry) in {TcpPhase.RECOVERY, TcpPhase.LOSS}
        assert inside or np.abs(shown - entry).min() < LATE_NS


def phase_at(phases: Table, time_ns: Array) -> Array:
    """Return the phase at each instant."""
    at = np.searchsorted(phases["begin_ns"], time_ns, side="right") - 1
    found: Array = phases["phase"][np.maximum(at, 0)]
    return found


def within_one(phases: Table, begin_ns: Array, end_ns: Array) -> Array:
    """Return which intervals lie within one phase, and not at its edges."""
    first, last = (
        np.searchsorted(phases["begin_ns"], time_ns, side="right")
        for time_ns in (begin_ns - APPLYING_NS, end_ns + APPLYING_NS)
    )
    within: Array = (first > 0) & (first == last) & (end_ns + APPLYING_NS < phases["end_ns"][-1])
    return within


def test_threshold_of_tcp_probe_is_not_the_one_of_the_socket(run: Run) -> None:
    """It is tcp_current_ssthresh: in an open state never below three quarters of the window."""
    probes = run.probes.take((run.probes["ssthresh_segments"] != NA) & (run.probes["ca_state"] == TcpCaState.OPEN))
    cwnd = probes["cwnd_segments"]
    assert (probes["ssthresh_segments"] >= (cwnd >> 1) + (cwnd >> 2)).all()
