"""The QUIC connections of a recording: in its captures, opened by the keys that it has, and in its qlogs.

One connection that several captures show is one path, found by its connection ids or by the encrypted bytes of its
datagrams. A qlog belongs to the connection whose ids it names; without a capture it is a connection of its own. Keys
are read from key logs of the session, from the option --keylog, and from the secrets blocks of pcapng; they are used
here and kept nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from multitracer.analysis.quic import datagram_segments, repeated_bytes, sent_packets
from multitracer.clock.captures.two_captures import relate
from multitracer.clock.model.relation import Clock, Relation
from multitracer.endpoints import Endpoints
from multitracer.errors import ClockError, MultiTracerError
from multitracer.logs import LogSource
from multitracer.protocols.quic import SUITES, VERSION_1, Frames, FrameType, Parameter, Space
from multitracer.recording.capture import Capture
from multitracer.recording.inputs import UNREADABLE
from multitracer.schemas.quic import QUIC_CONNECTIONS, QUIC_PACKETS, QUIC_STATE
from multitracer.tables import NA, NOT_A_TIME, Table
from parsers._quic import NO_KEYS, QuicConnection, read_quic
from parsers.keylog import read_secrets, read_secrets_of_capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.recording.inputs import Inputs
    from multitracer.tables import Array, Numbers, Times

LAYER, KEYS = "quic", "keys"
"""Layers of qlogs and of key logs."""
_MIN_SHARE = 0.05
"""Least share of UDP in the packets of a recording whose QUIC is looked for unasked: it is read a second time."""
_MOST_NOTES = 8
_COMPARED = 400
"""Datagrams at the begin of a connection that are compared to find it in another capture. Not measured."""
_SPACES = {each.label: each.value for each in Space}
_PARAMETERS = {
    "initial_max_data": Parameter.MAX_DATA.value,
    "initial_max_stream_data_bidi_local": Parameter.MAX_STREAM_DATA_BIDI_LOCAL.value,
    "initial_max_stream_data_bidi_remote": Parameter.MAX_STREAM_DATA_BIDI_REMOTE.value,
    "initial_max_stream_data_uni": Parameter.MAX_STREAM_DATA_UNI.value,
}


class QuicSource(LogSource, Protocol):
    """The captures and logs of one recording, whose QUIC is read."""

    @property
    def inputs(self) -> Inputs:
        """Its files."""

    @property
    def captures(self) -> list[Capture]:
        """Its capture points."""

    @property
    def keylog(self) -> str | None:
        """A key log that the user names; None without one."""

    @property
    def bounds_ns(self) -> tuple[int | None, int | None]:
        """The times to which it was cut; None leaves a side open."""

    @property
    def quic(self) -> QuicRecording:
        """Its QUIC connections."""


@dataclass(frozen=True)
class QuicView:
    """A connection at one capture point, or in one qlog."""

    host: str
    """Name of the capture point, or path of the qlog."""
    known: QuicConnection

    @property
    def is_read(self) -> bool:
        """Whether its frames are known."""
        return not self.known.absent

    @cached_property
    def handshake_ns(self) -> int:
        """Time from the client's first packet to its first one that can carry data; NOT_A_TIME if not seen."""
        columns = self.known.columns
        one_rtt = (columns["space"] == Space.ONE_RTT.value) & ~columns["reverse"]
        early = columns["space"] < Space.ONE_RTT.value
        if not one_rtt.any() or not (early & ~columns["reverse"]).any():
            return NOT_A_TIME
        return int(columns["time_ns"][one_rtt.argmax()] - columns["time_ns"][0])

    @cached_property
    def handshake_rtt_ns(self) -> int:
        """Time from the client's last first flight to the server's first packet; NOT_A_TIME if not seen."""
        columns = self.known.columns
        answers = np.flatnonzero(columns["reverse"])
        options = np.flatnonzero(~columns["reverse"][: answers[0]]) if len(answers) else answers
        return int(columns["time_ns"][answers[0]] - columns["time_ns"][options[-1]]) if len(options) else NOT_A_TIME

    def bytes_of(self, *, reverse: bool) -> tuple[int, int]:
        """Return the datagrams of one direction and the bytes of their payload."""
        mine = self.datagrams(reverse=reverse)
        return len(mine), int(self.known.datagram_bytes[mine].sum())

    def datagrams(self, *, reverse: bool) -> Numbers:
        """Return the numbers of the datagrams of one direction, in capture order."""
        columns = self.known.columns
        first = np.unique(columns["datagram"], return_index=True)[1]
        return np.flatnonzero(columns["reverse"][first] == reverse)

    @cached_property
    def datagram_ns(self) -> Times:
        """Time of each datagram."""
        columns = self.known.columns
        times: Times = columns["time_ns"][np.unique(columns["datagram"], return_index=True)[1]]
        return times

    @property
    def is_near_client(self) -> bool | None:
        """Of a qlog: whether the client wrote it."""
        return None if self.known.is_server is None else not self.known.is_server


