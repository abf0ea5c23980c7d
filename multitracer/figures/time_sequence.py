"""The time/sequence figure of one direction, with flight, RTT and throughput on the same time axis.

docs/figures.md and paper 004, section 4.4, explain how to read the figure. The module defines, in this order:
the panels; the series of sequence numbers and flight; the series of RTTs, reconstructed timers and rates; and
the figure of a connection for `multitracer plot` and notebooks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.analysis.parallel import in_parallel
from multitracer.analysis.series.rtt import Provenance, reconstruct_rto
from multitracer.analysis.series.throughput import default_window_ns, delivered, goodput, throughput
from multitracer.captured import Flag
from multitracer.figures.direction import FigureDirection
from multitracer.figures.series import Series, in_order, thin
from multitracer.figures.stack import BIT_RATE, BYTES, SECONDS, Panel, plain_figure
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S, NS_PER_US
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.recording.capture import Capture
    from multitracer.tables import Table


def time_sequence(
    direction: FigureDirection,
    *,
    origin_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the time/sequence figure of one direction of a connection.

    Parameters
    ----------
    direction : FigureDirection
        For example ``FigureDirection.of(analysis, 1)``.
    origin_ns : int, optional
        Time at 0 s of the axis; by default the time of the connection's first segment.
    from_ns, to_ns : int, optional
        Draw only this interval, both ends included; points are thinned for this interval.
    theme : "light" or "dark"

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, thinned by M4 to the resolution of a screen. It contains all retransmissions, SACKs, zero
        windows and resets, unless there are more than `series.RARE_LIMIT` of a kind.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    plain = plain_time_sequence(direction, origin_ns=origin_ns, from_ns=from_ns, to_ns=to_ns, theme=theme)
    return go.Figure(plain)


def plain_time_sequence(
    direction: FigureDirection,
    *,
    origin_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    theme: ThemeName = "light",
) -> Props:
    """Return the figure as a dict in plotly's format; the parameters are those of `time_sequence`."""
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


_OUTSIDE = "All {} of it lie outside the chosen interval: choose a longer one with --from and --to."


def cut(panels: list[Panel], from_ns: int | None, to_ns: int | None) -> list[Panel]:
    """Return the panels with only the points of an interval, both ends included; None: unbounded.

    Panels of states have the part of each state that is in the interval.
    """
    return [
        replace(
            panel,
            series=[(each.states_between if panel.shades else each.between)(from_ns, to_ns) for each in panel.series],
            empty=_OUTSIDE.format(count(sum(map(len, panel.drawn)), "point")) if panel.drawn else panel.empty,
        )
        for panel in panels
    ]


def time_sequence_panels(
    direction: FigureDirection, *, speed: float = 1, kept: Callable[[Series], Series] | None = None
) -> list[Panel]:
    """Return the panels of the figure, in recorded time.

    Parameters
    ----------
    direction : FigureDirection
    speed : float
        Speed of the recorded link, for the title with the averaging time of the throughput.
    kept : callable, optional
        Function that thins each series; by default all points are kept.
    """
    timed = direction.segments["time_ns"] != NOT_A_TIME
    segments = direction.segments if timed.all() else direction.segments.take(timed)
    window_ns = _rate_window_ns(segments, reverse=direction.reverse)
    makers: list[Callable[[FigureDirection], list[Series]]] = [
        partial(_rate_series, segments=segments, window_ns=window_ns),
        _flight_series,
        _sequence_series,
        _round_trip_series,
    ]
    jobs = [partial(_made, maker, direction, kept) for maker in makers]  # the longest first
    rates, flight, sequence, round_trips = in_parallel(jobs, rows=len(direction.segments))
    read = f"Of {count(len(direction.segments), 'segment')} read"
    other = "draw the other direction, or another connection."
    no_segment = f"{read}, none of this direction has a time and a sequence number: {other}"
    no_flight = f"{read}, none was sent in this direction, and none advertised a window for it: {other}"
    if direction.vantage == Vantage.NEAR_RECEIVER:
        no_rtt = "Captured near the receiver, where a round trip is its own delay: capture at the sender, too."
    elif not direction.acks.any():
        no_rtt = f"{read}, none is an ACK of this direction: capture both directions."
    else:
        acks = count(int(direction.acks.sum()), "ACK")
        no_rtt = f"Of {acks}, none ends exactly at a segment that was sent once: a longer capture may hold one."
    shown_ns = round(window_ns * speed)
    units = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))
    averaged = next((f"{shown_ns // ns} {unit}" for ns, unit in units if shown_ns >= ns), "0 ns")
    throughput = f"Throughput, averaged over {averaged}"
    return [
        Panel("sequence", "Time / sequence", BYTES, 3.2, sequence, no_segment, from_zero=False),
        Panel("flight", "Flight and window", BYTES, 1.2, flight, no_flight),
        Panel("rtt", "Round-trip time", SECONDS, 1.2, round_trips, no_rtt),
        Panel("throughput", throughput, BIT_RATE, 1.2, rates, f"{read}, none of this direction carries data: {other}"),
    ]


