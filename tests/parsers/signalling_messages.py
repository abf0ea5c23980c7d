"""Messages of RRC for tests, and what carries them: GSMTAP packets of both versions, records, captures.

The octets of RRC were encoded once with pycrate 0.7.1 from the ASN.1 of TS 36.331 and TS 38.331, and stand here as a
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
    "set-up": (DL_CCCH, "600000"),
    "reject": (DL_CCCH, "4060"),
    "set-up complete with service request": (UL_DCCH, "2000098e020000"),
    "set-up complete with attach request": (UL_DCCH, "2000300e82e417ec01e2200002038000000205c1c000080403a062"),
    "cells 1 and 2 added": (DL_DCCH, "2200a5280220c4e842416440"),
    "cell 1 released": (DL_DCCH, "2400a600"),
}
"""Of LTE: name -> channel and octets. The report: serving 56/18, neighbours 305 with 54/13 and 17 with 40/9.
The re-establishment request names cell 305, cause handoverFailure."""
NR_MESSAGES = {
    "handover to 7": (4, "020c00a822c0530000748f693c0281ec2d800009a4f048d280"),
    "complete": (9, "0a00"),
    "report": (9, "0040000407dde428d0307bd871c102042ec9c280"),
    "request": (7, "100000000028"),
    "set-up": (3, "20000400"),
    "set-up complete": (9, "1000011f80130000"),
    "release to inactive": (4, "12200000000000800000a0"),
    "resume request": (7, "200000200028"),
    "resume": (4, "0c00"),
    "resume complete": (9, "2400"),
    "release": (4, "1200"),
}
"""Of NR: name -> subtype of version 3 and octets. The report: cell 7 with 60/66/70 and a beam of 61/67/71,
its neighbour 8 with 50/56/40."""
_GUTI = "0bf600f110000101c0000001"
NAS_MESSAGES = {
    "attach request": f"074172{_GUTI}02e0e000040201d031",
    "attach accept": "074201210600" + "00f1100001" + "00135201c10109050474657374" + "05010a000001" + "5832",
    "attach complete": "07430003" + "5200c2",
    "attach reject 15": "07440f",
    "switch off": f"07450b{_GUTI}",
    "IMSI detach": f"074502{_GUTI}",
    "detach accept": "0746",
    "update request": f"074800{_GUTI}",
    "update accept": "074900",
    "update reject 9": "074b09",
    "connectivity request 7": "0207d031",
    "connectivity reject 7": "0207d11f",
    "connectivity request 8": "0208d031",
    "default bearer 8": "6208c101090504746573740501" + "0a000002",
    "default bearer accepted": "6200c2",
    "bearer 6 gone": "6200ce",
    "service reject 10": "074e0a",
}
"""NAS of LTE (TS 24.301, 8.2 and 8.3), written by hand, in the network 001-01 of tests: name and number of the cause,
of the transaction, or of the bearer."""
NAS_5GS_MESSAGES = {
    "registration request": "7e004179000bf200f110000000c0000001",
    "registration accept": "7e00420101",
    "registration reject 11": "7e00440b",
    "registration reject 73": "7e004449",
    "session request 5": "7e00670100072e0105c1ffff91",
    "session reject 5": "7e0068010005" + "2e0105c31a" + "1201",
}
"""NAS of NR (TS 24.501, 8.2 and 8.3), written by hand."""


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


def nas(name: str) -> bytes:
    """Return the GSMTAP datagram of a NAS message, as the NAS log of a modem has it."""
    if name in NAS_5GS_MESSAGES:
        return version_3(0x0504, 0, bytes.fromhex(NAS_5GS_MESSAGES[name]), channel=504_990, cell=3)
    header = struct.pack("!BBBBHbbLBBBB", 2, 4, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return header + bytes.fromhex(NAS_MESSAGES[name])


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
