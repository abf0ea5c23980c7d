"""What `multitracer.open` returns: a session whose tables are DataFrames and whose figures are functions.

For a notebook or a script; `import multitracer` loads this module, and pandas, when it is first asked for.
"""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from multitracer.analysis import analyse
from multitracer.clock.edges import edges_table
from multitracer.clock.session_clock import clocks_of
from multitracer.diagnosis.diagnose import Diagnosis, diagnose
from multitracer.diagnosis.transfer import Transfer
from multitracer.figures.connection import connection_figure, layers_of
from multitracer.figures.stacked import OFFSET_BYTES, View, stacked
from multitracer.link import LINK_EVENTS, LINK_FRAMES
from multitracer.recording import Part, Recording
from multitracer.report.words import count, duration, moment
from multitracer.sender import TCP_EVENTS, TCP_STATE
from multitracer.session import open_session
from multitracer.tables import Table

if TYPE_CHECKING:
    import os

    import plotly.graph_objects as go

    from multitracer.layers import Layers
    from multitracer.tables import Schema


def open(*paths: str | os.PathLike[str], max_packets: int | None = None) -> Notebook:  # noqa: A001  # as in gzip.open
    """Read and analyse a capture, a file set or a session folder.

    Parameters
    ----------
    *paths
        As `multitracer.session.open_session` takes them.
    max_packets : int, optional
        Read at most this many packets of each capture point.

    Returns
    -------
    Notebook

    Raises
    ------
    MultiTracerError
        If nothing can be read.

    Examples
    --------
    >>> import multitracer as mt
    >>> session = mt.open("sample_traces/cellular_upload")
    >>> session.connections[["host", "src", "dst", "segments"]]  # doctest: +SKIP
    """
    session = open_session(*paths)
    parts: list[Part] = []
    for point, capture in session.captures(max_packets=max_packets):
        parts.append(Part(point, analyse(capture), sum(map(len, parts))))
    return Notebook(Recording(session, parts))


