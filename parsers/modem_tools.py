"""Output of tools that ask modems (mmcli, qmicli, mbimcli, uqmi, ubus) and of routers, also in a loop.

Each output follows a time stamp (a `date` in the loop), or each line begins with one. Without time stamps,
readings have no time. Source: multitracer/protocols/modem/tools.py, routers.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.protocols.modem.decode import decode
from multitracer.schemas.radio import RADIO
from multitracer.words import count
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import LogLines, date_line
from parsers._text.mapped_log import Jumps, name_legs

if TYPE_CHECKING:
    from multitracer.tables import Table

_MMCLI = re.compile(rb'"modem"\s*:\s*\{\s*"(?:signal|generic|3gpp)"')
_UBUS = re.compile(rb'"modem"\s*:\s*\[\s*\{')
_UQMI = re.compile(rb'"type"\s*:\s*"(?:cdma|hdr|gsm|wcdma|tdma|lte|5gnr)"[^}]{0,200}"(?:rss[iq]|rsrp|signal|ecio)"')
_INFO3G = re.compile(rb'"conn_time"\s*:.{0,2000}"csq"\s*:', re.DOTALL)
_HILINK = re.compile(rb'"rsrp"\s*:\s*"(?:[<>]=?|&[lg]t;=?)?-?\d{1,3}(?:\.\d{1,2})? ?dBm"|"nrrsr[pq]"\s*:')
_XML = re.compile(rb"<response>.{0,4000}?<(?:(?:nr)?rsrp|rscp|rssi)>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The lines of an output that is no document: how it begins, how it goes on, what it has only once."""

    tool: str
    begins: re.Pattern[str]
    goes_on: re.Pattern[str]
    once: re.Pattern[str] | None = None
    """Names that an output has once; where one occurs again, the next output has begun."""


_SHAPES = (
    _Shape(
        "qmicli",
        re.compile(r"\[[^\]]{1,60}\] Successfully got (?:signal|cell location) info"),
        re.compile(r"\s+\S|[A-Za-z0-9-]{2,8}:$|[\w ]{2,40} Info(?: \w+)*:?$|LTE Info .{1,40}$|5GNR .*|$"),
    ),
    _Shape("mbimcli", re.compile(r"\[[^\]]{1,60}\] Signal state:"), re.compile(r"\s+\S|$")),
    _Shape(
        "mmcli",
        re.compile(r"modem\.signal\.[a-z0-9]+\.[a-z-]+\s*:"),
        re.compile(r"modem\.[a-z0-9-]+\.|$"),
        re.compile(r"(modem\.signal\.[a-z0-9]+\.[a-z-]+)\s*:"),
    ),
    _Shape(
        "mmcli",
        re.compile(r"\s*(?:Refresh|Threshold|GSM|UMTS|LTE|5G|CDMA1x|EvDo)\s*\|\s*[a-z/ -]{2,16}:", re.IGNORECASE),
        re.compile(r"\s*-{10,}\s*$|.{0,24}\|.*|$"),
        re.compile(r"\s*([A-Za-z0-9]{2,12})\s*\|"),
    ),
    _Shape(
        "mikrotik",
        re.compile(
            r"\s*(?:status: (?:[a-z-]+ ?){1,3}$|rss[iq]: -?\d+dBm?$"
            r"|(?:pin-status|registration-status|functionality|manufacturer|current-operator|data-class): "
            r"\"?\w)"
        ),
        re.compile(r"\s*[a-z0-9-]+:(?: .*)?$|\s*-- \[|$"),
        re.compile(r"\s*((?!ca-band)[a-z0-9-]+):"),
    ),
    _Shape(
        "gsmctl",
        re.compile(r"(?:RSSI|RSRP|RSRQ|SINR):\s*-?\d"),
        re.compile(r"(?:RSSI|RSRP|RSRQ|SINR):\s*-?\d"),
        re.compile(r"([A-Z]+):"),
    ),
)
_TEXTS = (
    re.compile(rb"^\[[^\]\n]{1,60}\] (?:Successfully got (?:signal|cell location) info|Signal state:)", re.MULTILINE),
    re.compile(rb"^[^\n\"]{0,40}?modem\.signal\.(?:gsm|umts|lte|5g|cdma1x|evdo)\.[a-z-]{2,12}\s*:", re.MULTILINE),
    re.compile(rb"^[^\n\"]{0,40}?\|\s+(?:rssi|rsrp|rscp):\s+-\d{1,3}(?:\.\d\d)? dBm\r?$", re.MULTILINE),
    re.compile(
        rb"^[ \t]*(?:status|current-operator|phy-cellid|session-uptime|data-class|access-technology):"
        rb".{0,2000}?"
        rb"^[ \t]*(?:nr-)?rsr[pq]: -\d{1,3}(?:\.\d)?dBm?\r?$",
        re.MULTILINE | re.DOTALL,
    ),
    re.compile(rb"^RSSI: -?\d+\s*\nRSRP: -?\d+\s*\n(?:SINR|RSRQ): -?\d", re.MULTILINE),
)
_XML_BEGINS = re.compile(r"\s*(?:<\?xml [^>]{0,80}\?>\s*)?<response>")
_WORD = re.compile(r"\w")
_MOST_LINES = 4096
_MOST_CHARACTERS = 1 << 18


