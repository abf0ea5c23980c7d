"""The traffic of the sample session: one long upload, and short downloads beside it.

Run it as `python -m sample_traces.recording.traffic serve|upload ...`.
A connection begins with 8 bytes, how much the server has to send; then the client may send what it likes.
"""

from __future__ import annotations

import argparse
import fcntl
import socket
import struct
import termios
import threading
import time

_TEXT = b"The quick brown fox jumps over the lazy dog. 0123456789\n" * 1200
_SIOCOUTQ = termios.TIOCOUTQ


def serve(port: int) -> None:
    """Answer every connection, for ever."""
    with socket.create_server(("", port), backlog=16) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        (wanted,) = struct.unpack("!Q", connection.recv(8, socket.MSG_WAITALL))
        _send(connection, wanted)
        while connection.recv(65_536):
            pass


def _send(connection: socket.socket, size: int) -> None:
    for start in range(0, size, len(_TEXT)):
        connection.sendall(_TEXT[: size - start])


def _connect(host: str, port: int, congestion_control: str) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    sock.connect((host, port))
    return sock


def upload(host: str, port: int, *, size: int, congestion_control: str) -> None:
    """Send `size` bytes; close only when all are acknowledged.

    A socket that is shut down early leaves ESTABLISHED, and the kernel's tcp_probe no longer sees it.
    """
    with _connect(host, port, congestion_control) as sock:
        sock.sendall(struct.pack("!Q", 0))
        _send(sock, size)
        while struct.unpack("i", fcntl.ioctl(sock, _SIOCOUTQ, b"\0" * 4))[0]:
            time.sleep(0.02)


def download(host: str, port: int, *, size: int, congestion_control: str) -> None:
    """Fetch `size` bytes."""
    with _connect(host, port, congestion_control) as sock:
        sock.sendall(struct.pack("!Q", size))
        left = size
        while left:
            left -= len(sock.recv(min(left, 65_536)))


def main() -> None:
    """Run the server, or the upload with a download every few seconds beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("serve", "upload"))
    parser.add_argument("--host", default="")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--download-bytes", type=int, default=0)
    parser.add_argument("--download-after", type=float, action="append", default=[], help="seconds")
    parser.add_argument("--congestion-control", default="cubic")
    options = parser.parse_args()
    if options.role == "serve":
        serve(options.port)
    peer, control = (options.host, options.port), options.congestion_control
    fetch = {"size": options.download_bytes, "congestion_control": control}
    for after in options.download_after:
        timer = threading.Timer(after, download, args=peer, kwargs=fetch)
        timer.daemon = True  # a download that the upload does not live to see is not started
        timer.start()
    upload(*peer, size=options.bytes, congestion_control=control)


if __name__ == "__main__":
    main()
