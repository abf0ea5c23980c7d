"""The vectorised engine says of hostile segment sequences what the plain oracle says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis import Analysis, SegmentKind, analyse
from multitracer.analysis import group as group_module
from tests.analysis import oracle
from tests.analysis.traffic import ACK, FIN, RST, SYN, Segment, capture

COUNTS = (
    "packets",
    "data_segments",
    "payload_bytes",
    "unique_bytes",
    "retransmitted_segments",
    "retransmitted_bytes",
    "partial_retransmissions",
    "out_of_order",
    "capture_duplicates",
    "duplicate_acks",
    "triple_duplicate_acks",
    "zero_window_segments",
    "zero_window_probes",
    "keep_alives",
    "sack_segments",
    "dsack_segments",
    "window_updates",
    "acks_of_unseen",
    "acks_before_data",
    "missing_bytes",
    "syn",
    "fin",
    "rst",
)
FLAGS = [ACK] * 14 + [SYN, SYN | ACK, FIN | ACK, FIN | ACK, RST | ACK, RST, 0, SYN | RST, SYN | FIN, 0x1FF]
ISNS = (1000, 2**32 - 8, 2**31 - 8, 2**30 - 8)


@st.composite
def exchanges(draw: st.DrawFn, *, pair: int = 0, longest: int = 24) -> list[Segment]:
    """Return segments of both sides that overlap, repeat, leave holes, probe, and now and then stray."""
    isn = (draw(st.sampled_from(ISNS)), draw(st.sampled_from(ISNS)))
    reach = draw(st.sampled_from((6, 20, 60)))
    segments = []
    for _ in range(draw(st.integers(1, longest))):
        side = draw(st.sampled_from((0, 0, 1)))
        outlier = draw(st.sampled_from([0] * 40 + [2**30, 2**31, 3 * 2**30]))
        flags = draw(st.sampled_from(FLAGS))
        begins = draw(st.integers(0, reach)) if not flags & SYN else 0
        there = isn[1 - side]
        edges = st.tuples(st.integers(0, reach), st.integers(0, reach))
        blocks = draw(st.lists(edges, max_size=2)) if flags & ACK and draw(st.booleans()) else []
        segments.append(
            Segment(
                side,
                (isn[side] + begins + outlier) % 2**32,
                draw(st.sampled_from((0, 0, 1, 2, 3, 5, 8))) if not flags & SYN else 0,
                flags,
                (isn[1 - side] + draw(st.integers(0, reach))) % 2**32,
                draw(st.sampled_from((0, 7, 7, 9))),
                draw(st.sampled_from((0, 1, 1, 2))),
                pair,
                sack=tuple(((there + low) % 2**32, (there + high) % 2**32) for low, high in blocks),
            )
        )
    return segments


WHATS = (*["new"] * 4, *["ack"] * 2, *["same"] * 3, "again", "skip", "back", "probe")


@st.composite
def transfers(draw: st.DrawFn) -> list[Segment]:
    """Return a plausible transfer: in order, with losses, repetitions and ACKs that lag behind."""
    isn, other = draw(st.sampled_from(ISNS)), 7000
    segments = [Segment(0, isn, flags=SYN), Segment(1, other, flags=SYN | ACK, ack=isn + 1)]
    sent, acked = isn + 1, isn + 1
    for _ in range(draw(st.integers(0, 40))):
        what = draw(st.sampled_from(WHATS))
        ip_id = draw(st.integers(0, 3))
        window = draw(st.sampled_from((0, 500, 500, 500)))
        if what == "ack":
            acked = draw(st.integers(acked, max(sent, acked)))
        if what in {"ack", "same"}:
            segments.append(Segment(1, other + 1, 0, ACK, acked, window, ip_id))
            continue
        size = draw(st.integers(1, 4))
        begins = {"again": sent - size, "back": max(acked - 1, isn + 1), "probe": sent}.get(what, sent)
        begins += 2 if what == "skip" else 0
        size = 1 if what in {"probe", "back"} else size
        segments.append(Segment(0, begins, size, ACK, other + 1, 400, ip_id))
        sent = max(sent, begins + size) if what != "probe" else sent
    wrapped = [s.__dict__ | {"seq": s.seq % 2**32, "ack": s.ack % 2**32} for s in segments]
    return [Segment(**fields) for fields in wrapped]


def judged(analysis: Analysis, number: int, segments: list[Segment]) -> tuple[list[Any], list[Any]]:
    """Return what the engine and the oracle say of one connection, direction by direction."""
    rows = analysis.partition.rows_of(number - 1)
    plain = oracle.Connection([segments[row] for row in rows])
    initiator = int(analysis.connections["forward_flow"][number - 1]) & 1
    table = analysis.tcp_segments(number)
    said: list[Any] = []
    expected: list[Any] = []
    for reverse in (0, 1):
        side = initiator ^ reverse
        direction = analysis.directions.take(np.array([2 * number - 2 + reverse]))
        mine = table["reverse"] == bool(reverse)
        said.append({name: int(direction[name][0]) for name in COUNTS})
        said.append((int(direction["max_flight_bytes"][0]), int(direction["rtt_count"][0])))
        said.append(table["new_bytes"][mine].tolist())
        said.append(table["flight_bytes"][mine].tolist())
        said.append(table["flight_sack_bytes"][mine].tolist())
        expected.append({name: plain.directions[side].counts[name] for name in COUNTS})
        expected.append((plain.directions[side].max_flight, len(plain.directions[side].rtt)))
        sent = [i for i, s in enumerate(plain.segments) if s.side == side]
        expected.append([plain.new[i] for i in sent])
        expected.append([plain.flight(i)[0] for i in sent])
        expected.append([plain.flight(i)[1] for i in sent])
    return said, expected


@given(exchanges())
def test_any_sequence_of_segments_is_judged_as_the_oracle_does(segments: list[Segment]) -> None:
    analysis = analyse(capture(segments))
    for number in range(1, len(analysis.connections) + 1):
        said, expected = judged(analysis, number, segments)
        assert said == expected


@given(transfers())
def test_a_plausible_transfer_is_judged_as_the_oracle_does(segments: list[Segment]) -> None:
    analysis = analyse(capture(segments))
    for number in range(1, len(analysis.connections) + 1):
        said, expected = judged(analysis, number, segments)
        assert said == expected


@given(st.data())
def test_many_connections_at_once_are_judged_as_each_alone(data: st.DataObject) -> None:
    parts = [data.draw(exchanges(pair=pair, longest=8)) for pair in range(data.draw(st.integers(1, 5)))]
    order = data.draw(st.permutations([p for p, part in enumerate(parts) for _ in part]))
    remaining = [iter(part) for part in parts]
    segments = [next(remaining[p]) for p in order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_module, "GROUP_ROWS", data.draw(st.sampled_from((1, 10, 1000))))
        analysis = analyse(capture(segments))
    for number in range(1, len(analysis.connections) + 1):
        said, expected = judged(analysis, number, segments)
        assert said == expected


@given(exchanges())
def test_rows_and_counts_tell_the_same(segments: list[Segment]) -> None:
    analysis = analyse(capture(segments))
    for number in range(1, len(analysis.connections) + 1):
        table = analysis.tcp_segments(number)
        for reverse in (0, 1):
            counts = next(analysis.directions.take(np.array([2 * number - 2 + reverse])).rows())
            mine = table["reverse"] == bool(reverse)
            kind = table["kind"][mine]

            def bits(bit: SegmentKind, kind: Any = kind) -> int:
                return int(np.count_nonzero(kind & np.uint32(bit)))

            assert table["new_bytes"][mine].sum() == counts["unique_bytes"]
            assert bits(SegmentKind.DATA) == counts["data_segments"]
            assert bits(SegmentKind.OUT_OF_ORDER) == counts["out_of_order"]
            assert bits(SegmentKind.DUPLICATE_ACK) == counts["duplicate_acks"]
            assert bits(SegmentKind.KEEP_ALIVE) == counts["keep_alives"]
            assert bits(SegmentKind.ZERO_WINDOW_PROBE) == counts["zero_window_probes"]
            assert bits(SegmentKind.CAPTURE_DUPLICATE) == counts["capture_duplicates"]
            assert bits(SegmentKind.ACK_OF_UNSEEN) == counts["acks_of_unseen"]
            occupies = mine & (table["end_bytes"] > table["seq_bytes"])
            assert table["flight_bytes"][occupies].max(initial=0) <= counts["max_flight_bytes"]
            assert (table["flight_sack_bytes"] <= table["flight_bytes"]).all()
