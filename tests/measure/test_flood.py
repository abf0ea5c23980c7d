"""A real server on the loopback device, flooded with real datagrams while a client measures with it."""

from __future__ import annotations

import contextlib
import random
import re
import select
import signal
import socket
import struct
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.measure.centaurus import CentaurusClient
from multitracer.measure.endpoint import UdpEndpoint
from multitracer.measure.intake import DatagramIntake, _sources_of
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import TransportOptions, client, host_port
from multitracer.protocols.centaurus.events import Received
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import NO_TOKEN, Obj, ObjectDone, Offer, Pk
from multitracer.units import NS_PER_S
from tests.measure.flooding import REQUEST_CLASS, centaurus_packet, flooded, networks, served
from tests.protocols.centaurus_wire import read_packet

if TYPE_CHECKING:
    from multitracer.measure.outcome import TransactionOutcome
    from multitracer.measure.plan import ProtocolName, Transaction

TRANSACTIONS = 16
DATAGRAMS_A_STEP = 20
DATAGRAMS_A_TRANSACTION = 400
"""Bounded, because what the server answers to the spoofed ones wakes the client up for its next step."""
STRANGERS = 40


class Flood:
    """Strangers, each with an address and a kind of mischief of its own; one uses the client's address."""

    def __init__(self, server: tuple[str, int], chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(STRANGERS)]
        for number, each in enumerate(self.sockets):
            each.bind((f"127.1.{number}.1", 0))
            each.setblocking(False)
        self.sent = [0] * STRANGERS
        self.received = [0] * STRANGERS
        self.count = self.allowed = 0
        self.spoof: tuple[socket.socket, tuple[str, int]] | None = None

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        if self.spoof is not None:
            self.spoof[0].close()

    def pour(self) -> None:
        """Send some, and take what the server answers."""
        for _ in range(DATAGRAMS_A_STEP):
            who = self.count % STRANGERS
            octets = self._datagram(who)
            self.count += 1
            if self.spoof is not None and self.count % 3 == 0:
                self._send_as(self.spoof[1], octets)
            else:
                self.sent[who] += len(octets)
                self.sockets[who].sendto(octets, self._server)
        for who, each in enumerate(self.sockets):
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.received[who] += len(each.recv(65_536))

    def _datagram(self, who: int) -> bytes:
        chance = self._chance
        size = chance.choice((64, 4096, 262_144))
        stamp_ns = time.time_ns() + chance.randrange(10**12)
        half_open = Obj(REQUEST_CLASS, stamp_ns, size, 60_000, 64, NO_TOKEN, Offer(0, 512), 0)
        session = chance.randrange(2**32)
        kinds = (
            centaurus_packet(session, half_open),
            chance.randbytes(chance.randrange(600)),
            centaurus_packet(session, half_open),
            centaurus_packet(session, Pk(chance.randrange(9), chance.randrange(2**32), bytes(500))),
            centaurus_packet(session, ObjectDone(chance.randrange(2**32), 0)),
            centaurus_packet(session, half_open)[:-1],
        )
        return kinds[who % len(kinds)]

    def _send_as(self, source: tuple[str, int], octets: bytes) -> None:
        """Send a datagram under another's address; the kernel fills in lengths and the checksum of IP."""
        assert self.spoof is not None
        self.spoof[0].sendto(_as_from(*source, self._server, octets), (self._server[0], 0))


def _resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.parametrize("spoofed", [False, pytest.param(True, marks=pytest.mark.root)])
def test_flooded_server_answers_every_request_and_stays_small(spoofed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MeasurementPlan("centauruscomm", "x", (Experiment("reply", (4096,), TRANSACTIONS),))
    first, *rest = plan.transactions()
    with contextlib.ExitStack() as stack:
        where, server = stack.enter_context(served())
        flood = stack.enter_context(contextlib.closing(Flood(host_port(where), random.Random(5))))
        made = client("centauruscomm", where, run=1, timeout_s=100, options=TransportOptions())
        stack.callback(made.close)
        assert made.transact(first).outcome == "ok"
        before = _resident_bytes(server.pid)
        assert isinstance(made, CentaurusClient)
        endpoint = made._endpoint
        assert isinstance(endpoint, UdpEndpoint)
        if spoofed:
            flood.spoof = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW), endpoint.address
        work = endpoint.work

        def flooded(wait_s: float) -> object:
            if flood.count < flood.allowed:
                flood.pour()
            return work(wait_s)

        def transact(transaction: Transaction) -> TransactionOutcome:
            flood.allowed += DATAGRAMS_A_TRANSACTION
            return made.transact(transaction)

        monkeypatch.setattr(endpoint, "work", flooded)
        outcomes = [transact(each) for each in rest]
        grown = _resident_bytes(server.pid) - before
        server.send_signal(signal.SIGINT)
        words, _ = server.communicate(timeout=60)

    assert [(each.outcome, each.why) for each in outcomes] == [("ok", "")] * len(rest)
    assert words == f"the server answered {TRANSACTIONS} transactions\n"
    assert server.returncode == 0
    assert grown < 16 << 20
    assert sum(flood.received) > 0
    assert all(got <= gave for got, gave in zip(flood.received, flood.sent, strict=True))


