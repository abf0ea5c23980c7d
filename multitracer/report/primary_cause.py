"""Chooses the panel that shows what limited a transfer, and draws it with its legend.

The panel is a static picture without script, as wide as the page. The width of strokes does not change when
the picture is stretched; labels are text of the page outside the picture. A pixel with several points shows
the range from the lowest to the highest value.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.palette import LOOKS
from multitracer.figures.series import Series
from multitracer.figures.stack import BYTES, SECONDS, Panel, value_range
from multitracer.report.cause import NOTHING_KNOWN, cause, known_cause, lost_run
from multitracer.report.markup import Markup, element
from multitracer.report.time_axis import round_step, row
from multitracer.units import NS_PER_S
from multitracer.words import duration, rate, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.group import Stage
    from multitracer.report.cause import KnownCause
    from multitracer.report.time_axis import TimeAxis

_WIDE, _HIGH = 1000, 300
"""Width and height of the picture, in units of about one pixel, so that coordinates are integers."""
_PARTS, _LOW = 60, 20
"""Width and height of a small picture, in its units."""
_TICKS = 5
"""Approximate number of ticks of the value axis; at least three are drawn."""
_EDGE = 2
"""Distance from the edge at which points outside the picture are drawn, in units of the picture."""
_DOT_PX, _EVENT_PX = 4, 6
"""Size in pixels of the largest data dot, and of an event: both size and colour distinguish them."""
_DOT = {"round": "h0", "square": "h.1"}
"""SVG path command that draws a point, by the shape of the line ends."""
_ROOM = 1.05
"""Minimum ratio of the axis maximum to the cause's line, so that the line is below the frame. Not measured."""
_MARK = 16
"""Height of the strokes for losses and ECN marks, in units of the picture."""
_WITH_UNIT: dict[str, Callable[[float], str]] = {
    "s": lambda seconds: duration(seconds * NS_PER_S),
    "B": size,
    "bit/s": rate,
}
"""Functions that format a value with a suitable unit: 120 ms, 1.2 MB."""
_FAR = 2.0
"""Multiple of the 99th percentile above which single samples are cut off at the top. Not measured."""


def static(
    panel: Panel, axis: TimeAxis, roles: tuple[str, ...], *, label: str, known: KnownCause = NOTHING_KNOWN
) -> tuple[Markup, Markup]:
    """Return the labels of a panel's value axis, and its picture.

    Parameters
    ----------
    panel : Panel
        A panel with at least one series of these roles; times in link time.
    axis : TimeAxis
        The time axis of the picture.
    roles : tuple of str
        Roles of the drawn series, the last one on top.
    label : str
        Text alternative of the picture.
    known : KnownCause
        Facts about the cause, drawn as a dashed line, shaded times, and strokes at the upper edge.
    """
    chosen = [series for role in roles for series in panel.drawn if series.role == role]
    low, high = value_range(replace(panel, series=chosen)) or (0.0, 1.0)
    if panel.from_zero and all(LOOKS[series.role].mark == "points" for series in chosen):
        # a few samples far above all others do not squash these
        near = float(np.quantile(np.concatenate([each.value for each in chosen]), 0.99)) * panel.unit.scale
        high = 1.25 * near if near > 0 and high > _FAR * near else high
    level = known.level if known.level is not None and 0 < known.level <= _FAR * high else None
    high = high if level is None else max(high, _ROOM * level)
    step = max(round_step(high - low, _TICKS), 1 if panel.unit is BYTES else 0)  # a byte has no parts
    ticks = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    tops = [round(_HIGH * (1 - (tick - low) / (high - low)), 1) for tick in ticks]
    shapes = [element("path", d="".join(f"M0 {top}H{_WIDE}" for top in tops), class_="grid")]
    ends = [(_WIDE * axis.place(begin), _WIDE * axis.place(end)) for begin, end in known.bands_ns]
    bands = "".join(f"M{left:.1f} 0H{right:.1f}V{_HIGH}H{left:.1f}z" for left, right in ends if right > left)
    if bands:
        shapes.insert(0, element("path", d=bands, class_="dead"))
    shapes += [path for series in chosen if (path := _path(series, panel, axis, low, high)) is not None]
    if level is not None:
        top = round(_HIGH * (1 - (level - low) / (high - low)), 1)
        shapes.append(element("path", d=f"M0 {top}H{_WIDE}", class_="known"))
    for height, each in enumerate(known.marks):  # each kind in a row of its own
        ns = each.time_ns[(each.time_ns >= axis.begin_ns) & (each.time_ns <= axis.end_ns)]
        places = np.unique(np.rint((ns - axis.begin_ns) * (_WIDE / axis.length_ns)).astype(np.int64))
        strokes = "".join(f"M{place} {2 + height * _MARK}v{_MARK - 3}" for place in places.tolist())
        shapes += [element("path", d=strokes, class_=each.kind)] if strokes else []
    picture = element(
        "svg", shapes, viewBox=f"0 0 {_WIDE} {_HIGH}", preserveAspectRatio="none", role="img", aria_label=label
    )
    suffix, words = panel.unit.suffix, []
    for tick, top in zip(ticks, tops, strict=True):
        fitting = _WITH_UNIT[suffix](tick) if suffix in _WITH_UNIT else f"{tick:.4g} {suffix}".rstrip()
        words.append(element("span", fitting, style=f"top:{top / _HIGH:.2%}"))
    return element("div", words, class_="levels", aria_hidden="true"), picture


