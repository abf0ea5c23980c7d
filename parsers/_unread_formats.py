"""Names formats that are not read: other tools' captures by magic number, and files that look like one.

Each comes with the command that turns it into something that is read, where there is one. Sources: the magic
numbers are those that Wireshark's wiretap library and file(1) know them by; NetMetrix, TSH and the classic
EtherPeek header as tcptrace reads them.
"""

from __future__ import annotations

import re
import shlex
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EDITCAP = "convert it: editcap -F pcapng {path} out.pcapng"
_AS_ETHERNET = "convert it: editcap -T ether -F pcapng {path} out.pcapng"
"""Its packets may be of several links, which editcap does not write unless it is told one."""
_TEXT2PCAP = "convert it: text2pcap {path} out.pcap"
_NONE = "no command makes packets of it"
_REPLAY = "multitracer testbed compare {path} replays it"
_TCPTRACE = "no command makes packets of it, but tcptrace reads it"

_MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (b"TRSNIFF data    \x1a", "a capture of the DOS Sniffer", _EDITCAP),
    (b"XCP\0", "a capture of NetXRay or the Windows Sniffer", _EDITCAP),
    (b"VL\0\0", "a capture of an early NetXRay", _EDITCAP),
    (b"iptrace ", "a capture of AIX iptrace", _EDITCAP),
    (b"RTSS", "a capture of Microsoft Network Monitor 1", _EDITCAP),
    (b"GMBU", "a capture of Microsoft Network Monitor 2", _EDITCAP),
    (b"\x42\xd2\x00\x34\x12\x66\x22\x88", "a capture of a RADCOM analyser", _EDITCAP),
    (b"TR\x00d\x00", "a trace of HP-UX nettl", _AS_ETHERNET),
    (b"\0\0\0\x01\0\0\0\0\0\x07\xd0\0", "a trace of HP-UX nettl", _AS_ETHERNET),
    (b"\x05VNF", "a capture of Visual Networks", _EDITCAP),
    (b"\xaa\xaa\xaa\xaa", "a capture of InfoVista 5View", _EDITCAP),
    (b"ObserverPktBufferVersion=", "a capture of Network Instruments Observer", _EDITCAP),
    (b"\x7fver", "a capture of OmniPeek or EtherPeek (tagged)", _EDITCAP),
    (b"cpse", "a capture of Colasoft Capsa", _EDITCAP),
    (b"\0\0\x02\0\x12\x05\0\x10", "a capture of a Tektronix K12xx (rf5)", _AS_ETHERNET),
    (b"+---------+---------------+----------+", "a text capture of a Tektronix K12xx", _AS_ETHERNET),
    (b"\x01\x10\x4c\0", "a capture of Novell LANalyzer", _EDITCAP),
    (b"\x07\x10\x4c\0", "a capture of Novell LANalyzer", _EDITCAP),
    (b"btsnoop\0", "a Bluetooth capture (btsnoop)", _EDITCAP),
    (b"EyeSDN", "an ISDN trace of EyeSDN", _EDITCAP),
    (b"V0208", "an ISDN trace of Aethra", _EDITCAP),
    (b"Session Transcript", "a trace of Catapult DCT2000", _EDITCAP),
    (b"LOGG", "a bus log of Vector (BLF)", _EDITCAP),
    (b"LPKSHHRH", "a journal of systemd", _NONE),
    (b"#!rtpplay1.0 ", "a dump of rtpdump", _EDITCAP),
    (b"\0\0\x64\x76\0\0\0\x03", "a capture of NetMetrix", _TCPTRACE),
    (b"\0\0\x64\x76\0\0\0\x04", "a capture of NetMetrix", _TCPTRACE),
    (b"timeval unsigned", "a drawing for xplot, not a capture", "draw it: xplot.org {path}"),
)

_PACKETDRILL = re.compile(
    rb"socket\(\.\.\.,\s*SOCK_STREAM|^[+*]?[\d.~]*\s+[<>]\s+[SFPRWEU.]+\s+\d+:\d+\(\d+\)", re.M
)
_MAHIMAHI = re.compile(rb"(\d{1,9}\n){5,}\d{0,9}\Z")
_HEX_DUMP = re.compile(rb"\A\s*(0x)?0{3,8}:?\s+([0-9a-fA-F]{2}\s){4,}")
_TCPDUMP_TEXT = re.compile(rb"^(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6}( \(.*\))? IP6? ", re.M)
_CONTROL = bytes({*range(32)} - {9, 10, 12, 13, 27})