def _as_from(host: str, port: int, target: tuple[str, int], octets: bytes) -> bytes:
    """Return a UDP datagram with a forged source, from its IP header on."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0)
    udp = struct.pack("!HHHH", port, target[1], 8 + len(octets), 0)
    return ip + socket.inet_aton(host) + socket.inet_aton(target[0]) + udp + octets


@pytest.mark.root
def test_forged_addresses_take_bounded_memory_and_delay_no_known_peer() -> None:
    chance = random.Random(1)
    known = ("127.0.0.1", 77)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw,
    ):
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        target = server.getsockname()
        worker = UdpWorker(random_bytes=random.Random(1).randbytes)
        worker.send(known, REQUEST_CLASS, b"x", 10 * NS_PER_S)
        intake = DatagramIntake(server, worker=worker, clock=lambda: 10 * NS_PER_S)
        tracemalloc.start()
        for _ in range(100):
            for _ in range(200):
                host = socket.inet_ntoa(struct.pack("!I", 0x7F000000 | chance.getrandbits(24)))
                raw.sendto(_as_from(host, chance.randrange(1024, 60_000), target, bytes(46)), target)
            raw.sendto(_as_from(*known, target, b"known"), target)
            assert intake.fill() == []
            assert intake.take() == (b"known", known)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert intake.counters.read == 100 * 201
    assert taken < 8 << 20


def test_flooding_port_shuts_out_neither_its_host_nor_its_network() -> None:
    now_ns = 10 * NS_PER_S
    with contextlib.ExitStack() as stack:
        server, flooding, same_host, same_network = (
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(4)
        )
        for each, host in ((server, 0), (flooding, 9), (same_host, 9), (same_network, 10)):
            each.bind((f"127.1.1.{host}" if host else "127.0.0.1", 0))
        server.setblocking(False)
        worker = UdpWorker(random_bytes=random.Random(1).randbytes)
        intake = DatagramIntake(server, worker=worker, clock=lambda: now_ns)

        def taken_of(source: socket.socket, number: int) -> int:
            for _ in range(number):
                source.sendto(b"x", server.getsockname())
            intake.fill()
            return len([datagram for datagram in iter(intake.take, None) if datagram.address == source.getsockname()])

        assert taken_of(flooding, 200) == 8
        assert taken_of(same_host, 2) == taken_of(same_network, 2) == 2
        for _ in range(15):  # it goes on, and stays blocked
            now_ns += NS_PER_S
            assert taken_of(flooding, 20) == 0
        now_ns += 11 * NS_PER_S
        assert taken_of(flooding, 1) == 1


def test_many_segments_after_the_first_answer_are_within_no_quota() -> None:
    """They arrive before the first of them is processed, and carry the nonce that was sent to their address."""
    with (
        contextlib.closing(UdpEndpoint(UdpWorker(random_bytes=random.Random(1).randbytes))) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
    ):
        peer.settimeout(60)
        peer.connect(server.address)
        offer = Obj(REQUEST_CLASS, 1, 100 * 512, 60_000, 512, NO_TOKEN, Offer(0, 512), 4)
        peer.send(centaurus_packet(7, offer))
        while not select.select([peer], [], [], 0)[0]:
            server.work(0.01)
        nonce = read_packet(peer.recv(2000))["nonce"]
        for slot in range(100):
            peer.send(centaurus_packet(7, Pk(slot, nonce, bytes(512))))
        peer.send(centaurus_packet(7, ObjectDone(nonce, 0)))
        events = [event for _ in range(110) for event in server.work(0)]
        assert [len(event.data) for event in events if isinstance(event, Received)] == [100 * 512]
        assert server.intake.counters.over_quota == 0


def test_sources_of_ipv6_are_networks() -> None:
    one, two, three = (("2001:db8:1:2::5", 7), ("2001:db8:1:2:3::5%eth0", 7), ("2001:db8:1:3::5", 7))
    assert _sources_of(one)[1:] == _sources_of(two)[1:]
    assert _sources_of(one)[1] != _sources_of(three)[1]
    assert _sources_of(one)[2] == _sources_of(three)[2] != _sources_of(("2001:db8:2:2::5", 7))[2]


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize("sources", [["127.0.0.1"], networks(1000)], ids=["one address", "1,000 addresses"])
@pytest.mark.parametrize("protocol", ["centauruscomm", "wtcp"])
def test_client_completes_while_first_datagrams_flood_the_server(protocol: ProtocolName, sources: list[str]) -> None:
    plan = MeasurementPlan(protocol, "x", (Experiment("reply", (4096,), 5),))
    with served(protocol) as (where, server), flooded(protocol, host_port(where), sources, seconds=60) as sent:
        time.sleep(0.5)
        began_s, before = time.monotonic(), sent.value
        made = client(protocol, where, run=1, timeout_s=30, options=TransportOptions())
        with contextlib.closing(made):
            made.reach()
            outcomes = [made.transact(each).outcome for each in plan.transactions()]
        took_s = time.monotonic() - began_s
        rate = (sent.value - before) / took_s
        server.send_signal(signal.SIGTERM)
        words, _ = server.communicate(timeout=60)
    assert outcomes == ["ok"] * 5, f"{rate:.0f} datagrams/s"
    assert took_s < 15, f"{rate:.0f} datagrams/s"  # it takes 0.1 to 0.5 s; a lost packet of CentaurusComm costs 10 s
    assert words == "the server answered 5 transactions\n"
