"""Writes the plots of `tcptrace -G` from the tables and verdicts, for Tim Shepard's xplot (xplot.org).

The module defines, in this order: functions that write commands; the data of one direction (`Exchange`); the
time/sequence graph (tsg), the curves (owin, rtt, tput, ssize) and the time line (tline: time increases
downwards, each segment is an arrow between the endpoints); and `write_plots`, which selects the connections
and names the files like tcptrace (a2b_tsg.xpl).

Invariants: a file consists of a header, commands and `go`, as in the file demo.0 of xplot-xplot.org 0.90.7,
in printable ASCII. Points of sent and acknowledged data equal those of tcptrace 6.6.7; docs/export.md lists
the intended differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.series.rtt import Provenance
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, word
from multitracer.captured import Flag
from multitracer.diagnosis.segment_verdicts import NO_VERDICT, segment_verdicts
from multitracer.errors import InputError
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Table, Times

_AT_ONCE = 1 << 16
"""Number of rows whose texts are in memory at a time."""
END = "go\n"


def heading(title: str, across: str, up: str, *, axes: str = "timeval signed") -> str:
    """Return the header of a plot file; `axes` are the types of x and y."""
    return f"{axes}\ntitle\n{title}\nxlabel\n{across}\nylabel\n{up}\n"


def moment(time_ns: int) -> str:
    """Return a time in xplot's format timeval: seconds with six decimals, rounded down as in tcptrace."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    return f"{seconds}.{rest // NS_PER_US:06d}"


def rows(*columns: Array) -> Iterator[tuple[int, ...]]:
    """Yield the rows of columns as Python numbers; only a limited number of rows is in memory."""
    for begin in range(0, len(columns[0]), _AT_ONCE):
        yield from zip(*(column[begin : begin + _AT_ONCE].tolist() for column in columns), strict=True)


def curve(time_ns: Times, value: Array, colour: str, label: str) -> Iterator[str]:
    """Yield the commands of a curve as in tcptrace: dots, lines between them, and a label at the first line.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        Never NA.
    value : ndarray of int64, shape (n,)
    """
    before: tuple[str, int] | None = None
    is_named = False
    for stamp, number in rows(time_ns, value):
        at = moment(stamp)
        yield f"{colour}\ndot {at} {number}\n"
        if before is not None:
            if not is_named:
                yield f"ltext {at} {number} {colour}\n{label}\n"
                is_named = True
            yield f"line {at} {number} {before[0]} {before[1]}\n"
        before = at, number


def timed(time_ns: Times, chosen: Array) -> Array:
    """Return the indices of the selected rows that have a time: int64, in capture order."""
    return np.flatnonzero(chosen & (time_ns != NOT_A_TIME))


def lines(*parts: Iterable[str]) -> Iterator[str]:
    """Yield the commands of several parts of a plot, and the end of the file."""
    for part in parts:
        yield from part
    yield END


