"""A part of the corpus in the normal suite; `python -m tests.corpus` runs all of it beside other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpus.judged import Corpus, away, by_tcptrace, ours
from tests.corpus.transfers import FORGETFUL, RENEGING, SIZE

if TYPE_CHECKING:
    from pathlib import Path

PART = range(0, SIZE, 5)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.of(PART, tmp_path_factory.mktemp("corpus"))


def test_sender_with_timestamps_tells_spurious_retransmissions(corpus: Corpus) -> None:
    score = ours(corpus)[True]
    assert score.truly_spurious > 80
    assert score.recall >= 0.95
    assert score.precision >= 0.98


def test_sender_without_timestamps_tells_fewer_but_seldom_wrongly(corpus: Corpus) -> None:
    score = ours(corpus)[False]
    assert score.truly_spurious > 20
    assert score.recall >= 0.8
    assert score.precision >= 0.97


@pytest.mark.parametrize("stamped", [True, False])
def test_data_that_a_sack_had_reported_are_spurious_if_the_sender_forgets_it(stamped: bool, tmp_path: Path) -> None:
    score = ours(Corpus.of(FORGETFUL[:40], tmp_path))[stamped]
    assert score.truly_spurious >= 15
    assert score.recall >= (0.95 if stamped else 0.85)
    assert score.precision >= 0.98


def test_data_that_a_receiver_threw_away_are_necessary(tmp_path: Path) -> None:
    scores = ours(Corpus.of(RENEGING[:20], tmp_path))
    assert scores[True].recall >= 0.8
    for score in scores.values():
        needed = {said: n for (truth, said), n in score.necessity.items() if truth == "necessary"}
        assert needed.get("spurious", 0) + needed.get("ack-lost", 0) <= 0.02 * needed["necessary"]


@pytest.mark.parametrize("point", ["middle", "fixed"])
def test_away_from_the_sender_timestamps_tell_nearly_as_much(corpus: Corpus, point: str) -> None:
    score = away(corpus, point)[True]
    assert score.truly_spurious > 80
    assert score.recall >= 0.95
    assert score.precision >= 0.98
    assert score.right_causes >= 0.8


@pytest.mark.parametrize("point", ["middle", "fixed"])
def test_away_from_the_sender_what_is_not_shown_is_not_said(corpus: Corpus, point: str) -> None:
    for score in away(corpus, point).values():
        assert score.wrong_necessities <= 0.05
        assert score.wrong_causes <= 0.1


def test_every_retransmission_is_found_and_none_is_out_of_order(corpus: Corpus) -> None:
    for score in ours(corpus).values():
        assert score.missed == 0
        assert score.out_of_order == 0


def test_causes_are_those_of_the_sender(corpus: Corpus) -> None:
    for score in ours(corpus).values():
        assert score.right_causes >= 0.95


def test_with_the_receiver_s_trace_everything_is_known(corpus: Corpus) -> None:
    for score in ours(corpus, with_receiver=True).values():
        right = sum(n for (truth, said), n in score.necessity.items() if truth == said)
        assert right >= 0.99 * score.retransmissions


def test_tcptrace_counts_as_many_retransmissions(corpus: Corpus) -> None:
    total = sum(score.retransmissions for score in ours(corpus).values())
    assert by_tcptrace(corpus) == (total, 0)


def test_a_transfer_is_determined_by_its_number(tmp_path: Path) -> None:
    once, again = (Corpus.of([7], tmp_path) for _ in range(2))
    assert once.transfers[0].captures == again.transfers[0].captures
