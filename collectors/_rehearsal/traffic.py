"""Some TCP over loopback for a rehearsal to record: `python -m collectors._rehearsal.traffic`."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

from collectors._options import parser, run
from collectors._stop import Stop
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVERY_NS = 100 * NS_PER_MS
_PIECE = bytes(5_000)
_READ_BYTES = 1 << 16


def _read_all(server: socket.socket) -> None:
    """Take one connection and read until it ends."""
    accepted, _ = server.accept()
    with accepted:
        while accepted.recv(_READ_BYTES):
            pass


def main(argv: Sequence[str]) -> None:
    """Send 50 kB/s until stopped."""
    chosen = parser(__doc__).parse_args(argv)
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        reader = threading.Thread(target=_read_all, args=(server,), daemon=True)
        reader.start()
        with socket.create_connection(server.getsockname()) as client:
            while stop.wait(time.monotonic_ns() + _EVERY_NS):
                client.sendall(_PIECE)
        reader.join()


if __name__ == "__main__":
    run(main)
