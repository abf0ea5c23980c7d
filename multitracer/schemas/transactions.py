"""Tables of a measurement: request / reply / good-bye transactions, as `measure run` writes them.

The CSV has these columns in this order, then one `label_NAME` for each label; the table has all labels in one column.
`rig.radio_join` fills the radio columns. docs/measuring.md explains each column.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

LABEL = "label_"
"""Prefix of a label's column name in the CSV."""


def _text(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, dtype, doc) for name, dtype, doc in rows)


def _count(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


def _real(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


RADIO_COLUMNS = ("rssi_dbm", "bler_percent", "cell_busy_percent", "radio_readings")
"""Columns that are filled in later, by time, from a modem's log."""

TRANSACTIONS = Schema(
    "transactions",
    (
        Column("transaction", "int64", "number of the transaction in the plan, from 1"),
        *_text(("protocol", "U16", "tcp, centauruscomm, wtcp"), ("vary", "U8", "which message: request, reply")),
        Column("size_bytes", "int64", "length of the message that is varied", "bytes"),
        Column("repetition", "int64", "number among the transactions of this size, from 1"),
        Column("request_bytes", "int64", "length of the request", "bytes"),
        Column("reply_bytes", "int64", "length of the reply", "bytes"),
        *_text(("connection", "U12", "one, per-session")),
        *_real(("timeout_s", "time after which the transaction is dropped", "s")),
        Column("start_ns", "int64", "just before the request was handed over", "ns since 1970"),
        *_real(
            ("connect_s", "set-up of the connection; NA where none was set up", "s"),
            ("rtt_s", "from the hand-over of the request until the whole reply had arrived", "s"),
            ("server_rtt_s", "from the hand-over of the reply until the first byte of the good-bye arrived", "s"),
        ),
        *_count(
            ("retransmitted_client", "segments of the request sent again", ""),
            ("retransmitted_server", "segments of the reply sent again", ""),
            ("bytes_up", "bytes that the client's transport sent, repetitions included", "bytes"),
            ("bytes_down", "bytes that the server's transport sent, repetitions included", "bytes"),
        ),
        *_real(
            ("efficiency", "application bytes over payload bytes received for them", ""),
            ("clock_offset_s", "the server's clock less the client's, CentaurusComm only", "s"),
            ("clock_uncertainty_s", "bound of the offset's error: the true offset lies within plus or minus this", "s"),
        ),
        *_text(
            ("outcome", "U8", "ok, dropped"),
            ("why", "U128", "where it was dropped: connect, request, reply, goodbye; and the error"),
        ),
        *_real(
            ("rssi_dbm", "received power: mean of the modem's readings in the transaction", "dBm"),
            ("bler_percent", "block error rate: mean of the modem's readings in the transaction", "%"),
            ("cell_busy_percent", "share of time in which the channel was busy: mean of the readings", "%"),
        ),
        *_count(("radio_readings", "readings during the transaction; 0 if the values are of an earlier reading", "")),
        *_text(("labels", "U512", "the labels as NAME=VALUE, sorted, separated by semicolons")),
    ),
)
"""Transactions, one per row, in order of execution."""