@dataclass(frozen=True)
class Exchange:
    """One direction of a connection.

    Parameters
    ----------
    capture : Capture
    number : int
        Number of the connection in the capture, from 1.
    reverse : bool
        False for the data of the initiator, True for those of the responder.
    segments : Table
        TCP_SEGMENTS of the connection.
    verdicts : SegmentVerdicts
        Verdicts on all segments of the capture.
    """

    capture: Capture
    number: int
    reverse: bool
    segments: Table
    verdicts: SegmentVerdicts

    @property
    def ends(self) -> str:
        """Names of the two endpoints in a title of tcptrace, the sender first."""
        ends = self.capture.analysis.ends(self.number)
        source, target = (ends.source, ends.destination)[:: -1 if self.reverse else 1]
        return f"{source}_==>_{target}"

    @cached_property
    def own(self) -> Array:
        """Rows of the segments of this direction that have a time, in capture order."""
        return timed(self.segments["time_ns"], self.segments["reverse"] == self.reverse)

    @cached_property
    def back(self) -> Array:
        """Rows of the opposite direction's ACKs that have a time, except RSTs (invalid ACK number)."""
        segments = self.segments
        back = (segments["reverse"] != self.reverse) & (segments["ack_bytes"] != NA)
        return timed(segments["time_ns"], back & ((segments["flags"] & Flag.RST) == 0))

    @cached_property
    def data(self) -> Array:
        """Rows of `own` with payload, SYN or FIN."""
        return self.own[self.segments["end_bytes"][self.own] > self.segments["seq_bytes"][self.own]]

    @cached_property
    def payload(self) -> Array:
        """Rows of `own` with payload."""
        return self.own[self.segments["payload_bytes"][self.own] > 0]

    @cached_property
    def origin(self) -> int:
        """Sequence number on the wire of byte 0 of this direction in the tables."""
        if len(self.own):
            first = self.own[0]
            return int(self.segments["seq"][first]) - int(self.segments["seq_bytes"][first])
        if len(self.back):
            first = self.back[0]
            return int(self.segments["ack"][first]) - int(self.segments["ack_bytes"][first])
        return 0

    def mark(self, row: int) -> str:
        """Return tcptrace's mark at a segment; R (retransmitted) has the verdict appended.

        The result is "" without a mark.
        """
        flags, kind = int(self.segments["flags"][row]), int(self.segments["kind"][row])
        verdict = self._verdict(row)
        if verdict:
            return verdict
        for bit, text in (
            (SegmentKind.CAPTURE_DUPLICATE, "HD"),
            (SegmentKind.OUT_OF_ORDER, "O"),
            (SegmentKind.ZERO_WINDOW_PROBE, "P"),
        ):
            if kind & bit:
                return text
        return "SYN" if flags & Flag.SYN else "FIN" if flags & Flag.FIN else ""

    @cached_property
    def _rows(self) -> Array:
        return self.capture.analysis.partition.rows_of(self.number - 1)

    def _verdict(self, row: int) -> str:
        at = int(self._rows[row])
        cause, need = int(self.verdicts.cause[at]), int(self.verdicts.necessity[at])
        return "" if cause == NO_VERDICT else f"R {word(RetransmissionCause(cause))} {word(Necessity(need))}"


def half_round_trip_ns(exchange: Exchange) -> int:
    """Return half of the minimum RTT of a direction in ns; 0 if no RTT was measured."""
    rows = exchange.capture.analysis.directions
    shortest = int(rows["rtt_min_ns"][2 * (exchange.number - 1) + exchange.reverse])
    return max(shortest, 0) // 2 if rows["rtt_count"][2 * (exchange.number - 1) + exchange.reverse] else 0


def without_time(exchange: Exchange) -> int:
    """Return the number of segments of the connection that have no time and are therefore not drawn."""
    stamps = exchange.segments["time_ns"]
    return len(stamps) - len(timed(stamps, np.ones(len(stamps), dtype=bool)))


_MARK_COLOURS = {"R": "red", "O": "pink", "H": "blue", "P": "blue", "S": "orange", "F": "orange"}
"""Colour of a mark by its first letter, as in tcptrace."""


def tsg(exchange: Exchange) -> Iterator[str]:
    """Yield the time/sequence graph; sequence numbers are those on the wire, without the wrap at 2^32."""
    return lines(
        [heading(f"{exchange.ends} (time sequence graph)", "time", "sequence number", axes="timeval double")],
        _sent(exchange),
        _steps(exchange, exchange.segments["ack_bytes"], "green", "dtick"),
        _steps(exchange, exchange.segments["ack_bytes"] + exchange.segments["window_bytes"], "yellow", "utick"),
        _closed(exchange),
        _sacks(exchange),
    )


def _sent(exchange: Exchange) -> Iterator[str]:
    """Yield each segment as a line with arrows, from its first sequence number to the one after its last."""
    segments, origin = exchange.segments, exchange.origin
    marked = _marked(exchange)
    columns = (segments[name][exchange.own] for name in ("time_ns", "seq_bytes", "end_bytes", "flags"))
    for row, (stamp, begin, end, flags) in zip(exchange.own.tolist(), rows(*columns), strict=True):
        at, low, high = moment(stamp), begin + origin, end + origin
        mark = exchange.mark(row) if row in marked else ""
        yield f"{_MARK_COLOURS.get(mark[:1], 'white')}\n"
        yield f"diamond {at} {low}\n" if flags & Flag.SYN else f"darrow {at} {low}\n"
        yield _upper_end(at, high, flags)
        if high > low:
            yield f"line {at} {low} {at} {high}\n"
        if mark:
            yield f"atext {at} {high}\n{mark}\n"


