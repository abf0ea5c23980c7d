"""Which panel shows what limited a transfer, and that panel with its legend in words.

A panel as a picture that needs no script: the same series, as wide as its page.
Strokes keep their width however the picture is stretched; words stand beside it as text of the page. Where a
pixel holds several points it shows the range from the lowest to the highest.
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
from multitracer.figures.stack import SECONDS, Panel, value_range
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import NOTHING_KNOWN, cause, known_cause, legend_of, lost_run
from multitracer.report.screen.rows import clock_shift_ns
from multitracer.report.screen.time_axis import round_step, row
from multitracer.units import NS_PER_S
from multitracer.words import duration, rate, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.group import Stage
    from multitracer.report.screen.cause import KnownCause
    from multitracer.report.screen.time_axis import TimeAxis
    from multitracer.tables import Array

_WIDE, _HIGH = 1000, 300
"""Units of the picture: some pixels of a screen, so that numbers need no fraction."""
_PARTS, _LOW = 60, 20
"""Units of a small picture."""
_TICKS = 5
"""About so many: three at least, where four left two of a span of 9 s."""
_EDGE = 2
"""A point beyond the picture is drawn so far within its edge."""
_DOT_PX, _EVENT_PX = 4, 6
"""Largest dot of data, and size of an event, by which the two differ whatever their hue."""
_DOT = {"round": "h0", "square": "h.1"}
"""The stroke of a point, by its ends."""
_ROOM = 1.05
"""Times its value that the axis reaches above the line of the cause: it is not the frame. Not measured."""
_MARK = 16
"""Height of the strokes of losses and marks, units of the picture."""
_FAR = 2.0
"""Single samples that are so many times as high as 99 of 100 leave the picture at its top. Not measured."""


def still(
    panel: Panel, axis: TimeAxis, roles: tuple[str, ...], *, label: str, known: KnownCause = NOTHING_KNOWN
) -> tuple[Markup, Markup]:
    """Return the words of a panel's value axis, and its picture.

    Parameters
    ----------
    panel : Panel
        With at least one series of these roles; times in link time.
    axis : TimeAxis
        What the picture shows.
    roles : tuple of str
        Which series are drawn, the last one on top.
    label : str
        What it shows, for those who do not see it.
    known : KnownCause
        What is known of the cause: a dashed line, and shaded times.
    """
    chosen = [series for role in roles for series in panel.drawn if series.role == role]
    low, high = _range(panel, chosen)
    if fits(known, high):
        high = max(high, _ROOM * (known.level or 0.0))
    paths = [_path(series, panel, axis, low, high) for series in chosen]
    ticks = _ticks(low, high)
    lines = "".join(f"M0 {_y(tick, low, high)}H{_WIDE}" for tick in ticks)
    picture = element(
        "svg", _bands(known, axis), element("path", d=lines, class_="grid"), paths,
        _level(known, low, high), _marks(known, axis), viewBox=f"0 0 {_WIDE} {_HIGH}",
        preserveAspectRatio="none", role="img", aria_label=label,
    )  # fmt: skip
    words = [
        element("span", in_words(tick, panel.unit.suffix), style=f"top:{_y(tick, low, high) / _HIGH:.2%}")
        for tick in ticks
    ]
    return element("div", words, class_="levels", aria_hidden="true"), picture


def fits(known: KnownCause, high: float) -> bool:
    """Return whether the line of the cause lies within the picture, or so near that its axis can reach it."""
    return known.level is not None and 0 < known.level <= _FAR * high


def _bands(known: KnownCause, axis: TimeAxis) -> Markup | None:
    """Return the shaded times; None without any."""
    ends = [(_WIDE * axis.place(begin), _WIDE * axis.place(end)) for begin, end in known.bands_ns]
    shape = "".join(f"M{left:.1f} 0H{right:.1f}V{_HIGH}H{left:.1f}z" for left, right in ends if right > left)
    return element("path", d=shape, class_="dead") if shape else None


def _marks(known: KnownCause, axis: TimeAxis) -> list[Markup]:
    """Return the moments of the cause as strokes at the upper edge, each kind in a row of its own."""
    drawn = []
    for height, each in enumerate(known.marks):
        ns = each.time_ns[(each.time_ns >= axis.begin_ns) & (each.time_ns <= axis.end_ns)]
        places = np.unique(np.rint((ns - axis.begin_ns) * (_WIDE / axis.length_ns)).astype(np.int64))
        strokes = "".join(f"M{place} {2 + height * _MARK}v{_MARK - 3}" for place in places.tolist())
        drawn += [element("path", d=strokes, class_=each.kind)] if strokes else []
    return drawn


def _level(known: KnownCause, low: float, high: float) -> Markup | None:
    """Return the dashed line of the cause; None without one."""
    if known.level is None or not fits(known, high):
        return None
    return element("path", d=f"M0 {_y(known.level, low, high)}H{_WIDE}", class_="known")


def sparkline(series: Series, axis: TimeAxis) -> Markup:
    """Return the highest value of each part of the time as a small picture without words."""
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


def in_words(value: float, suffix: str) -> str:
    """Return a value of a panel with the unit that fits: 120 ms, 1.2 MB."""
    if suffix == "s":
        return duration(value * NS_PER_S)
    known = {"B": size, "bit/s": rate}.get(suffix)
    return known(value) if known else f"{value:.4g} {suffix}".rstrip()


def swatch(role: str) -> Markup:
    """Return the sign of a series in a legend."""
    look = LOOKS[role]
    signs = {"points": f"M12 5{_DOT[_shape(role)]}", "bars": "M9 1V9M12 3V10M15 0V7"}
    sign = signs.get(look.mark, "M2 5H22")
    path = element("path", d=sign, stroke_width=_width(role), **_dashes(role))
    return element(
        "svg", path, viewBox="0 0 24 10", class_=_shape(role), style=_colour(role), aria_hidden="true"
    )


def _range(panel: Panel, chosen: list[Series]) -> list[float]:
    """Return the ends of the value axis; a few samples far above all others do not squash these."""
    ends = value_range(replace(panel, series=chosen)) or [0.0, 1.0]
    if any(LOOKS[series.role].mark != "points" for series in chosen) or not panel.from_zero:
        return ends
    usual = float(np.quantile(np.concatenate([series.value for series in chosen]), 0.99)) * panel.unit.scale
    return [ends[0], 1.25 * usual] if usual > 0 and ends[1] > _FAR * usual else ends


def _ticks(low: float, high: float) -> list[float]:
    step = round_step(high - low, _TICKS)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _y(value: float, low: float, high: float) -> float:
    return round(_HIGH * (1 - (value - low) / (high - low)), 1)


def _path(series: Series, panel: Panel, axis: TimeAxis, low: float, high: float) -> Markup | None:
    """Return one series as a path."""
    begin, end = (axis.origin_ns + round(axis.seconds(at) * NS_PER_S) for at in (axis.begin_ns, axis.end_ns))
    shown = series.between(begin, end)
    shown = shown.take(shown.is_drawn)
    if not len(shown):
        return None
    x = np.clip((shown.time_ns - begin) * (_WIDE / max(end - begin, 1)), 0, _WIDE)
    y = _HIGH * (1 - (shown.value * panel.unit.scale - low) / (high - low))
    look = LOOKS[series.role]
    if shown.until is not None:
        drawn = _bars(x, y, _HIGH * (1 - (shown.until * panel.unit.scale - low) / (high - low)))
    elif look.mark == "points":
        seen = np.clip(y, _EDGE, _HIGH - _EDGE)
        drawn = _dots(x, seen, _shape(series.role)) if series.rare or len(x) <= _WIDE else _ranges(x, seen)
    else:
        drawn = _line(x, np.clip(y, -_HIGH, 2 * _HIGH), step=look.mark == "step")
    return element(
        "path", d=drawn, class_=_shape(series.role), style=_colour(series.role),
        stroke_width=_width(series.role), **_dashes(series.role),
    )  # fmt: skip


def _dots(x: Array, y: Array, shape: str) -> str:
    """Return points; of those that fall onto each other, one. On paper a square of no length is not drawn."""
    places = np.unique(np.column_stack([np.round(x), np.round(y)]).astype(np.int64), axis=0)
    return "".join(f"M{a} {b}{_DOT[shape]}" for a, b in places.tolist())


def _bars(x: Array, begin: Array, end: Array) -> str:
    """Return upright bars; of those that fall onto each other, one."""
    rounded = [np.round(each).astype(np.int64) for each in (x, begin, end)]
    places = np.unique(np.column_stack(rounded), axis=0)
    return "".join(f"M{a} {b}V{c}" for a, b, c in places.tolist())


def _extremes(x: Array, y: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return columns of one unit with their first, lowest, highest and last value."""
    column = x.astype(np.int64)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    last = np.append(first[1:], len(x)) - 1
    return column[first], y[first], np.minimum.reduceat(y, first), np.maximum.reduceat(y, first), y[last]


