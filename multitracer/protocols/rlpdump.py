"""rlpdump's log: the frames and events of one side of a link, as a pcapng file.

Each frame is a packet of the file: GSMTAP type 0x14 over UDP in raw IP, so that Wireshark 4.2 and later
dissect it. Facts that the frame itself does not contain are in the comment of the packet, as `key=value`
words: `off`, the position of its first character in the sender's stream; `try`, the number of the
transmission; `cause` of a retransmission; `fate` at the receiver. Events without a frame (a reset, XOFF, a
packet dropped by the queue) are packets too: a GSMTAP log line with the name of the event and its `key=value`
words. The slot's number is the frame number of the GSMTAP header in both.

Comments are used instead of a second file because frames and comments then cannot be separated, a truncated
log ends at one place, and Wireshark shows both in order without a plug-in.

Each side has one file. It begins with a section whose comment is `rlpdump 1` and facts as `key=value` words.
Idle frames are counted, not logged.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.protocols.gsmtap import FRAME_NUMBER_AT, LOG_TEXT_AT, GsmtapType, encode, log_line
from multitracer.protocols.link_events import EVENT_NAMES, FrameLost, FrameReceived, FrameSent
from multitracer.protocols.pcap_file import (
    BLOCK_PACKET_AT,
    BLOCK_TIME_AT,
    interface_block,
    packet_block,
    section_header,
)
from multitracer.protocols.rlp import is_information
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.protocols.link_events import LinkEvent

MARK = "rlpdump 1"
"""Start of the section's comment: the name of the format and its version."""
APPLICATION = "MultiTracer rlpdump"
_KEPT_OCTETS = {30: 3, 72: 4, 42: 4, 144: 4, 288: 4}
"""Octets of an information frame that are stored, by frame length: header, status octet and possibly a count."""
_FACTS = {name: kind._fields[2:] for kind, name in EVENT_NAMES.items()}
"""Names of an event's fields after time and slot, by the event's name in the log."""
_NOTHING = frozenset({None, "", b""})
"""Values of fields that are not written."""
_STAMP, _TICK = struct.Struct("<II"), struct.Struct("!I4xII")
"""Formats of the time in a pcapng block, and of GSMTAP's frame number with the time of its log line."""
_TICK_AT, _TEXT_AT = BLOCK_PACKET_AT + FRAME_NUMBER_AT, BLOCK_PACKET_AT + LOG_TEXT_AT
_MASK = 0xFFFFFFFF  # of those 32 bits
_DELIVERED = "delivered"
"""The default fate, which is not written because nearly every frame has it."""

Fact = str | int | float


def words(facts: Mapping[str, Fact | None]) -> str:
    """Return facts as `key=value` words; None and empty values are left out.

    Raises
    ------
    LocalProtocolError
        If a value contains a space or a control character.
    """
    parts = [f"{key}={value}" for key, value in facts.items() if value is not None and value != ""]
    return _checked(" ".join(parts), words=len(parts))


def _checked(text: str, *, words: int) -> str:
    if not text.isprintable() or text.count(" ") != max(0, words - 1):
        raise LocalProtocolError(
            f"rlpdump: the text {text!r} contains spaces or control characters; remove these characters"
        )
    return text


