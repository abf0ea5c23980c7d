"""Messages of RRC for tests, and what carries them: GSMTAP packets of both versions, records, captures.

The octets were encoded once with pycrate 0.7.1 from the ASN.1 of TS 36.331 and TS 38.331, and stand here as a
second implementation of what tshark decodes. No identity in them belongs to anybody.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from multitracer.protocols.gsmtap import PORT, ip_udp_header, log_line
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from parsers._signalling.signalling import read_signalling

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

START_NS = 1_700_000_000 * 10**9
DL_CCCH, DL_DCCH, UL_CCCH, UL_DCCH = 0, 1, 2, 3
"""Subtypes of LTE RRC in GSMTAP version 2."""
MESSAGES = {
    "handover to 305": (DL_DCCH, "22080263448d000002000000"),
    "handover to 17 on 1575": (DL_DCCH, "240820220627a246800001000000"),
    "complete 1": (UL_DCCH, "1200"),
    "complete 2": (UL_DCCH, "1400"),
    "complete 3": (UL_DCCH, "1600"),
    "report": (UL_DCCH, "0810384814c5b634116a09"),
    "re-establishment request": (UL_CCCH, "0246931abcd4"),
    "re-establishment complete": (UL_DCCH, "1800"),
    "re-establishment reject": (DL_CCCH, "20"),
    "release to UMTS": (DL_DCCH, "282254a200"),
    "release": (DL_DCCH, "2802"),
    "request": (UL_CCCH, "500000123458"),
    "leg to 283": (DL_DCCH, "2200a4a08218305c20541160298008da47b49e0140f616c00004d278246940"),
    "leg to 432": (DL_DCCH, "2400a4a08218305c2054116029800d8247b49e0140f616c00004d278246940"),
    "leg released": (DL_DCCH, "2600a4a0821800"),
}
"""Of LTE: name -> channel and octets. The report: serving 56/18, neighbours 305 with 54/13 and 17 with 40/9.
The re-establishment request names cell 305, cause handoverFailure."""
NR_MESSAGES = {
    "handover to 7": (4, "020c00a822c0530000748f693c0281ec2d800009a4f048d280"),
    "complete": (9, "0a00"),
    "report": (9, "0040000407dde428d0307bd871c102042ec9c280"),
}
"""Of NR: name -> subtype of version 3 and octets. The report: cell 7 with 60/66/70 and a beam of 61/67/71,
its neighbour 8 with 50/56/40."""


def version_2(name: str, *, channel: int = 1350) -> bytes:
    """Return the GSMTAP datagram of a message of LTE."""
    subtype, octets = MESSAGES[name]
    return struct.pack("!BBBBHbbLBBBB", 2, 4, 13, 0, channel, 0, 0, 0, subtype, 0, 0, 0) + bytes.fromhex(octets)


def version_3(kind: int, subtype: int, payload: bytes, *, channel: int, cell: int) -> bytes:
    """Return the datagram of version 3 as SCAT writes it: the header is rounded up, but not padded."""
    tags = struct.pack("!HHLHHH", 2, 4, channel, 5, 2, cell) + struct.pack("!H", 0xFFFE)
    return struct.pack("!BBHHH", 3, 0, -(-(8 + len(tags)) // 4), kind, subtype) + tags + payload


def nr(name: str, *, channel: int = 504_990, cell: int = 3) -> bytes:
    """Return the GSMTAP datagram of a message of NR."""
    subtype, octets = NR_MESSAGES[name]
    return version_3(0x0503, subtype, bytes.fromhex(octets), channel=channel, cell=cell)


def line(text: str, *, time_ns: int = START_NS) -> bytes:
    """Return the GSMTAP datagram of a line that SCAT prints."""
    payload = log_line(text, time_ns=time_ns, process="scat", subsystem="QualcommParser")
    return struct.pack("!BBBBHbbLBBBB", 2, 4, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0) + payload


def serving(channel: int, cell: int, identity: int) -> bytes:
    """Return the line with which SCAT names the cell that serves."""
    return line(
        f"LTE RRC SCell Info: EARFCN: {channel}/{channel + 18000}, Band: 3, Bandwidth: 20/20 MHz, "
        f"PCI: {cell}, MCC: 001, MNC: 01, xTAC/xCID: 10de/{identity:x}"
    )


def packet(datagram: bytes, *, modem: int = 0, port: int = PORT) -> bytes:
    """Return the IPv4 packet that SCAT would write for a radio."""
    target = bytes((127, 0, 0, 1 + modem))
    ends = {"source": (bytes((127, 0, 0, 1)), 13337), "target": (target, port)}
    return ip_udp_header(len(datagram), **ends) + datagram


def capture(*datagrams: bytes, step_ns: int = 10**8, times_ns: list[int] | None = None, modem: int = 0) -> bytes:
    """Return a capture of raw IP whose packets are a tenth of a second apart."""
    times = times_ns or [START_NS + n * step_ns for n in range(len(datagrams))]
    records = [pcap_record(packet(each, modem=modem), time_ns=t) for each, t in zip(datagrams, times, strict=True)]
    return pcap_header() + b"".join(records)


def read_messages(tmp_path: Path, *datagrams: bytes, **how: Any) -> dict[str, Table]:
    """Return the tables of a capture of these packets."""
    path = tmp_path / "gsmtap.pcap"
    path.write_bytes(capture(*datagrams, **how))
    return read_signalling(path)