@dataclass
class QuicPath:
    """One connection in all that shows it."""

    number: int
    captures: list[QuicView] = field(default_factory=list)
    qlogs: list[QuicView] = field(default_factory=list)

    @property
    def views(self) -> list[QuicView]:
        """All that shows it, the captures first."""
        return [*self.captures, *self.qlogs]

    @cached_property
    def ends(self) -> Endpoints:
        """Its endpoints, the client first."""
        return self.views[0].known.ends

    @property
    def largest_bytes(self) -> int:
        """Bytes of the direction with more, in the view that has most."""
        return max(view.bytes_of(reverse=way)[1] for view in self.views for way in (False, True))

    @cached_property
    def reverse(self) -> bool:
        """Whose data are more: False the client's, True the server's."""
        forward, reverse = (self.views[0].bytes_of(reverse=way)[1] for way in (False, True))
        return reverse >= forward


@dataclass
class QuicRecording:
    """The QUIC connections of a recording."""

    paths: list[QuicPath] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def chosen(self, number: int | None = None) -> QuicPath | None:
        """Return a connection by its number; by default the one with most bytes in a direction."""
        if number is not None:
            return next((path for path in self.paths if path.number == number), None)
        return max(self.paths, key=lambda path: path.largest_bytes, default=None)

    # --- tables ---

    def connections(self) -> Iterator[tuple[str, Table]]:
        """Yield QUIC_CONNECTIONS of each capture point and qlog."""
        for host, views in self._by_host():
            yield host, _connection_table(views)

    def packets(self) -> Iterator[tuple[str, Table]]:
        """Yield QUIC_PACKETS of each capture point and qlog."""
        for host, views in self._by_host():
            parts = [_packet_table(path, view) for path, view in views]
            joined = Table.concatenate(QUIC_PACKETS, parts)
            yield host, joined.take(np.argsort(joined["time_ns"], kind="stable"))

    def state(self) -> Iterator[tuple[str, Table]]:
        """Yield QUIC_STATE of each qlog."""
        for path in self.paths:
            for view in path.qlogs:
                columns = dict(view.known.state)
                columns["connection"] = np.full(len(columns["time_ns"]), path.number, np.int32)
                yield view.host, Table(QUIC_STATE, columns)

    def _by_host(self) -> Iterator[tuple[str, list[tuple[QuicPath, QuicView]]]]:
        hosts: dict[str, list[tuple[QuicPath, QuicView]]] = {}
        for path in self.paths:
            for view in path.views:
                hosts.setdefault(view.host, []).append((path, view))
        yield from hosts.items()


def may_hold_quic(recording: QuicSource) -> bool:
    """Return whether a recording has a qlog, or so much UDP that its QUIC is looked for unasked."""
    if recording.inputs.holds(LAYER):
        return True
    files = [file for capture in recording.captures for file in capture.tables.files]
    udp = sum(file.protocols.get("udp", 0) for file in files)
    return udp > 0 and udp >= _MIN_SHARE * sum(file.packets for file in files)


def quic_of(recording: QuicSource) -> QuicRecording:
    """Return the QUIC connections of a recording; it reads its captures a second time."""
    collected = QuicRecording()
    secrets = _secrets(recording, collected.notes)
    for capture in recording.captures:
        files = [file for file in capture.tables.files if file.protocols.get("udp", 0) and file.path != "-"]
        if not files:
            continue
        try:
            read = read_quic(files, secrets)
        except UNREADABLE as error:
            collected.notes.append(f"{error}; its QUIC is not read")
            continue
        for known in read.connections:
            if _within(known, recording.bounds_ns):
                _placed(collected, QuicView(capture.point.name, known))
        if read.left_out:
            collected.notes.append(
                f"{capture.point.name}: {read.left_out:,} datagrams of QUIC belong to no connection whose begin was "
                "captured; nothing is said of them"
            )
    secrets.clear()
    _add_qlogs(recording, collected)
    for path in collected.paths:
        path.captures.sort(key=lambda view: -max(view.handshake_rtt_ns, 0))  # the client's has the whole round trip
    collected.notes += _notes_on_keys(collected, has_keys=_has_keys(recording))
    return collected


