"""The retransmission timer that RFC 6298 gives, run over RTT samples of a capture.

What comes out is *reconstructed*: a kernel smooths other samples (one per ACK, with its own clock) and bounds
them otherwise. Where a log of the sender's own variables exists, that one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import group_starts
from multitracer.tables import Table
from multitracer.tcp import RTO_STATES
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array


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
        a clock that went back can give, are skipped.
    profile : RtoProfile

    References
    ----------
    RFC 6298, section 2: alpha = 1/8, beta = 1/4, K = 4.
    """
    rows = np.flatnonzero(samples["rtt_ns"] >= 0)
    rtt_ns = samples["rtt_ns"][rows]
    srtt_ns, rttvar_ns, rto_ns = timeouts_ns(rtt_ns, np.array([0, len(rows)]), profile)
    columns = {
        "time_ns": samples["time_ns"][rows],
        "rtt_ns": rtt_ns,
        "srtt_ns": srtt_ns,
        "rttvar_ns": rttvar_ns,
        "rto_ns": rto_ns,
    }
    return Table(
        RTO_STATES, columns, {"reconstructed": "RFC 6298 over RTT samples; not the sender's own values"}
    )


def timeouts_ns(rtt_ns: Array, bounds: Array, profile: RtoProfile) -> tuple[Array, Array, Array]:
    """Return SRTT, RTTVAR and RTO after each sample of several directions.

    Parameters
    ----------
    rtt_ns : ndarray of int64, shape (n_samples,)
        No sample is negative.
    bounds : ndarray of int64, shape (n_directions + 1,)
        Direction d has the samples bounds[d]:bounds[d + 1].
    profile : RtoProfile

    Returns
    -------
    srtt_ns, rttvar_ns, rto_ns : ndarray of float64, ns, shape (n_samples,)
    """
    sample, first = rtt_ns.astype(np.float64), group_starts(bounds)
    srtt_ns = _averaged(sample, sample[first], bounds, weight=1 / 8)
    before = np.zeros_like(sample)
    before[1:] = srtt_ns[:-1]
    off = np.abs(before - sample)
    off[first] = sample[first] / 2
    rttvar_ns = _averaged(off, off[first], bounds, weight=1 / 4)
    rto_ns = srtt_ns + np.maximum(profile.granularity_ns, 4 * rttvar_ns)
    return srtt_ns, rttvar_ns, np.clip(rto_ns, profile.minimum_ns, profile.maximum_ns)


def _averaged(values: Array, first: Array, bounds: Array, *, weight: float) -> Array:
    """Return the exponentially weighted average after each value, from `first` of its group on.

    Each needs the one before it: so all runs of equal length are averaged side by side as if nothing came
    before them, and what came before is added afterwards, run after run. A group begins a run.
    """
    sizes = np.diff(bounds)[np.diff(bounds) > 0]
    length = int(np.sqrt(len(values) / max(len(sizes), 1))) + 1
    of_group = -(-sizes // length)
    begins = np.cumsum(of_group) - of_group
    cell = np.arange(len(values)) + np.repeat(begins * length - (np.cumsum(sizes) - sizes), sizes)
    flat = np.zeros(int(of_group.sum()) * length)
    flat[cell] = weight * values
    runs = np.ascontiguousarray(flat.reshape(-1, length).T)  # the same place of all runs side by side
    kept = 1 - weight
    for i in range(1, length):
        runs[i] += kept * runs[i - 1]
    faded = kept ** np.arange(1, length + 1)
    carried = _carried(runs[-1].tolist(), dict(zip(begins.tolist(), first.tolist(), strict=True)), faded[-1])
    averaged: Array = (runs + np.array(carried) * faded[:, None]).T.ravel()[cell]
    return averaged


def _carried(own: list[float], first: dict[int, float], faded: float) -> list[float]:
    """Return what the average was before each run: `first` where a group begins."""
    carried, last = [], 0.0
    for i, value in enumerate(own):
        last = first.get(i, last)
        carried.append(last)
        last = value + float(faded) * last
    return carried
