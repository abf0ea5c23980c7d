"""Android's bug report: a zip, or the text in it (`adb bugreport`).

Of the text are read: the dump of the telephony registry (`radio`, as in `telephony_registry`), the levels that the
radio log has of unsolicited responses (`radio`), and the changes of cell and data state of the event log and of the
radio log (`phone_events`). Logs that lie beside it in the zip (`FS/data/…logcat…`) are read alike. Nothing is
unpacked to a disk: the members of the zip are read one after the other, in bounded memory, and only so much of each
and of all; a name in it is no path. Numbers of callers and subscribers, and the texts of messages are not read.

Times in the text are local times of the phone without a year: the report's date and its property persist.sys.timezone
give the rest. Source: Android, frameworks/native/cmds/dumpstate (README, dumpstate.cpp); logcat, format threadtime;
EventLogTags.logtags of frameworks/opt/telephony; APPNOTE.TXT of PKWARE, 4.3 and 4.4, for the zip.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO
from zoneinfo import ZoneInfo

import numpy as np

from multitracer.errors import FormatError
from multitracer.schemas.radio import PHONE_EVENTS
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from parsers._forced import forced_date, forced_zone
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import NO_YEAR, ZONELESS, LogLines
from parsers._text.times import noted, ns_since_1970
from parsers.telephony_registry import RegistryDumps, radio_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Table

# --- the zip ---

_LOCAL, _DESCRIPTOR = b"PK\x03\x04", b"PK\x07\x08"
_DIRECTORY = (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x08")
"""What may follow the last member: headers of the directory, its end, that of zip64, and archive extra data."""
_HEAD = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _HAS_DESCRIPTOR = 1, 8
_UNKNOWN_SIZE = 0xFFFF_FFFF
_CHUNK = 1 << 16
_MOST_MEMBERS = 100_000
_MOST_UNPACKED = 2 << 30
"""Unpacked bytes of all members that are read: a report has some 100 MB. A bomb ends here, after half a minute."""
_TEXT = re.compile(r"(bugreport|dumpstate)[\w.@+-]{0,200}\.txt|FS/data/[\w./@+ -]{0,300}(logcat|radio)[\w.@+-]{0,100}")
"""Members that are read."""
_FIRST = ("version.txt", "main_entry.txt", "bugreport", "dumpstate", "FS/")
"""How the name of the first member begins, in a zip that is a report."""


class _Zip(io.RawIOBase):
    """The members of a zip that are read, as one stream; nothing is sought."""

    def __init__(self, stored: BinaryIO, path: str) -> None:
        super().__init__()
        self._stored = stored
        self._path = path
        self._pending = b""
        self._at = 0
        self._left = _MOST_UNPACKED
        self._chunks = self._texts()
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._text:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._text = memoryview(chunk)
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size

    def _texts(self) -> Iterator[bytes]:
        """Yield the texts of the members that are read."""
        for _ in range(_MOST_MEMBERS):
            if (mark := self._peek(4)) != _LOCAL:
                if mark not in _DIRECTORY:
                    self._fail("damaged zip: neither a member nor the directory follows")
                return  # all members were read
            _, _, flags, method, _, _, _, packed, _, name_bytes, extra_bytes = _HEAD.unpack(self._take(_HEAD.size))
            name = self._take(name_bytes).decode("utf-8", "replace")
            self._take(extra_bytes)
            has_size = not flags & _HAS_DESCRIPTOR and packed != _UNKNOWN_SIZE
            if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED) or (method == _STORED and not has_size):
                self._fail("it is encrypted, or packed in an unsupported way; unpack it, and read bugreport-*.txt")
            is_read = _TEXT.fullmatch(name) is not None and ".." not in name
            if has_size and not is_read:
                self._skip(packed)
            elif method == _STORED:
                yield from self._copied(packed)
            else:
                yield from self._inflated(is_read=is_read)
            if flags & _HAS_DESCRIPTOR:
                self._pass_descriptor()
            if is_read:
                yield b"\n"
        self._fail(f"damaged zip: it has more than {_MOST_MEMBERS:,} members; unpack it by hand")

    def _copied(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self._take(min(size, _CHUNK))
            size -= len(chunk)
            yield self._counted(chunk)

    def _inflated(self, *, is_read: bool) -> Iterator[bytes]:
        inner = zlib.decompressobj(wbits=-15)
        while not inner.eof:
            data = inner.unconsumed_tail or self._some()
            try:
                text = inner.decompress(data, _CHUNK)
            except zlib.error as error:
                self._fail(f"damaged zip: {error}")
            self._counted(text)
            if is_read:
                yield text
        self._pending = inner.unused_data + self._pending
        self._at -= len(inner.unused_data)

    def _counted(self, text: bytes) -> bytes:
        self._left -= len(text)
        if self._left < 0:
            self._fail(f"damaged zip: it unpacks to more than {_MOST_UNPACKED >> 30} GiB; unpack it by hand")
        return text

    def _pass_descriptor(self) -> None:
        """Pass over the data descriptor: with or without a signature, with sizes of 4 or 8 bytes."""
        head = self._peek(28)
        begin = 4 if head[:4] == _DESCRIPTOR else 0
        sizes = [size for size in (begin + 12, begin + 20) if head[size : size + 2] in (b"PK", b"")]
        self._take(min(sizes[0] if sizes else begin + 12, len(head)))

    def _skip(self, size: int) -> None:
        while size:
            size -= len(self._take(min(size, _CHUNK)))

    def _some(self) -> bytes:
        data = self._pending or self._stored.read(_CHUNK)
        self._pending = b""
        self._at += len(data)
        if not data:
            self._fail("damaged zip: it is truncated")
        return data

    def _peek(self, size: int) -> bytes:
        while len(self._pending) < size and (more := self._stored.read(_CHUNK)):
            self._pending += more
        return self._pending[:size]

    def _take(self, size: int) -> bytes:
        data = self._peek(size)
        if len(data) < size:
            self._fail("damaged zip: it is truncated")
        self._pending = self._pending[size:]
        self._at += size
        return data

    def _fail(self, reason: str) -> None:
        raise FormatError(self._path, reason, offset=self._at)


# --- the text ---

_BEGIN = re.compile(r"== dumpstate: (\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)$")
_REGISTRY = re.compile(r"DUMP OF SERVICE (?:[A-Z]{1,10} )?telephony\.registry:")
_REGISTRY_END = re.compile(
    r"-+ (\d{1,4}\.\d{1,3})s was the duration of dumpsys telephony\.registry"
    r"(?:, ending at: (\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d))?"
)
_ZONE = re.compile(r"\[persist\.sys\.timezone\]: \[([A-Za-z0-9_+/-]{1,64})\]")
_LINE = re.compile(
    r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,9})\s+(?:[\w-]{1,32}\s+)?\d{1,8}\s+\d{1,8} [VDIWEF] "
    r"([\w./-]{1,64})\s*: (.*)"
)
_EVENT = re.compile(
    r"(?:gsm|cdma)_(?:service_state_change|data_state_change|rat_switched(?:_new)?)|pdp_\w{1,40}|"
    r"data_(?:network|stall)_\w{1,36}|call_drop|bad_ip_address"
)
_UNSOLICITED = re.compile(r"\[UNSL\]< (UNSOL_\w{1,42})(.*)")
_SOLICITED = re.compile(r"\[\d{4,9}\]< (?:RIL_REQUEST_)?(?:SIGNAL_STRENGTH|GET_CELL_INFO_LIST) (.*)")
"""Answers to questions of Android itself, with levels or cells; an answer with an error has none."""
_STRENGTH = re.compile(r"SignalStrength:? ?\{.*")
_CELLS = re.compile(r"\[CellInfo.*")
_CARD = re.compile(r"\[(?:PHONE|SUB)(\d)\]\s*$")
"""The card of a line of the radio log: `SUB` until Android 9, and of some makers."""
_MOST_REGISTRY = 20_000
"""Lines of a registry: with two cards it has some thousand."""
_MOST_ROWS = 100_000
"""Rows of each table: buffers of Android's log have some thousand lines. It bounds memory, 3 kB a row."""
_MOST_EVENT_TEXT = 200
_ANY_YEAR = 2000
"""A leap year: of times whose year is not known yet."""


