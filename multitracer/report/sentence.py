"""One direction of a connection in a sentence that a field engineer understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.schemas.tcp import GoodputBy, RoundTrips, Vantage
from multitracer.units import BITS_PER_BYTE
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from multitracer.report.connection_table import Drawn, Worst
    from multitracer.tables import Row

NOTHING = "There is no TCP connection in this capture."


def sentence(drawn: Drawn) -> str:
    """Return what happened in one direction: who sent how much to whom, how fast, what twice, what delay."""
    direction = drawn.direction
    sender, receiver = drawn.ends
    if not direction["unique_bytes"]:
        return f"{sender} sent no data to {receiver} that this capture holds."
    parts = [f"{sender} sent {size(direction['unique_bytes'])} to {receiver}{_took(direction)}"]
    parts += [_twice(direction), _rtt(direction, drawn.worst_rtt)]
    return "; ".join(parts) + "."


def goodput(direction: Row) -> float | None:
    """Return the goodput in bit/s, from the first to the last arrival; None if it is not known."""
    if not GoodputBy(direction["goodput_by"]).is_known:
        return None
    return float(direction["goodput_bytes_per_s"]) * BITS_PER_BYTE


def _took(direction: Row) -> str:
    speed = goodput(direction)
    if speed is not None:
        by = GoodputBy(direction["goodput_by"])
        return f" in {duration(direction['goodput_ns'])} ({rate(speed)} {by.words})"
    if direction["goodput_by"] == GoodputBy.ONE_MOMENT or direction["data_segments"] == 1:
        return " in a single moment"
    return ""


def _twice(direction: Row) -> str:
    again = direction["retransmitted_bytes"]
    if direction["capture_duplicates"]:
        return "many packets were captured twice, so retransmissions are not counted"
    if direction["vantage"] == Vantage.NEAR_RECEIVER:
        filled = direction["out_of_order"]
        holes = f", {count(filled, 'segment')} behind later ones" if filled else ""
        twice = f"{share(again, direction['unique_bytes'])} of it" if again else "none of it"
        return f"{twice} arrived twice{holes}"
    return f"{share(again, direction['unique_bytes'])} of it twice" if again else "none of it twice"


def _rtt(direction: Row, worst: Worst | None) -> str:
    if direction["rtt_absent"] == RoundTrips.NEAR_RECEIVER:
        return "RTT not measurable here, near the receiver"
    if worst is None:
        return "no RTT sample"
    median = f"median RTT {duration(direction['rtt_p50_ns'])}, " if direction["rtt_count"] else "RTT "
    return f"{median}worst {duration(worst.rtt_ns)} at {worst.at_s:,.1f} s"
