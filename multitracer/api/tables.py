"""The tables of a session, each a DataFrame whose attributes explain its columns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from multitracer.analysis.segments.segment_class import SegmentClass
from multitracer.analysis.verdicts import Cause, Necessity, evidence_words, word
from multitracer.api.frames import HOST, Piece, described, framed
from multitracer.api.logged import LoggedTables
from multitracer.cross_layer import FAIRNESS, SHARES
from multitracer.diagnosis.segment_verdicts import segment_verdicts
from multitracer.recording.deliveries import wtcp_flows, wtcp_table
from multitracer.recording.fair_shares import fair_shares
from multitracer.tables import SEGMENTS, Column, Table
from multitracer.tcp import CONNECTIONS, DIRECTIONS, SEGMENT_VERDICTS
from multitracer.wtcp import WTCP_FLOWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.tables import Schema

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
    Column("verdict", "U7", "good, caution or poor: how far the capture can be trusted"),
    Column("code", "U", "stable name of the reason"),
    Column("count", "int64", "how often it was seen"),
    Column("sentence", "U", "what it is and what it does to the numbers"),
)


class SessionTables(LoggedTables):
    """The tables that hold for a whole session.

    Each begins with the column `host`: the name of the capture point or host. Connections are numbered from 1
    through the whole session. Times are datetime64[ns, UTC]; units are in the columns' names and in
    `frame.attrs["columns"]`.
    """

    # --- captures ---

    @cached_property
    def files(self) -> pd.DataFrame:
        """The capture files and their facts, a row each.

        Examples
        --------
        >>> session.files[["host", "format"]].iloc[0].tolist()
        ['mobile', 'pcap']
        """
        names = [column.name for column in _FILES]
        facts = [
            [part.point.name, *(getattr(file, name) for name in names[1:])]
            for part in self._recording.parts
            for file in part.capture.files
        ]
        frame = pd.DataFrame(facts, columns=names)
        return described(frame, "files", {c.name: c for c in _FILES}, source="the files themselves")

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Every TCP segment as it was captured; `mt.columns("segments")` lists the columns.

        Examples
        --------
        >>> int(session.segments.query("host == 'mobile'")["payload_bytes"].sum())
        6200208
        """
        return self._captured(SEGMENTS, ((part, part.capture.segments) for part in self._recording.parts))

    @cached_property
    def connections(self) -> pd.DataFrame:
        """The connections, a row each; `mt.columns("connections")`, and src, sport, dst, dport.

        Examples
        --------
        >>> session.connections[["host", "dst"]].iloc[0].tolist()
        ['mobile', '10.0.1.2']
        """
        parts = self._recording.parts
        frame = self._captured(CONNECTIONS, ((part, part.analysis.connections) for part in parts))
        ends = [end for part in parts for end in part.analysis.endpoints()]
        for place, column in enumerate(_ENDS, start=2):
            frame.insert(place, column.name, [getattr(end, column.name) for end in ends])
            frame.attrs["columns"][column.name] = {
                "unit": "", "meaning": column.doc, "source": frame.attrs["columns"]["connection"]["source"],
            }  # fmt: skip
        return frame

    @cached_property
    def directions(self) -> pd.DataFrame:
        """The two directions of each connection; `mt.columns("directions")`.

        Examples
        --------
        >>> session.directions.query("connection == 1")["unique_bytes"].tolist()
        [6000008, 0]
        """
        return self._captured(DIRECTIONS, ((p, p.analysis.directions) for p in self._recording.parts))

    @cached_property
    def wtcp(self) -> pd.DataFrame:
        """The flows of WTCP with data, a row each; `mt.columns("wtcp")` lists the columns.

        `host` is the capture point at the receiver, empty if there is none.

        Examples
        --------
        >>> session.wtcp[["flow", "delivered_bytes"]].empty
        True
        """
        paths = ", ".join(file.path for part in self._recording.parts for file in part.capture.files)
        return framed(WTCP_FLOWS, [Piece("", wtcp_table(wtcp_flows(self._recording)), paths)])

    @cached_property
    def trust(self) -> pd.DataFrame:
        """Every reason for caution: host, verdict on that host, code, count and sentence.

        Examples
        --------
        >>> set(session.trust["verdict"]) <= {"good", "caution", "poor"}
        True
        """
        reasons = [
            (part.point.name, part.analysis.trust.verdict, note.code, note.count, note.sentence)
            for part in self._recording.parts
            for note in part.analysis.trust.notes
        ]
        frame = pd.DataFrame(reasons, columns=[column.name for column in _TRUST])
        return described(frame, "trust", {c.name: c for c in _TRUST}, source="the captures")

    def fairness(self, *, step_s: float | None = None, reverse: bool | None = None) -> pd.DataFrame:
        """Return how evenly the TCP flows share the link: gap and Jain's index; `mt.columns("fairness")`.

        Parameters
        ----------
        step_s : float, optional
            Length of the intervals, s; by default one interval: the time in which all flows run.
        reverse : bool, optional
            Whose data: False what initiators sent, True what responders did; by default the way with more.

        Returns
        -------
        DataFrame
            Gap and index are NA where they would say nothing; the column `reason` says why. What was left out
            is in `attrs["notes"]`.

        Examples
        --------
        >>> session.fairness()["reason"].tolist()
        ['there is no time in which all flows ran']
        """
        fair = fair_shares(self._recording, step_s=step_s, reverse=reverse)
        return self._of_flows(FAIRNESS, fair.fairness, fair.notes)

    def shares(self, *, step_s: float | None = None, reverse: bool | None = None) -> pd.DataFrame:
        """Return what each TCP flow had of the link, by intervals; parameters as `fairness`.

        Examples
        --------
        >>> set(session.shares(step_s=10)["share"])
        {1.0}
        """
        fair = fair_shares(self._recording, step_s=step_s, reverse=reverse)
        return self._of_flows(SHARES, fair.shares, fair.notes)

    def _of_flows(self, schema: Schema, table: Table, notes: list[str]) -> pd.DataFrame:
        frame = framed(schema, [Piece(self._recording.name, table, "the captures")])
        frame.attrs["notes"] = notes
        return frame

    def verdicts(self) -> pd.DataFrame:
        """Return every retransmission of every capture with the verdict on it (docs/verdicts.md).

        Returns
        -------
        DataFrame
            `mt.columns("segment_verdicts")` lists the columns.

        Examples
        --------
        >>> session.verdicts().query("host == 'mobile'")["cause"].value_counts()["fast"]
        np.int64(81)
        """
        pieces = [of_part(part, _verdicts(self._recording, part)) for part in self._recording.parts]
        return framed(SEGMENT_VERDICTS, pieces)

    def _captured(self, schema: Schema, tables: Iterable[tuple[Part, Table]]) -> pd.DataFrame:
        return framed(schema, [of_part(part, table) for part, table in tables])


def of_part(part: Part, table: Table) -> Piece:
    """Return a table of a capture point, connections numbered through the session."""
    paths = ", ".join(file.path for file in part.capture.files)
    return Piece(part.point.name, table, paths, part.offset)


def _verdicts(recording: Recording, part: Part) -> Table:
    """Return SEGMENT_VERDICTS of a part."""
    judged = segment_verdicts(recording, part)
    rows = np.flatnonzero(judged.kind == SegmentClass.RETRANSMISSION)
    segments, direction = part.capture.segments, part.analysis.partition.direction[rows]
    texts = {
        "cause": [word(Cause(each)) for each in judged.cause[rows]],
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
