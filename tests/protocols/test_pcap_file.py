"""Capture files as we write them, against our own readers and against Wireshark."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.protocols.gsmtap import GsmtapType, encode
from multitracer.protocols.pcap_file import (
    LINKTYPE_ETHERNET,
    interface_block,
    packet_block,
    pcap_header,
    pcap_record,
    section_header,
    statistics_block,
)
from parsers import pcap, pcapng

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables

TIME_NS = 1_600_000_000_123_456_789
PACKET = encode(GsmtapType.GSM_RLP, bytes(30), uplink=True, frame_number=1)

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")


def _pcap() -> bytes:
    return pcap_header() + b"".join(pcap_record(PACKET, time_ns=TIME_NS + i) for i in range(3))


def _pcapng() -> bytes:
    blocks = [
        section_header(application="us", hardware="box", system="os", comment="about it"),
        interface_block(name="rlp0", description="a link", capture_filter="udp", snap_bytes=100),
        interface_block(link_type=LINKTYPE_ETHERNET, name="eth0"),
        packet_block(PACKET, time_ns=TIME_NS, comment="first"),
        packet_block(PACKET[:47], time_ns=TIME_NS + 1, original_bytes=len(PACKET)),
        packet_block(bytes(12) + b"\x08\x00" + PACKET, time_ns=TIME_NS + 2, interface=1),
        statistics_block(time_ns=TIME_NS, interface=0, received=5, dropped=2),
    ]
    return b"".join(blocks)


def _read(octets: bytes) -> CaptureTables:
    fmt = pcap if octets[:4] != b"\n\r\r\n" else pcapng
    return fmt.parse(io.BytesIO(octets), path="made here")


def test_pcap_is_read_back() -> None:
    (facts,) = _read(_pcap()).files
    assert (facts.packets, facts.first_ns, facts.last_ns) == (3, TIME_NS, TIME_NS + 2)
    assert facts.link_types == {101: 3}
    assert facts.damaged is None


def test_pcapng_is_read_back() -> None:
    (facts,) = _read(_pcapng()).files
    assert (facts.packets, facts.first_ns, facts.last_ns) == (3, TIME_NS, TIME_NS + 2)
    assert facts.link_types == {101: 2, 1: 1}
    assert (facts.application, facts.hardware, facts.operating_system) == ("us", "box", "os")
    assert facts.comments == [(None, "about it"), (1, "first")]
    first, second = facts.interfaces
    assert (first.name, first.description, first.filter, first.snap_length) == ("rlp0", "a link", "udp", 100)
    assert (first.dropped_packets, second.name) == (2, "eth0")
    assert facts.damaged is None


@pytest.mark.parametrize("octets", [_pcap(), _pcapng()], ids=["pcap", "pcapng"])
def test_a_cut_anywhere_keeps_what_precedes_it(octets: bytes) -> None:
    counts = [_read(octets[:size]).files[0].packets for size in range(200, len(octets) + 1)]
    assert counts == sorted(counts)
    assert counts[-1] == 3


@needs_tshark
@pytest.mark.parametrize("octets", [_pcap(), _pcapng()], ids=["pcap", "pcapng"])
def test_wireshark_reads_the_same_packets(octets: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made_here"
    path.write_bytes(octets)
    fields = ["frame.time_epoch", "frame.len", "gsmtap.uplink"]
    command = ["tshark", "-r", str(path), "-T", "fields", *(word for f in fields for word in ("-e", f))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [f"1600000000.{123_456_789 + i}" for i in range(3)]
    assert [row[2] for row in rows] == ["1"] * 3
    assert {int(row[1]) for row in rows} <= {len(PACKET), len(PACKET) + 14}
    assert "malformed" not in done.stdout


def test_a_snap_length_keeps_the_original_length() -> None:
    (facts,) = _read(pcap_header() + pcap_record(PACKET, time_ns=TIME_NS, snap_bytes=40)).files
    assert facts.packets == 1
    record = pcap_record(PACKET, time_ns=TIME_NS, snap_bytes=40)
    assert [int.from_bytes(record[i : i + 4], "little") for i in (8, 12)] == [40, len(PACKET)]


@pytest.mark.parametrize("time_ns", [-1, 2**32 * 10**9])
def test_a_time_that_does_not_fit_is_refused(time_ns: int) -> None:
    with pytest.raises(LocalProtocolError, match="outside the range"):
        pcap_record(PACKET, time_ns=time_ns)


def test_an_endless_comment_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="at most 65535 bytes"):
        packet_block(PACKET, time_ns=TIME_NS, comment="x" * 70_000)


def test_the_writer_needs_no_reader() -> None:
    code = "import sys, multitracer.protocols.rlpdump; print('parsers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