class RlpdumpWriter:
    """Converts the events of one side to the bytes of its log.

    Parameters
    ----------
    side : {"mobile", "fixed"}
        Side whose log this is; it decides which direction counts as sent.
    facts : mapping
        Facts for the reader: `slot_ns`, `speed`, `clock`, `t1_ms`, ... Values without spaces.
    keep : {"headers", "frames"}
        "headers" truncates information frames after the status octet of the relay, like a snap length of
        tcpdump: the log contains no user data, and a busy link takes less than 1 kB/s compressed.
        "frames" stores all octets, FCS included.
    """

    def __init__(
        self,
        *,
        side: Literal["mobile", "fixed"],
        facts: Mapping[str, Fact] | None = None,
        keep: Literal["headers", "frames"] = "headers",
    ) -> None:
        self._side = side
        self._keep = keep
        self._facts = dict(facts or {})
        self._sends_up = side == "mobile"

    def header(self) -> bytes:
        """Return the start of the file."""
        comment = f"{MARK} {words({'side': self._side, **self._facts})}"
        section = section_header(application=APPLICATION, comment=comment)
        return section + interface_block(name=f"rlp-{self._side}", description="GSM radio link, as GSMTAP")

    def records(self, events: list[LinkEvent]) -> bytes:
        """Return the records of `events`, to append to the file."""
        return b"".join(map(self.record, events))

    def record(self, event: LinkEvent, time_ns: int | None = None) -> bytes:
        """Return the record of one event, a frame or a log line; `time_ns` replaces the event's time."""
        time_ns = event.time_ns if time_ns is None else time_ns
        if isinstance(event, FrameSent):
            tries = event.attempt if event.attempt > 1 else None
            comment = words({"off": event.offset_bytes, "try": tries, "cause": event.cause})
            return self._frame(time_ns, event.tick, event.octets, comment, uplink=self._sends_up)
        if isinstance(event, FrameReceived):
            comment = words({"fate": event.fate if event.fate != _DELIVERED else ""})
            return self._frame(time_ns, event.tick, event.octets, comment, uplink=not self._sends_up)
        if isinstance(event, FrameLost) and event.octets:
            return self._frame(time_ns, event.tick, event.octets, "fate=lost", uplink=not self._sends_up)
        return self._line(event, time_ns)

    def _frame(self, time_ns: int, tick: int, octets: bytes, comment: str, *, uplink: bool) -> bytes:
        packet = encode(GsmtapType.GSM_RLP, octets, uplink=uplink, frame_number=tick)
        cut = len(octets) - _KEPT_OCTETS.get(len(octets), len(octets))
        if self._keep == "frames" or cut == 0 or not is_information(octets):
            return packet_block(packet, time_ns=time_ns, comment=comment)
        return packet_block(packet[:-cut], time_ns=time_ns, comment=comment, original_bytes=len(packet))

    def _line(self, event: LinkEvent, time_ns: int) -> bytes:
        """Return the pcapng record of an event without a frame, as a GSMTAP log line."""
        text = _text(event).encode("ascii", "backslashreplace")
        record = bytearray(_blank_line(len(text), self._side))
        seconds, rest = divmod(time_ns, NS_PER_S)
        _STAMP.pack_into(record, BLOCK_TIME_AT, time_ns >> 32 & _MASK, time_ns & _MASK)
        _TICK.pack_into(record, _TICK_AT, event.tick & _MASK, seconds & _MASK, rest // NS_PER_US)
        record[_TEXT_AT : _TEXT_AT + len(text)] = text
        return bytes(record)


def _text(event: LinkEvent) -> str:
    """Return an event's name and fields as words; None and empty values are left out."""
    name = EVENT_NAMES[type(event)]
    facts: tuple[Fact | None, ...] = event[2:]  # type: ignore[assignment]  # octets only if they are empty
    while facts and facts[-1] in _NOTHING:  # most events have no cause
        facts = facts[:-1]
    if not _NOTHING.isdisjoint(facts):
        return f"{name} {words(dict(zip(_FACTS[name], facts, strict=False)))}"
    return _checked(_template(name, len(facts)) % facts, words=1 + len(facts))


@lru_cache
def _template(name: str, count: int) -> str:
    """Return the text of an event with `count` fields, with a placeholder for each value."""
    return " ".join([name, *(f"{fact}=%s" for fact in _FACTS[name][:count])])


@lru_cache(maxsize=1024)
def _blank_line(length: int, side: Literal["mobile", "fixed"]) -> bytes:
    """Return the pcapng record of a log line that consists of `length` spaces, at time 0.

    The caller writes text and time into a copy.
    """
    line = log_line(" " * length, time_ns=0, process="rlpdump", subsystem=side)
    return packet_block(encode(GsmtapType.LOG, line, uplink=side == "mobile", frame_number=0), time_ns=0)
