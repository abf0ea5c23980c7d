"""Packets as slices: a segment from when it was sent until its ACK; arrows from a loss to its repair.

A copy that was lost ends where it is sent again. A flow leads from the copy that was lost, or needlessly
repeated, to the retransmission, and on to the first ACK that covers it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import Kind
from multitracer.analysis.verdicts import Cause, Necessity, evidence_words, word
from multitracer.captured import Flag
from multitracer.export.perfetto.lanes import Lanes
from multitracer.export.perfetto.track_event import Flows
from multitracer.tables import NA, NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.transfer import Transfer
    from multitracer.export.perfetto.lanes import Placed
    from multitracer.export.perfetto.track_event import Trace
    from multitracer.tables import Array, Row

MOST_IN_FLIGHT = 200
"""Segments in flight that have a track of their own; a screen shows some fifty rows. Not measured."""
_AT_ONCE = 1 << 16
"""Rows whose words are in memory at a time."""
_OPENS = np.uint16(Flag.SYN | Flag.FIN | Flag.RST)


class _Chains:
    """Which copies of data belong together: flows by row of the sender's table, and verdicts in words."""

    def __init__(self, transfer: Transfer) -> None:
        self.of_data: defaultdict[int, list[int]] = defaultdict(list)
        self.of_acks: defaultdict[int, list[int]] = defaultdict(list)
        self.words: dict[int, str] = {}
        self.evidence: dict[int, str] = {}
        self.lost: dict[int, int] = {}
        """Row of a copy that was lost -> row of the one that was sent because of it."""
        verdicts = transfer.verdicts
        names = ("row", "earlier_row", "answer_row", "cause", "necessity", "evidence")
        for flow, row in enumerate(zip(*(verdicts[name].tolist() for name in names), strict=True), start=1):
            self._add(flow, *row)

    def _add(self, flow: int, row: int, earlier: int, answer: int, *verdict: int) -> None:
        cause, necessity, evidence = verdict
        self.of_data[row].append(flow)
        self.words[row] = f"sent again ({word(Cause(cause))}, {word(Necessity(necessity))})"
        self.evidence[row] = evidence_words(evidence)
        if earlier != NA:
            self.of_data[earlier].append(flow)
            if necessity == Necessity.NECESSARY:
                self.lost.setdefault(earlier, row)
        if answer != NA:
            self.of_acks[answer].append(flow)


def write_packets(trace: Trace, transfer: Transfer, placed: Placed) -> int:
    """Write the segments with data and the ACKs; return how many segments had no track of their own."""
    chains = _Chains(transfer)
    without = _write_data(trace, transfer, placed, chains)
    _write_acks(trace, transfer, placed, chains)
    return without


def _write_data(trace: Trace, transfer: Transfer, placed: Placed, chains: _Chains) -> int:
    sender = transfer.sender
    occupies = sender["end_bytes"][transfer.sent] > sender["seq_bytes"][transfer.sent]
    rows = _timed(transfer, transfer.sent[occupies])
    ends = _end_times(transfer, rows, chains)
    lanes = Lanes(trace, "data", most=MOST_IN_FLIGHT)
    beyond: int | None = None
    without, latest = 0, 0
    for row, cells, begin, end in _cells(transfer, rows, placed, ends):
        begin_ns = latest = max(latest, begin)  # a step back of the clock does not turn the order
        end_ns = max(begin_ns, end)
        name, notes = _data_words(row, cells, chains), _data_notes(row, cells, chains)
        flows = Flows(through=tuple(chains.of_data.get(row, ())))
        track = lanes.free(begin_ns, end_ns)
        if track is not None:
            trace.slice(track, begin_ns, end_ns, name, notes, flows)
            continue
        beyond = trace.track(f"data beyond {MOST_IN_FLIGHT} in flight") if beyond is None else beyond
        trace.instant(beyond, begin_ns, name, notes, flows)
        without += 1
    return without


def _write_acks(trace: Trace, transfer: Transfer, placed: Placed, chains: _Chains) -> None:
    sender = transfer.sender
    rows = _timed(transfer, transfer.acks[sender["ack_bytes"][transfer.acks] != NA])
    if not len(rows):
        return
    track = trace.track("ACKs")
    for row, cells, time_ns, _ in _cells(transfer, rows, placed, sender["time_ns"][rows]):
        notes = {name: cells[name] for name in ("ack_bytes", "window_bytes", "frame")}
        trace.instant(track, time_ns, _ack_words(cells), notes, Flows(to=tuple(chains.of_acks.get(row, ()))))


def _end_times(transfer: Transfer, rows: Array, chains: _Chains) -> Array:
    """Return when each segment was acknowledged, or sent again as lost; else the end of the capture."""
    sender = transfer.sender
    acks = _timed(transfer, transfer.acks[sender["ack_bytes"][transfer.acks] != NA])
    level = np.maximum.accumulate(sender["ack_bytes"][acks]) if len(acks) else np.zeros(0, np.int64)
    first = np.maximum(np.searchsorted(level, sender["end_bytes"][rows]), np.searchsorted(acks, rows))
    times = np.append(sender["time_ns"][acks], transfer.end_ns)
    ends: Array = times[np.minimum(first, len(acks))]
    for at in np.flatnonzero(np.isin(rows, list(chains.lost))).tolist():
        ends[at] = min(int(ends[at]), int(sender["time_ns"][chains.lost[int(rows[at])]]))
    return ends


def _timed(transfer: Transfer, rows: Array) -> Array:
    kept: Array = rows[transfer.sender["time_ns"][rows] != NOT_A_TIME]
    return kept


def _cells(
    transfer: Transfer, rows: Array, placed: Placed, ends: Array
) -> Iterator[tuple[int, Row, int, int]]:
    """Yield each row with its cells, its time and its end, few of them as Python numbers at a time."""
    names = ("seq_bytes", "payload_bytes", "ack_bytes", "window_bytes", "frame", "flags", "kind")
    for begin in range(0, len(rows), _AT_ONCE):
        cut = slice(begin, begin + _AT_ONCE)
        own = rows[cut]
        columns = [transfer.sender[name][own].tolist() for name in names]
        times = placed(transfer.sender["time_ns"][own]), placed(ends[cut])
        for row, first, last, *cells in zip(own.tolist(), *times, *columns, strict=True):
            yield row, dict(zip(names, cells, strict=True)), first, last


def _data_words(row: int, cells: Row, chains: _Chains) -> str:
    if row in chains.words:
        return chains.words[row]
    if row in chains.lost:
        return "lost"
    if cells["flags"] & Flag.SYN:
        return "SYN"
    return "data" if cells["payload_bytes"] else "FIN"


def _data_notes(row: int, cells: Row, chains: _Chains) -> dict[str, str | int | float]:
    notes = {name: cells[name] for name in ("seq_bytes", "payload_bytes", "frame")}
    return notes if not chains.evidence.get(row) else notes | {"evidence": chains.evidence[row]}


def _ack_words(cells: Row) -> str:
    if cells["flags"] & int(_OPENS):
        return "SYN, FIN or RST"
    if not cells["window_bytes"]:
        return "window closed"
    if cells["kind"] & Kind.DUPLICATE_ACK:
        return "duplicate ACK"
    return "SACK" if cells["kind"] & Kind.SACK else "ACK"
