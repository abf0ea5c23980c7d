"""Data that wait for the signalling of a phone: the causes, findings, remedies, and what is not laid to it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import RadioCause
from multitracer.diagnosis.signalling_waits import after_last_setting
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.read import read
from tests.analysis.pcap_file import _packet
from tests.analysis.traffic import MS, Segment
from tests.cli.program import call
from tests.diagnosis.exchange import Exchange
from tests.parsers.signalling_messages import START_NS, nas, packet, read_messages, version_2

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
RTT_MS = 50
REPEATED_MS = 250
"""After this time a request without an answer is sent again."""


class Phone(Exchange):
    """A phone that sends requests over one connection, and the messages of its modem."""

    def __init__(self) -> None:
        super().__init__(RTT_MS)
        self.messages: list[tuple[float, bytes, int]] = []
        self.requests = 0

    def request(self, at_ms: float, *, held_ms: float = 0, arrived: int | None = None) -> float:
        """Note a request, and its answer when what held it back is over and a round trip has passed.

        With `arrived`, the packets have timestamps, and the answer has that of the first copy (0), or of the second.
        """
        copies = [at_ms, *([at_ms + REPEATED_MS] if held_ms > REPEATED_MS else [])]
        answered_ms = at_ms + held_ms + RTT_MS
        for each_ms in copies:
            self.data(each_ms, self.requests)
            if arrived is not None:
                self.segments[-1] = replace(self.segments[-1], stamp=(round(each_ms), 1))
        self.requests += 1
        self.ack(answered_ms, self.requests)
        if arrived is not None:
            echoed_ms = copies[min(arrived, len(copies) - 1)]
            self.segments[-1] = replace(self.segments[-1], stamp=(round(answered_ms), round(echoed_ms)))
        return answered_ms

    def says(self, at_ms: float, *names: str, step_ms: float = 100, card: int = 0) -> None:
        """Note messages of the modem."""
        for place, name in enumerate(names):
            datagram = version_2(name) if name in _RRC else nas(name)
            self.messages.append((at_ms + place * step_ms, datagram, card))

    def promoted(self, at_ms: float, lasts_ms: float) -> None:
        """Note the messages of a set-up with a service request."""
        steps = ("request", "set-up", "set-up complete with service request", "complete 1")
        self.says(at_ms, *steps, step_ms=lasts_ms / 3)

    def written(self, path: Path) -> Path:
        """Write one capture of packets and messages."""
        packets: list[tuple[int, bytes]] = [(each.time_ns or 0, _packet(each)) for each in self.segments]
        start_ns = self.segments[0].time_ns or 0
        packets += [
            (start_ns + round(at_ms * MS), packet(datagram, modem=card)) for at_ms, datagram, card in self.messages
        ]
        records = (pcap_record(data, time_ns=time_ns) for time_ns, data in sorted(packets))
        path.write_bytes(pcap_header() + b"".join(records))
        return path


_RRC = {
    "request", "set-up", "set-up complete with service request", "complete 1", "release", "reject",
    "re-establishment request", "re-establishment complete", "leg to 283",
}  # fmt: skip


def explained(phone: Phone, folder: Path) -> Diagnosis:
    return explain(read(phone.written(folder / "phone.pcap")), 1)


def of_signalling(diagnosis: Diagnosis) -> list[Finding]:
    kinds = {"promotion", "rejected", "radio-link-failure", "release", "secondary-leg"}
    return [each for each in diagnosis.findings if each.kind in kinds]


def idle_and_back(lasts_ms: Iterable[float] = (400, 300, 500), *, timer_ms: float = 10_000) -> Phone:
    """Return a phone whose network releases it after the timer, and promotes it before each request."""
    phone = Phone()
    phone.opened()
    last_ms = phone.request(200)
    for each in lasts_ms:
        phone.says(last_ms + timer_ms, "release")
        at_ms = last_ms + timer_ms + 2_000
        phone.promoted(at_ms + 10, each)
        phone.request(at_ms, held_ms=each + 10)
        last_ms = phone.request(at_ms + 1_000)
    return phone


@needs_tshark
def test_a_promotion_costs_the_time_from_the_first_packet_to_the_end_of_the_procedure(tmp_path: Path) -> None:
    diagnosis = explained(idle_and_back(), tmp_path)
    found = of_signalling(diagnosis)
    assert [each.kind for each in found] == ["promotion"] * 3
    assert sorted(round(each.cost_s, 3) for each in found) == [0.31, 0.41, 0.51]
    assert found[0].evidence == tuple(f"message:{frame}" for frame in _frames(diagnosis, 3))
    assert found[0].help == "Keep-alives below the inactivity timer of 10.0 s, or requests in batches."
    assert found[0].numbers["inactivity_timer_s"] == pytest.approx(10.0)
    (incident,) = [each for each in diagnosis.incidents if each.kind == "promotion"]
    assert (incident.count, incident.cause, round(incident.cost_s, 2)) == (3, RadioCause.PROMOTION, 1.23)
    causes = diagnosis.causes[0].seconds()
    assert causes[RadioCause.PROMOTION] == pytest.approx(1.23)


def _frames(diagnosis: Diagnosis, number: int) -> list[int]:
    ((_, table),) = diagnosis.transfer.recording.tables("radio", "signalling")
    requests = [row for row in table.rows() if row["message"] == "RRCConnectionRequest"]
    first = requests[number - 1]["frame"]
    later = [row["frame"] for row in table.rows() if row["frame"] >= first]
    return list(dict.fromkeys(later))[:4]


@needs_tshark
def test_sentence_json_and_schema_name_the_promotion(tmp_path: Path) -> None:
    path = idle_and_back((900, 800, 900), timer_ms=2_000).written(tmp_path / "phone.pcap")
    document = json.loads(call("diagnose", path, "--connection", "1", "--json", "--intervals").stdout)
    words = document["headline"]["sentence"]
    assert "Data waited 3 times for the phone's promotion to a connection, 2.6 s in all" in words
    assert "keep-alives below the inactivity timer of 2.0 s" in document["headline"]["help"].lower()
    intervals = [each for each in document["intervals"] if each["cause"] == "promotion"]
    assert sum(each["end_s"] - each["begin_s"] for each in intervals) == pytest.approx(2.63, abs=0.001)
    causes = [each["causes"].get("promotion", 0) for each in document["limits"]]
    assert sum(causes) == pytest.approx(2.63, abs=0.001)
    assert {each["cause"] for each in document["incidents"] if each["kind"] == "promotion"} == {"promotion"}


@needs_tshark
def test_requests_of_a_connected_phone_wait_for_nothing(tmp_path: Path) -> None:
    """The set-up came before the first packet, and the release after the last one."""
    phone = Phone()
    phone.promoted(-500, 300)
    phone.opened()
    for at_ms in (200, 4_000, 8_000):
        phone.request(at_ms)
    phone.says(18_100, "release")
    assert of_signalling(explained(phone, tmp_path)) == []


@needs_tshark
def test_a_reject_is_named_with_its_cause(tmp_path: Path) -> None:
    phone = Phone()
    phone.opened()
    phone.request(200)
    phone.says(10_300, "release")
    phone.says(15_020, "request", "set-up", "set-up complete with service request", "service reject 10")
    phone.says(18_000, "attach request", "attach accept", "attach complete")
    phone.request(15_000, held_ms=3_200)
    diagnosis = explained(phone, tmp_path)
    (found,) = of_signalling(diagnosis)
    assert found.kind == "rejected"
    assert found.cost_s == pytest.approx(3.2, abs=0.01)
    assert "rejected the phone's service request (cause 10: " in found.sentence
    assert found.help.startswith("Ask the operator about cause 10: ")
    assert diagnosis.headline.cause in (RadioCause.REJECTED, RadioCause.UNKNOWN)


_REFUSED = ("request", "set-up", "set-up complete with service request", "service reject 10", "release")


@needs_tshark
def test_a_card_without_service_is_not_the_one_that_carries_data(tmp_path: Path) -> None:
    """It asks more often, and is refused at the time at which data of the other card wait for a promotion."""
    phone = idle_and_back((600,))
    for at_ms in (12_000, 12_500, 13_000, 14_000, 15_000):
        phone.says(at_ms, *_REFUSED, step_ms=60, card=1)
    (found,) = of_signalling(explained(phone, tmp_path))
    assert (found.kind, round(found.cost_s, 2)) == ("promotion", 0.61)


@needs_tshark
def test_nothing_is_said_of_two_cards_that_may_both_carry_data(tmp_path: Path) -> None:
    phone = idle_and_back((400,))
    steps = ("request", "set-up", "set-up complete with service request", "complete 1", "release")
    phone.says(6_000, *steps, card=1)
    assert of_signalling(explained(phone, tmp_path)) == []


@needs_tshark
def test_a_log_that_ends_in_a_promotion_gives_none(tmp_path: Path) -> None:
    phone = idle_and_back((400, 300))
    last_ms = max(at_ms for at_ms, *_ in phone.messages)
    phone.messages = [each for each in phone.messages if each[0] < last_ms - 250]
    found = of_signalling(explained(phone, tmp_path))
    assert [(each.kind, round(each.cost_s, 2)) for each in found] == [("promotion", 0.41)]


@needs_tshark
def test_messages_before_the_clock_was_set_are_not_held_against_packets(tmp_path: Path) -> None:
    """The phone's clock was 18 s ahead until the third message, as one that counts GPS time."""
    names = ("request", "set-up", "set-up complete with service request", "release")
    times_ns = [START_NS + s * 1_000 * MS for s in (18, 19, 2, 3)]
    table = read_messages(tmp_path, *map(version_2, names), times_ns=times_ns)["signalling"]
    assert len(set(table["clock"].tolist())) == 2
    assert after_last_setting(table)["time_ns"].tolist() == [times_ns[2], *times_ns[2:]]  # the NAS message in it


