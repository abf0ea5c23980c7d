"""What Linux does otherwise than the RFCs, against what a kernel wrote down of itself."""

from __future__ import annotations

import json
import lzma
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.lab.tcp.congestion.base import Acked
from multitracer.lab.tcp.congestion.linux_reno import LinuxReno
from multitracer.lab.tcp.connection import TcpReceiver
from multitracer.lab.tcp.profile import BSD, MODERN, as_linux
from multitracer.lab.tcp.state import AckInfo, CongestionState
from multitracer.lab.tcp.transmitter import LinuxRtoEstimator
from multitracer.recording.read import read
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from tests.conftest import SAMPLES
from tests.lab.stack.tcp_pair import Fate, Pair

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import TcpPacket

MSS = 460
PROFILE = as_linux(replace(BSD, mtu_bytes=512))


# --- the retransmission timer ---


def samples_of(name: str) -> list[tuple[int, int, int, int]]:
    """Return (time, RTT, snd_una, snd_nxt) of each ACK that gives the sender a sample, by its capture.

    As the kernel samples: from the first segment acknowledged, unless one of them was resent; then from the
    echoed timestamp, which is that of the copy that filled the hole.
    """
    (capture,) = (c.tables for c in read(SAMPLES / name).captures if c.point.name == "mobile")
    columns = (capture.segments[n].tolist() for n in ("time_ns", "flow", "seq", "ack", "payload_bytes"))
    rows = list(zip(*columns, strict=True))
    isn, stamped = rows[0][2], bool(capture.segments["tsval"].any())
    sent: dict[int, list[int]] = {}
    found, una, nxt = [], 0, 0
    for time_ns, flow, seq, ack, size in rows:
        if flow == 0 and (size or seq == isn):
            end = seq - isn + (size or 1)
            sent.setdefault(end, []).append(time_ns)
            nxt = max(nxt, end)
        elif flow == 1 and ack - isn > una:
            una = ack - isn
            copies = [sent.pop(end) for end in sorted(sent) if end <= una]
            first = [times for times in copies if len(times) > 1] or copies
            if copies and (stamped or len(first[0]) == 1):
                found.append((time_ns, time_ns - first[0][-1], una, nxt))
    return found


def kernels_own(name: str) -> list[tuple[int, int, int, int]]:
    """Return (time, SRTT, RTTVAR, RTO), ns, of each reading without a back-off."""
    found: list[tuple[int, int, int, int]] = []
    clocks: list[tuple[int, int]] = []
    with lzma.open(SAMPLES / name / "mobile" / "tcp_state.jsonl.xz", "rt") as lines:
        for line in lines:
            record: dict[str, Any] = json.loads(line)
            if record["kind"] == "clock":
                clocks.append((record["monotonic_before_ns"], record["realtime_ns"]))
            elif record["kind"] == "reading" and record["tcp_info"]["rtt"] and record["local_port"] == 1025:
                info = record["tcp_info"]
                if not info["backoff"]:
                    values = (info[key] * NS_PER_US for key in ("rtt", "rttvar", "rto"))
                    found.append((record["read_before_ns"] - clocks[-1][0] + clocks[-1][1], *values))
    return found


@pytest.mark.parametrize("name", ["fig4-slow-start", "overbuffered", "fig8-resets-plain", "fig11-fade"])
def test_the_timer_is_the_kernels_over_a_whole_call(name: str) -> None:
    """SRTT and deviation to the millisecond; the RTO but for the kernel's tick of 4 ms."""
    rto = LinuxRtoEstimator(initial_ns=NS_PER_S, min_ns=NS_PER_S, max_ns=64 * NS_PER_S, tick_ns=NS_PER_MS)
    course: list[tuple[int, ...]] = []
    for time_ns, rtt_ns, una, nxt in samples_of(name):
        rto.sample(rtt_ns, snd_una=una, snd_nxt=nxt)
        course.append((time_ns, rto.srtt_ns or 0, rto.rttvar_ns or 0, rto.rto_ns))
    times = [row[0] for row in course]
    apart = [
        [abs(a - b) for a, b in zip(course[bisect_right(times, at_ns) - 1][1:], kernel, strict=True)]
        for at_ns, *kernel in kernels_own(name)
        if at_ns >= times[0]
    ]
    assert len(apart) > 100
    srtt, rttvar, rto_ns = (max(column) for column in zip(*apart, strict=True))
    assert max(srtt, rttvar) < NS_PER_MS
    assert rto_ns < 6 * NS_PER_MS


def test_a_long_timer_expires_up_to_two_seconds_late() -> None:
    """`fig10-backoff`: an RTO of 31.95 s after 33.54 s, its double after 65.54 s, 32 steps of the wheel."""
    rto = LinuxRtoEstimator(initial_ns=NS_PER_S, min_ns=NS_PER_S, max_ns=64 * NS_PER_S, tick_ns=NS_PER_MS)
    rto.sample(int(31.952 / 3 * NS_PER_S))
    first_ns = rto.deadline_ns(35_300 * NS_PER_MS)
    rto.back_off()
    second_ns = rto.deadline_ns(first_ns)
    assert 0 < first_ns - 67_252 * NS_PER_MS <= 2_048 * NS_PER_MS
    assert second_ns - first_ns == 32 * 2_048 * NS_PER_MS
    assert rto.deadline_ns(first_ns) % (2_048 * NS_PER_MS) == 0


