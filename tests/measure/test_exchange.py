"""The messages of a measurement, whole, in pieces, and from someone who means harm."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import RemoteProtocolError
from multitracer.measure.exchange import (
    HEADER_BYTES,
    LETTERS,
    MAX_MESSAGE_BYTES,
    REPLY,
    REQUEST,
    MessageReader,
    Receipt,
    Words,
    decode,
    decode_receipt,
    encode,
    encode_receipt,
    filled,
    is_complete,
    recorded_values,
)

WORDS = st.builds(
    Words,
    letters=st.sampled_from(LETTERS),
    run=st.integers(0, 2**64 - 1),
    number=st.integers(0, 2**32 - 1),
    reply_bytes=st.integers(HEADER_BYTES, MAX_MESSAGE_BYTES),
    timeout_ms=st.integers(0, 2**32 - 1),
    body=st.binary(max_size=100),
)


@given(st.lists(WORDS, max_size=5), st.data())
def test_messages_are_found_in_whatever_pieces_they_come(messages: list[Words], data: st.DataObject) -> None:
    octets = b"".join(map(encode, messages))
    reader, found, at = MessageReader(), [], 0
    while at < len(octets):
        step = data.draw(st.integers(1, 60))
        found += reader.feed(octets[at : at + step])
        at += step
    assert found == messages


@given(st.binary(max_size=80), st.sampled_from([b"", *LETTERS]))
def test_any_octets_are_a_message_or_refused(octets: bytes, letters: bytes) -> None:
    octets = letters + octets
    try:
        words = decode(octets)
    except RemoteProtocolError:
        return
    assert encode(words) == octets


@pytest.mark.parametrize("size", [HEADER_BYTES, 64, 8192, MAX_MESSAGE_BYTES])
def test_filled_message_has_its_size_and_can_be_checked(size: int) -> None:
    octets = filled(Words(REPLY, 1, 2, size, 3, b""), size)
    assert len(octets) == size
    assert is_complete(decode(octets))
    if size > HEADER_BYTES:
        assert not is_complete(decode(octets[:-1] + bytes([octets[-1] ^ 1])))
        assert not is_complete(decode(octets)._replace(reply_bytes=size - 1))


def test_lengths_that_would_cost_memory_are_refused_at_the_header() -> None:
    header = bytearray(filled(Words(REQUEST, 1, 2, 64, 3, b""), HEADER_BYTES))
    for at, value in ((2, MAX_MESSAGE_BYTES + 1), (18, MAX_MESSAGE_BYTES + 1), (18, HEADER_BYTES - 1)):
        changed = header.copy()
        changed[at : at + 4] = value.to_bytes(4, "big")
        with pytest.raises(RemoteProtocolError):
            MessageReader().feed(bytes(changed))


@given(st.tuples(*[st.none() | st.integers(0, 2**63 - 1)] * 4).map(lambda values: Receipt(*values)))
def test_receipt_comes_back(receipt: Receipt) -> None:
    assert decode_receipt(encode_receipt(receipt)) == receipt


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b'{"rtt_ns": NaN}', b"[" * 3000, b"{}" + b" " * 5000], ids=repr
)
def test_goodbye_without_values_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        recorded_values(body)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "1" + "0" * 20, "9" * 4000])
def test_number_of_a_goodbye_that_no_reader_keeps_is_refused(number: str) -> None:
    for body in (f'{{"rtt_ns": {number}}}', f'{{"more": [{{"rtt_ns": {number}}}]}}'):
        with pytest.raises(RemoteProtocolError):
            recorded_values(body.encode())


def test_values_of_a_goodbye_come_back() -> None:
    values = {"rtt_ns": 2**63 - 1, "why": None, "offset_ns": -(2**63), "rssi_dbm": -71.5}
    assert recorded_values(json.dumps(values).encode()) == values
