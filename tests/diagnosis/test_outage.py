"""When nothing came back: an outage, a blackout, or lost ACKs, and only with proof of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.analysis.verdicts import RetransmissionCause
from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.packets.dead_times import dead_times
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import MS, START_NS
from tests.conftest import SAMPLES
from tests.diagnosis.exchange import Exchange, kinds, of
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD = SAMPLES / "cellular_upload"


def _silence(*retries_ms: float, answered: float | None, covers: int = 5) -> Exchange:
    """Return a transfer whose second flight, segments 4 to 7, got no answer until a timer's try did."""
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=1)
    exchange.data(now, 4, count=4)
    for at_ms in retries_ms:
        exchange.data(now + at_ms, 4)
    if answered is not None:
        exchange.ack(now + answered, covers)
    return exchange


def test_an_outage_of_both_ways_is_one_incident_however_often_the_timer_went_off() -> None:
    """Its own link log lists 74 lost data packets and 3 lost ACKs."""
    found = diagnose(Transfer.of(read(UPLOAD)))
    (dead,) = [each for each in found.incidents if each.cost_s > 1]
    assert dead.kind == "outage"
    assert "exponential-back-off" in {found.findings[part].kind for part in dead.parts}
    assert "ack-loss" not in kinds(found), "fewer ACKs than data were lost"
    numbers = of(found, "outage").numbers
    assert (numbers["lost_packets"], numbers["lost_acks"]) == (74, 3)
    assert numbers["outage_certain_s"] < 1.4 < numbers["outage_s"], "what the link was told to do"
    assert "in either direction" in dead.sentence
    assert dead.help


def test_the_sender_alone_knows_the_outage_but_not_which_way_was_dead() -> None:
    found = diagnose(Transfer.of(read(UPLOAD / "mobile" / "tcp-0.pcap.gz")))
    assert kinds(found) >= {"outage", "exponential-back-off"}
    assert "ack-loss" not in kinds(found)
    assert of(found, "outage").sentence.startswith("No ACK came back for at least 0.9 s and at most 2.2 s, from ")


def test_a_try_that_failed_makes_an_outage_until_the_answered_one(tmp_path: Path) -> None:
    found = _silence(300, 900, 2100, answered=2150).diagnosed(tmp_path)
    dead = of(found, "outage")
    assert dead.cost_s == pytest.approx(2.1)
    assert dead.numbers["outage_certain_s"] == pytest.approx(0.9)
    assert dead.numbers["last_wait_s"] == pytest.approx(1.2), "from the last try in vain to the answered one"
    assert "ack-loss" not in kinds(found)


def test_a_first_try_that_was_answered_is_no_outage(tmp_path: Path) -> None:
    assert not {"outage", "ack-loss"} & kinds(_silence(300, answered=350).diagnosed(tmp_path))


def test_tries_that_arrived_show_that_acks_were_lost_though_more_data_were_before(tmp_path: Path) -> None:
    """Packets 45 to 65 vanish as by a queue that overflows, and then no ACK comes back for 1.5 s."""
    found = diagnosed(
        tmp_path,
        size=300_000,
        vanish=frozenset(range(45, 66)),
        dead_from_ns=210 * MS,
        dead_until_ns=1710 * MS,
        no_acks=True,
    )
    lost = of(found, "ack-loss")
    assert lost.numbers["lost_packets"] > lost.numbers["lost_acks"] > 0
    assert of(found, "outage").sentence.startswith("The data arrived, but no ACK came back for")


def test_a_peer_whose_timer_goes_off_too_does_not_answer_a_try(tmp_path: Path) -> None:
    """The server's answer is lost; the client repeats its request 3 ms behind the server's try, and then asks
    for the next."""
    exchange = Exchange()
    exchange.syn(0)
    exchange.syn_ack(0.1)
    exchange.note(50, 0, seq=1_001, ack=5_001)
    exchange.data(51, 0, side=1)
    exchange.note(101, 0, seq=1_001, ack=6_001, payload=300)
    exchange.data(102, 1, size=400, side=1)
    exchange.data(312, 1, size=400, side=1)
    exchange.note(315, 0, seq=1_001, ack=6_001, payload=300)
    exchange.note(362, 0, seq=1_301, ack=6_401, payload=300)
    file = write_pcap(tmp_path / "talk.pcap", exchange.segments)
    (dead,) = dead_times(Transfer.of(read(file), reverse=True))
    assert dead.failed == 0


def test_from_ten_seconds_on_it_is_a_blackout(tmp_path: Path) -> None:
    found = _silence(300, 900, 2100, 4500, 9300, 18900, answered=18950).diagnosed(tmp_path)
    assert "outage" not in kinds(found)
    assert of(found, "blackout").cost_s == pytest.approx(18.9)


def test_a_path_that_stays_dead_is_told_until_the_end(tmp_path: Path) -> None:
    dead = of(_silence(300, 900, 2100, answered=None).diagnosed(tmp_path), "outage")
    assert "nor was any later one in this recording" in dead.sentence
    assert "last_wait_s" not in dead.numbers


def test_acks_were_lost_if_the_answer_covers_more_than_was_sent_again(tmp_path: Path) -> None:
    found = _silence(300, answered=350, covers=8).diagnosed(tmp_path)
    assert "ACKs were lost on the way back" in of(found, "ack-loss").sentence
    assert "outage" not in kinds(found), "no try failed"