def sparkline(series: Series, axis: TimeAxis) -> Markup:
    """Return a small picture without labels: the highest value in each interval of the time axis."""
    begin, end = (axis.origin_ns + round(axis.seconds(at) * NS_PER_S) for at in (axis.begin_ns, axis.end_ns))
    shown = series.between(begin, end)
    shown = shown.take(shown.is_drawn)
    high = int(shown.value.max(initial=1))
    part = np.minimum((shown.time_ns - begin) * (_PARTS / max(end - begin, 1)), _PARTS - 1).astype(np.int64)
    most = np.zeros(_PARTS)
    np.maximum.at(most, part, shown.value)
    points = "".join(f"H{place}V{_LOW * (1 - value / high):.0f}" for place, value in enumerate(most.tolist()))
    path = element("path", d=f"M0 {_LOW}{points}H{_PARTS}V{_LOW}z")
    return element(
        "svg", path, viewBox=f"0 0 {_PARTS} {_LOW}", preserveAspectRatio="none", class_="spark", role="img",
        aria_label="Rate over time",
    )  # fmt: skip


def swatch(role: str) -> Markup:
    """Return the legend symbol of a series with this role."""
    shape, colour, stroke = _pen(role)
    signs = {"points": f"M12 5{_DOT[shape]}", "bars": "M9 1V9M12 3V10M15 0V7"}
    path = element("path", d=signs.get(LOOKS[role].mark, "M2 5H22"), **stroke)
    return element("svg", path, viewBox="0 0 24 10", class_=shape, style=colour, aria_hidden="true")


def _pen(role: str) -> tuple[str, str, dict[str, object]]:
    """Return the style for strokes of a role: line end, CSS class, and SVG attributes.

    Events and data differ not only in colour, but also in the form of the strokes.
    """
    look = LOOKS[role]
    colour = f"color:{look.light};color:light-dark({look.light},{look.dark})"
    dash = {"dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3"}.get(look.dash)
    dashes: dict[str, object] = {"stroke_dasharray": dash} if dash else {}
    if look.mark != "points":
        return "round", colour, {"stroke_width": max(look.size_px, 1.5), **dashes}
    if look.size_px > _EVENT_PX:
        return "square", colour, {"stroke_width": _EVENT_PX, **dashes}
    return "round", colour, {"stroke_width": min(look.size_px, _DOT_PX), **dashes}