class _Report:
    """Collects the rows of one report."""

    def __init__(self, path: str, lines: LogLines) -> None:
        self._path = path
        self._lines = lines
        self._dumps = RegistryDumps(lines)
        self._events = Sparse(PHONE_EVENTS)
        self._registry: list[str] | None = None
        self._cardless = 0
        """Lines of the radio log with levels that name no card."""
        self._begin: datetime | None = None
        self._zone: tzinfo | None = None

    def take(self, text: str) -> None:
        """Read one line."""
        if self._registry is not None:
            self._in_registry(text)
        elif text.startswith("DUMP OF") and _REGISTRY.match(text):
            self._registry = []
        elif text[:1].isdigit():
            self._log_line(text)
        elif begin := _BEGIN.match(text):
            self._begin = self._begin or _datetime(*begin.groups())
        elif zone := _ZONE.match(text):
            self._zone = _zone_of(zone[1])

    def _in_registry(self, text: str) -> None:
        assert self._registry is not None
        end = _REGISTRY_END.match(text)
        if end is None and not text.startswith("DUMP OF SERVICE"):
            if len(self._registry) < _MOST_REGISTRY:
                self._registry.append(text)
            else:
                self._lines.skip("the registry is longer than any that Android writes")
            return
        self._flush(_datetime(*end.groups()[1:]) if end and end[2] else None)

    def _flush(self, at: datetime | None) -> None:
        """Decode the dump of the registry, which ended at a time."""
        if not self._fits(len(self._dumps.rows)):
            self._registry = None
            return
        at = at or self._begin
        self._dumps.stamps = {"time_ns": ns_since_1970(at) if at else None}
        for line in self._registry or ():
            self._dumps.take(line if line[:1].isspace() or line.startswith("last known") else f" {line}")
        self._dumps.flush()
        self._registry = None

    def _log_line(self, text: str) -> None:
        if "_" not in text[:120]:
            return
        line = _LINE.match(text)
        if line is None:
            return
        tag, words = line[7], line[8]
        time_ns = _provisional_ns(*line.groups()[:6])
        if tag in ("RILJ", "RIL-J") and (solicited := _SOLICITED.match(words)):
            if " error" not in solicited[0][:60]:
                self._levels(solicited[1], time_ns)
        elif tag in ("RILJ", "RIL-J") and (unsolicited := _UNSOLICITED.match(words)):
            if unsolicited[1] in ("UNSOL_SIGNAL_STRENGTH", "UNSOL_CELL_INFO_LIST"):
                self._levels(unsolicited[2], time_ns)
            else:
                self._event(time_ns, unsolicited[1], "")  # what follows may be a message, or a caller
        elif _EVENT.fullmatch(tag):
            self._event(time_ns, tag, "".join(c for c in words[:_MOST_EVENT_TEXT] if c.isprintable()))

    def _levels(self, text: str, time_ns: int | None) -> None:
        """Decode levels or cells as those of the registry, which has them under a name."""
        strength, cells = _STRENGTH.search(text), _CELLS.search(text)
        if (strength is None and cells is None) or not self._fits(len(self._dumps.rows)):
            return
        card = _CARD.search(text)
        self._dumps.stamps = {"time_ns": time_ns}
        named = f"mSignalStrength={strength[0]}" if strength else f"mCellInfo={cells[0] if cells else ''}"
        self._dumps.card = int(card[1]) if card else None
        self._cardless += card is None
        self._dumps.take(f" {named}")
        self._dumps.flush()

    def _fits(self, rows: int) -> bool:
        if rows >= _MOST_ROWS:
            self._lines.skip(f"the report has more than {_MOST_ROWS:,} such lines")
        return rows < _MOST_ROWS

    def _event(self, time_ns: int | None, event: str, text: str) -> None:
        if not self._fits(len(self._events)):
            return
        own = {"time_ns": time_ns, "phone_time_ns": time_ns, "line": self._lines.number}
        self._events.append({**own, "event": event[:48], "text": text})

    def tables(self) -> dict[str, Table]:
        """Return the tables, with times of which year and zone are known now.

        Raises
        ------
        FormatError
            If there is nothing of the radio in the report.
        """
        if self._registry is not None:
            self._flush(None)
        if not len(self._dumps.rows) and not len(self._events):
            raise FormatError(self._path, "the report has neither a telephony registry nor a radio log with values")
        zone = self._zone or forced_zone()
        if zone is None:
            self._lines.warn(ZONELESS)
        if self._begin is None and forced_date() is None:
            self._lines.warn(NO_YEAR)
        placed = {"time_ns": self._placed(self._dumps.rows.columns()["time_ns"], zone)}
        radio = radio_of(self._dumps, self._lines, {}, placed)
        if self._cardless and not radio.missing("modem").all():
            self._lines.warn(
                f"{self._cardless:,} lines of the radio log with levels name no SIM card, of several in the report; "
                "that of their rows is not known"
            )
        facts = self._lines.provenance(self._path, FORMAT.name)
        radio.provenance = noted(facts, radio.provenance.get("missing", {}))
        times_ns = self._placed(self._events.columns()["time_ns"], zone)
        events = self._events.table(facts, {"time_ns": times_ns, "phone_time_ns": times_ns})
        return {"radio": radio, "phone_events": events}

    def _placed(self, local_ns: Array, zone: tzinfo | None) -> Array:
        """Return times since 1970 for local times of the phone, some of which have no year yet."""
        stated, newest_ns = forced_date(), None
        year = 1970 if stated is None else stated.year
        if self._begin is not None:
            year = self._begin.year
            newest_ns = ns_since_1970(self._begin.replace(year=_ANY_YEAR)) + 86_400 * NS_PER_S
        values = [self._place(value, year, newest_ns, zone) for value in local_ns.tolist()]
        return np.array(values, np.int64)

    def _place(self, value: int, year: int, newest_ns: int | None, zone: tzinfo | None) -> int:
        if value == NOT_A_TIME:
            return value
        local = datetime.fromtimestamp(value // NS_PER_S, UTC)
        if local.year == _ANY_YEAR:
            is_before = newest_ns is not None and value > newest_ns  # of December, in a report of January
            try:
                local = local.replace(year=year - is_before)
            except ValueError:  # 29 February of a year without one
                return int(NOT_A_TIME)
        return ns_since_1970(local.replace(tzinfo=zone or UTC)) + value % NS_PER_S


def _datetime(*numbers: str) -> datetime | None:
    """Return a date and time of day as if of UTC; None if it cannot be."""
    try:
        year, month, day, hour, minute, second = map(int, numbers)
        made = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return made if 1970 < made.year < 2100 and made.year != _ANY_YEAR else None


def _provisional_ns(month: str, day: str, hour: str, minute: str, second: str, fraction: str) -> int | None:
    """Return a time of day of an unknown year, as of `_ANY_YEAR`; None if it cannot be."""
    try:
        made = datetime(_ANY_YEAR, int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    return ns_since_1970(made) + int(fraction.ljust(9, "0"))


@lru_cache
def _zone_of(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return None


def sniff(head: bytes) -> Match:
    """Return "yes" for a report's text, and for a zip whose first member is one of a report."""
    if head[:4] == _LOCAL and len(head) >= _HEAD.size:
        size = _HEAD.unpack_from(head)[9]
        name = head[_HEAD.size : _HEAD.size + size].decode("utf-8", "replace")
        return "yes" if name.startswith(_FIRST) else "no"
    return "yes" if head.startswith(b"====") and b"\n== dumpstate: " in head else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio` and `phone_events`.

    Raises
    ------
    FormatError
        If the report has nothing of the radio, or if its zip is encrypted.
    """
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(io.BytesIO(stream.read()))
    is_zip = buffered.peek(4)[:4] == _LOCAL
    lines = LogLines(io.BufferedReader(_Zip(buffered, path)) if is_zip else buffered)
    report = _Report(path, lines)
    for text in lines:
        report.take(text)
    return report.tables()


FORMAT = Format(
    name="bugreport",
    layer="radio",
    description="Android's bug report (`adb bugreport`), zip or text: telephony registry, radio log",
    source="Android, frameworks/native/cmds/dumpstate",
    sniff=sniff,
    parse=parse,
)
