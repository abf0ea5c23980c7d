"""What the analysis says of a drive: the route, the cells that served, handovers, and where it was bad.

The readings themselves are `multitracer.radio`; docs/mobility.md tells how each number is counted. A missing
value is NA, never 0.
"""

from __future__ import annotations

from multitracer.tables import Column, Schema


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


_PLACE = _reals(
    ("lat_deg", "latitude, WGS 84, north positive", "degrees"),
    ("lon_deg", "longitude, WGS 84, east positive", "degrees"),
    ("distance_m", "along the route from its first position", "m"),
)

ROUTE = Schema(
    "route",
    (
        Column("time_ns", "int64", "when the position was true", "ns since 1970"),
        Column("row", "int64", "row in position, from 0"),
        *_PLACE,
        *_reals(
            ("speed_mps", "over ground, as logged", "m/s"),
            ("heading_deg", "course over ground, from true north; NA while it stands", "degrees"),
        ),
        Column("moved", "bool", "the position counts for the distance: it is no noise of a parked receiver"),
        Column("gap", "U7", "what lies between the row before and this one: silence, leap, or empty"),
    ),
)
"""The positions that can be trusted, in the order of time."""

ROUTE_GAPS = Schema(
    "route_gaps",
    (
        Column("begin_ns", "int64", "last position before", "ns since 1970"),
        Column("end_ns", "int64", "first position after", "ns since 1970"),
        *_reals(("length_m", "great circle between the two; a leap adds nothing to the distance", "m")),
        Column("kind", "U7", "silence (no position in time) or leap (faster than anything that drives)"),
        Column("reason", "U64", "the gap in words: leap of 300 km in 1 s"),
    ),
)
"""Stretches of the route in which no position is interpolated."""
