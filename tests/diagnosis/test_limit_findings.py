"""What held a transfer back for a good part of its time is a finding, with its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.limits.names import Confidence, Limit
from multitracer.diagnosis.limits.partition import Cells
from multitracer.diagnosis.rules.limits import link_limited
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import MS, Segment
from tests.cli.program import call
from tests.diagnosis.exchange import FULL, Exchange, kinds, of
from tests.diagnosis.path import diagnosed

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

_SERVER, _CLIENT = 5_001, 1_001


def at_the_server() -> Exchange:
    """Return a connection noted at its server, whose client is 50 ms away."""
    exchange = Exchange()
    exchange.syn(0)
    exchange.syn_ack(0.1)
    exchange.note(50, 0, seq=_CLIENT, ack=_SERVER)
    return exchange


def answers(*, think_ms: float, pause_ms: float) -> Exchange:
    """Return ten requests and their answers of three segments each, noted at the server."""
    exchange, at_ms = at_the_server(), 50.1
    for turn in range(10):
        exchange.data(at_ms, turn, side=0)
        at_ms += think_ms
        exchange.data(at_ms, 3 * turn, count=3, side=1)
        at_ms += 50
        exchange.note(at_ms, 0, seq=_CLIENT + (turn + 1) * FULL, ack=_SERVER + 3 * (turn + 1) * FULL)
        at_ms += pause_ms
    return exchange


def share(found: Diagnosis, limit: Limit) -> float:
    return sum(row.share for row in found.limited.shares if row.limit is limit)


def test_a_program_that_writes_now_and_then_is_the_limit(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    for turn in range(8):
        exchange.round_trips(51 + 500 * turn, 2 * turn, count=1, flight=2)
    found = exchange.diagnosed(tmp_path)
    slow = of(found, "application-limited")
    assert slow.numbers["median_s"] == pytest.approx(0.5, abs=0.01)
    assert slow.cost_s == pytest.approx(3.5, abs=0.02)
    assert found.headline.limit is Limit.APPLICATION
    assert "The client" in found.headline.sentence or "the client" in found.headline.sentence


def test_the_rate_of_a_program_counts_all_segments_of_its_writes(tmp_path: Path) -> None:
    """Five segments are written each 100 ms, and leave within 8 ms."""
    exchange = Exchange(rtt_ms=20).opened()
    for turn in range(60):
        at_ms = 61 + 100 * turn
        for each in range(5):
            exchange.data(at_ms + 2 * each, 5 * turn + each)
            exchange.segments[-1] = replace(exchange.segments[-1], flags=0x18 if each == 4 else 0x10)  # PSH
            exchange.ack(at_ms + 2 * each + 20, 5 * turn + each + 1)
    sentence = of(exchange.diagnosed(tmp_path), "application-limited").sentence
    assert (said := re.search(r"only at ([0-9.]+) kbit/s", sentence.replace("at only", "only at")))
    assert float(said[1]) == pytest.approx(5 * FULL * 8 / 100, rel=0.05)


def test_a_server_that_thinks_is_the_limit(tmp_path: Path) -> None:
    found = answers(think_ms=400, pause_ms=0).diagnosed(tmp_path, reverse=True)
    slow = of(found, "server-think-time")
    assert slow.numbers["median_s"] == pytest.approx(0.4, abs=0.001)
    assert "each of 10 answers" in slow.sentence
    assert found.headline.sentence.startswith(
        "Mostly the server: it took 4.0 s to begin 10 answers, typically 0.4 s each"
    )
    assert "client-think-time" not in kinds(found)


def test_a_client_that_thinks_is_the_limit(tmp_path: Path) -> None:
    found = answers(think_ms=1, pause_ms=1000).diagnosed(tmp_path, reverse=True)
    slow = of(found, "client-think-time")
    assert slow.numbers["median_s"] == pytest.approx(1.0, abs=0.01), "without the round trip"
    assert "server-think-time" not in kinds(found)
    assert re.match(
        r"Mostly the client: it waited \d+ times before it sent its next request, typically 1 s, 9\.\d s in all ",
        found.headline.sentence,
    )


def test_a_client_that_thinks_is_told_if_no_request_of_it_was_lost(tmp_path: Path) -> None:
    """Only both captures show that: from the server's alone a lost request is as good a reason."""
    exchange, at_ms, lost = at_the_server(), 50.1, []
    for turn in range(10):
        exchange.data(at_ms, turn, side=0)
        exchange.data(at_ms + 1, 3 * turn, count=3, side=1)
        lost.append(exchange.segments[-2])
        exchange.note(at_ms + 51, 0, seq=_CLIENT + (turn + 1) * FULL, ack=_SERVER + (3 * turn + 1) * FULL)
        exchange.data(at_ms + 260, 3 * turn + 1, side=1)
        at_ms += 310
        exchange.note(at_ms, 0, seq=_CLIENT + (turn + 1) * FULL, ack=_SERVER + 3 * (turn + 1) * FULL)
        at_ms += 1000
    assert "client-think-time" not in kinds(exchange.diagnosed(tmp_path, reverse=True))
    for host, way_ns in (("fixed", 0), ("mobile", 25 * MS)):
        (tmp_path / host).mkdir()
        mine = [each for each in exchange.segments if not way_ns or each not in lost]
        moved = [replace(each, time_ns=(each.time_ns or 0) + way_ns * (2 * each.side - 1)) for each in mine]
        write_pcap(tmp_path / host / "tcp-0.pcap", sorted(moved, key=lambda each: each.time_ns or 0))
    (tmp_path / "talk.pcap").unlink()
    found = diagnose(Transfer.of(read(tmp_path), reverse=True))
    assert of(found, "client-think-time").numbers["median_s"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("pause_ms", [0, 400])
def test_an_answer_that_a_slow_link_delivers_late_is_no_pause_of_the_client(tmp_path: Path, pause_ms: int) -> None:
    exchange, at_ms = at_the_server(), 50.1
    way_ms: dict[Segment, int] = {}
    for turn in range(10):
        exchange.data(at_ms, turn, side=0)
        exchange.data(at_ms + 1, 2 * turn, count=2, side=1)
        way_ms |= {exchange.segments[-2]: 25, exchange.segments[-1]: 150}
        at_ms += 176
        exchange.note(at_ms, 0, seq=_CLIENT + (turn + 1) * FULL, ack=_SERVER + 2 * (turn + 1) * FULL)
        at_ms += 0.1 + pause_ms
    for host in ("fixed", "mobile"):
        (tmp_path / host).mkdir()
        seen = [
            replace(each, time_ns=(each.time_ns or 0) + MS * (way_ms.get(each, 25) if each.side else -25))
            for each in exchange.segments
        ]
        mine = exchange.segments if host == "fixed" else seen
        write_pcap(tmp_path / host / "tcp-0.pcap", sorted(mine, key=lambda each: each.time_ns or 0))
    found = diagnose(Transfer.of(read(tmp_path), reverse=True))
    assert share(found, Limit.APPLICATION) > 0.5
    assert ("client-think-time" in kinds(found)) == bool(pause_ms)


def test_a_flight_that_never_grows_is_a_buffers_or_a_windows(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    exchange.round_trips(51, 0, count=30)
    full = of(exchange.diagnosed(tmp_path), "send-buffer-limited")
    assert "or the congestion window stood still" in full.sentence


def test_a_small_window_is_the_receivers(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    for turn in range(20):
        exchange.data(50.2 + 50 * turn, 4 * turn, count=4)
        ack = _CLIENT + 4 * (turn + 1) * FULL
        exchange.note(100 + 50 * turn, 1, seq=_SERVER, ack=ack, window=4 * FULL)
    found = exchange.diagnosed(tmp_path)
    small = of(found, "receiver-limited")
    assert small.numbers["window_bytes"] == 4 * FULL
    assert small.numbers["share"] > 0.8
    assert not {"zero-window", "send-buffer-limited"} & kinds(found)


def test_a_closed_window_is_told_whatever_its_share(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    end_ms = exchange.round_trips(51, 0, count=40)
    exchange.data(end_ms + 0.1, 160, count=4)
    exchange.note(end_ms + 50, 1, seq=_SERVER, ack=_CLIENT + 164 * FULL, window=0)
    exchange.note(end_ms + 150, 1, seq=_SERVER, ack=_CLIENT + 164 * FULL)
    exchange.round_trips(end_ms + 150.1, 164, count=2)
    closed = of(exchange.diagnosed(tmp_path), "zero-window")
    assert closed.cost_s == pytest.approx(0.1, abs=0.01)
    assert "did not read" in closed.sentence


def test_a_window_of_less_than_a_segment_is_small_and_not_closed(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    end_ms = exchange.round_trips(51, 0, count=4)
    for turn in range(16, 36):
        exchange.data(end_ms + 0.1, turn)
        exchange.note(end_ms + 50, 1, seq=_SERVER, ack=_CLIENT + (turn + 1) * FULL, window=241)
        exchange.note(end_ms + 250, 1, seq=_SERVER, ack=_CLIENT + (turn + 1) * FULL, window=FULL)
        end_ms += 250
    found = exchange.diagnosed(tmp_path)
    assert share(found, Limit.RECEIVER_WINDOW) > 0.8
    assert "zero-window" not in kinds(found)


def test_a_short_transfer_is_over_before_its_window_has_grown(tmp_path: Path) -> None:
    exchange, at_ms, number = Exchange().opened(), 50.2, 0
    for flight in (2, 4, 8, 16):
        exchange.data(at_ms, number, count=flight)
        number, at_ms = number + flight, at_ms + 50
        exchange.ack(at_ms, number)
        at_ms += 0.1
    short = of(exchange.diagnosed(tmp_path), "slow-start-limited")
    assert short.numbers["round_trips"] == pytest.approx(4, abs=0.1)
    assert short.numbers["saving_s"] == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("both", [True, False])
def test_a_full_link_is_told_with_its_rate(tmp_path: Path, both: bool) -> None:
    found = diagnosed(tmp_path, both=both)
    full = of(found, "link-limited")
    assert full.cost_s == 0, "it did what it could"
    assert full.numbers["rate_low_bps"] <= full.numbers["rate_bps"] <= full.numbers["rate_high_bps"]
    assert share(found, Limit.LINK) > 0.5


def test_an_ack_for_two_segments_that_were_captured_as_one_was_not_kept_back(tmp_path: Path) -> None:
    """A device cuts what its host hands it: a flight grows, and each ACK comes later than the one before."""
    exchange = Exchange().opened()
    for number in range(29):
        exchange.data(51 + 2 * number, 2 * number, size=2 * FULL)
        exchange.ack(101 + 4 * (number + 1), 2 * (number + 1))
    assert share(exchange.diagnosed(tmp_path), Limit.LINK) > 0.4


def test_an_ack_before_which_the_next_segment_had_come_was_not_kept_back(tmp_path: Path) -> None:
    """A receiver that acknowledges each segment: all were sent behind each other, none waited for a timer."""
    exchange = Exchange().opened()
    for number in range(58):
        exchange.data(51 + number, number)
        exchange.ack(101 + 2 * (number + 1), number + 1)
    assert share(exchange.diagnosed(tmp_path), Limit.LINK) > 0.4


def test_losses_that_nothing_explains_are_told_beside_no_known_fault(tmp_path: Path) -> None:
    """Two packets of a hundred, each repaired at once, say nothing of what lost them."""
    told = []
    for lost in ((), (30, 60)):
        exchange = Exchange(rtt_ms=50).opened()
        at_ms = 60.0
        for number in range(0, 100, 2):
            exchange.data(at_ms, number, count=2)
            gone = number in lost
            sack = (number + 1, number + 2) if gone else None
            exchange.ack(at_ms + 50, number if gone else number + 2, sack=sack)
            if gone:
                exchange.data(at_ms + 51, number)
                at_ms += 52
                exchange.ack(at_ms + 49, number + 2)
            at_ms += 50.2
        folder = tmp_path / str(len(lost))
        folder.mkdir()
        found = exchange.diagnosed(folder)
        told.append((kinds(found), found.no_fault))
    assert told[0] == (told[1][0], "No known fault was found beside what limited it.")
    assert told[1][1] == "2 of 102 data packets (2.0 %) were sent again, and no known fault explains why."


@pytest.mark.parametrize(("turns", "told"), [(1, "took 400 ms to begin its"), (3, "begin each of 3 answers")])
def test_one_wait_is_told_as_one(tmp_path: Path, turns: int, told: str) -> None:
    exchange = answers(think_ms=400, pause_ms=0)
    exchange.segments = exchange.segments[: 3 + turns * 5]
    slow = of(exchange.diagnosed(tmp_path, reverse=True), "server-think-time")
    assert told in slow.sentence
    assert "typically" not in slow.sentence, "they took equally long"


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["n29", "n88", "n115", "n132", "n229"])
def test_a_window_that_can_no_longer_grow_is_no_slow_start(fixture_folder: Path, name: str) -> None:
    """One stretch of 79 round trips for 99 segments of an initial window, or 186 of one round trip each."""
    folder = fixture_folder / "causes" / name
    truth = json.loads((folder / "truth.json").read_text())
    way = "reverse" if truth["direction"] == "down" else "forward"
    said = call("diagnose", "--json", "-c", truth["connection"], "--direction", way, folder / "session").stdout
    assert "slow-start-limited" not in {finding["kind"] for finding in json.loads(said)["findings"]}


@pytest.mark.parametrize(
    ("seconds", "confidence", "is_slight"),
    [(1.5, Confidence.WEAK, True), (2.5, Confidence.WEAK, False), (1.5, Confidence.INFERRED, False)],
)
def test_weak_time_of_the_link_counts_half(
    tmp_path: Path, seconds: float, confidence: Confidence, is_slight: bool
) -> None:
    """Of ten seconds: where a delay varies by itself, a short weak link is most often another limit."""
    found = answers(think_ms=0, pause_ms=0).diagnosed(tmp_path, reverse=True).limited
    edges, none = np.array([0, seconds, 10]) * 1e9, np.zeros(2, dtype=np.int64)
    limit = np.array([Limit.LINK.value, Limit.APPLICATION.value])
    possible = np.array([confidence is Confidence.WEAK, False])
    cells = Cells(edges[:-1], edges[1:], limit, none, possible)
    limited = replace(found, cells=cells, seen=None, shown=None)  # nothing but the view makes them weak
    assert limited.shares[1].confidence is confidence
    assert link_limited._is_slight(limited) is is_slight