def test_an_answer_after_a_whole_second_is_in_time() -> None:
    """A handshake takes 50 slots, and no recorded host sent its SYN, ACK twice: the step comes later."""
    rto = LinuxRtoEstimator(initial_ns=NS_PER_S, min_ns=NS_PER_S, max_ns=64 * NS_PER_S, tick_ns=NS_PER_MS)
    expiries_ns = [rto.deadline_ns(slot * 20 * NS_PER_MS) - slot * 20 * NS_PER_MS for slot in range(100)]
    assert NS_PER_S < min(expiries_ns) <= max(expiries_ns) <= NS_PER_S + 32 * NS_PER_MS


def test_a_syn_is_repeated_each_second_at_first() -> None:
    pair = Pair(client=PROFILE, fate=lambda n, packet: [])
    pair.run(seconds=20)
    assert [round(seen.seconds) for seen in pair.sent["a"]] == [0, 1, 2, 3, 4, 5, 7, 11, 19]


# --- the window ---


def segments(size_bytes: int) -> float:
    return size_bytes / MSS


def test_a_recovery_lets_out_what_the_kernel_did() -> None:
    """The overflow of `fig4-slow-start`, at 19.3 s: 17 outstanding, the window at 31; tcp_info's numbers."""
    window = LinuxReno(mss_bytes=MSS, initial_window_bytes=31 * MSS)
    window.enter_fast_recovery(flight_bytes=17 * MSS, now_ns=0)
    assert segments(window.ssthresh_bytes) == 15
    for held in range(3, 16):  # the peer's window keeps all back
        in_flight = 17 - held
        assert in_flight + segments(window.cwnd_bytes - 17 * MSS) == 14
        if held < 15:
            window.on_duplicate_ack(flight_bytes=17 * MSS)

    assert window.on_partial_ack(2 * MSS, flight_bytes=15 * MSS)
    assert segments(window.cwnd_bytes - 15 * MSS) == 12  # and one that is resent: snd_cwnd 13, nothing in flight
    window.on_full_ack(15 * MSS, flight_bytes=2 * MSS)  # two new ones had left
    assert segments(window.cwnd_bytes) == 14
    window.leave_fast_recovery()
    assert segments(window.cwnd_bytes) == 15


def test_a_window_that_the_peer_limits_grows_to_twice_what_is_outstanding() -> None:
    window = LinuxReno(mss_bytes=MSS, initial_window_bytes=17 * MSS)
    for _ in range(60):
        ack = acked(17 * MSS, limited=False)
        if window.may_grow(ack):
            window.on_ack(ack)
    assert segments(window.cwnd_bytes) == 34  # as `sack-modern` has it from 12 s on


def test_an_ack_of_five_segments_opens_the_window_by_five() -> None:
    window = LinuxReno(mss_bytes=MSS, initial_window_bytes=2 * MSS)
    window.ssthresh_bytes = 6 * MSS
    window.on_ack(acked(5 * MSS))
    assert segments(window.cwnd_bytes) == 6  # four up to ssthresh, the fifth counts towards the next
    window.on_ack(acked(5 * MSS))
    assert segments(window.cwnd_bytes) == 7


def acked(size_bytes: int, *, limited: bool = True) -> Acked:
    return Acked(
        now_ns=0,
        acked_bytes=size_bytes if limited else MSS,
        flight_bytes=17 * MSS,
        snd_una=0,
        snd_max=17 * MSS,
        rtt_ns=None,
        srtt_ns=None,
        limited=limited,
    )


def test_a_timeout_within_a_recovery_does_not_halve_again() -> None:
    window = LinuxReno(mss_bytes=MSS, initial_window_bytes=20 * MSS)
    window.enter_fast_recovery(flight_bytes=20 * MSS, now_ns=0)
    window.on_timeout(flight_bytes=20 * MSS, first=True, now_ns=1)
    assert (segments(window.cwnd_bytes), segments(window.ssthresh_bytes)) == (1, 10)


def test_duplicate_acks_behind_a_recovery_begin_no_other() -> None:
    """It is held until something above it is acknowledged (RFC 6582, section 3.2)."""
    lost = {10: 0}
    pair = Pair(client=replace(PROFILE, initial_window_segments=10), fate=lambda n, p: lose_once(p, lost))
    pair.run(seconds=1)
    pair.a.write(bytes(30 * MSS))
    pair.run(seconds=10)
    assert pair.a.sender.counters.fast_retransmits == 1
    assert pair.a.sender.counters.retransmitted_segments == 1
    assert len(pair.received["b"]) == 30 * MSS
    assert pair.a.sender.ca_state is CongestionState.OPEN


def lose_once(packet: TcpPacket, left: dict[int, int]) -> Fate:
    """Lose the n-th data segment that passes."""
    if packet.segment.payload:
        left[10] += 1
        if left[10] == 10:
            return []
    return [0]