class Notebook:
    """A session, read and analysed.

    Every table begins with the column `host`: the name of the capture point. Connections are numbered from 1
    through the whole session. Times are datetime64[ns, UTC]; units are in the columns' names.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __len__(self) -> int:
        return len(self._recording)

    @property
    def name(self) -> str:
        """The session's name."""
        return self._recording.session.name

    @property
    def warnings(self) -> list[str]:
        """What was passed over or damaged, a sentence each."""
        damaged = [
            f"{file.path}: {file.damaged}"
            for part in self._recording.parts
            for file in part.capture.files
            if file.damaged
        ]
        return self._recording.session.warnings + damaged

    @cached_property
    def files(self) -> pd.DataFrame:
        """The input files and their facts, a row each."""
        facts = [
            {"host": part.point.name, **{name: getattr(file, name) for name in _FILE_FACTS}}
            for part in self._recording.parts
            for file in part.capture.files
        ]
        return pd.DataFrame(facts, columns=["host", *_FILE_FACTS])

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Every TCP segment as it was captured; see `multitracer.tables.SEGMENTS`."""
        return self._frame([(part, part.capture.segments) for part in self._recording.parts])

    @cached_property
    def connections(self) -> pd.DataFrame:
        """The connections; see `multitracer.tcp.CONNECTIONS`, and src, sport, dst, dport."""
        parts = self._recording.parts
        frame = self._frame([(part, part.analysis.connections) for part in parts])
        ends = [end for part in parts for end in part.endpoints(0, len(part))]
        for position, name in enumerate(("src", "sport", "dst", "dport"), start=2):
            frame.insert(position, name, [getattr(end, name) for end in ends])
        return frame

    @cached_property
    def directions(self) -> pd.DataFrame:
        """The two directions of each connection; see `multitracer.tcp.DIRECTIONS`."""
        return self._frame([(part, part.analysis.directions) for part in self._recording.parts])

    def tcp_segments(self, connection: int | None = None) -> pd.DataFrame:
        """Return one connection's segments with what the analysis says of each.

        Parameters
        ----------
        connection : int, optional
            Its number; by default the connection with the most unique bytes.

        Returns
        -------
        DataFrame
            See `multitracer.tcp.TCP_SEGMENTS`.
        """
        part, n = self._one(connection)
        return self._frame([(part, part.analysis.tcp_segments(n))])

    @cached_property
    def tcp_state(self) -> pd.DataFrame:
        """The sender's own variables as they were polled or traced; see `multitracer.sender.TCP_STATE`."""
        return self._logged("tcp", TCP_STATE)

    @cached_property
    def tcp_events(self) -> pd.DataFrame:
        """What the sender's kernel did to a connection; see `multitracer.sender.TCP_EVENTS`."""
        return self._logged("tcp", TCP_EVENTS)

    @cached_property
    def link_frames(self) -> pd.DataFrame:
        """The frames that each side of a radio link logged; see `multitracer.link.LINK_FRAMES`."""
        return self._logged("link", LINK_FRAMES)

    @cached_property
    def link_events(self) -> pd.DataFrame:
        """What else happened to the link: stops, resets, queues; see `multitracer.link.LINK_EVENTS`."""
        return self._logged("link", LINK_EVENTS)

    def _logged(self, layer: str, schema: Schema) -> pd.DataFrame:
        """Return a table of all logs that hold it, each row with its host, in order of time."""
        frames = [Table.empty(schema).to_pandas().assign(host="")]
        for log, tables in self._recording.session.tables(layer):
            if schema.name in tables:
                frames.append(tables[schema.name].to_pandas().assign(host=log.host))
        whole = pd.concat(frames[1:] or frames, ignore_index=True)
        whole.insert(0, "host", whole.pop("host"))
        return whole.sort_values("time_ns", kind="stable", ignore_index=True)

    @cached_property
    def clock_edges(self) -> pd.DataFrame:
        """How the recording's clocks relate, a row each stretch between steps; see docs/clock.md."""
        session, parts = self._recording.session, self._recording.parts
        clocks = clocks_of(session, [(part.point, part.capture) for part in parts])
        return edges_table(clocks.graph.relations).to_pandas()

    @cached_property
    def trust(self) -> pd.DataFrame:
        """Every reason for caution: host, verdict on that host, code, count and sentence."""
        columns = ["host", "verdict", "code", "count", "sentence"]
        reasons = [
            (part.point.name, part.analysis.trust.verdict, note.code, note.count, note.sentence)
            for part in self._recording.parts
            for note in part.analysis.trust.notes
        ]
        return pd.DataFrame(reasons, columns=columns)

    def time_sequence(self, connection: int | None = None, *, reverse: bool | None = None) -> go.Figure:
        """Return the time/sequence figure of a connection.

        Parameters
        ----------
        connection : int, optional
            Its number; by default the connection with the most unique bytes.
        reverse : bool, optional
            False draws what the initiator sent, True what the responder sent; by default the direction with
            more unique bytes.
        """
        part, n = self._one(connection)
        return connection_figure(part, n, reverse=reverse)

    def stacked(
        self, connection: int | None = None, *, reverse: bool | None = None, offset_bytes: int = OFFSET_BYTES
    ) -> go.Figure:
        """Return the stacked figure: packets of both ends, the sender's own variables, the link, on one axis.

        Parameters
        ----------
        connection, reverse
            As `time_sequence` takes them.
        offset_bytes : int
            By how much the series of link, sender and receiver are drawn apart.
        """
        view = View(offset_bytes=offset_bytes)
        return stacked(self._layers(connection, reverse=reverse), view)

    def series(
        self, connection: int | None = None, *, reverse: bool | None = None
    ) -> dict[str, pd.DataFrame]:
        """Return every labelled series of a connection (docs/figures.md): time_ns and value, in link time.

        Unit, source and meaning of each are in its `attrs`.
        """
        tables = self._layers(connection, reverse=reverse).series()
        frames = {label: table.to_pandas() for label, table in tables.items()}
        for label, frame in frames.items():
            frame.attrs.update(tables[label].provenance)
        return frames

    def phases(self, connection: int | None = None, *, reverse: bool | None = None) -> pd.DataFrame:
        """Return what the sender's TCP was doing when; see `multitracer.sender.TCP_PHASES`."""
        return self._layers(connection, reverse=reverse).phases().to_pandas()

    def diagnose(self, connection: int | None = None, *, reverse: bool | None = None) -> Diagnosis:
        """Return where the time of a transfer went, and why: `.findings`, `.account`, `.table()`."""
        return diagnose(Transfer.of(self._recording, connection, reverse=reverse))

    def _layers(self, connection: int | None, *, reverse: bool | None) -> Layers:
        return layers_of(self._recording, *self._one(connection), reverse=reverse)

    def _one(self, connection: int | None) -> tuple[Part, int]:
        return self._recording.largest() if connection is None else self._recording.numbered(connection)

    def _frame(self, tables: list[tuple[Part, Table]]) -> pd.DataFrame:
        """Return the tables of several points as one DataFrame, connections numbered through."""
        frames = []
        for part, table in tables:
            frame = table.to_pandas()
            if "connection" in frame:
                frame["connection"] += part.offset
            frame.insert(0, "host", part.point.name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def __repr__(self) -> str:
        hosts = ", ".join(part.point.name for part in self._recording.parts)
        return f"<multitracer.Notebook {self.name!r}: {count(len(self), 'TCP connection')}, hosts {hosts}>"

    def _repr_html_(self) -> str:
        rows = "".join(_html_row(part) for part in self._recording.parts)
        head = "".join(
            f"<th>{name}</th>" for name in ("host", "begin", "took", "packets", "connections", "trust")
        )
        return f"<b>{escape(self.name)}</b><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


_FILE_FACTS = (
    "path",
    "format",
    "variant",
    "compression",
    "packets",
    "bytes",
    "first_ns",
    "last_ns",
    "damaged",
)


def _html_row(part: Part) -> str:
    files = part.capture.files
    begin = part.capture.first_ns
    end = max((f.last_ns for f in files if f.last_ns is not None), default=None)
    cells = (
        part.point.name,
        moment(begin),
        duration(None if begin is None or end is None else end - begin),
        f"{sum(f.packets for f in files):,}",
        f"{len(part):,}",
        part.analysis.trust.verdict,
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
