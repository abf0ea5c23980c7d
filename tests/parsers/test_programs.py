"""Captures of PCAPdroid: the program of each connection, its VPN, and secrets in pcapng."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from multitracer.analysis import analyse
from parsers import read_capture
from tests.cli.program import call
from tests.collectors.test_android_packets import trailed
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

VPN, SERVER = "10.215.173.1", "192.0.2.7"


def of_phone(port: int, *, payload: int = 0) -> bytes:
    return ipv4(tcp(sport=port, dport=443, payload=bytes(payload)), source=VPN, destination=SERVER)


def to_phone(port: int) -> bytes:
    return ipv4(tcp(sport=443, dport=port), source=SERVER, destination=VPN)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_program_of_each_connection_is_a_column(tmp_path: Path) -> None:
    packets = [
        trailed(of_phone(5000)), trailed(to_phone(5000)), trailed(of_phone(5001), uid=10200, app="Mail"),
        trailed(of_phone(5002), uid=-1, app=""), trailed(of_phone(5003), uid=1000, app=""),
        trailed(ipv6(tcp(sport=5004)), uid=10200, app="Mail"), of_phone(5005, payload=900),
    ]  # fmt: skip
    session = mt.open(written(tmp_path / "phone.pcap", pcap_file(packets)))
    frame = session.connections
    assert dict(zip(frame["sport"], frame["app"], strict=True)) == {
        5000: "Browser", 5001: "Mail", 5002: "", 5003: "user 1000", 5004: "Mail",
    }  # fmt: skip
    assert "Browser, Mail, user 1000" in call("inspect", tmp_path / "phone.pcap").stdout


def test_captures_of_others_have_no_such_column(tmp_path: Path) -> None:
    session = mt.open(written(tmp_path / "a.pcap", pcap_file([ethernet(ipv4(tcp()))])))
    assert "app" not in session.connections


@pytest.mark.parametrize("link_type", [1, 101])
def test_packets_of_the_vpn_are_a_reason_for_caution(tmp_path: Path, link_type: int) -> None:
    packets = [of_phone(5000), to_phone(5000), of_phone(5000, payload=90), to_phone(5000)]
    frames = [trailed(packet) for packet in packets] if link_type == 1 else packets
    path = written(tmp_path / "vpn.pcap", pcap_file(frames, link_type=link_type))
    trust = analyse(read_capture([path])).trust
    (note,) = [note for note in trust.notes if note.code == "vpn"]
    assert (note.severity.name, trust.verdict != "good") == ("CAUTION", True)
    assert "PCAPdroid's VPN inside the phone, not those of the radio" in note.sentence
    assert "retransmissions" in note.affects


def test_root_mode_of_pcapdroid_is_no_vpn(tmp_path: Path) -> None:
    path = written(tmp_path / "root.pcap", pcap_file([trailed(ipv4(tcp()))] * 4))
    assert "vpn" not in {note.code for note in analyse(read_capture([path])).trust.notes}


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def pcapng_of_pcapdroid(packets: list[tuple[bytes, int]], application: bytes = b"PCAPdroid v1.8.6") -> bytes:
    """Return a file as PCAPdroid writes pcapng with its extensions: names, secrets, a user's comment each."""
    options = struct.pack("<HH", 4, len(application)) + application + bytes(-len(application) % 4) + bytes(4)
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + options)
    data += block(1, struct.pack("<HHI", 101, 0, 65535))
    data += block(0xBAD, struct.pack("<IHBBiBB", 62652, 1, 1, 0, 10123, 11, 7) + b"org.exampleBrowser")
    data += block(0xBAD, struct.pack("<IHBBiBB", 62652, 1, 1, 0, 10200, 250, 250) + b"short")
    data += block(10, struct.pack("<II", 0x544C534B, 12) + b"CLIENT_RANDO")
    for number, (packet, user) in enumerate(packets):
        comment = f"u-{user}".encode()
        option = struct.pack("<HH", 1, len(comment)) + comment + bytes(-len(comment) % 4) + bytes(4)
        head = struct.pack("<5I", 0, 0x60000, 1_000_000 + number * 1000, len(packet), len(packet))
        data += block(6, head + packet + bytes(-len(packet) % 4) + option)
    return data


def test_pcapng_names_programs_and_its_secrets_are_counted(tmp_path: Path) -> None:
    packets = [(of_phone(5000), 10123), (to_phone(5000), 10123), (of_phone(5001), 10200)]
    path = written(tmp_path / "phone.pcapng", pcapng_of_pcapdroid(packets))
    session = mt.open(path)
    frame = session.connections
    assert dict(zip(frame["sport"], frame["app"], strict=True)) == {5000: "Browser", 5001: "user 10200"}
    (file,) = read_capture([path]).files
    assert (file.secrets, file.vpn, file.comments) == (1, "PCAPdroid", [])


@pytest.mark.parametrize("order", ["before", "after"])
def test_comments_of_another_program_are_comments_not_users(tmp_path: Path, order: str) -> None:
    """Also in a file whose other section is of PCAPdroid."""
    others = pcapng_of_pcapdroid([(of_phone(5001), 7), (to_phone(5001), 7)], b"Wireshark")
    assert read_capture([written(tmp_path / "others.pcapng", others)]).files[0].comments == [(1, "u-7"), (2, "u-7")]
    own = pcapng_of_pcapdroid([(of_phone(5000), 10123)])
    path = written(tmp_path / "joined.pcapng", others + own if order == "before" else own + others)
    frame = mt.open(path).connections
    assert dict(zip(frame["sport"], frame["app"], strict=True)) == {5000: "Browser", 5001: ""}
    first = 1 if order == "before" else 2
    assert read_capture([path]).files[0].comments == [(first, "u-7"), (first + 1, "u-7")]


def test_hostile_trailers_are_text(tmp_path: Path) -> None:
    names = ["\x1b[2J<b>", "../../etc", ""]
    packets = [trailed(of_phone(5000 + n), uid=n, app=name) for n, name in enumerate(names)]
    packets.append(trailed(of_phone(5003))[:-9] + b"\x01\x07\x20\x21" + bytes(5))
    session = mt.open(written(tmp_path / "hostile.pcap", pcap_file(packets)))
    assert set(session.connections["app"]) <= {"[2J<b>", "../../etc", "user 2", "Browser"}


def test_programs_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    packets = [trailed(of_phone(5000 + n), uid=n, app=f"app {n:02}") for n in range(25)]
    shown = call("inspect", written(tmp_path / "phone.pcap", pcap_file(packets))).stdout
    assert "app 19 and 5 more" in " ".join(shown.split())


def test_a_long_capture_with_trailers_needs_one_look_for_each_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    from parsers._packets import programs
    from tests.parsers.frames import read

    looks = []
    monkeypatch.setattr(programs, "_note", lambda *args: looks.append(args[2]))
    read(pcap_file([trailed(of_phone(5000 + n % 3)) for n in range(3000)]))
    assert len(looks) <= 3 * 8
    assert np.all(np.array(looks) >= 0)
