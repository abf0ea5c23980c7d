"""Tables of the TCP analysis: connections, their directions and segments, and series over them.

The schema of captured segments is `multitracer.schemas.schema.SEGMENTS`; docs/analysis.md defines each number.
"""

from __future__ import annotations

from enum import IntEnum

from multitracer.schemas.schema import SACK_BLOCKS, SEGMENTS, Column, Schema


class Vantage(IntEnum):
    """Position of a capture point, as seen from one direction of a connection.

    Examples
    --------
    >>> [mt.Vantage(each).name for each in session.directions["vantage"].head(2)]
    ['NEAR_SENDER', 'NEAR_RECEIVER']
    """

    UNKNOWN = 0
    NEAR_SENDER = 1
    NEAR_RECEIVER = 2
    BETWEEN = 3

    @property
    def opposite(self) -> Vantage:
        """The same position as seen from the other direction."""
        return _OPPOSITE.get(self, self)


_OPPOSITE = {Vantage.NEAR_SENDER: Vantage.NEAR_RECEIVER, Vantage.NEAR_RECEIVER: Vantage.NEAR_SENDER}


class GoodputBy(IntEnum):
    """How the goodput of a direction was measured, or why it is unknown.

    Examples
    --------
    >>> mt.GoodputBy(session.directions["goodput_by"].iloc[0]).words
    'acknowledged'
    """

    NO_DATA = 0
    ACKNOWLEDGED = 1
    """Measured by ACKs, because the capture was not made near the receiver."""
    ARRIVED = 2
    """Measured by the arrival of bytes near the receiver."""
    ONE_MOMENT = 3
    """All bytes arrived at the same time, so there is no duration to divide by."""
    NOTHING_CAME_THROUGH = 4
    """No ACK of the data was captured, or none with a time; the sent data may be lost."""

    @property
    def is_known(self) -> bool:
        """Whether the goodput is known."""
        return self in (GoodputBy.ACKNOWLEDGED, GoodputBy.ARRIVED)

    @property
    def words(self) -> str:
        """The method, or the reason why it is unknown, as a text for people and JSON."""
        return _GOODPUT_WORDS[self]


_GOODPUT_WORDS = {
    GoodputBy.NO_DATA: "no data",
    GoodputBy.ACKNOWLEDGED: "acknowledged",
    GoodputBy.ARRIVED: "arrived",
    GoodputBy.ONE_MOMENT: "all at one moment",
    GoodputBy.NOTHING_CAME_THROUGH: "no ACK of the data with a time was captured",
}


class RoundTrips(IntEnum):
    """Whether the round-trip times of a direction could be measured, or why they could not.

    Examples
    --------
    >>> mt.RoundTrips(session.directions["rtt_absent"].iloc[1]).words
    'captured near the receiver, which cannot tell round trips from its own delay'
    """

    MEASURED = 0
    NEAR_RECEIVER = 1
    """The capture was made near the receiver: only the receiver's own delay could be measured."""
    NO_ACK = 2
    NO_EXACT_ACK = 3
    """No ACK number is exactly the end of a segment that was sent once (Karn's rule)."""
    NO_TIME = 4
    """The segments have no times."""
    BELOW_GRAIN = 5
    """Half of the samples are 0: a round trip is shorter than the steps of the time stamps."""

    @property
    def words(self) -> str:
        """The reason for missing round-trip times, as a text for people and JSON."""
        return _ROUND_TRIP_WORDS[self]


_ROUND_TRIP_WORDS = {
    RoundTrips.MEASURED: "measured",
    RoundTrips.NEAR_RECEIVER: "captured near the receiver, which cannot tell round trips from its own delay",
    RoundTrips.NO_ACK: "no ACK of this direction was captured",
    RoundTrips.NO_EXACT_ACK: "no ACK ends exactly at a segment that was sent once",
    RoundTrips.NO_TIME: "its segments carry no time",
    RoundTrips.BELOW_GRAIN: "most data and their ACKs have the same time: the time stamps are too coarse",
}


class WindowScaleBy(IntEnum):
    """How the window scale of a direction is known.

    Examples
    --------
    >>> mt.WindowScaleBy(session.directions["window_shift_by"].iloc[0]).name
    'SYN'
    """

    SYN = 0
    """Announced in the SYNs, or excluded by them."""
    SENT = 1
    """Minimum scale at which the other side's data fit the window; the SYN options were not captured."""
    UNKNOWN = 2
    """Unknown: windows are the header's values, and may be larger."""