def test_an_answer_that_covers_only_what_was_sent_again_proves_no_lost_acks(tmp_path: Path) -> None:
    """One segment alone was outstanding: it or its ACK may have been lost."""
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=1)
    exchange.data(now, 4)
    exchange.data(now + 300, 4)
    exchange.ack(now + 350, 5)
    assert "ack-loss" not in kinds(exchange.diagnosed(tmp_path))


def test_duplicate_acks_had_told_of_what_arrived_so_no_ack_was_lost(tmp_path: Path) -> None:
    """Without SACK the filler of a hole is answered by an ACK of all that lay behind it."""
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=1)
    exchange.data(now, 4, count=3)
    for late in (50, 50.1):
        exchange.ack(now + late, 4)
    exchange.data(now + 400, 4)
    exchange.ack(now + 450, 7)
    assert "ack-loss" not in kinds(exchange.diagnosed(tmp_path))


def test_a_delayed_ack_was_not_lost(tmp_path: Path) -> None:
    """One full segment and a small one: the ACK of the first was not due yet when a probe asked."""
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=1)
    exchange.data(now, 4)
    exchange.data(now, 5, size=500)
    exchange.data(now + 110, 5, size=500)
    exchange.ack(now + 160, 5, extra=500)
    assert "ack-loss" not in kinds(exchange.diagnosed(tmp_path))


def test_a_program_that_does_not_read_holds_back_acks(tmp_path: Path) -> None:
    exchange = _silence(300, answered=None)
    last = exchange.segments[-1].time_ns or 0
    exchange.ack((last - START_NS) / MS + 50, 8)
    exchange.segments[-1] = replace(exchange.segments[-1], window=0)
    assert "ack-loss" not in kinds(exchange.diagnosed(tmp_path))


def test_three_losses_in_a_row_are_chance_where_many_are_lost(tmp_path: Path) -> None:
    drive = replace(ROAD, loss=0.3)
    found = diagnosed(tmp_path, drive, size=300_000)
    assert found.transfer.verdicts["cause"].tolist().count(RetransmissionCause.TIMEOUT) > 3
    assert not {"outage", "blackout", "ack-loss"} & kinds(found)


def test_a_dead_way_back_is_an_outage_of_the_acks(tmp_path: Path) -> None:
    found = _silence(300, 900, 2100, answered=2150, covers=8).diagnosed(tmp_path)
    (incident,) = [each for each in found.incidents if each.kind == "outage"]
    assert "no ACK came back" in incident.sentence
    assert {found.findings[part].kind for part in incident.parts} == {"outage", "ack-loss", "exponential-back-off"}
    assert incident.cost_s == pytest.approx(2.1), "three findings of one wait"


def test_a_handshake_has_no_outage(tmp_path: Path) -> None:
    exchange = Exchange()
    for at_ms in (0, 1000, 3000):
        exchange.syn(at_ms)
    assert "outage" not in kinds(exchange.diagnosed(tmp_path))


@pytest.mark.parametrize("is_hole", [True, False])
def test_two_larger_ones_lost_later_tell_a_hole_from_an_outage_after_one_failed_try(
    tmp_path: Path, is_hole: bool
) -> None:
    """A sender that looks for the size which passes halves it after its second timer (RFC 4821)."""
    exchange = Exchange().opened()
    now = exchange.round_trips(51, 0, count=5)
    vanish = len(exchange.segments)
    exchange.data(now, 20, count=4)
    exchange.data(now + 300, 20)
    lost = exchange.segments[vanish:]
    now, seq = now + 900, 1001 + 20_000
    for turn in range(30):
        probe = 800 if turn in (10, 20) else 0
        if probe:
            exchange.note(now, 0, seq=seq, ack=5001, payload=probe)
            lost += exchange.segments[-1:] if is_hole else []
            now += 0 if not is_hole else 200
        if not (probe and not is_hole):
            probe = 500
            exchange.note(now, 0, seq=seq, ack=5001, payload=probe)
        seq += probe
        now += 50
        exchange.note(now, 1, seq=5001, ack=seq)
    for host, way_ns in (("mobile", 0), ("fixed", 25 * MS)):
        (tmp_path / host).mkdir()
        mine = [each for each in exchange.segments if not way_ns or each not in lost]
        moved = [replace(each, time_ns=(each.time_ns or 0) + way_ns * (1 - 2 * each.side)) for each in mine]
        write_pcap(tmp_path / host / "tcp-0.pcap", sorted(moved, key=lambda each: each.time_ns or 0))
    found = kinds(diagnose(Transfer.of(read(tmp_path))))
    assert ("path-mtu-black-hole" in found) == is_hole
    assert ("outage" in found) != is_hole


@pytest.mark.parametrize("passes_bytes", [500, 1000])
def test_offload_joins_the_smaller_segments_that_pass_a_black_hole(tmp_path: Path, passes_bytes: int) -> None:
    """The captured packets behind it are as large as before; none is made of full segments."""
    exchange = Exchange().opened()
    exchange.data(51, 0, count=10)
    for again_ms in (300, 800, 1800):
        exchange.data(again_ms, 0)
    exchange.data(3800, 0, size=passes_bytes)
    at_ms, acked = 3850.0, passes_bytes
    exchange.ack(at_ms, 0, extra=acked)
    for _ in range(30):
        exchange.note(at_ms + 1, 0, seq=1001 + acked, ack=5001, payload=3 * passes_bytes)
        at_ms, acked = at_ms + 51, acked + 3 * passes_bytes
        exchange.ack(at_ms, 0, extra=acked)
    found = kinds(exchange.diagnosed(tmp_path))
    assert ("path-mtu-black-hole" in found, "outage" in found) == (passes_bytes == 500, passes_bytes == 1000)
