"""Who kept whom waiting, where requests and answers take turns: a round trip, a program, or a repair."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, SYN, Segment
from tests.diagnosis.exchange import FULL, Exchange, kinds

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

_SERVER, _CLIENT = 5_001, 1_001
_ANSWER = 2
"""Full segments of each answer."""


def turns(*, at_client: bool, pause_ms: float = 0, repaired_ms: float = 0, rtt_ms: float = 50) -> Exchange:
    """Return ten requests and their answers; the client asks again after `pause_ms`.

    Its fourth and its seventh request are lost, and sent again `repaired_ms` later, if that is not 0; the
    server captures what arrives.
    """
    exchange, half, ids = Exchange(rtt_ms=rtt_ms), rtt_ms / 2, [100, 7000]

    def note(sent_ms: float, side: int, **what: Any) -> None:
        stamp = (7_000 + 90_000 * side + int(sent_ms), 0)
        ids[side] += 1
        exchange.note(sent_ms + half * (at_client == side), side, stamp=stamp, ip_id=ids[side], **what)

    options = {"mss": FULL + 12, "scale": 0}
    note(0, 0, seq=_CLIENT - 1, flags=SYN, options=options)
    note(half, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options=options)
    note(rtt_ms, 0, seq=_CLIENT, ack=_SERVER)
    at_ms = rtt_ms + 0.1
    for turn in range(10):
        ack = _SERVER + _ANSWER * turn * FULL
        lost = repaired_ms if turn in (3, 6) else 0
        ids[0] += lost > 0 and not at_client
        for sent_ms in [at_ms] * (at_client or not lost) + [at_ms + lost] * (lost > 0):
            note(sent_ms, 0, seq=_CLIENT + turn * 100, ack=ack, payload=100)
        at_ms += lost + half + 0.1
        for each in range(_ANSWER):
            seq = _SERVER + (_ANSWER * turn + each) * FULL
            note(at_ms, 1, seq=seq, ack=_CLIENT + (turn + 1) * 100, payload=FULL)
        at_ms += half
        if pause_ms:
            note(at_ms, 0, seq=_CLIENT + (turn + 1) * 100, ack=ack + _ANSWER * FULL)
        at_ms += pause_ms + 0.1
    note(at_ms, 0, seq=_CLIENT + 1000, ack=_SERVER + _ANSWER * 10 * FULL)
    return exchange


def seconds(found: Diagnosis, part: LimitSubtype) -> float:
    return sum(row.seconds for row in found.limited.shares if row.part is part)


@pytest.mark.parametrize("is_again", [True, False])
def test_an_answer_that_was_lost_is_a_recovery_though_the_request_came_again(tmp_path: Path, is_again: bool) -> None:
    """The lost answer carried the ACK of the request: an ACK without data, then the answer, follow the copy.

    Where no request came again, an ACK may have been lost, and the program took its time.
    """
    exchange, half, ids, at_ms = Exchange(), 25.0, [100, 7000], 50.1

    def note(sent_ms: float, side: int, **what: Any) -> None:
        ids[side] += 1
        stamp = (7_000 + 90_000 * side + int(sent_ms), 0)
        exchange.note(sent_ms + half * side, side, stamp=stamp, ip_id=ids[side], **what)

    options = {"mss": FULL + 12, "scale": 0}
    note(0, 0, seq=_CLIENT - 1, flags=SYN, options=options)
    note(half, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options=options)
    for turn in range(20):
        request = {"seq": _CLIENT + turn * 100, "ack": _SERVER + turn * FULL, "payload": 100}
        note(at_ms, 0, **request)
        if turn in (6, 13):
            ids[1] += 1
            at_ms += 230
            if is_again:
                note(at_ms, 0, **request)
            seq = _SERVER + (turn + is_again) * FULL
            note(at_ms + half - 100 * (not is_again), 1, seq=seq, ack=_CLIENT + (turn + 1) * 100)
        at_ms += half + 1
        note(at_ms, 1, seq=_SERVER + turn * FULL, ack=_CLIENT + (turn + 1) * 100, payload=FULL)
        at_ms += half + 1
    found = exchange.diagnosed(tmp_path, reverse=True)
    part, other = (LimitSubtype.TIMER, LimitSubtype.THINK)[:: 1 if is_again else -1]
    assert seconds(found, part) == pytest.approx(2 * 0.23, abs=0.06)
    assert seconds(found, other) + seconds(found, LimitSubtype.REPAIR) < 0.06


@pytest.mark.parametrize("at_client", [True, False])
def test_requests_without_a_pause_between_them_wait_for_the_path_alone(tmp_path: Path, at_client: bool) -> None:
    found = turns(at_client=at_client).diagnosed(tmp_path, reverse=True)
    assert found.headline.part is LimitSubtype.LATENCY
    assert found.headline.sentence.startswith(
        "Mostly the path's latency: an answer and the next request took a round trip"
    )
    assert "fewer round trips" in found.headline.help
    assert seconds(found, LimitSubtype.LATENCY) == pytest.approx(0.45, abs=0.06)
    assert seconds(found, LimitSubtype.PEER) < 0.01
    assert "client-think-time" not in kinds(found)


@pytest.mark.parametrize("at_client", [True, False])
def test_a_pause_of_the_client_is_its_own_but_for_the_round_trip(tmp_path: Path, at_client: bool) -> None:
    found = turns(at_client=at_client, pause_ms=200).diagnosed(tmp_path, reverse=True)
    assert found.headline.part is LimitSubtype.PEER
    assert seconds(found, LimitSubtype.PEER) == pytest.approx(1.8, abs=0.03)
    assert seconds(found, LimitSubtype.LATENCY) == pytest.approx(0.45, abs=0.03)


def test_a_lost_request_is_repaired_and_not_late(tmp_path: Path) -> None:
    found = turns(at_client=True, repaired_ms=400).diagnosed(tmp_path, reverse=True)
    assert seconds(found, LimitSubtype.REPAIR) == pytest.approx(0.8, abs=0.01)
    assert seconds(found, LimitSubtype.PEER) < 0.01
    assert found.headline.sentence.startswith("Mostly the repair of lost requests or answers: 0.8 s went by")
    assert "client-think-time" not in kinds(found)


def test_the_servers_capture_knows_a_lost_request_by_its_missing_number(tmp_path: Path) -> None:
    found = turns(at_client=False, pause_ms=1, repaired_ms=300).diagnosed(tmp_path, reverse=True)
    assert seconds(found, LimitSubtype.REPAIR) == pytest.approx(0.6, abs=0.01)
    assert seconds(found, LimitSubtype.PEER) < 0.02
    assert "client-think-time" not in kinds(found)


def test_both_ends_show_that_a_request_was_lost(tmp_path: Path) -> None:
    for host, at_client in (("fixed", False), ("mobile", True)):
        (tmp_path / host).mkdir()
        exchange = turns(at_client=at_client, repaired_ms=400)
        ordered = sorted(exchange.segments, key=lambda each: each.time_ns or 0)
        write_pcap(tmp_path / host / "tcp-0.pcap", [replace(each, ip_id=0) for each in ordered])
    found = diagnose(Transfer.of(read(tmp_path), reverse=True))
    assert seconds(found, LimitSubtype.REPAIR) == pytest.approx(0.8, abs=0.01)
    assert seconds(found, LimitSubtype.PEER) < 0.02


def test_an_upload_that_waits_for_answers_waits_for_the_path(tmp_path: Path) -> None:
    found = turns(at_client=True).diagnosed(tmp_path, reverse=False)
    assert found.headline.sentence.startswith("Mostly the path's latency: a request and its answer took")


def test_a_server_that_answers_late_is_said_to_answer(tmp_path: Path) -> None:
    exchange, at_ms = Exchange().opened(), 51.0
    for turn in range(6):
        exchange.data(at_ms, turn)
        exchange.ack(at_ms + 50, turn + 1)
        at_ms += 450
        exchange.note(at_ms, 1, seq=_SERVER + turn * 100, ack=_CLIENT + (turn + 1) * FULL, payload=100)
        at_ms += 0.1
    found = exchange.diagnosed(tmp_path, reverse=False)
    assert found.headline.sentence.startswith(
        "Mostly the server: it took 2.0 s to begin 5 answers, typically 0.4 s each"
    )
    assert "a server that answers sooner" in found.headline.help


def lan(*, pause_ms: float) -> list[Segment]:
    """Return ten requests and answers as the client sees them, whose server is 0.1 ms away and counts ms."""
    at_ms, clock = 1_000.0, 77_000
    segments = []

    def note(side: int, **what: Any) -> None:
        stamp = (int(at_ms) + (clock if side else 0), 0)
        segments.append(Segment(side, time_ns=round(at_ms * MS), window=60_000, stamp=stamp, **what))

    options = {"mss": FULL, "scale": 0}
    note(0, seq=_CLIENT - 1, flags=SYN, options=options)
    at_ms += 0.1
    note(1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options=options)
    at_ms += 0.01
    note(0, seq=_CLIENT, ack=_SERVER)
    for turn in range(10):
        at_ms += pause_ms + 0.37
        note(0, seq=_CLIENT + turn * 100, ack=_SERVER + turn * 100, payload=100, flags=ACK | 8)
        at_ms += 0.1
        note(1, seq=_SERVER + turn * 100, ack=_CLIENT + turn * 100 + 100, payload=100, flags=ACK | 8)
        at_ms += 0.01
        note(0, seq=_CLIENT + turn * 100 + 100, ack=_SERVER + turn * 100 + 100)
    return segments


def test_a_tick_longer_than_the_round_trip_turns_nothing_round(tmp_path: Path) -> None:
    file = write_pcap(tmp_path / "lan.pcap", lan(pause_ms=400))
    found = diagnose(Transfer.of(read(file), reverse=True))
    assert found.headline.part is LimitSubtype.PEER
    assert seconds(found, LimitSubtype.PEER) == pytest.approx(4.0, abs=0.05)
    assert not {"server-think-time", "application-limited"} & kinds(found)


def test_a_window_that_holds_what_is_written_does_not_limit(tmp_path: Path) -> None:
    """A loopback's segments are as large as its whole window."""
    exchange, large = Exchange(rtt_ms=1), {"mss": 65_495, "scale": 0}
    exchange.note(0, 0, seq=_CLIENT - 1, flags=SYN, options=large, window=29_000)
    exchange.note(1, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options=large, window=29_000)
    exchange.note(1.1, 0, seq=_CLIENT, ack=_SERVER, window=29_000)
    for turn in range(8):
        at_ms = 100 + 400 * turn
        exchange.note(at_ms, 0, seq=_CLIENT + 80 * turn, ack=_SERVER, payload=80, window=29_000, flags=ACK | 8)
        exchange.note(at_ms + 1, 1, seq=_SERVER, ack=_CLIENT + 80 * (turn + 1), window=29_000)
    found = exchange.diagnosed(tmp_path)
    assert found.headline.limit is Limit.APPLICATION
    assert not any(row.limit is Limit.RECEIVER_WINDOW for row in found.limited.shares)