class Close(IntEnum):
    """How a connection ended within a capture.

    Examples
    --------
    >>> mt.Close(session.connections["close"].iloc[0]).name
    'FIN_BOTH_WAYS'
    """

    OPEN = 0
    FIN_ONE_WAY = 1
    FIN_BOTH_WAYS = 2
    RESET = 3


class Initiator(IntEnum):
    """How the initiator of a connection was determined; without its handshake it is an assumption.

    Examples
    --------
    >>> bool((session.connections["initiator_by"] == mt.Initiator.HANDSHAKE).all())
    True
    """

    HANDSHAKE = 0
    OTHER_CONNECTIONS = 1
    """The other endpoint answered a SYN in another connection."""
    PORTS = 2
    """The other endpoint has the port that a server would have."""
    DATA = 3
    """The initiator is assumed to be the endpoint that sent less payload."""
    FIRST_SENDER = 4
    """The initiator is assumed to be the endpoint whose segment was captured first."""

    @property
    def words(self) -> str:
        """The name in output, such as `first sender`."""
        return self.name.replace("_", " ").lower()


def _codes(kind: type[IntEnum]) -> str:
    """Return the meaning of a column's numbers as a text."""
    return ", ".join(f"{each.value} {each.name.replace('_', ' ').lower()}" for each in kind)


CONNECTIONS = Schema(
    "connections",
    (
        Column("connection", "int32", "number of the connection, from 1, in order of its first segment"),
        Column("file", "uint16", "index into Capture.files of its first segment"),
        Column("forward_flow", "int32", "directed flow (as in segments) of the initiator's segments"),
        Column("start_ns", "int64", "first segment", "ns since 1970"),
        Column("end_ns", "int64", "last segment", "ns since 1970"),
        Column("segments", "int64", "segments both ways, SYN to last"),
        Column("syn_seen", "bool", "a SYN of the initiator was captured"),
        Column(
            "initiator_by", "uint8", f"how it is known who began it (Initiator), assumed unless 0: {_codes(Initiator)}"
        ),
        Column("handshake_seen", "bool", "SYN, SYN-ACK and the ACK of it were captured"),
        Column("close", "uint8", f"how it ended here (Close): {_codes(Close)}"),
        Column("bulk_direction", "uint8", "0 forward, 1 reverse: the direction with more unique bytes"),
    ),
)
"""A TCP connection: from the SYN (or first segment) of a flow to its end or the reuse of its port."""

