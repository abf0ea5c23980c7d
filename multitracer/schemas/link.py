"""Tables of a data link's log: the frames of one side, and its other events.

Each side has a pair of tables: a log contains only what its own side sent, received and did. The values of
`kind`, `function`, `cause`, `fate` and `event` are those of docs/protocols.md. A missing value is NA, never
0.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

_WHEN = (
    Column("time_ns", "int64", "when this side saw it", "ns since 1970"),
    Column("tick", "int64", "number of the slot (20 ms in link time) since the call began", na=True),
    Column("frame", "uint32", "packet number in its file, from 1 (as Wireshark counts)"),
)


def _numbers(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


LINK_FRAMES = Schema(
    "link_frames",
    (
        *_WHEN,
        Column("sent", "bool", "sent by the side whose log this is; otherwise received"),
        Column("uplink", "bool", "from the mobile to the network"),
        Column("fcs_ok", "bool", "decoded; False for a slot in which no frame could be"),
        Column("kind", "U2", "U, S or IS; empty if not decoded"),
        Column("function", "U5", "SABM, UA, ... of U frames; RR, RNR, REJ, SREJ of S and IS frames"),
        Column("command", "bool", "C/R: command or response"),
        Column("poll_final", "bool", "P of a command, F of a response"),
        Column("n_s", "int8", "send sequence number, 0 to 61", na=True),
        Column("n_r", "int8", "receive sequence number, 0 to 61; in SREJ the frame asked for", na=True),
        Column("payload_bytes", "int32", "user octets (characters) in the frame; 0 if it carries none", "bytes"),
        Column("offset_bytes", "int64", "first user octet in the sender's stream", "bytes", na=True),
        Column("attempt", "int16", "1 for a first transmission; NA of received frames", na=True),
        Column("cause", "U12", "why it was sent again: srej, rej, checkpoint; why a poll was sent: t1"),
        Column("fate", "U12", "of a received frame: delivered, stored, duplicate, refused, ignored, lost"),
    ),
)
"""RLP frames, or slots without a decodable frame, at one side; idle RR and NULL frames are left out."""

LINK_EVENTS = Schema(
    "link_events",
    (
        *_WHEN,
        Column("event", "U24", "what happened: reset_started, packet_dropped, access_wait_started, outage_ended, ..."),
        Column("cause", "U12", "why, where there is a choice: n2, peer, forced; full, codel; fcs, abort"),
        *_numbers(
            ("n_s", "reset_started: the frame that failed", ""),
            ("attempts", "reset_started: how often it was sent, or the peer polled; piece_sent: 1 is first", ""),
            ("polls", "t1_expired: polls in a row, this one included", ""),
            ("unacked_bytes", "flushed: user octets sent and not acknowledged", "bytes"),
            ("unsent_bytes", "flushed: user octets never sent", "bytes"),
            ("stored_frames", "flushed: frames received out of order", ""),
            ("buffer_bytes", "xoff_sent, xon_sent: characters waiting to be read", "bytes"),
            ("queue_packets", "packet_*: packets in the interface queue afterwards", ""),
            ("ip_bytes", "packet_*, ppp_*: length of the IP packet", "bytes"),
            ("ip_id", "packet_*, ppp_*: IPv4 identification", ""),
            ("seq", "packet_*, ppp_*: TCP sequence number as on the wire, before compression", ""),
            ("protocol", "ppp_*: PPP protocol number", ""),
            ("wire_bytes", "ppp_*, piece_*: octets of the frame with flag and escapes", "bytes"),
            ("offset_bytes", "ppp_sent, piece_*: its first octet in the sender's stream; NA in UI frames", "bytes"),
            ("version", "connected: RLP version", ""),
            ("window", "connected: k of this side's direction", ""),
            ("t1_ms", "connected: acknowledgment timer", "ms"),
            ("n2", "connected: retransmission attempts", ""),
            ("sent", "idle_frames: sent and not logged", ""),
            ("received", "idle_frames: received and not logged", ""),
            ("air_us", "piece_sent, burst_sent: from the first bit to the last", "us"),
            ("blocks", "burst_sent: blocks in it", ""),
            ("waited_us", "access_wait_ended: since access_wait_started", "us"),
            ("deferrals", "access_wait_ended: how often the channel was found busy", ""),
            ("rate_bps", "rate_assigned: rate of the channel from now on", "bit/s"),
            ("queue_bytes", "rate_assigned: octets that waited for it", "bytes"),
        ),
    ),
)
"""Events at one side of the link other than frames."""


# Results about all flows of a session: how equally they share the link, by intervals.


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


FAIRNESS = Schema(
    "fairness",
    (
        Column("begin_ns", "int64", "begin of the interval", "ns since 1970"),
        Column("end_ns", "int64", "its end", "ns since 1970"),
        Column("flows", "int64", "flows that were running in all of it"),
        *_reals(
            ("rate_bps", "of all of them together", "bit/s"),
            ("gap", "(largest - smallest rate) / smallest, 0 is even (paper 003, equation 2)", ""),
            ("jain", "Jain's index: 1 is even, 1 / flows if one has everything", ""),
        ),
        Column("reason", "U96", "why the gap is missing, or both are; empty if none is"),
    ),
)
"""How equally the flows of a session share the link, one row per interval."""

SHARES = Schema(
    "shares",
    (
        Column("begin_ns", "int64", "begin of the interval", "ns since 1970"),
        Column("end_ns", "int64", "its end", "ns since 1970"),
        Column("flow", "U128", "HOST:PORT > HOST:PORT, the data's sender first; by names where known"),
        *_reals(
            ("rate_bps", "payload that got through, each byte once", "bit/s"),
            ("share", "part of what all flows of the interval carried", ""),
        ),
    ),
)
"""Share of the link of each flow, per interval; a flow has no row while it is inactive."""
