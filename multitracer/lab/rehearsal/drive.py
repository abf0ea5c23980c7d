"""The position of the car at a time of the drive, and its radio conditions there.

A loop through streets, two minutes long, with a tunnel. It is no model of a city: it only moves as one does,
so that every figure of a rehearsal has something to show. The testbed sets the values itself (`SetValues`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOP_S = 120.0
_TUNNEL_S = (60.0, 68.0)
_CORNERS = ((40.0000, -83.0000), (40.0030, -83.0000), (40.0030, -82.9960), (40.0000, -82.9960))
_EARTH_M = 6_371_000.0
_CELL_S = 40.0
_FLOOR_DBM = -113.0


@dataclass(frozen=True, slots=True)
class Place:
    """The position of the car, its speed, and its direction."""

    lat_deg: float
    lon_deg: float
    speed_mps: float
    heading_deg: float
    in_tunnel: bool


def place(elapsed_s: float) -> Place:
    """Return the position of the car after some time: along a rectangle, at one speed."""
    sides = [_distance_m(a, b) for a, b in zip(_CORNERS, (*_CORNERS[1:], _CORNERS[0]), strict=True)]
    speed = sum(sides) / LOOP_S
    left = elapsed_s % LOOP_S * speed
    side = 0
    while left > sides[side]:
        left -= sides[side]
        side += 1
    a, b = _CORNERS[side], _CORNERS[(side + 1) % len(_CORNERS)]
    share = left / sides[side]
    lat, lon = (a[n] + share * (b[n] - a[n]) for n in (0, 1))
    return Place(lat, lon, speed, _heading_deg(a, b), is_in_tunnel(elapsed_s))


def is_in_tunnel(elapsed_s: float) -> bool:
    """Return whether neither satellites nor cells can be received."""
    return _TUNNEL_S[0] <= elapsed_s % LOOP_S < _TUNNEL_S[1]


def _distance_m(a: tuple[float, float], b: tuple[float, float]) -> float:
    north, east = _north_east_m(a, b)
    return math.hypot(north, east)


def _heading_deg(a: tuple[float, float], b: tuple[float, float]) -> float:
    north, east = _north_east_m(a, b)
    return math.degrees(math.atan2(east, north)) % 360.0


def _north_east_m(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    north, east = (math.radians(b[n] - a[n]) * _EARTH_M for n in (0, 1))
    return north, east * math.cos(math.radians(a[0]))


def radio(elapsed_s: float) -> dict[str, object]:
    """Return the radio at a time of the drive, in columns of RADIO; a value that is unknown is absent."""
    t = elapsed_s % LOOP_S
    fading = 10.0 * math.sin(2 * math.pi * t / 90.0) + 5.0 * math.sin(2 * math.pi * t / 17.0)
    busy = 30.0 + 20.0 * math.sin(2 * math.pi * t / 60.0)
    if is_in_tunnel(elapsed_s):
        return {"rssi_dbm": _FLOOR_DBM, "bler_pct": 100.0, "cell_busy_pct": 0.0, "registration": 2}
    rssi = -77.0 + fading
    return {
        "rssi_dbm": rssi,
        "bler_pct": min(100.0, max(0.0, 1.0 + (-80.0 - rssi) * 0.8)),
        "cell_busy_pct": busy,
        "rsrp_dbm": rssi - 28.0,
        "rsrq_db": -8.0 + fading / 4.0,
        "sinr_db": 12.0 + fading,
        "rscp_dbm": rssi - 6.0,
        "ecio_db": -6.0 + fading / 4.0,
        "registration": 1,
        "area_code": 0x2A01,
        "cell_id": 0x1A2D000 + int(t // _CELL_S),
        "physical_cell_id": 100 + int(t // _CELL_S),
        "channel": 512,
    }


class Drive:
    """The values of the bundled drive; `speed` times as fast as a clock."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return the radio after some time."""
        return radio(elapsed_s * self._speed)


class SetValues:
    """Values that another program sets, so that a log holds the values that shaped the traffic."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def set(self, values: Mapping[str, object]) -> None:
        """Change some values; None makes one unknown."""
        self._values |= values

    def values(self, _: float) -> Mapping[str, object]:
        """Return the values that were set last."""
        return {name: value for name, value in self._values.items() if value is not None}
