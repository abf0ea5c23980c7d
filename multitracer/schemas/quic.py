"""Tables of QUIC: connections, packets, and the sender's own state (docs/quic.md says which source fills which column).

The idea that a column shares with TCP has the same word. A missing value is NA: the payload of a packet is NA without
keys, and where the capture cut it.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema


def _numbers(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


def _words(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, dtype, doc) for name, dtype, doc in rows)


QUIC_CONNECTIONS = Schema(
    "quic_connections",
    (
        Column("connection", "int32", "number of the QUIC connection, from 1, in order of its first packet"),
        *_words(("src", "U45", "address of the client"), ("dst", "U45", "address of the server")),
        Column("sport", "int32", "UDP port of the client"),
        Column("dport", "int32", "UDP port of the server"),
        *_words(
            ("version", "U10", "1, 2, or the number in hexadecimal"),
            ("sni", "U255", "server name that the client asked for; empty if it sent none or it was not captured"),
            ("alpn", "U64", "protocol that the server chose (keys), else those that the client offered"),
            ("client_cid", "U40", "first connection id that the client chose, in hexadecimal"),
            ("server_cid", "U40", "first connection id that the server chose, in hexadecimal"),
        ),
        Column("start_ns", "int64", "first packet", "ns since 1970"),
        Column("end_ns", "int64", "last packet", "ns since 1970"),
        *_numbers(
            ("handshake_ns", "from the client's first packet to its first one that can carry data (1-RTT)", "ns"),
            ("handshake_rtt_ns", "from the client's last first flight to the server's first packet", "ns"),
        ),
        Column("retry", "bool", "the server asked for a new token (Retry)"),
        Column("version_negotiation", "bool", "the server refused the version"),
        *_numbers(
            ("forward_packets", "datagrams from the client", ""),
            ("forward_bytes", "their UDP payload", "bytes"),
            ("reverse_packets", "datagrams from the server", ""),
            ("reverse_bytes", "their UDP payload", "bytes"),
            ("spin_rtt_ns", "median time between edges of the server's spin bit: a hint, never evidence", "ns"),
        ),
        *_words(
            ("cipher", "U28", "cipher suite that the server chose; empty if not known"),
            ("source", "U12", "what is read: capture, capture+keys, qlog"),
            ("absent", "U128", "why the payload is not read, or only in part; empty if all is read"),
        ),
    ),
)
"""A QUIC connection as one capture point, or a qlog, shows it."""

QUIC_PACKETS = Schema(
    "quic_packets",
    (
        Column("time_ns", "int64", "when the capture point, or the program, saw it", "ns since 1970"),
        Column("connection", "int32", "as in quic_connections"),
        *_words(
            ("direction", "U7", "forward: from the client; reverse: from the server"),
            ("space", "U19", "initial, handshake, 0-rtt, 1-rtt, retry, version-negotiation, unknown-version"),
        ),
        *_numbers(
            ("packet_number", "packet number", ""),
            ("bytes", "length of the packet, with header and tag", "bytes"),
            ("spin", "spin bit of a short header", ""),
            ("key_phase", "number of key updates before it", ""),
            ("stream_id", "stream of its first STREAM frame", ""),
            ("offset", "offset of this frame in the stream", "bytes"),
            ("length", "data in this frame", "bytes"),
            ("repeated_bytes", "stream data in the packet that an earlier packet carried", "bytes"),
            ("ack_eliciting", "1 if it asks for an acknowledgement, else 0", ""),
            ("acked_ns", "when the first acknowledgement of it was seen", "ns since 1970"),
            ("ack_delay_ns", "delay that this acknowledgement states, if this is its largest number", "ns"),
            (
                "rtt_ns",
                "time to its acknowledgement, if it is the largest number that this one newly acknowledges",
                "ns",
            ),
            ("lost", "1 if it was never acknowledged though one three numbers later was; 0 if acknowledged", ""),
            ("flight_bytes", "bytes of packets that ask for one, not acknowledged and not lost, behind it", "bytes"),
            ("window_connection_bytes", "stream data that the peer's MAX_DATA lets follow it", "bytes"),
            ("window_stream_bytes", "data that the peer's MAX_STREAM_DATA lets follow it on this stream", "bytes"),
            ("one_way_ns", "time to its arrival at the other capture, in that capture's clock", "ns"),
        ),
        Column("source", "U12", "what shows it: capture, capture+keys, qlog"),
    ),
)
"""The packets of QUIC connections in order of time; those that a datagram joins are a row each."""

QUIC_STATE = Schema(
    "quic_state",
    (
        Column("time_ns", "int64", "when the program logged it", "ns since 1970"),
        Column("connection", "int32", "as in quic_connections; in a qlog alone the number of the trace", "", na=True),
        *_numbers(
            ("cwnd_bytes", "congestion window", "bytes"),
            ("ssthresh_bytes", "slow-start threshold", "bytes"),
            ("flight_bytes", "bytes in flight", "bytes"),
            ("srtt_ns", "smoothed round-trip time", "ns"),
            ("latest_rtt_ns", "newest sample of the round-trip time", "ns"),
            ("min_rtt_ns", "smallest round-trip time", "ns"),
            ("rttvar_ns", "mean deviation of the round-trip time", "ns"),
            ("pto_count", "probe timeouts in a row", ""),
            ("pacing_rate_bps", "pacing rate", "bit/s"),
        ),
        Column("event", "U32", "metrics, packet_lost, or the congestion state that was entered"),
        Column("packet_number", "int64", "of packet_lost: the number", "", na=True),
    ),
)
"""The sender's own state as a qlog has it, in order of time: for QUIC what tcp_state is for TCP."""

