"""The unit of time stamps where a file names a wrong one, in both formats, byte orders and decoders."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from multitracer.recording.read import Need, read
from parsers import force_reading, read_capture
from tests.parsers.frames import EPOCH_S, enhanced, frame, interface, option, section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

US, NS = 0xA1B2C3D4, 0xA1B23C4D
PACKETS = 60
GAP_US = 7_013


def packets(tick_hz: int) -> list[tuple[int, bytes]]:
    """Return times in µs and frames; both hosts stamp them with this rate, or not at all."""
    out = []
    for n in range(PACKETS):
        time_us, side = EPOCH_S * 10**6 + 31 + n * GAP_US, n % 2
        ticks = 1000 + n * GAP_US * tick_hz // 10**6
        stamp = struct.pack(">BBBBII", 1, 1, 8, 10, ticks, 7) if tick_hz else b""
        ports = {"sport": 80, "dport": 1000} if side else {}
        out.append((time_us, frame(seq=n, options=stamp, payload=b"x", **ports)))
    return out


def as_pcap(stamped: Sequence[tuple[int, int, bytes]], magic: int, order: str) -> bytes:
    """Return a pcap with these seconds and fractions."""
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 1)]
    for seconds, fraction, data in stamped:
        out.append(struct.pack(order + "IIII", seconds, fraction, len(data), len(data)) + data)
    return b"".join(out)


def as_pcapng(stamped: Sequence[tuple[int, bytes]], exponent: int | None, order: str) -> bytes:
    """Return a pcapng with these ticks, of 10^-exponent s; None states nothing."""
    stated = b"" if exponent is None else option(9, bytes([exponent]), order) + option(0, b"", order)
    blocks = [enhanced(data, ticks, order=order) for ticks, data in stamped]
    return b"".join([section(order), interface(options=stated, order=order), *blocks])


def facts(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Return the time that a capture took, and what is said of its unit, equal in all decoders."""
    path.write_bytes(data)
    found = set()
    for native in ("", "0"):
        monkeypatch.setenv("MULTITRACER_NATIVE", native)
        for need in (Need.NUMBERS, Need.SEGMENTS):
            (file,) = read(str(path), need=need).captures[0].tables.files
            assert file.first_ns is not None
            assert file.last_ns is not None
            found.add((file.last_ns - file.first_ns, file.guessed_unit))
    (same,) = found
    return same


TOOK_NS = (PACKETS - 1) * GAP_US * 1000


@pytest.mark.parametrize("order", "<>")
def test_ns_under_the_magic_of_us(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = [(t // 10**6, t % 10**6 * 1000, data) for t, data in packets(0)]
    took, said = facts(tmp_path / "a.pcap", as_pcap(stamped, US, order), monkeypatch)
    assert took == TOOK_NS
    assert "read in ns, although the file names µs" in said


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("hz", [100, 250, 1000])
def test_us_under_the_magic_of_ns_by_tcp_timestamps(
    tmp_path: Path, order: str, hz: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped = [(t // 10**6, t % 10**6, data) for t, data in packets(hz)]
    took, said = facts(tmp_path / "a.pcap", as_pcap(stamped, NS, order), monkeypatch)
    assert took == TOOK_NS
    assert "read in µs, although the file names ns" in said


def test_us_under_the_magic_of_ns_by_the_spread_in_several_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [(EPOCH_S * 10**6 + n * 97_003, data) for n, (_, data) in enumerate(packets(0))]
    stamped = [(t // 10**6, t % 10**6, data) for t, data in times]
    took, said = facts(tmp_path / "a.pcap", as_pcap(stamped, NS, "<"), monkeypatch)
    assert took == (PACKETS - 1) * 97_003_000
    assert "read in µs" in said


@pytest.mark.parametrize("hz", [0, 1000])
def test_a_right_unit_stays(tmp_path: Path, hz: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst within the first millisecond of a second is no proof."""
    burst = []
    for n in range(PACKETS):
        stamp = struct.pack(">BBBBII", 1, 1, 8, 10, n * 15 * hz // 10**6, 7) if hz else b""
        burst.append((EPOCH_S, n * 15_000, frame(seq=n, options=stamp, payload=b"x")))
    assert facts(tmp_path / "a.pcap", as_pcap(burst, NS, "<"), monkeypatch) == ((PACKETS - 1) * 15_000, "")


def test_a_clock_read_at_whole_seconds_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = [(EPOCH_S + n, 100_000 + n * 7_919 % 90_000, data) for n, (_, data) in enumerate(packets(0))]
    _, said = facts(tmp_path / "a.pcap", as_pcap(stamped, NS, "<"), monkeypatch)
    assert said == ""


@pytest.mark.parametrize("order", "<>")
def test_pcapng_without_its_resolution(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = [(t * 1000, data) for t, data in packets(0)]
    took, said = facts(tmp_path / "a.pcapng", as_pcapng(stamped, None, order), monkeypatch)
    assert took == TOOK_NS
    assert "read in ns, although the file names µs" in said


@pytest.mark.parametrize("order", "<>")
def test_pcapng_of_us_that_states_ns(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    took, said = facts(tmp_path / "a.pcapng", as_pcapng(packets(1000), 9, order), monkeypatch)
    assert took == TOOK_NS
    assert "read in µs, although the file names ns" in said


def test_a_device_that_counts_from_its_start_is_no_wrong_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = EPOCH_S * 10**6 + 31
    up_s = 20 * 86_400
    stamped = [((t - begin) * 1000 + up_s * 10**9, data) for t, data in packets(1000)]
    assert facts(tmp_path / "a.pcapng", as_pcapng(stamped, 9, "<"), monkeypatch) == (TOOK_NS, "")


@pytest.mark.parametrize(("unit", "times"), [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 10**9)])
def test_a_forced_unit_of_pcapng(tmp_path: Path, unit: str, times: int) -> None:
    stamped = [(n, data) for n, (_, data) in enumerate(packets(0))]
    (tmp_path / "a.pcapng").write_bytes(as_pcapng(stamped, None, "<"))
    with force_reading(time_unit=unit):
        (file,) = read_capture([str(tmp_path / "a.pcapng")]).files
    assert (file.last_ns, file.guessed_unit) == ((PACKETS - 1) * times, "")


@pytest.mark.parametrize(("unit", "times"), [("ns", 1), ("us", 1_000), ("ms", 1_000_000)])
def test_a_forced_unit_of_pcap(tmp_path: Path, unit: str, times: int) -> None:
    stamped = [(EPOCH_S, n * 13, data) for n, (_, data) in enumerate(packets(0))]
    (tmp_path / "a.pcap").write_bytes(as_pcap(stamped, US, "<"))
    with force_reading(time_unit=unit):
        (file,) = read_capture([str(tmp_path / "a.pcap")]).files
    assert (file.last_ns or 0) - EPOCH_S * 10**9 == (PACKETS - 1) * 13 * times
