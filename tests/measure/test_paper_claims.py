"""What paper 000 says of CentaurusComm, section V: no session is lost, a constant penalty, and an early start helps."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from multitracer.measure.centaurus import CentaurusClient, CentaurusServer
from multitracer.measure.endpoint import SerialEndpoint, SerialLine, UdpEndpoint
from multitracer.measure.exchange import GOODBYE, HELLO, RECEIPT, REPLY, REQUEST
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import StreamLine, TransportOptions
from multitracer.protocols.centaurus.events import SessionEnded
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from tests.cli.program import call
from tests.measure.ptys import cables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from multitracer.measure.endpoint import CentaurusEndpoint
    from multitracer.protocols.centaurus.events import Address, Event

    Medium = Callable[
        [TransportOptions], contextlib.AbstractContextManager[tuple[CentaurusEndpoint, CentaurusEndpoint, Address]]
    ]

SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
SESSIONS = 12
LOSS = 0.03
SERVED, ANSWERED = (REQUEST, GOODBYE, HELLO), (REPLY, RECEIPT)


@contextlib.contextmanager
def _running(step: Callable[[], object]) -> Iterator[None]:
    """Repeat a step in a thread."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            step()

    worker = threading.Thread(target=repeat)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


@contextlib.contextmanager
def _udp(options: TransportOptions) -> Iterator[tuple[CentaurusEndpoint, CentaurusEndpoint, Address]]:
    """Two UDP sockets, and between them one that loses datagrams in both directions."""
    chance = random.Random(1)
    server = UdpEndpoint(UdpWorker(options.config(*SERVED), random_bytes=os.urandom))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as between:
        between.bind(("127.0.0.1", 0))
        between.settimeout(0.02)
        client = UdpEndpoint(UdpWorker(options.config(*ANSWERED), random_bytes=os.urandom), only=between.getsockname())

        here, there = client.address, server.address  # while they are open: the test may close them first

        def carry() -> None:
            with contextlib.suppress(TimeoutError):
                datagram, source = between.recvfrom(2048)
                if chance.random() >= LOSS:
                    between.sendto(datagram, here if source == there else there)

        with _running(carry):
            yield server, client, between.getsockname()


def _damage(chance: random.Random) -> Callable[[bytes], bytes]:
    def wire(octets: bytes) -> bytes:
        if not octets or chance.random() >= LOSS:
            return octets
        at = chance.randrange(len(octets))
        return octets[:at] + bytes((octets[at] ^ 0x55,)) + octets[at + 1 :]

    return wire


@contextlib.contextmanager
def _serial(options: TransportOptions) -> Iterator[tuple[CentaurusEndpoint, CentaurusEndpoint, Address]]:
    """Two pseudo-terminals with a cable that damages an octet of some reads."""
    with cables(1, _damage(random.Random(2))) as (cable,), _running(lambda: cable.carry(0.02)):
        slave = SerialSlave(1, options.config(*ANSWERED), random_bytes=os.urandom)
        master = SerialMaster([(0, 1)], options.config(*SERVED), random_bytes=os.urandom)
        yield (
            SerialEndpoint(master, [SerialLine(cable.near)]),
            SerialEndpoint(slave, [SerialLine(cable.far)]),
            slave.master,
        )


@contextlib.contextmanager
def _stream(options: TransportOptions) -> Iterator[tuple[CentaurusEndpoint, CentaurusEndpoint, Address]]:
    """Two socket pairs, and between them a program that damages an octet of some reads."""
    (near, inner), (other, far) = socket.socketpair(), socket.socketpair()
    with contextlib.ExitStack() as stack:
        for source, sink, seed in ((inner, other, 3), (other, inner, 4)):
            stack.enter_context(contextlib.closing(source))
            source.settimeout(0.02)
            stack.enter_context(_running(_copying(source, sink, _damage(random.Random(seed)))))
        slave = SerialSlave(1, options.config(*ANSWERED), random_bytes=os.urandom)
        master = SerialMaster([(0, 1)], options.config(*SERVED), random_bytes=os.urandom)
        yield (
            SerialEndpoint(master, [StreamLine(near, "near")]),
            SerialEndpoint(slave, [StreamLine(far, "far")]),
            slave.master,
        )


