"""Three numbers with their meaning: how fast, how long a round trip takes, how much is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit
from multitracer.report.markup import Markup, element
from multitracer.report.sentence import goodput
from multitracer.tables import NA
from multitracer.tcp import GoodputBy, RoundTrips
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.report.drawn import Drawn


_NEXT_TO_NOTHING = 0.02
"""Share of the time below which the repair of losses is said to have cost little. Not measured."""
_SHOWN_S = 0.0005
"""A shorter time is none on a screen."""


class RoundTrip(NamedTuple):
    """How long a round trip takes, link time, ns."""

    least_ns: float
    usual_ns: float
    """The median."""
    most_ns: float
    """95 % took less."""
    is_inferred: bool
    """From arrivals at the receiver: the shortest one and the queue on top."""


class Loss(NamedTuple):
    """What is known of the segments that did not get through at once."""

    name: str
    segments: int
    of: int


def goodput_bps(diagnosis: Diagnosis, drawn: Drawn) -> float | None:
    """Return the goodput in bit/s, link time; None if it is not known."""
    speed = goodput(drawn.direction)
    return None if speed is None else speed / diagnosis.transfer.speed


def round_trip(diagnosis: Diagnosis, drawn: Drawn) -> RoundTrip | None:
    """Return the round trips of a transfer; None where nothing tells them."""
    row, speed = drawn.direction, diagnosis.transfer.speed
    if not RoundTrips(row["rtt_absent"]):
        least, usual, most = (row[f"rtt_{name}_ns"] * speed for name in ("min", "p50", "p95"))
        return RoundTrip(least, usual, most, is_inferred=False)
    seen = diagnosis.limited.seen
    if seen is None or not seen.floor_ns or not len(seen.delays.way_ns):
        return None
    queue_ns = seen.delays.way_ns - seen.delays.way_ns.min()
    usual, most = (seen.floor_ns + float(np.quantile(queue_ns, share)) for share in (0.5, 0.95))
    return RoundTrip(seen.floor_ns * speed, usual * speed, most * speed, is_inferred=True)


def loss(diagnosis: Diagnosis, drawn: Drawn) -> Loss:
    """Return what is known to be lost; else what was sent again, or filled holes."""
    seen, row = diagnosis.limited.seen, drawn.direction
    if seen is not None and len(seen.sends) and (seen.sends.lost != NA).all():
        return Loss("Lost", int(np.count_nonzero(seen.sends.lost == 1)), len(seen.sends))
    if drawn.is_at_receiver:
        return Loss("Lost or late", row["out_of_order"], row["data_segments"])
    return Loss("Sent again", row["retransmitted_segments"], row["data_segments"])


def numbers(diagnosis: Diagnosis, drawn: Drawn) -> Markup:
    """Return the three numbers of the connection that is explained."""
    lost = loss(diagnosis, drawn)
    return element(
        "dl",
        _speed(diagnosis, drawn),
        _delay(round_trip(diagnosis, drawn), drawn),
        _number(
            lost.name,
            in_share(lost),
            f"{lost.segments:,} of {count(lost.of, 'data segment')}{_repair(diagnosis, lost)}",
        ),
        class_="three",
    )


def _repair(diagnosis: Diagnosis, lost: Loss) -> str:
    """Return what the repair of losses cost where it was next to nothing; else the limit's row has it."""
    own = [each for each in diagnosis.limited.shares if each.limit is Limit.RECOVERY]
    is_known = lost.segments > 0 and diagnosis.headline.limit is not Limit.UNKNOWN
    if not is_known or sum(each.share_high for each in own) >= _NEXT_TO_NOTHING:
        return ""
    seconds = sum(each.seconds for each in own)
    took = duration(seconds * NS_PER_S) if seconds >= _SHOWN_S else "no time"
    return f"; their repair cost {took}"


def in_share(lost: Loss) -> str:
    """Return a loss as a share of the segments."""
    return share(lost.segments, lost.of) if lost.segments else "none"


def _number(name: str, value: str, more: str) -> Markup:
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _speed(diagnosis: Diagnosis, drawn: Drawn) -> Markup:
    row, speed = drawn.direction, goodput_bps(diagnosis, drawn)
    delivered, by = size(row["unique_bytes"]), GoodputBy(row["goodput_by"])
    if speed is None:
        name = "Carried" if by is GoodputBy.ONE_MOMENT else "Sent"
        return _number(name, delivered, f"no speed: {by.words}")
    took = duration(row["goodput_ns"] * diagnosis.transfer.speed)
    return _number("Speed", rate(speed), f"{delivered} {by.words} in {took}")


def _delay(trip: RoundTrip | None, drawn: Drawn) -> Markup:
    if trip is None:
        return _number("Round trip", "not known", RoundTrips(drawn.direction["rtt_absent"]).words)
    how = ", inferred from arrivals" if trip.is_inferred else ""
    more = f"least → usual{how}; 95 % below {duration(trip.most_ns)}"
    return _number("Round trip", grows(trip.least_ns, trip.usual_ns), more)


def grows(least_ns: float, usual_ns: float) -> str:
    """Return two lengths of time, the unit once where it is the same: 70.8 → 406 ms."""
    least, usual = duration(least_ns), duration(usual_ns)
    number, _, unit = least.rpartition(" ")
    return f"{number if usual.endswith(f' {unit}') else least} → {usual}"
