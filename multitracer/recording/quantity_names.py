"""The names of the quantities of a session, and what the rows of each quantity are.

A name is a series' label (`TcpSnd_cwnd`), `table.column` (`radio.rsrp_dbm`), or a column alone. A key of `ALIASES`
stands for the first of its quantities that exists.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.common_grid import QuantityKind
from multitracer.analysis.series.labelled import ASSIGNED_SERIES, GPS_POSITION, GPS_SPEED, LINK_RATE, RADIO_SERIES
from multitracer.errors import InputError
from multitracer.schemas.application import APPLICATION_RATE, PINGS
from multitracer.schemas.link import LINK_EVENTS, LINK_FRAMES
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.sender import TCP_STATE
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SEGMENTS
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.tables import Column

THROUGHPUT = ("TcpSnd_goodput", "Tcp_goodput", "TcpMid_goodput", "TcpRcv_goodput", "downlink_bps")
"""Goodput as the sender reports it, else as the capture shows it, else the rate that a phone's logger reports."""
ALIASES = {"throughput": THROUGHPUT, "rate_assigned": (LINK_RATE, "link_events.rate_bps", "assigned_down_bps")}
"""Quantities by plain names. Without a log of the link, the assigned rates are those that a modem's log shows."""

TABLES = {
    schema.name: schema
    for schema in (
        RADIO, POSITION, TCP_STATE, TCP_SEGMENTS, RTT_SAMPLES, LINK_FRAMES, LINK_EVENTS, APPLICATION_RATE,
        PINGS,
    )
}  # fmt: skip
"""The tables whose columns are quantities over time."""

SEGMENT_SERIES = {
    "goodput": (QuantityKind.AMOUNTS, "bit", "payload that got through, each byte once"),
    "throughput": (QuantityKind.AMOUNTS, "bit", "payload that was sent, every copy"),
    "rexmt": (QuantityKind.AMOUNTS, "segments", "segments sent again"),
}
"""Series that `Quantities` computes from segments itself, because a figure shows a moving average or positions."""
OF_SERIES = {
    "data": QuantityKind.AMOUNTS,
    "ack": QuantityKind.AMOUNTS,
    "flight": QuantityKind.STEPS,
    "rwnd": QuantityKind.STEPS,
    "cwnd": QuantityKind.STEPS,
    "ssthresh": QuantityKind.STEPS,
    "srtt": QuantityKind.STEPS,
    "rto": QuantityKind.STEPS,
    "srtt_rfc6298": QuantityKind.STEPS,
    "rto_rfc6298": QuantityKind.STEPS,
    "rtt": QuantityKind.SAMPLES,
}
"""The kind of a labelled TCP series, by the last part of its label."""
LINK_SERIES = {
    "RlpSnd": ("data", "rexmt", "srej", "xoff", "xon", "rst"),
    "RlpRcv": ("data", "dup", "lost", "srej", "xoff", "xon", "rst"),
}
CLIMBING = ("data", "ack")

_NAMES = {
    "line", "frame", "file", "flow", "flags", "marks", "row", "answer_row", "provenance", "kind", "ip_id",
    "seq", "ack", "tsval", "tsecr", "window", "reverse", "n_s", "n_r", "tick", "cookie", "inode", "state",
    "ca_state", "timer", "snd_una", "snd_nxt", "port_local", "port_remote", "ip_version", "method", "run",
    "omitted", "registration", "area_code", "cell_id", "physical_cell_id", "channel", "modem", "fix",
    "app_limited", "sent", "uplink", "command", "poll_final", "fcs_ok", "modem_clock_s", "heading_deg",
}  # fmt: skip
"""Columns whose numbers have no order or restart: their mean has no meaning."""
_AMOUNTS = {"payload_bytes", "new_bytes", "rlp_resent_bytes", "bytes", "received_bytes"}
_COUNTERS = {"busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns"}
ASSIGNED = {"rate_bps", "queue_bytes"}
"""Columns of LINK_EVENTS whose value holds until the next event, such as the rate of a channel."""
_STEPS = {"flight_bytes", "flight_sack_bytes", "window_bytes"}
_NEAREST = 4
_LONGEST = 80
"""Maximum number of characters of a name that an error message repeats."""


def kind_of(table: str, column: Column) -> QuantityKind | None:
    """Return what the rows of a column are (`QuantityKind`).

    It is None for times, texts and numbers that are identifiers.
    """
    if np.dtype(column.dtype).kind not in "iuf" or column.is_time or column.name in _NAMES:
        return None
    if table == LINK_EVENTS.name:
        return QuantityKind.STEPS if column.name in ASSIGNED else None
    if column.name in _AMOUNTS:
        return QuantityKind.AMOUNTS
    if column.name.startswith("total_") or column.name in _COUNTERS:
        return QuantityKind.COUNTER
    if table == TCP_STATE.name or column.name in _STEPS:
        return QuantityKind.STEPS
    if table in (TCP_SEGMENTS.name, RTT_SAMPLES.name, LINK_FRAMES.name):
        return QuantityKind.SAMPLES
    return QuantityKind.READING


def column_of(name: str) -> tuple[str, Column] | None:
    """Return the table and the column that a name `table.column` stands for; None if there is none."""
    table, dot, wanted = name.partition(".")
    if not dot or table not in TABLES:
        return None
    return next(((table, column) for column in TABLES[table] if column.name == wanted), None)


def tables_with(name: str) -> list[str]:
    """Return the tables that have a column of this name."""
    return [table for table, schema in TABLES.items() if name in schema.names]


def labels() -> list[str]:
    """Return all labels that a series may have."""
    tcp = [f"Tcp{at}_{end}" for at in ("Snd", "Rcv", "Mid", "") for end in (*SEGMENT_SERIES, *OF_SERIES)]
    link = [f"{prefix}_{end}" for prefix, ends in LINK_SERIES.items() for end in ends]
    return [*tcp, *link, *ASSIGNED_SERIES, *RADIO_SERIES, GPS_SPEED, GPS_POSITION]


def unknown(name: str, there: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the most similar known names.

    Parameters
    ----------
    name : str
        The unknown name.
    there : iterable of str
        The series of the session.
    """
    columns = [
        (schema.name, column.name) for schema in TABLES.values() for column in schema
        if kind_of(schema.name, column)
    ]  # fmt: skip
    known = [*ALIASES, *labels(), *(name for _, name in columns), *(".".join(pair) for pair in columns)]
    lowered = {each.lower(): each for each in known}
    near = [lowered[each] for each in get_close_matches(name[:_LONGEST].lower(), lowered, _NEAREST, 0.5)]
    words = f"the nearest names are {', '.join(near)}" if near else f"there are {', '.join(there) or 'none'}"
    return InputError(f"{printable(name[:_LONGEST])!r}: no series or column has this name; {words}")