def named(head: bytes, *, path: str) -> str | None:
    """Return what an unreadable file is, and what to do with it; None if it is unknown."""
    for magic, name, advice in _MAGICS:
        if head.startswith(magic):
            return _message(name, advice, path)
    for looks, name, advice in _LOOKS:
        if looks(head):
            return _message(name, advice, path)
    return None


def _message(name: str, advice: str, path: str) -> str:
    return f"this is {name}, which is not read; {advice.format(path=shlex.quote(path))}"


def kind_of(head: bytes) -> str:
    """Return the likely kind of bytes: JSON, XML, text or binary."""
    if not _is_text(head):
        return "binary"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return {b"{": "JSON", b"[": "JSON", b"<": "XML"}.get(start, "text")


def _is_text(head: bytes) -> bool:
    if head.translate(None, _CONTROL) != head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and error.reason == "unexpected end of data"
    return True


def looks_like_columns(head: bytes) -> bool:
    """Return whether the first two lines of a text have equally many fields, three or more."""
    lines = [line for line in head.splitlines()[:12] if line.strip() and not line.startswith(b"#")][:2]
    counts = ({line.count(delimiter) for line in lines} for delimiter in (b",", b";", b"\t", b"|"))
    return _is_text(head) and len(lines) == 2 and any(len(each) == 1 and min(each) >= 2 for each in counts)


def _is_text_like(pattern: re.Pattern[bytes]) -> Callable[[bytes], bool]:
    return lambda head: _is_text(head) and pattern.search(head) is not None


def _is_mahimahi(head: bytes) -> bool:
    """Return whether each line is a whole number, never smaller than the one before."""
    if not _MAHIMAHI.fullmatch(head):
        return False
    numbers = [int(line) for line in head.split(b"\n")[:-1]]
    return numbers == sorted(numbers)


def _is_etherpeek(head: bytes) -> bool:
    """Return whether a version, the counters of the file and three words of zero follow each other."""
    if len(head) < 50 or head[0] not in (5, 6, 7):
        return False
    length, packets, _, _, _, medium, physical, *_ = struct.unpack_from(">9I", head, 2)
    return not any(head[38:50]) and 0 < packets < length and medium < 32 and physical < 8


def _is_tsh(head: bytes) -> bool:
    """Return whether each 44 bytes begin with a time and an IP header without options."""
    records = [head[at : at + 44] for at in range(0, len(head) - 43, 44)][:8]
    return len(records) >= 5 and all(
        r[8] == 0x45
        and int.from_bytes(r[5:8], "big") < 1_000_000
        and abs(int.from_bytes(r[:4], "big") - int.from_bytes(records[0][:4], "big")) < 86_400
        for r in records
    )


def _is_utf_16(head: bytes) -> bool:
    """Return whether bytes are text of two bytes a character behind the mark of their order, as of Excel."""
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) or len(head) < _LEAST_UTF_16_BYTES:
        return False
    text = head[: len(head) // 2 * 2].decode("utf-16", "replace")
    return all(character.isprintable() or character in "\t\r\n" for character in text)


_LEAST_UTF_16_BYTES = 16  # fewer bytes may be anything; not measured
_LOOKS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (_is_mahimahi, "a link trace of Mahimahi", _REPLAY),
    (_is_text_like(_PACKETDRILL), "a script of packetdrill", "record while packetdrill runs it"),
    (_is_text_like(_HEX_DUMP), "a hex dump", _TEXT2PCAP),
    (_is_text_like(_TCPDUMP_TEXT), "what tcpdump printed", "record again: tcpdump -w out.pcap"),
    (_is_utf_16, "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 {path} > out.csv"),
    (_is_tsh, "a TSH trace of headers (NLANR)", _TCPTRACE),
    (_is_etherpeek, "a capture of EtherPeek", _EDITCAP),
)
