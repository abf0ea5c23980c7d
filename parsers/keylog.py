"""Key logs of TLS (SSLKEYLOGFILE): the secrets that open the packets of QUIC.

A line is a label, the random number of the ClientHello, and a secret (RFC 9850). The table of this format has no
secret: what `read_secrets` returns is used to open packets and is written nowhere. Secrets blocks of pcapng hold the
same text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.schemas.quic import KEY_LOG
from multitracer.tables import Table
from parsers._format import Format, Match
from parsers._stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parsers._stream import InputStream

MOST_SECRETS = 200_000
"""Lines of a key log that are used: a browser writes some ten for each connection. Not measured."""
_LINE = re.compile(rb"^([A-Z][A-Z0-9_]{3,39}) ([0-9a-fA-F]{64}) ([0-9a-fA-F]{64}|[0-9a-fA-F]{96})\s*$")
_LONGEST = 512
_SECRETS_BLOCK, _TLS_KEY_LOG = 0x0A, 0x544C534B  # draft-ietf-opsawg-pcapng, 4.7
_SECTION, _BYTE_ORDER = b"\x0a\x0d\x0d\x0a", 0x1A2B3C4D
_MOST_BLOCK = 1 << 24

Secrets = dict[bytes, dict[str, bytes]]


def sniff(head: bytes) -> Match:
    """Return "yes" if the first line that is no comment is a secret of TLS 1.3."""
    for line in head.splitlines():
        if line.strip() and not line.startswith(b"#"):
            return "yes" if _LINE.match(line) else "no"
    return "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `key_log`, without secrets.

    Raises
    ------
    FormatError
        If no line has a secret.
    """
    labels, randoms, sizes = [], [], []
    for label, random, secret in _secrets_in(_lines(stream)):
        labels.append(label)
        randoms.append(random.hex())
        sizes.append(len(secret))
    if not labels:
        raise FormatError(path, "no line of the file is a secret of a key log")
    columns = {
        "label": np.array(labels, "U40"),
        "client_random": np.array(randoms, "U64"),
        "secret_bytes": np.array(sizes, np.int32),
    }
    return {"key_log": Table(KEY_LOG, columns, {"source": path, "format": FORMAT.name})}


def read_secrets(path: str) -> Secrets:
    """Return the secrets in a key log by label, by random number of the client.

    Lines that are no secret, such as a last one that is still being written, are skipped.
    """
    with open_stream(path) as stream:
        return _by_random(_secrets_in(_lines(stream)))


def read_secrets_of_capture(path: str) -> Secrets:
    """Return the secrets in the secrets blocks of a pcapng file."""
    with open_stream(path) as stream:
        return _by_random(_secrets_in(line for text in _blocks(stream) for line in text.splitlines()))


def _by_random(secrets: Iterable[tuple[str, bytes, bytes]]) -> Secrets:
    known: Secrets = {}
    for label, random, secret in secrets:
        known.setdefault(random, {})[label] = secret
    return known


def _secrets_in(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    taken = 0
    for line in lines:
        match = _LINE.match(line)
        if match:
            yield match[1].decode(), bytes.fromhex(match[2].decode()), bytes.fromhex(match[3].decode())
            taken += 1
            if taken >= MOST_SECRETS:
                return


def _lines(stream: BinaryIO | InputStream) -> Iterator[bytes]:
    """Yield the lines of a stream; of one that is too long, its begin."""
    rest, skips = b"", False
    while chunk := stream.read(1 << 16):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if not skips:
                yield line[:_LONGEST]
            skips = False
        if len(rest) > _LONGEST:
            rest, skips = b"", True
    if rest and not skips:
        yield rest


def _blocks(stream: BinaryIO | InputStream) -> Iterator[bytes]:
    """Yield the key logs in the blocks of a pcapng file, up to what is damaged."""
    order: str = "little"
    while len(head := _exactly(stream, 8)) == 8:
        if head[:4] == _SECTION:
            magic = _exactly(stream, 4)
            order = "little" if int.from_bytes(magic, "little") == _BYTE_ORDER else "big"
            size, taken = _number(head[4:8], order), 12
        else:
            size, taken = _number(head[4:8], order), 8
        if not taken <= size <= _MOST_BLOCK:
            return
        body = _exactly(stream, size - taken)
        if len(body) < size - taken:
            return
        if _number(head[:4], order) == _SECRETS_BLOCK and _number(body[:4], order) == _TLS_KEY_LOG:
            yield body[8 : 8 + _number(body[4:8], order)]


def _exactly(stream: BinaryIO | InputStream, size: int) -> bytes:
    """Return so many bytes; fewer only at the end. A stream gives what it has unpacked, which may be less."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _number(data: bytes, order: str) -> int:
    return int.from_bytes(data, "little" if order == "little" else "big")


FORMAT = Format(
    name="key-log",
    layer="keys",
    description="secrets of TLS (SSLKEYLOGFILE), which open the packets of QUIC; they are written nowhere",
    source="RFC 9850, The SSLKEYLOGFILE Format for TLS",
    sniff=sniff,
    parse=parse,
)