def _upper_end(at: str, high: int, flags: int) -> str:
    if flags & Flag.FIN:
        return f"box {at} {high}\n"
    return f"diamond {at} {high} white\ndot {at} {high} white\n" if flags & Flag.PSH else f"uarrow {at} {high}\n"


def _marked(exchange: Exchange) -> set[int]:
    """Return the few rows that may have a mark."""
    kind, flags = exchange.segments["kind"][exchange.own], exchange.segments["flags"][exchange.own]
    unexpected = (
        SegmentKind.RETRANSMISSION
        | SegmentKind.OUT_OF_ORDER
        | SegmentKind.CAPTURE_DUPLICATE
        | SegmentKind.ZERO_WINDOW_PROBE
    )
    chosen = ((kind & np.uint32(unexpected)) != 0) | ((flags & np.uint16(Flag.SYN | Flag.FIN)) != 0)
    return set(exchange.own[chosen].tolist())


def _steps(exchange: Exchange, level: Array, colour: str, tick: str) -> Iterator[str]:
    """Yield a step curve of the ACK number or the window, with a tick where a segment did not change it."""
    before: tuple[str, int] | None = None
    yield f"{colour}\n"
    for stamp, value in rows(exchange.segments["time_ns"][exchange.back], level[exchange.back] + exchange.origin):
        at = moment(stamp)
        if before is not None:
            yield f"line {before[0]} {before[1]} {at} {before[1]}\n"
            same = value == before[1]
            yield f"{tick} {at} {value}\n" if same else f"line {at} {before[1]} {at} {value}\n"
        else:
            yield f"dot {at} {value}\n"
        before = at, value


def _closed(exchange: Exchange) -> Iterator[str]:
    """Yield a mark Z where the advertised window becomes 0."""
    segments, opens = exchange.segments, np.uint16(Flag.SYN | Flag.FIN | Flag.RST)
    closed = (segments["window_bytes"][exchange.back] == 0) & ((segments["flags"][exchange.back] & opens) == 0)
    for stamp, value in rows(*(segments[name][exchange.back[closed]] for name in ("time_ns", "ack_bytes"))):
        yield f"red\natext {moment(stamp)} {value + exchange.origin}\nZ\n"


def _sacks(exchange: Exchange) -> Iterator[str]:
    """Yield the SACK blocks as lines at the time of the ACK; a D-SACK has a mark D."""
    blocks, segments = exchange.capture.analysis.sack_blocks(exchange.number), exchange.segments
    is_back = np.isin(blocks["row"], exchange.back)
    own = blocks.take(is_back)
    times = segments["time_ns"][own["row"]]
    columns = (own[name] for name in ("left_bytes", "right_bytes", "dsack"))
    for stamp, left, right, dsack in rows(times, *columns):
        at, low, high = moment(stamp), left + exchange.origin, right + exchange.origin
        yield f"purple\nline {at} {low} {at} {high}\nhtick {at} {low}\nhtick {at} {high}\n"
        yield f"ctext {at} {high}\n{'D' if dsack else 'S'}\n"


_INTERVAL = 10
"""Number of segments for a point of the red throughput curve; default of tcptrace's --thru_interval."""


def owin(exchange: Exchange) -> Iterator[str]:
    """Yield the plot: outstanding data in red, running mean in blue, advertised window in yellow."""
    segments, data = exchange.segments, exchange.data
    time, flight = segments["time_ns"][data], segments["flight_bytes"][data]
    mean = np.cumsum(flight) // np.arange(1, len(flight) + 1)
    return lines(
        [heading(f"{exchange.ends} (outstanding data)", "time", "Outstanding Data (bytes)")],
        curve(time, flight, "red", "owin"),
        curve(segments["time_ns"][exchange.back], segments["window_bytes"][exchange.back], "yellow", "rwin"),
        curve(time, mean, "blue", "avg owin"),
    )


