"""How much of the payload that arrived was needed, by transfer of TCP and by transaction (paper 000).

Efficiency is the number of bytes that the application needed, over the payload bytes that arrived for them at
the receiver, duplicates included; 1 is ideal. A capture at the receiver shows it. From a capture at the sender
alone it is `efficiency_sent`, whose divisor also counts what was lost on the way. A capture between the hosts
shows neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.transports import why_absent
from multitracer.readings import MODEM, MOST_AGE_S, NOT_NEAR, NOT_REPORTED, Nearest, not_recorded
from multitracer.recording.places import distinct_connections
from multitracer.recording.transactions import client_of, transactions_of
from multitracer.recording.transfer import Transfer
from multitracer.schemas.tcp import Vantage
from multitracer.schemas.transactions import CONTEXT, EFFICIENCY
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.places import ConnectionAtPoint, Places
    from multitracer.recording.recording import Recording
    from multitracer.tables import Row

MOST = 2_000
"""Maximum number of transfers of a session in the table, those with most bytes: a figure shows no more."""
AT_RECEIVER, AT_BOTH, AT_SENDER = "captured at the receiver", "captured at both hosts", "captured at the sender"
BY_PROTOCOL, BY_SENDERS = "counted by the receivers", "counted by the senders"
BETWEEN = "captured between the hosts, or at an unknown place"
NOTHING = "not known"


class TransferBytes(NamedTuple):
    """The payload of one direction of a connection: what was needed, what arrived, and what was sent.

    Attributes
    ----------
    needed : int
        Distinct bytes at the receiver; without a capture there, at the sender.
    arrived : int or None
        Payload at the receiver, duplicates included; None without a capture there.
    unique_sent, sent : int or None
        Distinct bytes, and all payload, at the sender; None without a capture there.
    """

    needed: int
    arrived: int | None
    unique_sent: int | None
    sent: int | None

    @property
    def efficiency(self) -> float:
        """Needed over arrived bytes; NaN without a capture at the receiver."""
        return self.needed / self.arrived if self.arrived else float("nan")

    @property
    def efficiency_sent(self) -> float:
        """Distinct over sent bytes; NaN without a capture at the sender."""
        return self.unique_sent / self.sent if self.sent and self.unique_sent else float("nan")

    @property
    def evidence(self) -> str:
        """Where the bytes were counted."""
        if self.arrived is not None:
            return AT_RECEIVER
        return AT_SENDER if self.sent is not None else BETWEEN


def transfer_bytes(places: Places) -> TransferBytes:
    """Return the payload bytes of a transfer from the captures nearest to its sender and at its receiver."""
    near, far = places
    is_received = far is None and near.vantage is Vantage.NEAR_RECEIVER
    received, sent = near if is_received else far, near if near.vantage is Vantage.NEAR_SENDER else None
    at_receiver = None if received is None else _counted(received)
    at_sender = None if sent is None else _counted(sent)
    needed = at_receiver or at_sender or _counted(near)
    return TransferBytes(
        needed[0],
        None if at_receiver is None else at_receiver[1],
        None if at_sender is None else at_sender[0],
        None if at_sender is None else at_sender[1],
    )


def _counted(place: ConnectionAtPoint) -> tuple[int, int]:
    """Return the distinct and all payload bytes of a transfer at a capture point."""
    directions, row = place.capture.analysis.directions, _row_of(place)
    return int(directions["unique_bytes"][row]), int(directions["payload_bytes"][row])


def _row_of(place: ConnectionAtPoint) -> int:
    """Return the row of a transfer in `directions` of its capture."""
    return 2 * (place.connection - 1) + place.reverse


def efficiency_table(recording: Recording) -> Table:
    """Return EFFICIENCY of a session: a row for each transaction, else for each transfer of TCP, by begin.

    Parameters
    ----------
    recording : Recording
        Read with its segments. Of each connection the direction with more bytes is a transfer.

    Returns
    -------
    Table
        Of its provenance `left_out` is the number of transfers that it does not have, those with fewest bytes, and
        `absent` holds why there is no value, by the column of a radio quantity.
    """
    left_out = 0
    if logged := transactions_of(recording):
        rows = [
            _of_transaction(row) | {"host": client_of(log, recording.inputs)}
            for log, table in logged
            for row in table.rows()
        ]
        absent = {column: why_absent([table for _, table in logged], name) for name, column in _CONTEXT.items()}
    else:
        numbers, _ = distinct_connections(recording, MOST)
        rows = [_of_transfer(recording, number) for number in numbers[:MOST]]
        left_out = len(numbers) - len(rows)
        absent = _absent(recording)
    rows.sort(key=lambda row: row["begin_ns"])
    columns = {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in EFFICIENCY}
    return Table(EFFICIENCY, columns, {"left_out": left_out, "absent": absent})


def _of_transfer(recording: Recording, number: int) -> Row:
    transfer = Transfer.of(recording, number)
    near = transfer.at_sender
    counted = transfer_bytes((near, transfer.at_receiver))
    directions, row = near.capture.analysis.directions, _row_of(near)
    is_measured = directions["rtt_count"][row] > 0
    rtt = {f"rtt_{of}": _seconds(directions[f"rtt_{column}_ns"][row], recording.speed) if is_measured else np.nan
           for of, column in (("s", "p50"), ("min_s", "min"), ("max_s", "max"))}  # fmt: skip
    return {
        "host": near.host,
        "transaction": NA,
        "connection": near.number,
        "direction": "reverse" if near.reverse else "forward",
        "protocol": "tcp",
        "size_bytes": NA,
        "begin_ns": transfer.begin_ns,
        "seconds": transfer.total_s,
        **rtt,
        "needed_bytes": counted.needed,
        "arrived_bytes": NA if counted.arrived is None else counted.arrived,
        "efficiency": counted.efficiency,
        "efficiency_sent": counted.efficiency_sent,
        "evidence": counted.evidence,
        **_radio(transfer),
        "outcome": "ok" if transfer.is_complete else "dropped",
        "why": "" if transfer.is_complete else "the last byte was not acknowledged",
    }


def _seconds(value_ns: float, speed: float) -> float:
    return float("nan") if value_ns == NOT_A_TIME else float(value_ns) * speed / NS_PER_S


_RADIO = {
    "rssi_dbm": "Radio_rssi", "bler_percent": "Radio_bler", "cell_busy_percent": "Radio_cell_busy",
    "rsrp_dbm": "Radio_rsrp", "rsrq_db": "Radio_rsrq", "sinr_db": "Radio_sinr",
}  # fmt: skip
"""Series of the radio context, by column."""


_CONTEXT = {name: columns[0] for name, columns in CONTEXT.items() if columns[0] in _RADIO}
"""Column of each radio quantity, by its name."""


def _absent(recording: Recording) -> dict[str, str]:
    """Return why transfers have no value of a radio quantity, by its column."""
    context = recording.radio_context()
    if not context.radio:
        return dict.fromkeys(_RADIO, not_recorded(MODEM))
    return {column: NOT_NEAR if label in context.series else NOT_REPORTED for column, label in _RADIO.items()}


def _radio(transfer: Transfer) -> dict[str, float]:
    """Return each radio quantity during a transfer, from the readings that belong to its time; NaN without one."""
    series = {} if transfer.radio_context is None else transfer.radio_context.series
    begin_ns, end_ns = (np.array([time_ns], np.int64) for time_ns in (transfer.begin_ns, transfer.end_ns))
    most_ns = round(MOST_AGE_S / transfer.speed * NS_PER_S)
    return {
        column: float(Nearest(series[label]["time_ns"], begin_ns, end_ns, most_ns).mean(series[label]["value"])[0])
        if label in series
        else float("nan")
        for column, label in _RADIO.items()
    }


def _of_transaction(row: Row) -> Row:
    needed, is_done = row["request_bytes"] + row["reply_bytes"], row["outcome"] == "ok"
    is_counted = row["protocol"] != "centauruscomm" and None not in (row["bytes_up"], row["bytes_down"])
    sent = row["bytes_up"] + row["bytes_down"] if is_counted else None  # those of CentaurusComm have headers
    efficiency = row["efficiency"] if is_done else None
    by = NOTHING if not sent or not is_done else BY_SENDERS
    return {
        "transaction": row["transaction"],
        "connection": NA,
        "direction": "",
        "protocol": row["protocol"],
        "size_bytes": row["size_bytes"],
        "begin_ns": row["start_ns"],
        "seconds": row["timeout_s"] if row["rtt_s"] is None else row["rtt_s"],
        "rtt_s": np.nan if row["rtt_s"] is None or not is_done else row["rtt_s"],
        "rtt_min_s": np.nan,
        "rtt_max_s": np.nan,
        "needed_bytes": needed if is_done else NA,
        "arrived_bytes": NA if not efficiency else round(needed / efficiency),
        "efficiency": np.nan if efficiency is None else efficiency,
        "efficiency_sent": needed / sent if sent and is_done else np.nan,
        "evidence": by if efficiency is None else AT_BOTH if row["protocol"] == "tcp" else BY_PROTOCOL,
        **{name: np.nan if row[name] is None else row[name] for name in _RADIO},
        "outcome": row["outcome"],
        "why": row["why"],
    }
