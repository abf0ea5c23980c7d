"""Finds formats: every public module of `parsers`, then the entry points `multitracer.formats`.

An exception in one of our own modules is a bug and is not caught. A plug-in is left out if it does not load,
has no FORMAT, or repeats a name, and `installed().broken` states why; so it does of a misspelt name of the group. So
one broken package does not make all session folders unreadable.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import shlex
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, get_args

from multitracer.capture import CaptureTables
from multitracer.errors import (
    FormatError,
    InputError,
    PluginError,
    UnknownFormatError,
    answering_within,
    bound_elsewhere,
    right_argument,
    right_name,
)
from multitracer.tables import Column, Schema, Table
from parsers._format import Format, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from parsers._format import Parsed
    from parsers._text.mapped_log import BundledMap

# Formats that other packages bring: how they are found, without loading them.


ENTRY_POINTS = "multitracer.formats"


_GROUPS = (ENTRY_POINTS, "multitracer.collectors")
"""All groups of entry points that are used."""
_OURS = re.compile(r"multi[_-]?tracer", re.IGNORECASE)
"""Begin of the name of a group that is meant for us."""
_SIMILARITY = 0.95
"""Smallest similarity (difflib) of another group that is meant for us: one wrong letter has 0.97, the group of the same
name of a package `multitrack` 0.92."""


def entry_points() -> list[EntryPoint]:
    """Return the entry points in groups with our name, sorted by name: of formats, and of groups that are misspelt."""
    import importlib.metadata  # noqa: PLC0415  it costs 10 ms, and reading a capture does not need it

    known = importlib.metadata.entry_points()
    groups = [group for group in known.groups if _is_ours(group) and group not in _GROUPS[1:]]
    return sorted((each for group in groups for each in known.select(group=group)), key=lambda p: (p.name, p.value))


def _is_ours(group: str) -> bool:
    from difflib import get_close_matches  # noqa: PLC0415  # only where there are other groups

    return bool(_OURS.match(group) or get_close_matches(group.lower(), _GROUPS, 1, _SIMILARITY))


@functools.cache
def has_plug_ins() -> bool:
    """Return whether other packages provide formats, or try to."""
    return bool(entry_points())


# Names formats that are not read: other tools' captures by magic number, and files that look like one.
#
# Each comes with the command that turns it into something that is read, where there is one. Sources: the
# magic numbers are those that Wireshark's wiretap library and file(1) know them by; NetMetrix, TSH and the
# classic EtherPeek header as tcptrace reads them.


_EDITCAP = "convert it: editcap -F pcapng {path} out.pcapng"
_AS_ETHERNET = "convert it: editcap -T ether -F pcapng {path} out.pcapng"
"""Advice for formats whose packets may have several link types: editcap needs one to be named."""
_TEXT2PCAP = "convert it: text2pcap {path} out.pcap"
_NONE = "this format cannot be converted to packets"
_REPLAY = "multitracer testbed compare {path} replays this trace"
_TCPTRACE = "this format cannot be converted to packets, but tcptrace reads it"

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

_PACKETDRILL = re.compile(rb"socket\(\.\.\.,\s*SOCK_STREAM|^[+*]?[\d.~]*\s+[<>]\s+[SFPRWEU.]+\s+\d+:\d+\(\d+\)", re.M)
_MAHIMAHI = re.compile(rb"(\d{1,9}\n){5,}\d{0,9}\Z")
_HEX_DUMP = re.compile(rb"\A\s*(0x)?0{3,8}:?\s+([0-9a-fA-F]{2}\s){4,}")
_TCPDUMP_TEXT = re.compile(
    rb"^ ?(?:(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6,9} |\d{1,10}\.\d{6,9} )?"
    rb"(?:\S{1,20} +(?:In|Out|P|B|M) +)?"
    rb"(?:IP6? (?:\([^\n]*\)|\S{1,80} > \S{1,80}: (?:Flags|UDP|ICMP6?|tcp|udp|\[)|\S+ > \S+:)"
    rb"|[^\n]{0,80}, ethertype IPv[46] )",
    re.MULTILINE,
)
_KML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<[^\0]{0,2000}?<kml[\s>]|\A(?:\xef\xbb\xbf)?\s*<kml[\s>]")
_NEMO = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:#[A-Z]{1,10},[^\n]*\n)*?#(?:AV|VF|FF|START),[^\n]*,")
_CONTROL = bytes({*range(32)} - {9, 10, 12, 13, 27})


def named(head: bytes, *, path: str) -> str | None:
    """Return a description of an unreadable file and advice for it; None if its format is unknown."""
    for magic, name, advice in _MAGICS:
        if head.startswith(magic):
            return _message(name, advice, path)
    for looks, name, advice in _LOOKS:
        if looks(head):
            return _message(name, advice, path)
    return None


def _message(name: str, advice: str, path: str) -> str:
    return f"this is {name}, a format that cannot be read; {advice.format(path=shlex.quote(path))}"


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
        return error.start >= len(head) - 3 and error.reason == "the data end unexpectedly"
    return True


def looks_like_columns(head: bytes) -> bool:
    """Return whether the first two lines of a text have equally many fields, three or more."""
    lines = [line for line in head.splitlines()[:12] if line.strip() and not line.startswith(b"#")][:2]
    counts = ({line.count(delimiter) for line in lines} for delimiter in (b",", b";", b"\t", b"|"))
    return _is_text(head) and len(lines) == 2 and any(len(each) == 1 and min(each) >= 2 for each in counts)


def looks_like_values(head: bytes) -> bool:
    """Return whether the lines of a text, but for the first, begin with a number each."""
    lines = head.splitlines()[1:12]
    return _is_text(head) and len(lines) >= _FEWEST_VALUES and all(map(_VALUE.match, lines[:-1]))


_FEWEST_VALUES = 4
_VALUE = re.compile(rb"\s*-?\d{1,15}(?:\.\d+)?\s*(?:[,;\t|][^,;\t|]{0,20})?$")


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
    """Return whether bytes are UTF-16 text with a byte order mark, as Excel writes it."""
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) or len(head) < _MIN_UTF_16_BYTES:
        return False
    text = head[: len(head) // 2 * 2].decode("utf-16", "replace")
    return all(character.isprintable() or character in "\t\r\n" for character in text)


_MIN_UTF_16_BYTES = 16  # fewer bytes may be anything; not measured
_LOOKS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (_is_mahimahi, "a link trace of Mahimahi", _REPLAY),
    (_is_text_like(_PACKETDRILL), "a script of packetdrill", "record packets while packetdrill runs this script"),
    (_is_text_like(_HEX_DUMP), "a hex dump", _TEXT2PCAP),
    (_is_text_like(_TCPDUMP_TEXT), "text output of tcpdump", "record again: tcpdump -w out.pcap"),
    (_is_text_like(_NEMO), "a measurement file of Nemo (NMF)", "export it as CSV with Nemo Outdoor or Nemo Analyze"),
    (_is_text_like(_KML), "a drawing for maps (KML)", "use the text or CSV file that the program wrote beside it"),
    (_is_utf_16, "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 {path} > out.csv"),
    (_is_tsh, "a TSH trace of headers (NLANR)", _TCPTRACE),
    (_is_etherpeek, "a capture of EtherPeek", _EDITCAP),
)


_ANSWERS: tuple[Match, ...] = get_args(Match)
_SNIFF_S = 5.0
"""Time for the sniff of a plug-in in s: it looks at 4 KiB. Not measured."""
_LONGEST_SHOWN = 60


class InstalledFormats(NamedTuple):
    """The formats that can be used, and the reasons why others cannot."""

    formats: dict[str, Format]
    """Formats by name."""
    broken: list[PluginError]
    """One error for each plug-in that was left out."""


@functools.cache
def installed() -> InstalledFormats:
    """Return every installed format.

    Raises
    ------
    PluginError
        If a public module of this package binds no FORMAT, or repeats a name.
    """
    registry = InstalledFormats({}, [])
    for module in _own_modules():
        fmt = _bound(module, module.__name__, taken=registry.formats)
        registry.formats[fmt.name] = fmt
    layers = frozenset(fmt.layer for fmt in registry.formats.values())
    for point in entry_points():
        try:
            _check_group(point)
            fmt = _bound(point.load(), point.value, taken=registry.formats)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a plug-in may raise anything in its import
            registry.broken.append(
                PluginError(
                    f"format plug-in {point.name} ({point.value}): cannot load the plug-in: "
                    f"{_words(error)}{right_argument(error, Format.__dataclass_fields__)}; the plug-in is not used"
                )
            )
        else:
            registry.formats[fmt.name] = _guarded(fmt, registry.broken, layers)
    return registry


def _check_group(point: EntryPoint) -> None:
    if point.group != ENTRY_POINTS:
        advice = right_name(point.group.lower(), _GROUPS) or f"; write {' or '.join(_GROUPS)}"
        raise PluginError(f"{point.group!r} is no group of entry points{advice}")


def _bound(module: object, name: str, *, taken: Container[str]) -> Format:
    fmt = getattr(module, "FORMAT", None)
    if not isinstance(fmt, Format):
        advice = bound_elsewhere(module, "FORMAT", Format)
        raise PluginError(f"{name}: the module has no FORMAT of type parsers.Format; {advice}")
    if fmt.name in taken:
        raise PluginError(f"{name}: a format named {fmt.name!r} already exists; rename one of them")
    return fmt


def _guarded(fmt: Format, broken: list[PluginError], layers: frozenset[str]) -> Format:
    """Return a plug-in's format with errors caught: `sniff` then answers no, `parse` raises FormatError."""

    def sniff(head: bytes, /) -> Match:
        try:
            with answering_within(_SNIFF_S):
                return _checked(fmt.sniff(head))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # see `Format.sniff`: it never raises, if it is right
            sentence = f"format plug-in {fmt.name}: its sniff failed: {_words(error)}"
            if sentence not in map(str, broken):  # once, though it is asked for each file
                broken.append(PluginError(sentence))
            return "no"

    def parse(stream: BinaryIO, *, path: str) -> Parsed:
        try:
            parsed = fmt.parse(stream, path=path)
        except (FormatError, InputError):
            raise
        except (Exception, SystemExit) as error:
            raise FormatError(path, f"the format plug-in {fmt.name} failed: {_words(error)}") from error
        if not _holds_tables(parsed) and not isinstance(parsed, CaptureTables):
            raise FormatError(path, f"the format plug-in {fmt.name} must return a dict of tables by name")
        if isinstance(parsed, dict) and (lacking := _lacking_columns(parsed)):
            raise FormatError(path, f"the format plug-in {fmt.name} must return {lacking}; see docs/tables.md")
        if isinstance(parsed, dict) and fmt.layer not in layers and (table := next(filter(_own_columns, parsed), "")):
            advice = right_name(fmt.layer, layers) or f"; write one of {', '.join(sorted(layers))}"
            where = f"has the table {table} in the layer {fmt.layer!r}, in which nobody looks for it"
            raise FormatError(path, f"the format plug-in {fmt.name} {where}{advice}")
        return parsed

    return replace(fmt, sniff=sniff, parse=parse, blocks=None)


