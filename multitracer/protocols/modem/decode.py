"""Decodes answers of a modem, or of modem tools, to radio readings.

An answer is only data: unknown lines are counted; nothing in an answer is evaluated or executed.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.modem import fibocom, huawei, others, quectel, routers, sierra, standard, telit, tools
from multitracer.protocols.modem.grammar import (
    LONGEST_LINE,
    AnswerError,
    LineFields,
    command_names,
    fields_of,
    is_final,
    lines_of,
    prefixed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.protocols.modem.conversation import CommandAnswer
    from multitracer.protocols.modem.grammar import Reading

MOST_LINES = 256  # bounds memory: the longest known answer (all neighbour cells) has some dozens
_REGISTRATIONS = ("+CREG", "+CGREG", "+CEREG", "+C5GREG")
_LINES: dict[str, Callable[[LineFields], list[Reading]]] = {
    "+CSQ": standard.csq,
    "^RSSI": standard.csq,
    "+CESQ": standard.cesq,
    "+COPS": standard.cops,
    "+CSCON": standard.cscon,
    "+QENG": quectel.qeng,
    "+QCSQ": quectel.qcsq,
    "+QCAINFO": quectel.qcainfo,
    "+QNWINFO": quectel.qnwinfo,
    "+QRSRP": quectel.qrsrp,
    "+QRSRQ": quectel.qrsrq,
    "+QSINR": quectel.qsinr,
    "+QSPN": quectel.qspn,
    "^HCSQ": huawei.hcsq,
    "^MONSC": huawei.monsc,
    "^MONNC": huawei.monnc,
    "+XMCI": fibocom.xmci,
    "+XCESQ": fibocom.xcesq,
    "+CPSI": others.cpsi,
    "#RFSTS": telit.rfsts,
    "#SERVINFO": telit.servinfo,
    "+RSRP": others.rsrp,
    "+RSRQ": others.rsrq,
    "*MTBUSY": sierra.mtbusy,
    "*MTLINK": sierra.mtlink,
}
"""Function that decodes the fields of a line, by the prefix of the line."""
_BLOCKS: dict[str, Callable[[Sequence[str]], list[Reading]]] = {
    "!GSTATUS": sierra.gstatus,
    "!NRINFO": sierra.gstatus,
    "+GTCCINFO": fibocom.gtccinfo,
    "+GTCAINFO": fibocom.gtcainfo,
    "^DEBUG": others.debug,
    "+UCGED": others.ucged,
    "#MONI": telit.moni,
    "+WPRSSI": sierra.wprssi,
    "+WS50": sierra.ws50,
    "S112": sierra.s112,
}
"""Function that decodes all lines of an answer, by the name of the command."""
UNSOLICITED = "(unasked)"
_UNSOLICITED_LINES = ("^RSSI", "^HCSQ", "+CSCON")
_ALSO = {("+UCGED", "+RSRP"), ("+UCGED", "+RSRQ")}
"""Pairs of a command and another name under which it answers."""
_NO_VALUES = {"source", "role", "rat"}
_UNSOLICITED = re.compile(r"RING|NO CARRIER|BUSY|NO ANSWER|CONNECT.*")
_DEBUG_BEGIN = re.compile(r"RAT\s*:\s*(?:LTE|NR|WCDMA|GSM)", re.IGNORECASE)
_WITHOUT_RADIO = frozenset({
    "+CPIN", "+CMTI", "+CMT", "+CDSI", "+CMGL", "+CMGR", "+CMGS", "+CGSN", "+CIMI", "+CCID",
    "+ICCID", "+QCCID", "+CNUM", "+CGMI", "+CGMM", "+CGMR", "+GMR", "+CCLK", "+CTZV", "+CTZE",
    "+QLTS", "+CGDCONT", "+CGPADDR", "+CGACT", "+CGATT", "+CGCONTRDP", "+CFUN", "+CSCS", "+CMGF",
    "+CNMI", "+CMEE", "+CSCA", "+CPMS", "+CRING", "+CLIP", "+CLCC", "+CUSD", "+IPR", "+IFC",
    "+CGEV", "+CME", "+CMS", "+GCAP", "+FCLASS", "+WIND", "+CBC", "+CPAS", "^ICCID",
})  # fmt: skip
"""Names of answers that contain nothing about the radio: subscriber, messages, clock, contexts, settings."""
_TOOL = re.compile(r"(?:\S*/)?(mmcli|ubus|qmicli|mbimcli|uqmi|3ginfo|gsmctl|hilink|mikrotik)(?:\.sh)?(?:\s|$)")


class DecodedAnswer(NamedTuple):
    """The readings of an answer, in columns of RADIO, and why lines could not be decoded."""

    readings: list[Reading]
    refused: list[str]
    unread: tuple[str, ...] = ()
    """Names of the lines that have a valid form but are not decoded, one for each line."""


def decode(command: str, raw: bytes) -> DecodedAnswer:
    """Return the radio readings in an answer.

    Parameters
    ----------
    command : str
        The AT command, or several in one line (`AT+CSQ;+CESQ`), or the command line of a tool. Empty if it is not
        known: then all answers that have their own prefix are decoded. `UNSOLICITED` if no command was pending: then
        only lines that modems send without a command are decoded, because any other line is a late answer.
    raw : bytes
        All octets that arrived, with echo, final result, and unsolicited lines between them.
    """
    if match := _TOOL.match(command):
        return _of_tool(match[1], raw)
    lines = lines_of(raw)
    refused = ["the answer has too many lines"] if len(lines) > MOST_LINES else []
    usable = [line for line in lines[:MOST_LINES] if len(line) <= LONGEST_LINE]
    refused += ["a line of the answer is too long"] * (min(len(lines), MOST_LINES) - len(usable))
    names = (command,) if command == UNSOLICITED else command_names(command)
    return _of_lines(names, usable, refused)


def tells(answer: CommandAnswer) -> bool:
    """Return whether an answer contains any information.

    An error is information, and so is any line other than the echo, OK and unsolicited lines.
    """
    if answer.result != "OK":
        return True
    words = (line.strip().upper() for line in lines_of(answer.raw))
    return any(not (is_final(w) or _UNSOLICITED.fullmatch(w) or w == answer.command.upper()) for w in words)


def _of_lines(names: tuple[str, ...], lines: list[str], refused: list[str]) -> DecodedAnswer:
    readings: list[Reading] = []
    unread: list[str] = []
    blocks: dict[str, list[str]] = {name: [] for name in names if name in _BLOCKS}
    block = next(iter(blocks), "")
    for line in lines:
        name, text = prefixed(line) or ("", "")
        opened = _block_of(line, name)
        if opened and opened in (names or (opened,)):
            block = opened
            blocks.setdefault(block, [])
        if name in _LINES or name in _REGISTRATIONS:
            if name in (names or (name,)) or _also(names, name) or _comes_by_itself(name, text):
                readings += _attempt(name, partial(_of_line, name, text), refused)
            else:
                unread.append(name)
        elif _is_of_block(line, name, block):
            blocks[block].append(line)
        elif name and name not in _WITHOUT_RADIO and not is_final(line):
            unread.append(name)
    for name, rest in blocks.items():
        readings += _attempt(name, partial(_BLOCKS[name], rest), refused)
    return DecodedAnswer(_with_values(readings), refused, tuple(unread))


def _block_of(line: str, name: str) -> str:
    """Return the name of the answer of several lines that begins with this line; "" if there is none."""
    if not name and _DEBUG_BEGIN.match(line.strip()):
        return "^DEBUG"
    return name if name in _BLOCKS else ""


def _also(names: tuple[str, ...], name: str) -> bool:
    return any((command, name) in _ALSO for command in names)


def _with_values(readings: list[Reading]) -> list[Reading]:
    """Leave out cells of which only the technology is known, if the answer has another reading."""
    known = [reading for reading in readings if "rat" not in reading or reading.keys() - _NO_VALUES]
    return known or readings[:1]


def _comes_by_itself(name: str, text: str) -> bool:
    """Return whether a line can only be unsolicited, because no answer has its form."""
    if name not in _REGISTRATIONS:
        return name in _UNSOLICITED_LINES
    try:
        fields = fields_of(text)
    except AnswerError:
        return False
    return not standard.was_asked(LineFields([field for field, _ in fields]), [quoted for _, quoted in fields])


def _is_of_block(line: str, name: str, block: str) -> bool:
    """Return whether a line belongs to the answer `block` of several lines.

    Echo, final result and unsolicited lines do not belong to it. `name` is the prefix of the line.
    """
    word = line.strip().upper()
    if is_final(word) or _UNSOLICITED.fullmatch(word) or word.startswith("AT"):
        return False
    return block != "" and name in ("", block)


def _of_line(name: str, text: str) -> list[Reading]:
    fields = fields_of(text)
    row = LineFields([field for field, _ in fields])
    if not text:
        raise AnswerError(f"the answer {name} has no field; skip the line")
    if name in _REGISTRATIONS:
        return standard.registration(row, [quoted for _, quoted in fields])
    return _LINES[name](row)


def _attempt(name: str, read: Callable[[], list[Reading]], refused: list[str]) -> list[Reading]:
    try:
        return [{"source": name, **reading} for reading in read()]
    except AnswerError:
        refused.append(f"{name} that does not have the form of its command")
        return []


_OF_JSON = {"mmcli": tools.mmcli, "ubus": tools.mmcli, "uqmi": tools.uqmi, "3ginfo": tools.info3g}
_OF_TEXT = {
    "mmcli": tools.mmcli_text, "qmicli": tools.qmicli, "mbimcli": tools.mbimcli, "gsmctl": tools.gsmctl,
    "mikrotik": routers.mikrotik,
}  # fmt: skip
_MOST_TOOL_LINES = 4096  # bounds memory: a dump of ModemManager has some hundred lines for each modem


def _of_tool(tool: str, raw: bytes) -> DecodedAnswer:
    refused: list[str] = []
    text = raw.decode(errors="replace")
    source = "mmcli" if tool == "ubus" else tool

    def read() -> list[Reading]:
        is_json = text.lstrip()[:1] in ("{", "[") and "] Successfully" not in text[:200]
        if tool == "hilink":
            return routers.hilink(tools.loads(text)) if is_json else routers.hilink_xml(text)
        if tool in _OF_JSON and (is_json or tool not in _OF_TEXT):
            return _OF_JSON[tool](tools.loads(text))
        lines = text.splitlines()[:_MOST_TOOL_LINES]
        if tool == "qmicli" and any("got cell location info" in line for line in lines[:2]):
            return tools.cells(lines[1:])
        return _OF_TEXT[tool](lines)

    readings = _attempt(source, read, refused)
    known = [reading for reading in readings if reading.keys() - _NO_VALUES]
    return DecodedAnswer(known or [{"source": source} for _ in readings[:1]], refused)
