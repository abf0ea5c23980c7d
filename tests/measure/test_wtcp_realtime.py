"""WTCP in real time keeps pace with itself in virtual time, over the same modelled link."""

from __future__ import annotations

import contextlib
import csv
import heapq
import json
import random
import select
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.measure.plan import Transaction
from multitracer.measure.transports import TransportOptions, client
from multitracer.measure.wtcp import WtcpServer
from multitracer.protocols.wtcp.state import WtcpConfig
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.protocols.wtcp_path import Direction
from tests.protocols.wtcp_path import Path as Link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BITS_PER_S = 50_000
REPLY_BYTES = 60_000
HANDSHAKE_S = 0.302
"""There and back at 150 ms each, and two packets of 50 bytes."""
WITHIN = 0.03


def _ways() -> tuple[Direction, Direction]:
    return Direction(bits_per_s=BITS_PER_S), Direction(bits_per_s=BITS_PER_S)


class _Link(threading.Thread):
    """Carries datagrams between one client and a server as late as the modelled link would."""

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._up, self._down = _ways()
        self._server = server
        self._outer, self._inner = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        for each in (self._outer, self._inner):
            each.bind(("127.0.0.1", 0))
        self._client: tuple[str, int] | None = None
        self._due: list[tuple[int, int, bytes, bool]] = []
        self._count = 0
        self.late_ns = 0
        """By how much a datagram came too late at most: the machine is busy."""
        self.done = threading.Event()

    @property
    def address(self) -> str:
        return "{}:{}".format(*self._outer.getsockname())

    def close(self) -> None:
        self._outer.close()
        self._inner.close()

    def run(self) -> None:
        while not self.done.is_set():
            wait_s = 0.05
            if self._due:
                wait_s = min(wait_s, max(0.0, (self._due[0][0] - time.monotonic_ns()) / NS_PER_S))
            for ready in select.select([self._outer, self._inner], [], [], wait_s)[0]:
                self._take(ready)
            while self._due and self._due[0][0] <= time.monotonic_ns():
                due_ns, _, octets, is_up = heapq.heappop(self._due)
                self.late_ns = max(self.late_ns, time.monotonic_ns() - due_ns)
                target = self._server if is_up else self._client
                assert target is not None
                (self._inner if is_up else self._outer).sendto(octets, target)

    def _take(self, ready: socket.socket) -> None:
        octets, sender = ready.recvfrom(65_536)
        is_up = ready is self._outer
        if is_up:
            self._client = sender
        way = self._up if is_up else self._down
        for time_ns in way.arrivals(len(octets), time.monotonic_ns(), random.Random(1)):
            self._count += 1
            heapq.heappush(self._due, (time_ns, self._count, octets, is_up))


@contextlib.contextmanager
def _linked() -> Iterator[_Link]:
    server = WtcpServer(("127.0.0.1", 0), WtcpConfig())
    link = _Link(server.address)

    def work() -> None:
        while not link.done.is_set():
            server.work(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    link.start()
    try:
        yield link
    finally:
        link.done.set()
        thread.join()
        link.join()
        link.close()
        server.close()


def _virtual_s() -> float:
    """Return from the request, after the hand-shake, until the whole reply is there."""
    path = Link(*_ways())
    exchange = path.add(data=bytes(64), reply=bytes(REPLY_BYTES))
    path.run(100, until=lambda: len(exchange.received["a"]) == REPLY_BYTES)
    return path.now_ns / NS_PER_S - HANDSHAKE_S


@pytest.mark.realtime
def test_real_time_takes_as_long_as_virtual_time() -> None:
    with _linked() as link:
        ours = client("wtcp", link.address, run=7, timeout_s=100.0, options=TransportOptions())
        outcome = ours.transact(Transaction(1, "reply", REPLY_BYTES, 1, 64, REPLY_BYTES, "one", {}))
        ours.close()
    assert outcome.outcome == "ok"
    assert outcome.rtt_ns is not None
    expected_s = _virtual_s()
    share_late = 2 * link.late_ns / NS_PER_S / expected_s
    assert outcome.rtt_ns / NS_PER_S == pytest.approx(expected_s, rel=WITHIN + share_late)


@pytest.mark.root
@pytest.mark.realtime
def test_between_namespaces_it_takes_as_long_as_in_virtual_time(tmp_path: Path) -> None:
    """50 kb/s without loss, 60,000 bytes down: from the SYN until the last of them is there."""
    words = ("--protocol", "wtcp", "--over", "wtcp-fig4a", "--vary", "reply", "--sizes", str(REPLY_BYTES))
    call("measure", "run", *words, "--sessions", "1", "-o", str(tmp_path / "run"))
    with (tmp_path / "run" / "transactions.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert row["outcome"] == "ok"
    (facts,) = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["variables"]["runs"]
    scenario = load_scenario("wtcp-fig4a")
    virtual = VirtualRun(replace(scenario, traffic=(replace(scenario.traffic[0], bytes=REPLY_BYTES),)))
    (flow,) = virtual.run().flows
    assert flow.rate_bps is not None
    expected_s = REPLY_BYTES * 8 / flow.rate_bps
    share_late = 2 * facts["latest_ms"] / 1000 / expected_s
    assert float(row["connect_s"]) + float(row["rtt_s"]) == pytest.approx(expected_s, rel=WITHIN + share_late)
