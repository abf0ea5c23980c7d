"""Tables of diagnoses and comparisons: findings, use of time, dependence, and differences of two sides."""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

FINDINGS = Schema(
    "findings",
    (
        Column("kind", "U32", "name of the diagnosis: link-reset, overbuffered-link, ..."),
        Column("begin_ns", "int64", "when it began, by the sender's clock", "ns since 1970"),
        Column("end_ns", "int64", "when it was over", "ns since 1970"),
        Column("cost_s", "float64", "time it cost the transfer, in link time; NaN if not known", "s"),
        Column("cost_bytes", "int64", "payload that was sent again or lost because of it", "bytes", na=True),
        Column("direction", "U7", "whose data it is about: forward (the initiator's) or reverse"),
        Column("evidence", "U400", "rows that support the finding: words source:row, see `evidence`"),
        Column("sentence", "U400", "what happened, in a field engineer's words"),
    ),
)
"""A diagnosis of one transfer, one row per occurrence.

`evidence` is a list of words `table:row`: a table of the `Transfer` (sender, receiver, state,
events, near.frames, near.events, far.frames, far.events) and a row number in it, from 0. `message:N` is frame N of
the log of signalling, `line:N` line N of the modem's log."""

LINK_USE = Schema(
    "link_use",
    (
        Column("begin_ns", "int64", "when it began, by the sender's clock", "ns since 1970"),
        Column("end_ns", "int64", "when it was over", "ns since 1970"),
        Column("use", "uint8", "diagnosis.account.uses.Use: useful, arq, redundant, idle:rto, ..."),
        Column("cause", "uint8", "diagnosis.account.uses.UseCause: reset, radio, decompressor, recovery, ..."),
        Column("back_off", "int16", "of idle:rto: 1 for the first timeout in a row, 2 for the next", na=True),
        Column("seconds", "float64", "link time of this use within the interval", "s"),
        Column("payload_bytes", "float64", "payload that was delivered first in it", "bytes"),
        Column("source", "U11", "table of the transfer that holds the event that began it; empty if none"),
        Column("row", "int64", "row of that event in that table, from 0", na=True),
        Column("ended_row", "int64", "row in `sender` of the segment that ended an idle interval", na=True),
    ),
)
"""Use of a transfer's time in order; the seconds of all rows sum to the transfer's duration.

Intervals overlap where a slot is shared (the end of one packet and the start of the next are in one frame);
`seconds` is then the share of each row. `source` is sender, near.events, near.frames or far.frames."""

LIMITS = Schema(
    "limits",
    (
        Column("begin_ns", "int64", "when it began, by the sender's clock", "ns since 1970"),
        Column("end_ns", "int64", "when it was over: the next begins then", "ns since 1970"),
        Column("limit", "U17", "what limited the transfer: link, recovery, ... (docs/limits.md)"),
        Column("part", "U8", "which kind of it: think, timer, zero, ...; empty where there is none"),
        Column("direction", "U7", "whose data it held back: forward (the initiator's) or reverse"),
        Column("confidence", "U8", "measured, inferred, or weak"),
        Column("seconds", "float64", "length of the interval in link time", "s"),
        Column("evidence", "U48", "rows of its direction's `sender` at its begin and its end"),
    ),
)
"""What limited a transfer at each time: intervals that partition its duration, in order, without gaps.

The duration is from the connection's first SYN to the ACK of the last payload byte of either direction; in a capture
made at the receiver, it ends with the last segment with data, and the times are the receiver's."""

UTILIZATION = Schema(
    "utilization",
    (
        Column("host", "U128", "capture point nearest to the sender of the data"),
        Column("connection", "int64", "number of the TCP connection in the session"),
        Column("direction", "U7", "whose data: forward (the initiator's) or reverse"),
        Column("begin_ns", "int64", "first SYN of the sender, else first segment", "ns since 1970"),
        Column("seconds", "float64", "from there to the ACK of the last byte, in link time", "s"),
        Column("unique_bytes", "int64", "payload; each byte counts once", "bytes"),
        Column("throughput_bytes_per_s", "float64", "unique bytes over that time", "bytes/s"),
        Column("utilization", "float64", "of the channel, 0 to 1 (paper 004, 4.3); NA without a log of the link"),
        Column("utilization_rounded_up_pct", "int64", "the same in percent, rounded up as in figure 6", "%", na=True),
        Column("link_limited_share", "float64", "share of the time in which the link was the limit, 0 to 1"),
        Column(
            "view", "U12", "logs that show the limits: link-log, both-ends, sender-state, sender, receiver, nowhere"
        ),
        Column("outcome", "U8", "complete, or dropped: the last byte was not acknowledged"),
    ),
)
"""How well the largest transfers of a session used their link, one row each."""

