"""What the native kernel writes of a run in virtual time, beside what Python writes: the same bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.capture import Flag
from multitracer.errors import LocalProtocolError
from multitracer.lab.scenario import load_scenario
from multitracer.lab.simulator.clock import HostClock
from multitracer.lab.simulator.host_logs import HostLogs
from multitracer.lab.simulator.record import record_virtual
from multitracer.lab.tcp.packet import Packet, Segment, build_packet, packet_builder, parse_packet
from multitracer.protocols.channel_events import PieceReceived
from multitracer.protocols.link_events import (
    FrameLost,
    FrameSent,
    PacketDropped,
    PacketQueued,
    ResetStarted,
)
from tests.lab.simulator.test_same_bytes import digest
from tests.native.both import python_only

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.protocols.link_events import LinkEvent

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

CLOCK = HostClock(1_000, offset_ns=1_234_567, skew_ppm=17.3)
YEARS_NS = 110 * 366 * 86_400 * 10**9
"""After which no pcap of a run that begins in 2000 has a time."""
WORDS, HALVES = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 16) - 1)
TIMES = st.integers(0, 10**13)
ADDRESSES = st.binary(min_size=4, max_size=4)
SEGMENTS = st.builds(
    Segment, HALVES, HALVES, WORDS, WORDS, st.sampled_from([Flag.ACK, Flag.SYN, Flag.ACK | Flag.PSH]), HALVES,
    payload=st.binary(max_size=1400),
    mss_bytes=st.none() | HALVES,
    window_scale=st.none() | st.integers(0, 14),
    sack_permitted=st.booleans(),
    timestamps=st.none() | st.tuples(WORDS, WORDS),
    sack_blocks=st.sampled_from([(), ((1, 2),)]),
)  # fmt: skip
FACTS = st.none() | st.integers(-(1 << 70), 1 << 70) | st.sampled_from(["", "full", "é", True, 1.5])
EVENTS = st.one_of(
    st.builds(PacketQueued, TIMES, WORDS, FACTS, FACTS, FACTS, FACTS),
    st.builds(PacketDropped, TIMES, WORDS, FACTS, FACTS, FACTS, FACTS, FACTS),
    st.builds(PieceReceived, TIMES, WORDS, FACTS, FACTS, FACTS, FACTS, FACTS),
    st.builds(ResetStarted, TIMES, st.integers(0, 1 << 40), st.sampled_from(["n2", "peer"])),
    st.builds(
        *(FrameSent, TIMES, WORDS, st.binary(min_size=30, max_size=30), st.none() | WORDS),
        *(st.integers(1, 3), st.sampled_from(["", "rej"])),
    ),
    st.builds(FrameLost, TIMES, WORDS, st.binary(max_size=30)),
)


def written(write: Callable[[HostLogs], None]) -> dict[str, bytes]:
    files: dict[str, io.BytesIO] = {}
    logs = HostLogs(
        "mobile", CLOCK, opened=lambda name: files.setdefault(name, io.BytesIO()), snap_bytes=96, facts={}
    )
    write(logs)
    logs.write()
    return {name: file.getvalue() for name, file in files.items()}


def assert_written_alike(write: Callable[[HostLogs], None]) -> None:
    natively = written(write)
    with python_only():
        assert written(write) == natively


@given(SEGMENTS, HALVES, st.integers(0, 3), ADDRESSES, ADDRESSES)
def test_packets(segment: Segment, ip_id: int, ecn: int, source: bytes, destination: bytes) -> None:
    packet = Packet(source, destination, segment, ip_id, ecn)
    built = packet_builder()(packet)
    assert built == build_packet(packet)
    assert parse_packet(built).checksum_ok


@given(st.lists(st.tuples(st.binary(max_size=200), TIMES)))
def test_captures(packets: list[tuple[bytes, int]]) -> None:
    def write(logs: HostLogs) -> None:
        for data, now_ns in packets:
            logs.packet(data, now_ns)

    assert_written_alike(write)


def test_a_time_that_no_capture_holds_is_refused_as_by_python() -> None:
    with pytest.raises(LocalProtocolError, match="does not fit 32 bits of seconds"):
        written(lambda logs: logs.packet(b"octets", YEARS_NS))


@given(st.lists(EVENTS))
def test_events_of_the_link(events: list[LinkEvent]) -> None:
    assert_written_alike(lambda logs: logs.link_events(events))


def test_an_event_whose_cause_is_two_words_is_refused_as_by_python() -> None:
    with pytest.raises(LocalProtocolError, match="holds spaces"):
        written(lambda logs: logs.link_events([ResetStarted(1, 0, "no answer")]))


@pytest.mark.parametrize("name", ["ray-5", "sack-modern", "clock-shift", "cdpd-contended", "fig8-resets-vj"])
def test_whole_runs(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    record_virtual(scenario, tmp_path / "native")
    with python_only():
        record_virtual(scenario, tmp_path / "python")
    assert digest(tmp_path / "native") == digest(tmp_path / "python")
