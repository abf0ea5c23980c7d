"""The time/sequence figure of one direction, with flight, RTT and throughput on the same time axis.

How to read it: docs/figures.md; paper 004, section 4.4.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from multitracer.analysis.parallel import in_parallel
from multitracer.figures.delay_series import rate_series, rate_window_ns, rtt_series, timer_series
from multitracer.figures.downsample import thin
from multitracer.figures.stack import BIT_RATE, BYTES, SECONDS, Panel, plain_figure
from multitracer.figures.tcp_series import flight_series, sequence_series
from multitracer.tables import NOT_A_TIME
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from multitracer.figures.direction import Direction
    from multitracer.figures.palette import Props, ThemeName
    from multitracer.figures.series import Series


def time_sequence(
    direction: Direction,
    *,
    origin_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the time/sequence figure of one direction of a connection.

    Parameters
    ----------
    direction : Direction
        For example ``Direction.of(analysis, 1)``.
    origin_ns : int, optional
        The time that the axis calls 0; the connection's first segment by default.
    from_ns, to_ns : int, optional
        Draw only this interval, thinned for it alone; both ends belong to it.
    theme : "light" or "dark"

    Returns
    -------
    plotly.graph_objects.Figure
        Thinned by M4 to what a screen can show; every retransmission, SACK, zero window and reset is kept as
        long as there are no more than `downsample.RARE_LIMIT` of its kind.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    plain = plain_time_sequence(direction, origin_ns=origin_ns, from_ns=from_ns, to_ns=to_ns, theme=theme)
    return go.Figure(plain)


def plain_time_sequence(
    direction: Direction,
    *,
    origin_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    theme: ThemeName = "light",
) -> Props:
    """Return the figure as the dict that plotly calls one; parameters as of `time_sequence`."""
    if from_ns is None and to_ns is None:
        panels = time_sequence_panels(direction, kept=thin)
    else:
        panels = cut(time_sequence_panels(direction), from_ns, to_ns)
        for panel in panels:
            panel.series[:] = [thin(series) for series in panel.series]
    if origin_ns is None:
        times = direction.segments["time_ns"]
        origin_ns = int(times[times != NOT_A_TIME].min(initial=times.max(initial=0)))
    return plain_figure(panels, origin_ns=origin_ns, theme=theme)


def cut(panels: list[Panel], from_ns: int | None, to_ns: int | None) -> list[Panel]:
    """Return the panels with the points of an interval, both ends included; None is no bound."""
    return [
        replace(
            panel,
            series=[series.between(from_ns, to_ns) for series in panel.series],
            empty="Nothing in the chosen interval of time." if panel.drawn else panel.empty,
        )
        for panel in panels
    ]


def time_sequence_panels(
    direction: Direction, *, speed: float = 1, kept: Callable[[Series], Series] | None = None
) -> list[Panel]:
    """Return the panels of the figure, in recorded time.

    Parameters
    ----------
    direction : Direction
    speed : float
        That of the recorded link, for the title that tells how long throughput is averaged.
    kept : callable, optional
        What is kept of each series; all of its points by default.
    """
    window_ns = rate_window_ns(direction)
    makers: list[Callable[[Direction], list[Series]]] = [
        partial(rate_series, window_ns=window_ns),
        flight_series,
        sequence_series,
        lambda direction: [*rtt_series(direction), *timer_series(direction)],
    ]
    jobs = [partial(_made, maker, direction, kept) for maker in makers]  # the longest first
    rates, flight, sequence, round_trips = in_parallel(jobs, rows=len(direction.segments))
    return [
        Panel(
            "sequence",
            "Time / sequence",
            BYTES,
            3.2,
            sequence,
            "No segment of this direction carries a time and a sequence number.",
            from_zero=False,
        ),
        Panel(
            "flight",
            "Flight and window",
            BYTES,
            1.2,
            flight,
            "Nothing was sent in this direction, and no window was advertised for it.",
        ),
        Panel(
            "rtt",
            "Round-trip time",
            SECONDS,
            1.2,
            round_trips,
            _why_no_rtt(direction),
        ),
        Panel(
            "throughput",
            f"Throughput, averaged over {_duration(round(window_ns * speed))}",
            BIT_RATE,
            1.2,
            rates,
            "No payload in this direction.",
        ),
    ]


def _made(
    maker: Callable[[Direction], list[Series]],
    direction: Direction,
    kept: Callable[[Series], Series] | None,
) -> list[Series]:
    return [series if kept is None else kept(series) for series in maker(direction)]


def _why_no_rtt(direction: Direction) -> str:
    if direction.vantage == Vantage.NEAR_RECEIVER:
        return "Captured near the receiver: its own delay is all that could be measured here."
    if not direction.acks.any():
        return "No ACK of this direction was captured; capture both directions."
    return "No ACK ends exactly at a segment that was sent once (Karn's rule)."


def _duration(ns: int) -> str:
    for unit_ns, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if ns >= unit_ns:
            return f"{ns // unit_ns} {unit}"
    return f"{ns} ns"
