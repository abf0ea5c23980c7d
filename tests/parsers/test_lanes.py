"""Walking in lanes gives exactly what walking record by record gives, whatever the bytes look like."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

from multitracer.native import VARIABLE
from parsers import pcap
from parsers._pcap import walk as pcap_walk
from parsers._pcapng import walk as pcapng_walk
from tests.parsers.frames import Packet, block, enhanced, frame, interface, pcap_file, read, same, section

RNG = np.random.default_rng(2)


def mixed(count: int, *, decoys: bool) -> list[bytes]:
    """Return packets of various sizes; decoys hold what looks like records."""
    decoy = struct.pack("<IIII", 1_700_000_000, 5, 60, 60) * 3
    decoy_block = enhanced(b"decoy" * 5)
    kinds = [frame(payload=b"a" * 10), frame(), b"", b"\x06\0\0\0" * 20, frame(payload=b"b" * 300)]
    if decoys:
        kinds += [frame(payload=decoy * 2), frame(payload=decoy_block * 2)]
    return [kinds[i] for i in RNG.integers(0, len(kinds), count).tolist()]


def file_of(kind: str) -> bytes:
    packets = mixed(4000, decoys="decoys" in kind)
    if kind in ("pcap", "pcap with decoys"):
        return pcap_file(packets)
    if kind == "big-endian pcap":
        return pcap_file(packets, order=">")
    if kind == "clock jumps":
        jumps = [Packet(p, (1_700_000_000 + 200_000 * (i // 100)) * 10**6) for i, p in enumerate(packets)]
        return pcap_file(jumps)
    order = ">" if "big" in kind else "<"
    data = section(order) + interface(order=order)
    for i, packet in enumerate(packets):
        data += enhanced(packet, order=order)
        if "other" in kind and i % 700 == 699:
            data += block(0x0BAD, b"\0" * 40, order)
    return data


EASY = ["pcap", "big-endian pcap", "pcapng", "big-endian pcapng"]
HARD = ["clock jumps", "pcap with decoys", "pcapng with decoys", "pcapng with other blocks"]
KINDS = [*EASY, *HARD]


@pytest.fixture(autouse=True)
def without_the_native_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel walks by itself; tests/native compares it with what is tested here."""
    monkeypatch.setenv(VARIABLE, "0")


@pytest.fixture
def lanes_taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of records that each walk in lanes found."""
    taken: list[int] = []
    for module in (pcap_walk, pcapng_walk):
        original = module.walk_lanes

        def counted(*args: Any, original: Any = original, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            taken.append(len(found[0]))
            return found

        monkeypatch.setattr(module, "walk_lanes", counted)
    return taken


def one_by_one(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        for module in (pcap_walk, pcapng_walk):
            patch.setattr(module, "walk_lanes", lambda *a, **k: (np.empty(0, np.int64), a[1]))
        return read(data)


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_find_what_a_plain_loop_finds(kind: str, lanes_taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(kind)
    capture = read(data)
    assert kind not in EASY or sum(lanes_taken) > 2000
    assert same(capture, one_by_one(data, monkeypatch))
    assert capture.files[0].packets == 4000


@pytest.mark.parametrize("kind", KINDS)
def test_damage_anywhere_changes_nothing_between_the_two(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(kind)
    for position in RNG.integers(28, len(data), 12).tolist():
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(RNG.integers(0, 8))
        assert same(read(bytes(damaged)), one_by_one(bytes(damaged), monkeypatch)), position


def test_records_without_a_byte_do_not_stop_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pcap_file([b""] * 30_000 + [frame()])
    capture = read(data)
    assert capture.files[0].packets == 30_001
    assert same(capture, one_by_one(data, monkeypatch))


def test_a_block_that_is_all_decoys_is_read_in_time() -> None:
    record = struct.pack("<IIII", 1_700_000_000, 1, 60, 60)
    data = pcap_file([record * 4000] * 60)
    assert pcap.parse(io.BytesIO(data), path="x").files[0].packets == 60
