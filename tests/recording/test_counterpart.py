"""The same connection at another capture point, whatever clocks, ports and addresses say."""

from __future__ import annotations

import gzip
import random
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

import multitracer as mt
from multitracer.analysis.two_points import Counterparts, PacketOutcome, compare
from multitracer.recording.read import read
from tests.causes.damage import snap
from tests.conftest import SAMPLES
from tests.recording.captures import MS, START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOUR_NS = 3_600_000 * MS
SESSIONS = sorted(path.parent for path in SAMPLES.glob("*/manifest.json"))


def pairs(folder: Path, near: Sequence[Conversation], far: Sequence[Conversation]) -> dict[int, int]:
    """Return which connection of the far capture is which of the near one, as pcaps on the disk show it."""
    near_analysis, far_analysis = (
        read(write_conversations(folder / name, *conversations)).captures[0].analysis
        for name, conversations in (("near.pcap", near), ("far.pcap", far))
    )
    return {n: there.connection for n, there in Counterparts(near_analysis, far_analysis).all()}


def at_random(seed: int, **same: object) -> Conversation:
    luck = random.Random(seed)
    isn, answer = luck.randrange(1 << 31), luck.randrange(1 << 31)
    return Conversation(segments=luck.randrange(1, 9), client_isn=isn, server_isn=answer, **same)  # type: ignore[arg-type]


@pytest.mark.parametrize("apart_ns", [0, HOUR_NS, -17 * HOUR_NS])
def test_clocks_hours_apart_do_not_matter(tmp_path: Path, apart_ns: int) -> None:
    near = [at_random(n, sport=40000 + n, start_ns=START_NS + n * 10**9) for n in range(9)]
    far = [at_random(n, sport=40000 + n, start_ns=START_NS + n * 10**9 + apart_ns) for n in range(9)]
    assert pairs(tmp_path, near, far) == {n: n for n in range(1, 10)}


def test_of_connections_on_the_same_ports_each_finds_itself(tmp_path: Path) -> None:
    """Every minute the same ports; the far clock is two minutes ahead, so that times pair strangers."""
    near = [at_random(n, start_ns=START_NS + n * 60_000 * MS) for n in range(6)]
    far = [at_random(n, start_ns=START_NS + (n + 2) * 60_000 * MS) for n in range(1, 6)]
    assert pairs(tmp_path, near, far) == {n + 1: n for n in range(1, 6)}


def test_an_address_that_is_translated_on_the_way_is_seen_through(tmp_path: Path) -> None:
    near = [at_random(n, sport=40000 + n, start_ns=START_NS + n * MS) for n in range(5)]
    far = [at_random(n, client="198.51.100.7", sport=1024 + 7 * n, start_ns=START_NS + (n + 3) * MS) for n in range(5)]
    assert pairs(tmp_path, near, far) == {n: n for n in range(1, 6)}


def test_a_translated_connection_is_found_beside_a_stranger_with_its_ends(tmp_path: Path) -> None:
    """Behind two translators the private addresses repeat: the far capture knows another 10.0.0.1:40000."""
    far = [at_random(9), at_random(1, client="198.51.100.7", sport=1024, start_ns=START_NS + 40 * MS)]
    assert pairs(tmp_path, [at_random(1)], far) == {1: 2}


@pytest.mark.parametrize("ends", [{}, {"client": "198.51.100.7", "sport": 1024}])
def test_a_router_may_write_ip_identifications_of_its_own(tmp_path: Path, ends: dict[str, Any]) -> None:
    far = at_random(1, start_ns=START_NS + 40 * MS, **ends)
    far.packets = [(time_ns, _renumbered(frame)) for time_ns, frame in far.packets]
    earlier = at_random(2, sport=41000, start_ns=START_NS - MS)
    assert pairs(tmp_path, [earlier, at_random(1)], [far]) == {2: 1}


