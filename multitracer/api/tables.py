"""The tables of a session as DataFrames; `attrs` describe the columns.

The module also has the tables of logs other than captures: TCP state, link, radio and position.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from multitracer.analysis.segments.segment_class import SegmentClass
from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, evidence_words, word
from multitracer.api.frames import HOST, ROWS, HostTable, described, framed, of_columns
from multitracer.api.kept import Kept, lazy_property
from multitracer.api.procedures import procedure_statistics
from multitracer.diagnosis.drive import SEED
from multitracer.diagnosis.seconds import absent_of, seconds_columns
from multitracer.diagnosis.segment_verdicts import segment_verdicts
from multitracer.errors import InputError
from multitracer.recording.deliveries import wtcp_flows, wtcp_table
from multitracer.recording.fair_shares import fair_shares
from multitracer.recording.recording import NO_CAPTURE
from multitracer.recording.transactions import transactions_of
from multitracer.schemas.link import FAIRNESS, LINK_EVENTS, LINK_FRAMES, SHARES
from multitracer.schemas.mobility import AROUND, AROUND_LIMITS, CELLS, EPOCHS, JUDGED_HANDOVERS, SECONDS, STRETCHES
from multitracer.schemas.quic import QUIC_CONNECTIONS, QUIC_PACKETS, QUIC_STATE
from multitracer.schemas.radio import GAPS, MARKERS, POSITION, RADIO
from multitracer.schemas.sender import TCP_EVENTS, TCP_STATE
from multitracer.schemas.signalling import PROCEDURES, SIGNALLING, SIGNALLING_STATES
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, SEGMENT_VERDICTS
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import SEGMENTS, Column, Table
from multitracer.wtcp import WTCP_FLOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.endpoints import Endpoints
    from multitracer.logs import HostLog
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Schema


class LoggedTables(Kept):
    """The tables of logs other than captures, each a DataFrame whose first column is `host`."""

    @lazy_property
    def tcp_state(self) -> pd.DataFrame:
        """The variables of the sender's TCP, polled or traced; `mt.columns("tcp_state")`.

        Examples
        --------
        >>> int(session.tcp_state["cwnd_segments"].max()) > 10
        True
        """
        return self._logged("tcp", TCP_STATE)

    @lazy_property
    def quic_connections(self) -> pd.DataFrame:
        """The QUIC connections of captures and qlogs (docs/quic.md); `mt.columns("quic_connections")`.

        Examples
        --------
        >>> session.quic_connections.empty
        True
        """
        return self._of_quic(QUIC_CONNECTIONS, self._recording.quic.connections())

    @lazy_property
    def quic_packets(self) -> pd.DataFrame:
        """The packets of QUIC connections, opened by keys where there are some; `mt.columns("quic_packets")`.

        Examples
        --------
        >>> session.quic_packets.empty
        True
        """
        return self._of_quic(QUIC_PACKETS, self._recording.quic.packets())

    @lazy_property
    def quic_state(self) -> pd.DataFrame:
        """The sender's own state as qlogs have it; `mt.columns("quic_state")`.

        Examples
        --------
        >>> session.quic_state.empty
        True
        """
        return self._of_quic(QUIC_STATE, self._recording.quic.state())

    def _of_quic(self, schema: Schema, tables: Iterable[tuple[str, Table]]) -> pd.DataFrame:
        chunks = [HostTable(host, _within(table, self._bounds_ns), host) for host, table in tables]
        return framed(schema, chunks, sort=_time_column(schema), absent={ROWS: "the session has no QUIC connection"})

    @lazy_property
    def tcp_events(self) -> pd.DataFrame:
        """TCP events that the sender's kernel reported; `mt.columns("tcp_events")`.

        Examples
        --------
        >>> "event" in session.tcp_events
        True
        """
        return self._logged("tcp", TCP_EVENTS)

    @lazy_property
    def link_frames(self) -> pd.DataFrame:
        """The frames in the logs of both sides of a radio link; `mt.columns("link_frames")`.

        Examples
        --------
        >>> call = mt.open("sample_traces/fig10-backoff")
        >>> sorted(set(call.link_frames["host"]))
        ['fixed', 'mobile']
        """
        return self._logged("link", LINK_FRAMES)

    @lazy_property
    def link_events(self) -> pd.DataFrame:
        """Events of the link other than frames: stops, resets, queues; `mt.columns("link_events")`.

        Examples
        --------
        >>> call = mt.open("sample_traces/fig10-backoff")
        >>> "reset_started" in set(call.link_events["event"])
        True
        """
        return self._logged("link", LINK_EVENTS)

    @lazy_property
    def radio(self) -> pd.DataFrame:
        """Radio readings of modems and loggers; `mt.columns("radio")`.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsal")
        >>> bool(drive.radio["rssi_dbm"].notna().any())
        True
        """
        return self._logged("radio", RADIO)

    @lazy_property
    def position(self) -> pd.DataFrame:
        """Positions of the GPS receivers of the recording; `mt.columns("position")`.

        Examples
        --------
        >>> session.position.empty
        True
        """
        return self._logged("position", POSITION, "radio")  # drive tests of phones tell both

    @lazy_property
    def signalling(self) -> pd.DataFrame:
        """The signalling messages between phone and network from diagnostic logs; `mt.columns("signalling")`.

        Examples
        --------
        >>> session.signalling.empty
        True
        """
        return self._logged("signalling", SIGNALLING, "radio")

    def message_tree(self, frame: int, *, log: str | None = None) -> str:
        """Return the content of a message of `signalling` as tshark decodes it, a line for each field.

        What identifies a subscriber or a phone is left out. The log is read again, which takes seconds.

        Parameters
        ----------
        frame : int
            Number of the message: column `frame` of `signalling`, "No." in a report.
        log : str, optional
            Name or path of its log; needed if several logs hold messages.

        Raises
        ------
        InputError
            If no log has this message, or several logs hold messages and none is named.
        PreflightError
            If tshark is not installed, or scat for a diagnostic log.

        Examples
        --------
        >>> session.message_tree(1)
        Traceback (most recent call last):
        multitracer.errors.InputError: cellular_upload: no log of the session holds messages of signalling
        """
        from parsers._signalling.trees import message_trees  # noqa: PLC0415  # few sessions have messages

        paths = [
            each.path
            for layer in ("signalling", "radio")
            for each, table in self._recording.tables(layer, SIGNALLING.name)
            if len(table)
        ]
        if not paths:
            raise InputError(f"{self._recording.name}: no log of the session holds messages of signalling")
        chosen = [path for path in paths if log in (None, path, PurePath(path).name)]
        if len(chosen) != 1:
            names = ", ".join(PurePath(path).name for path in paths)
            raise InputError(f"{self._recording.name}: name the log of the message, one of: {names}")
        for tree in message_trees(chosen[0], [frame]):
            return tree.text()
        raise InputError(f"{chosen[0]}: there is no message {frame}; the column `frame` of `signalling` lists all")

    @lazy_property
    def procedures(self) -> pd.DataFrame:
        """The procedures between phone and network in diagnostic logs (docs/signalling.md).

        `mt.columns("procedures")` lists the columns: kind, result, cause, duration with its error, frames.

        Examples
        --------
        >>> session.procedures.empty
        True
        """
        return self._derived(PROCEDURES, procedures_of)

    def procedure_statistics(self, *by: str) -> pd.DataFrame:
        """Return the procedures by kind: count, failures by cause, duration (docs/signalling.md).

        Parameters
        ----------
        *by : str
            Also by "cell", "hour" or "host"; `mt.columns("procedure_statistics")` lists the columns.

        Examples
        --------
        >>> session.procedure_statistics("cell", "hour").empty
        True
        """
        return procedure_statistics(self.procedures, by)

    @lazy_property
    def signalling_states(self) -> pd.DataFrame:
        """The states of RRC, registration, session, dual connectivity and carrier aggregation in time.

        From signalling messages, and as far as they go from what a modem or a phone says without them
        (docs/signalling.md). `mt.columns("signalling_states")` lists the columns.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsed-drive")
        >>> sorted(set(drive.signalling_states["machine"]))
        ['EMM', 'MM', 'RRC']
        """
        return self._derived(SIGNALLING_STATES, states_of)

    @lazy_property
    def handovers(self) -> pd.DataFrame:
        """The changes of the serving cell (docs/mobility.md); `mt.columns("judged_handovers")`.

        They come from signalling, or, if there is none, from the radio readings. Added and released legs of a
        dual connection are rows, too; the columns that evaluate a handover are NA in these rows.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsal")
        >>> list(drive.handovers[["kind", "source_cell_id", "target_cell_id"]])
        ['kind', 'source_cell_id', 'target_cell_id']
        """
        chunks = [HostTable(p.host, p.changes, ", ".join(p.paths)) for p in self._drive.phones]
        return framed(JUDGED_HANDOVERS, chunks, sort="time_ns", absent=self._no_phone)

    def handovers_with(self, *, minimum_stay_s: float) -> pd.DataFrame:
        """Return `handovers` with another minimum cell visit: after a shorter visit, a return is a ping-pong.

        `mt.columns("judged_handovers")` lists the columns.

        Parameters
        ----------
        minimum_stay_s : float
            Minimum duration of a visit, s.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsal")
        >>> bool((drive.handovers_with(minimum_stay_s=5)["ping_pong"] == 1).any())
        False
        """
        chunks = [HostTable(p.host, p.changes_with(minimum_stay_s), ", ".join(p.paths)) for p in self._drive.phones]
        return framed(JUDGED_HANDOVERS, chunks, sort="time_ns")

    @lazy_property
    def cells(self) -> pd.DataFrame:
        """The serving cells, the one with the longest service first (docs/mobility.md).

        `mt.columns("cells")`.

        Examples
        --------
        >>> bool((session.cells["seconds"] >= 0).all())
        True
        """
        chunks = [HostTable(p.host, self._drive.cells(p), ", ".join(p.paths)) for p in self._drive.phones]
        return framed(CELLS, chunks, absent=self._no_phone)

    @lazy_property
    def stretches(self) -> pd.DataFrame:
        """Bad segments of a drive, with cost and cause, the most costly first; `mt.columns("stretches")`.

        Examples
        --------
        >>> session.stretches.empty
        True
        """
        return framed(STRETCHES, [HostTable(self._phone, self._drive.stretches, "the drive")], absent=self._no_phone)

    @lazy_property
    def around_handovers(self) -> pd.DataFrame:
        """Throughput, RTT and loss in windows around each handover; `mt.columns("around")`.

        Examples
        --------
        >>> session.around_handovers.empty
        True
        """
        return framed(AROUND, [HostTable(self._phone, self._drive.around[0], "the drive")], absent=self._no_phone)

    @lazy_property
    def limits_around_handovers(self) -> pd.DataFrame:
        """Limits of the transfers in the windows of `around_handovers`; `mt.columns("around_limits")`.

        Examples
        --------
        >>> session.limits_around_handovers.empty
        True
        """
        return framed(
            AROUND_LIMITS, [HostTable(self._phone, self._drive.around[1], "the drive")], absent=self._no_phone
        )

    def handover_epochs(self, of: str = "throughput", *, seed: int = SEED) -> pd.DataFrame:
        """Return a quantity by time since the handover, with 95 % intervals; `mt.columns("epochs")`.

        Parameters
        ----------
        of : str
            "throughput" (bit/s), "rtt" (ns), or the label of a series such as "Radio_rsrp".
        seed : int
            Random seed of the bootstrap over handovers that gives the interval of the mean.

        Raises
        ------
        InputError
            If there is no radio log, or the quantity has no values.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsal")
        >>> int(drive.handover_epochs("Radio_rssi")["n"].max())
        0
        """
        return framed(EPOCHS, [HostTable(self._phone, self._drive.epochs(of, seed=seed), "the drive")])

    def seconds(self) -> pd.DataFrame:
        """Return each second of the session: throughput, RTT, loss, limit and its cause, radio and place.

        Returns
        -------
        DataFrame
            A row for each second of UTC, by the clock of the capture that the diagnosis rests on, in order of
            time; `mt.columns("seconds")` lists the columns, which are those of the table `seconds` of a
            campaign. `attrs["absent"]` gives the reason why a column has no value in this session, or none in
            some seconds.

        Raises
        ------
        InputError
            If the times of the session span more than eleven days.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsed-drive").seconds()
        >>> drive.groupby("limited_by")["throughput_bps"].median().idxmax()
        'link'
        >>> worst = drive.dropna(subset="throughput_bps").nsmallest(10, "throughput_bps")
        >>> worst[["time_ns", "throughput_bps", "limited_by", "cause", "rsrp_dbm"]].shape
        (10, 5)
        """
        drive = self._explained_drive
        columns = seconds_columns(drive)
        frame = of_columns(SECONDS, columns, source="the captures and logs of the session")
        frame.attrs["absent"] = absent_of(drive, columns)
        return frame

    @property
    def _no_phone(self) -> dict[str, str]:
        """The reason why tables of the radio have no rows; empty with a phone."""
        return {} if self._drive.phones else {ROWS: "no radio log of a phone"}

    @property
    def _phone(self) -> str:
        return self._drive.phones[0].host if self._drive.phones else ""

    @property
    def drive_tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the radio and the route by name, as `export tables` writes them.

        Examples
        --------
        >>> list(session.drive_tables)
        ['radio', 'position', 'signalling', 'procedures', 'signalling_states', 'handovers', 'cells', 'stretches']
        """
        try:
            bad = self.stretches
        except InputError as error:  # times of two clocks: the other tables are written all the same
            self._recording.warn_once(f"stretches: {error}")
            bad = framed(STRETCHES, [])
        return {
            "radio": self.radio,
            "position": self.position,
            "signalling": self.signalling,
            "procedures": self.procedures,
            "signalling_states": self.signalling_states,
            "handovers": self.handovers,
            "cells": self.cells,
            "stretches": bad,
        }

    @lazy_property
    def gaps(self) -> pd.DataFrame:
        """Intervals in which a collector could not read its source, with the reason; `mt.columns("gaps")`.

        Examples
        --------
        >>> session.gaps.empty
        True
        """
        return self._logged("radio", GAPS, "position")

    @lazy_property
    def markers(self) -> pd.DataFrame:
        """Markers that the engineer set during the recording; `mt.columns("markers")`.

        Examples
        --------
        >>> session.markers.empty
        True
        """
        return self._logged("marker", MARKERS, "position", "radio")  # waypoints and events of a drive test

    @lazy_property
    def transactions(self) -> pd.DataFrame:
        """The transactions of `measure run`, with radio and place during each; `mt.columns("transactions")`.

        Readings of modem and GPS receiver are joined by time, on the client's clock (docs/session.md).

        Examples
        --------
        >>> set(over_tcp.transactions["outcome"]) <= {"ok", "dropped"}
        True
        """
        return self._framed(TRANSACTIONS, transactions_of(self._recording))

    def table(self, layer: str, name: str) -> pd.DataFrame:
        """Return a table from the logs of a layer; the table may be one that only a plug-in defines.

        `attrs["columns"]` describes the columns.

        Parameters
        ----------
        layer : str
            Name of the layer in `multitracer formats`: tcp, link, radio, position, clock, marker,
            transactions, application, signalling.
        name : str
            Name of the table, such as "clock_readings".

        Raises
        ------
        InputError
            If no log of the session has this table.

        Examples
        --------
        >>> session.table("clock", "clock_readings")["host"].unique().tolist()
        ['mobile', 'fixed']
        """
        for _, tables in self._recording.logs(layer):
            if name in tables:
                return self._logged(layer, tables[name].schema)
        there = {each for _, tables in self._recording.logs(layer) for each in tables}
        held = ", ".join(sorted(there)) or "none"
        raise InputError(
            f'{self._recording.name}: no log of the layer "{layer}" contains the table {name!r}; the tables are: {held}'
        )

    def _logged(self, layer: str, schema: Schema, *layers: str) -> pd.DataFrame:
        """Return the rows of a table from all logs that have it, with the host, in order of time."""
        return self._framed(
            schema, [each for one in (layer, *layers) for each in self._recording.tables(one, schema.name)]
        )

    def _derived(self, schema: Schema, made: Callable[[dict[str, Table]], Table]) -> pd.DataFrame:
        """Return rows that are derived from the signalling, or from the radio readings, of each log."""
        logs = [log for layer in ("signalling", "radio") for log in self._recording.logs(layer)]
        return self._framed(schema, [(log, made(tables)) for log, tables in logs])

    def _framed(self, schema: Schema, logs: Sequence[tuple[HostLog, Table]]) -> pd.DataFrame:
        """Return the rows of the tables of some logs, with the host, in order of time."""
        chunks = [
            HostTable(log.host, _within(table, self._bounds_ns), f"{log.path} ({log.format})") for log, table in logs
        ]
        reason = f"no log of the session has rows of {schema.name}"
        if any(len(table) for _, table in logs) and not any(len(chunk.table) for chunk in chunks):
            reason = f"no row of {schema.name} lies between begin and end"
            self._recording.warn_once(reason)
        return framed(schema, chunks, sort=_time_column(schema), absent={ROWS: reason})