KEY_LOG = Schema(
    "key_log",
    (
        Column("label", "U40", "label of the secret, such as CLIENT_TRAFFIC_SECRET_0"),
        Column("client_random", "U64", "random number of the ClientHello that it belongs to, in hexadecimal"),
        Column("secret_bytes", "int32", "length of the secret, which is in no table", "bytes"),
    ),
)
"""The lines of a key log without the secrets themselves."""

QLOG_TRACES = Schema(
    "qlog_traces",
    (
        Column("trace", "int32", "number of the trace in its file, from 0"),
        Column("vantage", "U8", "client, server, network, or empty"),
        Column("program", "U64", "program that wrote it, as it names itself"),
        Column("odcid", "U40", "first destination connection id of the client, in hexadecimal; empty if not known"),
        Column("cids", "U255", "connection ids of its long headers, in hexadecimal, with spaces between"),
        Column("dialect", "U80", "version or schema that the file names"),
        Column("clock_known", "bool", "its times are since 1970; otherwise they begin at 0"),
        Column("damage", "U128", "why reading stopped before its end; empty if it did not"),
    ),
)
"""The traces of a qlog file, each of one connection."""

QLOG_PACKETS = Schema(
    "qlog_packets",
    (
        Column("time_ns", "int64", "when the program logged it", "ns since 1970"),
        Column("trace", "int32", "as in qlog_traces"),
        Column("sent", "bool", "the program sent it; otherwise it arrived"),
        Column("space", "U19", "as in quic_packets"),
        *_numbers(
            ("packet_number", "packet number", ""),
            ("bytes", "length of the packet", "bytes"),
            ("lost_ns", "when the program declared it lost", "ns since 1970"),
        ),
        Column("ack_eliciting", "bool", "it asks for an acknowledgement"),
    ),
)
"""The packets that a qlog says were sent and received, in order."""

QUIC_FRAMES = Schema(
    "quic_frames",
    (
        Column("row", "int64", "row of its packet"),
        Column("frame_type", "int16", "type of the frame, as RFC 9000 numbers it; a range of an ACK is a row"),
        *_numbers(
            ("first", "STREAM: stream; ACK: smallest number; MAX_STREAM_DATA: stream; others: the number", ""),
            ("second", "STREAM: offset; ACK: largest number of the range; others: the last number", ""),
            ("third", "STREAM: length; ACK: delay in ns, of its first range only", ""),
        ),
    ),
)
"""The frames of a qlog's packets that are used: STREAM, ACK, and what is about windows."""
