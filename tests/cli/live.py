"""Live captures: a transfer over the loopback device while tcpdump writes into the program."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.cli.program import start

if TYPE_CHECKING:
    from collections.abc import Sequence


def loopback_transfer(command: Sequence[str], *, payload_bytes: int) -> dict[str, Any]:
    """Return what a command says of one transfer that tcpdump captured into its standard input."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # In immediate mode the ring has slots of the snap length: short ones, so that none overflows.
        ring = ["--immediate-mode", "-s", "128", "-B", "16384"]
        capture = ["tcpdump", "-i", "lo", "-U", *ring, "-w", "-", f"tcp port {port}"]
        with subprocess.Popen(capture, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tcpdump:
            assert tcpdump.stderr is not None
            while "listening on" not in tcpdump.stderr.readline():
                assert tcpdump.poll() is None
            with start(command, stdin=tcpdump.stdout) as program:
                _transfer(server, payload_bytes)
                _wait_until_quiet(tcpdump)
                tcpdump.terminate()
                out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def _wait_until_quiet(tcpdump: subprocess.Popen[str]) -> None:
    """Wait until tcpdump, which answers SIGUSR1 with its counts, has captured nothing more for a while."""
    assert tcpdump.stderr is not None
    before, now = None, ""
    while now != before:
        time.sleep(1)
        tcpdump.send_signal(signal.SIGUSR1)
        before, now = now, tcpdump.stderr.readline()


def _transfer(server: socket.socket, payload_bytes: int) -> None:
    received = 0

    def receive() -> None:
        nonlocal received
        connection, _ = server.accept()
        with connection:
            while chunk := connection.recv(65536):
                received += len(chunk)

    receiver = threading.Thread(target=receive)
    receiver.start()
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(bytes(payload_bytes))
    receiver.join()
    assert received == payload_bytes
