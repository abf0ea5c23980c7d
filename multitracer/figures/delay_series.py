"""The round-trip times, the reconstructed timers and the rates of one TCP direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.kind import Kind
from multitracer.analysis.series.rtt import Provenance, reconstruct_rto
from multitracer.analysis.series.throughput import default_window_ns, delivered, goodput, throughput
from multitracer.figures.series import Series, in_order
from multitracer.tables import NOT_A_TIME
from multitracer.tcp import Vantage
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.figures.direction import Direction
    from multitracer.tables import Table

_RATE_WINDOWS, _FEWEST_WINDOWS = 400, 10
"""A connection lasts so many windows of its rates at most, and at least."""
_LONGEST_WINDOW_NS = 10**17
"""Three years: what a capture with broken times gets."""
_PROVENANCES = (
    (Provenance.TIMESTAMP, "rtt_timestamp", "ACK of new data that echoes the segment's timestamp (RFC 7323)"),
    (Provenance.SACK, "rtt_sack", "SACK block that names the segment (RFC 2018)"),
    (Provenance.EXACT_ACK, "rtt", "ACK that ends exactly at a segment sent once (Karn's rule)"),
)


def rtt_series(direction: Direction) -> list[Series]:
    """Return RTT samples by provenance, each at the moment its answer was captured, in ns.

    None near the receiver, whoever says that the capture was made there.
    """
    if direction.vantage == Vantage.NEAR_RECEIVER:
        return []
    rtt_samples = direction.rtt_samples
    own = rtt_samples["reverse"] == direction.reverse
    drawn = []
    for provenance, name, doc in _PROVENANCES:
        samples = rtt_samples.take(own & (rtt_samples["provenance"] == provenance))
        series = Series(
            f"{direction.prefix}_{name}",
            name,
            samples["time_ns"],
            samples["rtt_ns"],
            frame=direction.segments["frame"][samples["row"]],
            file=direction.segments["file"][samples["row"]],
            answer=direction.segments["frame"][samples["answer_row"]],
            doc=doc,
        )
        drawn.append(in_order(series))
    return drawn


def timer_series(direction: Direction) -> list[Series]:
    """Return SRTT and RTO as RFC 6298 gives them from the samples, in ns; never the sender's own values."""
    if direction.vantage == Vantage.NEAR_RECEIVER:
        return []
    states = reconstruct_rto(_one_per_answer(direction))
    if not len(states):
        return []
    drawn = []
    for name, doc in (("srtt", "smoothed round-trip time"), ("rto", "retransmission timeout")):
        value = np.rint(states[f"{name}_ns"]).astype(np.int64)
        series = Series(
            f"{direction.prefix}_{name} (reconstructed)",
            name,
            states["time_ns"],
            value,
            bound=name == "rto",
            doc=f"{doc}, reconstructed by RFC 6298 from the samples; not the sender's own value",
        )
        drawn.append(in_order(series))
    return drawn


def _one_per_answer(direction: Direction) -> Table:
    """Return at most one sample of each ACK, as Linux takes them: exact, else by SACK, else by timestamp."""
    samples = direction.rtt_samples
    samples = samples.take(samples["reverse"] == direction.reverse)
    rank = np.array([0, 2, 1])[samples["provenance"]]
    order = np.lexsort((rank, samples["answer_row"]))
    answers = samples["answer_row"][order]
    return samples.take(order[np.append(True, answers[1:] != answers[:-1])[: len(order)]])


def rate_series(direction: Direction, *, window_ns: int) -> list[Series]:
    """Return goodput and, where bytes were sent again or none is known, throughput: moving averages, bit/s.

    Goodput is what arrived near the receiver, and what was acknowledged elsewhere.
    """
    if direction.vantage == Vantage.NEAR_RECEIVER:
        drawn = [_rate(direction, "goodput", goodput, window_ns, "payload that arrived, each byte once")]
    else:
        doc = "payload that ACKs and SACK blocks report, each byte once, as they came in"
        drawn = [_rate(direction, "goodput", delivered, window_ns, doc)]
    if bool(np.any(direction.sent & direction.has(Kind.RETRANSMISSION))) or not len(drawn[0]):
        doc = "payload bytes captured, every copy counted"
        drawn.insert(0, _rate(direction, "throughput", throughput, window_ns, doc))
    return drawn


def _rate(direction: Direction, name: str, rate: Callable[..., Table], window_ns: int, doc: str) -> Series:
    segments = _timed(direction.segments)
    rates = rate(segments, reverse=direction.reverse, window_ns=window_ns)
    bits = rates["bytes_per_s"] * BITS_PER_BYTE
    bits = np.rint(bits, out=bits).astype(np.int64)
    series = Series(f"{direction.prefix}_{name}", name, rates["time_ns"], bits, doc=doc)
    return series.between(None, int(segments["time_ns"].max())) if len(series) else series


def rate_window_ns(direction: Direction) -> int:
    """Return the window of the rates: the time of 16 segments, within what the eye can distinguish.

    1, 2 or 5 times a power of ten; docs/figures.md.
    """
    segments = _timed(direction.segments)
    times = segments["time_ns"]
    span = int(times.max()) - int(times.min()) if len(times) else 0
    least = max(default_window_ns(segments, reverse=direction.reverse), span // _RATE_WINDOWS)
    least = max(min(least, span // _FEWEST_WINDOWS, _LONGEST_WINDOW_NS), 1)
    power = 10 ** (len(str(least)) - 1)
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= least))


def _timed(segments: Table) -> Table:
    timed = segments["time_ns"] != NOT_A_TIME
    return segments if timed.all() else segments.take(timed)
