"""What people reported of trust: what was read is said, by the text that a user sees."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, FIN, START_NS, SYN, Segment
from tests.cli.program import call
from tests.parsers import frames as build

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = "holds a TCP segment, so nothing was analysed"


@pytest.fixture(scope="module")
def reports(fixture_folder: Path) -> Path:
    if not (fixture_folder / "reports").is_dir():
        pytest.skip("no reports of people there")
    return fixture_folder / "reports"


def test_a_capture_of_udp_443_is_not_good_and_says_what_it_is(reports: Path) -> None:
    path = reports / "quic_only.pcap.gz"
    said = call("inspect", path).stdout
    assert "Trust: caution" in said
    assert f"None of the 400 packets {NOTHING}" in said
    assert "UDP port 443, as QUIC uses it" in said
    assert "497 kB (100 % of the bytes)" in said
    done = call("diagnose", path, status=1)
    assert "UDP port 443, as QUIC uses it" in done.stderr
    assert "What would help: a log of the program at one end (qlog)" in done.stderr


def _ethernet(kind: int, payload: bytes) -> bytes:
    return build.ethernet(payload, kind)


def _udp(source: int, destination: int, payload: bytes = bytes(300)) -> bytes:
    header = struct.pack(">HHHH", source, destination, 8 + len(payload), 0)
    return build.ethernet(build.ipv4(header + payload, protocol=17))


_ARP, _LLDP, _STP = (
    _ethernet(0x0806, bytes(46)),
    _ethernet(0x88CC, bytes(60)),
    _ethernet(38, b"\x42\x42\x03" + bytes(43)),
)
_DHCP, _NAME, _MEDIA = _udp(68, 67), _udp(40_000, 53, bytes(30)), _udp(5004, 5004)
_PING = build.ethernet(build.ipv4(b"\x08\0" + bytes(62), protocol=1))
_UPKEEP, _PINGED = "these packets only keep a network going", "their output (ping -D)"


@pytest.mark.parametrize(
    ("frames", "helps"),
    [
        ([_DHCP], _UPKEEP),
        ([_NAME, _ARP], _UPKEEP),
        ([_DHCP, _STP, _STP, _STP, _STP, _STP, _STP, _STP, _STP], _UPKEEP),
        ([_LLDP, _ARP], _UPKEEP),
        ([_PING, _PING, _ARP], _PINGED),
        ([_STP], "the right link type"),
        ([_DHCP, _DHCP, _MEDIA], "iperf3"),
        ([_MEDIA], "iperf3"),
    ],
)
def test_the_advice_fits_what_there_is(tmp_path: Path, frames: list[bytes], helps: str) -> None:
    """A capture of DHCP was advised to bring the log of iperf3."""
    (tmp_path / "a.pcap").write_bytes(build.pcap_file(frames))
    said = call("diagnose", tmp_path / "a.pcap", status=1).stderr
    assert helps in said.split("What would help: ")[1]
    assert [other for other in (_UPKEEP, _PINGED, "iperf3") if other in said] == [helps] * (
        helps != "the right link type"
    )


@pytest.mark.parametrize("native", [True, False])
def test_stamps_that_are_all_equal_are_poor_and_show_no_round_trip(
    reports: Path, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    said = call("analyze", reports / "ts_const.pcap").stdout
    assert "Trust: poor" in said
    assert "All 158 packets have the same time" in said
    assert "No round-trip times from initiator: most data and their ACKs have the same time" in said


@pytest.mark.parametrize("native", [True, False])
def test_stamps_of_batches_hide_the_round_trip(reports: Path, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    said = call("inspect", reports / "batch_stamps_64.pcap.gz").stdout
    assert "Trust: caution" in said
    assert "the same for some 62 packets in a row (29 different times, 31.04 ms apart" in said
    (row,) = (line for line in said.splitlines() if "192.0.2.80:443" in line)
    assert row.split()[-3:] == ["-", "869", "ms"]
    document = json.loads(call("analyze", "--json", reports / "batch_stamps_64.pcap.gz").stdout)
    way = document["connections"][0]["forward"]
    assert "too coarse" in way["rtt_absent"]
    assert way["rtt_ms"]["p50"] is None


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("name", "read", "named"), [("ns_under_us_magic.pcap.gz", "ns", "µs"), ("us_under_ns_magic.pcap.gz", "µs", "ns")]
)
def test_a_wrong_unit_is_found_and_said(
    reports: Path, name: str, read: str, named: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    done = call("inspect", reports / name)
    assert "979 ms later" in done.stdout
    assert "40 ms" in done.stdout
    assert "Trust: caution" in done.stdout
    assert f"read in {read}, although the file names {named}" in done.stdout
    assert f"read in {read}, although the file names {named}" in done.stderr
    assert "never steps backwards" in done.stdout


def test_a_unit_can_be_forced_on_commands_that_read(reports: Path) -> None:
    path = reports / "us_under_ns_magic.pcap.gz"
    assert "979 µs later" in call("inspect", "--time-unit", "ns", path).stdout
    forced = call("inspect", "--time-unit", "us", path)
    assert "979 ms later" in forced.stdout
    assert "Trust: good" in forced.stdout
    assert not forced.stderr
    assert "although the file names ns" in call("inspect", path).stderr, "it ends with the command"
    for command in ("analyze", "diagnose", "report", "plot", "align", "correlate"):
        assert "--time-unit" in call(command, "--help").stdout
    assert "979 ms" in call("analyze", "--time-unit", "us", path).stdout


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("hostile/two-syns.pcap", "handshake", "2 of 2 connections were not answered before the capture ended."),
        ("hostile/two-syns-1s.pcap", "handshake", "2 of 2 connections were not answered before the capture ended."),
        ("zeek/mpls-in-vlan.pcap", "unknown", "2 connections took 0 s: each of them has a single packet"),
    ],
)
def test_connections_that_took_no_time_are_no_bug(fixture_folder: Path, name: str, limit: str, words: str) -> None:
    if not (fixture_folder / name).exists():
        pytest.skip(f"no {name}")
    assert words in call("diagnose", fixture_folder / name).stdout
    assert json.loads(call("diagnose", "--json", fixture_folder / name).stdout)["headline"]["limit"] == limit


_OF_NO_TIME = {
    "SYNs": ([(2, False)], "3 of 3 connections were not answered before the capture ended."),
    "SYNs of which each was sent twice": ([(2, False), (2, False)], "3 of 3 connections were never answered."),
    "SYNs that were refused": ([(2, False), (0x14, True)], "3 of 3 connections were refused."),
    "ports used again": (
        [(2, False), (0x14, True), (2, False)], "3 of 6 connections were refused, 3 were not answered before",
    ),
    "a reset each": ([(4, False)], "3 connections took 0 s: each of them has a single packet"),
    "a packet of data each": ([(0x18, False)], "3 connections took 0 s: each of them has a single packet"),
}  # fmt: skip


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("what", _OF_NO_TIME)
def test_connections_of_one_instant_are_told_as_what_they_are(what: str, version: int, tmp_path: Path) -> None:
    flights, words = _OF_NO_TIME[what]
    ends = ((1, 2), (2, 1)) if version == 6 else (("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1"))
    packets = []
    for port in (1001, 1002, 1003):
        for number, (flags, is_back) in enumerate(flights):
            ports = (80, port) if is_back else (port, 80)
            seq, ack = (90, 6) if is_back else (5 + number // 2, 0)
            payload = b"x" * (flags >> 3 & 1)
            segment = build.tcp(sport=ports[0], dport=ports[1], seq=seq, ack=ack, flags=flags, payload=payload)
            source, destination = ends[is_back]
            wrap = build.ipv6 if version == 6 else build.ipv4
            inside = wrap(segment, source=source, destination=destination)  # type: ignore[arg-type]
            packets.append(build.Packet(build.ethernet(inside), build.EPOCH_S * 10**6))
    path = tmp_path / "instant.pcap"
    path.write_bytes(build.pcap_file(packets))
    assert words in json.loads(call("diagnose", "--json", path).stdout)["headline"]["sentence"]
    assert words in call("diagnose", path).stdout


def test_data_before_the_first_sequence_number_are_no_bug(tmp_path: Path) -> None:
    """A wrong bit in the only data segment: nothing was sent for the first time."""
    client, server = 1_371_997_132, 116_861_820
    begun, both = client + 1, {"mss": 1460, "scale": 7}
    segments = [
        (0, Segment(0, client, flags=SYN, options=both)),
        (216_098, Segment(1, server, ack=begun, flags=SYN | ACK, options=both)),
        (216_299, Segment(0, begun, ack=server + 1)),
        (216_447, Segment(0, begun, 137, ack=server + 1)),
        (428_348, Segment(1, server + 1, ack=begun + 137)),
        (429_759, Segment(1, server - 11_006, 312, ack=begun + 137)),
        (430_350, Segment(1, server + 313, ack=begun + 137, flags=FIN | ACK)),
        (430_503, Segment(0, begun + 137, ack=server + 314)),
        (430_601, Segment(0, begun + 137, ack=server + 314, flags=FIN | ACK)),
        (643_603, Segment(1, server + 314, ack=begun + 138)),
    ]
    timed = [replace(each, time_ns=START_NS + time_us * 1000) for time_us, each in segments]
    path = write_pcap(tmp_path / "made.pcap", timed)
    assert "handshake" in call("diagnose", path).stdout


def test_a_single_piece_of_data_far_below_the_first_number_is_no_bug(tmp_path: Path) -> None:
    client, server = 1_501_560_049, 268_494_703
    begun, both = client + 1, {"mss": 1460, "scale": 8}
    data = server - 268_435_455
    segments = [
        (0, Segment(0, client, flags=SYN, options=both)),
        (28_753, Segment(1, server, ack=begun, flags=SYN | ACK, options=both)),
        (29_806, Segment(0, begun, ack=data)),
        (29_818, Segment(0, begun, 343, ack=data)),
        (99_000, Segment(1, data, 79, ack=begun + 343)),
        (158_000, Segment(0, begun + 343, ack=data + 79)),
    ]
    timed = [replace(each, time_ns=START_NS + time_us * 1000) for time_us, each in segments]
    assert "Connection 1" in call("diagnose", "--direction", "reverse", write_pcap(tmp_path / "a.pcap", timed)).stdout


@pytest.mark.parametrize("name", ["dhcp-option-33.pcap", "dhcp-rfc4388.pcap", "lldp_8023_mtu-oobr.pcap"])
def test_the_advice_for_captures_of_a_network_alone(fixture_folder: Path, name: str) -> None:
    if not (fixture_folder / "tcpdump" / name).exists():
        pytest.skip(f"no {name}")
    assert _UPKEEP in call("diagnose", fixture_folder / "tcpdump" / name, status=1).stderr


def test_of_a_file_with_many_interfaces_some_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.pcapng"
    described = [build.interface(options=build.option(2, b"if%d" % number)) for number in range(3_000)]
    path.write_bytes(build.section() + b"".join(described))
    shown = call("inspect", path).stdout
    assert "interface  if19, link type 1" in shown
    assert "interface  and 2,980 more" in shown
    assert "if20" not in shown