def _time_column(schema: Schema) -> str:
    """Return the name of the column for sorting and windows; "" for a table without times."""
    times = [column.name for column in schema if column.is_time]
    return next((name for name in ("time_ns", "start_ns") if name in times), times[0] if times else "")


_ENDS_OF_ROW = (("begin_ns", "end_ns"), ("end_ns", "begin_ns"))


def _within(table: Table, bounds_ns: Bounds) -> Table:
    """Return the rows whose time is within the bounds; all rows of a table without times.

    A row with begin and end, of which one may be missing, is within them if a part of it is.
    """
    if bounds_ns != (None, None) and {"begin_ns", "end_ns"} <= table.columns.keys():
        begin, end = (np.where(table.missing(a), table[b], table[a]) for a, b in _ENDS_OF_ROW)
        low, high = bounds_ns
        return table.take((end >= (begin if low is None else low)) & (begin < (end + 1 if high is None else high)))
    column = _time_column(table.schema)
    return table.within(*bounds_ns, column=column) if column else table


_ENDS = (
    Column("src", "U45", "address of the initiator"),
    Column("sport", "int64", "TCP port of the initiator"),
    Column("dst", "U45", "address of the responder"),
    Column("dport", "int64", "TCP port of the responder"),
)
_FILES = (
    HOST,
    Column("path", "U", "as it was named"),
    Column("format", "U", "as `multitracer formats` names it"),
    Column("variant", "U", "dialect of the format"),
    Column("compression", "U", "gzip, zstd, xz or bzip2; None if plain"),
    Column("packets", "int64", "packets read"),
    Column("bytes", "int64", "bytes read, decompressed", "bytes"),
    Column("first_ns", "int64", "time of the first packet", "ns since 1970"),
    Column("last_ns", "int64", "time of the last packet", "ns since 1970"),
    Column("damaged", "U", "what is wrong with it; None if nothing is"),
)
_TRUST = (
    HOST,
    Column("verdict", "U7", "good, caution or poor: how far the capture can be trusted; None without a capture"),
    Column("code", "U", "stable name of the reason for caution; None if there is none"),
    Column("count", "int64", "how often it was seen"),
    Column("sentence", "U", "what it is and what it does to the numbers"),
)


