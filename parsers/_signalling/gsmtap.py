"""GSMTAP packets of versions 2 and 3 as messages, independent of the transport.

Sources: libosmocore `gsmtap.h` for version 2. Version 3 is a draft of osmocom, as SCAT writes it (its
util.py): a header of 8 octets, then tags, each a number and a length of 16 bits. SCAT uses it for NR, and for
LTE channels above 16383, which version 2 cannot name.
"""

from __future__ import annotations

import struct
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import RemoteProtocolError
from multitracer.protocols.gsmtap import ip_udp_header
from multitracer.tables import NA, NOT_A_TIME
from parsers._ip_packets import packets_of, read_records, udp_datagram
from parsers._packets.decode import GSMTAP_LINKTYPES

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from parsers._ip_packets import IpPacket
    from parsers._packets.layers import PacketRecords

PORT = 4729
"""IANA: gsmtap, 4729/udp."""
LOG, NR_RRC, NAS_5GS = 0x10, 0x0503, 0x0504
"""Types (gsmtap.h and its version 3) that are handled separately: lines of a program's log, and NR."""
SIGNAL = 0x0003
"""Type of version 3 without a message: the levels of a cell stand in its tags."""
UM, UMTS_RRC, LTE_RRC, LTE_NAS = 0x01, 0x0C, 0x0D, 0x12
"""Types of version 2 (gsmtap.h)."""
_V2 = struct.Struct("!BBBBHbbLBBBB")
_V3 = struct.Struct("!BBHHH")
_TAG = struct.Struct("!HH")
_UPLINK, _ARFCN = 0x4000, 0x3FFF  # gsmtap.h: GSMTAP_ARFCN_F_UPLINK and GSMTAP_ARFCN_MASK
_CHANNEL, _CELL, _END = 0x0002, 0x0005, 0xFFFE
"""Tags of version 3: channel number, physical cell identity, no more tags."""
_BAND = 0x0004
"""Tag of version 3: number of the frequency band."""
_LEVELS = {
    0x0101: ("", "rssi_dbm", (-150.0, 0.0)),
    0x0103: ("LTE", "sinr_db", (-50.0, 80.0)),
    0x0104: ("UMTS", "rscp_dbm", (-150.0, 0.0)),
    0x0105: ("UMTS", "ecio_db", (-50.0, 0.0)),
    0x0106: ("LTE", "rsrp_dbm", (-180.0, 0.0)),
    0x0107: ("LTE", "rsrq_db", (-50.0, 30.0)),
    0x0108: ("NR", "rsrp_dbm", (-180.0, 0.0)),
    0x010B: ("NR", "rsrq_db", (-50.0, 30.0)),
    0x010D: ("NR", "sinr_db", (-50.0, 80.0)),
}
"""Tags of version 3 with a level, a float of 32 bits: technology, column of `radio`, and what is possible. RSRP, RSRQ
and SINR of NR are those of the SS block, as everywhere in `radio`; those of CSI-RS (0x109, 0x10c, 0x10e) are others."""
_UPLINK_CHANNELS = ((18_000, 36_000, 18_000), (131_072, 200_000, 65_536))
"""EARFCN of the uplink: first, end, and offset from the downlink (TS 36.101, table 5.7.3-1). SCAT reports it
for messages that a Samsung phone sent."""
_MOST_TAGS = 64  # far more than the 40 that version 3 defines
_LOG_HEADER = 84  # gsmtap.h: struct gsmtap_osmocore_log_hdr
_HOST = bytes((192, 0, 2, 1))
"""Address of the documentation range (RFC 5737): tshark gets no address of the capture."""

