"""The quantities of a recording by name, each on the session's clock and in link time.

The session's clock is that of the sender's capture. Without packets it is the clock of the phone whose drive
is shown, or of the first log. Quantities on another host's clock are converted, and get the error of the
conversion. If nothing relates the two clocks, the quantity is missing and the reason names both clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.common_grid import QuantityKind, SessionQuantity
from multitracer.analysis.deliveries import tcp_deliveries
from multitracer.analysis.group import SegmentKind
from multitracer.analysis.mobility.serving import is_serving
from multitracer.analysis.series.labelled import (
    ASSIGNED_SERIES,
    GPS_POSITION,
    RADIO_SERIES,
    RATES,
    known_values,
    longest_joined_ns,
    most_of_one_source,
    packet_series,
    receiver_series,
    rtt_series,
    stretched,
)
from multitracer.analysis.series.throughput import reported
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.clock.session_clock import host_of
from multitracer.clock.sources.stalls import STALLS
from multitracer.errors import InputError
from multitracer.protocols.link_events import STREAM_BITS
from multitracer.recording.quantity_names import (
    ALIASES,
    CLIMBING,
    OF_SERIES,
    SEGMENT_SERIES,
    TABLES,
    column_of,
    kind_of,
    labels,
    tables_with,
    unknown,
)
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.transfer import Transfer
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.clock.session_clock import Clocks
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Column, Times


_PREFIXES = {Vantage.NEAR_SENDER: "TcpSnd", Vantage.NEAR_RECEIVER: "TcpRcv", Vantage.BETWEEN: "TcpMid"}


CIRCULAR = (
    "its clock was found by stalls that radio and packets have in common: a lag between the two would repeat "
    "what that assumes; what would help: clocks.jsonl with readings of both clocks"
)


@dataclass(frozen=True)
class Missing:
    """A quantity that a recording does not have, or that cannot be compared, with the reason as text."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Rows:
    """Rows of a table of one host, on the clock of that host."""

    table: Table
    host: str
    source: str


def _is_circular(clocks: Clocks, stamps: Times, source: Clock, target: Clock) -> bool:
    """Return whether the clocks were related by the same radio data and packets that are compared now.

    Then the result of the comparison would follow from the relation.
    """
    return any(relation.method == STALLS for relation in clocks.path_along(stamps, source, target))


