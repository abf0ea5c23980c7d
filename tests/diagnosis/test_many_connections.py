"""Verdicts on thousands of connections that all retransmit, and a group of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.segments import segment_rows
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.segments.segment_class import SegmentClass
from multitracer.diagnosis.limits.group import group_of
from multitracer.diagnosis.segment_verdicts import segment_verdicts
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.recording.short_transfers import transfers_of
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.analysis.segments.examination import Examination

CONNECTIONS = 2_000
"""Of CPU time, above what `analyze` costs: about 0.2 s on the machine it was written on, 6 s one by one."""


def exchange(pair: int) -> list[Segment]:
    """A connection of 30 segments that loses the third, resends it on duplicate ACKs, and then its last."""
    begin_ns = START_NS + pair * MS // 10
    sends = [Segment(0, 0, flags=SYN), Segment(1, 0, flags=SYN | ACK, ack=1), Segment(0, 1, ack=1)]
    sends += [Segment(0, 1 + 100 * i, 100, ack=1) for i in range(12)]
    sends += [Segment(1, 1, ack=201, sack=((301, 401 + 100 * i),)) for i in range(9)]
    sends += [Segment(0, 201, 100, ack=1), Segment(1, 1, ack=1201)]
    sends += [Segment(0, 1201, 100, ack=1), Segment(0, 1201, 100, ack=1), Segment(1, 1, ack=1301)]
    sends += [Segment(0, 1301, 100, ack=1), Segment(1, 1, ack=1401)]
    times_ns = [begin_ns + i * 20 * MS + (i > 26) * 500 * MS for i in range(len(sends))]
    return [replace(s, pair=pair, time_ns=at_ns) for s, at_ns in zip(sends, times_ns, strict=True)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    segments = [segment for pair in range(CONNECTIONS) for segment in exchange(pair)]
    segments.sort(key=lambda each: each.time_ns or 0)
    return write_pcap(tmp_path_factory.mktemp("many") / "many.pcap", segments)


def test_thousands_of_connections_that_retransmit_have_their_verdicts(path: Path) -> None:
    recording = read(find_inputs(str(path)))
    capture = recording.captures[0]
    assert len(capture) == CONNECTIONS
    found = segment_verdicts(recording, capture)
    assert (found.kind == SegmentClass.RETRANSMISSION).sum() == 2 * CONNECTIONS


def count_examinations(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows with each examination of segments."""
    calls: list[None] = []

    def counted(*given: Any) -> Examination:
        calls.append(None)
        return examine(*given)

    monkeypatch.setattr(segment_rows, "examine", counted)
    return calls


def test_short_transfers_are_judged_together_as_each_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, other = (read(find_inputs(str(path))) for _ in range(2))
    rows = [7, 3, *range(100, 400)]
    calls = count_examinations(monkeypatch)
    together = transfers_of(recording, recording.captures[0], rows)
    for transfer in together:
        assert len(transfer.verdicts) == 2
        recording.captures[0].analysis.rtt_samples(transfer.at_sender.connection)
    blocks = len(rows)  # of a connection with SACK blocks the round trips are measured alone
    assert len(calls) <= blocks + 5
    for row, transfer in list(zip(rows, together, strict=True))[::20]:
        alone = Transfer.of(other, row + 1)
        for name in ("sender", "sacks", "verdicts"):
            ours, theirs = getattr(transfer, name), getattr(alone, name)
            assert all(np.array_equal(ours[column], theirs[column]) for column in theirs.schema.names), name


def test_a_group_of_short_connections_is_examined_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = []
    for pair in range(300):
        begin_ns = START_NS + pair * MS
        sends = [Segment(0, 0, flags=SYN), Segment(1, 0, flags=SYN | ACK, ack=1), Segment(0, 1, ack=1)]
        sends += [Segment(0, 1, 20, ack=1), Segment(1, 1, 20, ack=21), Segment(0, 21, ack=21)]
        segments += [replace(s, pair=pair, time_ns=begin_ns + i * MS) for i, s in enumerate(sends)]
    segments.sort(key=lambda each: each.time_ns or 0)
    recording = read(find_inputs(str(write_pcap(tmp_path / "short.pcap", segments))))
    calls = count_examinations(monkeypatch)
    group = group_of(recording)
    assert group is not None
    assert len(group.members) == 300
    assert len(calls) < 10, "each alone costs two milliseconds"