@needs_tshark
def test_a_radio_link_failure_and_a_release_are_told_apart(tmp_path: Path) -> None:
    phone = Phone()
    phone.promoted(-500, 300)
    phone.opened()
    phone.request(200)
    phone.request(5_000, held_ms=1_500)
    phone.says(6_200, "re-establishment request", "re-establishment complete", step_ms=200)
    phone.request(12_000, held_ms=2_000)
    phone.says(12_500, "release")
    phone.promoted(13_700, 300)
    found = {each.kind: each for each in of_signalling(explained(phone, tmp_path))}
    assert set(found) == {"radio-link-failure", "release"}
    assert found["release"].cost_s == pytest.approx(1.5, abs=0.01)
    assert 1.2 <= found["radio-link-failure"].cost_s <= 1.6


@needs_tshark
def test_a_stop_when_the_nr_leg_was_added_has_that_cause(tmp_path: Path) -> None:
    phone = Phone()
    phone.promoted(-500, 300)
    phone.opened()
    last_ms = phone.round_trips(200, 0, count=20)
    phone.says(last_ms + 5, "leg to 283", "complete 1")
    phone.data(last_ms, 80, count=4)
    for back_ms in (250, 750):
        phone.data(last_ms + back_ms, 80)
    phone.ack(last_ms + 900, 81)
    phone.data(last_ms + 901, 81, count=3)
    phone.ack(last_ms + 950, 84)
    phone.round_trips(last_ms + 951, 84, count=10)
    diagnosis = explained(phone, tmp_path)
    (found,) = of_signalling(diagnosis)
    assert (found.kind, RadioCause.SECONDARY_LEG in diagnosis.causes[0].seconds()) == ("secondary-leg", True)
    assert "secondary added" in found.sentence
    assert 0.5 <= found.cost_s <= 0.95


