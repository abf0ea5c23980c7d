"""Captures rewritten as a host with a coarse clock of timestamps would have made them look."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from tests.causes.ticks import coarsen, shift, stamps

if TYPE_CHECKING:
    from pathlib import Path

A, B = (socket.inet_pton(socket.AF_INET6, host) for host in ("fd00:3::2", "fd00:1::2"))
_WRAP = 2**32


def _sum(source: bytes, target: bytes, tcp: bytes) -> int:
    summed = source + target + struct.pack(">II", len(tcp), 6) + tcp
    total = sum(struct.unpack(f">{len(summed) // 2}H", summed))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _packet(source: bytes, target: bytes, ports: tuple[int, int], value: int, echo: int) -> bytes:
    options = struct.pack(">BBBBII", 1, 1, 8, 10, value % _WRAP, echo % _WRAP)
    tcp = struct.pack(">HHIIBBHHH", *ports, 7, 9, 8 << 4, 16, 1000, 0, 0) + options
    tcp = tcp[:16] + struct.pack(">H", _sum(source, target, tcp)) + tcp[18:]
    return struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + source + target + tcp


def _capture(file: Path, packets: list[bytes]) -> Path:
    rows = [struct.pack("<IIII", 1, 0, len(each), len(each)) + each for each in packets]
    file.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 101) + b"".join(rows))
    return file


def _values(file: Path) -> list[tuple[int, int]]:
    data = file.read_bytes()
    return [struct.unpack_from(">II", data, stamp.at) for stamp in stamps(data)]


@pytest.mark.parametrize("first", [1_000_003, _WRAP - 9])
def test_each_host_has_its_own_tick_and_its_peer_echoes_it(tmp_path: Path, first: int) -> None:
    packets = [
        packet
        for step in range(0, 40, 3)
        for packet in (
            _packet(A, B, (40_000, 5001), first + step, 77 + step),
            _packet(B, A, (5001, 40_000), 78 + step, first + step),
        )
    ]
    files = {host: _capture(tmp_path / host, packets) for host in ("mobile", "fixed")}
    coarsen(files, {A: "mobile", B: "fixed"}, {"mobile": 10})
    assert files["mobile"].read_bytes() == files["fixed"].read_bytes()
    expected = [(first + step) // 10 % _WRAP for step in range(0, 40, 3)]
    told = _values(files["fixed"])
    assert [value for value, _ in told[::2]] == [echo for _, echo in told[1::2]] == expected
    assert [echo for _, echo in told[::2]] == [77 + step for step in range(0, 40, 3)]


def test_a_host_that_is_not_there_has_no_tick(tmp_path: Path) -> None:
    file = _capture(tmp_path / "mobile", [_packet(A, B, (40_000, 5001), 1_234_567, 0)])
    coarsen({"mobile": file}, {A: "mobile"}, {"mobile": 10})
    assert _values(file) == [(123_456, 0)]


def test_checksums_follow(tmp_path: Path) -> None:
    file = _capture(tmp_path / "mobile", [_packet(A, B, (40_000, 5001), 1_234_567, 89_012)])
    coarsen({"mobile": file}, {A: "mobile", B: "fixed"}, {"mobile": 4, "fixed": 10})
    tcp = file.read_bytes()[24 + 16 + 40 :]
    assert _values(file) == [(308_641, 8901)]
    assert _sum(A, B, tcp) == 0


def test_a_clock_that_is_off_and_drifts_moves_each_packet_and_nothing_else(tmp_path: Path) -> None:
    packet = _packet(A, B, (40000, 5001), 100, 0)
    capture = tmp_path / "tcp-0.pcap"
    times_ns = (10**18, 10**18 + 4 * 10**9)
    rows = [struct.pack("<IIII", *divmod(t, 10**9), len(packet), len(packet)) + packet for t in times_ns]
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101)
    capture.write_bytes(head + b"".join(rows))
    shift(capture, offset_ns=-1_500_000_000, ppm=50)
    data = capture.read_bytes()
    seen = [struct.unpack_from("<II", data, 24 + place * (16 + len(packet))) for place in range(2)]
    assert [s * 10**9 + ns for s, ns in seen] == [10**18 - 1_500_000_000, 10**18 + 2_500_200_000]
    assert data.count(packet) == 2