LTE_CHANNELS = (
    "DL-CCCH",
    "DL-DCCH",
    "UL-CCCH",
    "UL-DCCH",
    "BCCH-BCH",
    "BCCH-DL-SCH",
    "PCCH",
    "MCCH",
    "BCCH-BCH-MBMS",
    "BCCH-DL-SCH-BR",
    "BCCH-DL-SCH-MBMS",
    "SC-MCCH",
    "SBCCH-SL-BCH",
    "SBCCH-SL-BCH-V2X",
    "DL-CCCH-NB",
    "DL-DCCH-NB",
    "UL-CCCH-NB",
    "UL-DCCH-NB",
    "BCCH-BCH-NB",
    "BCCH-BCH-TDD-NB",
    "BCCH-DL-SCH-NB",
    "PCCH-NB",
    "SC-MCCH-NB",
)
"""LTE channels by the subtype of version 2 (gsmtap.h, GSMTAP_LTE_RRC_SUB_*)."""
_UMTS_CHANNELS = (
    *("DL-DCCH", "UL-DCCH", "DL-CCCH", "UL-CCCH", "PCCH", "DL-SHCCH", "UL-SHCCH", "BCCH-FACH", "BCCH-BCH"),
    *("MCCH", "MSCH"),
)
"""UMTS channels by the subtype of version 2 (gsmtap.h, GSMTAP_RRC_SUB_*); higher ones are message parts."""
_UM_CHANNELS = (
    *("", "BCCH", "CCCH", "RACH", "AGCH", "PCH", "SDCCH", "SDCCH/4", "SDCCH/8", "FACCH/F", "FACCH/H"),
    *("PACCH", "CBCH", "PDCH", "PTCCH", "CBCH"),
)
"""GSM channels by the subtype of version 2 (gsmtap.h, GSMTAP_CHANNEL_*)."""
_LTE_V3 = {
    **dict(zip(range(0x01, 0x0D), (4, 8, 5, 9, 10, 7, 6, 0, 1, 2, 3, 11), strict=True)),
    0x101: 12,
    0x102: 13,
    **dict(zip(range(0x201, 0x20A), (18, 19, 20, 21, 14, 15, 16, 22, 17), strict=True)),
}
"""Subtype of version 3 to that of version 2."""
_NR = {
    0x001: ("BCCH-BCH", "bcch.bch"),
    0x002: ("BCCH-DL-SCH", "bcch.dl.sch"),
    0x003: ("DL-CCCH", "dl.ccch"),
    0x004: ("DL-DCCH", "dl.dcch"),
    0x005: ("MCCH", "mcch"),
    0x006: ("PCCH", "pcch"),
    0x007: ("UL-CCCH", "ul.ccch"),
    0x008: ("UL-CCCH1", "ul.ccch1"),
    0x009: ("UL-DCCH", "ul.dcch"),
    0x101: ("SBCCH-SL-BCH", "sbcch.sl.bch"),
    0x102: ("SCCH", "scch"),
    0x201: ("", "rrc_reconf"),
}
"""Subtype of version 3: the channel, and the name under which tshark dissects it."""
_V3_TO_V2 = {0x0000: LOG, 0x0404: LTE_NAS, 0x0403: LTE_RRC, 0x0303: UMTS_RRC}
TYPE_NAMES: Mapping[int, str] = {
    1: "UM",
    2: "ABIS",
    3: "UM_BURST",
    4: "SIM",
    8: "GB_LLC",
    9: "GB_SNDCP",
    11: "UMTS_RLC_MAC",
    12: "UMTS_RRC",
    13: "LTE_RRC",
    14: "LTE_MAC",
    15: "LTE_MAC_FRAMED",
    16: "OSMOCORE_LOG",
    17: "QC_DIAG",
    18: "LTE_NAS",
    19: "E1T1",
    20: "GSM_RLP",
    0x0500: "NR_MAC",
    0x0501: "NR_RLC",
    0x0502: "NR_PDCP",
    0x0503: "NR_RRC",
    0x0504: "NAS_5GS",
    0x0400: "LTE_MAC",
    0x0401: "LTE_RLC",
    0x0402: "LTE_PDCP",
    0x0200: "UM",
    0x0202: "GB_RLCMAC",
}
"""Types as gsmtap.h names them; those of version 3 are larger than 255."""
_DISSECTOR, _END_TAG = 12, 0
"""Tags of Wireshark's exported PDUs (epan/exported_pdu.h): the dissector's name, and no more tags."""


