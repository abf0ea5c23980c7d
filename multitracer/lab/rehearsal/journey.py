"""A random drive from a seed: position of the car, radio, and events.

Six events occur in random order: a handover with a short interruption, one with a long interruption (the
phone connects to the new cell again), a coverage hole, interference, a loaded cell, and a server that sends
nothing for some seconds. The drive of seed 0 has no events. Times are seconds since the start of the drive.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multitracer.schemas.schema import Document

# The position of the car at a time of the drive, and its radio conditions there.
#
# A loop through streets, two minutes long, with a tunnel. It is no model of a city: it only moves as one
# does, so that every figure of a rehearsal has something to show. The testbed sets the values itself
# (`SetValues`).


LOOP_S = 120.0
_TUNNEL_S = (60.0, 68.0)
_CORNERS = ((40.0000, -83.0000), (40.0030, -83.0000), (40.0030, -82.9960), (40.0000, -82.9960))
_EARTH_M = 6_371_000.0
_CELL_S = 40.0
_FLOOR_DBM = -113.0


@dataclass(frozen=True, slots=True)
class CarPosition:
    """The position of the car, its speed, and its direction."""

    lat_deg: float
    lon_deg: float
    speed_mps: float
    heading_deg: float
    in_tunnel: bool


def place(elapsed_s: float) -> CarPosition:
    """Return the position of the car after some time; it drives around a rectangle at constant speed."""
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
    return CarPosition(lat, lon, speed, _heading_deg(a, b), is_in_tunnel(elapsed_s))


def is_in_tunnel(elapsed_s: float) -> bool:
    """Return whether the car is in the tunnel, where neither satellites nor cells can be received."""
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
    """Return the radio values at a time of the drive, by column of RADIO; unknown values are absent."""
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


class BundledDrive:
    """The values of the bundled drive, which runs `speed` times as fast as real time."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return the radio values after some seconds of real time, by column of RADIO."""
        return radio(elapsed_s * self._speed)


class SetValues:
    """Radio values that the controlling program sets; so the modem's log matches the simulated link."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def set(self, values: Mapping[str, object]) -> None:
        """Change some values; None makes a value unknown."""
        self._values |= values

    def values(self, _: float) -> Mapping[str, object]:
        """Return the values that were set last, by column of RADIO, without unknown ones."""
        return {name: value for name, value in self._values.items() if value is not None}


Kind = Literal["handover", "hole", "interference", "load", "stall"]
_KINDS: dict[str, Kind] = {
    "short handover": "handover", "long handover": "handover", "hole": "hole",
    "interference": "interference", "load": "load", "stall": "stall",
}  # fmt: skip
CONTROL = 0
"""Seed of the drive without events."""
LONGEST_S = 4 * 3600.0
"""Maximum duration of a drive; after it the car stands still."""
_FIRST_S = 20.0
"""Time before the first event, in which TCP reaches its rate (not measured)."""
_PAUSE_S = (20.0, 28.0)
"""Range of the time between two events: a retransmission timer, backed off in the longest hole, expires in it (not
measured)."""
_LENGTH_S: dict[str, tuple[float, float]] = {
    "short handover": (0.04, 0.2),  # what a phone may need, TS 36.133, 5.1: 15 ms and some radio frames
    "long handover": (2.5, 3.5),  # radio link failure (T310 of TS 36.331, 1 s) and a new connection
    "hole": (7.0, 11.0),
    "interference": (8.0, 12.0),
    "load": (8.0, 12.0),
    "stall": (6.0, 10.0),
}
_LEG_S = (15.0, 25.0)
_SPEED_MPS = (8.0, 14.0)
_TURN_DEG = 60.0
_START = (40.0, -83.0)
_DEGREE_M = math.pi / 180 * 6_371_000.0
_NEAR_S = 4.0
"""Time before and after a handover in which the signal is weaker: the edge of the cell."""
_DISTURBED_SINR_DB = -2.5
"""SINR with interference, ± 1 dB: all values mean CQI 2, a tenth of the typical rate."""
_LOADED_PCT = 91.0
"""Load of a loaded cell: an eleventh of the cell is free, a ninth of the typical share."""
_MORE_POWER_DB = {"interference": 6.0, "load": 3.0}
"""Additional power in the channel in dB, which lowers RSRQ.

