"""The stacked figure: both ends' captures and the sender's own variables over one time axis.

Paper 004, sections 4.4 and 4.5; how to read it: docs/figures.md. It holds all of the time/sequence figure
and, where they were recorded, the receiver's series, the sender's variables and its phases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.phases import Phase
from multitracer.analysis.trendline import trendline
from multitracer.errors import InputError
from multitracer.figures.direction import Direction
from multitracer.figures.downsample import thin
from multitracer.figures.places import Place, places
from multitracer.figures.presets import with_presets
from multitracer.figures.series import Series, in_order
from multitracer.figures.stack import Panel, Unit, figure
from multitracer.figures.time_sequence import cut, time_sequence_panels
from multitracer.layers import NEAR_RECEIVER

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.layers import Layers
    from multitracer.tables import Table

OFFSET_BYTES = 10_000
"""Between the groups of series of the sender and of the receiver (paper 004, section 4.5)."""

HEIGHT_PX = 1050
_NO_SCALE = Unit(1, "", "")
_RECEIVER = {"TcpRcv_data": "received", "TcpRcv_ack": "receiver_ack"}
_VARIABLES = {
    "TcpSnd_cwnd": ("flight", "cwnd"),
    "TcpSnd_ssthresh": ("flight", "ssthresh"),
    "TcpSnd_srtt": ("rtt", "srtt"),
    "TcpSnd_rto": ("rtt", "rto"),
}
"""The sender's variables: in which panel, in which role."""
_TRENDS = {"data": "TcpSnd_data", "received": "TcpRcv_data"}
_PLACES = {Phase.LOSS: "timeout", Phase.RECOVERY: "recovery"}


