"""Tunnels are opened unless the user wants to see their outer packets; what they are is said by text and JSON."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from tests.cli.program import call
from tests.parsers.frames import EPOCH_S, Packet, ethernet, ipv4, pcap_file, tcp
from tests.parsers.test_udp_tunnels import gtpu, udp

if TYPE_CHECKING:
    from pathlib import Path

PACKETS = 20


@pytest.fixture
def bearer(tmp_path: Path) -> Path:
    """Return a capture of a transfer in two tunnels of GTP-U, one for each direction, in VXLAN."""
    frames = []
    for n in range(PACKETS):
        there = n % 2 == 0
        ends = ("10.0.0.1", "10.0.0.2")[:: 1 if there else -1]
        ports = (1000, 80)[:: 1 if there else -1]
        size = 100 if there else 0
        segment = tcp(sport=ports[0], dport=ports[1], seq=1 + n * 50, ack=1 + n * 50, payload=bytes(size))
        inner = ipv4(segment, source=ends[0], destination=ends[1])
        outer = ("192.0.2.1", "192.0.2.2")[:: 1 if there else -1]
        gtp = ipv4(udp(gtpu(inner, teid=5 + there), 2152), protocol=17, source=outer[0], destination=outer[1])
        vxlan = struct.pack(">II", 0x08 << 24, 77 << 8) + ethernet(gtp)
        frames.append(ethernet(ipv4(udp(vxlan, 4789), protocol=17, source="198.51.100.7", destination="198.51.100.9")))
    path = tmp_path / "bearer.pcap"
    path.write_bytes(pcap_file(frames))
    return path


@pytest.mark.parametrize("command", ["inspect", "analyze"])
def test_the_tunnels_are_named(bearer: Path, command: str) -> None:
    said = call(command, bearer).stdout
    assert f"GTP-U: {PACKETS} packets, {PACKETS} with TCP, between 192.0.2.1 and 192.0.2.2, 2 TEIDs" in said
    assert f"VXLAN: {PACKETS} packets, {PACKETS} with TCP, between 198.51.100.7 and 198.51.100.9, 1 VNI" in said
    assert "10.0.0.1:1000" in said
    assert "192.0.2.1:" not in said


def test_json_lists_the_tunnels(bearer: Path) -> None:
    (file,) = json.loads(call("analyze", "--json", bearer).stdout)["files"]
    assert file["contents"] == []
    assert file["tunnels"] == [
        {
            "name": name, "packets": PACKETS, "tcp_packets": PACKETS, "unread_packets": 0, "pairs": 1,
            "ends": [ends], "identifiers": identifiers,
        }
        for name, ends, identifiers in (
            ("GTP-U", ["192.0.2.1", "192.0.2.2"], 2), ("VXLAN", ["198.51.100.7", "198.51.100.9"], 1)
        )
    ]  # fmt: skip


def test_without_decap_the_outer_packets_are_counted(bearer: Path) -> None:
    said = call("inspect", "--no-decap", bearer).stdout
    assert f"protocols     udp: {PACKETS}" in said
    assert "0 TCP connections" in said
    assert f"Found: VXLAN, {PACKETS} packets" in said
    assert "reading it without --no-decap" in said
    assert "VXLAN" in call("diagnose", "--no-decap", bearer, status=1).stderr
    assert call("inspect", "--decap", bearer).stdout == call("inspect", bearer).stdout


@pytest.mark.parametrize("native", [True, False])
def test_the_interface_has_it_too(bearer: Path, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    assert len(mt.open(bearer)) == 1
    assert len(mt.open(bearer, decap=False)) == 0
    assert len(mt.open(bearer, begin=0.0, end=1.0)) == 1


def test_the_report_lists_the_tunnels(bearer: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    call("report", bearer, "-o", page)
    assert "between 192.0.2.1 and 192.0.2.2, 2 TEIDs" in page.read_text()


@pytest.mark.parametrize("identified", [True, False])
def test_a_packet_seen_bare_and_in_its_tunnel_is_counted_once(tmp_path: Path, identified: bool) -> None:
    """As `-i any` shows it on a host that carries its containers' packets in VXLAN."""
    frames = []
    for n in range(200):
        there = n % 3 < 2
        ends = ("10.0.0.1", "10.0.0.2")[:: 1 if there else -1]
        ports = (1000, 80)[:: 1 if there else -1]
        sent = 1000 * (n // 3 * 2 + n % 3)
        seq, ack = (sent, 1) if there else (1, sent - 1000)
        segment = tcp(sport=ports[0], dport=ports[1], seq=seq, ack=ack, payload=bytes(1000 * there))
        bare = ipv4(segment, source=ends[0], destination=ends[1], identification=n if identified else 0)
        vxlan = struct.pack(">II", 0x08 << 24, 77 << 8) + ethernet(bare)
        outer = ethernet(ipv4(udp(vxlan, 4789), protocol=17, source="198.51.100.7", destination="198.51.100.9"))
        ticks = EPOCH_S * 10**6 + 500 * n
        frames += [Packet(ethernet(bare), ticks), Packet(outer, ticks + 15)]
    path = tmp_path / "any.pcap"
    path.write_bytes(pcap_file(frames))
    (connection,) = json.loads(call("analyze", "--json", path).stdout)["connections"]
    ways = (connection["forward"], connection["reverse"])
    assert sum(way["packets"] for way in ways) == 200
    assert sum(way["retransmitted_segments"] for way in ways) == 0
    assert "copies, left out of all numbers" in call("analyze", path).stdout


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wireshark_opens_no_tunnel_either(bearer: Path) -> None:
    pytest.importorskip("pyshark")
    assert "udp:vxlan:" in call("dissect", "--max-packets", "1", bearer).stdout
    closed = call("dissect", "--no-decap", "--max-packets", "1", bearer).stdout
    assert "ip:udp:data" in closed
