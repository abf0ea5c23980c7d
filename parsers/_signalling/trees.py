"""The content of single messages, as trees of the lines with which tshark describes them.

Only the frames that are asked for are dissected. What identifies a subscriber or a phone, and octets that may hold
it (a NAS message as one value), are left out of a tree, as everywhere else: the line stays, its value does not.
"""

from __future__ import annotations

import io
import re
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from multitracer.errors import InputError
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header
from parsers import diag, sdm
from parsers._read import detect
from parsers._signalling.diagnostic_log import LAYERS, UNHEARD, Conversion
from parsers._signalling.dissection import ProgramBounds, program, run, tshark_environment
from parsers._signalling.gsmtap import LOG, SIGNAL, Messages
from parsers._stream import open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Sequence
    from typing import BinaryIO

    from parsers._signalling.diagnostic_log import LogFrames
    from parsers._signalling.gsmtap import Numbered

_RAW, _UPPER_PDU = 101, 252  # link types of what `Message.packet` returns
_MOST_LINES = 1500
"""Lines of a tree; the capabilities of a phone of 2020 take 6,000, of which nobody reads the rest."""
_LONGEST = 240  # characters of a line
_OUTPUT_BYTES, _BYTES_PER_MESSAGE, _MOST_LARGE = 64 << 20, 1 << 20, 400
"""Maximum output of tshark: a minimum, and that of a message; the capabilities of a phone take 1.5 MB of XML."""
_DEEPEST = 60
"""Levels of a tree; a reconfiguration of NR within one of LTE has 38."""
_SECONDS, _MESSAGES_PER_S = 60.0, 20
"""Time for tshark: a minimum, and messages a second; it describes 300 a second on one core of 2020."""
_CARRIERS = frozenset({"geninfo", "frame", "raw", "ip", "udp", "gsmtap", "exported_pdu"})
"""Layers that are not of the message: made by us, or by the program that logged it."""
_LOOSE = "fake-field-wrapper"
"""What holds the fields that a hidden layer has put beside itself, as that of UMTS RRC does; octets are `data`."""
_TEXTS = ("gsm_sms", "gsm_map", "sms", "ussd", "gsm_old")
"""Begin of the names of layers that hold the text of people."""
_IDENTITY = re.compile(
    r"imsi(?!_)|imei|tmsi|msin|suci|supi|guti|msisdn|e164|(?<![a-z])apn$|dnn|randomvalue|ue_identity|[cius]_rnti|mobileid|"
    r"bcd_num|pdn_addr|pdn_ipv|pdu_addr|pdu_ipv|ipv4_addr|ipv6_addr|cld_party|clg_party|username|password|"
    r"\brand$|autn|auts|\b[xs]?res$|\btlli$|(?:dns|nbns|ip)_address$|^(?:pap|chap)\.(?:data|peer_id|password|value$|name|message)",
    re.IGNORECASE,
)
"""Names of fields of tshark whose value, and all below them, identify somebody or prove an identity."""
_IDENTITY_WORDS = re.compile(
    r"\b((?<!/)IMSI(?! (?:at|de)tach| upd)|IMEI(?:SV)?(?! req)|(?:[PM]-|NG-5G-S-|5G-S?-?|S-)?TMSI(?! Reall)|"
    r"TLLI|MSIN|SUCI|SUPI|GUTI|MSISDN|APN(?! aggregate)|DNN|"
    r"BCD digits|Identity digit|random-?value|I-RNTI|mobile ?identity|PDN address|PDU address|IPv[46] address|"
    r"(?:Called|Calling) Party|(?:Destination|Originating|Originator) Address)\b",
    re.IGNORECASE,
)
"""The same in the words of a line, for fields that have no name of their own."""
_DECIMAL = re.compile(r" decimal value \d+")
_OCTETS = re.compile(r"\b(?:[0-9a-f]{2}:?){8,}(?:…|\.\.\.)?|\b\d{10,}\b", re.IGNORECASE)
"""Octets as tshark prints them, and long decimal numbers: a NAS message within RRC, a number of a phone."""
_BITS = re.compile(r"^[01. ]+ = ")
"""The bits of a field, which tshark prints before its name: they are its value."""
_VALUE = re.compile(r": | \(| = (?=\S+$)")
"""What separates the name of a field from its value."""
_LEFT_OUT = "left out"
NOT_DISSECTED = "tshark does not dissect this message"


class MessageTree(NamedTuple):
    """What tshark says of one message.

    Attributes
    ----------
    frame : int
        Number of its frame, as in the table `signalling`.
    lines : list of (int, str)
        Depth from 0, and the line; empty without a description.
    cut : int
        Lines that are left out because there are too many.
    why : str
        Why there is no description; "" if there is one.
    """

    frame: int
    lines: list[tuple[int, str]]
    cut: int = 0
    why: str = ""

    def text(self) -> str:
        """Return the lines, each indented by its depth."""
        more = [f"... and {self.cut:,} lines more"] if self.cut else []
        why = [self.why] if self.why else []
        return "\n".join([*(f"{'    ' * depth}{words}" for depth, words in self.lines), *why, *more])


