"""How evenly the flows of a recording (TCP and WTCP) share the link while all run, and in each interval.

Rules of the file
-----------------
- Flows of one direction are compared (the data of the initiators, or those of the responders), by default the
  direction with more bytes. Of all connections, those with the most bytes are compared.
- A flow runs from its first new payload to its last. Its bytes are those that its receiver's capture shows
  for the first time; without that capture, those that ACKs of TCP report. A flow of WTCP is then left out.
- All times are converted to the clock of the capture point that has most flows. A flow whose clock cannot be
  related is left out, and a note says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.deliveries import in_time_order, tcp_deliveries
from multitracer.analysis.fairness import fairness, shares
from multitracer.analysis.series.throughput import reported
from multitracer.clock.moved_table import moved
from multitracer.errors import InputError
from multitracer.recording.deliveries import MOST_FLOWS, NO_RECEIVER, wtcp_flows
from multitracer.recording.places import places_of
from multitracer.schemas.link import FAIRNESS, SHARES
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.recording.capture import Capture
    from multitracer.recording.deliveries import RecordedFlow
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Numbers, Times

MOST_INTERVALS = 200_000
"""Maximum number of intervals, the same as the maximum number of bins of compared quantities."""
NO_COMMON_TIME = "there is no time in which all flows ran"


class _Flow(NamedTuple):
    """The times and bytes of the payload of one flow."""

    name: str
    time_ns: Times
    """When new payload arrived, on the common clock: int64, ns, ascending."""
    new_bytes: Numbers


class FairShares(NamedTuple):
    """The result of `fair_shares`: two tables and the notes."""

    fairness: Table
    """The table FAIRNESS: one row per interval."""
    shares: Table
    """The table SHARES: one row per flow and interval."""
    notes: list[str]
    """Sentences about the flows that were left out."""
    late: Table
    """FAIRNESS of the last third of the time in which all run; empty without such a time, and for intervals."""


def fair_shares(recording: Recording, *, step_s: float | None = None, reverse: bool | None = None) -> FairShares:
    """Return how evenly the flows of a recording share the link.

    Parameters
    ----------
    recording : Recording
    step_s : float, optional
        Length of the intervals, link seconds; by default one interval: the time in which all flows run.
    reverse : bool, optional
        Which data: False those of the initiators, True those of the responders; by default the direction with
        more bytes.

    Raises
    ------
    InputError
        If the length is not above 0, or is so short that there are too many intervals.
    """
    if step_s is not None and not 0 < step_s < np.inf:
        raise InputError(f'"step_s" must be a number of seconds above 0, but is {step_s}')
    flows, notes = _flows(recording, reverse)
    edges = _common(flows) if step_s is None else _edges(flows, step_s * NS_PER_S / recording.speed)
    begin_ns, end_ns = edges[:-1], edges[1:]
    if step_s is None and not len(begin_ns):
        return FairShares(_without_time(len(flows)), Table.empty(SHARES), notes, Table.empty(FAIRNESS))
    rate_bps = _rates(flows, edges, recording.speed)
    late = Table.empty(FAIRNESS)
    if step_s is None:
        third = np.array([edges[0] + 2 * (edges[1] - edges[0]) // 3, edges[1]])
        late = _evenness(third, _rates(flows, third, recording.speed))
    return FairShares(_evenness(edges, rate_bps), _shares(flows, begin_ns, end_ns, rate_bps), notes, late)


def _rates(flows: list[_Flow], edges: Times, speed: float) -> Array:
    """Return the rate of each flow between the edges, bit/s: float64, shape (n_flows, n_intervals)."""
    carried = np.array([_carried(flow, edges) for flow in flows]).reshape(len(flows), max(len(edges) - 1, 0))
    return carried * BITS_PER_BYTE * NS_PER_S / (np.diff(edges) * speed)


def _evenness(edges: Times, rate_bps: Array) -> Table:
    """Return FAIRNESS of the rates between the edges."""
    evenness = [fairness(column[np.isfinite(column)]) for column in rate_bps.T]
    return Table(
        FAIRNESS,
        {
            "begin_ns": edges[:-1],
            "end_ns": edges[1:],
            "flows": np.array([each.flows for each in evenness], dtype=np.int64),
            "rate_bps": np.where(np.isfinite(rate_bps).any(axis=0), np.nansum(rate_bps, axis=0), np.nan),
            "gap": np.array([each.gap for each in evenness], dtype=np.float64),
            "jain": np.array([each.jain for each in evenness], dtype=np.float64),
            "reason": np.array([each.reason for each in evenness], dtype="U96"),
        },
    )


def _without_time(flows: int) -> Table:
    """Return a row of FAIRNESS without values, for flows that never run all at the same time."""
    reason = NO_COMMON_TIME if flows > 1 else fairness([1.0] * flows).reason
    row = {
        "begin_ns": NOT_A_TIME, "end_ns": NOT_A_TIME, "flows": flows, "rate_bps": np.nan, "gap": np.nan,
        "jain": np.nan, "reason": reason,
    }  # fmt: skip
    return Table(FAIRNESS, {c.name: np.array([row[c.name]], dtype=c.dtype) for c in FAIRNESS})


def _shares(flows: list[_Flow], begin_ns: Times, end_ns: Times, rate_bps: Array) -> Table:
    share = shares(rate_bps)
    interval, flow = np.nonzero(np.isfinite(rate_bps).T)
    names = np.array([each.name for each in flows], dtype="U128")
    return Table(
        SHARES,
        {
            "begin_ns": begin_ns[interval],
            "end_ns": end_ns[interval],
            "flow": names[flow] if len(names) else names,
            "rate_bps": rate_bps[flow, interval],
            "share": share[flow, interval],
        },
    )


def _common(flows: list[_Flow]) -> Times:
    """Return begin and end of the time in which all flows run, ns; an empty array if there is none."""
    if not flows:
        return np.empty(0, dtype=np.int64)
    first, last = max(int(f.time_ns[0]) for f in flows), min(int(f.time_ns[-1]) for f in flows)
    return np.array([first, last] if last > first else [], dtype=np.int64)


def _edges(flows: list[_Flow], step_ns: float) -> Times:
    """Return the borders of the intervals, ns, from the first payload of any flow to the last one."""
    if not flows:
        return np.empty(0, dtype=np.int64)
    first, last = min(int(f.time_ns[0]) for f in flows), max(int(f.time_ns[-1]) for f in flows)
    number = (last - first) // max(step_ns, 1.0)
    if number > MOST_INTERVALS:
        raise InputError(
            f"fairness: the number of intervals must be at most {MOST_INTERVALS:,}, but is "
            f'{number:,.0f}; choose a longer "step_s"'
        )
    return first + np.rint(np.arange(number + 1) * step_ns).astype(np.int64)


def _carried(flow: _Flow, edges: Times) -> Array:
    """Return the bytes of a flow in each interval; NaN if the flow does not run during all of it."""
    total = np.append(0, np.cumsum(flow.new_bytes))
    at = total[np.searchsorted(flow.time_ns, edges, side="right")]
    runs = (edges[:-1] >= flow.time_ns[0]) & (edges[1:] <= flow.time_ns[-1])
    return np.where(runs, np.diff(at), np.nan)


# --- the flows ---


class _Candidate(NamedTuple):
    """A flow on the clock of the capture point that shows its payload; without such a point `point` is empty."""

    name: str
    point: str
    table: Table
    """DELIVERIES."""


def _flows(recording: Recording, reverse: bool | None) -> tuple[list[_Flow], list[str]]:
    """Return the flows of one direction, in order of their start, and sentences about those left out."""
    largest = recording.largest(MOST_FLOWS * max(len(recording.captures), 1))
    wtcp = wtcp_flows(recording)
    way = _way(largest, wtcp) if reverse is None else reverse
    candidates = [*_tcp_candidates(recording, largest, way)]
    candidates += [_Candidate(flow.name, flow.point, flow.table) for flow in wtcp if flow.reverse == way]
    known = [each for each in candidates if each.point]
    notes = [f"{each.name}: left out: {NO_RECEIVER}" for each in candidates if not each.point][:MOST_FLOWS]
    chosen = sorted(known, key=lambda each: -int(each.table["new_bytes"].sum()))[:MOST_FLOWS]
    fewer = len(known) - len(chosen)
    notes += [f"{count(fewer, 'flow')} with fewer bytes not compared"] if fewer else []
    point = Counter(each.point for each in chosen).most_common(1)[0][0] if chosen else ""
    flows = []
    for each in chosen:
        flow, why = _flow(recording, each, point)
        flows += [flow] if flow is not None else []
        notes += [why] if why else []
    return sorted(flows, key=lambda flow: int(flow.time_ns[0])), notes


def _way(largest: list[tuple[Capture, int]], wtcp: list[RecordedFlow]) -> bool:
    """Return the direction with more bytes: True if the responders sent more than the initiators."""
    sent = [sum(int(p.analysis.directions["unique_bytes"][2 * n - 2 + way]) for p, n in largest) for way in (0, 1)]
    for flow in wtcp:
        sent[flow.reverse] += flow.delivered_bytes or 0
    return sent[1] > sent[0]


def _tcp_candidates(recording: Recording, largest: list[tuple[Capture, int]], way: bool) -> Iterator[_Candidate]:
    places: dict[tuple[int, int], tuple[ConnectionAtPoint, ConnectionAtPoint]] = {}
    for capture, number in largest:
        if capture.analysis.directions["unique_bytes"][2 * number - 2 + way]:
            sender, receiver = places_of(recording, capture, number, reverse=way)
            at = receiver or sender
            places.setdefault((id(at.capture), at.connection), (sender, at))
    for sender, at in places.values():
        arrives = at is not sender or at.vantage is Vantage.NEAR_RECEIVER
        segments = at.capture.analysis.tcp_segments(at.connection)
        table = (tcp_deliveries if arrives else reported)(segments, reverse=at.reverse)
        yield _Candidate(" > ".join(_endpoints(at)), at.host, table)


def _flow(recording: Recording, candidate: _Candidate, point: str) -> tuple[_Flow | None, str]:
    """Return the flow of a candidate and an empty text, or None and the reason why it is not compared."""
    table = candidate.table.take(candidate.table["new_bytes"] > 0)
    if candidate.point != point and recording.clocks is not None:
        clocks = recording.clocks
        placed = moved(table, clocks, clocks.of_point(candidate.point), clocks.of_point(point))
        if not placed.placed:
            return None, f"{candidate.name}: left out: {placed.sentence}"
        table = placed.table
    time_ns, new_bytes = in_time_order(table)
    if not len(time_ns):
        return None, f"{candidate.name}: left out: none of its payload is known to have arrived"
    return _Flow(candidate.name, time_ns, new_bytes), ""


def _endpoints(at: ConnectionAtPoint) -> tuple[str, str]:
    """Return HOST:PORT of the data's sender and of its receiver."""
    ends = at.capture.analysis.ends(at.connection)
    return (ends.destination, ends.source) if at.reverse else (ends.source, ends.destination)