class GsmtapVersionError(RemoteProtocolError):
    """Octets that are not a GSMTAP packet of a supported version."""


class Message(NamedTuple):
    """The content of a GSMTAP packet of version 2 or 3."""

    type: int
    """Type of the packet, a key of `TYPE_NAMES`."""
    version: int
    uplink: bool | None
    """Whether the message was sent by the phone; None if the packet does not show it."""
    logical_channel: str
    channel: int
    """Channel number (ARFCN); NA if the packet does not have it."""
    physical_cell_id: int
    """Physical cell identity; NA if the packet does not have it."""
    exported: str
    """The name of the tshark dissector for the payload; "" if the payload is dissected as `packet`."""
    header: bytes
    """Header of version 2, for tshark; empty for an exported PDU."""
    payload: bytes
    levels: Mapping[str, object] = MappingProxyType({})
    """Columns of `radio` that the tags of version 3 give: levels, technology and band; empty without a level."""

    @property
    def type_name(self) -> str:
        """Name of the packet's type; its number if the type has no name."""
        return TYPE_NAMES.get(self.type, f"type 0x{self.type:02x}")

    def text(self) -> str:
        """Return the line in a LOG packet; "" if the packet is truncated."""
        return self.payload[_LOG_HEADER:].split(b"\0")[0].decode("ascii", "backslashreplace")

    def packet(self) -> bytes:
        """Return the packet in a form that tshark dissects, with its link type.

        It is an exported PDU (link type 252) or an IPv4 packet (101).
        """
        if self.exported:
            name = self.exported.encode()
            name += bytes(-len(name) % 4)
            return _TAG.pack(_DISSECTOR, len(name)) + name + _TAG.pack(_END_TAG, 0) + self.payload
        datagram = self.header + self.payload
        ends = (_HOST, PORT)
        return ip_udp_header(len(datagram), source=ends, target=ends) + datagram


def message(datagram: bytes) -> Message:
    """Return the content of a GSMTAP datagram.

    Raises
    ------
    GsmtapVersionError
        If it is cut, or of a version other than 2 and 3.
    """
    version = datagram[0] if datagram else 0
    if version == 2 and len(datagram) >= _V2.size and _V2.size <= datagram[1] * 4 <= len(datagram):
        return _of_version_2(datagram)
    if version == 3 and len(datagram) >= _V3.size and _V3.size <= _V3.unpack_from(datagram)[2] * 4:
        return _of_version_3(datagram)
    raise GsmtapVersionError(
        f"GSMTAP: the datagram of {len(datagram)} octets has no header of GSMTAP version 2 or 3; the packet is skipped"
    )


def _of_version_2(datagram: bytes) -> Message:
    fields = _V2.unpack_from(datagram)
    kind, arfcn, subtype = fields[2], fields[4], fields[8]
    names = {LTE_RRC: LTE_CHANNELS, UMTS_RRC: _UMTS_CHANNELS, UM: _UM_CHANNELS}.get(kind, ())
    at = subtype & 0x7F if kind == UM else subtype  # GSMTAP_CHANNEL_ACCH
    name = names[at] if at < len(names) else ""
    uplink = _uplink(name)
    if uplink is None and kind not in (LTE_NAS, LOG):
        uplink = bool(arfcn & _UPLINK) or (None if kind in (UMTS_RRC, LTE_RRC) else False)
    elif uplink is None and arfcn & _UPLINK:
        uplink = True
    channel = arfcn & _ARFCN or NA
    split = fields[1] * 4
    return Message(kind, 2, uplink, name, channel, NA, "", datagram[:split], datagram[split:])


def _uplink(channel: str) -> bool | None:
    """Return whether a channel is an uplink channel, by its name; None if the name does not show it."""
    if channel.startswith("UL-") or channel == "RACH":
        return True
    return False if channel.startswith(("DL-", "BCCH", "PCCH", "CCCH", "PCH", "AGCH", "MCCH", "CBCH")) else None