_NO_REASON = (None, 0, "nothing in this capture is a reason for caution")


class SessionTables(LoggedTables):
    """The tables of a complete session.

    The first column of each table is `host`: the name of the capture point or host. Connections are numbered
    from 1 over all capture points of the session. Times are datetime64[ns, UTC]; units are in the columns'
    names and in `frame.attrs["columns"]`.
    """

    # --- captures ---

    @lazy_property
    def files(self) -> pd.DataFrame:
        """The capture files and their properties, one row for each file; `attrs["columns"]` describes them.

        Examples
        --------
        >>> session.files[["host", "format"]].iloc[0].tolist()
        ['mobile', 'pcap']
        """
        names = [column.name for column in _FILES]
        facts = [
            [capture.point.name, *(getattr(file, name) for name in names[1:])]
            for capture in self._recording.captures
            for file in capture.tables.files
        ]
        frame = pd.DataFrame(facts, columns=names)
        return described(frame, "files", {c.name: c for c in _FILES}, source="the files themselves")

    @lazy_property
    def segments(self) -> pd.DataFrame:
        """All captured TCP segments; `mt.columns("segments")` lists the columns.

        Examples
        --------
        >>> int(session.segments.query("host == 'mobile'")["payload_bytes"].sum())
        6200208
        """
        return self._captured(SEGMENTS, ((capture, capture.tables.segments) for capture in self._recording.captures))

    @lazy_property
    def connections(self) -> pd.DataFrame:
        """The connections, one row for each.

        Columns of `mt.columns("connections")`, and src, sport, dst, dport. Of a capture that names the programs
        of a phone (PCAPdroid) `app` has that of each connection, empty if it is not known.

        Examples
        --------
        >>> session.connections[["host", "dst"]].iloc[0].tolist()
        ['mobile', '10.0.1.2']
        """
        captures = self._recording.captures
        frame = self._captured(CONNECTIONS, ((capture, capture.analysis.connections) for capture in captures))
        ends = [end for capture in captures for end in capture.analysis.endpoints()]
        for place, column in enumerate(_ENDS, start=2):
            frame.insert(place, column.name, [getattr(end, column.name) for end in ends])
            frame.attrs["columns"][column.name] = {
                "unit": "", "meaning": column.doc, "source": frame.attrs["columns"]["connection"]["source"],
            }  # fmt: skip
        if any(file.users_of_flows for capture in captures for file in capture.tables.files):
            frame["app"] = [_program(capture, end) for capture in captures for end in capture.analysis.endpoints()]
            source = frame.attrs["columns"]["connection"]["source"]
            frame.attrs["columns"]["app"] = {"unit": "", "meaning": "program of the phone", "source": source}
        return frame

    @lazy_property
    def directions(self) -> pd.DataFrame:
        """The two directions of each connection; `mt.columns("directions")`.

        Examples
        --------
        >>> session.directions.query("connection == 1")["unique_bytes"].tolist()
        [6000008, 0]
        """
        return self._captured(DIRECTIONS, ((p, p.analysis.directions) for p in self._recording.captures))

    @lazy_property
    def wtcp(self) -> pd.DataFrame:
        """The WTCP flows with data, one row for each; `mt.columns("wtcp")` lists the columns.

        `host` is the capture point at the receiver, empty if there is none.

        Examples
        --------
        >>> session.wtcp[["flow", "delivered_bytes"]].empty
        True
        """
        paths = ", ".join(file.path for capture in self._recording.captures for file in capture.tables.files)
        return framed(WTCP_FLOWS, [HostTable("", wtcp_table(wtcp_flows(self._recording)), paths)])

    @lazy_property
    def trust(self) -> pd.DataFrame:
        """How far each capture can be trusted: host, verdict, and code, count and sentence of each reason.

        A row for each reason for caution; a capture without any, and a session without captures, has one row
        whose `code` is None. `attrs["columns"]` describes the columns.

        Examples
        --------
        >>> session.trust[["host", "verdict", "sentence"]].values.tolist()[0]
        ['mobile', 'good', 'nothing in this capture is a reason for caution']
        """
        reasons: list[tuple[object, ...]] = [
            (capture.point.name, capture.analysis.trust.verdict, *reason)
            for capture in self._recording.captures
            for reason in [(n.code, n.count, n.sentence) for n in capture.analysis.trust.notes] or (_NO_REASON,)
        ]
        reasons = reasons or [("", None, None, 0, NO_CAPTURE)]
        frame = pd.DataFrame(reasons, columns=[column.name for column in _TRUST])
        return described(frame, "trust", {c.name: c for c in _TRUST}, source="the captures")

    def fairness(self, *, step_s: float | None = None, reverse: bool | None = None) -> pd.DataFrame:
        """Return the fairness of the flows of TCP and WTCP: gap and Jain's index; `mt.columns("fairness")`.

        Parameters
        ----------
        step_s : float, optional
            Length of the intervals in s; by default there is one interval, in which all flows are active.
        reverse : bool, optional
            False for the data of initiators, True for those of responders; by default the larger direction.

        Returns
        -------
        DataFrame
            Gap and index are NA where they have no meaning; the column `reason` explains it. `attrs["notes"]`
            lists omitted flows.

        Examples
        --------
        >>> session.fairness()["reason"].tolist()
        ['there is no time in which all flows ran']
        """
        fair = fair_shares(self._recording, step_s=step_s, reverse=reverse)
        return self._of_flows(FAIRNESS, fair.fairness, fair.notes)

    def shares(self, *, step_s: float | None = None, reverse: bool | None = None) -> pd.DataFrame:
        """Return the share of the total rate of each flow, by interval; parameters as in `fairness`.

        `mt.columns("shares")` lists the columns.

        Examples
        --------
        >>> set(session.shares(step_s=10)["share"])
        {1.0}
        """
        fair = fair_shares(self._recording, step_s=step_s, reverse=reverse)
        return self._of_flows(SHARES, fair.shares, fair.notes)

    def _of_flows(self, schema: Schema, table: Table, notes: list[str]) -> pd.DataFrame:
        frame = framed(schema, [HostTable(self._recording.name, table, "the captures")])
        frame.attrs["notes"] = notes
        return frame

    def verdicts(self) -> pd.DataFrame:
        """Return all retransmissions of all captures, with the verdict on each (docs/verdicts.md).

        Returns
        -------
        DataFrame
            `mt.columns("segment_verdicts")` lists the columns.

        Examples
        --------
        >>> session.verdicts().query("host == 'mobile'")["cause"].value_counts()["fast"]
        np.int64(81)
        """
        chunks = [of_capture(capture, _verdicts(self._recording, capture)) for capture in self._recording.captures]
        return framed(SEGMENT_VERDICTS, chunks)

    def _captured(self, schema: Schema, tables: Iterable[tuple[Capture, Table]]) -> pd.DataFrame:
        return framed(schema, [of_capture(capture, table) for capture, table in tables])


