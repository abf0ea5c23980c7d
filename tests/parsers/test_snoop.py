"""The capture file of Solaris' snoop (RFC 1761)."""

from __future__ import annotations

import io
import random
import struct

import pytest

from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers import snoop
from tests.parsers.frames import EPOCH_S, frame, padded, pcap_file, read


def snoop_file(packets: list[tuple[bytes, int, int, int]], *, link: int = 4, version: int = 2) -> bytes:
    """Return a file of (captured bytes, original length, seconds, microseconds)."""
    out = [b"snoop\0\0\0" + struct.pack(">II", version, link)]
    for data, original, seconds, micros in packets:
        body = padded(data)
        out += [struct.pack(">IIIIII", original, len(data), 24 + len(body), 3, seconds, micros), body]
    return b"".join(out)


def test_it_holds_what_the_same_pcap_holds() -> None:
    rng = random.Random(4)
    frames = [frame(seq=n, payload=rng.randbytes(rng.randrange(1400))) for n in range(500)]
    packets = [(f[:96], len(f), EPOCH_S + n, 7 * n) for n, f in enumerate(frames)]
    found = snoop.parse(io.BytesIO(snoop_file(packets)), path="x")
    same = read(pcap_file(frames))
    for name in ("seq", "payload_bytes", "flags", "window"):
        assert found.segments[name].tolist() == same.segments[name].tolist()
    assert found.segments["time_ns"].tolist() == [(EPOCH_S + n) * 10**9 + 7000 * n for n in range(500)]
    facts = found.files[0]
    assert (facts.packets, facts.damaged, facts.link_types) == (500, None, {1: 500})
    assert facts.interfaces[0].dropped_packets == 3


def test_damage_and_stamps_that_cannot_be_are_told() -> None:
    one = (frame(payload=b"hello"), 59, EPOCH_S, 5)
    complete = snoop_file([one, one, (one[0], 59, EPOCH_S, 10**6)])
    found = snoop.parse(io.BytesIO(complete), path="x")
    assert found.segments["time_ns"][2] == NOT_A_TIME
    assert found.files[0].without_time == 1
    cut = snoop.parse(io.BytesIO(complete[:-3]), path="x").files[0]
    assert (cut.packets, "is truncated" in (cut.damaged or "")) == (2, True)
    lie = complete + struct.pack(">IIIIII", 59, 59, 7, 0, 0, 0)
    assert "has an invalid length of 7 bytes" in (snoop.parse(io.BytesIO(lie), path="x").files[0].damaged or "")


@pytest.mark.parametrize("data", [b"", b"snoop\0\0\0", snoop_file([], version=9)])
def test_what_has_no_header_is_refused_with_its_place(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        snoop.parse(io.BytesIO(data), path="x")
    assert caught.value.offset is not None


def test_an_unknown_link_type_is_counted() -> None:
    facts = snoop.parse(io.BytesIO(snoop_file([(b"x" * 60, 60, EPOCH_S, 0)], link=5)), path="x").files[0]
    assert sum(facts.not_decoded.values()) == 1
    assert facts.interfaces[0].description == "snoop data link type 5"


def test_sniff_knows_the_magic_number() -> None:
    assert snoop.sniff(snoop_file([])) == "yes"
    assert snoop.sniff(b"snoop") == snoop.sniff(b"") == "no"
