"""The GSMTAP packets of a capture, with their numbers and times in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from multitracer.tables import NA, NOT_A_TIME
from parsers._ip_packets import packets_of, read_records, udp_datagram
from parsers._packets.decode import GSMTAP_LINKTYPES
from parsers._signalling.gsmtap import PORT, GsmtapVersionError, message

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from parsers._ip_packets import IpPacket
    from parsers._packets.layers import Records
from parsers._signalling.gsmtap import Message

_LOOPBACK = 0x7F000001  # 127.0.0.1, which SCAT sends the first radio's packets to
_MOST_MODEMS = 8  # SCAT numbers the cards of a phone; a phone has two, rarely three


class Numbered(NamedTuple):
    """A GSMTAP packet in its capture."""

    frame: int
    """From 1."""
    time_ns: int
    """NOT_A_TIME without one."""
    modem: int
    """Which radio of the phone, from 0, by SCAT's address; NA if another program captured it."""
    message: Message


class Messages:
    """The GSMTAP packets of a capture file, in its order; of several files numbered through.

    Attributes
    ----------
    skipped : Counter of str
        Why packets to GSMTAP's port were not used.
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self._paths = paths
        self.skipped: Counter[str] = Counter()

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
                    yield from self._of_packet(packet)
                before += len(records)

    def _of_packet(self, packet: IpPacket) -> Iterator[Numbered]:
        datagram = gsmtap_datagram(packet)
        if datagram is None:
            return
        try:
            decoded = message(datagram)
        except GsmtapVersionError:
            self.skipped["a packet to the port of GSMTAP without its header"] += 1
            return
        time_ns = NOT_A_TIME if packet.time_ns is None else packet.time_ns
        yield Numbered(packet.frame, time_ns, _modem(packet.data), decoded)

    def _bare(self, records: Records, first_frame: int) -> Iterator[Numbered]:
        """Yield the packets of a link type that begins with GSMTAP's header."""
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
                self.skipped["a packet of a GSMTAP link without its header"] += 1


def gsmtap_datagram(packet: IpPacket) -> bytes | None:
    """Return the payload of a UDP packet to GSMTAP's port; None of any other packet, or of a fragment."""
    datagram = udp_datagram(packet)
    return datagram.payload if datagram is not None and datagram.ports[1] == PORT else None


def _modem(data: bytes) -> int:
    """Return the radio that SCAT means by the address it sends to, 127.0.0.1 and those after it."""
    if data[0] >> 4 != 4 or data[12] != 127:
        return NA
    number = int.from_bytes(data[16:20], "big") - _LOOPBACK
    return number if 0 <= number < _MOST_MODEMS else NA
