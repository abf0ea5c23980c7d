"""TLS for the programs of a recording: records go through memory, so that the journal has the bytes of the socket.

The certificate is made for one recording and thrown away with it.
"""

from __future__ import annotations

import ssl
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CERTIFICATE = "certificate.pem"
"""The file beside the journals that has the server's key and certificate, while they run."""
_MOST_BYTES = 65_536
_NAME = "causes.test"


def make_certificate(file: Path) -> None:
    """Write a key and the certificate that it signed itself into one file.

    Raises
    ------
    FileNotFoundError
        If this machine has no `openssl`.
    """
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(file)]
    made = ["openssl", "req", "-x509", *curve, "-subj", f"/CN={_NAME}", "-addext", f"subjectAltName=DNS:{_NAME}"]
    done = subprocess.run([*made, "-days", "2"], check=True, capture_output=True, text=True)
    with file.open("a") as pem:
        pem.write(done.stdout)


class Records:
    """One end of TLS: what the program writes becomes records, what comes in becomes what it reads.

    Parameters
    ----------
    certificate : str
        File with the server's key and certificate, which the client trusts.
    server : bool
        Which end it is.
    send : callable
        Sends all of some bytes.
    receive : callable
        Returns what has come in, nothing at the end.
    """

    def __init__(
        self, certificate: str, *, server: bool, send: Callable[[bytes], None], receive: Callable[[], bytes]
    ) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        if server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        else:
            context = ssl.create_default_context(cafile=certificate)
        name = None if server else _NAME
        self._tls = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=name)
        self._send, self._receive = send, receive

    def greet(self) -> None:
        """Do the handshake."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            else:
                self._flush()
                return

    def write(self, part: bytes) -> None:
        """Send it, as records of up to 16 kB."""
        self._tls.write(part)
        self._flush()

    def read(self, most: int) -> bytes:
        """Return some of what came, nothing once the peer has closed."""
        while True:
            try:
                return self._tls.read(min(most, _MOST_BYTES))
            except ssl.SSLWantReadError:
                self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def close(self) -> None:
        """Tell the peer that no more comes."""
        with suppress(ssl.SSLWantReadError):  # it need not answer
            self._tls.unwrap()
        self._flush()

    def _flush(self) -> None:
        if self._out.pending:
            self._send(self._out.read())

    def _fill(self) -> None:
        came = self._receive()
        if came:
            self._in.write(came)
        else:
            self._in.write_eof()
