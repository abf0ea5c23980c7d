"""What each flow of a run delivered, and how evenly, for the summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from multitracer.analysis.fairness import fairness_gap, jain_index
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
