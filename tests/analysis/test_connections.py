"""What is one connection and what are two, and who began it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis import analyse
from multitracer.errors import InputError
from tests.analysis.traffic import ACK, FIN, RST, SYN, Segment, capture, handshake

SYN_ACK = SYN | ACK


def transfer(client: int, server: int, *, fin: bool = True, pair: int = 0) -> list[Segment]:
    """Return a whole little connection: 10 bytes, and both FINs if asked."""
    segments = [
        *handshake(client, server, pair=pair),
        Segment(0, client + 1, 10, ack=server + 1, pair=pair),
        Segment(1, server + 1, ack=client + 11, pair=pair),
    ]
    if fin:
        segments += [
            Segment(0, client + 11, flags=FIN | ACK, ack=server + 1, pair=pair),
            Segment(1, server + 1, flags=FIN | ACK, ack=client + 12, pair=pair),
            Segment(0, client + 12, ack=server + 2, pair=pair),
        ]
    return segments


def split(segments: list[Segment]) -> list[int]:
    """Return the connection of each segment, from 1."""
    parts = analyse(capture(segments)).partition
    return (parts.direction // 2 + 1).tolist()


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        pytest.param(transfer(100, 500) + transfer(9100, 70500), [1] * 8 + [2] * 8, id="port used again"),
        pytest.param(
            transfer(100, 500, fin=False) + transfer(9100, 70500), [1] * 5 + [2] * 8, id="again without a FIN"
        ),
        pytest.param(
            [Segment(0, 100, flags=SYN), Segment(1, 0, flags=RST | ACK, ack=101)] * 2,
            [1] * 4,
            id="the same SYN after a RST is a retransmission",
        ),
        pytest.param([Segment(0, 100, flags=SYN), Segment(0, 5000, flags=SYN)], [1, 2], id="another SYN, no answer"),
        pytest.param(
            [Segment(0, 100, 3, ack=7), Segment(1, 7, ack=103), *transfer(5000, 6000)],
            [1] * 2 + [2] * 8,
            id="what went before a SYN is another connection",
        ),
        pytest.param(
            [Segment(0, 101, ack=7), *transfer(100, 6000)], [1] * 9, id="the SYN belongs to what went before it"
        ),
        pytest.param(
            [Segment(0, 500, flags=SYN_ACK, ack=101), Segment(1, 100, flags=SYN), Segment(1, 101, ack=501)],
            [1] * 3,
            id="SYN-ACK captured before its SYN",
        ),
        pytest.param(
            [
                Segment(0, 100, flags=SYN),
                Segment(1, 500, flags=SYN),
                Segment(0, 100, flags=SYN_ACK, ack=501),
                Segment(1, 500, flags=SYN_ACK, ack=101),
            ],
            [1] * 4,
            id="both open at once",
        ),
        pytest.param(
            [*transfer(100, 500), Segment(1, 8000, flags=SYN), Segment(0, 400, flags=SYN_ACK, ack=8001)],
            [1] * 8 + [2] * 2,
            id="the other side opens on the same ports",
        ),
        pytest.param(
            [
                Segment(0, 100, flags=SYN),
                Segment(1, 500, flags=SYN_ACK, ack=101),
                Segment(1, 900, flags=SYN_ACK, ack=101),
            ],
            [1] * 3,
            id="a second answer to one SYN",
        ),
        pytest.param(
            [
                Segment(0, 500, flags=SYN_ACK, ack=101),
                Segment(0, 501, ack=111),
                Segment(0, 9500, flags=SYN_ACK, ack=7101),
                Segment(0, 9501, ack=7111),
            ],
            [1, 1, 2, 2],
            id="port used again, answers only",
        ),
    ],
)
def test_segments_of_one_pair_of_endpoints_are_told_apart(segments: list[Segment], expected: list[int]) -> None:
    assert split(segments) == expected


@pytest.mark.parametrize("also", [RST, FIN, RST | FIN])
def test_a_syn_with_rst_or_fin_opens_no_connection(also: int) -> None:
    outlier = [Segment(0, 70_000, flags=SYN | also), Segment(1, 90_000, flags=SYN_ACK | also, ack=7)]
    assert split([*transfer(100, 500), *outlier]) == [1] * 10
    alone = analyse(capture([Segment(0, 9, flags=SYN | also), Segment(1, 5, flags=SYN)]))
    assert alone.connections["syn_seen"].tolist() == [True]
    assert not analyse(capture(outlier[:1])).connections["syn_seen"][0]


def test_connections_are_numbered_by_their_first_segments() -> None:
    mixed = [*transfer(100, 500, pair=1), *transfer(100, 500, pair=0), *transfer(900, 300, pair=1)]
    assert split(mixed) == [1] * 8 + [2] * 8 + [3] * 8


def test_equal_addresses_in_two_vlans_are_two_connections() -> None:
    segments = [*transfer(100, 500, pair=0), *transfer(100, 500, pair=1)]
    made = capture(segments, vlan={0: 1 << 12 | 7, 1: 1 << 24 | 7 << 12 | 20})
    for name in ("port_a", "port_b"):
        made.flows.columns[name][:] = 80
    analysis = analyse(made)
    assert [analysis.vlan(n) for n in (1, 2)] == ["7", "7.20"]


@pytest.mark.parametrize(
    ("segments", "initiator"),
    [
        ([Segment(0, 1, flags=SYN)], 0),
        ([Segment(0, 500, flags=SYN_ACK, ack=101), Segment(1, 101, ack=501)], 1),
        ([Segment(0, 5, 3), Segment(1, 9, 3)], 0),
        ([Segment(0, 500, flags=SYN_ACK, ack=101), Segment(1, 100, flags=SYN)], 1),
    ],
    ids=["sender of the SYN", "receiver of the SYN-ACK", "first sender", "the SYN counts most"],
)
def test_the_initiator_is_found(segments: list[Segment], initiator: int) -> None:
    analysis = analyse(capture(segments))
    ends = ["10.0.0.1", "10.0.0.2"]
    assert analysis.ends(1).src == ends[initiator]
    assert analysis.tcp_segments(1)["reverse"].tolist() == [s.side != initiator for s in segments]


def test_a_connection_says_how_it_opened_and_closed() -> None:
    begun = handshake()
    assert _facts(transfer(100, 500)) == (True, True, 2)
    assert _facts(begun[:2]) == (True, False, 0)
    assert _facts([*begun, Segment(0, 1001, flags=FIN | ACK, ack=5001)]) == (True, True, 1)
    assert _facts([*begun, Segment(1, 5001, flags=RST)]) == (True, True, 3)
    assert _facts([Segment(0, 5, 3)]) == (False, False, 0)
    retransmitted = [begun[0], begun[0], begun[1], begun[1], begun[2]]
    assert _facts(retransmitted) == (True, True, 0)


def _facts(segments: list[Segment]) -> tuple[bool, bool, int]:
    row = next(analyse(capture(segments)).connections.rows())
    return row["syn_seen"], row["handshake_seen"], row["close"]


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3), st.booleans()), max_size=30))
def test_syns_in_any_order_split_as_one_walk_through_the_capture_would(
    events: list[tuple[int, bool, int, bool]],
) -> None:
    """The engine looks only at doubtful SYNs; a walk with a state for each pair looks at all."""
    segments = [
        Segment(int(side), 1000 * isn, flags=SYN_ACK if answer else SYN, ack=1000 * isn + 1, pair=pair)
        if isn
        else Segment(int(side), 1000 + isn + 1, 4, ack=2001, pair=pair)
        for pair, side, isn, answer in events
    ]
    assert split(segments) == _walked(segments)


def _walked(segments: list[Segment]) -> list[int]:
    numbers, count = [], 0
    state: dict[int, tuple[int, dict[int, int], set[int]]] = {}
    for s in segments:
        known = state.get(s.pair)
        begins = known is None
        if known is not None and s.flags & SYN:
            _, origin, opened = known
            awaited = s.flags & ACK and (1 - s.side) in opened
            begins = s.side in origin and not awaited and origin[s.side] != s.seq
        if begins:
            count += 1
            state[s.pair] = (count, {}, set())
        number, origin, opened = state[s.pair]
        origin.setdefault(s.side, s.seq if s.flags & SYN else s.seq - 1)
        if s.flags & ACK:
            origin.setdefault(1 - s.side, s.ack - 1)
        if s.flags & SYN and not s.flags & ACK:
            opened.add(s.side)
        numbers.append(number)
    return numbers


def test_an_unknown_connection_is_an_error_that_says_how_many_there_are() -> None:
    analysis = analyse(capture(transfer(100, 500)))
    with pytest.raises(InputError, match="connection 2 does not exist; the number of connections in this capture is 1"):
        analysis.tcp_segments(2)
    with pytest.raises(InputError):
        analysis.ends(0)


def test_a_capture_without_tcp_has_no_connections() -> None:
    analysis = analyse(capture([]))
    assert len(analysis.connections) == len(analysis.directions) == 0


def test_many_connections_are_sorted_as_few_are() -> None:
    """Above 65,536 directions the sort runs in two passes."""
    pairs = 33_000
    shuffled = np.random.default_rng(1).permutation(np.repeat(np.arange(pairs), 2)).tolist()
    analysis = analyse(capture([Segment(0, 1, 5, pair=pair) for pair in shuffled]))
    parts = analysis.partition
    assert len(analysis.connections) == pairs
    assert (analysis.connections["segments"] == 2).all()
    assert (np.diff(parts.first_row) > 0).all()
    flow = analysis.capture.segments["flow"]
    direction = parts.direction[parts.order]
    assert (flow[parts.order] == parts.forward_flow[direction // 2] ^ (direction & 1)).all()
    assert analysis.directions["retransmitted_segments"].sum() == pairs
