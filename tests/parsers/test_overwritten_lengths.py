"""Files whose original lengths were overwritten by the captured ones: the IP length tells the payload."""

from __future__ import annotations

import random

import pytest

from multitracer.analysis.tcp import analyse
from multitracer.captured import CaptureMark
from tests.parsers.frames import Packet, enhanced, ethernet, interface, ipv4, ipv6, pcap_file, read, section, tcp


def transfer(seed: int, count: int, version: int = 4) -> tuple[list[bytes], list[int]]:
    """Return frames of a transfer, every third an ACK, and their payloads' lengths."""
    rng = random.Random(seed)
    sizes = [0 if n % 3 == 2 else rng.randrange(200, 1400) for n in range(count)]
    pack = ipv4 if version == 4 else ipv6
    return [ethernet(pack(tcp(seq=n, payload=rng.randbytes(size)))) for n, size in enumerate(sizes)], sizes


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("kept", [80, 96, 128])
def test_the_ip_length_gives_the_payload(order: str, version: int, kept: int) -> None:
    frames, sizes = transfer(kept, 300, version)
    found = read(pcap_file([Packet(frame[:kept]) for frame in frames], order=order))
    assert found.segments["payload_bytes"].tolist() == sizes
    cut = [CaptureMark(int(marks)) for marks, size in zip(found.segments["marks"], sizes, strict=True) if size]
    assert all(CaptureMark.PAYLOAD_CUT in marks and CaptureMark.LENGTH_OVERWRITTEN in marks for marks in cut)
    assert (found.files[0].variant or "").endswith("original lengths overwritten")
    assert "bad-length" in {note.code for note in analyse(found).trust.notes}


@pytest.mark.parametrize("kept", [60, 96])
def test_acks_that_are_too_short_to_be_cut_do_not_speak_against_it(kept: int) -> None:
    frames, sizes = transfer(kept, 300)
    mostly_acks = [n for n, size in enumerate(sizes) if not size or n % 6 == 0]
    found = read(pcap_file([Packet(frames[n][:kept].ljust(60, b"\0")) for n in mostly_acks]))
    assert found.segments["payload_bytes"].tolist() == [sizes[n] for n in mostly_acks]
    assert (found.files[0].variant or "").endswith("original lengths overwritten")


def test_the_same_holds_for_pcapng_and_for_later_windows() -> None:
    frames, sizes = transfer(5, 60_000)
    blocks = [enhanced(frame[:96]) for frame in frames]
    found = read(b"".join([section(), interface(), *blocks]))
    assert found.segments["payload_bytes"].tolist() == sizes


def test_a_few_packets_whose_lengths_disagree_change_nothing() -> None:
    frames, sizes = transfer(9, 300)
    unexpected = {n for n in range(300) if n % 3 == 0}
    packets = [Packet(frame[:96] if n in unexpected else frame) for n, frame in enumerate(frames)]
    found = read(pcap_file(packets))
    there = [96 - 54 if n in unexpected else size for n, size in enumerate(sizes)]
    assert found.segments["payload_bytes"].tolist() == there
    assert "overwritten" not in (found.files[0].variant or "")


def test_a_snapped_file_that_kept_its_lengths_is_as_before() -> None:
    frames, sizes = transfer(11, 300)
    found = read(pcap_file([Packet(frame[:96], original=len(frame)) for frame in frames]))
    assert found.segments["payload_bytes"].tolist() == sizes
    assert found.files[0].variant == "little-endian, µs"


def test_an_ip_length_of_zero_is_no_longer_than_the_record() -> None:
    frames, _ = transfer(13, 90)
    offloaded = ethernet(ipv4(tcp(seq=99, payload=b"x" * 40), total=0))
    found = read(pcap_file([*(frame[:96] for frame in frames), offloaded]))
    assert found.segments["payload_bytes"][-1] == 40
