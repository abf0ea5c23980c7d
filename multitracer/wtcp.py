"""Tables of WTCP in a capture: the decoded packets, and the flows that the analysis finds.

docs/wtcp.md has the wire format. A connection is recognised only by its handshake: a SYN, and a SYN-ACK that
repeats the 64 random bits of the SYN. Times are those of the capture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.endpoints import Endpoints

WTCP_PACKETS = Schema(
    "wtcp_packets",
    (
        Column("time_ns", "int64", "time at the capture point", "ns since 1970"),
        Column("frame", "int64", "packet number in its file, from 1 (as Wireshark counts)"),
        Column("flow", "int64", "2 x number of the connection (from 0), plus 1 if the responder sent the packet"),
        Column("kind", "int64", "type of the packet: low half of its first octet"),
        Column("number", "int64", "number of the transmission; for an ACK, highest received number plus one", na=True),
        Column(
            "place",
            "int64",
            "offset of the first byte in the stream; for an ACK, number of bytes received without a gap",
            na=True,
        ),
        Column("payload_bytes", "int64", "payload of the application, computed from the UDP length", "bytes"),
        Column(
            "rate_bps", "int64", "of an ACK: the rate that it commands, of packets with their headers", "bit/s", na=True
        ),
    ),
)
"""The packets of WTCP connections, in capture order; of repeated SYNs only the first and the last."""

RATE_COMMANDS = Schema(
    "rate_commands",
    (
        Column("time_ns", "int64", "when the ACK was captured", "ns since 1970"),
        Column("packets_per_s", "float64", "sending rate that it commands", "1/s"),
    ),
)
"""The rates that the receiver of a flow of WTCP computed, and its ACKs carry, in capture order."""

DELIVERIES = Schema(
    "deliveries",
    (
        Column("time_ns", "int64", "when the packet arrived", "ns since 1970"),
        Column("new_bytes", "int64", "payload in this packet that had not arrived before", "bytes"),
    ),
)
"""The packets that delivered new data to the receiver of a flow, in capture order."""

WTCP_FLOWS = Schema(
    "wtcp",
    (
        Column("flow", "U128", "sender HOST:PORT > receiver HOST:PORT, with host names where known"),
        Column("src", "U45", "address of the data's sender"),
        Column("sport", "int64", "UDP port of the data's sender"),
        Column("dst", "U45", "address of the data's receiver"),
        Column("dport", "int64", "UDP port of the data's receiver"),
        Column("host", "U128", "capture point at the receiver; empty if there is none"),
        Column("begin_ns", "int64", "first packet of the connection at this capture point", "ns since 1970"),
        Column(
            "delivered_bytes",
            "int64",
            "payload that reached the receiver, each byte once; without a capture at the receiver, from the ACKs",
            "bytes",
            na=True,
        ),
        Column(
            "delivered_packets",
            "int64",
            "packets that carried this payload; NA without a capture at the receiver",
            na=True,
        ),
        Column("repeated_packets", "int64", "retransmitted packets; NA without a capture at the sender", na=True),
        Column(
            "rate_bps",
            "float64",
            "delivered payload per second, from begin to the last delivery, in link time",
            "bit/s",
        ),
    ),
)
"""The WTCP flows of a recording that have data."""


@dataclass(slots=True)
class WtcpCapture:
    """The WTCP connections of one capture.

    Attributes
    ----------
    packets : Table
        WTCP_PACKETS.
    ends : list of Endpoints
        Endpoints of each connection, the initiator first.
    skipped : dict of str to int
        Number of ignored packets between these endpoints, by reason.
    """

    packets: Table = field(default_factory=lambda: Table.empty(WTCP_PACKETS))
    ends: list[Endpoints] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def apart(self) -> Iterator[Table]:
        """Yield the packets of each connection, in the order of `ends`."""
        connection = self.packets["flow"] >> 1
        order = np.argsort(connection, kind="stable")
        edges = np.searchsorted(connection[order], np.arange(len(self.ends) + 1))
        for begin, end in pairwise(edges.tolist()):
            yield self.packets.take(order[begin:end])
