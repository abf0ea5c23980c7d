"""A server on TCP that strangers hold connections to still serves its clients."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.measure import server as serving
from multitracer.measure import tcp
from multitracer.measure.exchange import MAX_MESSAGE_BYTES, REQUEST, MessageReader, Words, filled, is_complete
from multitracer.measure.plan import Transaction
from multitracer.measure.tcp import TcpServer
from multitracer.measure.transports import TransportOptions, client
from multitracer.units import NS_PER_S
from tests.cli.program import COMMAND, ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGERS = 300


@contextlib.contextmanager
def served(folder: Path | None = None) -> Iterator[TcpServer]:
    server, done = TcpServer(("127.0.0.1", 0), folder=folder), threading.Event()

    def work() -> None:
        while not done.is_set():
            server.work(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield server
    finally:
        done.set()
        thread.join()
        server.close()


def transact(server: TcpServer, number: int = 1) -> str:
    where = "{}:{}".format(*server.address)
    with contextlib.closing(client("tcp", where, run=7, timeout_s=60.0, options=TransportOptions())) as made:
        transaction = Transaction(number, "reply", 64, 1, 64, 64, "one", {})
        return made.transact(transaction).outcome


@pytest.mark.parametrize("hosts", [1, 10])
def test_silent_connections_make_room_for_who_asks(hosts: int) -> None:
    with served() as server, contextlib.ExitStack() as open_:
        for number in range(STRANGERS):
            source = (f"127.0.1.{number % hosts + 1}", 0)
            open_.enter_context(socket.create_connection(server.address, 60, source_address=source))
        assert transact(server) == "ok"
        assert len(server._connections) <= (64 if hosts == 1 else 256) + 1


def _connected(server: TcpServer, source: str, stack: contextlib.ExitStack, *, window_bytes: int = 0) -> socket.socket:
    """Return a connection to the server that is closed with the stack."""
    made = stack.enter_context(socket.socket())
    if window_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window_bytes)
    made.settimeout(60)
    made.bind((source, 0))
    made.connect(server.address)
    return made


def _wait_until(reached: Callable[[], bool], patience_s: float = 30.0) -> None:
    until_s = time.monotonic() + patience_s
    while not reached():
        assert time.monotonic() < until_s
        time.sleep(0.02)


LARGE_REPLY = filled(Words(REQUEST, 1, 1, MAX_MESSAGE_BYTES, 1000, b""), 64)


def test_clients_that_never_read_give_way_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_YIELD_NS", NS_PER_S // 2)
    with served() as server, contextlib.ExitStack() as stack:
        for number in range(256):
            _connected(server, f"127.0.1.{number % 4 + 1}", stack, window_bytes=2048).sendall(LARGE_REPLY)
        _wait_until(lambda: sum(each.dialogue.has_asked for each in list(server._connections.values())) == 256)
        time.sleep(0.6)
        assert transact(server) == "ok"


@pytest.mark.parametrize("sent", [b"", LARGE_REPLY[:20], LARGE_REPLY], ids=["nothing", "half a request", "a request"])
def test_client_without_progress_is_disconnected(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_IDLE_NS", NS_PER_S // 2)
    monkeypatch.setattr(tcp, "_LOOK_NS", NS_PER_S // 10)
    with served() as server, contextlib.ExitStack() as stack:
        _connected(server, "127.0.1.1", stack, window_bytes=2048).sendall(sent)
        _wait_until(lambda: bool(server._connections))
        _wait_until(lambda: not server._connections)


def _drip(connection: socket.socket) -> None:
    for octet in filled(Words(REQUEST, 1, 1, 64, 1000, b""), 200):
        connection.sendall(bytes([octet]))
        time.sleep(0.1)


def test_request_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_IDLE_NS", NS_PER_S // 2)
    monkeypatch.setattr(tcp, "_LOOK_NS", NS_PER_S // 10)
    with served() as server, contextlib.ExitStack() as stack:
        dripping = _connected(server, "127.0.1.1", stack)
        with pytest.raises(OSError, match=r"reset|pipe"):
            _drip(dripping)


def test_slow_reader_and_slow_writer_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes several times as long as a client without progress is tolerated."""
    monkeypatch.setattr(tcp, "_IDLE_NS", NS_PER_S // 2)
    monkeypatch.setattr(tcp, "_LOOK_NS", NS_PER_S // 10)
    with served() as server, contextlib.ExitStack() as stack:
        slow = _connected(server, "127.0.1.1", stack, window_bytes=2048)
        request = filled(Words(REQUEST, 1, 1, MAX_MESSAGE_BYTES, 1000, b""), 2000)
        for begin in range(0, len(request), 200):
            slow.sendall(request[begin : begin + 200])
            time.sleep(0.2)
        reader, reply = MessageReader(), None
        while reply is None:
            reply = next(iter(reader.feed(slow.recv(16_384))), None)
            time.sleep(0.02)
        assert is_complete(reply)


def test_active_clients_of_one_address_give_way_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a crowded address that has done no transaction does not keep out the first one of another."""
    monkeypatch.setattr(tcp, "_MAX_CONNECTIONS", 8)
    with served() as server, contextlib.ExitStack() as stack:
        for _ in range(8):
            _connected(server, "127.0.1.1", stack).sendall(LARGE_REPLY)
        _wait_until(lambda: sum(each.dialogue.has_asked for each in list(server._connections.values())) == 8)
        assert transact(server) == "ok"


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.realtime
def test_server_without_descriptors_waits_and_goes_on() -> None:
    argv = [*COMMAND, "measure", "serve", "--protocol", "tcp", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            host, port = server.stdout.readline().split(" at ")[1].strip().split(":")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (24, 24))
            with contextlib.ExitStack() as stack:
                for number in range(40):
                    source = (f"127.0.1.{number % 4 + 1}", 0)
                    made = socket.create_connection((host, int(port)), 60, source_address=source)
                    stack.enter_context(made).sendall(filled(Words(REQUEST, 1, 1, 64, 1000, b""), 64))
                time.sleep(0.5)
                before_s = _cpu_s(server.pid)
                time.sleep(2.5)
                used_s = _cpu_s(server.pid) - before_s
            with contextlib.closing(
                client("tcp", f"{host}:{port}", run=7, timeout_s=60.0, options=TransportOptions())
            ) as honest:
                outcome = honest.transact(Transaction(1, "reply", 64, 1, 64, 64, "one", {})).outcome
            server.terminate()
            _, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert used_s < 0.25
    assert outcome == "ok"
    assert errors.count("cannot accept a connection (Too many open files)") == errors.count("\n") == 1


def test_the_record_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_BYTES", 300)
    with served(tmp_path) as server:
        assert [transact(server, number) for number in range(1, 6)] == ["ok"] * 5
        assert server.records.count == 5
        lines = (tmp_path / serving.RECORDS).read_text().splitlines()
        assert 0 < len(lines) < 5
        assert server.records.not_recorded == 5 - len(lines)
        assert [json.loads(line)["transaction"] for line in lines] == list(range(1, len(lines) + 1))
