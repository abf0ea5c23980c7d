"""The retransmission timer that RFC 6298 gives, run over RTT samples of a capture.

What comes out is *reconstructed*: a kernel smooths other samples (one per ACK, with its own clock) and bounds
them otherwise. Where a log of the sender's own variables exists, that one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import Table
from multitracer.tcp import RTO_STATES
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.intervals import Array


@dataclass(frozen=True, slots=True)
class RtoProfile:
    """Bounds of a retransmission timer, in ns."""

    granularity_ns: int
    """G: a variation below it counts as it."""
    minimum_ns: int
    maximum_ns: int


RFC_6298 = RtoProfile(granularity_ns=NS_PER_MS, minimum_ns=NS_PER_S, maximum_ns=60 * NS_PER_S)
"""RFC 6298, sections 2.3 to 2.5."""

LINUX = RtoProfile(granularity_ns=200 * NS_PER_MS, minimum_ns=200 * NS_PER_MS, maximum_ns=120 * NS_PER_S)
"""Linux adds at least 200 ms to SRTT (TCP_RTO_MIN) and waits 120 s at most (TCP_RTO_MAX, net/tcp.h)."""


def reconstruct_rto(samples: Table, *, profile: RtoProfile = RFC_6298) -> Table:
    """Return RTO_STATES: SRTT, RTTVAR and RTO after each sample.

    Parameters
    ----------
    samples : Table
        RTT_SAMPLES of one direction and one provenance, in order of their answers. Negative ones, which only
        a clock that went back can give, are passed over.
    profile : RtoProfile

    References
    ----------
    RFC 6298, section 2: alpha = 1/8, beta = 1/4, K = 4.
    """
    rows = np.flatnonzero(samples["rtt_ns"] >= 0)
    rtt_ns = samples["rtt_ns"][rows]
    srtt_ns, rttvar_ns = _smoothed(rtt_ns)
    rto_ns = srtt_ns + np.maximum(profile.granularity_ns, 4 * rttvar_ns)
    columns = {
        "time_ns": samples["time_ns"][rows],
        "rtt_ns": rtt_ns,
        "srtt_ns": srtt_ns,
        "rttvar_ns": rttvar_ns,
        "rto_ns": np.clip(rto_ns, profile.minimum_ns, profile.maximum_ns),
    }
    return Table(
        RTO_STATES, columns, {"reconstructed": "RFC 6298 over RTT samples; not the sender's own values"}
    )


def _smoothed(rtt_ns: Array) -> tuple[Array, Array]:
    """Return SRTT and RTTVAR after each sample."""
    if not len(rtt_ns):
        return np.empty(0), np.empty(0)
    sample = rtt_ns.astype(np.float64)
    srtt = _averaged(sample, sample[0], weight=1 / 8)
    before = np.concatenate([sample[:1], srtt[:-1]])
    off = np.abs(before - sample)
    off[0] = sample[0] / 2
    return srtt, _averaged(off, off[0], weight=1 / 4)


def _averaged(values: Array, first: float, *, weight: float) -> Array:
    """Return the exponentially weighted average after each value, the first one `first`.

    Each needs the one before it: so all runs of equal length are averaged side by side as if nothing came
    before them, and what came before is added afterwards, run after run.
    """
    length = int(np.sqrt(len(values))) + 1
    runs = np.full((-(-len(values) // length), length), first)
    runs.flat[: len(values)] = values
    kept = 1 - weight
    runs *= weight
    for i in range(1, length):
        runs[:, i] += kept * runs[:, i - 1]
    faded, carried = kept ** np.arange(1, length + 1), np.empty(len(runs))
    last = float(first)
    for i, own in enumerate(runs[:, -1].tolist()):
        carried[i] = last
        last = own + float(faded[-1]) * last
    averaged: Array = (runs + carried[:, None] * faded).reshape(-1)[: len(values)]
    return averaged