def _path(series: Series, panel: Panel, axis: TimeAxis, low: float, high: float) -> Markup | None:
    """Return one series as an SVG path; None without points.

    Points or bars at the same position are drawn once.

    A line connects the first, lowest, highest and last point of each column, which is one unit wide.
    Coordinates after the first point are relative, which needs two thirds of the bytes.
    """
    begin, end = (axis.origin_ns + round(axis.seconds(at) * NS_PER_S) for at in (axis.begin_ns, axis.end_ns))
    shown = series.between(begin, end)
    shown = shown.take(shown.is_drawn)
    if not len(shown):
        return None
    x = np.clip((shown.time_ns - begin) * (_WIDE / max(end - begin, 1)), 0, _WIDE)
    y = _HIGH * (1 - (shown.value * panel.unit.scale - low) / (high - low))
    mark, (shape, colour, stroke) = LOOKS[series.role].mark, _pen(series.role)
    is_line = shown.until is None and mark != "points"
    strokes: list[str] = []
    if shown.until is not None:
        until = _HIGH * (1 - (shown.until * panel.unit.scale - low) / (high - low))
        bars = np.unique(np.round([x, y, until]).astype(np.int64), axis=1)
        strokes = [f"M{a} {top}V{bottom}" for a, top, bottom in bars.T.tolist()]
    elif not is_line and (series.rare or len(x) <= _WIDE):
        dots = np.unique(np.round([x, np.clip(y, _EDGE, _HIGH - _EDGE)]).astype(np.int64), axis=1)
        # on paper a square of no length is not drawn
        strokes = [f"M{a} {b}{_DOT[shape]}" for a, b in dots.T.tolist()]
    else:
        y = np.clip(y, -_HIGH, 2 * _HIGH) if is_line else np.clip(y, _EDGE, _HIGH - _EDGE)
        column = x.astype(np.int64)
        first = np.flatnonzero(np.diff(column, prepend=-1))
        last = np.append(first[1:], len(x)) - 1
        lowest, highest = np.minimum.reduceat(y, first), np.maximum.reduceat(y, first)
        before, level = 0, 0
        for place, *points in zip(
            *(each.tolist() for each in (column[first], y[first], lowest, highest, y[last])), strict=True
        ):
            if not is_line:
                _, top, bottom, _ = points
                strokes.append(f"M{place} {top:.0f}" + (f"V{bottom:.0f}" if bottom - top > 1 else "h0"))
                continue
            levels = [each for each, _ in groupby(map(round, points))]
            if not strokes:
                strokes.append(f"M{place} {levels[0]}")
            elif mark == "step":
                strokes.append(f"h{place - before}" + (f"v{levels[0] - level}" if levels[0] != level else ""))
            else:
                strokes.append(f"l{place - before} {levels[0] - level}")
            strokes += [f"v{after - ahead}" for ahead, after in pairwise(levels)]
            before, level = place, levels[-1]
    return element("path", d="".join(strokes), class_=shape, style=colour, **stroke)


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
"""Keys of the panels that show a limit, the best panel first."""
_OF_KIND = {
    "policer": ("throughput",),
    "radio-limited": ("radio_power", "radio_quality"),
    "dropped-call": ("radio_power",),
    "random-loss": ("sequence",),
    "congestion-loss": ("sequence",),
    "link-limited": ("throughput",),
}
"""Keys of the panels by the kind of the incident that explains the limit; they precede `_OF_LIMIT`."""
_EVIDENCE = {
    "bufferbloat": ("rtt", "one_way"),
    "overbuffered-link": ("rtt", "one_way"),
    "path-change": ("rtt", "one_way"),
    "competing-traffic": ("throughput",),
    "rate-change": ("throughput",),
    "receiver-limited": ("flight",),
    "send-buffer-limited": ("flight",),
    "slow-start-limited": ("flight",),
    "pacing": ("flight",),
    "zero-window": ("flight",),
    "handover": ("cell", "radio_power"),
}
"""Keys of the panels with the evidence of a finding, by its kind, if these are neither in `_OF_KIND` nor the bytes."""
_OTHERWISE = ("throughput", "sequence")
_NONE = np.iinfo(np.int64).max
"""Time for a series without a drawn point: later than all columns."""
_MOST_LANES = 6
"""Maximum number of connections with a lane on the first screen; the details show more."""
_MOST_STAGES = 2_000
"""Maximum number of bars in a lane: two for each pixel."""


def evidence_panels(kind: str) -> str:
    """Return the keys of the panels that show a finding of this kind, the best one first, with spaces between."""
    return " ".join((*_OF_KIND.get(kind, ()), *_EVIDENCE.get(kind, ()), "sequence"))


class _Look(NamedTuple):
    """Options of the picture of one panel on the first screen."""

    says: str
    words: dict[str, str]
    """Legend text of each drawn role, in drawing order."""


_LOOKS = {
    "rtt": _Look(
        "Round-trip time: how long until each segment was acknowledged",
        {"rtt": "round trip"},
    ),
    "delay": _Look("Queue: delay of each segment above the minimum, at the time it left", {"rtt": "queue"}),
    "flight": _Look(
        "Data in flight, and the windows that limited it",
        {"window": "advertised window", "cwnd": "congestion window", "flight": "in flight"},
    ),
    "sequence": _Look(
        "Bytes sent and acknowledged: a level line shows no progress",
        {"data": "sent", "ack": "acknowledged", "retransmission": "retransmitted",
         "out_of_order": "filled a hole", "zero_window": "window closed", "reset": "reset"},
    ),
    "throughput": _Look("Rate of the delivered data", {"throughput": "sent", "goodput": "delivered"}),
    "radio_power": _Look(
        "Received power",
        {"radio_rsrp": "RSRP", "radio_rscp": "RSCP", "radio_rssi": "RSSI", "zero_level": "no signal"},
    ),
    "radio_quality": _Look(
        "Signal quality", {"radio_rsrq": "RSRQ", "radio_sinr": "SINR", "radio_ecio": "Ec/Io"}
    ),
}  # fmt: skip