def _within(known: QuicConnection, bounds_ns: tuple[int | None, int | None]) -> bool:
    """Cut a connection to the bounds of its recording; return whether anything of it is left."""
    begin, end = bounds_ns
    if begin is None and end is None:
        return True
    time_ns = known.columns["time_ns"]
    low = np.iinfo(np.int64).min + 1 if begin is None else begin
    high = np.iinfo(np.int64).max if end is None else end
    return bool(((time_ns >= low) & (time_ns < high)).any())


# --- keys ---


def _has_keys(recording: QuicSource) -> bool:
    files = [file for capture in recording.captures for file in capture.tables.files]
    return bool(recording.keylog) or recording.inputs.holds(KEYS) or any(file.secrets for file in files)


def _secrets(recording: QuicSource, notes: list[str]) -> dict[bytes, dict[str, bytes]]:
    """Return all secrets that the recording has."""
    known: dict[bytes, dict[str, bytes]] = {}
    paths = [log.path for log in recording.inputs.listed if log.layer == KEYS]
    readers = [(path, read_secrets) for path in dict.fromkeys([*paths, *filter(None, [recording.keylog])])]
    files = [file for capture in recording.captures for file in capture.tables.files if file.secrets]
    readers += [(file.path, read_secrets_of_capture) for file in files]
    for path, reader in readers:
        try:
            secrets = reader(path)
        except (MultiTracerError, OSError) as error:
            if path == recording.keylog:
                raise
            notes.append(f"{error}; its keys are not used")
            continue
        if not secrets and path == recording.keylog:
            notes.append(f"{path}: no line is a secret of a key log; name a file that SSLKEYLOGFILE wrote")
        for random, labels in secrets.items():
            known.setdefault(random, {}).update(labels)
    return known


def _notes_on_keys(collected: QuicRecording, *, has_keys: bool) -> Iterator[str]:
    """Yield sentences on connections that keys were given for and that were not read."""
    if not has_keys:
        return
    message = 0
    for path in collected.paths:
        for view in path.captures:
            if view.known.absent and view.known.absent != NO_KEYS and message < _MOST_NOTES:
                message += 1
                yield f"{view.host}: QUIC connection {path.number}: {view.known.absent}"


# --- one connection in several logs ---


def _placed(collected: QuicRecording, view: QuicView) -> None:
    """Add a view to the connection that it shows, or as a new one."""
    for path in collected.paths:
        other = path.captures[0] if path.captures else None
        if other is not None and other.host != view.host and _is_same(other.known, view.known):
            path.captures.append(view)
            return
    collected.paths.append(QuicPath(len(collected.paths) + 1, [view]))


def _is_same(one: QuicConnection, two: QuicConnection) -> bool:
    if one.server_cid and one.client_cid and (one.server_cid, one.client_cid) == (two.server_cid, two.client_cid):
        return True
    return bool(len(np.intersect1d(one.names[:_COMPARED], two.names[:_COMPARED])))


def _add_qlogs(recording: QuicSource, collected: QuicRecording) -> None:
    for log, tables in recording.logs(LAYER):
        if "qlog_traces" not in tables:
            continue
        for row in tables["qlog_traces"].rows():
            known = _of_qlog(tables, row)
            if known is None:
                continue
            cids = set(str(row["cids"]).split()) | {row["odcid"]} - {""}
            view = QuicView(log.path, known)
            if row["damage"]:
                collected.notes.append(f"{log.path}: {row['damage']}; what precedes it is used")
            path = next((each for each in collected.paths if _has_cid(each, cids)), None)
            if path is None:
                collected.paths.append(QuicPath(len(collected.paths) + 1, [], [view]))
            else:
                path.qlogs.append(view)
    for path in collected.paths:
        collected.notes += _disagreements(path)


def _has_cid(path: QuicPath, cids: set[str]) -> bool:
    return any({view.known.client_cid.hex(), view.known.server_cid.hex()} - {""} & cids for view in path.views)


