"""PPP framing by the examples of RFC 1662, whole, byte by byte and with trailing octets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.ppp import PppDamage, PppDeframer, PppFramer, PppPacket, fcs16
from multitracer.protocols.l2r import PppProtocol

if TYPE_CHECKING:
    from collections.abc import Callable


def _complete(deframer: PppDeframer, data: bytes) -> list[PppPacket | PppDamage]:
    return deframer.feed(data)


def _byte_by_byte(deframer: PppDeframer, data: bytes) -> list[PppPacket | PppDamage]:
    return [found for i in range(len(data)) for found in deframer.feed(data[i : i + 1])]


def _trailing(deframer: PppDeframer, data: bytes) -> list[PppPacket | PppDamage]:
    found = deframer.feed(data + b"\xff\x03\x00")
    assert deframer.pending_bytes == 3
    return found


feeds = pytest.mark.parametrize("feed", [_complete, _byte_by_byte, _trailing])

FRAMES = {
    "VJ compressed, one way": (
        PppProtocol.VJ_COMPRESSED,
        "0f14b2" + "42" * 10,
        "ff03002d0f14b2" + "42" * 10 + "56287e",
    ),
    "VJ compressed, pure acknowledgment": (PppProtocol.VJ_COMPRESSED, "0c5f8f640a", "ff03002d0c5f8f640a22cc7e"),
}


@feeds
@pytest.mark.parametrize(("protocol", "information", "octets"), FRAMES.values(), ids=FRAMES)
def test_vector_reads(
    feed: Callable[[PppDeframer, bytes], list[PppPacket | PppDamage]], protocol: int, information: str, octets: str
) -> None:
    wire = bytes.fromhex(octets)
    assert feed(PppDeframer(), b"~" + wire) == [PppPacket(protocol, bytes.fromhex(information), len(wire))]


@pytest.mark.parametrize(("protocol", "information", "octets"), FRAMES.values(), ids=FRAMES)
def test_vector_writes(protocol: int, information: str, octets: str) -> None:
    framer = PppFramer()
    assert framer.frame(protocol, bytes.fromhex(information)).hex() == "7e" + octets
    assert framer.frame(protocol, bytes.fromhex(information)).hex() == octets


@pytest.mark.parametrize(
    ("octet", "escaped"), [("7e", "7d5e"), ("7d", "7d5d"), ("03", "7d23"), ("11", "7d31"), ("13", "7d33")]
)
def test_escapes_of_the_rfc(octet: str, escaped: str) -> None:
    wire = PppFramer(accm=0xFFFFFFFF).frame(PppProtocol.IP, bytes.fromhex(octet)).hex()
    assert wire.startswith("7eff7d237d2021" + escaped)


def test_an_octet_that_need_not_be_escaped_may_be() -> None:
    body = bytes.fromhex("ff03002191")
    fcs = (fcs16(body) ^ 0xFFFF).to_bytes(2, "little")
    assert PppDeframer().feed(body[:4] + b"\x7d\xb1" + fcs + b"~") == [PppPacket(PppProtocol.IP, b"\x91", 9)]


def test_fcs_of_the_rfc() -> None:
    assert fcs16(b"123456789") ^ 0xFFFF == 0x906E
    frame = bytes.fromhex(FRAMES["VJ compressed, one way"][2])[:-1]
    assert fcs16(frame) == 0xF0B8


def test_a_frame_of_512_octets_costs_seven_more() -> None:
    framer = PppFramer()
    framer.frame(PppProtocol.IP, b"")
    assert len(framer.frame(PppProtocol.IP, b"A" * 512)) == 519


def test_a_flag_opens_after_idle_time_only() -> None:
    framer = PppFramer()
    assert [framer.frame(PppProtocol.IP, b"A")[:1] for _ in range(2)] == [b"~", b"\xff"]
    framer.idle()
    assert framer.frame(PppProtocol.IP, b"A")[:1] == b"~"


def test_stale_octets_swallow_the_next_frame_without_an_opening_flag() -> None:
    framer, stale = PppFramer(), b"\xff\x03\x00\x21half a pack"
    lost, kept = framer.frame(PppProtocol.IP, b"one"), framer.frame(PppProtocol.IP, b"two")
    assert [type(f) for f in PppDeframer().feed(stale + kept)] == [PppDamage]
    found = PppDeframer().feed(stale + lost + kept)
    assert found == [PppDamage("fcs", 16), PppPacket(PppProtocol.IP, b"one", 10), PppPacket(PppProtocol.IP, b"two", 10)]


def test_lcp_is_always_sent_in_full_with_all_controls_escaped() -> None:
    framer = PppFramer(compress_address=True, compress_protocol=True)
    assert framer.frame(PppProtocol.IP, b"\x01").hex()[:6] == "7e2101"
    assert framer.frame(PppProtocol.LCP, b"\x01").hex()[:14] == "ff7d23c0217d21"


@feeds
def test_compressed_headers_read(feed: Callable[[PppDeframer, bytes], list[PppPacket | PppDamage]]) -> None:
    wire = PppFramer(compress_address=True, compress_protocol=True).frame(PppProtocol.IP, b"data")
    assert feed(PppDeframer(), wire) == [PppPacket(PppProtocol.IP, b"data", len(wire) - 1)]


def test_what_the_line_inserted_is_removed() -> None:
    wire = PppFramer(accm=0x000A0000).frame(PppProtocol.IP, b"a\x11b\x13c")
    assert b"\x11" not in wire
    assert b"\x13" not in wire
    noisy = b"\x11".join(wire[i : i + 1] for i in range(len(wire)))
    (packet,) = PppDeframer(accm=0x000A0000).feed(noisy)
    assert packet[:2] == (PppProtocol.IP, b"a\x11b\x13c")


@pytest.mark.parametrize(
    ("octets", "cause"),
    [("ff03002161ffff7e", "fcs"), ("ff037e", "short"), ("ff030021617d7e", "abort"), ("ff031cc27e", "short")],
)
def test_damage_is_told_with_its_cause(octets: str, cause: Literal["fcs", "short", "abort", "long"]) -> None:
    wire = bytes.fromhex(octets)
    good = bytes.fromhex(FRAMES["VJ compressed, pure acknowledgment"][2])
    damage, packet = PppDeframer().feed(wire + good)
    assert damage == PppDamage(cause, len(wire))
    assert isinstance(packet, PppPacket)
    assert packet.protocol == PppProtocol.VJ_COMPRESSED


def test_flags_between_frames_mean_nothing() -> None:
    assert PppDeframer().feed(b"~~~~") == []


def test_a_frame_without_end_takes_bounded_memory() -> None:
    deframer = PppDeframer(mru_bytes=100)
    for _ in range(1000):
        assert deframer.feed(b"a" * 1000) == []
    assert len(deframer._raw) < 1000
    assert deframer.feed(b"~") == [PppDamage("long", 1_000_001)]
    assert deframer.feed(PppFramer().frame(PppProtocol.IP, b"x" * 101)) == [PppDamage("long", 108)]
    assert deframer.feed(PppFramer().frame(PppProtocol.IP, b"x" * 100))[0][:2] == (PppProtocol.IP, b"x" * 100)


def test_options_without_sense_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="ACCM must be"):
        PppFramer(accm=1 << 32)
    for protocol in (0x20, 0x121, 0x10021):
        with pytest.raises(LocalProtocolError, match="not a valid protocol number"):
            PppFramer().frame(protocol, b"")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([PppProtocol.IP, PppProtocol.VJ_COMPRESSED, PppProtocol.LCP, 0xC023]),
            st.binary(min_size=1, max_size=80),
        ),
        max_size=6,
    ),
    st.sampled_from([0, 0x000A0000, 0xFFFFFFFF]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 50),
)
def test_frames_survive_any_cut_of_the_stream(
    packets: list[tuple[int, bytes]], accm: int, address: bool, protocol: bool, chunk: int
) -> None:
    framer = PppFramer(accm=accm, compress_address=address, compress_protocol=protocol)
    wire = b"".join(framer.frame(*packet) for packet in packets)
    deframer = PppDeframer(accm=accm)
    found = [f for i in range(0, len(wire), chunk) for f in deframer.feed(wire[i : i + chunk])]
    assert [packet[:2] for packet in found] == packets


@given(st.binary(max_size=300), st.sampled_from([0, 0xFFFFFFFF]))
def test_random_octets_raise_nothing_and_the_next_frame_is_found(noise: bytes, accm: int) -> None:
    deframer = PppDeframer(accm=accm, mru_bytes=200)
    deframer.feed(noise)
    found = deframer.feed(PppFramer(accm=accm).frame(PppProtocol.IP, b"after"))
    assert found[-1][:2] == (PppProtocol.IP, b"after")