def rtt(exchange: Exchange) -> Iterator[str]:
    """Yield the plot of RTTs in integer ms at the time of the ACK, for exact ACKs of segments sent once."""
    samples = exchange.capture.analysis.rtt_samples(exchange.number)
    own = samples["reverse"] == exchange.reverse
    own &= (samples["provenance"] == Provenance.EXACT_ACK) & (samples["time_ns"] != NOT_A_TIME)
    chosen = samples.take(own & (samples["rtt_ns"] >= 0))
    return lines(
        [heading(f"{exchange.ends} (rtt samples)", "time", "rtt (ms)")],
        curve(chosen["time_ns"], chosen["rtt_ns"] // NS_PER_MS, "red", "rtt"),
    )


def ssize(exchange: Exchange) -> Iterator[str]:
    """Yield the plot: payload of each segment in bytes in red, and its running mean in blue."""
    time, size = (exchange.segments[name][exchange.payload] for name in ("time_ns", "payload_bytes"))
    mean = np.cumsum(size, dtype=np.int64) // np.arange(1, len(size) + 1)
    return lines(
        [heading(f"{exchange.ends} (segment size graph)", "time", "segment size (bytes)")],
        curve(time, size, "red", "segsize"),
        curve(time, mean, "blue", "avg segsize"),
    )


def tput(exchange: Exchange) -> Iterator[str]:
    """Yield the plot of throughput: of one segment in yellow, of ten in red, since the first in blue.

    The throughput includes retransmissions.
    """
    time, size = (exchange.segments[name][exchange.payload].astype(np.int64) for name in ("time_ns", "payload_bytes"))
    sent = np.cumsum(size)
    begin = int(exchange.segments["time_ns"][exchange.own[0]]) if len(exchange.own) else 0
    each = np.diff(time, prepend=begin)
    ten = np.arange(_INTERVAL - 1, len(time), _INTERVAL)
    spans = np.diff(time[ten], prepend=begin)
    return lines(
        [heading(f"{exchange.ends} (throughput)", "time", "thruput (bytes/sec)")],
        _dots(time, _rates(size, each)),
        _known_curve(time[ten], _rates(np.diff(sent[ten], prepend=0), spans), "red", "inst. tput"),
        _known_curve(time[ten], _rates(sent[ten], time[ten] - begin), "blue", "avg. tput"),
    )


def _rates(size: Array, span_ns: Array) -> Array:
    """Return bytes per second, rounded down; NA where the time difference is not above 0."""
    passed = np.where(span_ns > 0, span_ns, 1)
    return np.where(span_ns > 0, (size * float(NS_PER_S) / passed).astype(np.int64), NA)


def _dots(time: Array, rate: Array) -> Iterator[str]:
    known = rate != NA
    for stamp, value in rows(time[known], rate[known]):
        yield f"dot {moment(stamp)} {value} yellow\n"


def _known_curve(time: Array, rate: Array, colour: str, label: str) -> Iterator[str]:
    known = rate != NA
    return curve(time[known], rate[known], colour, label)


_LEFT, _RIGHT = 40, 60  # tcptrace's places of the two ends
_NAMES = ((Flag.SYN, "SYN "), (Flag.FIN, "FIN "), (Flag.RST, "RST "), (Flag.PSH, ""))


def tline(both: tuple[Exchange, Exchange]) -> Iterator[str]:
    """Yield the time line of both directions, with relative sequence numbers; the endpoints are a and b.

    The time of a segment is known only at the capture point; for the other endpoint, half of the minimum RTT
    is added or subtracted. Without an RTT, arrows are horizontal.
    """
    title = heading(f"{both[0].ends} (time line graph)", "segments", "relative time", axes="unsigned dtime")
    return lines([title, "invisible 0 -0.000000\ninvisible 100 -0.000000\n"], _arrows(both))


def _arrows(both: tuple[Exchange, Exchange]) -> Iterator[str]:
    segments = both[0].segments
    every = timed(segments["time_ns"], np.ones(len(segments), dtype=bool))
    if not len(every):
        return
    begin = int(segments["time_ns"][every].min())
    shift = _shifts(both)
    names = ("time_ns", "reverse", "flags", "seq_bytes", "payload_bytes", "ack_bytes", "window_bytes")
    longest = int(segments["time_ns"][every].max()) - begin
    yield "".join(f"line {x} -0.000000 {x} -{_seconds(longest)}\n" for x in (_LEFT, _RIGHT))
    for stamp, reverse, flags, seq, payload, ack, window in rows(*(segments[each][every] for each in names)):
        left = max(stamp - begin + shift[reverse][0], 0)
        arrives = max(stamp - begin + shift[reverse][1], 0)
        source, target = (_RIGHT, _LEFT) if reverse else (_LEFT, _RIGHT)
        words = "".join(name for flag, name in _NAMES if flags & flag)
        answer = f"ack {ack} " if flags & Flag.ACK else ""
        yield f"{_colour(flags, payload)}\nline {source} -{_seconds(left)} {target} -{_seconds(arrives)}\n"
        yield f"{'larrow' if reverse else 'rarrow'} {target} -{_seconds(arrives)}\nwhite\n"
        yield f"{'rtext' if reverse else 'ltext'} {source} -{_seconds(left)}\n"
        yield f"{words}{seq}:{seq + payload}({payload}) {answer}win {window}\n"


def _shifts(both: tuple[Exchange, Exchange]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return for each direction the offsets in ns from capture time to sending and to arrival time."""
    vantage = both[0].capture.analysis.directions["vantage"][2 * (both[0].number - 1)]
    half = max(map(half_round_trip_ns, both))
    if vantage == Vantage.NEAR_SENDER:
        return (0, half), (-half, 0)
    if vantage == Vantage.NEAR_RECEIVER:
        return (-half, 0), (0, half)
    return (0, 0), (0, 0)


def _colour(flags: int, payload: int) -> str:
    if flags & (Flag.SYN | Flag.FIN | Flag.RST):
        return "orange"
    return "green" if payload else "yellow"


def _seconds(ns: int) -> str:
    return f"{ns // NS_PER_S}.{ns % NS_PER_S // NS_PER_US:06d}"


MOST_CONNECTIONS = 50
"""Maximum number of connections that are drawn by default (550 files). Not measured."""
_PLOTS = {"tsg": tsg, "owin": owin, "rtt": rtt, "tput": tput, "ssize": ssize}


def write_plots(folder: Path, recording: Recording, chosen: Iterable[tuple[Capture, int]] | None = None) -> None:
    """Write eleven plots of each connection into a folder.

    Parameters
    ----------
    folder : Path
        An existing folder.
        recording : Recording
    chosen : iterable of (Capture, int), optional
        Connections to draw; by default those with the most unique bytes, at most `MOST_CONNECTIONS`.

    Raises
    ------
    InputError
        If there is no connection.
    """
    if chosen is None:
        chosen = recording.largest(MOST_CONNECTIONS)
        if not chosen:
            raise InputError(
                f"{recording.name}: this recording contains no TCP connection; name a capture with a TCP connection"
            )
        if len(recording) > MOST_CONNECTIONS:
            many = f"the {MOST_CONNECTIONS} largest of {count(len(recording), 'connection')}"
            recording.warn_once(f"{recording.name}: {many} are drawn; --connection draws another one")
    judged: tuple[Capture, SegmentVerdicts] | None = None
    for part, number in chosen:
        if judged is None or judged[0] is not part:
            judged = part, segment_verdicts(recording, part)
        _write_connection(folder, recording, part, number, judged[1])


def _write_connection(
    folder: Path, recording: Recording, capture: Capture, number: int, verdicts: SegmentVerdicts
) -> None:
    segments = capture.analysis.tcp_segments(number)
    both = (Exchange(capture, number, False, segments, verdicts), Exchange(capture, number, True, segments, verdicts))
    ends = letters(2 * (capture.offset + number - 1)), letters(2 * (capture.offset + number - 1) + 1)
    for exchange, (source, target) in zip(both, (ends, ends[::-1]), strict=True):
        for name, plot in _PLOTS.items():
            _write(folder / f"{source}2{target}_{name}.xpl", plot(exchange))
    _write(folder / f"{ends[0]}_{ends[1]}_tline.xpl", tline(both))
    if untimed := without_time(both[0]):
        recording.warn_once(
            f"connection {capture.offset + number}: {count(untimed, 'segment')} not drawn, for want of a time"
        )


def letters(place: int) -> str:
    """Return tcptrace's letters for a host with an index from 0: a to z, then aa, ab, ..."""
    name = ""
    while place >= 0:
        name = ascii_lowercase[place % len(ascii_lowercase)] + name
        place = place // len(ascii_lowercase) - 1
    return name


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="ascii", errors="backslashreplace", buffering=1 << 20) as stream:
        stream.writelines(lines)