RSRQ is -11 dB in a fully used cell, and -14 dB with an SINR of -2.5 dB (by the definition of TS 36.214, 5.1.3)."""
AREA = 0x2A01
CELL = 0x1A2D000
"""Identity of the first cell of a drive; the next cells have consecutive numbers."""


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """An interval in which the link carries little or nothing, or the server sends nothing."""

    kind: Kind
    begin_s: float
    end_s: float
    cell: int
    """Number of the serving cell at the start of the fault; after a handover the next number serves."""


@dataclass(frozen=True)
class Journey:
    """The drive of a seed; the same seed always gives the same drive."""

    seed: int

    @cached_property
    def events(self) -> tuple[PlantedFault, ...]:
        """The planted faults of the drive, in order of time."""
        return () if self.seed == CONTROL else tuple(self._drawn(random.Random(self.seed)))  # noqa: S311

    def _drawn(self, draw: random.Random) -> Iterator[PlantedFault]:
        at_s, cell = _FIRST_S + draw.uniform(0.0, 5.0), 0
        while True:
            for name in draw.sample(sorted(_LENGTH_S), len(_LENGTH_S)):
                end_s = at_s + draw.uniform(*_LENGTH_S[name])
                if end_s > LONGEST_S:
                    return
                yield PlantedFault(_KINDS[name], round(at_s, 3), round(end_s, 3), cell)
                cell += _KINDS[name] == "handover"
                at_s = end_s + draw.uniform(*_PAUSE_S)

    @cached_property
    def _corners(self) -> tuple[list[float], list[tuple[float, float, float]]]:
        """Return the times in s at which the car turns, and its places after the turns.

        Each place is a tuple of latitude, longitude and heading, in degrees.
        """
        draw = random.Random(f"route {self.seed}")  # noqa: S311
        times, legs = [0.0], [(*_START, draw.uniform(0.0, 360.0))]
        while times[-1] < LONGEST_S:
            length_s = draw.uniform(*_LEG_S)
            lat, lon = _moved(legs[-1], self.speed_mps * length_s)
            times.append(times[-1] + length_s)
            legs.append((lat, lon, (legs[-1][2] + draw.uniform(-_TURN_DEG, _TURN_DEG)) % 360.0))
        return times, legs

    @cached_property
    def speed_mps(self) -> float:
        """Speed of the car, which is constant, in m/s."""
        return random.Random(f"speed {self.seed}").uniform(*_SPEED_MPS)  # noqa: S311

    def place(self, at_s: float) -> CarPosition:
        """Return the position of the car at a time."""
        times, legs = self._corners
        at_s = min(max(at_s, 0.0), LONGEST_S)
        leg = bisect_right(times, at_s) - 1
        lat, lon = _moved(legs[leg], self.speed_mps * (at_s - times[leg]))
        return CarPosition(lat, lon, self.speed_mps, legs[leg][2], in_tunnel=False)

    def event(self, at_s: float) -> PlantedFault | None:
        """Return the planted fault that is active at a time; None if there is none."""
        row = bisect_right(self.events, at_s, key=lambda event: event.begin_s) - 1
        return self.events[row] if row >= 0 and at_s < self.events[row].end_s else None

    def cell(self, at_s: float) -> int:
        """Return the number of the serving cell; the new cell serves from the end of the handover on."""
        row = bisect_right(self.events, at_s, key=lambda event: event.end_s) - 1
        if row < 0:
            return 0
        return self.events[row].cell + (self.events[row].kind == "handover")

    def radio(self, at_s: float) -> dict[str, object]:
        """Return the radio values at a time, by column of RADIO; without service the modem is searching."""
        event = self.event(at_s)
        kind = None if event is None else event.kind
        if kind == "hole":
            return {"rssi_dbm": _FLOOR_DBM, "bler_pct": 100.0, "registration": 2}
        near, cell = self._nearness(at_s), self.cell(at_s)
        slow, quick = (math.sin(2 * math.pi * at_s / period + self.seed) for period in (47.0, 13.0))
        rsrp = -88.0 + 4.0 * slow + 2.0 * quick - 6.0 * near
        sinr = 13.0 + 4.0 * slow + 2.0 * quick - 2.0 * near
        busy = 20.0 + 10.0 * math.sin(2 * math.pi * at_s / 61.0)
        more_db = _MORE_POWER_DB.get(str(kind), 0.0)
        sinr = _DISTURBED_SINR_DB + quick if kind == "interference" else sinr
        return {
            "rssi_dbm": rsrp + 28.0 + more_db,
            "rsrp_dbm": rsrp,
            "rsrq_db": -8.0 + slow - near - more_db,
            "sinr_db": sinr,
            "bler_pct": min(100.0, max(0.0, 1.0 + (12.0 - sinr) * 1.5)),
            "cell_busy_pct": _LOADED_PCT + slow if kind == "load" else busy,
            "registration": 1,
            "area_code": AREA,
            "cell_id": CELL + cell,
            "physical_cell_id": 100 + cell % 400,
            "channel": 512,
        }

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return the radio values after some seconds, by column of RADIO."""
        return self.radio(elapsed_s)

    def calls(self) -> list[Document]:
        """Return the modem's unsolicited reports of new cells, as events of a modem script."""
        handovers = [event for event in self.events if event.kind == "handover"]
        return [
            {"at_s": event.end_s, "do": "say", "text": f'+CEREG: 1,"{AREA:04X}","{CELL + event.cell + 1:08X}",7'}
            for event in handovers
        ]

    def _nearness(self, at_s: float) -> float:
        """Return how near in time a handover is: 1 at a handover, falling to 0 within some seconds."""
        row = bisect_right(self.events, at_s, key=lambda event: event.end_s)
        around = [event for event in self.events[max(row - 1, 0) : row + 1] if event.kind == "handover"]
        away = [max(event.begin_s - at_s, at_s - event.end_s, 0.0) for event in around]
        return max((1.0 - each / _NEAR_S for each in away if each < _NEAR_S), default=0.0)


def _moved(start: tuple[float, float, float], length_m: float) -> tuple[float, float]:
    """Return latitude and longitude of the point `length_m` metres ahead of `start`.

    `start` is latitude, longitude and heading in degrees.
    """
    lat, lon, heading = start
    north, east = (length_m * turn(math.radians(heading)) for turn in (math.cos, math.sin))
    return lat + north / _DEGREE_M, lon + east / (_DEGREE_M * math.cos(math.radians(lat)))
