"""GSMTAP packets: our own bytes, and what a dissector of others reads in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.protocols.gsmtap import Gsmtap, GsmtapError, GsmtapType, decode, encode, log_line, log_text

SABM = bytes.fromhex("f91f0000000000000000000000000000000000000000000000000063b2f3")


def test_a_frame_becomes_an_ip_packet_with_the_direction_in_it() -> None:
    packet = encode(GsmtapType.GSM_RLP, SABM, uplink=True, frame_number=7)
    assert packet[:20].hex() == "4500004a000040004011b69fc0000201c0000202"
    assert packet[20:28].hex() == "1279" + "1279" + "0036" + "0000"
    assert packet[28:44].hex() == "02041400" + "4000" + "0000" + "00000007" + "00000000"
    assert decode(packet[28:]) == Gsmtap(0x14, uplink=True, frame_number=7, payload=SABM)


def test_the_other_direction_swaps_the_addresses() -> None:
    up, down = (encode(GsmtapType.GSM_RLP, SABM, uplink=way, frame_number=7) for way in (True, False))
    assert up[12:16] == down[16:20]
    assert up[16:20] == down[12:16]
    assert not decode(down[28:]).uplink


@given(st.sampled_from(GsmtapType), st.binary(max_size=100), st.booleans(), st.integers(0, 2**32 - 1))
def test_what_is_encoded_decodes(kind: GsmtapType, payload: bytes, uplink: bool, number: int) -> None:
    packet = encode(kind, payload, uplink=uplink, frame_number=number)
    assert int.from_bytes(packet[2:4]) == len(packet)
    assert sum(int.from_bytes(packet[i : i + 2]) for i in range(0, 20, 2)) % 0xFFFF == 0
    assert decode(packet[28:]) == Gsmtap(kind, uplink, number, payload)


def test_log_lines_survive_the_round_trip_as_ascii() -> None:
    payload = log_line("reset_started cause=n2", time_ns=1_600_000_000_123_456_789, process="p", subsystem="s")
    assert payload[:8].hex() == "5f5e1000" + "0001e240"
    assert log_text(payload) == "reset_started cause=n2"
    assert log_text(log_line("naïve", time_ns=0, process="p", subsystem="s")) == "na\\xefve"


@pytest.mark.parametrize("datagram", [b"", bytes(16), b"\x02\x03" + bytes(14), b"\x02\x04" + bytes(13)])
def test_what_is_no_gsmtap_is_refused(datagram: bytes) -> None:
    with pytest.raises(GsmtapError):
        decode(datagram)


def test_a_log_line_that_is_cut_is_refused() -> None:
    with pytest.raises(GsmtapError, match="truncated"):
        log_text(bytes(80))


@given(st.binary(max_size=60))
def test_random_octets_are_a_packet_or_an_error(datagram: bytes) -> None:
    try:
        tap = decode(datagram)
    except GsmtapError:
        return
    assert len(tap.payload) == len(datagram) - datagram[1] * 4 or not tap.payload
