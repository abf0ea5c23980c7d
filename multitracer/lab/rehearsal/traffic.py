"""TCP traffic that a rehearsal records: `python -m multitracer.lab.rehearsal.traffic`.

It runs over loopback or, with `--server`, is a download from the server of the simulated path.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

from collectors._options import parser, run
from collectors._stop import PARENT_ENDED, Stop
from multitracer.lab.rehearsal.idle import idle_times_s
from multitracer.lab.rehearsal.server import ADDRESS, PORT
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVERY_NS = 100 * NS_PER_MS
_CHUNK = bytes(5_000)
_READ_BYTES = 1 << 16
_CONNECT_S = 3.0
"""Time for the handshake in s; meanwhile the end of the recorder is not noticed."""
_PATIENCE_S = 5.0
_REQUEST = bytes(300)
_ANSWER_BYTES = 2_896
"""Size of what the server sends for a request: one of its writes."""
_ANSWERS_S = 30.0
"""Time for a handshake or an answer, s: a timer that doubled in the longest hole may expire so late."""


def _read_all(server: socket.socket) -> None:
    """Accept one connection and read until it ends."""
    accepted, _ = server.accept()
    with accepted:
        while accepted.recv(_READ_BYTES):
            pass


def main(argv: Sequence[str]) -> None:
    """Transfer data until stopped: 50 kB/s over loopback, a download with `--server`, or requests."""
    options = parser(__doc__)
    options.add_argument("--server", action="store_true", help="download over the simulated path")
    options.add_argument("--requests", type=int, metavar="SEED", help="with --server: requests with random pauses")
    chosen = options.parse_args(argv)
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop:
        if chosen.requests is not None:
            _request(stop, chosen.requests)
        elif chosen.server:
            _download(stop)
        else:
            _send(stop)


def _send(stop: Stop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = threading.Thread(target=_read_all, args=(server,), daemon=True)
        reader.start()
        with socket.create_connection(server.getsockname()) as client:
            while stop.wait(time.monotonic_ns() + _EVERY_NS):
                client.sendall(_CHUNK)
        reader.join()


def _request(stop: Stop, seed: int) -> None:
    """Send requests until stopped; every third one over a new connection."""
    client: socket.socket | None = None
    with contextlib.ExitStack() as ending:
        for number, idle_s in enumerate(idle_times_s(seed)):
            if not stop.wait(time.monotonic_ns() + round(idle_s * NS_PER_S)):
                return
            if client is None:
                with contextlib.suppress(OSError):  # in a hole nobody answers
                    client = ending.enter_context(socket.create_connection((ADDRESS, PORT), _ANSWERS_S))
            if client is None:
                continue
            try:
                client.sendall(_REQUEST)
                missing = _ANSWER_BYTES
                while missing > 0 and (part := client.recv(_READ_BYTES)):
                    missing -= len(part)
            except OSError:
                missing = _ANSWER_BYTES
            if missing > 0 or number % 3 == 2:
                client.close()
                client = None


def _download(stop: Stop) -> None:
    """Read until stopped, then close our direction and read the remaining data while somebody records them."""
    with socket.create_connection((ADDRESS, PORT), _CONNECT_S) as client:
        client.setblocking(False)
        while stop.wait(time.monotonic_ns() + NS_PER_S, readable=[client.fileno()]):
            with contextlib.suppress(BlockingIOError):
                if not client.recv(_READ_BYTES):
                    return
        if stop.reason == PARENT_ENDED:
            return
        client.settimeout(_PATIENCE_S)
        with contextlib.suppress(OSError):  # in a hole nothing comes
            client.shutdown(socket.SHUT_WR)
            while client.recv(_READ_BYTES):
                pass


if __name__ == "__main__":
    run(main)
