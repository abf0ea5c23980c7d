"""Tables of a host's TCP variables: readings of its sockets, and events of its kernel.

docs/tcp_state.md shows which source provides which column; the numbers in `state`, `ca_state`, `method` and
`event` are those of `multitracer.protocols.sock_diag`. A missing value is NA, never 0.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

_ENDPOINTS = (
    Column("ip_version", "uint8", "4 or 6 (4 also for IPv4 mapped into IPv6); 0 if the log names no ends"),
    Column("address_local", "V16", "address of the host whose state this is; IPv4 in the first 4 bytes"),
    Column("address_remote", "V16", "address of its peer"),
    Column("port_local", "uint16", "TCP port of the host"),
    Column("port_remote", "uint16", "TCP port of its peer"),
)


def _numbers(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


TCP_STATE = Schema(
    "tcp_state",
    (
        Column("time_ns", "int64", "best estimate of the time of reading", "ns since 1970"),
        Column("read_before_ns", "int64", "the state held then or later", "ns since 1970"),
        Column("read_after_ns", "int64", "the state held then or earlier", "ns since 1970"),
        Column("method", "uint8", "ReadBy: how it was read; tcp_probe shows the state before its segment"),
        *_ENDPOINTS,
        Column("cookie", "uint64", "socket cookie of the kernel, 0 if unknown"),
        Column("congestion_control", "U16", "name of the algorithm, empty if unknown"),
        *_numbers(
            ("inode", "inode of the socket; NA if unknown or no process holds it", ""),
            ("state", "TcpState, as Linux numbers it", ""),
            ("ca_state", "TcpCaState: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss", ""),
            ("snd_mss_bytes", "payload of a full segment", "bytes"),
            ("cwnd_segments", "congestion window as Linux counts it", ""),
            ("cwnd_bytes", "cwnd_segments x snd_mss_bytes, or as read where bytes are logged", "bytes"),
            ("ssthresh_segments", "slow-start threshold; NA also while it is infinite", ""),
            ("ssthresh_bytes", "the same in bytes", "bytes"),
            ("srtt_ns", "smoothed round-trip time", "ns"),
            ("rttvar_ns", "mean deviation of the round-trip time, as Linux reports it", "ns"),
            ("min_rtt_ns", "smallest round-trip time of the kernel's window", "ns"),
            ("rto_ns", "retransmission timeout, back-off included", "ns"),
            ("backoff", "times the timeout was doubled", ""),
            ("retransmits", "timeouts of the oldest segment in a row", ""),
            ("timer", "0 none, 1 retransmission, 2 keep-alive, 3 TIME-WAIT, 4 zero-window probe", ""),
            ("timer_expires_ns", "time until that timer fires", "ns"),
            ("unacked_segments", "segments sent and not acknowledged", ""),
            ("sacked_segments", "of these, selectively acknowledged", ""),
            ("lost_segments", "of these, taken for lost", ""),
            ("retransmitted_segments", "of these, retransmitted and in flight again", ""),
            ("flight_bytes", "SND.NXT - SND.UNA; from a count, segments x MSS", "bytes"),
            ("snd_una", "oldest unacknowledged number, as on the wire", ""),
            ("snd_nxt", "next number to send, as on the wire", ""),
            ("snd_wnd_bytes", "window that the peer advertises", "bytes"),
            ("rcv_wnd_bytes", "window advertised to the peer", "bytes"),
            ("send_queue_bytes", "written by the application, not acknowledged", "bytes"),
            ("notsent_bytes", "of these, not sent yet", "bytes"),
            ("receive_queue_bytes", "received, not read by the application", "bytes"),
            ("received_bytes", "payload of the segment that made tcp_probe fire", "bytes"),
            ("total_sent_bytes", "payload sent since the start, every copy", "bytes"),
            ("total_retransmitted_bytes", "of these, retransmitted", "bytes"),
            ("total_acked_bytes", "payload acknowledged since the start", "bytes"),
            ("total_received_bytes", "payload received since the start", "bytes"),
            ("total_retransmitted_segments", "segments retransmitted since the start", ""),
            ("total_timeouts", "retransmission timeouts since the start", ""),
            ("delivery_rate", "newest sample of the rate of delivery", "bytes/s"),
            ("app_limited", "1 if that sample was limited by the application", ""),
            ("busy_ns", "time with data outstanding or waiting since the start", "ns"),
            ("rwnd_limited_ns", "of this, limited by the peer's window", "ns"),
            ("sndbuf_limited_ns", "of this, limited by the send buffer", "ns"),
        ),
    ),
)
"""Readings of a socket's variables on the host; docs/tcp_state.md shows what each source provides."""

TCP_EVENTS = Schema(
    "tcp_events",
    (
        Column("time_ns", "int64", "when the kernel did it", "ns since 1970"),
        Column("event", "uint8", "TcpEvent: 1 retransmission, 2 change of ca_state"),
        *_ENDPOINTS,
        *_numbers(
            ("state", "TcpState, if the trace point has it", ""),
            ("ca_state", "TcpCaState entered", ""),
            ("left_host", "1 if a retransmission was handed to the link, 0 if the host dropped it", ""),
        ),
    ),
)
"""Events of the kernel's trace points for one socket, at the host."""

_JOINED = (
    Column("socket", "int32", "number of the socket, from 1, in order of its first row"),
    Column("connection", "int32", "as in connections; NA if the capture holds none with these ends", na=True),
    Column("reverse", "bool", "whose state: False the initiator's; meaningless without a connection"),
)

JOINED_STATE = TCP_STATE.extended("joined_state", *_JOINED)
"""tcp_state with the connection and direction of each reading; rows as in tcp_state."""

JOINED_EVENTS = TCP_EVENTS.extended("joined_events", *_JOINED[1:])
"""tcp_events with the connection and direction of each event; rows as in tcp_events."""

TCP_PHASES = Schema(
    "tcp_phases",
    (
        Column("begin_after_ns", "int64", "when the phase before was last seen", "ns since 1970"),
        Column("begin_ns", "int64", "when this phase was first seen", "ns since 1970"),
        Column("end_ns", "int64", "when it was last seen, or the next phase first", "ns since 1970"),
        Column("phase", "uint8", "TcpPhase: 1 slow start, 2 congestion avoidance, 3 reduction, 4 recovery, 5 loss"),
        Column("reconstructed", "bool", "True: concluded from packets; False: from the kernel's variables"),
    ),
)
"""Phases of a sender's congestion control, in order of time; they do not overlap."""

SERIES = Schema(
    "series",
    (
        Column("time_ns", "int64", "when the value was seen, or from when on it held", "ns since 1970"),
        Column("value", "float64", "in the unit of the provenance"),
    ),
)
"""One labelled series of a multi-layer trace; its provenance has label, unit, source and meaning."""
