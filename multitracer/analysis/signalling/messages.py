"""The rows of SIGNALLING as messages: of one card, within one clock of the log, in the order of the log.

The order is that of the log, never that of the times: some programs stamp messages up to a second too early or
too late. By how much the times contradict the order is the error of all times that are derived from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from multitracer.tables import Numbers, Schema, Times

_RESOLUTION_NS = NS_PER_US
"""Resolution of the times in a GSMTAP capture, which bounds the error from below."""
_NEIGHBOURS = 25
"""Messages before and after a procedure whose times show how far its own can be trusted: in a log in which a third of
the messages are out of order, 50 show it; one message that was logged late says nothing of others far away."""
_NEVER_USED = ("SystemInformation", "MasterInformation", "SIB", "MIB", "PACKET_", "System Information")
"""Begin of the names of messages that belong to no procedure and prove no state: broadcasts, and blocks of GPRS."""


class SignallingMessage(NamedTuple):
    """One row of SIGNALLING: its columns, after the name in lower case, as the standards write some in either form."""

    name: str
    place: int
    """Its place in its run, from 0."""
    time_ns: int
    frame: int
    rat: str
    layer: str
    logical_channel: str
    message: str
    cause: str
    cause_number: int
    transaction: int
    bearer: int
    elements: str
    physical_cell_id: int
    channel: int
    cell_id: int
    encrypted: int


class MessageRun(NamedTuple):
    """Successive messages of one card whose times follow one clock."""

    card: int
    messages: list[SignallingMessage]
    last_ns: int
    """Largest time in it, ns."""
    late_ns: Times
    """By how much the time of each message is before that of an earlier one, without measurement reports, ns."""
    report_late_ns: Times
    """The same with measurement reports, which some modems log late."""
    is_first: bool
    is_last: bool
    """Whether the log begins, and ends with it; otherwise its clock was set."""

    def error_ns(
        self, first: SignallingMessage, last: SignallingMessage | None = None, *, is_of_report: bool = False
    ) -> int:
        """Return by how much the times of successive messages, and of their neighbours, contradict their order."""
        late_ns = self.report_late_ns if is_of_report else self.late_ns
        end = (first if last is None else last).place + _NEIGHBOURS + 1
        return _RESOLUTION_NS + int(late_ns[max(first.place - _NEIGHBOURS, 0) : end].max())

    def why(self, *, begin: bool) -> str:
        """Return why what the run does not show the begin or the end of is cut."""
        if self.is_first if begin else self.is_last:
            return f"the log {'begins' if begin else 'ends'} within it"
        return "the clock was set within it"


def runs_of(signalling: Table) -> Iterator[MessageRun]:
    """Yield the messages with a time in the table SIGNALLING of one log; cards and clocks are never mixed."""
    names, number = np.unique(signalling["message"], return_inverse=True)
    unused = np.array([name.startswith(_NEVER_USED) for name in names.tolist()], bool)
    broadcast = unused[number] & (signalling["cell_id"] == NA)  # one with the identity of its cell names the cell
    usable = np.flatnonzero((signalling["time_ns"] != NOT_A_TIME) & ~broadcast)
    if not len(usable):
        return
    card, clock = signalling["modem"], signalling["clock"]
    first, last = int(clock.min()), int(clock.max())
    rows = usable[np.lexsort((clock[usable], card[usable]))]
    is_new = (np.diff(card[rows]) != 0) | (np.diff(clock[rows]) != 0)
    for run in np.split(rows, np.flatnonzero(is_new) + 1):  # a log may have as many clocks as messages
        stretch = int(clock[run[0]])
        yield _run(signalling, int(card[run[0]]), run, (stretch == first, stretch == last))


def _run(signalling: Table, card: int, rows: Numbers, ends: tuple[bool, bool]) -> MessageRun:
    lower: dict[str, str] = {name: name.lower() for name in np.unique(signalling["message"][rows]).tolist()}
    names = [lower[name] for name in signalling["message"][rows].tolist()]
    columns = (signalling[name][rows].tolist() for name in SignallingMessage._fields[2:])
    time_ns = signalling["time_ns"][rows]
    reports = np.isin(signalling["message"][rows], ("MeasurementReport", "Measurement Report"))
    messages = list(map(SignallingMessage, names, range(len(rows)), *columns))
    late_ns = _late_ns(np.where(reports, np.iinfo(np.int64).min, time_ns))
    return MessageRun(card, messages, int(time_ns.max()), np.where(reports, 0, late_ns), _late_ns(time_ns), *ends)


def _late_ns(time_ns: Times) -> Times:
    latest: Times = np.maximum.accumulate(time_ns)
    return latest - time_ns


def table_of(schema: Schema, rows: Sequence[Mapping[str, object]]) -> Table:
    """Return rows as a table; absent values and None are missing."""
    columns = {}
    for column in schema:
        is_text = column.dtype.startswith("U")
        missing: object = "" if is_text else NOT_A_TIME if column.unit.startswith("ns") else NA
        values = [missing if (value := row.get(column.name)) is None else value for row in rows]
        columns[column.name] = np.array(values, dtype=column.dtype)
    return Table(schema, columns)
