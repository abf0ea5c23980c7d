"""`measure` over WTCP: real sockets over the loopback, with peers that lie, flood or say nothing."""

from __future__ import annotations

import contextlib
import csv
import random
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.errors import InputError
from multitracer.measure import wtcp
from multitracer.measure.exchange import REQUEST, Words, filled
from multitracer.measure.outcome import UnreachableError
from multitracer.measure.plan import Transaction
from multitracer.measure.transports import TransportOptions, client, server
from multitracer.measure.wtcp import WtcpClientStream, WtcpServer
from multitracer.protocols.wtcp.packet import (
    NO_IDENTITY,
    Data,
    Hello,
    WtcpAck,
    WtcpOpening,
    WtcpPacketType,
    decode,
    encode,
)
from multitracer.protocols.wtcp.state import WtcpConfig
from multitracer.units import NS_PER_S
from tests.cli.program import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 90.0


@contextlib.contextmanager
def served(config: WtcpConfig | None = None) -> Iterator[WtcpServer]:
    made, done = WtcpServer(("127.0.0.1", 0), config or WtcpConfig()), threading.Event()

    def work() -> None:
        while not done.is_set():
            made.work(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield made
    finally:
        done.set()
        thread.join()
        made.close()


def _where(made: WtcpServer) -> str:
    return "{}:{}".format(*made.address)


def _transact(made: WtcpServer, *, reply_bytes: int = 64, connection: str = "one") -> list[str]:
    outcomes = []
    with contextlib.closing(
        client("wtcp", _where(made), run=7, timeout_s=PATIENCE_S, options=TransportOptions())
    ) as ours:
        ours.reach()
        for number in (1, 2, 3):
            transaction = Transaction(number, "reply", reply_bytes, 1, 64, reply_bytes, connection, {})  # type: ignore[arg-type]
            outcome = ours.transact(transaction)
            outcomes.append(f"{outcome.outcome} {outcome.why}".strip())
            assert outcome.bytes_up is not None
            assert outcome.bytes_down is not None
            assert outcome.bytes_up >= 64
            assert outcome.bytes_down >= reply_bytes
    return outcomes


@pytest.mark.parametrize("connection", ["one", "per-session"])
@pytest.mark.parametrize("reply_bytes", [64, 100_000])
def test_transactions_are_done_over_one_connection_or_several(connection: str, reply_bytes: int) -> None:
    with served() as made:
        assert _transact(made, reply_bytes=reply_bytes, connection=connection) == ["ok"] * 3
        assert made.records.count == 3


def test_finished_connections_leave_the_server() -> None:
    with served() as made:
        for _ in range(3):
            _transact(made)
        until_s = time.monotonic() + PATIENCE_S
        while made.worker.connections and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not made.worker.connections


def test_a_flood_and_forged_packets_disturb_nobody() -> None:
    with served() as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        luck = random.Random(1)
        for _ in range(500):
            syn = WtcpOpening(WtcpPacketType.SYN, Hello(luck.randbytes(8), 1000))
            data = Data(0, 0, 0, 0, 0, 0, b"x", hello=Hello(luck.randbytes(8), 1 << 20))
            for octets in (luck.randbytes(60), encode(NO_IDENTITY, syn), encode(luck.randbytes(8), data)):
                stranger.sendto(octets, made.address)
        assert _transact(made) == ["ok"] * 3
        assert made.worker.counters.accepted == 2  # reached, and used
        assert made.worker.counters.unknown_connection > 0


def _proved(made: WtcpServer, peer: socket.socket, window_bytes: int) -> bytes:
    """Connect by hand; return the server's identity."""
    hello = Hello(b"hostile!", window_bytes)
    peer.settimeout(PATIENCE_S)
    peer.connect(made.address)
    peer.send(encode(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, hello)))
    answer = decode(peer.recv(2000))
    assert answer is not None
    assert isinstance(answer.body, WtcpOpening)
    peer.send(encode(answer.body.hello.identity, WtcpOpening(WtcpPacketType.CONFIRM, hello)))
    assert peer.recv(2000)  # the acknowledgment of it
    return answer.body.hello.identity


def test_a_peer_that_asks_for_any_rate_gets_the_maximum() -> None:
    config = WtcpConfig(max_rate_bps=80_000.0)
    with served(config) as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        identity = _proved(made, peer, (1 << 32) - 1)
        end = next(iter(made.worker.connections.values()))
        end.write(bytes(60_000))
        begin_s, octets = time.monotonic(), 0
        highest = serial = 0
        while time.monotonic() < begin_s + 2:
            packet = peer.recv(2000)
            octets += len(packet) + 28
            read = decode(packet)
            if read is not None and isinstance(read.body, Data):
                highest = max(highest, read.body.number + 1)
                ack = WtcpAck(serial, highest, 0, (1 << 32) - 1, read.body.end, (1 << 32) - 1)
                peer.send(encode(identity, ack))
                serial += 1
        seconds = time.monotonic() - begin_s
    assert octets * 8 <= 80_000 * seconds + 4 * config.packet_bits
    assert end.counters.rates_out_of_bounds > 0


