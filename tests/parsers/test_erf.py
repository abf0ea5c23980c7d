"""The capture file of Endace DAG cards, which has no magic number."""

from __future__ import annotations

import io
import random
import struct

import pytest

from multitracer.errors import FormatError
from parsers import erf
from tests.parsers.frames import EPOCH_S, frame, ipv4, pcap_file, read, tcp


def record(data: bytes, original: int, time_ns: int, *, kind: int = 2, headers: int = 0) -> bytes:
    """Return a record; Ethernet's begin with two more bytes."""
    stamp = (time_ns // 10**9) << 32 | ((time_ns % 10**9 << 32) // 10**9 + 1)
    more = b"".join(bytes([0x80 if n < headers - 1 else 4]) + bytes(7) for n in range(headers))
    body = more + (b"\0\0" if kind in (2, 11, 16, 20) else b"") + data
    kind |= 0x80 if headers else 0
    return struct.pack("<QBB", stamp, kind, 4) + struct.pack(">HHH", 16 + len(body), 0, original) + body


def transfer(seed: int, count: int) -> tuple[list[bytes], list[int]]:
    """Return frames and times."""
    rng = random.Random(seed)
    frames = [frame(seq=n, payload=rng.randbytes(rng.choice((0, 10, 1400)))) for n in range(count)]
    return frames, [EPOCH_S * 10**9 + 123_456_789 * n for n in range(count)]


@pytest.mark.parametrize("headers", [0, 1, 3])
def test_it_holds_what_the_same_pcap_holds(headers: int) -> None:
    frames, times = transfer(headers, 300)
    records = [record(f[:96], len(f), t, headers=headers) for f, t in zip(frames, times, strict=True)]
    about = struct.pack("<QBB", 0, 27, 4) + struct.pack(">HHH", 128, 0, 0) + bytes(112)
    found = erf.parse(io.BytesIO(about + b"".join(records)), path="x")
    same = read(pcap_file(frames))
    for name in ("seq", "payload_bytes", "flags", "window"):
        assert found.segments[name].tolist() == same.segments[name].tolist()
    assert found.segments["time_ns"].tolist() == times
    assert (found.files[0].packets, found.files[0].damaged) == (300, None)


def test_raw_ip_and_ppp_are_taken_apart() -> None:
    packet = ipv4(tcp(payload=b"abc"))
    mixed = [record(packet, len(packet), EPOCH_S * 10**9, kind=22)] * 3
    mixed += [record(b"\xff\x03\x00\x21" + packet, len(packet) + 4, EPOCH_S * 10**9, kind=1)] * 3
    mixed += [record(b"\x0f\x00\x08\x00" + packet, len(packet) + 4, EPOCH_S * 10**9, kind=10)] * 3
    mixed += [record(bytes(48), 48, EPOCH_S * 10**9, kind=3)]
    found = erf.parse(io.BytesIO(b"".join(mixed)), path="x")
    assert found.segments["payload_bytes"].tolist() == [3] * 9
    assert sum(found.files[0].not_decoded.values()) == 1


def test_five_records_must_chain() -> None:
    frames, times = transfer(1, 9)
    records = [record(f[:80], len(f), t) for f, t in zip(frames, times, strict=True)]
    assert erf.sniff(b"".join(records)) == "yes"
    assert erf.sniff(b"".join(records[:4])) == "no"
    large = b"".join(record(bytes(1500), 1500, t) for t in times)
    assert erf.sniff(large[:4096]) == "maybe"
    with pytest.raises(FormatError):
        erf.parse(io.BytesIO(b"".join(records[:4])), path="x")
    broken = b"".join(records[:3]) + bytes(200) + b"".join(records[3:])
    assert erf.sniff(broken) == "no"


def test_noise_is_no_capture() -> None:
    rng = random.Random(2)
    for _ in range(300):
        noise = rng.choice((rng.randbytes(4096), bytes(4096), rng.randbytes(64) * 64))
        assert erf.sniff(noise) == "no"
