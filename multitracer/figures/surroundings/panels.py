"""The radio and the road as panels: power, quality, share of lost blocks, rates, speed and distance.

A line joins two readings only where no reading is missing between them; a gap is drawn as a gap. The dashed
line is the level that a modem states where there is no signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.figures.environment import ZERO_LEVEL_DBM
from multitracer.figures.series import BREAK, Series
from multitracer.figures.stack import (
    BIT_RATE,
    DBM,
    DECIBEL,
    METRES,
    METRES_PER_S,
    PERCENT,
    PLAIN,
    Panel,
    Unit,
)
from multitracer.figures.surroundings.cells import cell_strip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.recording.surroundings import Surroundings
    from multitracer.tables import Table


class _Lane(NamedTuple):
    """A panel: its key, title, unit, share of the height, and the role of each series."""

    key: str
    title: str
    unit: Unit
    share: float
    roles: dict[str, str]
    from_zero: bool = False


_LANES = (
    _Lane(
        "radio_power", "Received power", DBM, 1.0,
        {"Radio_rssi": "radio_rssi", "Radio_rsrp": "radio_rsrp", "Radio_rscp": "radio_rscp"},
    ),
    _Lane(
        "radio_quality", "Signal quality", DECIBEL, 0.8,
        {"Radio_rsrq": "radio_rsrq", "Radio_sinr": "radio_sinr", "Radio_ecio": "radio_ecio"},
    ),
    _Lane(
        "radio_share", "Lost blocks and busy cell", PERCENT, 0.6,
        {"Radio_bler": "radio_bler", "Radio_cell_busy": "radio_busy"}, from_zero=True,
    ),
    _Lane("radio_cqi", "Channel quality indicator", PLAIN, 0.5, {"Radio_cqi": "radio_cqi"}, from_zero=True),
    _Lane(
        "radio_rate", "Rates that the logger saw", BIT_RATE, 0.8,
        {"Radio_rate_down": "rate_down", "Radio_rate_up": "rate_up"}, from_zero=True,
    ),
    _Lane("speed", "Speed", METRES_PER_S, 0.5, {"Gps_speed": "speed"}, from_zero=True),
    _Lane("travelled", "Distance on the route", METRES, 0.5, {"Gps_position": "travelled"}, from_zero=True),
)  # fmt: skip
_ZERO_LEVEL = "zero level"


def surroundings_panels(surroundings: Surroundings) -> list[Panel]:
    """Return the panels of the radio and the road that have something to show, the serving cell first."""
    lanes = [panel for lane in _LANES if (panel := _panel(lane, surroundings.series)).series]
    strip = cell_strip(surroundings.phones[0].stays) if surroundings.phones else None
    return [*([strip] if strip else []), *lanes]


def _panel(lane: _Lane, series: Mapping[str, Table]) -> Panel:
    lines = [
        line_with_gaps(label, role, series[label], scale=lane.unit.scale)
        for label, role in lane.roles.items()
        if label in series
    ]
    if "Radio_rssi" in series and "Radio_rssi" in lane.roles:
        lines.append(_zero_level(lines))
    return Panel(lane.key, lane.title, lane.unit, lane.share, lines, from_zero=lane.from_zero)


def line_with_gaps(label: str, role: str, table: Table, *, scale: float) -> Series:
    """Return SERIES as a line that is interrupted where readings are missing.

    Parameters
    ----------
    table : Table
        SERIES with `gap_ns` in its provenance: readings further apart are not joined.
    scale : float
        Of the unit of the panel.
    """
    time_ns, value = table["time_ns"], np.rint(table["value"] / scale).astype(np.int64)
    wide = np.flatnonzero(np.diff(time_ns) > table.provenance["gap_ns"])
    time_ns = np.insert(time_ns, wide + 1, time_ns[wide] + 1)
    value = np.insert(value, wide + 1, BREAK)
    words = table.provenance
    return Series(label, role, time_ns, value, doc=f"{words['doc']} ({words['source']})")


def _zero_level(lines: list[Series]) -> Series:
    """Return the level of no signal over the time of the other lines."""
    ends = np.array([min(s.time_ns[0] for s in lines), max(s.time_ns[-1] for s in lines)], np.int64)
    level = np.full(2, round(ZERO_LEVEL_DBM / DBM.scale), np.int64)
    doc = f"{ZERO_LEVEL_DBM:.0f} dBm: what a modem states for this power or less (TS 27.007, 8.5)"
    return Series(_ZERO_LEVEL, "zero_level", ends, level, doc=doc)