DIRECTIONS = Schema(
    "directions",
    (
        Column("connection", "int32", "as in connections"),
        Column("reverse", "bool", "False: initiator to responder"),
        Column("packets", "int32", "segments"),
        Column("data_segments", "int32", "segments with payload, every copy"),
        Column("payload_bytes", "int64", "payload by the IP length, every copy counted", "bytes"),
        Column("unique_bytes", "int64", "union of the payload's sequence ranges", "bytes"),
        Column("retransmitted_segments", "int32", "data, SYN or FIN of which a unit was seen before"),
        Column("retransmitted_bytes", "int64", "their units seen before: payload, 1 each for SYN and FIN", "bytes"),
        Column("partial_retransmissions", "int32", "retransmitted segments that also carry new units"),
        Column("out_of_order", "int32", "segments that fill a hole below the highest unit seen"),
        Column("capture_duplicates", "int32", "the same packet captured twice (same IP id)"),
        Column("duplicate_acks", "int32", "RFC 5681 duplicate acknowledgments"),
        Column("triple_duplicate_acks", "int32", "times a third duplicate acknowledgment was seen"),
        Column("dsack_segments", "int32", "segments whose first SACK block is a D-SACK (RFC 2883)"),
        Column("sack_segments", "int32", "segments with SACK blocks"),
        Column("zero_window_segments", "int32", "segments without SYN, FIN, RST that offer a window of 0"),
        Column("zero_window_probes", "int32", "1-byte probes of a closed window"),
        Column("keep_alives", "int32", "keep-alive segments (RFC 9293, section 3.8.4)"),
        Column("window_updates", "int32", "pure ACKs that change only the window"),
        Column("acks_of_unseen", "int32", "ACKs of units that the capture does not hold"),
        Column("acks_before_data", "int32", "ACKs captured before the units that they acknowledge"),
        Column("missing_bytes", "int64", "units between the first and the last that were not captured", "bytes"),
        Column("max_flight_bytes", "int64", "most units outstanding: highest end sent - highest ACK", "bytes"),
        Column("max_window_bytes", "int64", "largest advertised window, scaled", "bytes"),
        Column("syn", "int32", "segments with SYN"),
        Column("fin", "int32", "segments with FIN"),
        Column("rst", "int32", "segments with RST"),
        Column("mss_bytes", "int32", "MSS option as announced in this direction", "bytes", na=True),
        Column("window_scale", "int16", "window scale option as announced", na=True),
        Column("window_shift", "int8", "bits by which its windows are scaled here"),
        Column("window_shift_by", "uint8", f"how that is known (WindowScaleBy): {_codes(WindowScaleBy)}"),
        Column("sack_permitted", "bool", "SACK permitted option announced"),
        Column("timestamps", "bool", "timestamps option on the SYN, or on most segments without one"),
        Column("mptcp", "bool", "MPTCP options seen"),
        Column("first_ns", "int64", "first segment of the direction", "ns since 1970"),
        Column("last_ns", "int64", "last segment of the direction", "ns since 1970"),
        Column("first_payload_ns", "int64", "first payload", "ns since 1970"),
        Column("last_payload_ns", "int64", "last payload", "ns since 1970"),
        Column("rtt_count", "int32", "RTT samples: exact ACKs, Karn's rule, none below zero"),
        Column("negative_rtts", "int32", "ACKs stamped before what they answer: no samples"),
        Column("rtt_min_ns", "int64", "smallest sample", "ns"),
        Column("rtt_mean_ns", "float64", "mean", "ns"),
        Column("rtt_p50_ns", "float64", "median", "ns"),
        Column("rtt_p95_ns", "float64", "95th percentile", "ns"),
        Column("rtt_max_ns", "int64", "largest sample", "ns"),
        Column("rtt_absent", "uint8", f"why there is no round trip (RoundTrips): {_codes(RoundTrips)}"),
        Column("vantage", "uint8", f"the capture's place on this direction's path (Vantage): {_codes(Vantage)}"),
        Column(
            "goodput_bytes_per_s",
            "float64",
            "new payload per second, between the first and the last delivery",
            "bytes/s",
        ),
        Column("goodput_ns", "int64", "the time between these two", "ns"),
        Column("goodput_by", "uint8", f"how it is known, or why not (GoodputBy): {_codes(GoodputBy)}"),
    ),
)
"""One direction of a connection; rows 2 (n - 1) and 2 (n - 1) + 1 belong to connection n."""

TCP_SEGMENTS = SEGMENTS.extended(
    "tcp_segments",
    Column("reverse", "bool", "False: sent by the initiator"),
    Column("seq_bytes", "int64", "first unit, unwrapped; the direction's first unit (SYN) is 0", "bytes"),
    Column("end_bytes", "int64", "unit after the last (SYN and FIN count one), unwrapped", "bytes"),
    Column("ack_bytes", "int64", "ACK on the other direction's scale; NA without ACK flag", "bytes", na=True),
    Column("window_bytes", "int64", "advertised window, scaled where the scale is known", "bytes"),
    Column("new_bytes", "int32", "payload bytes seen for the first time", "bytes"),
    Column("flight_bytes", "int64", "outstanding in this row's data direction after it", "bytes"),
    Column("flight_sack_bytes", "int64", "the same less SACKed bytes", "bytes"),
    Column("kind", "uint32", "bits of SegmentKind"),
    Column("rtt_ns", "int64", "time to the ACK that ends exactly here, Karn's rule", "ns"),
    Column("rtt_timestamp_ns", "int64", "time to the ACK that echoes this segment's tsval first", "ns"),
)
"""One connection's segments with the results of the analysis; rows in capture order."""

