"""A real server on the loopback device, flooded with real datagrams while a client measures with it."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.measure.centaurus import CentaurusClient
from multitracer.measure.endpoint import UdpEndpoint
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import TransportOptions, client, host_port
from multitracer.protocols.centaurus.messages import NO_TOKEN, Message, Obj, ObjectDone, Offer, Pk, encode
from multitracer.protocols.centaurus.packet import CentaurusPacket, seal
from tests.cli.program import COMMAND, ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.measure.outcome import TransactionOutcome
    from multitracer.measure.plan import Transaction

REQUEST_CLASS = 1
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
            _packet(session, half_open),
            chance.randbytes(chance.randrange(600)),
            _packet(session, half_open),
            _packet(session, Pk(chance.randrange(9), chance.randrange(2**32), bytes(500))),
            _packet(session, ObjectDone(chance.randrange(2**32), 0)),
            _packet(session, half_open)[:-1],
        )
        return kinds[who % len(kinds)]

    def _send_as(self, source: tuple[str, int], octets: bytes) -> None:
        """Send a datagram under another's address; the kernel fills in lengths and the checksum of IP."""
        assert self.spoof is not None
        raw, port = self.spoof[0], self._server[1]
        addresses = socket.inet_aton(source[0]) + socket.inet_aton(self._server[0])
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0) + addresses
        udp = struct.pack("!HHHH", source[1], port, 8 + len(octets), 0)
        raw.sendto(ip + udp + octets, (self._server[0], 0))


def _packet(session: int, message: Message) -> bytes:
    return seal(CentaurusPacket(session, time.time_ns(), True, encode(message)))


@contextlib.contextmanager
def _server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    argv = [*COMMAND, "measure", "serve", "--protocol", "centauruscomm", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split(" at ")[1].strip(), server
        finally:
            server.kill()


def _resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.parametrize("spoofed", [False, pytest.param(True, marks=pytest.mark.root)])
def test_flooded_server_answers_every_request_and_stays_small(spoofed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MeasurementPlan("centauruscomm", "x", (Experiment("reply", (4096,), TRANSACTIONS),))
    first, *rest = plan.transactions()
    with contextlib.ExitStack() as stack:
        where, server = stack.enter_context(_server())
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
    assert all(got <= 3 * gave for got, gave in zip(flood.received, flood.sent, strict=True))
