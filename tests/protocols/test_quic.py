"""The wire format of QUIC: vectors of RFC 9001 and RFC 9369, frames, and input that is no QUIC."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.protocols.quic import (
    VERSION_1,
    VERSION_2,
    CryptoStream,
    Frames,
    PacketKeys,
    Space,
    hello,
    initial_keys,
    long_headers,
    read_frames,
    unwrapped,
    varint,
)

_DESTINATION = bytes.fromhex("8394c8f03e515708")  # RFC 9001, appendix A; RFC 9369, appendix A


def test_initial_keys_are_those_of_the_rfc() -> None:
    client, server = initial_keys(_DESTINATION, VERSION_1)
    assert client.key.hex() == "1f369613dd76d5467730efcbe3b1a22d"
    assert client.iv.hex() == "fa044b2f42a3fd3b46fb255c"
    assert client.hp.hex() == "9f50449e04a0e810283a1e9933adedd2"
    assert server.key.hex() == "cf3a5331653c364c88f0f379b6067e37"
    client, server = initial_keys(_DESTINATION, VERSION_2)
    assert client.key.hex() == "8b1a0bc121284290a29e0971b5cd045d"
    assert server.hp.hex() == "edf6d05c83121201b436e16877593c3a"


def test_keys_have_no_text() -> None:
    client, _ = initial_keys(_DESTINATION, VERSION_1)
    assert client.key.hex() not in repr(client)
    assert repr(client.secret) not in repr(client)


def test_a_whole_packet_and_its_cut_copy_have_the_same_payload() -> None:
    pytest.importorskip("cryptography")
    import numpy as np
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    client, _ = initial_keys(_DESTINATION, VERSION_1)
    header, payload, number = b"\xc3head", bytes(range(64)), 70_000
    nonce = (int.from_bytes(client.iv, "big") ^ number).to_bytes(12, "big")
    sealed = AESGCM(client.key).encrypt(nonce, payload, header)
    assert client.opened(number, header, sealed) == payload
    assert client.opened(number + 1, header, sealed) is None
    cut = np.frombuffer(sealed[:40], np.uint8)
    assert (cut ^ client.keystream(np.array([number]), 40)[0]).tobytes() == payload[:40]


def test_chacha_is_that_of_the_rfc() -> None:
    pytest.importorskip("cryptography")
    import numpy as np

    from multitracer.protocols.quic import SUITES

    secret = bytes.fromhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")  # RFC 9001, A.5
    keys = PacketKeys.of(secret, SUITES[0x1303], VERSION_1)
    sample = np.frombuffer(bytes.fromhex("5e5cd55c41f69080575d7999c25a5bfb"), np.uint8)[None]
    assert keys.masks(sample)[0].tobytes().hex() == "aefefe7d03"
    sealed = bytes.fromhex("655e5cd55c41f69080575d7999c25a5bfb")
    assert keys.opened(654360564, bytes.fromhex("4200bff4"), sealed) == b"\x01"
    assert (np.frombuffer(sealed[:1], np.uint8) ^ keys.keystream(np.array([654360564]), 1)[0]).tobytes() == b"\x01"


@pytest.mark.parametrize(("text", "number"), [("c2197c5eff14e88c", 151288809941952652), ("9d7f3e7d", 494878333),
                                             ("7bbd", 15293), ("25", 37)])  # fmt: skip
def test_numbers_of_variable_length(text: str, number: int) -> None:
    data = bytes.fromhex(text)
    assert varint(data, 0) == (number, len(data))


def test_a_packet_number_follows_from_the_one_before() -> None:
    assert unwrapped(0x9B32, 2, 0xA82F30EA) == 0xA82F9B32  # RFC 9000, A.3


def test_frames_of_a_packet() -> None:
    frames = Frames()
    data = bytes.fromhex("0a04410005") + b"hello" + bytes.fromhex("02 0a 01 01 02 00 03") + bytes.fromhex("10 50 00")
    data = bytes.fromhex("0e 04 4100 05") + b"hello" + bytes.fromhex("02 0a 01 01 02 00 03") + bytes.fromhex("10 5000")
    read = read_frames(7, data, len(data), frames)
    assert read.is_valid
    assert read.is_complete
    assert read.is_eliciting
    assert frames.streams == [(7, 4, 0x100, 5, False)]
    assert frames.acks == [(7, 10, 1)]
    assert frames.ranges == [(7, 8, 10), (7, 3, 6)]
    assert frames.numbers == [(7, 0x10, 0x1000, 0x1000)]


def test_a_cut_stream_frame_has_its_whole_length() -> None:
    frames = Frames()
    read = read_frames(0, bytes.fromhex("0c 00 4100") + b"ab", 1000, frames)  # without a length: to the packet's end
    assert (read.is_valid, read.is_complete) == (True, False)
    assert frames.streams == [(0, 0, 0x100, 996, False)]


@given(st.binary(max_size=200), st.integers(0, 1500))
def test_no_bytes_make_reading_fail(data: bytes, more: int) -> None:
    frames = Frames()
    read = read_frames(3, data, len(data) + more, frames)
    if not read.is_valid:
        assert frames == Frames()
    assert hello(data).kind in (0, 1, 2)
    assert all(
        each.end <= len(data) + more or each.space >= Space.RETRY for each in long_headers(data, len(data) + more)
    )


def test_pieces_of_a_handshake_in_any_order() -> None:
    stream = CryptoStream()
    stream.add(6, b"world")
    assert stream.begin() == b""
    stream.add(0, b"hello ")
    assert stream.begin() == b"hello world"