TCP_SACK_BLOCKS = SACK_BLOCKS.extended(
    "tcp_sack_blocks",
    Column("left_bytes", "int64", "first byte of the block on the acknowledged direction's scale", "bytes"),
    Column("right_bytes", "int64", "byte after the block on that scale", "bytes"),
    Column("dsack", "bool", "a D-SACK: these bytes arrived twice (RFC 2883)"),
)
"""One connection's SACK blocks; `row` is the row in its tcp_segments."""

VERDICTS = Schema(
    "verdicts",
    (
        Column("row", "int64", "row in tcp_segments of the retransmission"),
        Column("earlier_row", "int64", "row of the copy sent before it", na=True),
        Column("answer_row", "int64", "row of the first ACK or SACK that covers it", na=True),
        Column("cause", "uint8", "why it was sent: analysis.verdicts.Cause"),
        Column("necessity", "uint8", "whether it was needed: analysis.verdicts.Necessity"),
        Column("evidence", "uint32", "how both are known: bits of analysis.verdicts.Evidence"),
    ),
)
"""Cause of each retransmission of one direction, in capture order."""

SEGMENT_VERDICTS = Schema(
    "segment_verdicts",
    (
        Column("connection", "int32", "number of the connection, from 1"),
        Column("reverse", "bool", "whose data: False the initiator's"),
        Column("time_ns", "int64", "when the capture point saw it", "ns since 1970"),
        Column("frame", "uint32", "packet number in its file, from 1"),
        Column("seq_rel", "int64", "sequence number from the direction's first data byte on", "bytes"),
        Column("payload_bytes", "int32", "TCP payload", "bytes"),
        Column("cause", "U16", "why it was sent again, in words (docs/verdicts.md)"),
        Column("necessity", "U16", "whether it was needed: necessary, spurious, ack-lost, undecided"),
        Column("evidence", "U256", "how both are known: words joined by +"),
    ),
)
"""Each retransmission of a capture with its cause as a text."""

RTT_SAMPLES = Schema(
    "rtt_samples",
    (
        Column("time_ns", "int64", "when the answer was captured", "ns since 1970"),
        Column("reverse", "bool", "whose segment was answered: False the initiator's"),
        Column("row", "int64", "row in tcp_segments of the segment that was answered"),
        Column("answer_row", "int64", "row in tcp_segments of the segment that answers"),
        Column("rtt_ns", "int64", "time between the two; negative where the capture's clock went back", "ns"),
        Column("provenance", "uint8", "0 exact ACK (Karn's rule), 1 timestamp echo, 2 SACK"),
    ),
)
"""Round-trip times of one connection, in order of their ACKs.

The three kinds of samples are separate rows."""

RTO_STATES = Schema(
    "rto_states",
    (
        Column("time_ns", "int64", "when the sample was taken", "ns since 1970"),
        Column("rtt_ns", "int64", "the sample", "ns"),
        Column("srtt_ns", "float64", "smoothed round-trip time after it", "ns"),
        Column("rttvar_ns", "float64", "round-trip time variation after it", "ns"),
        Column("rto_ns", "float64", "retransmission timeout after it, without back-off", "ns"),
    ),
)
"""RTO by RFC 6298 from RTT samples: reconstructed, never the sender's own values."""

RATES = Schema(
    "rates",
    (
        Column("time_ns", "int64", "from when on the value holds, until the next row", "ns since 1970"),
        Column("bytes_per_s", "float64", "moving average over the window that ends here", "bytes/s"),
    ),
)
"""A rate over time; each value is valid until the next row."""

PACKET_PAIRS = Schema(
    "packet_pairs",
    (
        Column("near_row", "int64", "row in the near capture's segments", na=True),
        Column("far_row", "int64", "row in the far capture's segments", na=True),
        Column("near_ns", "int64", "when the near point saw it, by its clock", "ns since 1970"),
        Column("far_ns", "int64", "when the far point saw it, by its clock", "ns since 1970"),
        Column("delay_ns", "int64", "far less near time: one-way delay plus the clocks' difference", "ns"),
        Column("copy", "int32", "0 for the first packet with this identity at that point, 1 for the next, ..."),
        Column(
            "outcome",
            "uint8",
            "0 matched, 1 lost between, 2 only at the far point, 3 not covered by both, 4 cut or joined",
        ),
    ),
)
"""Matched packets of two capture points, in order of the near one; then packets seen only at the far one."""