# --- a packet that the own interface refused ---


def test_a_refused_segment_waits_for_the_next_ack_and_is_no_retransmission() -> None:
    pair = Pair(client=replace(PROFILE, initial_window_segments=8))
    pair.run(seconds=1)
    sender = pair.a.sender
    pair.a.write(bytes(8 * MSS))
    sent = [pair.a.next_packet(pair.now_ns) for _ in range(6)]
    assert all(sent)
    sender.on_local_drop(pair.now_ns)
    assert pair.a.next_packet(pair.now_ns) is None
    assert segments(sender.flight_bytes) == 5
    assert (sender.ca_state, segments(sender.congestion.ssthresh_bytes)) == (CongestionState.CWR, 4)

    sender.acknowledge(AckInfo(seq=1, ack=1 + 5 * MSS, window_bytes=8192), now_ns=pair.now_ns)
    again = pair.a.next_packet(pair.now_ns)
    assert again is not None
    assert again.segment.seq == sent[5].segment.seq  # type: ignore[union-attr]
    assert (sender.counters.retransmitted_segments, sender.counters.local_drops) == (0, 1)


def test_a_refused_segment_with_nothing_under_way_is_tried_again() -> None:
    pair = Pair(client=PROFILE)
    pair.run(seconds=1)
    pair.a.write(bytes(MSS))
    assert pair.a.next_packet(pair.now_ns) is not None
    pair.a.sender.on_local_drop(pair.now_ns)
    pair.run(seconds=10)
    assert len(pair.received["b"]) == MSS


# --- acknowledgments ---


def test_acks_wait_as_the_kernels_do() -> None:
    """The first nine, half a window, do not; the next waits 40 ms, each that waits in vain twice as long."""
    captures = {c.point.name: c.tables for c in read(SAMPLES / "fig4-slow-start").captures}
    flow, time_ns, size = (captures["fixed"].segments[n] for n in ("flow", "time_ns", "payload_bytes"))
    arrived = time_ns[(flow == 0) & (size > 0)][:15]
    answered = time_ns[(flow == 1)][1:16]
    kernel = (answered - arrived) / NS_PER_MS
    expected = [0.0] * 9 + [40, 80, 160, 200, 200, 200]
    assert kernel == pytest.approx(expected, abs=5)  # timers of the kernel tick each 4 ms

    receiver = TcpReceiver(PROFILE)
    receiver.peer_mss_bytes, receiver.rcv_nxt = MSS, 1
    receiver.window_field(0)
    waits = []
    for n in range(15):
        receiver.take(1 + n * MSS, bytes(MSS), fin=False, now_ns=n * NS_PER_S)
        due_ns = n * NS_PER_S if receiver.acks_due else receiver.delayed_ack_ns or 0
        receiver.on_timer(due_ns)
        receiver.acknowledged(pure=True)
        receiver.window_field(0)
        receiver.read(MSS)
        waits.append((due_ns - n * NS_PER_S) / NS_PER_MS)
    assert waits == expected


# --- the last segments of a window ---


def test_a_lost_tail_is_probed_before_the_timer_expires() -> None:
    """RFC 8985, section 7: the probe's SACK tells of the holes, so that no timeout is needed."""
    seen = [0]

    def lose_the_end(n: int, packet: TcpPacket) -> Fate:
        seen[0] += bool(packet.segment.payload)
        return [] if packet.segment.payload and 16 <= seen[0] <= 20 else [0]

    counters = {}
    for probing in (True, False):
        seen[0] = 0
        profile = replace(as_linux(MODERN), initial_window_segments=20, tail_loss_probe=probing)
        pair = Pair(client=profile, fate=lose_the_end)
        pair.run(seconds=1)
        pair.a.write(bytes(20 * 1448))
        pair.run(seconds=10)
        counters[probing] = pair.a.sender.counters
        assert len(pair.received["b"]) == 20 * 1448
    assert (counters[True].timeouts, counters[True].fast_retransmits) == (0, 1)
    assert counters[False].timeouts > 0
    assert counters[True].retransmitted_segments <= 6


def test_a_probe_that_repaired_the_loss_reduces_the_window_once() -> None:
    """When something above the probe is acknowledged (RFC 8985, section 7.4.2)."""
    seen = [0]

    def lose_the_last(n: int, packet: TcpPacket) -> Fate:
        seen[0] += bool(packet.segment.payload)
        return [] if packet.segment.payload and seen[0] == 20 else [0]

    pair = Pair(client=replace(as_linux(MODERN), initial_window_segments=20), fate=lose_the_last)
    pair.run(seconds=1)
    pair.a.write(bytes(20 * 1448))
    pair.run(seconds=10)
    sender = pair.a.sender
    assert (sender.counters.timeouts, sender.counters.retransmitted_segments) == (0, 1)
    assert len(pair.received["b"]) == 20 * 1448
    before = sender.congestion.cwnd_bytes
    pair.a.write(bytes(1448))
    pair.run(seconds=20)
    assert sender.congestion.cwnd_bytes < 0.75 * before
    assert len(pair.received["b"]) == 21 * 1448