def _disagreements(path: QuicPath) -> Iterator[str]:
    """Yield a sentence for two qlogs of one end that disagree on what that end sent."""
    for place, one in enumerate(path.qlogs):
        for two in path.qlogs[place + 1 :]:
            if one.known.is_server != two.known.is_server:
                continue
            side = bool(one.known.is_server)
            sent = [
                set(view.known.columns["number"][view.known.columns["reverse"] == side].tolist()) for view in (one, two)
            ]
            if sent[0] != sent[1]:
                yield (
                    f"{one.host} and {two.host} are of one end of QUIC connection {path.number}, and disagree on "
                    f"{len(sent[0] ^ sent[1]):,} packets; the first one is used"
                )


def _of_qlog(tables: dict[str, Table], trace: dict[str, object]) -> QuicConnection | None:
    """Return the connection of a trace; None if it has no packets, or does not say which end wrote it."""
    packets = tables["qlog_packets"]
    mine = np.flatnonzero(packets["trace"] == trace["trace"])
    vantage = trace["vantage"]
    if len(mine) and not vantage:  # cut off before it said so: a client sends the first packet, a server receives it
        vantage = "client" if packets["sent"][mine[0]] else "server"
    if not len(mine) or vantage not in ("client", "server"):
        return None
    is_server = vantage == "server"
    part = packets.take(mine)
    space = np.array([_SPACES.get(each, Space.UNKNOWN_VERSION.value) for each in part["space"].tolist()], np.int64)
    count = len(part)
    cids = [bytes.fromhex(each) for each in str(trace["cids"]).split() if each != trace["odcid"]]
    known = QuicConnection(
        Endpoints("client", 0, "server", 0), VERSION_1, absent="", source="qlog", is_server=is_server
    )
    known.client_cid, known.server_cid = (*cids, b"", b"")[:2]
    known.columns = {
        "time_ns": part["time_ns"], "reverse": part["sent"] == is_server, "space": space,
        "number": part["packet_number"], "bytes": part["bytes"], "datagram": np.arange(count),
        "eliciting": part["ack_eliciting"].astype(np.int64), "is_read": np.ones(count, np.int64),
        "spin": np.full(count, NA), "key_phase": np.full(count, NA), "frame": np.arange(1, count + 1),
        "file": np.zeros(count, np.int64), "lost_ns": part["lost_ns"],
    }  # fmt: skip
    known.datagram_bytes = np.maximum(part["bytes"], 0)
    place = np.full(len(packets), -1, np.int64)
    place[mine] = np.arange(count)
    known.frames = _frames_of_qlog(tables["quic_frames"], place)
    own = tables["quic_state"]["connection"] == trace["trace"]
    known.state = dict(tables["quic_state"].take(own).columns)
    stated = tables["qlog_packets"].provenance.get("parameters", {}).get(str(trace["trace"]), {})
    for side, message in (
        ("own", known.chosen if is_server else known.hello),
        ("peer", known.hello if is_server else known.chosen),
    ):
        message.parameters = {
            _PARAMETERS[name]: value for name, value in stated.get(side, {}).items() if name in _PARAMETERS
        }
    return known


def _frames_of_qlog(table: Table, place: Numbers) -> Frames:
    row = place[table["row"]]
    frames = Frames()
    kinds, first, second, third = (table[name].tolist() for name in ("frame_type", "first", "second", "third"))
    newest = -1
    for at, kind, one, two, three in zip(row.tolist(), kinds, first, second, third, strict=True):
        if at < 0:
            continue
        if kind == FrameType.STREAM.value:
            if min(one, two, three) >= 0:
                frames.streams.append((at, one, two, three, False))
        elif kind == FrameType.ACK.value:
            if at != newest:
                frames.acks.append((at, two, three if three >= 0 else NOT_A_TIME))
                newest = at
            frames.ranges.append((at, one, two))
        else:
            frames.numbers.append((at, kind, one, two))
    return frames


# --- the tables ---


def _connection_table(views: Sequence[tuple[QuicPath, QuicView]]) -> Table:
    rows = [_connection_row(path, view) for path, view in views]
    kinds = {column.name: column.dtype for column in QUIC_CONNECTIONS}
    return Table(
        QUIC_CONNECTIONS, {name: np.array([row[name] for row in rows], kinds[name]) for name in QUIC_CONNECTIONS.names}
    )


