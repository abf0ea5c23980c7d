"""The time line (tline): time runs down, each segment is an arrow from one end to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.export.xplot.commands import heading, lines, rows, timed
from multitracer.export.xplot.talk import half_round_trip_ns
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.export.xplot.talk import Talk

_LEFT, _RIGHT = 40, 60  # tcptrace's places of the two ends
_NAMES = ((Flag.SYN, "SYN "), (Flag.FIN, "FIN "), (Flag.RST, "RST "), (Flag.PSH, ""))


def tline(both: tuple[Talk, Talk]) -> Iterator[str]:
    """Yield the file of both directions; numbers count from the first of each, the ends are a and b.

    A capture shows when a segment passed it; at the other end half of the shortest round trip is added, or
    taken away. Where no round trip was measured arrows are level.
    """
    title = heading(f"{both[0].ends} (time line graph)", "segments", "relative time", axes="unsigned dtime")
    return lines([title, "invisible 0 -0.000000\ninvisible 100 -0.000000\n"], _arrows(both))


def _arrows(both: tuple[Talk, Talk]) -> Iterator[str]:
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


def _shifts(both: tuple[Talk, Talk]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return, of each direction, how much later than at the capture its segments left and arrived."""
    vantage = both[0].part.analysis.directions["vantage"][2 * (both[0].number - 1)]
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
