"""Three numbers with their meaning: how fast, how long a round trip takes, how much is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.report.markup import Markup, element
from multitracer.report.sentence import goodput
from multitracer.tables import NA
from multitracer.tcp import GoodputBy, RoundTrips
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.report.drawn import Drawn
    from multitracer.tables import Row


def numbers(diagnosis: Diagnosis, drawn: Drawn) -> Markup:
    """Return the three numbers of the connection that is explained."""
    return element(
        "dl",
        _speed(drawn.direction),
        _delay(diagnosis, drawn.direction),
        _loss(diagnosis, drawn),
        class_="three",
    )


def _number(name: str, value: str, more: str) -> Markup:
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _speed(row: Row) -> Markup:
    speed, delivered = goodput(row), size(row["unique_bytes"])
    by = GoodputBy(row["goodput_by"])
    if speed is None:
        return _number("Speed", delivered, by.words)
    return _number("Speed", rate(speed), f"{delivered} {by.words} in {duration(row['goodput_ns'])}")


def _delay(diagnosis: Diagnosis, row: Row) -> Markup:
    """Return the shortest and the usual round trip; of a receiver, the shortest and the queue on top."""
    if not RoundTrips(row["rtt_absent"]):
        least, usual, most = (row[f"rtt_{name}_ns"] for name in ("min", "p50", "p95"))
        return _number("Round trip", _grows(least, usual), f"least → usual; 95 % below {duration(most)}")
    seen, speed = diagnosis.limited.seen, diagnosis.transfer.speed
    if seen is None or not seen.floor_ns or not len(seen.delays.way_ns):
        return _number("Round trip", "not known", RoundTrips(row["rtt_absent"]).words)
    queue_ns = (seen.delays.way_ns - seen.delays.way_ns.min()) * speed
    least = seen.floor_ns * speed
    value = _grows(least, least + float(np.median(queue_ns)))
    most = duration(least + float(np.quantile(queue_ns, 0.95)))
    return _number("Round trip", value, f"least → usual, inferred from arrivals; 95 % below {most}")


def _grows(least_ns: float, usual_ns: float) -> str:
    """Return two lengths of time, the unit once where it is the same: 70.8 → 406 ms."""
    least, usual = duration(least_ns), duration(usual_ns)
    number, _, unit = least.rpartition(" ")
    return f"{number if usual.endswith(f' {unit}') else least} → {usual}"


def _loss(diagnosis: Diagnosis, drawn: Drawn) -> Markup:
    """Return what is known to be lost; else what was sent again, or filled holes."""
    seen, row = diagnosis.limited.seen, drawn.direction
    if seen is not None and len(seen.sends) and (seen.sends.lost != NA).all():
        lost = int(np.count_nonzero(seen.sends.lost == 1))
        return _number(
            "Lost",
            share(lost, len(seen.sends)) if lost else "none",
            f"{lost:,} of {count(len(seen.sends), 'data segment')}",
        )
    segments = row["data_segments"]
    if drawn.is_at_receiver:
        filled = row["out_of_order"]
        return _number(
            "Lost or late",
            share(filled, segments) if filled else "none",
            f"{count(filled, 'segment')} filled holes of {segments:,}",
        )
    again = row["retransmitted_segments"]
    return _number(
        "Sent again",
        share(again, segments) if again else "none",
        f"{again:,} of {count(segments, 'data segment')}",
    )
