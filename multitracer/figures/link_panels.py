"""The data link in the stacked figure: its series, link time, and the error of converted times.

A session whose link ran faster than real time is shown in link time (`in_link_time`). Times that were
converted from another clock have an error: `time_error_band` shows the range of a series.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import stretched
from multitracer.figures.series import Series, in_order
from multitracer.figures.stack import BIT_RATE, SECONDS, TIME_TITLE
from multitracer.tables import NOT_A_TIME
from multitracer.words import time_error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from multitracer.clock.moved_table import Moved
    from multitracer.figures.stack import Panel
    from multitracer.figures.zooms import NamedInterval
    from multitracer.tables import Table

LINK_ROLES = {
    "RlpRcv_data": "link_received",
    "RlpRcv_lost": "link_lost",
    "RlpRcv_dup": "link_lost",
    "RlpRcv_srej": "link_request",
    "RlpRcv_xoff": "link_stop",
    "RlpRcv_xon": "link_go",
    "RlpRcv_rst": "link_reset",
    "RlpSnd_data": "link_data",
    "RlpSnd_srej": "link_request",
    "RlpSnd_xoff": "link_stop",
    "RlpSnd_xon": "link_go",
    "RlpSnd_rexmt": "link_again",
    "RlpSnd_rst": "link_reset",
}
"""Role of each label in drawing order: the most important ones are last, on top."""
LINK_UNASKED = frozenset(LINK_ROLES) - {"RlpRcv_dup", "RlpRcv_srej", "RlpRcv_xoff", "RlpRcv_xon", "RlpRcv_rst"}
"""Labels that are drawn by default; the events of all others are also in the sender's series."""
LINK_RESETS = frozenset({"RlpSnd_rst", "RlpRcv_rst"})
"""Labels of resets of the link: events that are no part of a curve."""
LINK_RARE = frozenset(LINK_ROLES) - {"RlpSnd_data", "RlpRcv_data"}
"""Labels of series of rare events, in which each point is important."""


def recorded_series(
    tables: Mapping[str, Table],
    roles: Mapping[str, str],
    source: str,
    *,
    shift_bytes: int = 0,
    rare: Collection[str] = (),
) -> list[Series]:
    """Return the series of the tables that have one of these roles, in the order of `roles`.

    Parameters
    ----------
    tables : mapping of str to Table
        SERIES by label.
    roles : mapping of str to str
        Role of each label.
    source : str
        Name of the recorder, for the description of the series.
    shift_bytes : int
        Vertical offset, so that groups of series are separate.
    rare : collection of str
        Labels of series of rare events, which thinning must not remove.
    """
    way = "higher" if shift_bytes > 0 else "lower"
    shift = f"; drawn {abs(shift_bytes):,} bytes {way}" if shift_bytes else ""
    drawn = []
    for label, role in roles.items():
        if label in tables:
            table = tables[label]
            value = np.rint(table["value"]).astype(np.int64) + shift_bytes
            doc = f"{table.provenance['doc']}{source}{shift}"
            drawn.append(in_order(Series(label, role, table["time_ns"], value, rare=label in rare, doc=doc)))
    return drawn


def axis_title(speed: float) -> str:
    """Return the label of the time axis of a link that ran `speed` times as fast as a real one."""
    return TIME_TITLE if speed == 1 else f"link {TIME_TITLE} ({speed:g} to a recorded one)"


def in_link_time(panels: list[Panel], *, speed: float, origin_ns: int) -> list[Panel]:
    """Return the panels in link time: durations are multiplied and rates divided by `speed`.

    Parameters
    ----------
    panels : list of Panel
    speed : float
        Link seconds in a recorded second.
    origin_ns : int
        Recorded time that equals the link time.
    """
    if speed == 1:
        return panels
    stretched_panels = []
    for panel in panels:
        factor = speed if panel.unit is SECONDS else 1 / speed if panel.unit is BIT_RATE else 1
        series = [
            replace(
                each,
                time_ns=stretched(each.time_ns, speed=speed, origin_ns=origin_ns),
                value=np.rint(each.value * factor).astype(np.int64) if factor != 1 else each.value,
            )
            for each in panel.series
        ]
        stretched_panels.append(replace(panel, series=series))
    return stretched_panels


def place_in_link_time(place: NamedInterval, *, speed: float, origin_ns: int) -> NamedInterval:
    """Return the interval in link time; parameters as of `in_link_time`."""
    if speed == 1:
        return place
    begin, end = stretched(np.array([place.from_ns, place.to_ns]), speed=speed, origin_ns=origin_ns).tolist()
    return replace(place, from_ns=begin, to_ns=end, about_ns=round(place.about_ns * speed))


_MOST_TRIPLED = 20_000
"""Maximum points with three bars each; of more points only one bar each is drawn."""


def time_error_band(series: Series, clock: Moved) -> Series | None:
    """Return bars from the minimum to the maximum value that a non-decreasing series may have at each time.

    At a time t, these are the values of the series at t - error and t + error. Bars are drawn at each point,
    and at both ends of its error interval, so that the uncertainty of a point is visible after zooming in.

    Parameters
    ----------
    series : Series
        Series converted from the clock of another host.
    clock : Moved
        The conversion of its times.

    Returns
    -------
    Series or None
        The bars; None if the times are exact or their error is not known.
    """
    known = clock.table["time_ns"] != NOT_A_TIME
    if not len(series) or not clock.placed or not np.any(clock.bound_ns[known] > 0):
        return None
    order = np.argsort(clock.table["time_ns"][known], kind="stable")
    at, bound = clock.table["time_ns"][known][order], clock.bound_ns[known][order]
    first = int(series.time_ns[0])
    time = series.time_ns - first
    error = np.rint(np.interp(time, at - first, bound)).astype(np.int64)
    if len(series) <= _MOST_TRIPLED:
        time = np.sort(np.concatenate([time - error, time, time + error]))
        error = np.rint(np.interp(time, at - first, bound)).astype(np.int64)
    reached = np.maximum.accumulate(series.value)
    low, high = (  # before the first time, its value
        reached[np.maximum(np.searchsorted(series.time_ns - first, time + sign * error, "right") - 1, 0)]
        for sign in (-1, 1)
    )
    label = f"{series.label} ± {time_error(float(np.median(bound)))}"
    doc = f"where {series.label} may lie: {clock.sentence}"
    return Series(label, "received_band", first + time, low, until=high, doc=doc)
