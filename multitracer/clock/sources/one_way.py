"""A clock whose times are only received, after an unknown delay.

The skew is known well: from the line below all received times, and from the level at which most of the
fastest ones are. The offset is known except for the minimum delay, which must be assumed: half of it is
added, and is the uncertainty.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark, Flag
from multitracer.clock.model.estimate import PPM, ClockEvidence, Estimate, EventDirection
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.model.skew_posterior import envelope, skew_posterior, window_lows
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from multitracer.capture import CaptureTables
    from multitracer.logs import LogSource
    from multitracer.tables import Array, Table

MIN_STAMPS = 20  # with fewer the promptest stamp is chance
_CAUTION = 2.0
"""Factor on the error, since delays of neighbours are not independent. Not measured; compare 1.6 in
`captures/skew.py`."""
_WIDTH_95 = 1.96  # 95 % of a normal distribution
_STAMPING_NS = 20_000.0
"""Difference between a host's timestamp and the time on the link, ns: some ten microseconds."""


def one_way_estimate(from_ns: Array, to_ns: Array, *, method: str, delay_ns: float, tick_ns: float) -> Estimate:
    """Return the relation of a remote clock to the clock that receives its times.

    Parameters
    ----------
    from_ns : ndarray of int64, shape (n_stamps,)
        Arrival of each time, by the clock of the receiver.
    to_ns : ndarray of int64, shape (n_stamps,)
        The received times.
    method : str
        Name of the method, for the estimate.
    delay_ns : float
        Maximum delay of the fastest one.
    tick_ns : float
        Resolution of the received times, which are rounded down.

    Raises
    ------
    ClockError
        If there are too few times, or they are all equal.
    """
    if len(from_ns) < MIN_STAMPS or int(np.ptp(from_ns)) <= 0:
        raise ClockError(
            f"{method}: cannot determine the clock offset, because {len(from_ns)} times are too few; "
            "what would help: a longer log"
        )
    first, base = int(from_ns.min()), int(to_ns[0] - from_ns[0])
    time = (from_ns - first).astype(np.float64)
    late = -(to_ns - from_ns - base).astype(np.float64)  # how long under way, but for the offset
    start = -envelope(time, late)[0]
    skew = start
    for _ in range(2):
        lows = [window_lows(-1, time, late, slope=skew)]
        grid, mass = skew_posterior(lows, [start])
        skew = float((grid * mass).sum())
    spread = float(np.sqrt((mass * (grid - skew) ** 2).sum()))
    rounding = (tick_ns / np.sqrt(12) + _STAMPING_NS) / float(np.ptp(time))
    level = float((late + skew * time).min())
    queued = float(np.median(late + skew * time)) - level
    rounding += max(0.0, queued - tick_ns) / float(np.ptp(time))
    pivot = float(time.mean())
    return Estimate.around(
        first + round(pivot),
        (delay_ns + tick_ns) / 2 + _STAMPING_NS,
        first_ns=first,
        last_ns=int(from_ns.max()),
        offset_ns=base + round(-level + (delay_ns + tick_ns) / 2),
        skew_ppm=skew / PPM,
        skew_uncertainty_ppm=_WIDTH_95 * float(np.hypot(_CAUTION * spread, rounding)) / PPM,
        method=method,
        evidence=len(from_ns),
        lower_ns=base + round(-level),
        notes=(f"the fastest stamp is assumed to have travelled for {delay_ns / 1e6:.0f} ms at most",),
        points=ClockEvidence(from_ns, to_ns, np.full(len(from_ns), EventDirection.BACKWARD, dtype=np.int8)),
    )


# A host's clock and GPS time, by the reports of a receiver.
#
# A receiver reports a fix some time after it was true: it computes, then a serial line takes its time. So GPS
# time is ahead of what the difference of the stamps says, by an unknown part of a second at most.


GPS_TIME = "GPS time of position fixes"
LONGEST_DELAY_NS = 600 * NS_PER_MS
"""Maximum time from the epoch of a fix to its report, ns, for receivers with a report a second."""


def relate_gps(position: Table) -> list[Estimate]:
    """Return the relation of GPS time (as UTC) to the clock that recorded the reports.

    Parameters
    ----------
    position : Table
        `position`; rows without the time of the fix, or without any other time, are skipped.

    Raises
    ------
    ClockError
        If there are too few rows.
    """
    read, fix = position["time_ns"], position["fix_time_ns"]
    known = (read != NOT_A_TIME) & (fix != NOT_A_TIME) & (read != fix)
    return [one_way_estimate(read[known], fix[known], method=GPS_TIME, delay_ns=LONGEST_DELAY_NS, tick_ns=NS_PER_MS)]


# The clock behind a host's TCP timestamps (RFC 7323, section 5.4), seen at a capture point.
#
# Timestamps tick at a rate of their own, usually 1, 10, 100, 250 or 1000 Hz, from an origin that may differ
# for each connection. The slope of their values over the capture's clock is the skew of the two (Kohno,
# Broido and Claffy, "Remote physical device fingerprinting", 2005).