def test_who_connects_and_asks_for_nothing_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wtcp, "_IDLE_NS", 1)
    with served() as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        _proved(made, peer, 1000)
        until_s = time.monotonic() + PATIENCE_S
        while (made.worker.connections or not made.worker.counters.accepted) and time.monotonic() < until_s:
            time.sleep(0.02)
        assert made.worker.counters.accepted == 1
        assert not made.worker.connections


@pytest.mark.parametrize("crowd", [1, 2])
def test_who_asks_and_acknowledges_nothing_makes_room_when_it_is_crowded(
    crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wtcp, "_IDLE_NS", NS_PER_S // 2)
    monkeypatch.setattr(wtcp, "_CROWD", crowd)
    request = filled(Words(REQUEST, 1, 1, 100_000, 1000, b""), 64)
    with served() as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        identity = _proved(made, peer, 1 << 20)
        peer.send(encode(identity, Data(0, 0, 0, 0, 0, 0, request)))
        until_s = time.monotonic() + (PATIENCE_S if crowd == 1 else 1.5)
        while made.worker.connections and time.monotonic() < until_s:
            time.sleep(0.02)
        assert made.worker.counters.accepted == 1
        assert len(made.worker.connections) == (0 if crowd == 1 else 1)


def test_what_is_no_message_ends_that_connection_alone() -> None:
    with served() as made:
        stream = WtcpClientStream.dial(made.address, WtcpConfig(), PATIENCE_S)
        stream.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        with pytest.raises(ConnectionResetError):
            stream.recv(100)
        stream.close()
        assert _transact(made) == ["ok"] * 3


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
    with contextlib.closing(client("wtcp", nowhere, run=7, timeout_s=2.0, options=TransportOptions())) as ours:
        with pytest.raises(UnreachableError, match="refused"):
            ours.reach()
        outcome = ours.transact(Transaction(1, "reply", 64, 1, 64, 64, "one", {}))
        assert outcome.outcome == "dropped"


def test_a_silent_server_costs_the_timeout_and_no_more() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with contextlib.closing(client("wtcp", where, run=7, timeout_s=0.5, options=TransportOptions())) as ours:
            outcome = ours.transact(Transaction(1, "reply", 64, 1, 64, 64, "one", {}))
        assert (outcome.outcome, outcome.why) == ("dropped", "connect")


def test_a_serial_line_cannot_carry_it() -> None:
    words = "serial:/dev/ttyS9: WTCP needs HOST:PORT; use --protocol centauruscomm on a serial line or a stream"
    with pytest.raises(InputError) as caught:
        client("wtcp", "serial:/dev/ttyS9", run=1, timeout_s=1.0, options=TransportOptions())
    assert str(caught.value) == words
    with pytest.raises(InputError) as caught:
        server("wtcp", ["serial:/dev/ttyS9"], folder=None, options=TransportOptions())
    assert str(caught.value) == words


def test_a_transport_that_there_is_not_is_refused_and_never_replaced() -> None:
    unknown: Any = "sctp"
    words = "sctp: unknown transport; choose one of tcp, centauruscomm, wtcp"
    with pytest.raises(InputError, match=words):
        client(unknown, "127.0.0.1:1", run=1, timeout_s=1.0, options=TransportOptions())
    with pytest.raises(InputError, match=words):
        server(unknown, ["127.0.0.1:0"], folder=None, options=TransportOptions())


def test_a_faster_link_has_faster_times_and_rates() -> None:
    plain, fast = TransportOptions().wtcp(), TransportOptions(speed=10).wtcp()
    assert fast.probe_ns * 10 == plain.probe_ns
    assert fast.max_rate_bps == plain.max_rate_bps * 10


def _measured(folder: Path, *options: str, status: int = 0) -> str:
    plan = ("--protocol", "wtcp", "--over", "cdpd", "--vary", "reply", "--sizes", "64,1024", "--sessions", "1")
    return call("measure", "run", *plan, *options, "-o", str(folder), status=status).stderr


@pytest.mark.parametrize(
    "clock", [pytest.param("--speed=10", marks=pytest.mark.root, id="real"), pytest.param("--virtual", id="virtual")]
)
def test_a_modelled_link_carries_it(clock: str, tmp_path: Path) -> None:
    _measured(tmp_path / "run", clock)
    with (tmp_path / "run" / "transactions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["protocol"], row["outcome"]) for row in rows] == [("wtcp", "ok")] * 2
    assert all(float(row["rtt_s"]) > 0.3 for row in rows)  # link seconds