CARRIAGES = Schema(
    "carriages",
    (
        Column("event_row", "int64", "row in near.events of the ppp_sent that wrote it into the link"),
        Column("queued_row", "int64", "row in near.events of its packet_queued", na=True),
        Column("segment_row", "int64", "row in `sender`; NA of other flows", na=True),
        Column("offset_bytes", "int64", "its first octet in the stream that the link carries", "bytes"),
        Column("wire_bytes", "int64", "octets of its PPP frame", "bytes"),
        Column("payload_bytes", "int64", "TCP payload; 0 of other flows", "bytes"),
        Column("new_bytes", "int64", "payload that the receiving TCP got first from this carriage", "bytes"),
        Column("fate", "uint8", "recording.join.Fate: what became of it at the link's far end"),
        Column("frames", "int32", "RLP frames that carried it, each counted once"),
        Column("transmissions", "int32", "times that these were sent"),
        Column("queued_tick", "int64", "slot in which it entered the interface queue", na=True),
        Column("first_tick", "int64", "slot of its first frame; NA if none was sent", na=True),
        Column("sent_tick", "int64", "slot of the first transmission of its last octet", na=True),
        Column("last_tick", "int64", "slot of the last transmission of any of its frames", na=True),
        Column("delivered_tick", "int64", "slot in which the far link had it whole, in order", na=True),
        Column("arrived_tick", "int64", "slot in which the far host took its last octet", na=True),
        Column("queue_ns", "int64", "link time from the interface queue to its first frame", "ns"),
        Column("sending_ns", "int64", "from its first frame to the end of its last octet's first", "ns"),
        Column("recovery_ns", "int64", "from there until the link had recovered it and all before it", "ns"),
        Column("air_ns", "int64", "on the air and in the network: the same for all", "ns"),
        Column("far_buffer_ns", "int64", "from the link's delivery until the far host took it", "ns"),
    ),
)
"""A PPP frame that the link's sender carried, in order; the five durations sum to its complete delay."""

CHUNKS = Schema(
    "pieces",
    (
        Column("frame_row", "int64", "row in near.frames: one transmission of an RLP frame"),
        Column("carriage", "int64", "row in carriages"),
        Column("bytes", "int32", "octets of the carriage in that frame", "bytes"),
        Column("share", "float64", "part of the frame that this is"),
    ),
)
"""Part of a packet in one transmission of an RLP frame, with its bytes; in order of the frames."""

NMI = Schema(
    "nmi",
    (
        Column("x", "U64", "name of the first series"),
        Column("y", "U64", "name of the second series"),
        Column("lag_s", "float64", "time from a point of x to its partner of y; above 0: y follows x", "s"),
        Column("nmi", "float64", "normalised mutual information of the two at this lag, 0 to 1"),
        Column("p95_permuted", "float64", "what chance alone exceeds at this lag in 5 % of the surrogates"),
        Column("p_value", "float64", "share of the surrogates that reach the value at this lag"),
        Column("p_corrected", "float64", "the same, corrected for the search over the lags"),
        Column("q_value", "float64", "false discovery rate over the pairs of the table; at a pair's peak alone"),
        Column("is_peak", "bool", "whether this lag is the pair's peak"),
        Column("bins", "int64", "bins of x", na=True),
        Column("bins_y", "int64", "bins of y", na=True),
        Column("n", "int64", "points that both series have at this lag"),
        Column("spearman", "float64", "rank correlation at this lag, -1 to 1"),
        Column("distance_correlation", "float64", "distance correlation at this lag, 0 to 1"),
        Column("conditional_nmi", "float64", "the same as nmi with the third series given; NA without one"),
        Column("conditional_p95", "float64", "what chance alone exceeds there in 5 % of the surrogates"),
        Column("given", "U64", "name of the third series; empty without one"),
        Column("estimator", "U24", "equal-count, freedman-diaconis, miller-madow, ksg"),
        Column("normaliser", "U8", "min, max, mean, sqrt, joint; linfoot with ksg"),
        Column("baseline", "U8", "how surrogates are made: shift, block, plain"),
        Column("permutations", "int64", "surrogates behind p95_permuted and the p values"),
        Column("is_differenced", "bool", "whether both series were differenced first"),
        Column("reason", "U128", "why the cells are NA; empty where they are not"),
    ),
)
"""Normalized mutual information of two series: one row for each pair and lag."""

SESSIONS_NMI = Schema(
    "nmi",
    (
        *(column for column in NMI if column.name != "reason"),
        Column("lag_low_s", "float64", "least lag it may be: by bins, clocks and, at a peak, the data", "s"),
        Column("lag_high_s", "float64", "largest lag it may be", "s"),
        Column("step_s", "float64", "width of the bins of time", "s"),
        Column("sessions", "int64", "sessions that were pooled"),
        Column("reason", "U400", "why the cells are NA; empty where they are not"),
    ),
)
"""Normalized mutual information of two quantities over sessions: one row for each pair and lag.

A pair that cannot be computed has one row."""

COMPARED = Schema(
    "compared",
    (
        Column("name", "U64", "what is compared: throughput, RTT, loss, limited by ..., finding ..."),
        Column("unit", "U8", "of means and medians: bit/s, ns, s; empty: a share, 0 to 1"),
        Column("first_sessions", "int64", "sessions of the first side that have a value"),
        Column("second_sessions", "int64", "the same of the second side"),
        Column("first_mean", "float64", "mean over them of their means"),
        Column("second_mean", "float64", "the same of the second side"),
        Column("first_median", "float64", "median of their means"),
        Column("second_median", "float64", "the same of the second side"),
        Column("difference_is", "U8", "relative: second over first less 1; absolute: second less first"),
        Column("value", "float64", "the difference, of what both sides have in common by place and hour"),
        Column("low", "float64", "lower end of its 95 % interval; -1 (relative) or -inf: no bound"),
        Column("high", "float64", "upper end of it; inf: no bound"),
        Column("p_value", "float64", "share of the relabellings that give as much by chance"),
        Column("shown", "bool", "whether it may be claimed, with 5 % for a false claim in all rows together"),
    ),
)
"""Comparison of two sides of many sessions: one row for each quantity (docs/compare.md)."""
