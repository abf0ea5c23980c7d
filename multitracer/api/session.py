"""The result of `multitracer.open`: a session with its connections, diagnoses and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.series.rtt import Provenance
from multitracer.api.alignment import Alignment
from multitracer.api.figures import SessionFigures
from multitracer.api.frames import ROWS, HostTable, ResultFrame, explained, framed, put_reasons
from multitracer.api.kept import lazy_property
from multitracer.api.tables import SessionTables, of_capture
from multitracer.diagnosis.largest import explain_largest, utilization_table
from multitracer.recording.efficiency import efficiency_table
from multitracer.recording.places import places_of
from multitracer.recording.read import Need, read
from multitracer.recording.recording import cut_recording
from multitracer.recording.window import Window, moment_of, within_both
from multitracer.report.base_map import base_map_of
from multitracer.report.write import Request, write_report
from multitracer.schemas.findings import UTILIZATION
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SEGMENTS, RoundTrips
from multitracer.schemas.transactions import EFFICIENCY
from multitracer.tables import Column
from multitracer.words import as_html, count, duration, moment, printable

if TYPE_CHECKING:
    import os

    import pandas as pd

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.capture import Capture

    Time = float | str | pd.Timestamp

_MOST_ROWS = 20
"""Maximum rows of a table in a notebook."""
_ACCOUNT = (
    Column("use", "U", "what the time was used for (docs/lost_time.md)"),
    Column("seconds", "float64", "time of the transfer that was used for it", "s"),
    Column("share", "float64", "part of the transfer's time, 1 is all of it"),
)


def open(  # noqa: A001, PLR0913  # as in gzip.open; each is what one log lacks
    *paths: str | os.PathLike[str],
    begin: Time | None = None,
    end: Time | None = None,
    max_packets: int | None = None,
    decap: bool = True,
    keep_duplicates: bool = False,
    zone: str | None = None,
    date: str | None = None,
    phone: str | None = None,
    keylog: str | os.PathLike[str] | None = None,
) -> Session:
    """Read and analyse captures and logs, or a session folder.

    Parameters
    ----------
    *paths
        One session folder, or one folder of captures and logs; or files, glob patterns and at most one `-`
        (standard input), whose captures form one file set. A log of the radio or of positions can be opened
        without a capture.
    begin, end : float, str or Timestamp, optional
        Read only the data with begin <= time < end, as `Session.between` does. A number is in seconds since
        the first packet (without a capture, since the first reading); a string is a time such as
        "2026-11-20T10:15:00.5" (UTC unless it has a time zone).
    max_packets : int, optional
        Read at most this many packets of each capture point.
    decap : bool
        Read the packets inside tunnels (GTP-U, VXLAN, Geneve, GRE, ERSPAN, IP in IP, L2TP, Teredo); otherwise
        their outer packets are counted as they are.
    keep_duplicates : bool
        Count packets that were captured more than once each time, as tshark does; otherwise copies are left out.
    zone : str, optional
        Time zone of times in logs that name none: "UTC", "+01:00" or an IANA name; by default the zone in the
        manifest, else UTC.
    date : str, optional
        Date of the first time in logs that name the time of day only, such as "2026-11-30"; by default the date in
        the manifest, else 1970-01-01.
    phone : str, optional
        Use only the radio of this phone or modem, of several in a session: its host, its log, or its serial number.
    keylog : str or path-like, optional
        Open QUIC with the secrets in this key log (SSLKEYLOGFILE), beside those of the session and of pcapng.

    Returns
    -------
    Session

    Raises
    ------
    MultiTracerError
        If no file can be read.

    Examples
    --------
    >>> upload = mt.open("sample_traces/cellular_upload")
    >>> len(upload)
    6
    """
    is_complete = begin is None and end is None
    need = Need.SEGMENTS if is_complete else Need.PACKETS
    recording = read(
        *paths,
        need=need,
        max_packets=max_packets,
        decap=decap,
        keep_duplicates=keep_duplicates,
        zone=zone,
        date=date,
        phone=phone,
        keylog=None if keylog is None else str(keylog),
    )
    session = Session(recording)
    return session if is_complete else session.between(begin, end)


class Session(SessionTables, SessionFigures):
    """A session that was read and analysed.

    Tables are properties. Results of one connection are methods: `connection` is the number of the connection
    in the session, by default of the connection with the most unique bytes, as it was captured nearest to the
    sender of these bytes; `reverse` is False for data of the initiator, True for data of the responder, by
    default the direction with more unique bytes.

    Examples
    --------
    >>> session
    <multitracer.Session 'cellular_upload': 6 TCP connections, captured at mobile, fixed>
    """

    def __len__(self) -> int:
        """Return the number of TCP connections."""
        return len(self._recording)

    @property
    def name(self) -> str:
        """The name of the session.

        Examples
        --------
        >>> session.name
        'cellular_upload'
        """
        return self._recording.name

    @property
    def warnings(self) -> list[str]:
        """A sentence for each unusable or damaged file; later calls may add more when they parse logs.

        Examples
        --------
        >>> session.warnings
        []
        """
        return self._recording.warnings

    def between(self, begin: Time | None = None, end: Time | None = None) -> Session:
        """Return a session with only the data for which begin <= time < end.

        Parameters
        ----------
        begin, end : float, str or Timestamp, optional
            As in `multitracer.open`. A diagnosis still uses the complete logs.

        Examples
        --------
        >>> outage = session.between(15, 18)
        >>> len(outage.segments) < len(session.segments)
        True
        """
        recording, bounds_ns = cut_recording(self._recording, _window(begin, end))
        return Session(recording, within_both(self._bounds_ns, bounds_ns))

    # --- one connection ---

    def tcp_segments(self, connection: int | None = None) -> pd.DataFrame:
        """Return the segments of one connection, by default as captured nearest to the sender of most data.

        Parameters
        ----------
        connection : int, optional
            Number of a connection, which also chooses the capture point.

        Returns
        -------
        DataFrame
            A row for each segment of both directions, with its analysis results; `mt.columns("tcp_segments")`
            lists the columns. `attrs["connection"]` is the number of the connection.

        Examples
        --------
        >>> upload = session.tcp_segments()
        >>> int(upload.query("not reverse")["new_bytes"].sum())
        6000008
        >>> set(mt.open("sample_traces/download").tcp_segments()["host"])
        {'fixed'}
        """
        capture, n = self._chosen(connection)
        frame = framed(TCP_SEGMENTS, [of_capture(capture, capture.analysis.tcp_segments(n))])
        frame.attrs["connection"] = capture.offset + n
        return frame

    def rtt(self, connection: int | None = None) -> pd.DataFrame:
        """Return the RTT samples of a connection, by default as captured nearest to the sender of most data.

        Parameters
        ----------
        connection : int, optional
            Number of a connection, which also chooses the capture point.

        Returns
        -------
        DataFrame
            A row for each pair of a segment and its answer, in both directions; `mt.columns("rtt_samples")` lists
            the columns, of which `provenance` names the method: "exact ack" where it applies, else "timestamp" or
            "sack". `attrs["connection"]` is the number of the connection, and
            `attrs["absent"]` gives the reason why a direction (key: `reverse`) has no samples: a capture near
            the receiver can only measure the receiver's delay.

        Examples
        --------
        >>> sorted(set(session.rtt()["provenance"]))
        ['exact ack', 'sack', 'timestamp']
        >>> download = mt.open("sample_traces/download")
        >>> len(download.rtt()) == len(download.rtt(2)) > len(download.rtt(1))
        True
        """
        capture, n = self._chosen(connection)
        frame = framed(RTT_SAMPLES, [of_capture(capture, capture.analysis.rtt_samples(n))])
        words = {int(each): each.name.replace("_", " ").lower() for each in Provenance}
        by_method = frame.sort_values("provenance", kind="stable").duplicated(["row", "answer_row"]).sort_index()
        one_each = frame[~by_method].reset_index(drop=True)  # methods that measured one pair found one time
        samples = one_each.assign(provenance=one_each["provenance"].map(words))
        samples.attrs = frame.attrs | {"connection": capture.offset + n, "absent": _without_round_trips(capture, n)}
        return samples

    def series(self, connection: int | None = None, *, reverse: bool | None = None) -> dict[str, pd.DataFrame]:
        """Return the series of a connection at the sender of its data (`TcpSnd_*`) and elsewhere, by label.

        docs/figures.md lists the labels: `TcpRcv_*` are at the receiver, `Rlp*` of the link, `Radio_*` and
        `Gps_*` of the phone. `*_goodput` and `*_throughput` are moving averages in bit/s; `seconds` has rates
        by second. Without a capture, the result has the series of radio and position.

        Parameters
        ----------
        connection : int, optional
            Number of a connection at any capture point; the series are at its sender and receiver all the same.
        reverse : bool, optional
            Whose data: False the initiator's, True the responder's; by default the direction with more bytes.

        Returns
        -------
        dict of str to DataFrame
            Each with `time_ns` (link time) and `value`, in order of time; `attrs` contain unit, source and
            meaning.

        Examples
        --------
        >>> session.series()["TcpSnd_cwnd"].attrs["unit"]
        'bytes'
        >>> session.series()["TcpRcv_goodput"].attrs["doc"]
        'new payload per second over ... s, by arrival'
        """
        if self._recording.captures or connection is not None:
            transfer = self._transfer(connection, reverse)
            tables = transfer.series | transfer.rates
        else:
            tables = self._radio_context.series
        frames = {label: table.to_pandas() for label, table in tables.items()}
        for label, frame in frames.items():
            facts = tables[label].provenance
            frame.attrs.update(facts)
            frame.attrs["columns"] = explained(tables[label].schema, source=str(facts["source"]))
        return frames

    def phases(self, connection: int | None = None, *, reverse: bool | None = None) -> pd.DataFrame:
        """Return the phases of the sender's TCP, such as slow start.

        `mt.columns("tcp_phases")` lists the columns.

        Examples
        --------
        >>> bool(session.phases()["reconstructed"].any())
        False
        """
        transfer = self._transfer(connection, reverse)
        frame = ResultFrame(transfer.phases.to_pandas())
        frame.attrs = {"columns": explained(transfer.phases.schema, source=transfer.at_sender.capture.point.name)}
        put_reasons(frame, {ROWS: "captured at the receiver, which does not show what the sender's TCP did"})
        return frame

    def _chosen(self, connection: int | None) -> tuple[Capture, int]:
        """Return a connection as numbered in its capture; the default is nearest to the sender of most data."""
        capture, number = self._recording.chosen(connection)
        if connection is not None:
            return capture, number
        near, _ = places_of(self._recording, capture, number)
        return near.capture, near.connection

    # --- answers ---

    def diagnose(self, connection: int | None = None, *, reverse: bool | None = None) -> Diagnosis:
        """Return the diagnosis of a connection: its limits and their causes.

        By default both directions are explained, seen from the one with more data: a wait for the peer is followed to
        what held the peer's data back. `reverse` explains the data of one direction alone.

        Raises
        ------
        InputError
            If packets of the transfer have no time.

        Examples
        --------
        >>> session.diagnose().account.outcome
        'complete'
        """
        return self._diagnosis(connection, reverse)

    def findings(self, connection: int | None = None, *, reverse: bool | None = None) -> pd.DataFrame:
        """Return the findings of a transfer, the most costly first.

        `mt.columns("findings")` lists the columns.

        Examples
        --------
        >>> session.findings()["cost_s"].is_monotonic_decreasing
        True
        """
        diagnosis = self.diagnose(connection, reverse=reverse)
        table = diagnosis.table()
        return framed(table.schema, [HostTable(diagnosis.transfer.at_sender.host, table, "the diagnosis")])

    def limits(self, connection: int | None = None, *, reverse: bool | None = None) -> pd.DataFrame:
        """Return the limit of a transfer in each interval, in order of time; `mt.columns("limits")`.

        The default is the longest transfer of the longest group of connections, as for `diagnose`.

        Examples
        --------
        >>> limits = session.limits()
        >>> limits.groupby("limit")["seconds"].sum().idxmax()
        'link'
        """
        diagnosis = self.diagnose(connection, reverse=reverse)
        table = diagnosis.limited.table
        host, absent = diagnosis.transfer.at_sender.host, {ROWS: "no log or capture shows what limited the transfer"}
        frame = framed(table.schema, [HostTable(host, table, "the diagnosis")], absent=absent)
        frame.attrs |= {"view": diagnosis.limited.view.label, "total_s": diagnosis.limited.total_s}
        return frame

    def account(self, connection: int | None = None, *, reverse: bool | None = None) -> pd.DataFrame:
        """Return the use of the link's time during a transfer: class, seconds, and share of the total.

        The source is the log of the link. Without such a log, all seconds are NaN; use `limits` instead.
        `attrs["columns"]` describes the columns.

        Examples
        --------
        >>> logged = mt.open("sample_traces/typical-1450k")
        >>> round(logged.account()["share"].sum(), 6)
        np.float64(1.0)
        >>> session.account()["share"].isna().all()
        np.True_
        """
        account = self.diagnose(connection, reverse=reverse).account
        rows = [(use.label, seconds, seconds / account.total_s) for use, seconds in account.seconds.items() if seconds]
        frame = ResultFrame(rows, columns=["use", "seconds", "share"])
        no_log = "no log of the link at the sender of the data; `limits` has what packets show"
        frame.attrs = {
            "columns": explained(_ACCOUNT, source="the diagnosis"),
            "total_s": account.total_s,
            "utilization": account.utilization,
            "inferred": False if account.is_logged else None,
        }
        put_reasons(frame, dict.fromkeys(("seconds", "share"), no_log))
        return frame.sort_values("seconds", ascending=False, ignore_index=True)

    def utilization(self) -> pd.DataFrame:
        """Return how well each of the largest 50 transfers used its link (paper 004, figure 6).

        Returns
        -------
        DataFrame
            `mt.columns("utilization")` lists the columns. `utilization` is NaN without a log of the link at the
            sender of the data; `link_limited_share` is known from packets, too, and NaN where `view` is "nowhere".

        Examples
        --------
        >>> logged = mt.open("sample_traces/fig4-slow-start").utilization()
        >>> logged["utilization"].round(3).tolist()
        [0.709]
        >>> session.utilization()["utilization"].isna().all()
        np.True_
        """
        table = utilization_table(explain_largest(self._recording)).within(*self._bounds_ns, column="begin_ns")
        absent = {
            **dict.fromkeys(("utilization", "utilization_rounded_up_pct"), "no log of the link at the data's sender"),
            "link_limited_share": "no log or capture shows what limited the transfer (view nowhere)",
            ROWS: "no transfer with data and times",
        }
        return framed(UTILIZATION, [HostTable("", table, "the diagnosis")], absent=absent)

    def efficiency(self) -> pd.DataFrame:
        """Return how much of what arrived was needed, by transaction or else by transfer of TCP (paper 000).

        Returns
        -------
        DataFrame
            `mt.columns("efficiency")` lists the columns. `efficiency` is NaN where the receiver was neither
            captured nor counted, and for a dropped transaction; `efficiency_sent` is known at the sender, too.

        Examples
        --------
        >>> session.efficiency()["efficiency"].round(5).tolist()
        [0.99976, 1.0, 1.0]
        """
        table = efficiency_table(self._recording).within(*self._bounds_ns, column="begin_ns")
        absent = {
            "efficiency": "the receiver was not captured, or nothing arrived; see `evidence` of the row",
            "efficiency_sent": "the sender was not captured; see `evidence` of the row",
            ROWS: "neither a transaction nor a transfer with data",
        }
        return framed(EFFICIENCY, [HostTable("", table, "captures, and transactions.csv")], absent=absent)

    def align(self, *, reference: str | None = None) -> Alignment:
        """Return the relations of the session's clocks: offset, drift, error, steps (docs/clock.md).

        Parameters
        ----------
        reference : str, optional
            The reference clock as HOST or HOST:DOMAIN; by default the wall clock of the TCP sender.

        Examples
        --------
        >>> "fixed" in set(session.align().edges["to_host"])
        True
        """
        return Alignment(self._recording, self._recording.align(reference=reference, evidence=True))

    @lazy_property
    def clock_edges(self) -> pd.DataFrame:
        """All relations between two clocks, one row for each interval between clock steps.

        `mt.columns("clock_edges")`.

        Examples
        --------
        >>> "uncertainty_ns" in session.clock_edges
        True
        """
        return Alignment(self._recording, self._recording.all_clocks).edges

    # --- files ---

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        connection: int | None = None,
        base_map: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the self-contained HTML report of the session.

        `base_map` names a GeoJSON file whose lines, such as roads, are drawn below the route of a drive.

        Examples
        --------
        >>> session.report(folder / "upload.html")
        >>> (folder / "upload.html").stat().st_size > 100_000
        True
        """
        base = None if base_map is None else base_map_of(self._recording, base_map)
        write_report(
            self._recording, path, Request(connection=connection, title=self._recording.inputs.title, base_map=base)
        )

    def to_parquet(self, folder: str | os.PathLike[str]) -> None:
        """Write the tables of connections and of the drive as Parquet files into a new folder.

        The tables are connections, directions and tcp_segments, and those of `drive_tables` that have rows.

        Examples
        --------
        >>> session.to_parquet(folder / "tables")
        >>> sorted(path.name for path in (folder / "tables").iterdir())
        ['connections.parquet', 'directions.parquet', 'tcp_segments.parquet']
        """
        from multitracer.api.files import write_tables_into  # noqa: PLC0415  # pyarrow takes a tenth of a second

        write_tables_into(folder, self._recording, self.drive_tables)

    # --- as a notebook shows it ---

    def __repr__(self) -> str:
        hosts = ", ".join(capture.point.name for capture in self._recording.captures[:_MOST_ROWS]) or "none"
        return (
            f"<multitracer.Session {self.name!r}: {count(len(self), 'TCP connection')}, captured at {printable(hosts)}>"
        )

    def _repr_html_(self) -> str:
        captures = self._recording.captures
        head = "".join(f"<th>{name}</th>" for name in ("host", "begin", "took", "packets", "connections", "trust"))
        rows = "".join(_html_row(capture) for capture in captures[:_MOST_ROWS])
        more = f"<p>and {len(captures) - _MOST_ROWS:,} more capture points</p>" if len(captures) > _MOST_ROWS else ""
        logs = ", ".join(f"{log.host}: {log.format}" for log in self._recording.inputs.listed[:_MOST_ROWS])
        warnings = "".join(f"<p>! {as_html(sentence)}</p>" for sentence in self.warnings[:_MOST_ROWS])
        if (hidden := len(self.warnings) - _MOST_ROWS) > 0:
            warnings += f"<p>! and {hidden:,} more in <code>.warnings</code></p>"
        return (
            f"<b>{as_html(self.name)}</b><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
            f"{f'<p>Logs: {as_html(logs)}</p>' if logs else ''}{warnings}"
        )


def _window(begin: Time | None, end: Time | None) -> Window:
    return Window(*(None if each is None else moment_of(str(each)) for each in (begin, end)))


def _without_round_trips(capture: Capture, connection: int) -> dict[bool, str]:
    """Return, for each direction (`reverse`) without RTT samples, the reason."""
    codes = capture.analysis.directions["rtt_absent"][2 * connection - 2 : 2 * connection].tolist()
    return {bool(side): RoundTrips(code).words for side, code in enumerate(codes) if code}


def _html_row(capture: Capture) -> str:
    files = capture.tables.files
    begin = capture.tables.first_ns
    end = max((f.last_ns for f in files if f.last_ns is not None), default=None)
    cells = (
        capture.point.name,
        moment(begin),
        duration(None if begin is None or end is None else end - begin),
        f"{sum(f.packets for f in files):,}",
        f"{len(capture):,}",
        capture.analysis.trust.verdict,
    )
    return f"<tr>{''.join(f'<td>{as_html(cell)}</td>' for cell in cells)}</tr>"