def primary_cause_rows(diagnosis: Diagnosis, panels: list[Panel], axis: TimeAxis) -> list[Markup]:
    """Return the rows of the panel that shows the largest limit; empty if no panel can be drawn.

    If the application was the limit, the rows of the chain of requests come first.

    Parameters
    ----------
    diagnosis : Diagnosis
    panels : list of Panel
        In link time.
    axis : TimeAxis
    """
    limit, first = diagnosis.headline.limit, cause(diagnosis)
    requests = _requests(diagnosis, axis) if limit is Limit.APPLICATION else []
    there: dict[str, tuple[Panel, list[str]]] = {}
    for panel in [*panels, *_queue_panel(diagnosis, axis)]:
        # round trips look alike, whichever way they were measured
        series = [replace(each, role="rtt") if each.role.startswith("rtt_") else each for each in panel.series]
        known_roles = _LOOKS[panel.key].words if panel.key in _LOOKS else {}
        roles = [role for role in known_roles if role in {each.role for each in series if len(each)}]
        if roles:
            there[panel.key] = replace(panel, series=series), roles
    of_cause = () if first is None else _OF_KIND.get(first.kind, ())
    names = [*(("sequence",) if lost_run(diagnosis) else ()), *of_cause, *_OF_LIMIT[limit], *_OTHERWISE]
    key = next((name for name in names if name in there), None)
    if key is None:
        return requests
    panel, roles = there[key]
    look, known = _LOOKS[key], known_cause(diagnosis, key)
    # a bound of which nothing lies below the upper edge is not drawn
    ends = value_range(replace(panel, series=[each for each in panel.drawn if each.role in roles]))
    low = {each.role: each.value[each.is_drawn].min(initial=_NONE) * panel.unit.scale for each in panel.drawn}
    roles = [role for role in roles if ends is None or low[role] <= ends[1]]
    levels, picture = static(panel, axis, tuple(roles), label=look.says, known=known)
    labels = {each.role: each.label for each in reversed(panel.drawn)}
    legend = [element("li", swatch(role), look.words[role], title=labels[role]) for role in roles]
    signs = [("known", "M2 5H22", known.words), ("dead", "M2 0H22V10H2z", known.dead)]
    signs = [sign for sign in signs if f'class="{sign[0]}"' in picture]
    for kind, line, words in [*signs, *((each.kind, "M8 1V9M12 1V9M16 1V9", each.words) for each in known.marks)]:
        drawn = element("path", d=line, class_=kind)
        legend.append(element("li", element("svg", drawn, viewBox="0 0 24 10", aria_hidden="true"), words))
    title = row("", element("strong", look.says), "", kind="title")
    return [*requests, *title, *row(levels, picture, element("ul", legend, class_="words"), kind="culprit")]


def _requests(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return the chain of requests: a row for each connection, with its stages as bars."""
    chain: dict[int, list[Stage]] = {}
    for each in diagnosis.group.chain:
        chain.setdefault(each.connection, []).append(each)
    rows = []
    for number, stages in list(chain.items())[:_MOST_LANES]:
        bars = [
            element(
                "i",
                class_=each.stage,
                style=axis.style(each.begin_ns - axis.shift_ns, each.end_ns - axis.shift_ns),
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
        name = f"connection {number}"
        label = f"{name}: {', '.join(order)}"
        rows += row(name, element("div", bars, class_="bars stages", role="img", aria_label=label), key)
    return rows


def _queue_panel(diagnosis: Diagnosis, axis: TimeAxis) -> list[Panel]:
    """Return a panel with the one-way queueing delay of each segment at its arrival.

    The result is empty if it is not known.

    Plotted at the sending time, the delay would have a gap while the sender waits for the queue to drain.
    """
    seen = diagnosis.limited.seen
    if seen is None or not len(seen.delays.time_ns):
        return []
    delays, speed = seen.delays, diagnosis.transfer.speed
    minimum = int(delays.way_ns.min())
    left_ns = delays.time_ns + delays.way_ns - minimum
    time_ns = axis.origin_ns + np.rint((left_ns - axis.origin_ns) * speed).astype(np.int64)
    queue_ns = np.rint((delays.way_ns - minimum) * speed).astype(np.int64)
    series = Series("queue", "rtt", time_ns, queue_ns, doc="delay of a segment above the minimum")
    return [Panel("delay", "Delay above the minimum", SECONDS, 1, [series])]