def _of_version_3(datagram: bytes) -> Message:
    _, _, words, kind, subtype = _V3.unpack_from(datagram)
    # SCAT writes tags of any length and rounds the header up, but does not pad it: the last tag ends it.
    tags, end = _tags(datagram, words * 4)
    message = _dissected_as(kind, subtype, tags, datagram[end:])
    levels = _levels(tags)
    return message._replace(levels=levels) if levels else message


def _levels(tags: Mapping[int, int]) -> dict[str, object]:
    """Return the columns of `radio` in the tags of version 3; empty without a level that is possible."""
    columns: dict[str, object] = {}
    for tag in tags.keys() & _LEVELS.keys():
        rat, column, possible = _LEVELS[tag]
        value = struct.unpack("!f", (tags[tag] & 0xFFFFFFFF).to_bytes(4, "big"))[0]
        if possible[0] <= value <= possible[1]:  # not of NaN
            columns |= {column: value, **({"rat": rat} if rat else {})}
    if columns and 0 < tags.get(_BAND, 0) < 1024:
        columns["band"] = str(tags[_BAND])
    return columns


def _dissected_as(kind: int, subtype: int, tags: Mapping[int, int], payload: bytes) -> Message:
    """Return the message of a packet of version 3 in the form that tshark dissects."""
    channel, cell = tags.get(_CHANNEL, NA), tags.get(_CELL, NA)
    if kind in (NR_RRC, NAS_5GS):
        name, dissector = _NR.get(subtype, ("", "")) if kind == NR_RRC else ("", "nas-5gs")
        exported = f"nr-rrc.{dissector}" if kind == NR_RRC and dissector else dissector
        return Message(kind, 3, _uplink(name), name, channel, cell, exported, b"", payload)
    old = _V3_TO_V2.get(kind)
    sub = _old_subtype(kind, subtype)
    if old is None or sub is None:
        return Message(kind, 3, None, "", channel, cell, "", b"", payload)
    header = _V2.pack(2, 4, old, 0, 0, 0, 0, 0, sub, 0, 0, 0)
    names = {LTE_RRC: LTE_CHANNELS, UMTS_RRC: _UMTS_CHANNELS}.get(old, ())
    name = names[sub] if sub < len(names) else ""
    is_up = _uplink(name)
    channel = _downlink(old, channel) if is_up else channel
    return Message(old, 3, is_up, name, channel, cell, "", header, payload)


def _downlink(kind: int, channel: int) -> int:
    """Return the downlink channel number of a cell; `channel` may be its uplink channel number."""
    if kind == LTE_RRC:
        for first, end, above in _UPLINK_CHANNELS:
            if first <= channel < end:
                return channel - above
    return channel


def _old_subtype(kind: int, subtype: int) -> int | None:
    """Return the GSMTAP version 2 subtype of a version 3 subtype; None if there is none."""
    if kind == 0x0403:
        return _LTE_V3.get(subtype)
    if kind == 0x0303:
        if 1 <= subtype <= 9:
            return subtype - 1
        if subtype >= 0x101:
            return min(subtype - 0x101 + 11, 0xFF)
        return {0x0B: 9, 0x0C: 10}.get(subtype)
    return min(subtype, 1) if kind == 0x0404 else 0


def _tags(datagram: bytes, end: int) -> tuple[dict[int, int], int]:
    """Return the integer tags of a version 3 header by number, and the position of the payload."""
    at, tags = _V3.size, dict[int, int]()
    for _ in range(_MOST_TAGS):
        if at + 2 > len(datagram) or at >= end:
            break
        tag = int.from_bytes(datagram[at : at + 2], "big")
        if tag == _END:
            return tags, at + 2
        if at + _TAG.size > len(datagram):
            break
        length = int.from_bytes(datagram[at + 2 : at + 4], "big")
        if length <= 8:
            tags.setdefault(tag, int.from_bytes(datagram[at + 4 : at + 4 + length], "big"))
        at += _TAG.size + length
    return tags, min(end, len(datagram))


