"""What is said of a segment does not depend on which other connections are examined and judged beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parsers
from multitracer.analysis import analyse, group
from multitracer.analysis.verdicts import copies as exchanges
from multitracer.analysis.verdicts import judge, judge_all
from multitracer.schemas.tcp import TCP_SEGMENTS
from multitracer.tables import NA, NOT_A_TIME, Table
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment, capture
from tests.corpus.judged import Corpus
from tests.corpus.transfers import FORGETFUL, RENEGING
from tests.examples import seeds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.analysis import Analysis
    from multitracer.tables import Array

NUMBERS = [*range(0, 24, 2), *FORGETFUL[:5], *RENEGING[:5]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.of(NUMBERS, tmp_path_factory.mktemp("corpus"))


def judged_alone(analysis: Analysis, vantage: int) -> dict[int, dict[str, int]]:
    """Return the verdicts on every direction, one after the other, by row of the capture."""
    found: dict[int, dict[str, Any]] = {}
    for index, reverse in product(range(len(analysis.connections)), (False, True)):
        segments, sacks = analysis.tcp_segments(index + 1), analysis.sack_blocks(index + 1)
        verdicts = judge(segments, sacks, reverse=reverse, vantage=vantage)
        found |= by_row(verdicts.rows(), analysis.partition.rows_of(index))
    return found


def judged_together(analysis: Analysis, vantage: int) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, Any]] = {}
    for connections, examined in analysis.examined(np.arange(len(analysis.connections))):
        side = np.arange(2 * len(connections))
        tables = examined.segments(), examined.sack_blocks()
        verdicts = judge_all(*tables, examined.bounds, side, np.full(len(side), vantage))
        found |= by_row(verdicts.rows(), examined.rows)
    return found


def by_row(verdicts: Iterable[dict[str, Any]], rows: Array) -> dict[int, dict[str, Any]]:
    """Return verdicts by the capture's row of the retransmission, with the capture's rows in them."""
    where = np.append(rows, NA)
    renumbered = (
        v | {name: int(where[NA if v[name] is None else v[name]]) for name in ("earlier_row", "answer_row")}
        for v in verdicts
    )
    return {int(where[v["row"]]): v | {"row": 0} for v in renumbered}


def outlier(luck: Random) -> list[Segment]:
    """Segments of connections whose numbers, times, timestamps and SACK blocks are anything."""
    isn = [luck.randrange(2**32) for _ in range(12)]
    segments = []
    for i in range(120):
        pair, side = luck.randrange(6), luck.randrange(2)
        own, far = isn[2 * pair + side], isn[2 * pair + 1 - side]
        near = luck.random() < 0.9
        left = far + luck.choice([0, 100, 200, 300, 2**31 - 5, 2**31 + 5, luck.randrange(2**32)])
        time_ns = START_NS + i * MS
        astray = {4: [time_ns + 2**61], 5: [NOT_A_TIME]}.get(pair, [])
        segments.append(Segment(
            side, own + (luck.randrange(5) * 100 if near else luck.randrange(2**32)),
            luck.choice([0, 100, 100, 200]), SYN if luck.random() < 0.02 else ACK,
            ack=far + luck.randrange(5) * 100 if near else luck.randrange(2**32), pair=pair,
            time_ns=luck.choice([time_ns] * 9 + [time_ns - 3 * MS, *astray]),
            stamp=(luck.choice([i, luck.randrange(2**32)]), i - 1) if pair % 2 else None,
            sack=((left, left + luck.choice([0, 100, 100, 2**31 + 9])),) if luck.random() < 0.3 else (),
        ))  # fmt: skip
    return segments


@pytest.mark.parametrize("point", ["sender", "middle", "receiver"])
@pytest.mark.parametrize("rows", [4_000, group.GROUP_ROWS])
def test_verdicts_on_many_are_those_on_each(
    corpus: Corpus, point: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "_MOST_ROWS", rows)
    analysis = analyse(parsers.read_capture([str(getattr(corpus, point))]))
    for vantage in (1, 2):
        alone = judged_alone(analysis, vantage)
        assert len(alone) > 100
        assert judged_together(analysis, vantage) == alone


@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_rows_some_at_a_time_are_those_of_the_whole(rows: int) -> None:
    analysis = analyse(capture(outlier(Random(3))))
    for _, examined in analysis.examined(np.arange(0, len(analysis.connections), 2)):
        complete, chunks = examined.segments(), list(examined.chunks(rows))
        assert max(map(len, chunks)) == min(rows, len(complete)) > 0
        joined = Table.concatenate(TCP_SEGMENTS, chunks)
        for name in complete.schema.names:
            assert np.array_equal(joined[name], complete[name]), name


@pytest.mark.parametrize("seed", seeds(40))
def test_whatever_was_captured_connections_do_not_meet(seed: int) -> None:
    analysis = analyse(capture(outlier(Random(seed))))
    for connections, examined in analysis.examined(np.arange(len(analysis.connections))):
        for at, index in enumerate(connections.tolist()):
            own = slice(*examined.bounds[at : at + 2].tolist())
            alone, together = analysis.tcp_segments(index + 1), examined.segments()
            for name in alone.schema.names:
                assert np.array_equal(together[name][own], alone[name]), name
    for vantage in (1, 2):
        assert judged_together(analysis, vantage) == judged_alone(analysis, vantage)


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_computed_together_is_what_is_computed_alone(seed: int) -> None:
    segments = outlier(Random(seed))
    together, alone = (analyse(capture(segments)) for _ in range(2))
    chosen = np.arange(0, len(alone.connections), 1 + seed % 2)
    groups = list(together.prepare(chosen))
    assert np.concatenate([numbers for numbers, *_ in groups]).tolist() == chosen.tolist()
    for number in range(1, len(alone.connections) + 1):
        for name in ("tcp_segments", "sack_blocks", "rtt_samples"):
            ours, theirs = (getattr(each, name)(number) for each in (together, alone))
            for column in theirs.schema.names:
                assert np.array_equal(ours[column], theirs[column]), (name, column)


def test_a_clock_that_began_with_the_capture_changes_no_verdict() -> None:
    sent = [Segment(0, 1, 100, time_ns=START_NS), Segment(0, 51, 100, time_ns=START_NS + 5 * MS)]
    since_boot = [replace(s, time_ns=(s.time_ns or 0) - START_NS) for s in sent]
    by_calendar, by_boot = (judged_alone(analyse(capture(each)), 1) for each in (sent, since_boot))
    assert len(by_boot) == 1
    assert by_boot == by_calendar