def _checked(answer: Match) -> Match:
    if answer not in _ANSWERS:
        raise PluginError(
            f"the function sniff returned {str(answer)[:_LONGEST_SHOWN]!r}, but must return one of "
            f"{', '.join(_ANSWERS)}"
        )
    return answer


def _lacking_columns(tables: dict[str, Table]) -> str:
    """Return which columns the tables under our names lack, or have with another type or unit; empty if none."""
    for name, table in tables.items():
        given = {(each.name, each.dtype, each.unit) for each in table.schema.columns}
        own = {(each.name, each.dtype, each.unit) for each in _own_columns(name)}
        if lacking := sorted(own - given):
            column, dtype, unit = lacking[0]
            return f"the column {column} ({dtype}{f', {unit}' if unit else ''}) in the table {name}"
    return ""


@functools.cache
def _own_columns(table: str) -> tuple[Column, ...]:
    """Return the columns of a table of ours that logs become; none for a name that is not ours."""
    from multitracer.schemas import application, link, radio, sender, signalling, transactions  # noqa: PLC0415  # only for plug-ins

    modules = (application, link, radio, sender, signalling, transactions)
    known = [each for module in modules for each in vars(module).values() if isinstance(each, Schema)]
    return next((each.columns for each in known if each.name == table), ())