def _made(
    maker: Callable[[FigureDirection], list[Series]],
    direction: FigureDirection,
    kept: Callable[[Series], Series] | None,
) -> list[Series]:
    return [series if kept is None else kept(series) for series in maker(direction)]


_NOT_PLAIN_DATA = (
    SegmentKind.RETRANSMISSION
    | SegmentKind.OUT_OF_ORDER
    | SegmentKind.CAPTURE_DUPLICATE
    | SegmentKind.ZERO_WINDOW_PROBE
    | SegmentKind.KEEP_ALIVE
)


def _sequence_series(direction: FigureDirection) -> list[Series]:
    """Return the series of the time/sequence panel, in bytes, including empty ones."""
    sent, acks, has, columns = direction.sent, direction.acks, direction.has, direction.segments
    flags, first_byte, next_expected = columns["flags"], columns["seq_bytes"], columns["ack_bytes"]
    edge = next_expected + np.maximum(columns["window_bytes"], 0)
    height = np.where(sent, first_byte, np.maximum(next_expected, 0))
    payload = sent & (columns["payload_bytes"] > 0)
    copies = sent & has(SegmentKind.RETRANSMISSION) & ~has(SegmentKind.CAPTURE_DUPLICATE)
    probes = sent & has(SegmentKind.ZERO_WINDOW_PROBE | SegmentKind.KEEP_ALIVE)
    resets = (flags & Flag.RST) != 0
    handshake = ((flags & (Flag.SYN | Flag.FIN)) != 0) & ~resets

    series, event = direction.series, partial(direction.series, rare=True)
    window = series("rwnd", "window_edge", acks, edge, doc="end of the advertised receive window")
    return [
        replace(window, bound=True),
        series("ack", "ack", acks, next_expected, doc="next byte the receiver expects"),
        event(
            "dupack", "duplicate_ack", acks & has(SegmentKind.DUPLICATE_ACK), next_expected,
            doc="duplicate ACK (RFC 5681)",
        ),
        *_sack(direction),
        series(
            "data", "data", payload & ~has(_NOT_PLAIN_DATA), first_byte,
            doc="first byte of each data segment",
        ),
        event(
            "rexmt", "retransmission", copies, first_byte,
            doc="first byte of each segment of which a unit was sent before",
        ),
        event(
            "ooo", "out_of_order", sent & has(SegmentKind.OUT_OF_ORDER), first_byte,
            doc="segment that fills a hole below the highest byte seen",
        ),
        event(
            "dup", "capture_duplicate", sent & has(SegmentKind.CAPTURE_DUPLICATE), first_byte,
            doc="the same packet captured twice; not a retransmission",
        ),
        event(
            "zero_window", "zero_window", acks & has(SegmentKind.ZERO_WINDOW), height,
            doc="a window of 0 is offered",
        ),
        event("probe", "probe", probes, height, doc="zero-window probe or keep-alive"),
        event("syn_fin", "handshake", handshake, height, doc="SYN or FIN, either way"),
        event("rst", "reset", resets, height, doc="RST, either way"),
    ]  # fmt: skip


