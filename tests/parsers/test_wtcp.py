"""WTCP in captures: found by its hand-shake, never by a single octet; hostile datagrams cost nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.captured import WTCP_SYN
from multitracer.lab.simulator.host import Datagram, build_datagram
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.wtcp.packet import (
    Body,
    Data,
    Hello,
    PacketFlag,
    WtcpAck,
    WtcpOpening,
    WtcpPacketType,
    encode,
)
from multitracer.tables import NA
from parsers import _wtcp
from parsers._wtcp import read_wtcp

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from multitracer.wtcp import WtcpCapture

PHONE, FIXED = (b"\x0a\x00\x00\x01", 1025), (b"\x0a\x00\x00\x02", 5001)
NEAR, FAR = b"initiat!", b"respond!"
START_NS = 1_700_000_000_000_000_000
NOBODY = bytes(8)


def sent(body: Body, identity: bytes, *, back: bool = False) -> bytes:
    """Return the IP packet of the phone, or of the fixed host."""
    return udp(encode(identity, body), back=back)


def udp(payload: bytes, *, back: bool = False) -> bytes:
    one, other = (FIXED, PHONE) if back else (PHONE, FIXED)
    return build_datagram(Datagram(*one, *other, payload), identification=1)


def syn(identity: bytes = NEAR) -> bytes:
    return sent(WtcpOpening(WtcpPacketType.SYN, Hello(identity, 65_536)), NOBODY)


def syn_ack(identity: bytes = FAR, *, to: bytes = NEAR) -> bytes:
    return sent(WtcpOpening(WtcpPacketType.SYN_ACK, Hello(identity, 65_536)), to, back=True)


def data(number: int, place: int, length: int = 440, *, identity: bytes = FAR, back: bool = False) -> bytes:
    body = Data(number, number * 1000, 1000, 100, 0, place, b"x" * length)
    return sent(body, identity, back=back)


def ack(cumulative: int, *, identity: bytes = NEAR) -> bytes:
    ranges = ((cumulative + 5, cumulative + 9),)
    return sent(WtcpAck(0, 1, 0, 9600, cumulative, 65_536, ranges), identity, back=True)


def written(path: Path, packets: list[bytes], *, snap: int = 65_535) -> Path:
    records = (pcap_record(p, time_ns=START_NS + n * 10**6, snap_bytes=snap) for n, p in enumerate(packets))
    path.write_bytes(pcap_header(snap_bytes=snap) + b"".join(records))
    return path


def read(path: Path, *, max_packets: int | None = None) -> tuple[CaptureTables, WtcpCapture]:
    capture = parsers.read_capture([path], max_packets=max_packets)
    return capture, read_wtcp(capture.files)


CALL = [syn(), syn_ack(), data(0, 0), data(1, 440), ack(880)]


@pytest.mark.parametrize("snap", [65_535, 96])
def test_a_connection_is_read_whole_or_cut(tmp_path: Path, snap: int) -> None:
    capture, wtcp = read(written(tmp_path / "a.pcap", CALL, snap=snap))
    assert capture.files[0].protocols == {"udp": 4, WTCP_SYN: 1}
    (ends,) = wtcp.ends
    assert (ends.source, ends.destination) == ("10.0.0.1:1025", "10.0.0.2:5001")
    assert wtcp.packets["flow"].tolist() == [0, 1, 0, 0, 1]
    assert wtcp.packets["kind"].tolist() == [1, 2, 4, 4, 6]
    assert wtcp.packets["place"].tolist() == [NA, NA, 0, 440, 880]
    assert wtcp.packets["payload_bytes"].tolist() == [0, 0, 440, 440, 0]
    assert wtcp.packets["frame"].tolist() == [1, 2, 3, 4, 5]
    assert not wtcp.skipped


def test_without_its_hand_shake_nothing_is_taken_for_wtcp(tmp_path: Path) -> None:
    for name, packets in (("tail", CALL[1:]), ("half", [CALL[0], *CALL[2:]])):
        _, wtcp = read(written(tmp_path / name, packets))
        assert (wtcp.ends, len(wtcp.packets)) == ([], 0)


def test_an_answer_to_another_identity_is_no_connection(tmp_path: Path) -> None:
    _, wtcp = read(written(tmp_path / "a.pcap", [syn(), syn_ack(to=b"somebody"), data(0, 0)]))
    assert not wtcp.ends


def test_packets_with_another_identity_are_counted_and_left_out(tmp_path: Path) -> None:
    forged = [data(2, 880, identity=b"forger!!"), udp(b"\x14hello, no packet of ours")]
    _, wtcp = read(written(tmp_path / "a.pcap", [*CALL, *forged]))
    assert len(wtcp.packets) == len(CALL)
    assert wtcp.skipped == {"the connection identifier is wrong": 1, "not a WTCP packet, or with a truncated header": 1}


def test_a_second_connection_between_the_same_ports_is_another_one(tmp_path: Path) -> None:
    again = [syn(b"initiat2"), syn_ack(b"respond2", to=b"initiat2"), data(0, 0, identity=b"respond2")]
    _, wtcp = read(written(tmp_path / "a.pcap", [*CALL, *again]))
    assert len(wtcp.ends) == 2
    assert wtcp.packets["flow"].tolist() == [0, 1, 0, 0, 1, 2, 3, 2]


def test_a_repeated_syn_changes_nothing_and_a_later_answer_counts_too(tmp_path: Path) -> None:
    packets = [syn(), syn(), syn_ack(), syn(), syn_ack(b"respond3"), data(0, 0), data(1, 440, identity=b"respond3")]
    _, wtcp = read(written(tmp_path / "a.pcap", packets))
    assert len(wtcp.ends) == 1
    assert wtcp.packets["payload_bytes"].tolist().count(440) == 2


def test_only_the_packets_that_were_read_before_are_read_again(tmp_path: Path) -> None:
    _, wtcp = read(written(tmp_path / "a.pcap", CALL), max_packets=3)
    assert wtcp.packets["frame"].tolist() == [1, 2, 3]


def test_datagrams_that_resemble_a_syn_are_udp(tmp_path: Path) -> None:
    complete = encode(NOBODY, WtcpOpening(WtcpPacketType.SYN, Hello(NEAR, 1)))
    changed = [complete[:i] + b"\x21" + complete[i + 1 :] for i in (0, 1, 2, 9)]
    others = [complete + b"\0", complete[:-1], *changed]
    capture, _ = read(written(tmp_path / "a.pcap", [udp(each) for each in others]))
    assert capture.files[0].protocols == {"udp": len(others)}


def test_a_flood_of_syns_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_wtcp, "_MOST_PENDING", 4)
    monkeypatch.setattr(_wtcp, "_MOST_CONNECTIONS", 2)
    reader = _wtcp._Reader()
    ports = range(2000, 2020)
    for port in ports:
        packet = build_datagram(
            Datagram(PHONE[0], port, *FIXED, encode(NOBODY, WtcpOpening(WtcpPacketType.SYN, Hello(NEAR, 1)))),
            identification=1,
        )
        reader.take(parsers.IpPacket(START_NS, packet, 4, 1))
        assert len(reader._pending) <= 4
    for port in ports:
        answer = encode(NEAR, WtcpOpening(WtcpPacketType.SYN_ACK, Hello(FAR, 1)))
        packet = build_datagram(Datagram(*FIXED, PHONE[0], port, answer), identification=1)
        reader.take(parsers.IpPacket(START_NS, packet, 4, 1))
    assert len(reader.ends) == 2
    assert reader.skipped["packet of a connection after the first 2 connections"] == 2


def test_random_octets_after_a_hand_shake_never_raise(tmp_path: Path) -> None:
    chance = random.Random(18)
    packets = [syn(), syn_ack()]
    for _ in range(400):
        octets = bytearray(chance.choice(CALL))
        for _ in range(chance.randrange(1, 4)):
            octets[chance.randrange(20, len(octets))] = chance.randrange(256)
        packets.append(bytes(octets)[: chance.randrange(1, len(octets) + 1)])
    _, wtcp = read(written(tmp_path / "a.pcap", packets))
    assert (wtcp.packets["payload_bytes"] <= 65_507).all()
    assert len(wtcp.packets) <= len(packets)


def test_a_hello_of_a_cut_packet_is_not_its_payload(tmp_path: Path) -> None:
    body = Data(0, 0, 0, 100, 0, 0, b"x" * 428, PacketFlag.NONE, Hello(NEAR, 65_536))
    _, wtcp = read(written(tmp_path / "a.pcap", [*CALL[:2], sent(body, FAR)], snap=96))
    assert wtcp.packets["payload_bytes"].tolist() == [0, 0, 428]