def test_identifications_written_anew_change_no_answer(sample_session: Path, tmp_path: Path) -> None:
    """The receiver's capture, its clock and its evidence count as before."""
    folder = shutil.copytree(sample_session, tmp_path / "upload")
    path = folder / "fixed" / "tcp-0.pcap.gz"
    octets = bytearray(gzip.decompress(path.read_bytes()))
    at, number = 24, 7
    while at < len(octets):
        (length,) = struct.unpack_from("<I", octets, at + 8)
        if octets[at + 16 + 12 : at + 16 + 15] == b"\x08\x00\x45":
            number = number * 48271 % 65536
            struct.pack_into(">H", octets, at + 16 + 14 + 4, number)
        at += 16 + length
    path.write_bytes(gzip.compress(bytes(octets)))
    one, other = mt.open(sample_session), mt.open(folder)
    assert not other.segments["ip_id"].equals(one.segments["ip_id"])
    assert other.account().equals(one.account())
    assert other.verdicts().equals(one.verdicts())


@pytest.mark.parametrize("host", ["mobile", "fixed"])
def test_a_capture_whose_options_were_cut_is_of_the_same_connections(
    sample_session: Path, tmp_path: Path, host: str
) -> None:
    """As with `tcpdump -s 54`: no timestamps there, and the same packets were lost between."""
    folder = shutil.copytree(sample_session, tmp_path / "upload")
    path = folder / host / "tcp-0.pcap.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))
    snap(path, 54)
    found = []
    for each in (sample_session, folder):
        near, far = (capture.analysis for capture in read(each).captures)
        there = Counterparts(near, far).of(1)
        assert there is not None
        seen = compare(near, 1, far, there.connection, reverse=False, is_turned=there.is_turned)
        found.append((there, seen.count(PacketOutcome.MATCHED), seen.count(PacketOutcome.LOST)))
    whole, cut = found
    assert (cut[0], cut[2]) == (whole[0], whole[2])
    assert cut[1] == pytest.approx(whole[1], rel=0.001)
    assert cut[2] > 0


def _renumbered(frame: bytes) -> bytes:
    packet = Ether(frame)
    packet[IP].id = 60_000 - 17 * packet[IP].id
    del packet[IP].chksum
    return bytes(packet)


def test_a_stranger_has_no_counterpart(tmp_path: Path) -> None:
    assert pairs(tmp_path, [at_random(1)], [at_random(2), at_random(3, sport=41000)]) == {}


def test_a_scan_of_equal_packets_is_not_taken_for_a_translation(tmp_path: Path) -> None:
    """A scanner sends the same SYN to many ports: none of them is told from another."""
    one = Conversation(sport=50000, segments=0)
    many = [Conversation(client="198.51.100.7", sport=50001 + n, segments=0) for n in range(4)]
    assert pairs(tmp_path, [one], many) == {}


def test_a_capture_that_begins_late_may_call_the_responder_the_initiator(tmp_path: Path) -> None:
    complete = at_random(4, client="10.0.0.9", sport=700)
    near = read(write_pcap(tmp_path / "near.pcap", complete.packets)).captures[0].analysis
    far = read(write_pcap(tmp_path / "far.pcap", complete.packets[4:])).captures[0].analysis
    assert (near.ends(1).src, far.ends(1).src) == ("10.0.0.9", "10.0.0.2"), "both ports are servers'"
    assert Counterparts(near, far).of(1) == (1, True)


@pytest.mark.parametrize("folder", SESSIONS, ids=lambda path: path.name)
def test_both_ends_of_every_bundled_session_agree(folder: Path) -> None:
    near, far = (capture.analysis for capture in read(folder).captures)
    there = dict(Counterparts(near, far).all())
    back = dict(Counterparts(far, near).all())
    assert there, "the two hosts talked to each other"
    for number, other in there.items():
        assert near.ends(number) == far.ends(other.connection)
        assert not other.is_turned
        assert back[other.connection].connection == number
