"""A server on TCP that strangers hold connections to still serves its clients."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from multitracer.measure import server as serving
from multitracer.measure.plan import Transaction
from multitracer.measure.tcp import TcpServer
from multitracer.measure.transports import TransportOptions, client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def test_the_record_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_BYTES", 300)
    with served(tmp_path) as server:
        assert [transact(server, number) for number in range(1, 6)] == ["ok"] * 5
        assert server.records.count == 5
        lines = (tmp_path / serving.RECORDS).read_text().splitlines()
        assert 0 < len(lines) < 5
        assert server.records.not_recorded == 5 - len(lines)
        assert [json.loads(line)["transaction"] for line in lines] == list(range(1, len(lines) + 1))
