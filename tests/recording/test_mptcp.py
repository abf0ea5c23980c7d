"""Subflows of one MPTCP connection are found by their token, whatever their addresses."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.protocols.mptcp import token_of
from multitracer.recording.mptcp import multipath_connections
from multitracer.recording.read import read
from tests.cli.program import analyze, call
from tests.recording.subflows import capable, ip_packet, join, tcp_header

if TYPE_CHECKING:
    from pathlib import Path

_SERVER = "192.0.2.80"


class _Flows:
    """Writes raw IP packets of downloads over subflows."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.packets: list[tuple[float, bytes]] = []

    def subflow(self, begin_s: float, host: str, port: int, options: tuple[bytes, bytes, bytes], kb: int = 30) -> None:
        """Note a handshake with MPTCP options of SYN, SYN-ACK and ACK, then data of the server."""
        syn, answer, third = options
        ends, back = (port, 443), (443, port)
        mss = b"\x02\x04\x05\xb4"
        self._note(begin_s, host, _SERVER, tcp_header(mss + syn, ports=ends, seq=100))
        self._note(begin_s + 0.02, _SERVER, host, tcp_header(mss + answer, ports=back, seq=500, ack=101, flags=0x12))
        self._note(begin_s + 0.021, host, _SERVER, tcp_header(third, ports=ends, seq=101, ack=501, flags=0x10))
        for number in range(kb):
            at_s = begin_s + 0.05 + number * 0.002
            data = tcp_header(b"", ports=back, seq=501 + number * 1000, ack=101, flags=0x18) + bytes(1000)
            self._note(at_s, _SERVER, host, data)
            ack = tcp_header(b"", ports=ends, seq=101, ack=501 + (number + 1) * 1000, flags=0x10)
            self._note(at_s + 0.0001, host, _SERVER, ack)

    def _note(self, at_s: float, source: str, destination: str, segment: bytes) -> None:
        self.packets.append((at_s, ip_packet(source, destination, segment)))

    def first(self, begin_s: float, host: str, port: int, version: int, keys: tuple[int, int]) -> None:
        own, other = keys
        syn = capable(version) if version else capable(version, own)
        self.subflow(begin_s, host, port, (syn, capable(version, other), capable(version, own, other)))

    def joined(self, begin_s: float, host: str, port: int, token: int) -> None:
        answer = bytes([30, 16, 0x10, 1]) + self.chance.randbytes(12)
        self.subflow(begin_s, host, port, (join(token), answer, bytes([30, 24, 0x10, 0]) + self.chance.randbytes(20)))

    def written(self, folder: Path) -> Path:
        path = folder / "paths.pcap"
        with path.open("wb") as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101))
            for at_s, packet in sorted(self.packets):
                out.write(
                    struct.pack("<IIII", int(at_s) + 1_700_000_000, int(at_s % 1 * 1e6), len(packet), len(packet))
                )
                out.write(packet)
        return path


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", [0, 1])
def test_subflows_are_one_group(tmp_path: Path, seed: int, version: int) -> None:
    flows = _Flows(seed)
    chance, hosts = flows.chance, ["10.0.0.2", "192.168.1.5", "172.16.0.9"]
    keys = (chance.randrange(1 << 64), chance.randrange(1 << 64))
    token = token_of(keys[1], version)
    flows.first(0, hosts[0], 40_000, version, keys)
    for number, host in enumerate(hosts[1:], 1):
        flows.joined(0.03 * number, host, 40_000 + number, token)
    flows.first(0.01, hosts[0], 50_000, version, (chance.randrange(1 << 64), chance.randrange(1 << 64)))
    recording = read(path := flows.written(tmp_path))
    (one,) = multipath_connections(recording.captures[0])
    assert (one.token, one.version, len(one.subflows)) == (token, version, 3)
    (document,) = analyze(path)["multipath"]
    assert document["connections"] == list(one.subflows)
    assert {each["initiator"].split(":")[0] for each in document["subflows"]} == set(hosts)
    text = call("analyze", path).stdout
    assert f"One MPTCP connection, 3 subflows (token {token:#010x}, version {version})" in text
    assert explain(recording).group.document()["multipath"] == [list(one.subflows)]


def test_subflows_alone_are_one_connection_of_diagnose(tmp_path: Path) -> None:
    flows = _Flows(9)
    keys = (flows.chance.randrange(1 << 64), flows.chance.randrange(1 << 64))
    flows.first(0, "10.0.0.2", 40_000, 1, keys)
    flows.joined(0.03, "192.168.1.5", 40_001, token_of(keys[1], 1))
    path = flows.written(tmp_path)
    found = json.loads(call("diagnose", "--json", path).stdout)
    assert found["group"]["connections"] == [1, 2]
    assert found["headline"]["sentence"].startswith("One MPTCP connection with 2 subflows took")


def test_subflows_of_a_connection_that_began_earlier(tmp_path: Path) -> None:
    """They name the same token, so they belong together; another token is another connection."""
    flows = _Flows(3)
    for number in range(3):
        flows.joined(0.1 * number, f"10.0.0.{number + 2}", 40_000 + number, 77 if number else 78)
    (one,) = multipath_connections(read(flows.written(tmp_path)).captures[0])
    assert (one.token, one.version, one.subflows) == (77, None, (2, 3))


def test_captures_without_mptcp_say_nothing_of_it(sample_sender: Path) -> None:
    assert analyze(sample_sender)["multipath"] == []
    assert "MPTCP" not in call("analyze", sample_sender).stdout


@pytest.mark.fixtures
def test_a_reported_capture_of_two_subflows(fixture_folder: Path) -> None:
    """`tshark -e mptcp.stream` says 0 for both."""
    path = fixture_folder / "reports" / "mptcp_two_subflows.pcap.gz"
    (one,) = analyze(path)["multipath"]
    assert (one["token"], one["version"], one["connections"]) == (3874785792, 1, [1, 2])
    assert "One MPTCP connection, 2 subflows" in call("analyze", path).stdout
    assert explain(read(path)).group.numbers == [1, 2]
