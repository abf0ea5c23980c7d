"""TCP/IP headers: bytes by hand, every option, and what a hostile header may do."""

from __future__ import annotations

import subprocess
from shutil import which
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.captured import Flag
from multitracer.errors import RemoteProtocolError
from multitracer.lab.tcp.packet import (
    Ecn,
    Segment,
    TcpPacket,
    build_packet,
    congestion_marked,
    internet_checksum,
    is_ecn_capable,
    parse_packet,
    sequence_length,
)
from multitracer.protocols.pcap_file import pcap_header, pcap_record

if TYPE_CHECKING:
    from pathlib import Path

# The first packet of the RFC 1144 vectors, made independently of this codec.
KNOWN = bytes.fromhex("4500003200014000400626c30a0000010a00000204010050000003e8000013885010200019c10000") + bytes(
    [0x41] * 10
)

u16, u32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF)
blocks = st.lists(st.tuples(u32, u32), max_size=3).map(tuple)
segments = st.builds(
    Segment,
    source_port=u16,
    destination_port=u16,
    seq=u32,
    ack=u32,
    flags=st.integers(0, 0x1FF),
    window=u16,
    payload=st.binary(max_size=50),
    mss_bytes=st.none() | u16,
    timestamps=st.none() | st.tuples(u32, u32),
)
packets = st.builds(
    TcpPacket,
    source=st.binary(min_size=4, max_size=4),
    destination=st.binary(min_size=4, max_size=4),
    segment=segments,
    identification=u16,
    ecn=st.integers(0, 3),
)


def test_a_known_packet_is_read_and_written() -> None:
    packet = parse_packet(KNOWN)

    assert (packet.identification, packet.checksum_ok) == (1, True)
    assert (packet.segment.seq, packet.segment.ack, packet.segment.window) == (1000, 5000, 8192)
    assert packet.segment.payload == b"A" * 10
    assert build_packet(packet) == KNOWN


@given(packets)
def test_what_is_built_is_parsed(packet: TcpPacket) -> None:
    data = build_packet(packet)
    parsed = parse_packet(data)

    assert parsed == packet
    assert parsed.checksum_ok
    assert parse_packet(data + b"trailing") == packet


@given(blocks, st.booleans())
def test_sack_blocks_come_back_in_order(chosen: tuple[tuple[int, int], ...], timestamps: bool) -> None:
    segment = Segment(1, 2, 3, 4, Flag.ACK, 5, sack_blocks=chosen, timestamps=(6, 7) if timestamps else None)
    parsed = parse_packet(build_packet(TcpPacket(bytes(4), bytes(4), segment)))
    assert parsed.segment.sack_blocks == chosen


@given(st.integers(0, len(KNOWN) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_fails_a_checksum(at: int, change: int) -> None:
    damaged = bytearray(KNOWN)
    damaged[at] ^= change
    try:
        packet = parse_packet(bytes(damaged))
    except RemoteProtocolError:
        return
    assert not packet.checksum_ok


@pytest.mark.parametrize("cut", range(len(KNOWN)))
def test_a_cut_packet_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_packet(KNOWN[:cut])


@pytest.mark.parametrize("length", [0, 1, 41])
def test_an_option_with_a_wrong_length_is_refused(length: int) -> None:
    segment = Segment(1, 2, 3, 4, Flag.SYN, 5, mss_bytes=1460)
    data = bytearray(build_packet(TcpPacket(bytes(4), bytes(4), segment)))
    data[41] = length
    with pytest.raises(RemoteProtocolError, match="option 2"):
        parse_packet(bytes(data))


def test_ce_is_set_only_where_the_sender_allows_it() -> None:
    segment = Segment(1, 2, 3, 4, Flag.ACK, 5, b"data")
    plain = build_packet(TcpPacket(bytes(4), bytes(4), segment))
    capable = build_packet(TcpPacket(bytes(4), bytes(4), segment, ecn=Ecn.ECT_0))

    assert not is_ecn_capable(plain)
    assert is_ecn_capable(capable)
    assert parse_packet(congestion_marked(capable)).ecn == Ecn.CE


def test_syn_and_fin_take_a_unit_each() -> None:
    assert sequence_length(Segment(1, 2, 3, 4, Flag.SYN | Flag.FIN, 5, b"abc")) == 5


def test_checksum_is_that_of_the_rfc() -> None:
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D  # RFC 1071, section 3


@pytest.mark.skipif(which("tshark") is None, reason="needs tshark")
def test_tshark_reads_every_option(tmp_path: Path) -> None:
    everything = Segment(
        *(1025, 80, 7, 9, Flag.SYN | Flag.ACK, 8192, b"x"),
        mss_bytes=460,
        window_scale=2,
        sack_permitted=True,
        timestamps=(11, 12),
    )
    packet = build_packet(TcpPacket(bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), everything))
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap_header() + pcap_record(packet, time_ns=0))
    fields = ["tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.options.timestamp.tsval", "tcp.checksum.status"]
    asked = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-r", str(path), "-o", "tcp.check_checksum:TRUE", "-T", "fields", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["460", "2", "11", "1"]
