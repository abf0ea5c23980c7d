"""Which panel shows what limited a transfer, and that panel with its legend in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.series import Series
from multitracer.figures.stack import SECONDS, Panel, value_range
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import cause
from multitracer.report.screen.known_cause import known_cause, legend_of
from multitracer.report.screen.limit_rows import clock_shift_ns
from multitracer.report.screen.lost_run import lost_run
from multitracer.report.screen.rows import row
from multitracer.report.screen.still import still, swatch
from multitracer.words import duration

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.limits.group import Stage
    from multitracer.report.screen.time_axis import TimeAxis

_OF_LIMIT = {
    Limit.LINK: ("rtt", "delay", "throughput"),
    Limit.OUTAGE: ("sequence",),
    Limit.RECOVERY: ("sequence",),
    Limit.HANDSHAKE: ("sequence",),
    Limit.RECEIVER_WINDOW: ("flight",),
    Limit.SENDER_BUFFER: ("flight",),
    Limit.CONGESTION_WINDOW: ("flight",),
    Limit.SLOW_START: ("flight",),
    Limit.APPLICATION: ("sequence",),
    Limit.UNKNOWN: ("throughput",),
}
"""The panels that show a limit, the best one first."""
_OF_KIND = {
    "policer": ("throughput",),
    "radio-limited": ("radio_power", "radio_quality"),
    "dropped-call": ("radio_power",),
    "random-loss": ("sequence",),
    "congestion-loss": ("sequence",),
    "link-limited": ("throughput",),
}
"""Those of the incident that explains the limit: they go before."""
_OTHERWISE = ("throughput", "sequence")
_NONE = np.iinfo(np.int64).max
"""Above every edge: of a series that draws nothing."""
_MOST_LANES = 6
"""Connections with a lane on the first screen; the details have more."""
_MOST_STAGES = 2_000
"""Bars of a lane: beyond two in a pixel it is no picture."""


class _Look(NamedTuple):
    """How a panel is drawn on the first screen."""

    says: str
    words: dict[str, str]
    """What each role is called, in the order of drawing."""


_LOOKS = {
    "rtt": _Look(
        "Round-trip time: how long until each segment was acknowledged",
        {"rtt": "round trip"},
    ),
    "delay": _Look("The queue: delay of each segment above the least, when it left", {"rtt": "queue"}),
    "flight": _Look(
        "What was in flight, below the windows that held it",
        {"window": "window offered", "cwnd": "congestion window", "flight": "in flight"},
    ),
    "sequence": _Look(
        "Bytes sent and acknowledged: level where nothing moved",
        {"data": "sent", "ack": "acknowledged", "retransmission": "sent again",
         "out_of_order": "filled a hole", "zero_window": "window closed", "reset": "reset"},
    ),
    "throughput": _Look("The rate that got through", {"throughput": "sent", "goodput": "got through"}),
    "radio_power": _Look(
        "Received power",
        {"radio_rsrp": "RSRP", "radio_rscp": "RSCP", "radio_rssi": "RSSI", "zero_level": "no signal"},
    ),
    "radio_quality": _Look(
        "Signal quality", {"radio_rsrq": "RSRQ", "radio_sinr": "SINR", "radio_ecio": "Ec/Io"}
    ),
}  # fmt: skip


def culprit_rows(diagnosis: Diagnosis, panels: list[Panel], axis: TimeAxis) -> list[Markup]:
    """Return the row of the panel that shows the largest limit; empty if no panel can be drawn."""
    drawn = [*map(_in_one_look, panels), *_delay(diagnosis, axis)]
    there = {panel.key: panel for panel in drawn if _roles(panel)}
    lost = ("sequence",) if lost_run(diagnosis) else ()
    names = [*lost, *_of_cause(diagnosis), *_OF_LIMIT[diagnosis.headline.limit], *_OTHERWISE]
    panel = next((there[name] for name in names if name in there), None)
    if panel is None:
        return _requests(diagnosis, axis)
    look, roles, known = _LOOKS[panel.key], _in_sight(panel), known_cause(diagnosis, panel.key)
    levels, picture = still(panel, axis, roles, label=look.says, known=known)
    legend = [element("li", swatch(role), look.words[role], title=_label(panel, role)) for role in roles]
    words = element("ul", legend, legend_of(known, picture), class_="words")
    title = row("", element("strong", look.says), "", kind="title")
    figure = row(levels, picture, words, kind="culprit")
    return [*_requests(diagnosis, axis), *title, *figure]


def _requests(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return the chain of requests as rows, where the application was the limit; else nothing."""
    if diagnosis.headline.limit is not Limit.APPLICATION:
        return []
    shift = clock_shift_ns(diagnosis)
    rows: dict[int, list[Stage]] = {}
    for each in diagnosis.group.chain:
        rows.setdefault(each.connection, []).append(each)
    return [
        cell
        for number, stages in list(rows.items())[:_MOST_LANES]
        for cell in _lane(number, stages, axis, shift)
    ]


