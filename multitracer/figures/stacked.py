"""The stacked figure: captures of both endpoints, variables of the sender, and the link over one time axis.

Paper 004, sections 4.4 and 4.5; how to read it: docs/figures.md. It contains the complete time/sequence figure and, if
they were recorded, the series of the receiver, the variables and phases of the sender, and the series of the link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.sender_state import TcpPhase
from multitracer.analysis.series.labelled import stretched
from multitracer.errors import InputError
from multitracer.figures.direction import FigureDirection
from multitracer.figures.environment import radio_context_panels
from multitracer.figures.link_panels import (
    LINK_RARE,
    LINK_RESETS,
    LINK_ROLES,
    LINK_UNASKED,
    axis_title,
    in_link_time,
    place_in_link_time,
    recorded_series,
    time_error_band,
)
from multitracer.figures.marks import FigureMark, Fit, add_trends, with_marks
from multitracer.figures.panels import further_panels
from multitracer.figures.series import BREAK, TREND_ROLES, Series, thin
from multitracer.figures.stack import Panel, Unit, axis_origin_ns, figure
from multitracer.figures.time_sequence import cut, time_sequence_panels
from multitracer.figures.zooms import NamedInterval, places, with_presets
from multitracer.schemas.tcp import Vantage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.recording.transfer import Transfer

OFFSET_BYTES = 10_000
"""Default vertical offset between the series of link, sender and receiver (paper 004, section 4.5)."""

_HEIGHT_PX = 1050
_MIN_PX = 420
_COMPLETE_SHARE = 0.22 + 3.2 + 1.6 + 1.2 + 1.2
"""Sum of the shares of all panels; with this sum, the figure is `_HEIGHT_PX` high."""
_NO_SCALE = Unit(1, "", "")
_RECEIVER = {"TcpRcv_data": "received", "TcpRcv_ack": "receiver_ack"}
_VARIABLES = {
    "TcpSnd_cwnd": ("flight", "cwnd"),
    "TcpSnd_ssthresh": ("flight", "ssthresh"),
    "TcpSnd_srtt": ("rtt", "srtt"),
    "TcpSnd_rto": ("rtt", "rto"),
}
"""Panel and role of each variable of the sender."""
_PLACES = {TcpPhase.LOSS: "timeout", TcpPhase.RECOVERY: "recovery"}


@dataclass(frozen=True, slots=True)
class StackedView:
    """The part of the figure to draw; times are ns since 1970 in link time.

    Parameters
    ----------
    from_ns, to_ns : int, optional
        Draw only this interval, both ends included; trendlines are fitted to it.
    offset_bytes : int
        Vertical offset between groups of series: the link above the sender, the receiver below; none if
        `labels` name series of one group.
    labels : sequence of str
        Draw only series whose labels match one of these patterns; empty: the default series.
    fits : sequence of Fit
        Trendlines to draw instead of the default, one through each group. With `labels`, there is no default.
    marks : sequence of FigureMark
        Intervals to frame.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    offset_bytes: int = OFFSET_BYTES
    labels: Sequence[str] = ()
    fits: Sequence[Fit] = ()
    marks: Sequence[FigureMark] = ()


WHOLE: StackedView = StackedView()
"""A view of all default series."""