def _sack(direction: FigureDirection) -> list[Series]:
    """Return the SACK blocks that the receiver sent: bars from first byte to the byte after the last."""
    row = direction.sack_blocks["row"]
    mine = direction.acks[row]
    blocks = direction.sack_blocks.take(mine)
    columns = direction.segments.take(row[mine])
    bars = Series(
        f"{direction.prefix}_sack",
        "sack",
        columns["time_ns"],
        blocks["left_bytes"],
        until=blocks["right_bytes"],
        frame=columns["frame"],
        file=columns["file"],
        rare=True,
        doc="bytes beyond a hole that the receiver reports to have (RFC 2018)",
    )
    twice = replace(
        bars,
        label=f"{direction.prefix}_dsack",
        role="dsack",
        until=None,
        doc="bytes that arrived twice, as the receiver reports (RFC 2883)",
    )
    return [in_order(bars.take(~blocks["dsack"])), in_order(twice.take(blocks["dsack"]))]


def _flight_series(direction: FigureDirection) -> list[Series]:
    """Return the series of outstanding bytes, with and without SACKed bytes, and of the advertised window."""
    columns, series, acks = direction.segments, direction.series, direction.acks
    occupies = columns["end_bytes"] > columns["seq_bytes"]
    rows = (direction.sent & occupies) | (acks & ~occupies)
    flight, less_sacked = columns["flight_bytes"], columns["flight_sack_bytes"]
    sacked = rows if bool(np.any(flight[rows] != less_sacked[rows])) else np.zeros_like(rows)
    window = series("rwnd", "window", acks, columns["window_bytes"], doc="window the receiver advertises")
    return [
        replace(window, bound=True),
        series("flight_sack", "flight_sack", sacked, less_sacked, doc="outstanding bytes minus SACKed bytes"),
        series("flight", "flight", rows, flight, doc="highest byte sent minus highest ACK"),
    ]


_RATE_WINDOWS, _FEWEST_WINDOWS = 400, 10
"""Maximum and minimum number of rate windows in a connection."""
_LONGEST_WINDOW_NS = 10**17
"""Maximum rate window in ns (three years), for captures with wrong times."""
_PROVENANCES = (
    (Provenance.TIMESTAMP, "rtt_timestamp", "ACK of new data that echoes the segment's timestamp (RFC 7323)"),
    (Provenance.SACK, "rtt_sack", "SACK block that names the segment (RFC 2018)"),
    (Provenance.EXACT_ACK, "rtt", "ACK that ends exactly at a segment sent once (Karn's rule)"),
)


def _round_trip_series(direction: FigureDirection) -> list[Series]:
    """Return the series of RTT samples (at the capture time of the ACK), SRTT and RTO, in ns.

    SRTT and RTO are computed from the samples by RFC 6298; they are not the sender's own values. For a
    capture near the receiver, these two series are empty.
    """
    if direction.vantage == Vantage.NEAR_RECEIVER:
        return []
    own = direction.rtt_samples.take(direction.rtt_samples["reverse"] == direction.reverse)
    frames, files, drawn = direction.segments["frame"], direction.segments["file"], []
    for provenance, name, doc in _PROVENANCES:
        samples = own.take(own["provenance"] == provenance)
        series = Series(
            f"{direction.prefix}_{name}",
            name,
            samples["time_ns"],
            samples["rtt_ns"],
            frame=frames[samples["row"]],
            file=files[samples["row"]],
            answer=frames[samples["answer_row"]],
            doc=doc,
        )
        drawn.append(in_order(series))
    # of each ACK one sample, as Linux takes them: exact, else by SACK, else by timestamp
    rank = np.array([0, 2, 1])[own["provenance"]]
    order = np.lexsort((rank, own["answer_row"]))
    answers = own["answer_row"][order]
    states = reconstruct_rto(own.take(order[np.append(True, answers[1:] != answers[:-1])[: len(order)]]))
    timers = (("srtt", "smoothed round-trip time"), ("rto", "retransmission timeout")) if len(states) else ()
    for name, doc in timers:
        series = Series(
            f"{direction.prefix}_{name} (reconstructed)",
            name,
            states["time_ns"],
            np.rint(states[f"{name}_ns"]).astype(np.int64),
            bound=name == "rto",
            doc=f"{doc}, reconstructed by RFC 6298 from the samples; not the sender's own value",
        )
        drawn.append(in_order(series))
    return drawn


