"""RLP frames against the published vectors and those made with the verified formula, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.xid import Parameters, decode_parameters
from multitracer.protocols.rlp import (
    RESIDUE,
    FcsError,
    FrameError,
    FrameKind,
    RlpFrame,
    RlpFrameReader,
    Supervisory,
    Unnumbered,
    decode,
    fcs24,
)
from tests.lab.stack.rlp_talk import byte_by_byte, complete, frame, text

if TYPE_CHECKING:
    from tests.lab.stack.rlp_talk import Feed

U, S, IS = FrameKind
COUNTING = "000102030405060708090a0b0c0d0e0f1011121314151617"


def _unnumbered(function: Unnumbered, *, command: bool, bit: bool, info: str = "") -> RlpFrame:
    return RlpFrame(U, function, command, bit, info=bytes.fromhex(info).ljust(25, b"\0"))


def _supervisory(function: Supervisory, *, command: bool, bit: bool, n_r: int) -> RlpFrame:
    return RlpFrame(S, function, command, bit, n_r=n_r, info=bytes(25))


def _information(function: Supervisory, n_s: int, n_r: int, info: str, octets: int = 25) -> RlpFrame:
    return RlpFrame(IS, function, True, False, n_s, n_r, bytes.fromhex(info).ljust(octets, b"\0"))


VECTORS = {
    "XID of version 0": (
        "f95f1100213d313d414e6108510600000000000000000000000000c13c6b",
        _unnumbered(Unnumbered.XID, command=True, bit=True, info="1100213d313d414e61085106"),
    ),
    "XID of version 1 with compression": (
        "f95f1101213d313d41305106610774000008060000000000000000ba14a0",
        _unnumbered(Unnumbered.XID, command=True, bit=True, info="1101213d313d4130510661077400000806"),
    ),
    "SABM": (
        "f91f0000000000000000000000000000000000000000000000000063b2f3",
        _unnumbered(Unnumbered.SABM, command=True, bit=True),
    ),
    "UA": (
        "f8330000000000000000000000000000000000000000000000000029d801",
        _unnumbered(Unnumbered.UA, command=False, bit=True),
    ),
    "information, status only": (
        "01001f000000000000000000000000000000000000000000000000f174ad",
        _information(Supervisory.RR, 0, 0, "1f"),
    ),
    "information, one character, fill ff": (
        "010401661fffffffffffffffffffffffffffffffffffffffffffff388cd3",
        _information(Supervisory.RR, 0, 1, "01661f" + "ff" * 22),
    ),
    "DISC": (
        "f923000000000000000000000000000000000000000000000000007986f2",
        _unnumbered(Unnumbered.DISC, command=True, bit=True),
    ),
    "NULL": (
        "f83d00000000000000000000000000000000000000000000000000269b7b",
        _unnumbered(Unnumbered.NULL, command=False, bit=False),
    ),
    "DM": (
        "f80f0000000000000000000000000000000000000000000000000033ec00",
        _unnumbered(Unnumbered.DM, command=False, bit=True),
    ),
    "TEST": (
        "f97300000000000000000000000000000000000000000000000000c83038",
        _unnumbered(Unnumbered.TEST, command=True, bit=True),
    ),
    "REMAP": (
        "f945000000000000000000000000000000000000000000000000004074f0",
        _unnumbered(Unnumbered.REMAP, command=True, bit=False),
    ),
    "RR": (
        "f1150000000000000000000000000000000000000000000000000036dd41",
        _supervisory(Supervisory.RR, command=True, bit=False, n_r=5),
    ),
    "RNR": (
        "f3150000000000000000000000000000000000000000000000000029d809",
        _supervisory(Supervisory.RNR, command=True, bit=False, n_r=5),
    ),
    "REJ": (
        "f5150000000000000000000000000000000000000000000000000008d7d1",
        _supervisory(Supervisory.REJ, command=True, bit=False, n_r=5),
    ),
    "SREJ": (
        "f7150000000000000000000000000000000000000000000000000017d299",
        _supervisory(Supervisory.SREJ, command=True, bit=False, n_r=5),
    ),
    "SREJ with poll": (
        "f7170000000000000000000000000000000000000000000000000004ce6d",
        _supervisory(Supervisory.SREJ, command=True, bit=True, n_r=5),
    ),
    "RR as final response": (
        "f01f00000000000000000000000000000000000000000000000000f62a01",
        _supervisory(Supervisory.RR, command=False, bit=True, n_r=7),
    ),
    "information full of characters": (
        "e9a11e000102030405060708090a0b0c0d0e0f1011121314151617fa7d37",
        _information(Supervisory.RR, 61, 40, "1e" + COUNTING),
    ),
    "information with SREJ": (
        "0f090568656c6c6f1f000000000000000000000000000000000000f3d7fd",
        _information(Supervisory.SREJ, 33, 2, "0568656c6c6f1f"),
    ),
    "576 bits": ("0100" + "00" * 67 + "9cf9f0", _information(Supervisory.RR, 0, 0, "", 67)),
}
vectors = pytest.mark.parametrize(("octets", "meaning"), VECTORS.values(), ids=VECTORS)


@vectors
def test_vector_decodes(octets: str, meaning: RlpFrame) -> None:
    assert decode(bytes.fromhex(octets)) == meaning


@vectors
def test_vector_encodes(octets: str, meaning: RlpFrame) -> None:
    assert meaning.encode(octets=len(octets) // 2).hex() == octets


@vectors
def test_vector_leaves_the_residue_of_an_intact_frame(octets: str, meaning: RlpFrame) -> None:
    assert fcs24(bytes.fromhex(octets)) == RESIDUE


@pytest.mark.parametrize("feed", [complete, byte_by_byte])
def test_frames_are_cut_from_a_stream(feed: Feed) -> None:
    octets = bytes.fromhex(VECTORS["SABM"][0])
    reader = RlpFrameReader()
    assert [feed(octets, reader) for _ in range(3)] == [[octets]] * 3


def test_octets_after_the_last_whole_frame_wait_for_the_rest() -> None:
    sabm, ua = (bytes.fromhex(VECTORS[name][0]) for name in ("SABM", "UA"))
    reader = RlpFrameReader()
    assert reader.feed(sabm + ua[:7]) == [sabm]
    assert reader.feed(ua[7:] + sabm[:1]) == [ua]


def test_a_flipped_bit_anywhere_fails_the_fcs() -> None:
    intact = bytes.fromhex(VECTORS["information full of characters"][0])
    for bit in range(240):
        damaged = bytearray(intact)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FcsError):
            decode(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 29, 31, 71, 73])
def test_a_frame_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(FrameError, match="30 or 72"):
        decode(bytes(length))


def test_unassigned_code_points_are_refused() -> None:
    with pytest.raises(FrameError, match="unassigned type M = 0x01"):
        decode(_sealed("f907"))
    with pytest.raises(FrameError, match=r"N\(R\) is 62"):
        decode(_sealed("f1f9"))


def _sealed(header: str) -> bytes:
    body = bytes.fromhex(header).ljust(27, b"\0")
    return body + fcs24(body).to_bytes(3, "little")


def test_numbers_beyond_the_modulus_are_refused_when_encoding() -> None:
    with pytest.raises(LocalProtocolError, match="0 to 61"):
        frame("RR 62").encode()
    with pytest.raises(LocalProtocolError, match="0 to 61"):
        frame("IS 62 RR 0").encode()
    with pytest.raises(LocalProtocolError, match="do not fit"):
        RlpFrame(IS, Supervisory.RR, True, False, 0, 0, bytes(26)).encode()


numbers = st.integers(0, 61)


@given(
    n_s=numbers,
    n_r=numbers,
    function=st.sampled_from(Supervisory),
    command=st.booleans(),
    bit=st.booleans(),
    info=st.binary(min_size=25, max_size=25) | st.binary(min_size=67, max_size=67),
)
def test_information_frames_survive_the_round_trip(
    n_s: int, n_r: int, function: Supervisory, command: bool, bit: bool, info: bytes
) -> None:
    meaning = RlpFrame(IS, function, command, bit, n_s, n_r, info)
    octets = meaning.encode(octets=len(info) + 5)
    assert decode(octets) == meaning
    assert decode(octets, check_fcs=False) == meaning


@given(st.binary(max_size=80))
def test_random_octets_are_a_frame_or_a_frame_error(octets: bytes) -> None:
    try:
        decode(octets)
    except FrameError:
        return
    assert fcs24(octets) == RESIDUE


def test_xid_of_version_0_reads_and_writes() -> None:
    wished = Parameters(t1_ms=780, t2_ms=80, n2=6)
    info = decode(bytes.fromhex(VECTORS["XID of version 0"][0])).info
    assert decode_parameters(info) == wished
    assert wished.encode() == bytes.fromhex("1100213d313d414e51066108")


def test_xid_of_version_1_with_compression_reads() -> None:
    info = decode(bytes.fromhex(VECTORS["XID of version 1 with compression"][0])).info
    assert decode_parameters(info) == Parameters(
        version=1, t1_ms=480, t2_ms=70, n2=6, compression=bytes.fromhex("00000806")
    )


def test_xid_keeps_what_is_not_said() -> None:
    wished = decode_parameters(bytes.fromhex("5114"), default=Parameters(t1_ms=600))
    assert wished == Parameters(t1_ms=600, n2=20)


def test_xid_skips_types_that_it_does_not_know() -> None:
    assert decode_parameters(bytes.fromhex("a2ffff" + "5107")).n2 == 7


@pytest.mark.parametrize(
    ("info", "complaint"),
    [("21", "truncated"), ("2100", "window"), ("213e", "window"), ("4100", "T1"), ("5100", "N2"), ("22013d", "octets")],
)
def test_xid_that_makes_no_sense_is_refused(info: str, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        decode_parameters(bytes.fromhex(info))


def test_both_ends_agree_on_the_same_parameters() -> None:
    one = Parameters(version=1, window_iwf_to_ms=30, t1_ms=480, n2=20)
    other = Parameters(window_ms_to_iwf=40, t1_ms=780, n2=6, t2_ms=0)
    agreed = Parameters(window_iwf_to_ms=30, window_ms_to_iwf=40, t1_ms=780, n2=20, t2_ms=80)
    assert one.agreed(other) == other.agreed(one) == agreed


@given(st.binary(max_size=25))
def test_random_xid_is_parameters_or_a_frame_error(info: bytes) -> None:
    try:
        wished = decode_parameters(info)
    except FrameError:
        return
    assert decode_parameters(wished.encode()) == wished or wished.compression


@pytest.mark.parametrize("line", ["SABM P", "UA F", "RR 5", "RNR 7 F", "SREJ 3", "IS 2 RR 5 abc", "IS 61 SREJ 0 x"])
def test_the_notation_of_these_tests_says_what_it_means(line: str) -> None:
    assert text(frame(line).encode()) == line
