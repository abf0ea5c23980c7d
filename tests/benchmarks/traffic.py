"""A TCP traffic source and sink for recordings: `python -m tests.benchmarks.traffic send|receive ...`.

The source opens connections to the sink, at most `--at-once` of them together, and sends what the sink
throws away. Sizes are lognormal, as on the web, scaled to an exact total, and the same in every run.
"""

from __future__ import annotations

import argparse
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

_CHUNK = bytes(range(256)) * 1024


def sizes(*, connections: int, total_bytes: int, seed: int = 1) -> list[int]:
    """Return `connections` sizes, lognormal (sigma 1.2), that sum to about `total_bytes`."""
    draw = random.Random(seed)
    raw = [draw.lognormvariate(0, 1.2) for _ in range(connections)]
    return [max(1, round(size * total_bytes / sum(raw))) for size in raw]


def send(address: tuple[str, int], size: int, *, congestion_control: str) -> None:
    """Send `size` bytes over one new connection and wait until the sink has read them all."""
    with socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        sock.connect(address)
        for start in range(0, size, len(_CHUNK)):
            sock.sendall(_CHUNK[: size - start])
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)


def receive(port: int) -> None:
    """Read every connection to its end, for ever."""
    with socket.create_server(("", port), backlog=256) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()


def _drain(connection: socket.socket) -> None:
    buffer = bytearray(1 << 18)
    with connection:
        while connection.recv_into(buffer):
            pass


def main() -> None:
    """Run one of the two programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("send", "receive"))
    parser.add_argument("--host", default="10.0.2.2")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--bytes", type=int, default=0, help="total over all connections")
    parser.add_argument("--congestion-control", default="cubic")
    options = parser.parse_args()
    if options.role == "receive":
        receive(options.port)
    each = sizes(connections=options.connections, total_bytes=options.bytes)
    with ThreadPoolExecutor(options.at_once) as pool:
        peer = (options.host, options.port)
        jobs = [pool.submit(send, peer, n, congestion_control=options.congestion_control) for n in each]
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main()