class Quantities:
    """The quantities of a recording.

    Parameters
    ----------
    recording : Recording
    connection : int, optional
        Number of the connection for TCP's quantities; by default the one with the most unique bytes.
    bounds_ns : pair of int or None
        Bounds of the rows of logs, in ns; captures are cut already.
    """

    def __init__(
        self, recording: Recording, connection: int | None = None, *, bounds_ns: Bounds = (None, None)
    ) -> None:
        self.recording = recording
        self._connection = connection
        self._bounds_ns = bounds_ns

    def named(self, name: str) -> SessionQuantity | Missing:
        """Return the quantity with a name.

        Raises
        ------
        InputError
            If no quantity has this name, or several tables of the recording have such a column.
        """
        if name in ALIASES:
            resolved = [self.named(each) for each in ALIASES[name]]
            return next((each for each in resolved if isinstance(each, SessionQuantity)), resolved[-1])
        if name in labels():
            there = self._of_label(name)
            return there.get(name) or Missing(name, f"{self.recording.name} holds no {name}")
        if (pair := column_of(name)) is not None:
            return self._of_column(name, *pair)
        tables = tables_with(name)
        if not tables:
            raise unknown(name, self._there)
        holding = [table for table in tables if self._holds(table, name)]
        if len(holding) > 1:
            both = " and ".join(f"{table}.{name}" for table in holding)
            raise InputError(f"{name}: {len(holding)} tables have a column with this name; choose one of {both}")
        _, column = column_of(f"{(holding or tables)[0]}.{name}") or ("", None)
        assert column is not None
        return self._of_column(name, (holding or tables)[0], column)

    @property
    def surrounding(self) -> list[str]:
        """The labels of the radio and position series, without distance and logged data rates.

        The logged rates depend on the traffic: the uplink carries the acknowledgments of the downlink.
        """
        return [label for label in self._radio if label not in (GPS_POSITION, *RATES)]

    # --- clocks ---

    @cached_property
    def transfer(self) -> Transfer | None:
        """The chosen connection in all logs; None without any connection."""
        if not len(self.recording):
            return None
        return Transfer.of(self.recording, self._connection)

    @cached_property
    def radio_context(self) -> RadioContext:
        """The radio and position data, on the clocks of their hosts."""
        return RadioContext(self.recording, None, self._bounds_ns)

    @cached_property
    def home(self) -> str:
        """The host whose clock is the session's clock."""
        if self.transfer is not None:
            return host_of(self.recording, self.transfer.at_sender.capture.point)
        if self.radio_context.phones:
            return self.radio_context.phones[0].logs[0].host
        return self.recording.inputs.listed[0].host if self.recording.inputs.listed else ""

    def _placed(self, quantity: SessionQuantity) -> SessionQuantity | Missing:
        """Return a quantity on the session's clock and in link time."""
        if quantity.host in ("", self.home):
            return self._in_link_time(quantity)
        source, target = Clock(quantity.host), Clock(self.home)
        candidates = [self.recording.clocks] if self.recording.clocks else []
        for clocks in (*candidates, self.recording.all_clocks):
            placement = clocks.place(quantity.time_ns, source, target)
            there = placement.status != PlacementStatus.UNPLACED
            if there.any():
                if _is_circular(clocks, quantity.time_ns[there], source, target):
                    return Missing(quantity.name, CIRCULAR)
                bound_ns = float(np.median(placement.bound_ns[there]))
                time_ns = np.where(there, placement.time_ns, NOT_A_TIME)
                return self._in_link_time(replace(quantity, time_ns=time_ns, bound_ns=bound_ns))
        return Missing(quantity.name, f"its clock and the session's cannot be related: {placement.reason}")

    def _in_link_time(self, quantity: SessionQuantity) -> SessionQuantity:
        speed, transfer = self.recording.speed, self.transfer
        if speed == 1 or transfer is None:
            return quantity
        origin_ns = transfer.at_sender.capture.tables.first_ns or 0
        known = quantity.time_ns != NOT_A_TIME
        time_ns = np.full(len(known), NOT_A_TIME)
        time_ns[known] = stretched(quantity.time_ns[known], speed=speed, origin_ns=origin_ns)
        hold_ns = None if quantity.hold_ns is None else round(quantity.hold_ns * speed)
        value = quantity.value * (speed if quantity.unit == "ns" else 1)
        return replace(quantity, time_ns=time_ns, value=value, hold_ns=hold_ns, bound_ns=quantity.bound_ns * speed)

    # --- series by their labels ---

    def _of_label(self, label: str) -> dict[str, SessionQuantity | Missing]:
        if label.startswith("Tcp"):
            return self._tcp
        return self._link if label.startswith(("Rlp", "Link")) else self._radio

    @property
    def _there(self) -> list[str]:
        return [*self._tcp, *self._link, *self._radio]

    @cached_property
    def _tcp(self) -> dict[str, SessionQuantity | Missing]:
        if self.transfer is None:
            return {}
        series: dict[str, SessionQuantity | Missing] = {}
        for quantity in (*self._at_sender(self.transfer), *self._state(self.transfer)):
            series[quantity.name] = self._in_link_time(quantity)
        if self.transfer.is_related and self.transfer.at_receiver is not None:
            host = host_of(self.recording, self.transfer.at_receiver.capture.point)
            for quantity in self._at_receiver(self.transfer.at_receiver.segments(), self.transfer):
                series.setdefault(quantity.name, self._placed(replace(quantity, host=host)))
        return series

    def _at_sender(self, transfer: Transfer) -> Iterator[SessionQuantity]:
        """Yield the quantities that the capture nearest to the sender shows.

        Round-trip times are left out if this capture was made at the receiver.
        """
        prefix = _PREFIXES.get(transfer.vantage, "Tcp")
        segments, reverse = transfer.sender, transfer.reverse
        host = self.home
        yield from counted(segments, prefix=prefix, reverse=reverse, host=host)
        series = packet_series(segments, reverse=reverse, at="Rcv" if prefix == "TcpRcv" else "Snd")
        if prefix != "TcpRcv":
            samples = transfer.at_sender.capture.analysis.rtt_samples(transfer.at_sender.connection)
            series |= rtt_series(samples, reverse=reverse)
        for label, table in series.items():
            yield of_series(f"{prefix}_{label.partition('_')[2]}", table, host=host)

    def _state(self, transfer: Transfer) -> Iterator[SessionQuantity]:
        for label, table in transfer.state_series().items():
            polled = table.provenance["source"] != "tcp_probe"
            hold_ns = longest_joined_ns(table["time_ns"]) if polled else None
            yield replace(of_series(label, table, host=self.home), hold_ns=hold_ns)

    def _at_receiver(self, segments: Table, transfer: Transfer) -> Iterator[SessionQuantity]:
        yield from counted(segments, prefix="TcpRcv", reverse=transfer.reverse)
        shown = receiver_series(segments, sender=transfer.sender, reverse=transfer.reverse)
        for label, table in shown.items():
            yield of_series(label, table)

    @cached_property
    def _link(self) -> dict[str, SessionQuantity | Missing]:
        if self.transfer is None:
            return {}
        near, far = self.transfer.hosts
        series: dict[str, SessionQuantity | Missing] = {}
        for label, table in self.transfer.link.items():
            host = (far if label.startswith("RlpRcv") else near) or ""
            quantity = self._link_events(label, table)
            series[label] = self._moved_already(replace(quantity, host=host))
        return series

    def _link_events(self, label: str, table: Table) -> SessionQuantity:
        """Return a series of the link: bytes of frames, numbers of events, or what was assigned.

        The number of events is 0 in intervals that have frames but no event.
        """
        prefix, _, end = label.partition("_")
        if label in ASSIGNED_SERIES:
            return of_series(label, table, kind=QuantityKind.STEPS)
        if end in CLIMBING:
            return of_series(label, table)
        frames = self.transfer.link.get(f"{prefix}_data") if self.transfer else None
        idle = np.zeros(0, dtype=np.int64) if frames is None else frames["time_ns"]
        time_ns = np.concatenate([table["time_ns"], idle])
        value = np.append(np.ones(len(table)), np.zeros(len(idle)))
        return SessionQuantity(label, QuantityKind.AMOUNTS, time_ns, value, unit="events", source="link")

    def _moved_already(self, quantity: SessionQuantity) -> SessionQuantity | Missing:
        """Return a quantity whose times are already converted, with the error of this conversion added."""
        if quantity.host in ("", self.home):
            return self._in_link_time(quantity)
        clocks = self.recording.clocks or self.recording.all_clocks
        back = clocks.place(quantity.time_ns, Clock(self.home), Clock(quantity.host))
        there = back.status != PlacementStatus.UNPLACED
        if not there.any():
            return Missing(quantity.name, f"its clock and the session's cannot be related: {back.reason}")
        return self._in_link_time(replace(quantity, bound_ns=float(np.median(back.bound_ns[there]))))

    @cached_property
    def _radio(self) -> dict[str, SessionQuantity | Missing]:
        series: dict[str, SessionQuantity | Missing] = {}
        for label, table in self.radio_context.series.items():
            kind = QuantityKind.COUNTER if label == GPS_POSITION else QuantityKind.READING
            radio = label in RADIO_SERIES
            host = self._phone_host if radio else self._track_host
            hold_ns = int(table.provenance["gap_ns"])
            quantity = of_series(label, table, kind=kind, host=host)
            series[label] = self._placed(replace(quantity, hold_ns=hold_ns))
        return series

    @property
    def _phone_host(self) -> str:
        return self.radio_context.phones[0].logs[0].host if self.radio_context.phones else ""

    @property
    def _track_host(self) -> str:
        if self.radio_context.drive is not None:
            return self.radio_context.drive[0].host
        return self.radio_context.position[0].host if self.radio_context.position else ""

    # --- columns of tables ---

    def _holds(self, table: str, name: str) -> bool:
        return any(bool((~rows.table.missing(name)).any()) for rows in self._rows(table, name))

    def _of_column(self, name: str, table: str, column: Column) -> SessionQuantity | Missing:
        kind = kind_of(table, column)
        if kind is None:
            return Missing(name, "its values are times, texts or names, which are no quantity")
        held = [each for each in self._rows(table, column.name) if (~each.table.missing(column.name)).any()]
        if not held:
            return Missing(name, f"{self.recording.name} holds no value of {table}.{column.name}")
        rows = max(held, key=lambda each: int(np.count_nonzero(~each.table.missing(column.name))))
        value = np.where(rows.table.missing(column.name), np.nan, rows.table[column.name].astype(np.float64))
        time_ns = rows.table["time_ns"]
        timed = np.sort(time_ns[(time_ns != NOT_A_TIME) & np.isfinite(value)])
        hold_ns = (
            longest_joined_ns(timed)
            if kind in (QuantityKind.READING, QuantityKind.STEPS, QuantityKind.COUNTER)
            else None
        )
        hold_ns = None if table in ("tcp_segments", "rtt_samples", "link_events") else hold_ns
        quantity = SessionQuantity(name, kind, time_ns, value, column.unit, hold_ns, source=rows.source, host=rows.host)
        return self._placed(quantity)

    def _rows(self, table: str, column: str) -> list[_Rows]:
        """Return the rows of a table that may have a column, in groups: one for each host and source."""
        if table == "radio":
            return self._radio_rows(column)
        if table == "position":
            tracks = [self.radio_context.drive[0]] if self.radio_context.drive else self.radio_context.position
            return [_Rows(each.table, each.host, portable(each.path)) for each in tracks]
        if table in ("tcp_state", "tcp_segments", "rtt_samples"):
            return self._connection_rows(table)
        return list(self._logged_rows(table))

    def _radio_rows(self, column: str) -> list[_Rows]:
        if not self.radio_context.phones:
            return []
        phone = self.radio_context.phones[0]
        serving = phone.radio.take(is_serving(phone.radio) & (phone.radio["time_ns"] != NOT_A_TIME))
        if serving[column].dtype.kind in "UV":
            return [_Rows(serving, self._phone_host, "")]
        chosen = serving.take(most_of_one_source(serving["source"], known_values(serving[column])))
        return [_Rows(chosen, self._phone_host, ", ".join(map(portable, phone.paths)))]

    def _connection_rows(self, table: str) -> list[_Rows]:
        transfer = self.transfer
        if transfer is None:
            return []
        if table == "tcp_state":
            return [_Rows(transfer.state, self.home, "the sender's kernel")]
        source = portable(transfer.at_sender.capture.point.name)
        if table == "rtt_samples":
            samples = transfer.at_sender.capture.analysis.rtt_samples(transfer.at_sender.connection)
            return [_Rows(samples.take(samples["reverse"] == transfer.reverse), self.home, source)]
        own = transfer.sender["reverse"] == transfer.reverse
        return [_Rows(transfer.sender.take(own), self.home, source)]

    def _logged_rows(self, table: str) -> Iterator[_Rows]:
        """Yield the rows of logs: one group for each direction of a link, and for each program stream."""
        layer = "link" if table in ("link_frames", "link_events") else "application"
        for log, logged in self.recording.tables(layer, TABLES[table].name):
            complete = logged.within(*self._bounds_ns)
            if table == "link_events":  # the log of a fixed host has the rates of several mobiles
                complete = complete.take(~complete.missing("rate_bps"))
                groups = ((complete["offset_bytes"] >> STREAM_BITS) + 1).astype("U8")
            else:
                groups = complete["sent"].astype("U8") if table == "link_frames" else _streams(complete)
            for group in np.unique(groups).tolist():
                yield _Rows(complete.take(groups == group), log.host, f"{portable(log.path)} {group}".strip())


