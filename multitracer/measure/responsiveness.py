"""Responsiveness under working conditions: what counts as loaded and as stable, and round trips per minute.

The statistics of draft-ietf-ippm-responsiveness-09, for connections without TLS; no I/O, and no clock. The draft's
names of the parameters are in brackets. Its intervals (ID) are 5 s "for now", and were 1 s before: 1 s here, so that a
test of one direction ends within some 20 s.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INTERVAL_NS = NS_PER_S
"""Interval (ID): a connection is added and the averages are computed after each."""
_AVERAGED_INTERVALS = 4
"""Intervals of a moving average (MAD)."""
_TRIMMED_SHARE = 0.95
"""Share of the smallest values that a trimmed mean keeps (TMP)."""
_TOLERANCE = 0.05
"""Largest standard deviation of what is stable, over its newest value (SDT)."""
MAX_CONNECTIONS = 16
"""Largest number of connections that carry the load; the draft names none since its version 03."""
MAX_PROBES_PER_S = 20
"""Largest number of pairs of probes in a second: the draft's 100 (MPS) in its interval of 5 s."""
_PROBES_SHARE = 0.05
"""Largest share of the capacity that probes take (PTC)."""
_PAIR_BYTES = 900
"""Bytes on the path of a pair of probes, with the opening and the end of a connection (counted in a capture)."""
_SECONDS_A_MINUTE = 60
_CLASSES = ((6000, "excellent"), (1000, "good"), (300, "fair"))
"""Smallest responsiveness of a class, in round trips per minute."""

ProbeKind = Literal["connect", "request", "loaded"]
"""`connect` and `request`: handshake and request on a connection of its own; `loaded`: request among the load."""
Confidence = Literal["low", "medium", "high"]


class Probe(NamedTuple):
    """One round trip."""

    kind: ProbeKind
    time_ns: int
    """When it began, ns since 1970."""
    rtt_ns: int


def trimmed_mean(values: Iterable[float]) -> float | None:
    """Return the mean of the smallest 95 % of some values; None without any.

    Examples
    --------
    >>> trimmed_mean([*[2.0] * 19, 100.0])
    2.0
    """
    ordered = sorted(values)
    smallest = ordered[: max(1, round(len(ordered) * _TRIMMED_SHARE))]
    return statistics.fmean(smallest) if smallest else None


def responsiveness_rpm(probes: Iterable[Probe]) -> float | None:
    """Return round trips per minute; None where a kind of probe is missing.

    It is the mean of two responsivenesses: that of new connections, whose handshake and request count alike, and that
    of the connections that carry the load.
    """
    by_kind: dict[str, list[float]] = {"connect": [], "request": [], "loaded": []}
    for each in probes:
        by_kind[each.kind].append(each.rtt_ns / NS_PER_S)
    connect_s, request_s, loaded_s = (trimmed_mean(by_kind[kind]) for kind in ("connect", "request", "loaded"))
    if not connect_s or not request_s or not loaded_s:
        return None
    apart = _SECONDS_A_MINUTE / ((connect_s + request_s) / 2)
    return (apart + _SECONDS_A_MINUTE / loaded_s) / 2


def class_of(rpm: float) -> str:
    """Return the draft's word for a responsiveness: poor, fair, good or excellent."""
    return next((name for smallest, name in _CLASSES if rpm >= smallest), "poor")


def probes_per_s(goodput_bps: float) -> float:
    """Return how many pairs of probes may be sent in a second, so that they take at most 5 % of the capacity."""
    return min(MAX_PROBES_PER_S, max(0.5, goodput_bps * _PROBES_SHARE / (_PAIR_BYTES * BITS_PER_BYTE)))


def _is_stable(values: Sequence[float]) -> bool:
    newest = values[-_AVERAGED_INTERVALS:]
    return len(newest) == _AVERAGED_INTERVALS and statistics.pstdev(newest) < _TOLERANCE * newest[-1]


@dataclass(slots=True)
class WorkingConditions:
    """The load of one direction, interval by interval."""

    saturated_bps: float | None = None
    """Goodput when it became stable: more connections did not raise it. None before."""
    _bytes: list[int] = field(default_factory=list)
    _goodputs_bps: list[float] = field(default_factory=list)
    """Moving average after each interval."""
    _probes: list[list[Probe]] = field(default_factory=list)
    _rpms: list[float] = field(default_factory=list)
    """Responsiveness after each interval since the goodput is stable."""

    def add(self, carried_bytes: int, probes: list[Probe]) -> None:
        """Add an interval: the bytes that arrived, and the probes that ended in it."""
        self._bytes.append(carried_bytes)
        self._probes.append(probes)
        newest = self._bytes[-_AVERAGED_INTERVALS:]
        self._goodputs_bps.append(sum(newest) * BITS_PER_BYTE * NS_PER_S / (len(newest) * INTERVAL_NS))
        if self.saturated_bps is not None:
            if (rpm := responsiveness_rpm(self.newest_probes)) is not None:
                self._rpms.append(rpm)
        elif _is_stable(self._goodputs_bps):
            self.saturated_bps = self.goodput_bps

    @property
    def newest_probes(self) -> list[Probe]:
        """The probes of the intervals that count."""
        return [each for interval in self._probes[-_AVERAGED_INTERVALS:] for each in interval]

    @property
    def goodput_bps(self) -> float:
        """Bytes of the load that arrived, mean of the intervals that count, in bit/s; 0 before the first one."""
        return self._goodputs_bps[-1] if self._goodputs_bps else 0.0

    @property
    def rpm(self) -> float | None:
        """Responsiveness in round trips per minute; None where too few probes ended."""
        return responsiveness_rpm(self.newest_probes)

    @property
    def is_stable(self) -> bool:
        """Whether goodput and responsiveness are stable: the test of this direction is over."""
        return _is_stable(self._rpms)

    @property
    def confidence(self) -> Confidence:
        """How sure the result is: high if it is stable, low if less than four intervals were judged."""
        if self.is_stable:
            return "high"
        return "medium" if len(self._rpms) >= _AVERAGED_INTERVALS else "low"