# The GSMTAP packets of a capture, with their numbers and times in it.


_LOOPBACK = 0x7F000001  # 127.0.0.1, which SCAT sends the first radio's packets to
_MOST_MODEMS = 8  # SCAT numbers the cards of a phone; a phone has two, rarely three


class Numbered(NamedTuple):
    """A GSMTAP packet with its frame number in the capture."""

    frame: int
    """Frame number in the capture, from 1."""
    time_ns: int
    """Capture time, ns since 1970; NOT_A_TIME without one."""
    modem: int
    """Number of the phone's radio, from 0, from SCAT's address; NA if another program captured it."""
    message: Message


class Messages:
    """The GSMTAP packets of one or several capture files, in their order, numbered consecutively.

    Attributes
    ----------
    skipped : Counter of str
        Number of packets to GSMTAP's port that were not used, by reason.
    untimed : int
        Number of packets whose time is that of a run of the program that wrote them (`runs`: begin and end, ns): it
        stamps so what has no time in a log, and the message gets none.
    """

    def __init__(self, *paths: str | os.PathLike[str], runs: Sequence[tuple[int, int]] = ()) -> None:
        self._paths = paths
        self._runs = runs
        self.skipped: Counter[str] = Counter()
        self.untimed = 0

    def __iter__(self) -> Iterator[Numbered]:
        """Yield each packet.

        Raises
        ------
        InputError, UnknownFormatError, FormatError
            As `read_capture`.
        """
        before = 0
        for path in self._paths:
            for records in read_records(path):
                yield from self._bare(records, before + 1)
                for packet in packets_of(records, before + 1):
                    for numbered in self._of_packet(packet):
                        yield self._without_run(numbered) if self._runs else numbered
                before += len(records)

    def _without_run(self, numbered: Numbered) -> Numbered:
        """Return a packet without its time, if that is the time of a run."""
        if not any(begin <= numbered.time_ns <= end for begin, end in self._runs):
            return numbered
        self.untimed += 1
        return numbered._replace(time_ns=NOT_A_TIME)

    def _of_packet(self, packet: IpPacket) -> Iterator[Numbered]:
        datagram = gsmtap_datagram(packet)
        if datagram is None:
            return
        try:
            decoded = message(datagram)
        except GsmtapVersionError:
            self.skipped["a packet to the GSMTAP port has no GSMTAP header"] += 1
            return
        time_ns = NOT_A_TIME if packet.time_ns is None else packet.time_ns
        yield Numbered(packet.frame, time_ns, _modem(packet.data), decoded)

    def _bare(self, records: PacketRecords, first_frame: int) -> Iterator[Numbered]:
        """Yield the packets of a capture whose link type has GSMTAP headers directly, without IP."""
        for i in range(len(records)):
            link_type = records.link_type
            kind = link_type if isinstance(link_type, int) else int(link_type[i])
            if kind not in GSMTAP_LINKTYPES:
                if isinstance(link_type, int):
                    return
                continue
            start = int(records.start[i])
            datagram = records.data[start : start + int(records.captured[i])].tobytes()
            try:
                yield Numbered(first_frame + i, int(records.time_ns[i]), NA, message(datagram))
            except GsmtapVersionError:
                self.skipped["a packet of a GSMTAP interface has no GSMTAP header"] += 1


def gsmtap_datagram(packet: IpPacket) -> bytes | None:
    """Return the payload of a UDP packet to the port of GSMTAP; None for a fragment or another packet."""
    datagram = udp_datagram(packet)
    return datagram.payload if datagram is not None and datagram.ports[1] == PORT else None


def _modem(data: bytes) -> int:
    """Return the number of the phone's radio; SCAT writes it as destination address, from 127.0.0.1 on."""
    if data[0] >> 4 != 4 or data[12] != 127:
        return NA
    number = int.from_bytes(data[16:20], "big") - _LOOPBACK
    return number if 0 <= number < _MOST_MODEMS else NA