def _streams(table: Table) -> Array:
    names = [table[name].astype("U64") for name in ("run", "source", "series", "direction") if name in table.columns]
    joined = names[0]
    for each in names[1:]:
        joined = np.char.add(np.char.add(joined, " "), each)
    return joined


# Quantities that are computed from the segments of one capture, or from labelled series.


def counted(segments: Table, *, prefix: str, reverse: bool, host: str = "") -> Iterator[SessionQuantity]:
    """Yield goodput, throughput and retransmissions of one direction at one capture point."""
    data = segments.take((segments["reverse"] == reverse) & (segments["payload_bytes"] > 0))
    got = tcp_deliveries if prefix == "TcpRcv" else reported
    through = got(segments, reverse=reverse)
    again = (data["kind"] & np.uint32(SegmentKind.RETRANSMISSION)) != 0
    rows = {
        "goodput": (through["time_ns"], through["new_bytes"] * BITS_PER_BYTE),
        "throughput": (data["time_ns"], data["payload_bytes"].astype(np.int64) * BITS_PER_BYTE),
        "rexmt": (data["time_ns"], again),
    }
    for end, (time_ns, value) in rows.items():
        if len(time_ns):
            kind, unit, doc = SEGMENT_SERIES[end]
            yield SessionQuantity(
                f"{prefix}_{end}", kind, time_ns, value.astype(np.float64), unit, source=doc, host=host
            )


def of_series(label: str, table: Table, *, kind: QuantityKind | None = None, host: str = "") -> SessionQuantity:
    """Return a labelled series as a quantity.

    For positions in a byte stream, the values are the increases from row to row.
    """
    end = label.partition("_")[2]
    value, unit = table["value"], str(table.provenance["unit"])
    if end in CLIMBING:
        highest = np.maximum.accumulate(np.where(np.isfinite(value), value, -np.inf))
        value = np.diff(highest, prepend=highest[:1]) if len(highest) else highest
    source = str(table.provenance["source"])
    return SessionQuantity(label, kind or OF_SERIES[end], table["time_ns"], value, unit, source=source, host=host)