def _connection_row(path: QuicPath, view: QuicView) -> dict[str, object]:
    known, time_ns = view.known, view.known.columns["time_ns"]
    timed = time_ns[time_ns != NOT_A_TIME]
    (sent, sent_bytes), (received, received_bytes) = (view.bytes_of(reverse=way) for way in (False, True))
    suite = SUITES.get(known.suite or 0)
    alpn = known.chosen.alpn or known.hello.alpn or ()
    return {
        "connection": path.number, "src": known.ends.src, "sport": known.ends.sport, "dst": known.ends.dst,
        "dport": known.ends.dport, "version": version_words(known.version), "sni": (known.hello.sni or "")[:255],
        "alpn": ", ".join(alpn)[:64], "client_cid": known.client_cid.hex(), "server_cid": known.server_cid.hex(),
        "start_ns": int(timed.min()) if len(timed) else NOT_A_TIME,
        "end_ns": int(timed.max()) if len(timed) else NOT_A_TIME,
        "handshake_ns": view.handshake_ns, "handshake_rtt_ns": view.handshake_rtt_ns, "retry": known.has_retry,
        "version_negotiation": known.has_negotiation, "forward_packets": sent, "forward_bytes": sent_bytes,
        "reverse_packets": received, "reverse_bytes": received_bytes, "spin_rtt_ns": spin_rtt_ns(view),
        "cipher": suite.name if suite else "", "source": known.source, "absent": known.absent[:128],
    }  # fmt: skip


def version_words(version: int) -> str:
    """Return a version as the standard names it."""
    return {1: "1", 0x6B3343CF: "2"}.get(version, f"{version:#010x}")


def spin_rtt_ns(view: QuicView) -> int:
    """Return the median time between edges of the server's spin bit (RFC 9000, 17.4); NOT_A_TIME without edges."""
    columns = view.known.columns
    mine = np.flatnonzero(columns["reverse"] & (columns["spin"] >= 0))
    spin = columns["spin"][mine]
    edges = columns["time_ns"][mine][1:][spin[1:] != spin[:-1]]
    return int(np.median(np.diff(edges))) if len(edges) > 2 else NOT_A_TIME


def _packet_table(path: QuicPath, view: QuicView) -> Table:
    known = view.known
    columns, count = known.columns, known.packets
    repeated, first, _ = repeated_bytes(known)
    is_read = columns["is_read"] != 0
    made: dict[str, Array] = {
        "time_ns": columns["time_ns"], "connection": np.full(count, path.number, np.int32),
        "direction": np.where(columns["reverse"], "reverse", "forward"),
        "space": np.array([each.label for each in Space])[columns["space"]],
        "packet_number": columns["number"], "bytes": columns["bytes"], "spin": columns["spin"],
        "key_phase": columns["key_phase"], "stream_id": first[:, 0], "offset": first[:, 1], "length": first[:, 2],
        "repeated_bytes": np.where(is_read, repeated, NA), "ack_eliciting": columns["eliciting"],
        "source": np.full(count, known.source, "U12"), "one_way_ns": one_way_ns(path, view)[columns["datagram"]],
    }  # fmt: skip
    for name in ("acked_ns", "ack_delay_ns", "rtt_ns"):
        made[name] = np.full(count, NOT_A_TIME, np.int64)
    for name in ("lost", "flight_bytes", "window_connection_bytes", "window_stream_bytes"):
        made[name] = np.full(count, NA, np.int64)
    if view.is_read:
        for way in (False, True):
            sent = sent_packets(known, reverse=way)
            for name in ("acked_ns", "ack_delay_ns", "rtt_ns", "lost", "flight_bytes"):
                made[name][sent.row] = getattr(sent, name)
        add_windows(known, made)
    return Table(QUIC_PACKETS, made)


def add_windows(known: QuicConnection, made: dict[str, Array]) -> None:
    """Fill what flow control lets follow each packet that carries stream data."""
    reverse = known.columns["reverse"].tolist()
    events = [(row, 0, kind, first, last) for row, kind, first, last in known.frames.numbers if kind in (0x10, 0x11)]
    events += [(row, 1, stream, offset, length) for row, stream, offset, length, _ in known.frames.streams]
    peers = (known.chosen.parameters, known.hello.parameters)
    limit = [peers[way].get(Parameter.MAX_DATA, NA) for way in (0, 1)]
    streams: list[dict[int, int]] = [{}, {}]
    used, frontier = [0, 0], ({}, {})  # type: tuple[list[int], tuple[dict[int, int], dict[int, int]]]
    for row, is_data, *values in sorted(events):
        way = int(reverse[row])
        if not is_data:
            kind, first, last = values
            if kind == FrameType.MAX_DATA.value:
                limit[1 - way] = max(limit[1 - way], last)
            else:
                streams[1 - way][first] = max(streams[1 - way].get(first, 0), last)
            continue
        stream, offset, length = values
        before = frontier[way].get(stream, 0)
        frontier[way][stream] = max(before, offset + length)
        used[way] += frontier[way][stream] - before
        if limit[way] >= used[way]:
            made["window_connection_bytes"][row] = limit[way] - used[way]
        if streams[way].get(stream, 0) >= frontier[way][stream]:
            made["window_stream_bytes"][row] = streams[way][stream] - frontier[way][stream]