def _ranges(x: Array, y: Array) -> str:
    """Return a bar for each column from its lowest to its highest point."""
    column, _, least, most, _ = _extremes(x, y)
    return "".join(
        f"M{a} {low:.0f}V{high:.0f}" if high - low > 1 else f"M{a} {low:.0f}h0"
        for a, low, high in zip(column.tolist(), least.tolist(), most.tolist(), strict=True)
    )


def _line(x: Array, y: Array, *, step: bool) -> str:
    """Return a line through the first, lowest, highest and last point of each column.

    What follows the first point is relative, which takes two thirds of the bytes.
    """
    words: list[str] = []
    before, level = 0, 0
    for column, *points in zip(*(each.tolist() for each in _extremes(x, y)), strict=True):
        levels = [each for each, _ in groupby(map(round, points))]
        if not words:
            words.append(f"M{column} {levels[0]}")
        elif step:
            words.append(f"h{column - before}" + (f"v{levels[0] - level}" if levels[0] != level else ""))
        else:
            words.append(f"l{column - before} {levels[0] - level}")
        words += [f"v{after - ahead}" for ahead, after in pairwise(levels)]
        before, level = column, levels[-1]
    return "".join(words)


def _shape(role: str) -> str:
    """Return how the ends of strokes look: what is an event differs from data by more than its hue."""
    return "square" if LOOKS[role].mark == "points" and LOOKS[role].size_px > _EVENT_PX else "round"


def _colour(role: str) -> str:
    look = LOOKS[role]
    return f"color:{look.light};color:light-dark({look.light},{look.dark})"


def _width(role: str) -> float:
    look = LOOKS[role]
    return (
        (_EVENT_PX if _shape(role) == "square" else min(look.size_px, _DOT_PX))
        if look.mark == "points"
        else max(look.size_px, 1.5)
    )


def _dashes(role: str) -> dict[str, object]:
    dash = {"dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3"}.get(LOOKS[role].dash)
    return {"stroke_dasharray": dash} if dash else {}


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