_PAUSES_MS = (3_000, 12_000, 5_000, 15_000, 11_000, 4_000, 20_000)


def slow_after_pauses(held_ms: float, *, arrived: int | None = None) -> Phone:
    """Return a phone whose requests after more than 10 s are held back, four of them."""
    phone = Phone()
    phone.opened()
    last_ms = phone.request(200)
    for idle_ms in _PAUSES_MS:
        at_ms = last_ms + idle_ms
        last_ms = phone.request(at_ms, held_ms=held_ms if idle_ms > 10_000 else 0, arrived=arrived)
        last_ms = phone.request(last_ms + 100)
    return phone


@pytest.mark.parametrize(("held_ms", "arrived"), [(200, None), (400, 0), (1_400, 0)])
def test_packets_alone_suggest_promotions_where_one_idle_time_divides_them(
    tmp_path: Path, held_ms: float, arrived: int | None
) -> None:
    diagnosis = explained(slow_after_pauses(held_ms, arrived=arrived), tmp_path)
    found = of_signalling(diagnosis)
    assert [each.kind for each in found] == ["promotion"] * 4
    assert all(each.cost_s == pytest.approx(held_ms / 1e3, abs=0.01) and diagnosis.is_weak(each) for each in found)
    assert "may be the promotion" in found[0].sentence
    assert f"waited at most {held_ms / 1e3:g}" in found[0].sentence
    assert diagnosis.causes == []


@pytest.mark.parametrize("arrived", [None, 1])
def test_a_request_whose_first_copy_may_be_lost_is_no_promotion(tmp_path: Path, arrived: int | None) -> None:
    assert of_signalling(explained(slow_after_pauses(400, arrived=arrived), tmp_path)) == []


@pytest.mark.parametrize("held_ms", [60, 3_500])
def test_waits_that_no_promotion_takes_are_none(tmp_path: Path, held_ms: float) -> None:
    assert of_signalling(explained(slow_after_pauses(held_ms, arrived=0), tmp_path)) == []


def test_a_host_far_away_that_is_asked_after_pauses_is_no_promotion(tmp_path: Path) -> None:
    """A program opens a connection to it after each long pause; its handshake takes 0.4 s."""
    near = Phone()
    near.opened()
    packets, last_ms = list[Segment](), near.request(200)
    for place, idle_ms in enumerate(_PAUSES_MS):
        at_ms = last_ms + idle_ms
        if idle_ms > 10_000:
            far = Exchange(400)
            far.opened()
            start_ns = round(at_ms * MS)
            packets += [replace(each, time_ns=(each.time_ns or 0) + start_ns, pair=place) for each in far.segments]
            at_ms += 1_500
        last_ms = near.request(at_ms)
        last_ms = near.request(last_ms + 100)
    near.segments += packets
    recording = read(near.written(tmp_path / "phone.pcap"))
    assert len(recording) == 5
    found = [each for number in range(1, 6) for each in of_signalling(explain(recording, number))]
    assert found == []


def test_late_answers_that_no_idle_time_divides_suggest_nothing(tmp_path: Path) -> None:
    phone = Phone()
    phone.opened()
    last_ms = phone.request(200)
    for place, idle_ms in enumerate((3_000, 12_000, 5_000, 15_000, 11_000, 4_000, 20_000)):
        last_ms = phone.request(last_ms + idle_ms, held_ms=400 * (place % 2))
        last_ms = phone.request(last_ms + 100)
    assert of_signalling(explained(phone, tmp_path)) == []