def data_over_time(view: QuicView, *, reverse: bool) -> tuple[Times, Numbers, Numbers, Array]:
    """Return of each packet with stream data: time, data sent so far, what flow control allowed, whether it was lost.

    Data and what was allowed are of all streams together, in bytes; NA where the limit is not known.
    """
    known = view.known
    rows = np.unique(np.array([each[0] for each in known.frames.streams], np.int64))
    rows = rows[known.columns["reverse"][rows] == reverse]
    rows = rows[np.argsort(known.columns["time_ns"][rows], kind="stable")]
    ends: dict[int, int] = {}
    sums: dict[int, int] = {}
    total = 0
    for row, stream, offset, length, _ in known.frames.streams:
        if known.columns["reverse"][row] == reverse:
            before = ends.get(stream, 0)
            ends[stream] = max(before, offset + length)
            total += ends[stream] - before
            sums[row] = total
    octets = np.maximum.accumulate(np.array([sums[row] for row in rows.tolist()], np.int64)) if len(rows) else rows
    made = {name: np.full(known.packets, NA, np.int64) for name in ("window_connection_bytes", "window_stream_bytes")}
    add_windows(known, made)
    left = made["window_connection_bytes"][rows]
    sent = sent_packets(known, reverse=reverse)
    return (
        known.columns["time_ns"][rows],
        octets,
        np.where(left == NA, NA, octets + left),
        np.isin(rows, sent.row[sent.lost == 1]),
    )


# --- two captures of one connection ---


def with_datagrams(recording: QuicSource) -> list[Capture]:
    """Return the captures of a recording with the datagrams of their QUIC in the place of segments."""
    collected = recording.quic
    captures = []
    for capture in recording.captures:
        own = [view.known for path in collected.paths for view in path.captures if view.host == capture.point.name]
        tables = datagram_segments(own, capture.point.name) if own else capture.tables
        captures.append(Capture(capture.point, tables))
    return captures


def matched(one: QuicView, two: QuicView) -> tuple[Numbers, Numbers]:
    """Return the datagrams that both captures have, by their encrypted bytes: numbers in the first and the second."""
    names, first, counts = np.unique(one.known.names, return_index=True, return_counts=True)
    others, second, more = np.unique(two.known.names, return_index=True, return_counts=True)
    single, other_single = counts == 1, more == 1
    _, a, b = np.intersect1d(names[single], others[other_single], assume_unique=True, return_indices=True)
    mine, theirs = first[single][a], second[other_single][b]
    order = np.argsort(mine)
    return mine[order], theirs[order]


def relation_of(one: QuicView, two: QuicView) -> Relation | None:
    """Return how the clocks of two captures relate, by the datagrams of one connection; None if that is unknown."""
    try:
        tables = [datagram_segments([view.known], view.host) for view in (one, two)]
        return Relation(Clock(one.host), Clock(two.host), tuple(relate(*tables)))
    except ClockError:
        return None


def one_way_ns(path: QuicPath, view: QuicView) -> Times:
    """Return by datagram the time to its arrival at the other capture, in that capture's clock; else NOT_A_TIME."""
    delays = np.full(len(view.known.datagram_bytes), NOT_A_TIME, np.int64)
    others = [each for each in path.captures if each is not view]
    if view not in path.captures or len(others) != 1:
        return delays
    mine, theirs = matched(view, others[0])
    is_client = view is path.captures[0]
    columns = view.known.columns
    reverse = columns["reverse"][np.unique(columns["datagram"], return_index=True)[1]]
    sent = reverse[mine] != is_client
    delays[mine[sent]] = others[0].datagram_ns[theirs[sent]] - view.datagram_ns[mine[sent]]
    return delays