def test_a_connection_that_began_before_the_capture_is_not_opening(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.note(0, 1, seq=_SERVER, ack=_CLIENT, flags=ACK | 1)
    exchange.note(0.2, 0, seq=_CLIENT, ack=_SERVER + 1)
    exchange.note(26_000, 0, seq=_CLIENT, ack=_SERVER + 1, flags=ACK | 1)
    found = exchange.diagnosed(tmp_path)
    assert found.headline.limit is Limit.UNKNOWN
    assert "began before the capture" in found.headline.sentence


def test_a_connection_without_data_is_opened_until_its_handshake_ends(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    exchange.note(5_000, 0, seq=_CLIENT, ack=_SERVER, flags=ACK | 1)
    exchange.note(5_050, 1, seq=_SERVER, ack=_CLIENT + 1, flags=ACK | 1)
    found = exchange.diagnosed(tmp_path)
    assert found.headline.limit is Limit.HANDSHAKE
    assert found.limited.total_s == pytest.approx(0.05, abs=0.001)


def test_what_is_sent_again_and_never_acknowledged_is_no_slow_start(tmp_path: Path) -> None:
    """At the receiver, whose host has gone: all copies come, none is answered."""
    exchange = Exchange()
    exchange.note(0, 0, seq=_CLIENT - 1, flags=SYN, options={"mss": FULL, "scale": 0})
    exchange.note(0.1, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options={"mss": FULL, "scale": 0})
    exchange.note(50, 0, seq=_CLIENT, ack=_SERVER)
    exchange.data(50.2, 0)
    exchange.ack(50.3, 1)
    exchange.data(100, 1)
    for turn in range(7):
        exchange.data(100 + 300 * 2**turn, 1)
    found = exchange.diagnosed(tmp_path)
    assert found.headline.limit is Limit.RECOVERY
    assert found.headline.share > 0.95
    assert "slow-start-limited" not in kinds(found)