def of_capture(capture: Capture, table: Table) -> HostTable:
    """Return a table of a capture point, with the offset for connection numbers of the session."""
    paths = ", ".join(file.path for file in capture.tables.files)
    return HostTable(capture.point.name, table, paths, capture.offset)


def _program(capture: Capture, end: Endpoints) -> str:
    """Return the program of a phone that a connection belongs to; empty if no file of the capture names it."""
    return next((name for file in capture.tables.files if (name := file.program_of(*end))), "")


def _verdicts(recording: Recording, capture: Capture) -> Table:
    """Return SEGMENT_VERDICTS of a capture."""
    judged = segment_verdicts(recording, capture)
    rows = np.flatnonzero(judged.kind == SegmentClass.RETRANSMISSION)
    segments, direction = capture.tables.segments, capture.analysis.partition.direction[rows]
    texts = {
        "cause": [word(RetransmissionCause(each)) for each in judged.cause[rows]],
        "necessity": [word(Necessity(each)) for each in judged.necessity[rows]],
        "evidence": [evidence_words(int(each)) for each in judged.evidence[rows]],
    }
    columns = {
        "connection": (direction >> 1) + 1,
        "reverse": (direction & 1) == 1,
        "time_ns": segments["time_ns"][rows],
        "frame": segments["frame"][rows],
        "seq_rel": judged.seq_rel[rows],
        "payload_bytes": segments["payload_bytes"][rows],
        **texts,
    }
    dtypes = {column.name: column.dtype for column in SEGMENT_VERDICTS}
    return Table(SEGMENT_VERDICTS, {n: np.asarray(v, dtype=dtypes[n]) for n, v in columns.items()})