def _rate_series(direction: FigureDirection, *, segments: Table, window_ns: int) -> list[Series]:
    """Return moving averages in bit/s: goodput and, if it is unknown or differs, throughput.

    Near the receiver, goodput counts the data that arrived; elsewhere, the acknowledged data. `segments` are
    the segments of the direction that have a time.
    """
    drawn: list[Series] = []
    got_through = (delivered, "payload that ACKs and SACK blocks report, each byte once, when they arrived")
    if direction.vantage == Vantage.NEAR_RECEIVER:
        got_through = (goodput, "payload that arrived, each byte once")
    has_copies = bool(np.any(direction.sent & direction.has(SegmentKind.RETRANSMISSION)))
    for name, (rate_of, doc) in (
        ("goodput", got_through),
        ("throughput", (throughput, "captured payload bytes, retransmissions included")),
    ):
        if name == "throughput" and not has_copies and len(drawn[0]):
            break
        rates = rate_of(segments, reverse=direction.reverse, window_ns=window_ns)
        bits = rates["bytes_per_s"] * BITS_PER_BYTE
        bits = np.rint(bits, out=bits).astype(np.int64)
        series = Series(f"{direction.prefix}_{name}", name, rates["time_ns"], bits, doc=doc)
        drawn.insert(0, series.between(None, int(segments["time_ns"].max())) if len(series) else series)
    return drawn


def _rate_window_ns(segments: Table, *, reverse: bool) -> int:
    """Return the averaging window of the rates in ns: the time of 16 segments, limited by the resolution.

    The window is 1, 2 or 5 times a power of ten (see docs/figures.md).
    """
    times = segments["time_ns"]
    span = int(times.max()) - int(times.min()) if len(times) else 0
    minimum = max(default_window_ns(segments, reverse=reverse), span // _RATE_WINDOWS)
    minimum = max(min(minimum, span // _FEWEST_WINDOWS, _LONGEST_WINDOW_NS), 1)
    power = 10 ** (len(str(minimum)) - 1)
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= minimum))


def connection_figure(
    capture: Capture, connection: int, *, reverse: bool | None = None, theme: ThemeName = "light"
) -> go.Figure:
    """Return the time/sequence figure of one connection; 0 s is the time of the capture's first packet.

    Parameters
    ----------
    capture : Capture
        The capture and its analysis.
    connection : int
        Number of the connection in the capture, from 1.
    reverse : bool, optional
        False draws the data of the initiator, True those of the responder; by default the direction with more
        unique bytes.
    theme : "light" or "dark"
    """
    direction = FigureDirection.of(capture.analysis, connection, reverse=reverse)
    return time_sequence(direction, origin_ns=capture.tables.first_ns, theme=theme)


def plain_connection_figure(
    capture: Capture,
    connection: int,
    *,
    reverse: bool | None = None,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    theme: ThemeName = "light",
) -> Props:
    """Return the figure of `connection_figure` as a dict in plotly's format.

    Parameters
    ----------
    begin_ns, end_ns : int, optional
        Draw only points with begin <= time < end; they are thinned for this interval.

    Other parameters are those of `connection_figure`.
    """
    direction = FigureDirection.of(capture.analysis, connection, reverse=reverse)
    capture.analysis.forget()  # as much again as the direction takes
    return plain_time_sequence(
        direction,
        origin_ns=capture.tables.first_ns,
        from_ns=begin_ns,
        to_ns=None if end_ns is None else end_ns - 1,
        theme=theme,
    )
