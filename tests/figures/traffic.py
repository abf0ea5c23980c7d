"""Hand-made TCP segments for figures: a paced transfer with losses that fast retransmit repairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.captured import Flag
from multitracer.figures.direction import FigureDirection
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SACK_BLOCKS, TCP_SEGMENTS, Vantage
from multitracer.tables import NA, NOT_A_TIME, Table

START_NS = 1_700_000_000_000_000_000
MSS = 1448
MS = 1_000_000
_ISN = 4_294_960_000  # wraps on the wire within the first ten segments
_DATA_FLAGS = int(Flag.ACK | Flag.PSH)


@dataclass
class Recording:
    """Rows in the order in which they are noted; `tables` sorts them by time."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    blocks: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def note(self, time_ns: int, **columns: Any) -> None:
        blocks = columns.pop("blocks", [])
        row = {c.name: _blank(c) for c in TCP_SEGMENTS} | {"time_ns": START_NS + time_ns} | columns
        self.blocks[len(self.rows)] = blocks
        self.rows.append(row | {"sack_blocks": len(blocks)})

    def direction(self) -> FigureDirection:
        """Return what was noted as the tables of the initiator's direction, captured near it."""
        order = sorted(range(len(self.rows)), key=lambda i: self.rows[i]["time_ns"])
        rows = [self.rows[i] | {"frame": n} for n, i in enumerate(order, 1)]
        columns = {c.name: np.array([r[c.name] for r in rows], dtype=c.dtype) for c in TCP_SEGMENTS}
        sacked = [(n, *edges) for n, i in enumerate(order) for edges in self.blocks[i]]
        segments = Table(TCP_SEGMENTS, columns)
        return FigureDirection(
            segments, _sack_table(sacked, segments), _rtt_table(segments), vantage=Vantage.NEAR_SENDER
        )


def _sack_table(blocks: list[tuple[int, int, int]], segments: Table) -> Table:
    row, left, right = np.array(blocks, dtype=np.int64).reshape(-1, 3).T
    columns = {
        "row": row,
        "left": wire(left).astype(np.uint32),
        "right": wire(right).astype(np.uint32),
        "left_bytes": left,
        "right_bytes": right,
        "dsack": ((segments["kind"][row] & int(SegmentKind.DSACK)) != 0) & (np.diff(row, prepend=-1) != 0),
    }
    return Table(TCP_SACK_BLOCKS, columns)


def _rtt_table(segments: Table) -> Table:
    """Return the samples of both provenances; the answer is the first segment at that time."""
    parts = []
    for provenance, name in enumerate(("rtt_ns", "rtt_timestamp_ns")):
        row = np.flatnonzero(segments[name] != NOT_A_TIME)
        answered = segments["time_ns"][row] + segments[name][row]
        columns = {
            "time_ns": answered,
            "reverse": segments["reverse"][row],
            "row": row,
            "answer_row": np.searchsorted(segments["time_ns"], answered),
            "rtt_ns": segments[name][row],
            "provenance": np.full(len(row), provenance, np.uint8),
        }
        parts.append(Table(RTT_SAMPLES, columns))
    samples = Table.concatenate(RTT_SAMPLES, parts)
    return samples.take(np.lexsort((samples["provenance"], samples["answer_row"])))


def _blank(column: Any) -> Any:
    if column.name in {"rtt_ns", "rtt_timestamp_ns"}:
        return NOT_A_TIME
    return NA if column.na else 0


def wire(unwrapped: Any) -> Any:
    """Return the sequence number on the wire of an unwrapped one."""
    return (_ISN + unwrapped) % 2**32


def transfer(
    *, segments: int = 300, lost: tuple[int, ...] = (), gap_ms: float = 10, rtt_ms: float = 100
) -> FigureDirection:
    """Return a sender's view: data paced by `gap_ms`, each of `lost` sent again after a round trip."""
    gap, rtt = int(gap_ms * MS), int(rtt_ms * MS)
    log = Recording()
    log.note(0, flags=int(Flag.SYN), end_bytes=1, seq=wire(0), window_bytes=65535, rtt_ns=rtt)
    log.note(rtt, flags=int(Flag.SYN | Flag.ACK), reverse=True, ack_bytes=1, ack=wire(1), window_bytes=65535)
    begin = rtt + MS
    for i in range(segments):
        sent = begin + i * gap
        _data(log, sent, i, flight=min(i + 1, rtt // gap) * MSS, rtt=None if i in lost else rtt)
    for i in range(segments):
        if i in lost:
            _data(log, begin + i * gap + rtt + 3 * gap, i, flight=MSS, rtt=None, kind=int(SegmentKind.RETRANSMISSION))
        else:
            _ack(log, begin + i * gap + rtt, i, lost, repaired=lambda k, i=i: i * gap >= k * gap + 2 * rtt + 3 * gap)
    end = begin + segments * gap + 3 * rtt
    log.note(end, flags=int(Flag.FIN | Flag.ACK), seq_bytes=1 + segments * MSS, end_bytes=2 + segments * MSS)
    return log.direction()


def _data(log: Recording, time_ns: int, i: int, *, flight: int, rtt: int | None, kind: int = 0) -> None:
    first = 1 + i * MSS
    log.note(
        time_ns,
        flags=_DATA_FLAGS,
        payload_bytes=MSS,
        seq=wire(first),
        seq_bytes=first,
        end_bytes=first + MSS,
        new_bytes=0 if kind else MSS,
        flight_bytes=flight,
        flight_sack_bytes=flight,
        kind=int(SegmentKind.DATA) | kind,
        rtt_ns=NOT_A_TIME if rtt is None else rtt,
        rtt_timestamp_ns=NOT_A_TIME if rtt is None else rtt,
    )


def _ack(log: Recording, time_ns: int, i: int, lost: tuple[int, ...], repaired: Any) -> None:
    holes = [k for k in lost if k < i and not repaired(k)]
    reached = 1 + MSS * (min(holes) if holes else i + 1)
    blocks = [(1 + MSS * (min(holes) + 1), 1 + MSS * (i + 1))] if holes else []
    log.note(
        time_ns,
        flags=int(Flag.ACK),
        reverse=True,
        ack=wire(reached),
        ack_bytes=reached,
        window_bytes=60_000,
        kind=int(SegmentKind.SACK | SegmentKind.DUPLICATE_ACK) if holes else 0,
        blocks=blocks,
    )
