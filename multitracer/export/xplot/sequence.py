"""The time/sequence graph (tsg): what was sent, acknowledged and allowed, SACKs, and verdicts on copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import Kind
from multitracer.captured import Flag
from multitracer.export.xplot.commands import heading, lines, moment, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.export.xplot.talk import Talk
    from multitracer.tables import Array

_MARK_COLOURS = {"R": "red", "O": "pink", "H": "blue", "P": "blue", "S": "orange", "F": "orange"}
"""By the first letter of a mark, as tcptrace has them."""


def tsg(talk: Talk) -> Iterator[str]:
    """Yield the file: sequence numbers are those of the wire, and go on where these wrap."""
    return lines(
        [heading(f"{talk.ends} (time sequence graph)", "time", "sequence number", axes="timeval double")],
        _sent(talk),
        _steps(talk, talk.segments["ack_bytes"], "green", "dtick"),
        _steps(talk, talk.segments["ack_bytes"] + talk.segments["window_bytes"], "yellow", "utick"),
        _closed(talk),
        _sacks(talk),
    )


def _sent(talk: Talk) -> Iterator[str]:
    """Yield each segment as a line between arrows, from its first number to the one after its last."""
    segments, origin = talk.segments, talk.origin
    marked = _marked(talk)
    columns = (segments[name][talk.own] for name in ("time_ns", "seq_bytes", "end_bytes", "flags"))
    for row, (stamp, begin, end, flags) in zip(talk.own.tolist(), rows(*columns), strict=True):
        at, low, high = moment(stamp), begin + origin, end + origin
        mark = talk.mark(row) if row in marked else ""
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
    return (
        f"diamond {at} {high} white\ndot {at} {high} white\n" if flags & Flag.PSH else f"uarrow {at} {high}\n"
    )


def _marked(talk: Talk) -> set[int]:
    """Return the rows that may have a mark: few, and asked about one by one."""
    kind, flags = talk.segments["kind"][talk.own], talk.segments["flags"][talk.own]
    odd = Kind.RETRANSMISSION | Kind.OUT_OF_ORDER | Kind.CAPTURE_DUPLICATE | Kind.ZERO_WINDOW_PROBE
    chosen = ((kind & np.uint32(odd)) != 0) | ((flags & np.uint16(Flag.SYN | Flag.FIN)) != 0)
    return set(talk.own[chosen].tolist())


def _steps(talk: Talk, level: Array, colour: str, tick: str) -> Iterator[str]:
    """Yield a staircase of what came back; a tick where it did not change."""
    before: tuple[str, int] | None = None
    yield f"{colour}\n"
    for stamp, value in rows(talk.segments["time_ns"][talk.back], level[talk.back] + talk.origin):
        at = moment(stamp)
        if before is not None:
            yield f"line {before[0]} {before[1]} {at} {before[1]}\n"
            same = value == before[1]
            yield f"{tick} {at} {value}\n" if same else f"line {at} {before[1]} {at} {value}\n"
        else:
            yield f"dot {at} {value}\n"
        before = at, value


def _closed(talk: Talk) -> Iterator[str]:
    """Yield a Z where the window closes."""
    segments, opens = talk.segments, np.uint16(Flag.SYN | Flag.FIN | Flag.RST)
    closed = (segments["window_bytes"][talk.back] == 0) & ((segments["flags"][talk.back] & opens) == 0)
    for stamp, value in rows(*(segments[name][talk.back[closed]] for name in ("time_ns", "ack_bytes"))):
        yield f"red\natext {moment(stamp)} {value + talk.origin}\nZ\n"


def _sacks(talk: Talk) -> Iterator[str]:
    """Yield what the receiver reports to have, as lines at the time of the report; a D-SACK has a D."""
    blocks, segments = talk.part.analysis.sack_blocks(talk.number), talk.segments
    is_back = np.isin(blocks["row"], talk.back)
    own = blocks.take(is_back)
    times = segments["time_ns"][own["row"]]
    columns = (own[name] for name in ("left_bytes", "right_bytes", "dsack"))
    for stamp, left, right, dsack in rows(times, *columns):
        at, low, high = moment(stamp), left + talk.origin, right + talk.origin
        yield f"purple\nline {at} {low} {at} {high}\nhtick {at} {low}\nhtick {at} {high}\n"
        yield f"ctext {at} {high}\n{'D' if dsack else 'S'}\n"