def message_trees(path: str | os.PathLike[str], frames: Collection[int]) -> Iterator[MessageTree]:
    """Yield the trees of messages in a diagnostic log, or in a capture with GSMTAP packets, in the log's order.

    Parameters
    ----------
    path : path
        The log or the capture.
    frames : collection of int
        Numbers as in the column `frame` of `signalling`. Those that the log does not have are left out.

    Raises
    ------
    PreflightError
        If scat (for a log) or tshark is not installed.
    InputError, UnknownFormatError, FormatError
        If the log cannot be read.
    """
    program("tshark")
    with TemporaryDirectory(prefix="multitracer-") as name:
        folder = Path(name)
        wanted = frozenset(frames)
        chosen = [each for each in Messages(*_captures(path, folder)) if each.frame in wanted]
        yield from _described([each for each in chosen if each.message.type not in (LOG, SIGNAL)], folder)


def _captures(path: str | os.PathLike[str], folder: Path) -> Sequence[str | os.PathLike[str]]:
    """Return the captures with the messages of a log, converted into `folder`; a capture is its own."""
    fmt = detect(path)
    if fmt.layer == "packet":
        return [path]
    if fmt.name not in (diag.FORMAT.name, sdm.FORMAT.name):
        raise InputError(
            f"{path}: this is {fmt.name} ({fmt.description}), which holds no messages of signalling; name a "
            "diagnostic log, or a capture with GSMTAP packets"
        )
    with open_stream(path) as stream:
        frames, arguments, suffix = _frames(fmt.name, io.BufferedReader(stream))
        command = [program("scat"), *arguments, "-L", LAYERS, "-C", "-H", UNHEARD]
        conversion = Conversion(folder, command, suffix)
        conversion.convert(frames)
    return conversion.captures


def _frames(name: str, stream: BinaryIO) -> tuple[LogFrames, tuple[str, ...], str]:
    """Return the frames of a log, and the options and the suffix by which SCAT knows its vendor."""
    if name == diag.FORMAT.name:
        return diag.HdlcFrames(stream), ("-t", "qc", "--disable-crc-check"), ".qmdl"
    frames, suffix = sdm.frames_of(stream)
    return frames, ("-t", "sec"), suffix


def _described(chosen: list[Numbered], folder: Path) -> Iterator[MessageTree]:
    """Yield the tree of each message; all of them are dissected by one process."""
    if not chosen:
        return
    capture, output = folder / "chosen.pcapng", folder / "trees.xml"
    with capture.open("wb") as file:
        file.write(section_header() + interface_block(link_type=_RAW) + interface_block(link_type=_UPPER_PDU))
        for each in chosen:
            file.write(packet_block(each.message.packet(), time_ns=0, interface=int(bool(each.message.exported))))
    bounds = ProgramBounds(
        _SECONDS + len(chosen) / _MESSAGES_PER_S, _OUTPUT_BYTES + min(len(chosen), _MOST_LARGE) * _BYTES_PER_MESSAGE
    )
    command = [program("tshark"), "-n", "-r", str(capture), "-T", "pdml"]
    failure = run(command, into=output, bounds=bounds, env=tshark_environment(folder))
    done = 0
    for each, packet in zip(chosen, _packets(output), strict=False):
        yield _tree(each.frame, packet)
        done += 1
    for each in chosen[done:]:
        yield MessageTree(each.frame, [], why=f"tshark {failure or 'ended early'}, before this message")


def _packets(output: Path) -> Iterator[ET.Element]:
    """Yield the packets of a file of tshark; it ends within one where tshark was stopped."""
    packets = ET.iterparse(output, events=("start", "end"))  # noqa: S314  # tshark writes it, without a DTD
    try:
        _, root = next(packets)
        for event, element in packets:
            if event == "end" and element.tag == "packet":
                yield element
                root.clear()
    except (ET.ParseError, StopIteration):
        return


def _tree(frame: int, packet: ET.Element) -> MessageTree:
    lines: list[tuple[int, str]] = []
    for layer in packet:
        if layer.get("name") == _LOOSE:
            for field in layer:
                if not field.get("name", "").startswith("data"):
                    _add(field, 0, lines)
        elif layer.get("name", "") not in _CARRIERS:
            _add(layer, 0, lines)
    kept = lines[:_MOST_LINES]
    return MessageTree(frame, kept, len(lines) - len(kept), "" if kept else NOT_DISSECTED)


def _add(node: ET.Element, depth: int, lines: list[tuple[int, str]]) -> None:
    """Add the line of a field and those below it."""
    name, words = node.get("name", ""), node.get("showname") or node.get("show") or node.get("name", "")
    if node.get("hide") == "yes" or name.startswith("per."):  # how PER encodes it, not what it says
        below = depth
    elif name.startswith(_TEXTS) and node.tag == "proto":
        lines.append((depth, f"{_clean(words)}: {_LEFT_OUT}"))
        return
    elif subject := _of_identity(name, words):
        lines.append((depth, f"{_clean(subject)}: {_LEFT_OUT}"))
        return
    else:
        lines.append((depth, _clean(words)))
        below = depth + 1
    if below > _DEEPEST:
        return
    for child in node:
        _add(child, below, lines)


@lru_cache(maxsize=1 << 14)
def _of_identity(name: str, words: str) -> str:
    """Return what a field of an identity is called, without its value; "" for another field."""
    named = _BITS.sub("", words)
    if match := _IDENTITY_WORDS.search(named):
        return named[: match.end()]
    return _VALUE.split(named, maxsplit=1)[0] if _IDENTITY.search(name) else ""


@lru_cache(maxsize=1 << 14)
def _clean(words: str) -> str:
    """Return a line in one line, at most so long, without octets that may hold an identity."""
    line = " ".join(_OCTETS.sub(f"({_LEFT_OUT})", _DECIMAL.sub("", words)).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
