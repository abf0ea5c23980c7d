"""Output of `mmcli --signal-get -J`, `qmicli --nas-get-signal-info` and `uqmi --get-signal-info`, in a loop.

Each output follows a time stamp (a `date` in the loop), or each line begins with one. Without time stamps,
readings have no time. Source: multitracer/protocols/modem/tools.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.protocols.modem.decode import decode
from multitracer.schemas.radio import RADIO
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import LogLines, date_line
from parsers._text.mapped_log import Jumps, name_legs

if TYPE_CHECKING:
    from multitracer.tables import Table

_MMCLI = re.compile(rb'"modem"\s*:\s*\{\s*"(?:signal|generic|3gpp)"')
_QMICLI = re.compile(rb"^\[[^\]\n]{1,60}\] Successfully got signal info", re.MULTILINE)
_UQMI = re.compile(
    rb'"type"\s*:\s*"(?:cdma|hdr|gsm|wcdma|tdma|lte|5gnr)"[^}]{0,200}"(?:rss[iq]|rsrp|signal|ecio)"'
)
_INFO3G = re.compile(rb'"conn_time"\s*:.{0,2000}"csq"\s*:', re.DOTALL)
_GSMCTL = re.compile(rb"^RSSI: -?\d+\s*\nRSRP: -?\d+\s*\n(?:SINR|RSRQ): -?\d", re.MULTILINE)
_GSMCTL_LINE = re.compile(r"(?:RSSI|RSRP|RSRQ|SINR):\s*-?\d")
_QMICLI_LINE = re.compile(r"\s+\S|[A-Za-z0-9-]{2,8}:$|$")
_MOST_LINES = 256
_MOST_CHARACTERS = 1 << 16


class _Log:
    """Reads the outputs of a log, and collects the rows."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = Sparse(RADIO)
        self.jumps = Jumps()
        self._stamp_ns: int | None = None
        self._output: list[str] = []
        self._tool = ""
        self._begin = 0

    def take(self, text: str) -> None:
        """Read one line."""
        stamp = date_line(text) if text[:1] not in '{}]\t"' else None
        if stamp is not None:
            if not stamp.rest:
                self.flush()
            self._stamp_ns = stamp.time_ns
            self.jumps.take(self._lines.number, stamp.time_ns)
            text = stamp.rest
            if stamp.caveat:
                self._lines.warn(stamp.caveat)
        tool = self._starts(text)
        if tool:
            self.flush()
            self._tool, self._begin = tool, self._lines.number
        if self._tool and text:
            self._add(text)

    def _starts(self, text: str) -> str:
        """Return the tool whose output begins with this line; "" if there is none."""
        if "] Successfully got signal info" in text:
            return "qmicli"
        if self._tool != "gsmctl" and not self._output and _GSMCTL_LINE.match(text):
            return "gsmctl"
        if self._tool in ("", "qmicli", "gsmctl") and text[:1] in ("{", "[") and not text.startswith("[/"):
            return "uqmi"
        return ""

    def _add(self, text: str) -> None:
        shape = {"qmicli": _QMICLI_LINE, "gsmctl": _GSMCTL_LINE}.get(self._tool)
        if shape is not None and self._output and not shape.match(text):
            self.flush()
            return
        self._output.append(text)
        if len(self._output) > _MOST_LINES or sum(map(len, self._output)) > _MOST_CHARACTERS:
            self._lines.skip("the output is longer than that of any supported tool")
            self._output, self._tool = [], ""
        elif shape is None and self._is_balanced():
            self.flush()

    def _is_balanced(self) -> bool:
        text = "".join(self._output)
        return text.count("{") + text.count("[") == text.count("}") + text.count("]")

    def flush(self) -> None:
        """Decode the current output."""
        output, tool = "\n".join(self._output), self._tool
        self._output, self._tool = [], ""
        if not output:
            return
        if tool == "uqmi" and _MMCLI.search(output.encode()):
            tool = "mmcli"
        elif tool == "uqmi" and _INFO3G.search(output.encode()):
            tool = "3ginfo"
        decoded = decode(tool, output.encode())
        for reason in decoded.refused:
            self._lines.skip(reason)
        for reading in decoded.readings:
            self.rows.append({"role": "serving", **reading, "time_ns": self._stamp_ns, "line": self._begin})


def sniff(head: bytes) -> Match:
    """Return "yes" for the output of one of the tools."""
    if head.startswith(b'{"kind":'):
        return "no"
    shapes = (_MMCLI, _QMICLI, _UQMI, _INFO3G, _GSMCTL)
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
    for sentence in log.jumps.sentences():
        lines.warn(sentence)
    if not len(log.rows):
        raise FormatError(
            path, "the file contains no output of mmcli, qmicli, uqmi, 3ginfo or gsmctl with signal values"
        )
    radio = log.rows.table(lines.provenance(path, FORMAT.name))
    name_legs(radio)
    return {"radio": radio}


FORMAT = Format(
    name="modem-tools",
    layer="radio",
    description="signal as mmcli, qmicli, uqmi, 3ginfo.sh or gsmctl print it",
    source="ModemManager, libqmi, uqmi: --signal-get, --get-signal-info; OpenWrt's 3ginfo.sh, RUTOS",
    sniff=sniff,
    parse=parse,
)