def stacked(
    transfer: Transfer,
    view: StackedView = WHOLE,
    *,
    panels: list[Panel] | None = None,
    origin_ns: int | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the stacked figure of one direction of a connection.

    Parameters
    ----------
    transfer : Transfer
        The connection in the logs of the recording.
    view : StackedView
    panels : list of Panel, optional
        Panels of this view, if the caller already has them; the function thins them in place.
    origin_ns : int, optional
        Time at 0 s of the axis; by default the time of the sender's first packet.
    theme : "light" or "dark"

    Returns
    -------
    plotly.graph_objects.Figure
        The figure, with buttons that zoom to notable intervals.

    Raises
    ------
    InputError
        If no series has a requested label, or no line can be fitted.
    """
    if origin_ns is None:
        origin_ns = axis_origin_ns(transfer.at_sender.capture)
    if panels is None:
        panels = stacked_panels(transfer, view)
    for panel in panels:
        panel.series[:] = [thin(series) for series in panel.series]
    share = sum(panel.share for panel in panels) / _COMPLETE_SHARE
    drawn = figure(panels, origin_ns=origin_ns, theme=theme, height_px=max(_MIN_PX, round(_HEIGHT_PX * share)))
    drawn.update_xaxes(title_text=axis_title(transfer.speed))
    with_marks(drawn, panels, view.marks, origin_ns=origin_ns, theme=theme)
    worth = [place for place in stacked_places(transfer) if place.meets(view.from_ns, view.to_ns)]
    return with_presets(drawn, worth, origin_ns=origin_ns, theme=theme)


def stacked_panels(transfer: Transfer, view: StackedView = WHOLE) -> list[Panel]:
    """Return the panels of the figure with all points of every series of a view, in link time.

    Raises
    ------
    InputError
        As in `stacked`.
    """
    origin_ns, speed = axis_origin_ns(transfer.at_sender.capture), transfer.speed
    sent, reverse = transfer.at_sender, transfer.reverse
    direction = FigureDirection.of(sent.capture.analysis, sent.connection, reverse=reverse, vantage=transfer.vantage)
    phase, sequence, flight, *others = [_phase_panel(transfer), *time_sequence_panels(direction, speed=speed)]
    # the link's series stand below TCP's marks, the receiver's above them
    offset = _offset_bytes(view, {*LINK_ROLES, *_RECEIVER, *(each.label for each in sequence.drawn)})
    roles = {label: role for label, role in LINK_ROLES.items() if view.labels or label in LINK_UNASKED}
    link = recorded_series(transfer.link, roles, " (rlpdump)", shift_bytes=offset, rare=LINK_RARE)
    sequence.series[:0] = link
    if transfer.vantage is not Vantage.NEAR_RECEIVER and transfer.clock:
        source = f" (receiver's capture; {transfer.clock.sentence})"
        received = recorded_series(transfer.receiver_series(), _RECEIVER, source, shift_bytes=-offset)
        band = time_error_band(received[0], transfer.clock) if received else None
        sequence.series.extend([band, *received] if band else received)
    if transfer.without_link:
        sequence = replace(sequence, title=f"{sequence.title} (without the link: {transfer.without_link})")
    window_title = "Windows and flight"
    if not transfer.has_state:
        window_title = "Flight and window (no congestion window: the sender's state was not recorded)"
    recorded = [sequence, replace(flight, title=window_title, share=1.6), *others]
    for label, table in transfer.state_series().items():  # they take the place of what was reconstructed
        key, role = _VARIABLES[label]
        panel = next(each for each in recorded if each.key == key)
        source = f", the sender's own ({table.provenance['source']})"
        [series] = recorded_series({label: table}, {label: role}, source)
        bounded = replace(series, bound=role in {"rto", "ssthresh"})
        panel.series[:] = [*(each for each in panel.series if each.role != role), bounded]
    recorded += radio_context_panels(transfer.radio_context) if transfer.radio_context else []
    recorded += further_panels(transfer)
    in_time = in_link_time(recorded, speed=speed, origin_ns=origin_ns)
    chosen = chosen_panels([phase, *in_time], view.labels)
    # without a request, a line through each group's data; where series were chosen, these would be in the way
    fits = view.fits if view.fits or view.labels else None
    add_trends(chosen, fits, origin_ns=origin_ns, from_ns=view.from_ns, to_ns=view.to_ns)
    if view.labels:  # after the fits, which need the events' own place in the link's stream
        chosen = [replace(panel, series=_on_a_line(panel.drawn)) for panel in chosen]
    return cut(chosen, view.from_ns, view.to_ns)


def _offset_bytes(view: StackedView, known: set[str]) -> int:
    """Return the offset between groups; 0 if the chosen ones of the `known` labels are of one group.

    A link reset counts to no group: it is an event, and is drawn beside whichever curve there is.
    """
    drawn = {label for label in known if any(fnmatchcase(label, pattern) for pattern in view.labels)} - LINK_RESETS
    groups = {label[: len("TcpSnd")] if label.startswith("Tcp") else "Rlp" for label in drawn}
    return 0 if len(groups) == 1 else view.offset_bytes


def chosen_panels(panels: list[Panel], patterns: Sequence[str]) -> list[Panel]:
    """Return the panels with only the series whose labels match one of the patterns.

    Raises
    ------
    InputError
        If no series matches.
    """
    if not patterns:
        return panels
    kept = [
        replace(panel, series=[s for s in panel.drawn if any(fnmatchcase(s.label, p) for p in patterns)])
        for panel in panels
    ]
    kept = [panel for panel in kept if panel.series]
    if not kept:
        there = ", ".join(s.label for panel in panels for s in panel.drawn)
        raise InputError(f"series: the figure has no series named {' or '.join(patterns)}; the series are {there}")
    return kept


def _on_a_line(drawn: list[Series]) -> list[Series]:
    """Return the series with events of the link on the first other one, if the link's own data are not drawn.

    At their place in the link's stream they would stand where nothing else is.
    """
    labels = {series.label for series in drawn}
    lines = (each for each in drawn if each.label not in LINK_ROLES and each.role not in TREND_ROLES)
    line = next((each for each in lines if len(each.time_ns)), None)
    if line is None:
        return drawn
    known = line.value != BREAK
    times, values = line.time_ns[known], line.value[known]

    def placed(series: Series) -> Series:
        if series.label not in LINK_RARE or f"{series.label.partition('_')[0]}_data" in labels or not len(times):
            return series
        at = np.maximum(np.searchsorted(times, series.time_ns, side="right") - 1, 0)
        return replace(series, value=values[at])

    return [placed(series) for series in drawn]


def missing(panels: Sequence[Panel], patterns: Sequence[str]) -> list[str]:
    """Return the patterns that no series of these panels matches."""
    labels = [series.label for panel in panels for series in panel.series]
    return [p for p in patterns if not any(fnmatchcase(label, p) for label in labels)]


def stacked_places(transfer: Transfer) -> list[NamedInterval]:
    """Return the notable intervals in link time, including the first timeout and the first recovery."""
    phases, resets, candidates = transfer.phases, transfer.link.get("RlpSnd_rst"), []
    for phase, key in _PLACES.items():
        rows = np.flatnonzero(phases["phase"] == phase)
        if len(rows):
            begin, end = (int(phases[name][rows[0]]) for name in ("begin_ns", "end_ns"))
            room = max((end - begin) // 2, 1_000)
            candidates.append(NamedInterval(key, begin - room, end + room, end - begin))
    if resets is not None:  # the first one, with what follows it for a tenth of the recording
        times, at = transfer.sender["time_ns"], int(resets["time_ns"][0])
        room = (int(times.max()) - int(times.min())) // 10
        candidates.append(NamedInterval("link_reset", at - room // 4, at + room))
    sent, reverse = transfer.at_sender, transfer.reverse
    direction = FigureDirection.of(sent.capture.analysis, sent.connection, reverse=reverse, vantage=transfer.vantage)
    known, origin_ns = places(direction), axis_origin_ns(sent.capture)
    return [
        place_in_link_time(place, speed=transfer.speed, origin_ns=origin_ns)
        for place in (*known[:1], *candidates, *known[1:])
    ]


_WORDS = {
    TcpPhase.SLOW_START: "cwnd below ssthresh: it doubles every round trip",
    TcpPhase.CONGESTION_AVOIDANCE: "cwnd at ssthresh or above: it grows slowly",
    TcpPhase.REDUCTION: "cwnd shrinks without a loss: ECN, or a drop in the host itself (CWR)",
    TcpPhase.RECOVERY: ("fast retransmit: ACKs reported a hole, and it is repaired while data continue to flow"),
    TcpPhase.LOSS: "the retransmission timer expired; until all sent before is acknowledged",
}


def _phase_panel(transfer: Transfer) -> Panel:
    """Return the panel of the sender's phases; the series of a phase is 1 during the phase, else 0."""
    phases, drawn = transfer.phases, []
    origin_ns, speed = axis_origin_ns(transfer.at_sender.capture), transfer.speed
    for phase in TcpPhase:
        own = phases.take(phases["phase"] == phase)
        begin, end = own["begin_ns"], own["end_ns"]
        if speed != 1:
            begin, end = (stretched(each, speed=speed, origin_ns=origin_ns) for each in (begin, end))
        lasting = end > begin
        times = np.column_stack([begin[lasting], end[lasting]]).ravel()
        ones, name = np.tile([1, 0], len(times) // 2).astype(np.int64), phase.name.lower()
        is_rare = phase != TcpPhase.CONGESTION_AVOIDANCE
        if len(times):
            words = name.replace("_", " ")
            drawn.append(Series(words, name, times, ones, rare=is_rare, doc=_WORDS[phase]))
    how = "as the sender's TCP reported it"
    if not transfer.has_state:
        how = "reconstructed (no sender state was recorded)"
    elif bool(phases["reconstructed"].any()):
        how = "reconstructed (no congestion state was recorded)"
    unknown = "No log of the sender's state was read, and near the receiver its phases do not show: "
    unknown += "record it at the sender with collectors.tcp_info."
    return Panel("phase", f"TCP phase, {how}", _NO_SCALE, 0.22, drawn, unknown, shades=True)