def _copying(source: socket.socket, sink: socket.socket, wire: Callable[[bytes], bytes]) -> Callable[[], None]:
    def copy() -> None:
        with contextlib.suppress(TimeoutError, OSError):
            sink.sendall(wire(source.recv(4096)))

    return copy


@pytest.mark.slow
@pytest.mark.parametrize(("medium", "speed"), [(_udp, 20), (_serial, 5), (_stream, 5)])
def test_no_session_is_lost_where_three_percent_of_the_packets_are(
    medium: Medium, speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = tuple(Experiment(vary, SIZES, sessions=SESSIONS) for vary in ("request", "reply"))
    plan = MeasurementPlan("centauruscomm", "near", experiments, timeout_s=60)
    ended: list[str] = []
    with medium(TransportOptions(speed=speed)) as (serving, asking, address):
        server = CentaurusServer(serving)
        client = CentaurusClient(asking, address, run=1, timeout_s=plan.timeout_s)
        work = asking.work
        monkeypatch.setattr(asking, "work", lambda wait_s=0.0: _noted(work(wait_s), ended))
        try:
            with _running(lambda: server.work(0.01)):
                client.reach()
                outcomes = [client.transact(each) for each in plan.transactions()]
        finally:
            client.close()
            server.close()
    assert [each.outcome for each in outcomes] == ["ok"] * plan.count
    assert set(ended) > {"complete"}, "nothing was lost, so nothing is shown"


def _noted(events: list[Event], causes: list[str]) -> list[Event]:
    """Note how sessions ended, and pass the events on."""
    causes.extend(each.cause for each in events if isinstance(each, SessionEnded))
    return events


def _shortest_rtts_s(folder: Path) -> dict[int, float]:
    """Return the shortest of each size, a transaction in which the channel lost nothing."""
    with (folder / "transactions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["outcome"] for row in rows} == {"ok"}
    return {size: min(float(row["rtt_s"]) for row in rows if int(row["size_bytes"]) == size) for size in SIZES}


@pytest.mark.slow
def test_the_penalty_is_constant_and_an_early_start_takes_most_of_it_away(tmp_path: Path) -> None:
    """Over a CDPD channel that nobody else uses and that loses nothing: what is left is the protocol's own."""
    link = tmp_path / "link.toml"
    link.write_text(
        """
        title = "CDPD without loss"
        [tcp]
        profile = "modern"
        mtu_bytes = 576
        [link]
        kind = "cdpd"
        [link.loss]
        down = 0
        up = 0
        [link.network]
        jitter_ms = 0
        [link.cell]
        busy_percent = 0
        spread_percent = 0
        [link.outages]
        hop_every_s = 0
        ejection_every_s = 0
        blackout_every_s = 0
        """
    )
    rtts_s = {}
    for name, protocol, more in (
        ("tcp", "tcp", ()),
        ("plain", "centauruscomm", ()),
        ("early", "centauruscomm", ("--extension", "early-start")),
    ):
        sizes = ("--vary", "reply", "--sizes", ",".join(map(str, SIZES)), "--sessions", "20")
        over = ("--over", str(link), "--virtual", "-o", str(tmp_path / name))
        call("measure", "run", "--protocol", protocol, *sizes, *over, *more)
        rtts_s[name] = _shortest_rtts_s(tmp_path / name)
    penalties = [rtts_s["plain"][size] - rtts_s["tcp"][size] for size in SIZES]
    saved = [rtts_s["plain"][size] - rtts_s["early"][size] for size in SIZES]
    assert all(1.75 < each < 2.25 for each in penalties), str(penalties)  # the paper: about 2 seconds
    assert all(1.5 < each < 1.7 for each in saved[:-1]), str(saved)  # of both messages, one round trip each
    assert saved[-1] > 1, "8,192 bytes are as many segments as may leave early, and the turn waits for the rest"