def _holds_tables(parsed: object) -> bool:
    return isinstance(parsed, dict) and all(
        isinstance(table, Table) and name == table.schema.name for name, table in parsed.items()
    )


def _own_modules() -> Iterator[ModuleType]:
    package = importlib.import_module("parsers")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    for name in names:
        yield importlib.import_module(f"parsers.{name}")


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"


def formats() -> list[Format]:
    """Return every installed format that can be used, by name."""
    return [fmt for _, fmt in sorted(installed().formats.items())]


def left_out() -> list[PluginError]:
    """Return the errors of plug-ins that cannot be used; without plug-ins no format is loaded for this."""
    return installed().broken if has_plug_ins() else []


def bundled_maps() -> tuple[BundledMap, ...]:
    """Return the maps of CSV columns that come with MultiTracer, by name."""
    from parsers._text import mapped_log  # noqa: PLC0415  only for a list of the formats

    return mapped_log.bundled_maps()


def recognise(head: bytes, *, path: str) -> Format:
    """Return the one format that claims `head`: exactly one "yes", else exactly one "maybe".

    Raises
    ------
    UnknownFormatError
        If none or several claim it; the message lists the candidates.
    """
    answers = {fmt.name: fmt.sniff(head) for fmt in formats()}
    for level in ("yes", "maybe"):
        claims = [name for name, answer in answers.items() if answer == level]
        if len(claims) == 1:
            return installed().formats[claims[0]]
        if claims:
            raise UnknownFormatError(
                f"{path}: several formats match this file: {', '.join(claims)}; select one of these formats"
            )
    broken = "".join(f"; {error}" for error in installed().broken) if head else ""
    raise UnknownFormatError(f"{path}: {_unknown(head, path)}{broken}")


def _unknown(head: bytes, path: str) -> str:
    if head and (message := named(head, path=path)):
        return message
    known = ", ".join(installed().formats)
    what = f"the format is unknown (the file begins with {head[:8]!r}, and looks like {kind_of(head)})"
    if looks_like_columns(head):
        command = f"multitracer formats --propose {path} > {path}.toml"
        what += f"; for a CSV log, `{command}` proposes a column map"
    elif looks_like_values(head):
        command = f"multitracer formats --propose {path} --start TIME --step SECONDS > {path}.toml"
        what += f"; for values at equal intervals, `{command}` proposes a column map"
    return f"{what}; installed formats: {known}" if head else "the file is empty"