def _lane(number: int, stages: list[Stage], axis: TimeAxis, shift_ns: int) -> list[Markup]:
    """Return what one connection did, each stage as a bar of its own look."""
    bars = [
        element(
            "i",
            class_=each.stage,
            style=axis.style(each.begin_ns - shift_ns, each.end_ns - shift_ns),
            title=f"{each.stage} {duration((each.end_ns - each.begin_ns) * axis.speed)}",
        )
        for each in stages[:_MOST_STAGES]
    ]
    sums: dict[str, int] = {}
    for each in stages:
        sums[each.stage] = sums.get(each.stage, 0) + each.end_ns - each.begin_ns
    order = sorted(sums, key=lambda stage: -sums[stage])
    key = [
        [element("i", class_=f"key {stage}"), f"{stage} {duration(sums[stage] * axis.speed)} "]
        for stage in order[:2]
    ]
    label = f"connection {number}: {', '.join(order)}"
    return row(
        f"connection {number}", element("div", bars, class_="bars stages", role="img", aria_label=label), key
    )


def _of_cause(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the panels of the incident that explains the limit."""
    first = cause(diagnosis)
    return () if first is None else _OF_KIND.get(first.kind, ())


def _roles(panel: Panel) -> tuple[str, ...]:
    """Return the roles of a panel that the first screen draws, in its order."""
    look = _LOOKS.get(panel.key)
    drawn = {series.role for series in panel.drawn}
    return tuple(role for role in look.words if role in drawn) if look else ()


def _in_sight(panel: Panel) -> tuple[str, ...]:
    """Return those roles of which something lies below the upper edge: a bound far above is not drawn."""
    roles = _roles(panel)
    ends = value_range(replace(panel, series=[each for each in panel.drawn if each.role in roles]))
    low = {each.role: each.value[each.is_drawn].min(initial=_NONE) * panel.unit.scale for each in panel.drawn}
    return tuple(role for role in roles if ends is None or low[role] <= ends[1])


def _in_one_look(panel: Panel) -> Panel:
    """Return a panel in which round trips look alike, whichever way they were measured."""
    series = [replace(each, role="rtt") if each.role.startswith("rtt_") else each for each in panel.series]
    return replace(panel, series=series)


def _label(panel: Panel, role: str) -> str:
    """Return the label that the paper and the exports use."""
    return next(series.label for series in panel.drawn if series.role == role)


def _delay(diagnosis: Diagnosis, axis: TimeAxis) -> list[Panel]:
    """Return the queue that each segment met, one way, when it left it; empty where no capture shows it.

    At the time of sending the picture would have a hole where the sender waits for a queue that empties.
    """
    seen = diagnosis.limited.seen
    if seen is None or not len(seen.delays.time_ns):
        return []
    delays, speed = seen.delays, diagnosis.transfer.speed
    least = int(delays.way_ns.min())
    left_ns = delays.time_ns + delays.way_ns - least
    time_ns = axis.origin_ns + np.rint((left_ns - axis.origin_ns) * speed).astype(np.int64)
    queue_ns = np.rint((delays.way_ns - least) * speed).astype(np.int64)
    series = Series("queue", "rtt", time_ns, queue_ns, doc="delay of a segment above the least")
    return [Panel("delay", "Delay above the least", SECONDS, 1, [series])]
