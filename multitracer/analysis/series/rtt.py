"""Round-trip times of one connection, each with its provenance; stalls are included.

Samples come from three methods, which are never mixed:

exact ACK
    The first ACK that covers a segment ends at its end, and Karn's rule is satisfied (see
    `segments/examination.py`). Retransmitted data give no sample.
timestamp echo
    RFC 7323, section 4.1: an ACK of new data echoes the timestamp of the segment (see
    `segments/segment_rows.py`). The echo identifies the transmission that was answered, so this method also
    measures stalls and recovery from losses.
SACK
    The first block of an ACK (not a D-SACK) ends at the segment's end and is the first to cover it, and the
    segment was sent once. This block names the segment that triggered the ACK (RFC 2018, section 4).

`reconstruct_rto` computes the retransmission timer of RFC 6298 from the RTT samples of a capture. The result
is *reconstructed*: a kernel uses other samples (one per ACK, with its own clock) and other bounds. A log of
the sender's own variables has priority if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import first_painters, group_starts, places
from multitracer.analysis.segments.in_chunks import NEVER
from multitracer.schemas.tcp import RTO_STATES, RTT_SAMPLES
from multitracer.tables import NOT_A_TIME, Table, between_ns
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.segments.in_chunks import WalkedConnection
    from multitracer.analysis.segments.outstanding import SackBlocks
    from multitracer.analysis.segments.segment_rows import Connections
    from multitracer.tables import Array


class Provenance(IntEnum):
    """The method of a round-trip time."""

    EXACT_ACK = 0
    TIMESTAMP = 1
    SACK = 2


def rtt_samples(connection: Connections) -> Table:
    """Return RTT_SAMPLES of a connection, or of several one after the other; of several, without those by SACK."""
    pairs = [connection.exact_pairs, connection.echoes]
    pairs += [_sacked_once(connection)] if len(connection.bounds) == 2 else []
    sent, answer = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    provenance = np.repeat(np.arange(len(pairs), dtype=np.uint8), [len(pair[0]) for pair in pairs])
    place = np.empty_like(connection.order)
    place[connection.order] = np.arange(len(place))
    time_ns = connection.capture.segments["time_ns"][connection.group.rows]
    columns = {
        "time_ns": time_ns[answer],
        "reverse": connection.group.direction_of(sent) & 1 == 1,
        "row": place[sent],
        "answer_row": place[answer],
        "rtt_ns": between_ns(time_ns[sent], time_ns[answer]),
        "provenance": provenance,
    }
    in_order = np.lexsort((provenance, place[answer]))
    return Table(RTT_SAMPLES, columns).take(in_order[columns["rtt_ns"][in_order] != NOT_A_TIME])


def rtt_samples_of(walked: WalkedConnection) -> Table:
    """Return RTT_SAMPLES of a connection without SACK blocks that the kernel processed alone."""
    pairs = [_answered(walked, answer) for answer in walked.answers]
    row, answer_row = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    time_ns = walked.segments["time_ns"]
    columns = {
        "time_ns": time_ns[answer_row],
        "reverse": walked.segments["reverse"][row],
        "row": row,
        "answer_row": answer_row,
        "rtt_ns": between_ns(time_ns[row], time_ns[answer_row]),
        "provenance": np.repeat(np.arange(2, dtype=np.uint8), [len(row) for row, _ in pairs]),
    }
    in_order = np.lexsort((columns["provenance"], answer_row))
    return Table(RTT_SAMPLES, columns).take(in_order[columns["rtt_ns"][in_order] != NOT_A_TIME])


def rtts_ns_of(walked: WalkedConnection, *, reverse: bool) -> Array:
    """Return the RTTs of one direction in `rtt_samples_of`, ns, unsorted; some may be NOT_A_TIME."""
    time_ns = walked.segments["time_ns"]
    pairs = [_answered(walked, answer) for answer in walked.answers]
    ways = [walked.segments["reverse"][row] == reverse for row, _ in pairs]
    rtts = [between_ns(time_ns[row[w]], time_ns[at[w]]) for (row, at), w in zip(pairs, ways, strict=True)]
    return np.concatenate(rtts)


def _answered(walked: WalkedConnection, answer: Array) -> tuple[Array, Array]:
    """Return the rows of the segments that have an answer, and the row of the answer to each."""
    row = np.flatnonzero(answer != NEVER)
    at = answer[row].astype(np.int64)
    return row, at if walked.rows is None else places(walked.rows.astype(np.int64), at)


def _sacked_once(connection: Connections) -> tuple[Array, Array]:
    """Return the positions of segments with a SACK sample, and of the segments that carry the SACK block."""
    blocks = connection.blocks
    if not len(blocks.left) or not len(connection.examination.axis.chunks.position):
        none = np.empty(0, dtype=np.int64)  # a capture may begin behind all that is SACKed
        return none, none
    sane = (blocks.left < blocks.right) & ~blocks.dsack
    first = np.flatnonzero(sane & (np.diff(blocks.moment, prepend=-1) != 0))
    pairs = [_named(connection, blocks, first, direction) for direction in (0, 1)]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _named(connection: Connections, blocks: SackBlocks, first: Array, direction: int) -> tuple[Array, Array]:
    """Return the positions of segments of one direction with a SACK sample, and of their answers.

    The answer is the segment that carries the SACK block.
    """
    examination = connection.examination
    chunks, reach = examination.axis.chunks, examination.coverage.reach
    first = first[blocks.direction[first] == direction]
    first = first[_covers_first(blocks, first, direction)]
    right = blocks.right[first]
    chunk = np.minimum(np.searchsorted(reach, right), max(len(reach) - 1, 0))
    exact = np.flatnonzero(reach[chunk] == right)
    chunk, answer = chunk[exact], connection.order[blocks.moment[first[exact]]]
    rows = examination.group.rows
    latest = chunks.timeline.last_before(np.full(len(chunk), direction), rows[answer])
    once = (chunk <= latest) & (_first_copy(connection)[chunk] > latest)
    once &= (chunk == 0) | (chunks.start[chunk] >= reach[chunk - 1])
    once &= ~_acknowledged_before(connection, direction, answer, reach[chunk])
    return chunks.position[chunk[once]], answer[once]


def _covers_first(blocks: SackBlocks, first: Array, direction: int) -> Array:
    """Return which of the blocks `first` are the first to report the byte before their right edge."""
    mine = np.flatnonzero((blocks.direction == direction) & (blocks.left < blocks.right))
    left, right = blocks.left[mine], blocks.right[mine]
    edges = np.unique(np.concatenate([left, right]))
    if not len(edges):
        return np.zeros(len(first), dtype=bool)
    painter = first_painters(np.searchsorted(edges, left), np.searchsorted(edges, right), len(edges) - 1)
    last_cell = np.searchsorted(edges, blocks.right[first]) - 1
    covers: Array = np.append(mine, -1)[painter[last_cell]] == first
    return covers


def _first_copy(connection: Connections) -> Array:
    """Return for each segment the first later segment with at least one of its sequence numbers."""
    examination = connection.examination
    chunks, reach = examination.axis.chunks, examination.coverage.reach
    late = examination.coverage.late[~examination.twice_late]
    left = np.searchsorted(reach, chunks.start[late], side="right")
    right = np.minimum(np.searchsorted(reach, chunks.end[late]) + 1, len(reach))
    touched = np.flatnonzero(left < right)
    painter = first_painters(left[touched], right[touched], len(reach))
    return np.append(late[touched], len(reach))[painter]


def _acknowledged_before(connection: Connections, direction: int, answer: Array, end: Array) -> Array:
    """Return for each answer whether an earlier ACK already covered the sequence number `end`."""
    acks = connection.examination.axis.acks
    if not len(acks.highest):
        return np.zeros(len(answer), dtype=bool)
    rows = connection.examination.group.rows[answer]
    last = acks.timeline.last_before(np.full(len(answer), direction), rows)
    covered: Array = (last >= 0) & (acks.highest[last] >= end)
    return covered


@dataclass(frozen=True, slots=True)
class RtoProfile:
    """Bounds of a retransmission timer, ns."""

    granularity_ns: int
    """G: a variation below it counts as G."""
    minimum_ns: int
    maximum_ns: int


RFC_6298 = RtoProfile(granularity_ns=NS_PER_MS, minimum_ns=NS_PER_S, maximum_ns=60 * NS_PER_S)
"""RFC 6298, sections 2.3 to 2.5."""

LINUX = RtoProfile(granularity_ns=200 * NS_PER_MS, minimum_ns=200 * NS_PER_MS, maximum_ns=120 * NS_PER_S)
"""Linux adds at least 200 ms to SRTT (TCP_RTO_MIN), and limits the RTO to 120 s (TCP_RTO_MAX, net/tcp.h)."""


def reconstruct_rto(samples: Table, *, profile: RtoProfile = RFC_6298) -> Table:
    """Return RTO_STATES: SRTT, RTTVAR and RTO after each sample.

    Parameters
    ----------
    samples : Table
        RTT_SAMPLES of one direction and one provenance, in order of their answers. Negative samples are
        skipped; they come from a clock that stepped backwards.
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
    return Table(RTO_STATES, columns, {"reconstructed": "RFC 6298 over RTT samples; not the sender's own values"})


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
    """Return the exponentially weighted average after each value; the averages of a group start at `first`.

    Each average depends on the one before it. To compute them on arrays, the values are divided into runs of
    equal length. All runs are first averaged in parallel, as if no value came before them; then the effect of
    the earlier values is added, run after run. Each group begins a new run.
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
    """Return the average just before each run; at the begin of a group it is the element of `first`."""
    carried, last = [], 0.0
    for i, value in enumerate(own):
        last = first.get(i, last)
        carried.append(last)
        last = value + float(faded) * last
    return carried