class _Log:
    """Reads the outputs of a log, and collects the rows."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = Sparse(RADIO)
        self.jumps = Jumps()
        self.outside = 0
        """Number of lines that are part of no output."""
        self._stamp_ns: int | None = None
        self._output: list[str] = []
        self._size = 0
        self._open = 0
        """Number of brackets of a JSON document that are open."""
        self._tool = ""
        self._shape: _Shape | None = None
        self._names: set[str] = set()
        self._begin = 0

    def take(self, text: str) -> None:
        """Read one line."""
        stamp = date_line(text) if text[:1] not in '{}]\t"' else None
        if stamp is not None:
            if not stamp.rest:
                self.flush()
            self._stamp_ns = self._lines.time_of(stamp)
            self.jumps.take(self._lines.number, self._stamp_ns)
            text = stamp.rest
            if stamp.caveat:
                self._lines.warn(stamp.caveat)
        if not self._goes_on(text):
            self.flush()
            self._start(text)
        if self._tool and text:
            self._add(text)
        elif _WORD.search(text) and not text.startswith("<?xml"):
            self.outside += 1

    def _goes_on(self, text: str) -> bool:
        """Return whether a line is part of the current output."""
        shape = self._shape
        if shape is None:
            return bool(self._tool)
        if not shape.goes_on.match(text) or (shape.once is None and shape.begins.match(text)):
            return False
        name = shape.once.match(text) if shape.once else None
        if name and name[1] in self._names:
            return False
        self._names.update([name[1]] if name else [])
        return True

    def _start(self, text: str) -> None:
        """Begin an output if this line is the first of one."""
        shape = next((shape for shape in _SHAPES if shape.begins.match(text)), None)
        if shape is not None:
            self._tool, self._shape = shape.tool, shape
            name = shape.once.match(text) if shape.once else None
            self._names = {name[1]} if name else set()
        elif text[:1] in ("{", "["):
            self._tool = "uqmi"
        elif _XML_BEGINS.match(text):
            self._tool = "hilink"
        self._begin = self._lines.number

    def _add(self, text: str) -> None:
        self._output.append(text)
        self._size += len(text)
        self._open += text.count("{") + text.count("[") - text.count("}") - text.count("]")
        if len(self._output) > _MOST_LINES or self._size > _MOST_CHARACTERS:
            self._lines.skip("the output is longer than that of any supported tool")
            self._reset()
        elif self._shape is None and (("</response>" in text) if self._tool == "hilink" else self._open <= 0):
            self.flush()

    def _reset(self) -> str:
        output = "\n".join(self._output)
        self._output, self._tool, self._shape = [], "", None
        self._size = self._open = 0
        return output

    def flush(self) -> None:
        """Decode the current output."""
        tool = self._tool
        output = self._reset()
        if not output:
            return
        decoded = decode(_tool_of(output) if tool == "uqmi" else tool, output.encode())
        for reason in decoded.refused:
            self._lines.skip(reason)
        for reading in decoded.readings:
            self.rows.append({"role": "serving", **reading, "time_ns": self._stamp_ns, "line": self._begin})


def _tool_of(document: str) -> str:
    """Return the tool that wrote a JSON document."""
    octets = document.encode()
    if _MMCLI.search(octets) or _UBUS.search(octets):
        return "mmcli"
    if _INFO3G.search(octets):
        return "3ginfo"
    return "hilink" if _HILINK.search(octets) else "uqmi"


def sniff(head: bytes) -> Match:
    """Return "yes" for the output of one of the tools."""
    if head.startswith(b'{"kind":'):
        return "no"
    if _UBUS.search(head) and b'"signal"' in head:
        return "yes"
    shapes = (_MMCLI, _UQMI, _INFO3G, _HILINK, _XML, *_TEXTS)
    return "yes" if any(shape.search(head) for shape in shapes) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `radio`.

    Raises
    ------
    FormatError
        If the log contains no output of these tools.
    """
    lines = LogLines(stream)
    log = _Log(lines)
    for text in lines:
        log.take(text)
    if lines.cut:
        log.take(lines.cut.decode(errors="replace"))  # a document that is whole needs no line end
    log.flush()
    lines.warn_of_skipped()
    for sentence in log.jumps.sentences():
        lines.warn(sentence)
    if not len(log.rows):
        raise FormatError(path, "the file contains no output of a tool or router with signal values")
    if log.outside:
        lines.warn(f"{count(log.outside, 'line')} of the log are no output of a supported tool and were not read")
    radio = log.rows.table(lines.provenance(path, FORMAT.name))
    name_legs(radio)
    return {"radio": radio}


FORMAT = Format(
    name="modem-tools",
    layer="radio",
    description="signal as mmcli, qmicli, mbimcli, uqmi, ubus or a router prints it",
    source="ModemManager, libqmi, libmbim, uqmi; 3ginfo.sh, RUTOS, HiLink, MikroTik",
    sniff=sniff,
    parse=parse,
)
