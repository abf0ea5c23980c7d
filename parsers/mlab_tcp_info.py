"""Snapshots of M-Lab's tcp-info: sender state of one connection, a JSON record in each line.

The first record has the metadata. Each other one has the kernel's answer as it was: `RawIDM`, the struct
inet_diag_msg, and `Attributes` by number (2: struct tcp_info, 4: the congestion control). The kernel is that
of M-Lab's servers, x86-64. Source: m-lab/tcp-info, netlink/structs.go; linux/inet_diag.h.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import Family, ReadBy
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS
from parsers._format import Format, Match
from parsers._text.lines import LogLines
from parsers._text.times import Rows, parsed_json, time_ns
from parsers.tcp_info import FROM_RECORD, tcp_info_columns, variables

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_SNIFFED = re.compile(rb'\A\s*\{"Timestamp"\s*:\s*"[^"]{1,40}",\s*"(?:Metadata|RawIDM)"\s*:')
_SOCKET = struct.Struct("<BBBB 2s2s16s16s I Q IIIII")
"""struct inet_diag_msg: ports and addresses in network order, the rest in that of the host."""
_INFO, _CONGESTION = 2, 4
"""Numbers of the attributes INET_DIAG_INFO and INET_DIAG_CONG."""


def sniff(head: bytes) -> Match:
    """Return "yes" for a record that begins as those of tcp-info do."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `tcp_state`.

    Raises
    ------
    FormatError
        If no record is a snapshot.
    """
    lines, rows = LogLines(stream), Rows(TCP_STATE, FROM_RECORD)
    blobs: list[bytes] = []
    metadata: Document = {}
    for text in lines:
        record = parsed_json(text)
        if not isinstance(record, dict):
            lines.skip("not a JSON object")
        elif isinstance(record.get("Metadata"), dict) and "RawIDM" not in record:
            metadata = record["Metadata"]
        else:
            try:
                row, blob = _snapshot(record)
            except (KeyError, IndexError, TypeError, ValueError, struct.error, binascii.Error):
                lines.skip("not a snapshot with the state of a sender")
                continue
            rows.append(*row)
            blobs.append(blob)
    if not blobs:
        raise FormatError(path, "the file contains no snapshot of tcp-info")
    info = tcp_info_columns(blobs, byte_order="little")
    columns = rows.columns() | variables(info)
    columns["time_ns"] = columns["read_before_ns"]
    columns["method"] = np.full(len(blobs), ReadBy.TCP_INFO, dtype=np.uint8)
    uuid = str(metadata.get("UUID", ""))[:100]
    return {"tcp_state": rows.table(lines.provenance(path, FORMAT.name, uuid=uuid), columns)}


def _snapshot(record: Document) -> tuple[tuple[object, ...], bytes]:
    """Return the values of FROM_RECORD and the struct tcp_info; raise an error if one is not valid."""
    at_ns = time_ns(record["Timestamp"], "iso", None, _nothing)
    attributes = record["Attributes"]
    blob = base64.b64decode(attributes[_INFO], validate=True)
    message = base64.b64decode(record["RawIDM"], validate=True)
    fields = _SOCKET.unpack_from(message)
    family, state, timer, _, local_port, remote_port, local, remote, _, cookie, expires_ms, *more = fields
    receive_queue, send_queue, _, inode = more
    if at_ns is None or not blob:
        raise ValueError("a snapshot has no time or no state")
    version = {Family.INET: 4, Family.INET6: 6}[Family(family)]
    ends = [end[:4].ljust(16, b"\0") if version == 4 else end for end in (local, remote)]
    if version == 6 and all(end.startswith(_MAPPED) for end in ends):
        version, ends = 4, [end[12:].ljust(16, b"\0") for end in ends]
    name = attributes[_CONGESTION] if len(attributes) > _CONGESTION else None
    congestion = base64.b64decode(name, validate=True).rstrip(b"\0") if name else b""
    return (
        at_ns,
        at_ns,
        version,
        *ends,
        int.from_bytes(local_port, "big"),
        int.from_bytes(remote_port, "big"),
        cookie,
        inode or -1,
        state,
        timer,
        expires_ms * NS_PER_MS if timer else NOT_A_TIME,
        receive_queue,
        send_queue,
        congestion[:16].decode("ascii", "replace"),
    ), blob


_MAPPED = bytes(10) + b"\xff\xff"
"""First bytes of an IPv4 address in an IPv6 socket (RFC 4291, 2.5.5.2)."""


def _nothing() -> None:
    """Do nothing: tcp-info writes UTC."""


FORMAT = Format(
    name="mlab-tcp-info",
    layer="tcp",
    description="snapshots of TCP senders of M-Lab's tcp-info, JSON lines",
    source="m-lab/tcp-info; linux/inet_diag.h",
    sniff=sniff,
    parse=parse,
)