TCP_TIMESTAMPS = "TCP timestamps"
TYPICAL_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""Typical rates of timestamp clocks, Hz: RFC 7323, 5.4 allows 1 to 1000; most are the HZ of a kernel."""
_NEAR = 0.02
"""Maximum relative distance of a measured rate from its nominal one."""


def relate_timestamps(capture: CaptureTables, flow: int, *, delay_ns: float = 0.0) -> list[Estimate]:
    """Return the relation of a sender's timestamp clock to the capture's, in ns since the first value.

    Parameters
    ----------
    capture : CaptureTables
        Its clock is `from`.
    flow : int
        One direction of a connection, as in the column `flow` of its segments: 2 x row in flows + direction.
    delay_ns : float
        The unknown part of the minimum delay from the sender to the capture point; 0 at the sender.

    Raises
    ------
    ClockError
        If there are too few timestamps, or their rate is not a typical one.
    """
    segments = capture.segments
    mine = (segments["flow"] == flow) & (segments["marks"] & CaptureMark.HAS_TIMESTAMPS > 0)
    rows = np.flatnonzero(mine & (segments["flags"] & (Flag.SYN | Flag.RST) == 0))
    if len(rows) < MIN_STAMPS:
        raise ClockError(
            f"{TCP_TIMESTAMPS}: cannot determine the clock offset, because {len(rows)} segments with "
            "timestamps are too few; what would help: a longer connection, or the timestamps option "
            "enabled"
        )
    time = segments["time_ns"][rows]
    ticks = np.cumsum(
        np.diff(segments["tsval"][rows], prepend=segments["tsval"][rows][:1]).view(np.int32), dtype=np.int64
    )
    rate = _rate(time, ticks)
    return [
        one_way_estimate(
            time, ticks * (NS_PER_S // rate), method=TCP_TIMESTAMPS, delay_ns=delay_ns, tick_ns=NS_PER_S / rate
        )
    ]


def _rate(time_ns: Array, ticks: Array) -> int:
    """Return the typical timestamp rate nearest to the measured one of the connection, Hz."""
    span = int(time_ns[-1] - time_ns[0])
    measured = int(ticks[-1] - ticks[0]) * NS_PER_S / span if span > 0 else 0.0
    nearest = min(TYPICAL_RATES_HZ, key=lambda typical: abs(measured / typical - 1))
    if abs(measured / nearest - 1) > _NEAR + 2 / max(1, int(ticks[-1])):
        raise ClockError(
            f"{TCP_TIMESTAMPS}: cannot determine the clock offset, because the timestamps tick at "
            f"{measured:.4g} Hz, which is not a typical rate; what would help: a longer connection"
        )
    return nearest


# Free-running clocks: those of TCP timestamps and of modems, each related to its host.
#
# They count from an origin of their own, so that only their rate and their steps tell anything.


_MODEM = "the modem's clock"


def free_running_clocks(
    source: LogSource, captures: Mapping[str, CaptureTables], sender: str, refused: list[str]
) -> Iterator[Relation]:
    """Yield the relations of timestamp, GPS and modem clocks, from captures and radio logs of their hosts.

    Parameters
    ----------
    source : LogSource
        The logs of a session folder; for separate files the host is unknown.
    captures : mapping of str to Capture
        The capture of each host.
    sender : str
        The host that sends most data.
    refused : list of str
        A sentence is appended for each clock that exists but cannot be related.
    """
    for host, capture in captures.items():
        flow = _own_flow(capture, is_sender=host == sender)
        if flow is not None:
            yield from _one(host, "tsval", partial(relate_timestamps, capture, flow), refused)
    for log, tables in source.logs("radio"):
        if (radio := tables.get("radio")) is not None and np.isfinite(radio["modem_clock_s"]).any():
            yield from _one(log.host, "modem", partial(_of_modem, radio), refused)


def _one(host: str, domain: str, estimator: Callable[[], list[Estimate]], refused: list[str]) -> Iterator[Relation]:
    try:
        estimates = tuple(replace(estimate, points=None) for estimate in estimator())
    except ClockError as error:
        refused.append(f"{host} and {host}:{domain}: {error}")
    else:
        yield Relation(Clock(host), Clock(host, domain), estimates)


def _own_flow(capture: CaptureTables, *, is_sender: bool) -> int | None:
    """Return the flow of the segments that the host itself sent in its largest connection.

    It is None if these segments have no timestamps.
    """
    segments = capture.segments
    if not len(segments):
        return None
    bulk = int(np.argmax(np.bincount(segments["flow"], weights=segments["payload_bytes"])))
    flow = bulk if is_sender else bulk ^ 1
    stamped = (segments["flow"] == flow) & (segments["marks"] & CaptureMark.HAS_TIMESTAMPS > 0)
    return flow if np.count_nonzero(stamped) > MIN_STAMPS else None


def _of_modem(radio: Table) -> list[Estimate]:
    known = np.isfinite(radio["modem_clock_s"])
    stamps_ns = np.round(radio["modem_clock_s"][known] * NS_PER_S).astype(np.int64)
    waited_ns = radio["answered_ns"][known] - radio["asked_ns"][known]
    delay_ns = float(np.median(waited_ns)) if len(waited_ns) else 0.0
    return [one_way_estimate(radio["time_ns"][known], stamps_ns, method=_MODEM, delay_ns=delay_ns, tick_ns=NS_PER_S)]
