"""What each flow of a run delivered, and how evenly: `flows`, `jain_index`, `fairness_gap` of a summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One flow of a run: the data of one traffic, one way; times in link seconds."""

    flow: str
    """Where it comes from and where it goes, HOST:PORT > HOST:PORT."""
    transport: str
    """As the scenario names it."""
    start_s: float
    """When its first packet left, counted from the start of the run."""
    delivered_bytes: int
    """Payload that reached the receiver, each byte once."""
    delivered_packets: int
    """Packets that brought such payload."""
    rate_bps: float | None
    """Delivered bits by the time from its start to the arrival of its last byte, or to the end of the run if
    that did not arrive; None if it had no time."""


def rate_bps(*, delivered_bytes: int, elapsed_ns: int) -> float | None:
    """Return the rate of a flow in bit/s; None if no time passed."""
    return delivered_bytes * BITS_PER_BYTE * NS_PER_S / elapsed_ns if elapsed_ns > 0 else None


def jain_index(rates: Sequence[float]) -> float | None:
    """Return Jain's fairness index of the flows' rates: 1 if all are alike, 1/n if one has everything.

    Source: Jain, Chiu and Hawe 1984, "A Quantitative Measure of Fairness", equation 1. None without a rate
    above 0.
    """
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares > 0 else None


def fairness_gap(rates: Sequence[float]) -> tuple[float | None, str | None]:
    """Return how much more the fastest flow has than the slowest, of the slowest; or None and the reason.

    Source: paper 003, equation 2. 0 is even; a minimum of 0 has no gap.
    """
    if len(rates) < 2:
        return None, "a gap is between two flows or more"
    if min(rates) <= 0:
        return None, "the slowest flow delivered nothing"
    return (max(rates) - min(rates)) / min(rates), None


def flows_document(flows: Sequence[Flow]) -> Document:
    """Return the keys of a summary about its flows; `share` is of all delivered bytes, None without any."""
    total = sum(flow.delivered_bytes for flow in flows)
    rates = [flow.rate_bps or 0.0 for flow in flows]
    gap, reason = fairness_gap(rates)
    return {
        "flows": [
            {
                **{name: _rounded(value) for name, value in asdict(flow).items()},
                "share": flow.delivered_bytes / total if total else None,
            }
            for flow in flows
        ],
        "jain_index": _rounded(jain_index(rates)),
        "fairness_gap": _rounded(gap),
        "fairness_gap_reason": reason,
    }


def _rounded(value: float | str | None) -> float | str | None:
    return round(value, 6) if isinstance(value, float) else value
