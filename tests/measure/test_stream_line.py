"""CentaurusComm on stream sockets: a socket pair in one process, and two programs on a Unix socket."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import InputError, PreflightError
from multitracer.measure.centaurus import CentaurusClient, CentaurusServer
from multitracer.measure.endpoint import LineGoneError, SerialEndpoint
from multitracer.measure.exchange import GOODBYE, HELLO, RECEIPT, REPLY, REQUEST
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import StreamLine, TransportOptions, stream_address
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from tests.cli.program import COMMAND, ENVIRONMENT, call
from tests.measure.test_measure_command import _arguments, _rows, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAN = MeasurementPlan("centauruscomm", "pair", (Experiment("reply", (64, 4096), sessions=10),), timeout_s=30)


@contextlib.contextmanager
def _paired(slaves: int) -> Iterator[list[CentaurusClient]]:
    """Let a master serve as many slaves, each at the end of a socket pair; yield their clients."""
    pairs = [socket.socketpair() for _ in range(slaves)]
    options, over = TransportOptions(), threading.Event()
    master = SerialMaster(
        [(i, 1) for i in range(slaves)], options.config(REQUEST, GOODBYE, HELLO), random_bytes=os.urandom
    )
    server = CentaurusServer(
        SerialEndpoint(master, [StreamLine(near, f"pair {i}") for i, (near, _) in enumerate(pairs)])
    )

    def serve() -> None:
        while not over.is_set():
            server.work(0.01)

    worker = threading.Thread(target=serve)
    worker.start()
    clients = []
    for i, (_, far) in enumerate(pairs):
        slave = SerialSlave(1, options.config(REPLY, RECEIPT), random_bytes=os.urandom)
        endpoint = SerialEndpoint(slave, [StreamLine(far, f"pair {i}")])
        clients.append(CentaurusClient(endpoint, slave.master, run=i, timeout_s=PLAN.timeout_s))
    try:
        yield clients
    finally:
        over.set()
        worker.join()
        server.close()
        for each in clients:
            each.close()


@pytest.mark.slow
def test_master_serves_two_slaves_at_a_time_over_socket_pairs() -> None:
    outcomes: dict[int, list[str]] = {}

    def measure(number: int, client: CentaurusClient) -> None:
        client.reach()
        outcomes[number] = [client.transact(each).outcome for each in PLAN.transactions()]

    with _paired(2) as clients:
        threads = [threading.Thread(target=measure, args=each) for each in enumerate(clients)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert outcomes == {0: ["ok"] * 20, 1: ["ok"] * 20}


def test_stream_whose_other_end_closes_is_an_error_that_names_it() -> None:
    near, far = socket.socketpair()
    line = StreamLine(near, "pair")
    with contextlib.closing(line):
        assert line.read() == b""
        line.write(b"octets")
        assert line.waiting_bytes > 0, "nobody has read them"
        assert far.recv(100) == b"octets"
        assert line.waiting_bytes == 0
        far.close()
        with pytest.raises(LineGoneError, match=r"pair: the stream has ended \(the other end closed it\)"):
            line.read()
        with pytest.raises(LineGoneError, match="pair: the stream has ended"):
            line.write(b"more")


@pytest.mark.slow
def test_two_programs_measure_over_two_unix_sockets_at_a_time(tmp_path: Path) -> None:
    more = ("--vary", "reply", "--sizes", "64,2048", "--sessions", "5")
    first, second = (f"unix:{tmp_path / name}" for name in "ab")
    with serving("centauruscomm", "--listen", second, "-o", str(tmp_path / "served"), listen=first) as where:
        assert where == f"{first}, {second}"
        argv = [*COMMAND, *_arguments("centauruscomm", first, tmp_path / "one", *more)]
        with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as other:
            call(*_arguments("centauruscomm", second, tmp_path / "two", *more))
        assert other.returncode == 0
        call(*_arguments("centauruscomm", first, tmp_path / "again", *more))  # the master takes the next slave
    for name in ("one", "two", "again"):
        assert [row["outcome"] for row in _rows(tmp_path / name)] == ["ok"] * 10
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_server_that_was_killed_begins_again_at_its_socket(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'line'}"
    argv = [*COMMAND, "measure", "serve", "--protocol", "centauruscomm", "--listen", address]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=ENVIRONMENT) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        refused = call(*argv[len(COMMAND) :], status=1).stderr
        killed.kill()
    assert (tmp_path / "line").is_socket()
    with serving("centauruscomm", listen=address) as where:
        assert where == address
        call(*_arguments("centauruscomm", address, tmp_path / "run", "--vary", "reply", "--sizes", "64"))
    assert f"{address}: cannot listen there (Address already in use); choose another" in refused, "one is running"


def test_file_that_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("kept")
    argv = ("measure", "serve", "--protocol", "centauruscomm", "--listen", f"unix:{tmp_path / 'notes'}")
    assert "cannot listen there (Address already in use)" in call(*argv, status=1).stderr
    assert (tmp_path / "notes").read_text() == "kept"


def test_server_that_vanishes_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'line'}"
    argv = [*COMMAND, "measure", "serve", "--protocol", "centauruscomm", "--listen", address]
    run = [*COMMAND, *_arguments("centauruscomm", address, tmp_path / "run", "--vary", "reply", "--sizes", "64")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=ENVIRONMENT) as server:
        assert server.stdout is not None
        server.stdout.readline()
        with subprocess.Popen(
            run, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=ENVIRONMENT
        ) as client:
            written = tmp_path / "run" / "transactions.csv"
            deadline = time.monotonic() + 60
            while not written.exists() or written.read_bytes().count(b"\n") < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            server.send_signal(signal.SIGKILL)
            _, errors = client.communicate(timeout=60)
    assert client.returncode == 1
    assert errors == f"Error: {address}: the stream has ended (the other end closed it); start the other end again\n"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("rfcomm:00:11:22:33:44:55/31", "a channel of 1 to 30"),
        ("rfcomm:00:11:22:33:44/1", "must be rfcomm:DEVICE/CHANNEL"),
        ("rfcomm:1; reboot", "must be rfcomm:DEVICE/CHANNEL"),
        ("unix:/nonexistent/socket", "cannot connect (No such file or directory)"),
    ],
)
def test_address_that_cannot_be_is_one_sentence(address: str, words: str, tmp_path: Path) -> None:
    more = ("--vary", "reply", "--sizes", "64")
    told = call(*_arguments("centauruscomm", address, tmp_path / "run", *more), status=1).stderr
    assert words in told
    assert told.count("\n") == 1


def test_a_system_without_bluetooth_says_so() -> None:
    """Where there are such sockets, the address is understood; nothing is sent."""
    text = "rfcomm:00:11:22:33:44:55/1"
    if hasattr(socket, "AF_BLUETOOTH"):
        address = stream_address(text)
        assert address is not None
        assert address.address == ("00:11:22:33:44:55", 1)
    else:
        with pytest.raises(PreflightError, match="this Python has no Bluetooth sockets"):
            stream_address(text)


def test_tcp_takes_no_stream(tmp_path: Path) -> None:
    told = call(*_arguments("tcp", "unix:/x", tmp_path, "--vary", "reply", "--sizes", "64"), status=1).stderr
    assert "TCP needs HOST:PORT; use --protocol centauruscomm on a serial line or a stream" in told
    with pytest.raises(InputError):
        stream_address("rfcomm:")


@pytest.mark.slow
def test_slave_that_does_not_read_does_not_stop_another(tmp_path: Path) -> None:
    first, second = (f"unix:{tmp_path / name}" for name in "ab")
    more = ("--vary", "reply", "--sizes", "64", "--sessions", "60", "--timeout", "4")
    with serving("centauruscomm", "--listen", second, listen=first), socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(tmp_path / "a"))
        call(*_arguments("centauruscomm", second, tmp_path / "run", *more))
    assert [row["outcome"] for row in _rows(tmp_path / "run")] == ["ok"] * 60
