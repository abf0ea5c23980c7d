"""Master and slaves: discovery, visits in turn, roles that swap, noise on the line."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.events import (
    ClockCompared,
    ObjectDelivered,
    PeerFound,
    PeerLost,
    Received,
    Rejected,
    SessionEnded,
)
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from multitracer.protocols.centaurus.messages import CentaurusConfig
from tests.examples import examples
from tests.protocols import centaurus_wire as wire
from tests.protocols.centaurus_line import Lines
from tests.protocols.centaurus_net import S

if TYPE_CHECKING:
    from collections.abc import Callable

BUS = ((0, 1), (0, 2), (0, 3))
LINES = ((0, 7), (1, 7), (2, 7))


def _spoken(lines: Lines, station: int | None = None) -> list[str]:
    found = []
    for speaker, _, octets in lines.wire:
        for number, packet in wire.read_frames(octets):
            if station in (None, number):
                seen = wire.read_packet(packet, station=bytes((number,)))
                found.append(f"{speaker}: {seen['message']}")
    return found


def test_idle_visit_is_poll_and_two_nopes() -> None:
    lines = Lines((0, 1))
    lines.run(0.15)
    assert _spoken(lines) == ["master: POLL", "slave: NOPE", "master: NOPE"]
    assert [type(event) for event in lines.events["master"]] == [PeerFound, SessionEnded, ClockCompared]
    assert not lines.master.sessions


def test_slave_offers_first_then_the_master() -> None:
    lines = Lines((0, 1))
    slave = lines.slaves[0, 1]
    slave.send(slave.master, 1, b"up" * 400, lines.now_ns)
    lines.master.send((0, 1), 2, b"down", lines.now_ns)
    lines.run(3)
    assert _spoken(lines)[:12] == [
        "master: POLL", "slave: OBJ", "master: PROCEED", "slave: PK", "slave: PK", "slave: DONE",
        "master: ACK", "master: OBJ", "slave: PROCEED", "master: PK", "master: DONE", "slave: ACK",
    ]  # fmt: skip
    assert lines.received("master") == [b"up" * 400]
    assert lines.received((0, 1)) == [b"down"]


def test_rejected_slave_says_nope_and_the_roles_swap() -> None:
    lines = Lines((0, 1), config=CentaurusConfig(accepts=frozenset({2})))
    slave = lines.slaves[0, 1]
    slave.send(slave.master, 1, b"unwanted", lines.now_ns)
    lines.master.send((0, 1), 2, b"wanted", lines.now_ns)
    lines.run(0.9)
    assert _spoken(lines)[:5] == ["master: POLL", "slave: OBJ", "master: REJ", "slave: NOPE", "master: OBJ"]
    assert lines.received((0, 1)) == [b"wanted"]
    assert [event.reason for event in lines.events[0, 1] if isinstance(event, Rejected)] == ["class"]


def test_rejected_master_ends_the_session() -> None:
    lines = Lines((0, 1), config=CentaurusConfig(accepts=frozenset({2})))
    lines.master.send((0, 1), 1, b"unwanted", lines.now_ns)
    lines.run(0.2)
    assert _spoken(lines)[:4] == ["master: POLL", "slave: NOPE", "master: OBJ", "slave: REJ"]
    assert lines.fates_of("master") == {1: ["Rejected"]}


@pytest.mark.parametrize("stations", [BUS, LINES])
def test_slaves_are_found_and_visited_in_turn(stations: tuple[tuple[int, int], ...]) -> None:
    lines = Lines(*stations)
    for i, (address, slave) in enumerate(lines.slaves.items()):
        slave.send(slave.master, 1, bytes([i]) * 700, lines.now_ns)
        lines.master.send(address, 2, bytes([i + 10]) * 700, lines.now_ns)
    lines.run(40)
    assert lines.received("master") == [bytes([i]) * 700 for i in range(3)]
    assert [lines.received(address) for address in stations] == [[bytes([i + 10]) * 700] for i in range(3)]
    ended = [event.peer for event in lines.events["master"] if isinstance(event, SessionEnded)]
    rounds = [tuple(ended[i : i + 3]) for i in range(0, len(ended) - 2, 3)]
    assert set(rounds[3:]) == {rounds[3]}, "not the same order in every round"
    assert set(rounds[3]) == set(stations)


def test_absent_station_is_probed_now_and_then_and_a_silent_one_is_lost() -> None:
    lines = Lines((0, 1), (0, 2), absent=((0, 9),))
    lines.run(30)
    assert 3 <= _spoken(lines, 9).count("master: POLL") <= 6
    assert _spoken(lines, 1).count("master: POLL") > 20
    gone = lines.slaves.pop((0, 2))
    lines.run(30)
    assert [event.peer for event in lines.events["master"] if isinstance(event, PeerLost)] == [(0, 2)]
    lines.slaves[0, 2] = gone
    lines.run(30)
    found = [event.peer for event in lines.events["master"] if isinstance(event, PeerFound)]
    assert found == [(0, 1), (0, 2), (0, 2)]
    causes = {event.cause for event in lines.events["master"] if isinstance(event, SessionEnded)}
    assert causes == {"complete", "unanswered"}


def test_readdressed_frame_does_not_pass() -> None:
    def readdress(octets: bytes) -> bytes:
        return octets[:1] + b"\x02" + octets[2:] if octets[1] == 1 else octets

    lines = Lines((0, 1), (0, 2), damage=readdress)
    lines.run(10)
    assert lines.slaves[0, 2].counters.checksum > 0
    assert lines.slaves[0, 1].counters.packets_received == 0


def test_older_poll_does_not_end_a_session_that_runs() -> None:
    lines = Lines((0, 1))
    slave = lines.slaves[0, 1]
    slave.send(slave.master, 1, bytes(4000), lines.now_ns)
    lines.run(0.02)
    poll = lines.wire[0][2]
    lines.run(1)
    late = wire.read_frames(poll)[0][1]
    assert wire.read_packet(late, station=b"\x01")["message"] == "POLL"
    (session,) = slave.sessions.values()
    slave.receive(poll, 0, lines.now_ns)
    assert list(slave.sessions.values()) == [session]
    lines.run(10)
    assert lines.received("master") == [bytes(4000)]


def _damaging(*numbers: int) -> Callable[[bytes], bytes]:
    """Return what a line does that inverts an octet of the frames with these numbers, counted from 0."""
    count = itertools.count()
    return lambda octets: octets[:9] + bytes((octets[9] ^ 0x15,)) + octets[10:] if next(count) in numbers else octets


@pytest.mark.parametrize("damaged", range(12))
def test_damaged_frame_costs_about_a_second_and_no_watchdog(damaged: int) -> None:
    took_s = {}
    for number in (damaged, 1000):
        lines = Lines((0, 1), damage=_damaging(number))
        slave = lines.slaves[0, 1]
        begin_ns = lines.now_ns
        slave.send(slave.master, 1, b"up" * 400, begin_ns)
        lines.master.send((0, 1), 2, b"down", begin_ns)
        lines.run(9)
        assert (lines.received("master"), lines.received((0, 1))) == ([b"up" * 400], [b"down"])
        ends = [each for events in lines.events.values() for each in events if isinstance(each, ObjectDelivered)]
        took_s[number] = (max(each.time_ns for each in ends) - begin_ns) / S
    assert took_s[damaged] - took_s[1000] < 2.5  # a second of patience, and what the new session says again


def test_slow_line_is_given_the_time_that_a_frame_takes() -> None:
    """At 300 b/s a segment takes 18 s: it is the octets that show that the slave answers."""
    slow = CentaurusConfig(watchdog_ns=60 * S)
    master = SerialMaster([(0, 1)], slow, random_bytes=random.Random(1).randbytes)
    slave = SerialSlave(1, slow, random_bytes=random.Random(2).randbytes)
    slave.send(slave.master, 1, bytes(512), 1)
    now_ns = 1
    received: list[bytes] = []
    while not received:
        for source, sink in ((master, slave), (slave, master)):
            while packet := source.outgoing(now_ns):
                for octet in packet.octets:
                    now_ns += 10 * S // 300
                    sink.receive(bytes((octet,)), 0, now_ns)
                    source.on_timer(now_ns)
                    sink.on_timer(now_ns)
                source.sent(packet, now_ns)
        events = master.take_events()
        assert not [each for each in events if isinstance(each, SessionEnded) and each.cause != "complete"]
        received += [each.data for each in events if isinstance(each, Received)]
        slave.take_events()
    assert received == [bytes(512)]


def test_unknown_station_is_named() -> None:
    with pytest.raises(LocalProtocolError, match=r"\(0, 4\): unknown station"):
        Lines((0, 1)).master.send((0, 4), 1, b"x", 0)


@pytest.mark.slow
@examples(20)
@given(
    st.lists(st.tuples(st.sampled_from(["master", *BUS]), st.sampled_from(BUS), st.integers(0, 1500)), max_size=6),
    st.integers(0, 2**32),
    st.floats(0, 0.3),
    st.booleans(),
)
def test_noise_on_the_line_costs_no_message_silently(
    messages: list[tuple[str, str, int]], seed: int, rate: float, sealed: bool
) -> None:
    chance = random.Random(seed)

    def damage(octets: bytes) -> bytes:
        if chance.random() > rate:
            return octets
        at = chance.randrange(len(octets))
        cut = octets[:at] + chance.randbytes(chance.randrange(3)) + octets[at + 1 :]
        return b"" if chance.random() < 0.3 else cut

    config = CentaurusConfig(key=b"sixteen or more bytes" if sealed else None, cap_ns=60 * S)
    lines = Lines(*BUS, config=config, damage=damage)
    sent = []
    for i, (sender, station, size) in enumerate(messages):
        data = bytes([i]) + random.Random(i).randbytes(size)
        end = lines.ends[sender]
        target = end.master if isinstance(end, SerialSlave) else station
        handle = end.send(target, 1, data, lines.now_ns, lifetime_ns=200 * S)
        sent.append((sender, station if sender == "master" else "master", handle, data))
    lines.run(300)
    for sender, receiver, handle, data in sent:
        told = lines.fates_of(sender)[handle]
        assert len(told) == 1
        assert told == ["Expired"] or lines.received(receiver).count(data) == 1
    for name in lines.ends:
        expected = Counter(data for _, receiver, _, data in sent if receiver == name)
        assert not Counter(lines.received(name)) - expected
    assert lines.sent_again == 0
