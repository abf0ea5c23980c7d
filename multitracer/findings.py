"""What a diagnosis hands over: findings, and the account of a transfer's time, as tables."""

from __future__ import annotations

from multitracer.tables import Column, Schema

FINDINGS = Schema(
    "findings",
    (
        Column("kind", "U32", "name of the diagnosis: link-reset, overbuffered-link, ..."),
        Column("begin_ns", "int64", "when it began, by the sender's clock", "ns since 1970"),
        Column("end_ns", "int64", "when it was over", "ns since 1970"),
        Column("cost_s", "float64", "time it cost the transfer, in link time; NaN if not known", "s"),
        Column("cost_bytes", "int64", "payload that it made be sent again or lost", "bytes", na=True),
        Column("evidence", "U400", "rows it rests on: source:row words, see `evidence`"),
        Column("sentence", "U400", "what happened, in a field engineer's words"),
    ),
)
"""A diagnosis of one transfer, one row per occurrence.

`evidence` is words of the form `table:row`, where the table is one of a `Transfer` (sender, receiver, state,
events, near.frames, near.events, far.frames, far.events) and the row an index into it, from 0.
"""

LINK_USE = Schema(
    "link_use",
    (
        Column("begin_ns", "int64", "when it began, by the sender's clock", "ns since 1970"),
        Column("end_ns", "int64", "when it was over", "ns since 1970"),
        Column("use", "U16", "useful, arq, redundant, wasted, handshake, idle:rto, ... (docs/lost_time.md)"),
        Column("cause", "U16", "reset, radio, decompressor, recovery, back-off step, ...; empty if none"),
        Column("seconds", "float64", "link time of this use within the interval", "s"),
        Column("payload_bytes", "float64", "payload first delivered in it; 0 of other uses", "bytes"),
        Column("source", "U12", "table of the transfer that holds the event that began it; empty if none"),
        Column("row", "int64", "row of that event in that table, from 0", na=True),
        Column("ended_row", "int64", "row in `sender` of the segment that ended an idle interval", na=True),
        Column("inferred", "bool", "concluded without a link log"),
    ),
)
"""The account of a transfer's time, in order of time; the seconds sum to the transfer's duration.

Intervals in which a slot was shared (two segments in one frame) overlap; then `seconds` is each one's share.
"""
