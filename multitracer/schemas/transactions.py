"""Tables of a measurement: request / reply / good-bye transactions, as `measure run` writes them.

The CSV has these columns in this order, then one `label_NAME` for each label; the table has all labels in one column.
The columns of radio and place say what the logs of modem and GPS receiver hold for the time of a transaction
(`multitracer/readings.py`); files of older versions end before `rsrp_dbm`. docs/measuring.md explains each column.
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


CONTEXT = {
    "rssi": ("rssi_dbm",), "bler": ("bler_percent",), "cell_busy": ("cell_busy_percent",), "rsrp": ("rsrp_dbm",),
    "rsrq": ("rsrq_db",), "sinr": ("sinr_db",), "cell": ("cell",), "place": ("lat_deg", "lon_deg"),
}  # fmt: skip
"""Quantities of radio and place, and the columns of their values. Each also has `_age_s`, `_readings`, `_absent`."""
RADIO_READINGS = "radio_readings"
"""The largest number of readings among RSSI, BLER and cell busy."""


def _of_reading(name: str) -> tuple[Column, ...]:
    """Return the columns that say of which readings the value of a quantity is, or why there is none."""
    return (
        Column(
            f"{name}_age_s", "float64",
            "age of the reading at the begin; 0: read during the transaction, below 0: read after it", "s",
        ),
        Column(f"{name}_readings", "int64", "readings during the transaction; 0: the nearest one is used", na=True),
        Column(f"{name}_absent", "U64", "why there is no value; empty if there is one"),
    )  # fmt: skip


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
            ("rssi_dbm", "received power: mean of the readings in the transaction, else the nearest", "dBm"),
            ("bler_percent", "block error rate, as rssi_dbm", "%"),
            ("cell_busy_percent", "share of time in which the channel was busy, as rssi_dbm", "%"),
        ),
        *_count(
            (RADIO_READINGS, "readings during the transaction, the most of these three; 0: the nearest is used", "")
        ),
        *_real(
            ("rsrp_dbm", "power of the reference signal, as rssi_dbm", "dBm"),
            ("rsrq_db", "quality of the reference signal, as rssi_dbm", "dB"),
            ("sinr_db", "signal to interference and noise, as rssi_dbm", "dB"),
        ),
        *_text(("cell", "U64", "serving cell: the reading nearest to the middle of the transaction")),
        *_real(
            ("lat_deg", "latitude, WGS 84: the reading nearest to the middle of the transaction", "degrees"),
            ("lon_deg", "longitude, as lat_deg", "degrees"),
        ),
        *(column for name in CONTEXT for column in _of_reading(name)),
        *_text(("labels", "U512", "the labels as NAME=VALUE, sorted, separated by semicolons")),
    ),
)
"""Transactions, one per row, in order of execution."""

_OLDER = TRANSACTIONS.names.index(RADIO_READINGS) + 1
LOGGED = (TRANSACTIONS.names[:-1], TRANSACTIONS.names[:_OLDER])
"""Columns of transactions.csv before the labels, as it is written today, and as older versions wrote it."""
EFFICIENCY = Schema(
    "efficiency",
    (
        Column("host", "U128", "capture point nearest to the sender of a transfer, or host that measured"),
        Column("transaction", "int64", "number of the transaction in its plan; NA for a transfer of TCP", na=True),
        Column("connection", "int64", "number of the TCP connection in the session; NA for a transaction", na=True),
        *_text(
            ("direction", "U8", "whose data a transfer carries: forward, reverse; empty for a transaction"),
            ("protocol", "U16", "tcp, centauruscomm, wtcp"),
        ),
        Column("size_bytes", "int64", "length of the message that is varied; NA for a transfer", "bytes", na=True),
        Column("begin_ns", "int64", "begin of the transaction, or first segment of the transfer", "ns since 1970"),
        *_real(
            ("seconds", "time of the transaction until its reply had arrived, or of the transfer; link time", "s"),
            ("rtt_s", "RTT of the transaction, NA if it was dropped; of a transfer the median of its samples", "s"),
            ("rtt_min_s", "smallest RTT sample of a transfer", "s"),
            ("rtt_max_s", "largest RTT sample of a transfer", "s"),
        ),
        *_count(
            ("needed_bytes", "bytes that the application needed: each byte once", "bytes"),
            ("arrived_bytes", "payload that arrived at the receiver for them, duplicates included", "bytes"),
        ),
        *_real(
            ("efficiency", "needed bytes over arrived bytes; 1 is ideal (paper 000)", ""),
            ("efficiency_sent", "needed bytes over bytes that the sender sent, repetitions included", ""),
        ),
        *_text(("evidence", "U64", "how the efficiency is known, or why it is not")),
        *_real(
            ("rssi_dbm", "received power: mean of the readings in that time, else the nearest", "dBm"),
            ("bler_percent", "block error rate, as rssi_dbm", "%"),
            ("cell_busy_percent", "share of time in which the channel was busy, as rssi_dbm", "%"),
            ("rsrp_dbm", "power of the reference signal, as rssi_dbm", "dBm"),
            ("rsrq_db", "quality of the reference signal, as rssi_dbm", "dB"),
            ("sinr_db", "signal to interference and noise, as rssi_dbm", "dB"),
        ),
        *_text(("outcome", "U8", "ok, dropped"), ("why", "U128", "where a transaction was dropped; and the error")),
    ),
)
"""How much of what arrived was needed: a row for each transaction, else for each transfer of TCP."""
