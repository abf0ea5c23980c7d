"""CentaurusComm on real media: UDP on the loopback device, and pseudo-terminals."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pytest

from multitracer.errors import InputError
from multitracer.measure.endpoint import SerialEndpoint, SerialLine, UdpEndpoint
from multitracer.protocols.centaurus.events import ObjectDelivered, PeerFound, Received
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import CentaurusConfig
from multitracer.units import NS_PER_S
from tests.measure.ptys import Cable, cables

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.centaurus.events import Event


class _Working(Protocol):
    def work(self, wait_s: float, /) -> list[Event]: ...


_End: TypeAlias = "tuple[_Working, list[Event]]"
PATIENCE_S = 90.0
LIFETIME_NS = 60 * NS_PER_S
QUICK = CentaurusConfig(watchdog_ns=NS_PER_S // 2, probe_ns=NS_PER_S // 4, visit_ns=NS_PER_S // 100)


def _udp(**options: Any) -> UdpEndpoint:
    return UdpEndpoint(UdpWorker(CentaurusConfig(**options), random_bytes=os.urandom))


def _work_until(done: Callable[[], object], *ends: _End, carry: Callable[[], object] = lambda: None) -> None:
    """Let the ends work in turn until `done()`; how long that takes does not matter."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "nothing came of it"
        carry()
        for end, events in ends:
            events.extend(end.work(0.0005))


def test_messages_cross_the_loopback_device_both_ways() -> None:
    with contextlib.closing(_udp()) as left, contextlib.closing(_udp()) as right:
        sizes = [0, 1, 512, 8192, 100_000]
        data = [random.Random(size).randbytes(size) for size in sizes]
        for each in data:
            left.send(right.address, 1, each, lifetime_ns=LIFETIME_NS)
            right.send(left.address, 2, each, lifetime_ns=LIFETIME_NS)
        seen_left: list[Event] = []
        seen_right: list[Event] = []

        def done() -> bool:
            return all(sum(isinstance(e, ObjectDelivered) for e in seen) == 5 for seen in (seen_left, seen_right))

        _work_until(done, (left, seen_left), (right, seen_right))
        for seen in (seen_left, seen_right):
            assert [event.data for event in seen if isinstance(event, Received)] == data


def test_junk_on_the_port_leaves_the_server_serving() -> None:
    with (
        contextlib.closing(_udp()) as server,
        contextlib.closing(_udp()) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        chance = random.Random(1)
        seen: list[Event] = []
        told: list[Event] = []
        client.send(server.address, 1, bytes(20_000), lifetime_ns=LIFETIME_NS)

        def flood() -> None:
            for _ in range(3):
                stranger.sendto(chance.randbytes(chance.randrange(1, 600)), server.address)

        _work_until(
            lambda: any(isinstance(e, ObjectDelivered) for e in told), (server, seen), (client, told), carry=flood
        )
        assert [event.data for event in seen if isinstance(event, Received)] == [bytes(20_000)]
        counters = server.worker.counters
        assert counters.malformed + counters.checksum + server.intake.counters.over_quota > 10


def test_default_address_is_the_loopback_device() -> None:
    with contextlib.closing(_udp()) as end:
        assert end.address[0] == "127.0.0.1"


def test_address_in_use_is_an_error() -> None:
    with contextlib.closing(_udp()) as end, pytest.raises(InputError, match="cannot listen on this address"):
        UdpEndpoint(UdpWorker(random_bytes=os.urandom), bind=end.address)


def test_peer_that_is_gone_is_noted_and_costs_no_error() -> None:
    with contextlib.closing(_udp()) as gone:
        address = gone.address
    worker = UdpWorker(random_bytes=os.urandom)
    with contextlib.closing(UdpEndpoint(worker, only=address)) as end:
        end.send(address, 1, b"x", lifetime_ns=LIFETIME_NS)
        _work_until(lambda: end.refused, (end, []))


@pytest.mark.parametrize("damaged", [0.0, 0.15])
def test_master_serves_three_slaves_over_real_lines(damaged: float) -> None:
    chance = random.Random(7)

    def wire(octets: bytes) -> bytes:
        if octets and chance.random() < damaged:
            at = chance.randrange(len(octets))
            octets = octets[:at] + bytes((octets[at] ^ 0x55,)) + octets[at + 1 :]
        return octets

    with cables(3, wire) as laid, contextlib.ExitStack() as stack:
        master = SerialMaster([(i, 1) for i in range(3)], QUICK, random_bytes=os.urandom)
        top = SerialEndpoint(master, [SerialLine(cable.near) for cable in laid])
        stack.callback(top.close)
        ends: list[_End] = [(top, [])]
        for i, cable in enumerate(laid):
            slave = SerialSlave(1, QUICK, random_bytes=os.urandom)
            end = SerialEndpoint(slave, [SerialLine(cable.far)])
            stack.callback(end.close)
            ends.append((end, []))
            end.send(slave.master, 1, bytes([i]) * 3000, lifetime_ns=LIFETIME_NS)
            top.send((i, 1), 2, bytes([i + 10]) * 3000, lifetime_ns=LIFETIME_NS)

        def done() -> bool:
            counts = [sum(isinstance(event, ObjectDelivered) for event in seen) for _, seen in ends]
            return counts == [3, 1, 1, 1]

        def carry() -> None:
            for cable in laid:
                cable.carry()

        _work_until(done, *ends, carry=carry)
        got = {event.peer: event.data for event in ends[0][1] if isinstance(event, Received)}
        assert got == {(i, 1): bytes([i]) * 3000 for i in range(3)}
        assert {event.peer for event in ends[0][1] if isinstance(event, PeerFound)} == set(got)
        for i, (_, seen) in enumerate(ends[1:]):
            assert [event.data for event in seen if isinstance(event, Received)] == [bytes([i + 10]) * 3000]


def test_sent_comes_when_the_line_has_taken_everything() -> None:
    """Nobody reads: the terminal's buffer fills, the rest waits, and no second packet leaves."""
    with cables(1) as (cable,):
        line = SerialLine(cable.near)
        with contextlib.closing(line):
            line.write(bytes(200_000))
            assert line.waiting_bytes > 0
            for _ in range(2000):
                cable.carry()
                with SerialReader(cable.far) as far:
                    far.drain()
                line.flush()
                if not line.waiting_bytes:
                    break
            assert line.waiting_bytes == 0


class SerialReader:
    """Reads and forgets what arrives at a port."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> SerialReader:
        self._number = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._number)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._number, 65_536):
                pass


def test_port_that_is_none_is_an_error() -> None:
    with pytest.raises(InputError, match="/nonexistent/tty: cannot open this serial port"):
        SerialLine("/nonexistent/tty")


def test_a_line_that_is_pulled_out_is_an_error_that_names_it() -> None:
    cable = Cable()
    line = SerialLine(cable.near)
    try:
        assert line.read() == b""
        cable.close()
        with pytest.raises(InputError, match=f"{cable.near}: the serial port has disappeared"):
            line.read()
        with pytest.raises(InputError, match=f"{cable.near}: the serial port has disappeared"):
            line.write(b"any")
    finally:
        line.close()
