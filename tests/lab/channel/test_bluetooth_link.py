"""Bluetooth: its rates, polls and sniff mode, the ARQ, credits, lost connections, and what the modem says."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean, median

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.bluetooth import BluetoothLink
from multitracer.lab.channel.bluetooth_piconet import (
    PACKET_TYPES,
    SLOT_NS,
    BitErrorConfig,
    BluetoothConfig,
    BluetoothSignalConfig,
    RfcommConfig,
    RfcommEnd,
    header_error,
    link_quality,
    payload_error,
)
from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.protocols.link_events import (
    PacketDropped,
    PieceLost,
    PieceReceived,
    PieceSent,
    ResetDone,
    ResetStarted,
)
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.channel.link_table import FULL, bluetooth, carried, round_trips
from tests.lab.channel.over import echoes, number_of, packet

CLEAN = bluetooth()


def test_slots_and_payloads_give_the_rates_of_the_specification() -> None:
    rates = {kind.name: 8 * kind.payload_octets / (2 * kind.slots * 0.625) for kind in PACKET_TYPES}
    told = {"DM1": 108.8, "DH1": 172.8, "DM3": 258.1, "DH3": 390.4, "DM5": 286.7, "DH5": 433.9}
    assert rates == pytest.approx(told, abs=0.1)
    assert pytest.approx(723.2) == 8 * 339 / (6 * 0.625)


def test_full_packets_carry_432_each_way_or_721_and_57_after_framing() -> None:
    symmetric = carried(bluetooth(rfcomm=FULL), SIDES, seconds=5, octets=1500)
    assert symmetric.kbps("mobile") == pytest.approx(432, rel=0.03)
    assert symmetric.kbps("fixed") == pytest.approx(432, rel=0.03)
    asymmetric = carried(bluetooth(rfcomm=FULL, up="DH1"), SIDES, seconds=5, octets=1500)
    assert asymmetric.kbps("mobile") == pytest.approx(721, rel=0.03)
    assert 50 < asymmetric.kbps("fixed") < 57.6


def test_the_default_frame_of_rfcomm_does_not_fill_packets() -> None:
    """127 octets and 8 of headers take a DH3: six slots for a frame each way, four for one way alone."""
    both = carried(CLEAN, SIDES, seconds=5, octets=1500)
    one = carried(CLEAN, ("fixed",), seconds=5, octets=1500)
    assert both.kbps("mobile") == pytest.approx(127 * 8 / (6 * 0.625), rel=0.03)
    assert one.kbps("mobile") == pytest.approx(127 * 8 / (4 * 0.625), rel=0.03)


def test_a_short_packet_waits_for_the_poll() -> None:
    trips, lost = round_trips(BluetoothConfig(), seconds=500, every_s=1.013)
    assert lost == 0
    assert trips[0] > 4 * 0.002  # both hosts, twice
    assert trips[-1] - trips[0] == pytest.approx(0.025, abs=0.01)  # 40 slots
    asleep, _ = echoes(BluetoothLink(BluetoothConfig(sniff_slots=800), seed=1), seconds=200, every_s=2.013)
    assert mean(asleep) == pytest.approx(median(trips) + 0.25, abs=0.1)  # half of 800 slots more
    often, _ = echoes(BluetoothLink(BluetoothConfig(poll_slots=4), seed=1), seconds=50, every_s=1.013)
    assert max(often) < median(trips)


def test_what_is_lost_is_sent_until_it_arrives() -> None:
    errors = BitErrorConfig(good_ber=2e-4, bad_ber=2e-4)
    config = replace(CLEAN, errors=errors)
    seen = carried(config, SIDES, seconds=5, octets=1500)
    for side, far in FAR.items():
        sent, lost = seen.of(side, PieceSent), seen.of(far, PieceLost)
        share = len(lost) / len(sent)
        expected = mean(payload_error(2e-4, PACKET_TYPES[3], event.wire_bytes - 4) for event in sent)
        assert share == pytest.approx(expected, rel=0.15)
        again = sum(event.attempts > 1 for event in sent)
        assert abs(again - len(lost)) <= 1
        assert seen.lost_percent(side) == 0
        assert [number_of(d) for _, d in seen.packets[far]] == sorted(number_of(d) for _, d in seen.packets[far])
    assert seen.kbps("mobile") < 0.9 * carried(CLEAN, SIDES, seconds=5, octets=1500).kbps("mobile")


def test_a_packet_whose_acknowledgement_is_lost_is_heard_twice_and_taken_once() -> None:
    config = replace(CLEAN, errors=BitErrorConfig(good_ber=0.02, bad_ber=0.02), down="DM1", up="DM1")
    seen = carried(config, SIDES, seconds=5)
    causes = [event.cause for event in seen.of("mobile", PieceReceived)]
    assert 0 < causes.count("duplicate") < causes.count("")
    offsets = [event.offset_bytes for event in seen.of("mobile", PieceReceived) if not event.cause]
    assert offsets == sorted(offsets)


def test_a_sender_without_credits_waits_for_a_grant() -> None:
    ends = [RfcommEnd(RfcommConfig(credits=2, grant_at=2)) for _ in range(2)]
    sender, receiver = ends
    sender.write(bytes(1000))
    for _ in range(2):
        fragment = sender.fragment(339)
        assert fragment is not None
        assert fragment.is_last
        assert len(receiver.receive(fragment.frame)) == 127
        assert fragment.octets == 127 + 4 + 4
        sender.acknowledged()
    assert not sender.has_work
    assert sender.fragment(339) is None
    grant = receiver.fragment(339)
    assert grant is not None
    assert (grant.frame.credits, grant.octets) == (2, 4 + 4 + 1)
    sender.receive(grant.frame)
    assert sender.has_work


def test_a_short_blackout_is_bridged_and_a_long_one_ends_the_connection() -> None:
    short = ScriptEvent(kind="blackout", at_s=5.2, duration_s=10)
    trips, seen = echoes(BluetoothLink(CLEAN, seed=1, script=[short]), seconds=40, every_s=1)
    assert len(trips) == 40
    assert 8 < max(trips) < 10
    assert {each.state for each in seen.readings[6:15]} == {"blackout"}
    long = ScriptEvent(kind="blackout", at_s=5.2, duration_s=30)
    trips, seen = echoes(BluetoothLink(CLEAN, seed=1, script=[long]), seconds=60, every_s=1)
    assert [event.cause for event in seen.of("mobile", ResetStarted)] == ["supervision"]
    (back,) = seen.of("mobile", ResetDone)
    assert back.time_ns == (5_200 + 30_000 + 3_000) * NS_PER_MS
    assert {event.cause for event in seen.of("mobile", PacketDropped)} == {"closed"}
    numbers = [number_of(data) for _, data in seen.packets["mobile"]]
    assert numbers == [*range(6), *range(39, 60)]


def test_the_modem_says_how_many_packets_failed_and_how_strong_they_were() -> None:
    fade = ScriptEvent(kind="fade", at_s=5, duration_s=5, direction="down", rate=0.3)
    link, rates = BluetoothLink(CLEAN, seed=1, script=[fade]), []
    for second in range(15):
        assert link.reading(second * NS_PER_S).cell_busy_percent is None
        for number in range(40):
            link.send("fixed", packet(40 * second + number, 500), now_ns=second * NS_PER_S)
        link.advance((second + 1) * NS_PER_S - 1)
        rates.append(link.reading((second + 1) * NS_PER_S - 1).bler_percent)
    assert rates[:5] == [0.0] * 5
    assert mean(rate for rate in rates[5:10] if rate is not None) == pytest.approx(30, abs=6)
    assert rates[11:] == [0.0] * 4
    weak = replace(CLEAN, signal=BluetoothSignalConfig(mean_dbm=-80, deviation_db=1))
    far = BluetoothLink(weak, seed=1).reading(0)
    assert far.rssi_dbm == pytest.approx(-80, abs=5)
    assert far.link_quality == link_quality(1e-3) == 215
    assert BluetoothLink(CLEAN, seed=1).reading(0).bler_percent is None  # no packet, no rate


def test_codes_correct_what_they_can() -> None:
    plain, coded = PACKET_TYPES[5], PACKET_TYPES[4]
    assert payload_error(0, plain, 339) == 0
    assert payload_error(1e-4, plain, 339) == pytest.approx(0.24, abs=0.01)
    assert payload_error(1e-4, coded, 224) < 1e-3
    assert header_error(1e-3) == pytest.approx(18 * 3e-6, rel=0.01)
    assert [link_quality(ber) for ber in (0, 1e-3, 0.1, 0.5)] == [255, 215, 91, 0]


def test_turns_begin_in_even_slots() -> None:
    link = BluetoothLink(CLEAN, seed=1)
    for number in range(50):
        link.send(SIDES[number % 2], packet(number, 200), now_ns=number * 7 * NS_PER_MS)
    link.advance(NS_PER_S)
    sent = [event for event in link.events("fixed") if isinstance(event, PieceSent)]
    assert len(sent) > 20
    assert {(event.time_ns - 1000 * event.air_us) % (2 * SLOT_NS) for event in sent} == {0}
    assert link.is_drained
    assert link.next_ns is None


@pytest.mark.parametrize(
    ("kind", "wrong", "what"),
    [
        (RfcommConfig, {"credits": 2, "grant_at": 3}, "RFCOMM"),
        (BitErrorConfig, {"good_ber": 0.1}, "Bluetooth errors"),
        (BluetoothConfig, {"poll_slots": 1}, "poll_slots"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: type, wrong: dict[str, float], what: str) -> None:
    with pytest.raises(LocalProtocolError, match=what):
        kind(**wrong)
