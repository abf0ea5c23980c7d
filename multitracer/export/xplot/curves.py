"""The graphs that are curves: outstanding data, round trips, throughput, segment sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.rtt import Provenance
from multitracer.export.xplot.commands import curve, heading, lines, moment, rows
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.export.xplot.talk import Talk
    from multitracer.tables import Array

_INTERVAL = 10
"""Segments behind a point of the red curve of throughput, as tcptrace's --thru_interval has it."""


def owin(talk: Talk) -> Iterator[str]:
    """Yield the outstanding data in red, their mean so far in blue, the window offered in yellow."""
    segments, data = talk.segments, talk.data
    time, flight = segments["time_ns"][data], segments["flight_bytes"][data]
    mean = np.cumsum(flight) // np.arange(1, len(flight) + 1)
    return lines(
        [heading(f"{talk.ends} (outstanding data)", "time", "Outstanding Data (bytes)")],
        curve(time, flight, "red", "owin"),
        curve(segments["time_ns"][talk.back], segments["window_bytes"][talk.back], "yellow", "rwin"),
        curve(time, mean, "blue", "avg owin"),
    )


def rtt(talk: Talk) -> Iterator[str]:
    """Yield the round trips in whole milliseconds, at their answers: exact ACKs of what was sent once."""
    samples = talk.part.analysis.rtt_samples(talk.number)
    own = samples["reverse"] == talk.reverse
    own &= (samples["provenance"] == Provenance.EXACT_ACK) & (samples["time_ns"] != NOT_A_TIME)
    chosen = samples.take(own & (samples["rtt_ns"] >= 0))
    return lines(
        [heading(f"{talk.ends} (rtt samples)", "time", "rtt (ms)")],
        curve(chosen["time_ns"], chosen["rtt_ns"] // NS_PER_MS, "red", "rtt"),
    )


def ssize(talk: Talk) -> Iterator[str]:
    """Yield the payload of each segment in red, and their mean so far in blue."""
    time, size = (talk.segments[name][talk.payload] for name in ("time_ns", "payload_bytes"))
    mean = np.cumsum(size, dtype=np.int64) // np.arange(1, len(size) + 1)
    return lines(
        [heading(f"{talk.ends} (segment size graph)", "time", "segment size (bytes)")],
        curve(time, size, "red", "segsize"),
        curve(time, mean, "blue", "avg segsize"),
    )


def tput(talk: Talk) -> Iterator[str]:
    """Yield the throughput: yellow of one segment, red of ten, blue since the first; copies count."""
    time, size = (talk.segments[name][talk.payload].astype(np.int64) for name in ("time_ns", "payload_bytes"))
    sent = np.cumsum(size)
    begin = int(talk.segments["time_ns"][talk.own[0]]) if len(talk.own) else 0
    each = np.diff(time, prepend=begin)
    ten = np.arange(_INTERVAL - 1, len(time), _INTERVAL)
    spans = np.diff(time[ten], prepend=begin)
    return lines(
        [heading(f"{talk.ends} (throughput)", "time", "thruput (bytes/sec)")],
        _dots(time, _rates(size, each)),
        _known_curve(time[ten], _rates(np.diff(sent[ten], prepend=0), spans), "red", "inst. tput"),
        _known_curve(time[ten], _rates(sent[ten], time[ten] - begin), "blue", "avg. tput"),
    )


def _rates(size: Array, span_ns: Array) -> Array:
    """Return bytes per second, rounded down; NA where no time passed, or it went back."""
    passed = np.where(span_ns > 0, span_ns, 1)
    return np.where(span_ns > 0, (size * float(NS_PER_S) / passed).astype(np.int64), NA)


def _dots(time: Array, rate: Array) -> Iterator[str]:
    known = rate != NA
    for stamp, value in rows(time[known], rate[known]):
        yield f"dot {moment(stamp)} {value} yellow\n"


def _known_curve(time: Array, rate: Array, colour: str, label: str) -> Iterator[str]:
    known = rate != NA
    return curve(time[known], rate[known], colour, label)