def stacked(
    layers: Layers,
    *,
    offset_bytes: int = OFFSET_BYTES,
    origin_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the stacked figure of one direction of a connection.

    Parameters
    ----------
    layers : Layers
        What the recording's logs hold of it.
    offset_bytes : int
        By how much the receiver's series are drawn below the sender's.
    origin_ns : int, optional
        The time that the axis calls 0; the sender's first packet by default.
    from_ns, to_ns : int, optional
        Draw only this interval, both ends included; the trendlines are fitted to it.
    theme : "light" or "dark"

    Returns
    -------
    plotly.graph_objects.Figure
        With buttons that zoom to the places worth a look.
    """
    if origin_ns is None:
        origin_ns = layers.part.capture.first_ns or 0
    panels = stacked_panels(layers, offset_bytes=offset_bytes, from_ns=from_ns, to_ns=to_ns)
    for panel in panels:
        panel.series[:] = [thin(series) for series in panel.series]
    drawn = figure(panels, origin_ns=origin_ns, theme=theme, height_px=HEIGHT_PX)
    worth = [place for place in stacked_places(layers) if place.meets(from_ns, to_ns)]
    return with_presets(drawn, worth, origin_ns=origin_ns, theme=theme)


def stacked_panels(
    layers: Layers,
    *,
    offset_bytes: int = OFFSET_BYTES,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> list[Panel]:
    """Return the panels of the figure with all points of every series of an interval."""
    panels = {panel.key: panel for panel in time_sequence_panels(_direction(layers))}
    if layers.vantage != NEAR_RECEIVER:
        panels["sequence"].series.extend(_at_receiver(layers, offset_bytes))
    _add_variables(panels, layers)
    titled = [replace(panels.pop("flight"), title=_window_title(layers), share=1.6), *panels.values()]
    titled.insert(0, titled.pop(1))
    chosen = cut(titled, from_ns, to_ns)
    chosen[0].series.extend(_trends(chosen[0].series))
    return [_phase_panel(layers, from_ns, to_ns), *chosen]


def stacked_places(layers: Layers) -> list[Place]:
    """Return the places worth a look, the first timeout and the first recovery among them."""
    phases, found = layers.phases(), []
    for phase, key in _PLACES.items():
        rows = np.flatnonzero(phases["phase"] == phase)
        if len(rows):
            begin, end = (int(phases[name][rows[0]]) for name in ("begin_ns", "end_ns"))
            room = max((end - begin) // 2, 1_000)
            found.append(Place(key, begin - room, end + room, end - begin))
    known = places(_direction(layers))
    return [*known[:1], *found, *known[1:]]


def _direction(layers: Layers) -> Direction:
    return Direction.of(layers.part.analysis, layers.connection, reverse=layers.reverse)


def _at_receiver(layers: Layers, offset_bytes: int) -> list[Series]:
    """Return the receiver's series, drawn below the sender's by the offset."""
    lower = f"; drawn {offset_bytes:,} bytes lower" if offset_bytes else ""
    found = []
    for label, table in layers.receiver_series().items():
        doc = f"{table.provenance['doc']} (receiver's capture and clock){lower}"
        found.append(_series(label, _RECEIVER[label], table, doc=doc, shift=-offset_bytes))
    return found


def _add_variables(panels: dict[str, Panel], layers: Layers) -> None:
    """Put the sender's variables into their panels; they take the place of what was reconstructed."""
    for label, table in layers.state_series().items():
        key, role = _VARIABLES[label]
        kept = [series for series in panels[key].series if series.role != role]
        doc = f"{table.provenance['doc']}, the sender's own ({table.provenance['source']})"
        series = _series(label, role, table, doc=doc)
        panels[key].series[:] = [*kept, replace(series, bound=role in {"rto", "ssthresh"})]


def _series(label: str, role: str, table: Table, *, doc: str, shift: int = 0) -> Series:
    value = np.rint(table["value"]).astype(np.int64) + shift
    return in_order(Series(label, role, table["time_ns"], value, doc=doc))


def _window_title(layers: Layers) -> str:
    if layers.has_state:
        return "Windows and flight"
    return "Flight and window (no congestion window: the sender's state was not recorded)"


def _trends(drawn: list[Series]) -> list[Series]:
    """Return a least-squares line through each group's data, its slope in the label."""
    found = []
    for series in drawn:
        if series.role not in _TRENDS or len(series) < 2:
            continue
        try:
            line = trendline(series.time_ns, series.value)
        except InputError:  # all at one time
            continue
        value = np.rint([line.at_begin, line.at(line.end_ns)]).astype(np.int64)
        doc = (
            f"least-squares line through {line.points:,} points of {series.label}; its slope is a throughput"
        )
        label = f"{series.label} trend: {line.slope_per_s:,.0f} B/s"
        found.append(Series(label, "trend", np.array([line.begin_ns, line.end_ns]), value, doc=doc))
    return found


_WORDS = {
    Phase.SLOW_START: "cwnd below ssthresh: it doubles every round trip",
    Phase.CONGESTION_AVOIDANCE: "cwnd at ssthresh or above: it grows slowly",
    Phase.REDUCTION: "cwnd shrinks without a loss: ECN, or a drop in the host itself (CWR)",
    Phase.RECOVERY: "fast retransmit: ACKs told of a hole, and it is repaired while data flows on",
    Phase.LOSS: "the retransmission timer expired; until all sent before is acknowledged",
}


def _phase_panel(layers: Layers, from_ns: int | None, to_ns: int | None) -> Panel:
    phases = layers.phases()
    series = [
        _phase_series(phase, phases, from_ns, to_ns)
        for phase in Phase
        if bool(np.any(phases["phase"] == phase))
    ]
    return Panel(
        "phase",
        f"TCP phase, {_phases_from(layers, phases)}",
        _NO_SCALE,
        0.22,
        [each for each in series if len(each)],
        "Near the receiver a sender's phases cannot be told; record its state with collectors.tcp_info.",
        shades=True,
    )


def _phases_from(layers: Layers, phases: Table) -> str:
    if not layers.has_state:
        return "reconstructed (no sender state was recorded)"
    if bool(phases["reconstructed"].any()):
        return "reconstructed (no congestion state was recorded)"
    return "as the sender's kernel had it"


def _phase_series(phase: Phase, phases: Table, from_ns: int | None, to_ns: int | None) -> Series:
    """Return a series that is 1 during a phase and 0 outside, within the interval."""
    own = phases.take(phases["phase"] == phase)
    begin, end = own["begin_ns"], own["end_ns"]
    begin = begin if from_ns is None else np.maximum(begin, from_ns)
    end = end if to_ns is None else np.minimum(end, to_ns)
    lasting = end > begin
    times = np.column_stack([begin[lasting], end[lasting]]).ravel()
    name = phase.name.lower()
    return Series(
        name.replace("_", " "),
        name,
        times,
        np.tile([1, 0], len(times) // 2).astype(np.int64),
        rare=phase != Phase.CONGESTION_AVOIDANCE,
        doc=_WORDS[phase],
    )
