"""Text output of iperf3, and of iperf 2, as they print it without --json: rates of each stream, and sums.

The text has no time of day unless a line `Time:` of --verbose, or a stamp of --timestamps, tells it; the
rows then have no times. Lines of sums over all streams are passed over. Source: iperf_locale.c of iperf3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.schemas.application import LAYER
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from parsers._format import Format, Match
from parsers._text.lines import DateLine, LogLines, date_line
from parsers._text.times import decimal, integer, nearest
from parsers.iperf3 import Iperf3Log

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_HOST = r"(?P<{0}>[0-9A-Za-z.:%_-]{{1,64}}) port (?P<{0}_port>\d{{1,5}})"
_CONNECTED = re.compile(
    r"\[ *(?P<socket>\d{1,6})\](?:\[[TR]X-[CS]\])? local " + _HOST.format("local") + " connected (?:to|with) "
    + _HOST.format("remote")
)  # fmt: skip
_COUNT = re.compile(
    r"\[ *(?P<socket>\d{1,6})\](?:\[(?P<role>[TR]X)-[CS]\])? +"
    r"(?P<start>\d{1,9}\.\d+) *- *(?P<end>\d{1,9}\.\d+) +sec +"
    r"(?P<bytes>\d+(?:\.\d+)?) +(?P<unit>[KMGT]?)Bytes +"
    r"(?P<rate>\d+(?:\.\d+)?) +(?P<rate_unit>[KMGT]?)(?P<bits>bits|Bytes)/sec(?P<rest>.*)"
)
_DATAGRAMS = re.compile(r"\s*(?P<jitter_ms>\d+(?:\.\d+)?) ms +(?P<lost>\d+)/ *(?P<packets>\d+) \(")
_OF_TCP = re.compile(r"\s*(?P<retransmits>\d+)(?: +(?P<cwnd>\d+(?:\.\d+)?) (?P<unit>[KMGT]?)Bytes| +sender)")
"""A number alone is that of the datagrams that a sender of UDP wrote."""
_TIME = re.compile(r"Time: (?P<stamp>.+)")
_SUFFIXES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SNIFFED = re.compile(
    rb"^(?:.{0,40}\s)?\[ *\d+\](?:\[[TR]X-[CS]\])? local \S+ port \d+ connected (?:to|with) ", re.MULTILINE
)
_INTERVAL = re.compile(rb"^(?:.{0,40}\s)?\[ ?ID\] ?(?:\[Role\])? ?Interval +Transfer", re.MULTILINE)
_BEGINS = ("Connecting to host", "Client connecting to", "Accepted connection from")


class _Test:
    """One test as the document that --json writes."""

    def __init__(self) -> None:
        self.document: Document = {"start": {"connected": [], "test_start": {}}, "intervals": []}
        self.ends: dict[str, Document] = {}
        self.sockets: set[int] = set()
        self.is_summary = False

    def is_begun(self) -> bool:
        return bool(self.document["intervals"])

    def ended(self) -> Document:
        """Return the document."""
        if self.ends:
            self.document["end"] = {"streams": list(self.ends.values())}
        return self.document


class _Reader:
    """The tests of the lines read so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.tests = [_Test()]

    def take(self, text: str) -> None:
        """Use one line."""
        stamp = date_line(text)
        rest = stamp.rest if stamp is not None and "[" in stamp.rest else text
        begins = max(text.find(each) for each in _BEGINS)
        if begins >= 0:
            if self.tests[-1].is_begun():
                self.tests.append(_Test())
            rest, self.tests[-1].is_summary = text[begins:], False
        test = self.tests[-1]
        start = test.document["start"]
        if "Reverse mode" in text:
            start["test_start"]["reverse"] = 1
        if (line := _TIME.search(text)) and (moment := date_line(line["stamp"])):
            start["timestamp"] = self._begin(moment)
        at = rest.find("[")
        if connected := _CONNECTED.match(rest, max(at, 0)):
            ends = connected.groupdict()
            start["connected"].append(
                {
                    "socket": integer(ends["socket"]),
                    **{f"{side}_host": ends[side] for side in ("local", "remote")},
                    **{f"{side}_port": integer(ends[f"{side}_port"]) for side in ("local", "remote")},
                }
            )
            if stamp is not None and stamp.has_day and "timestamp" not in start:
                start["timestamp"] = self._begin(stamp)
        elif rest.startswith("- - -") or "- - - - -" in rest:
            test.is_summary = True
        elif count := _COUNT.match(rest, max(at, 0)):
            self._count(test, count)
        elif "iperf3: error" in text or "iperf3: interrupt" in text:
            test.document["error"] = text.partition("iperf3: ")[2][:200]

    def _begin(self, stamp: DateLine) -> Document:
        time_ns = self._lines.time_of(stamp)
        return {} if time_ns is None else {"timesecs": time_ns // NS_PER_S}

    def _count(self, test: _Test, match: re.Match[str]) -> None:
        stream = _stream(match, reverse=bool(test.document["start"]["test_start"].get("reverse")))
        rest = match["rest"]
        if rest.rstrip().endswith(("sender", "receiver")):
            reporter = "sender" if rest.rstrip().endswith("sender") else "receiver"
            known = test.ends.setdefault(str(stream["socket"]), {})
            known[reporter] = stream
        elif stream["start"] == 0 and stream["socket"] in test.sockets:  # the sum of iperf 2
            key = "sender" if stream["sender"] else "receiver"
            test.ends.setdefault(str(stream["socket"]), {})[key] = stream
        elif not test.is_summary:
            if not stream["omitted"]:
                test.sockets.add(stream["socket"])
            test.document["intervals"].append({"streams": [stream]})


def _stream(match: re.Match[str], *, reverse: bool) -> Document:
    rest = match["rest"]
    role = match["role"]
    by_bytes = 1 if match["bits"] == "bits" else BITS_PER_BYTE
    stream: Document = {
        "socket": integer(match["socket"]),
        "start": decimal(match["start"]),
        "end": decimal(match["end"]),
        "bytes": nearest(_scaled(match["bytes"], match["unit"], 1024)),
        "bits_per_second": _scaled(match["rate"], match["rate_unit"], 1000) * by_bytes,
        "omitted": "(omitted)" in rest,
        "sender": (role == "TX") if role else not reverse,
    }
    if of_udp := _DATAGRAMS.match(rest):
        stream |= {"jitter_ms": decimal(of_udp["jitter_ms"]), "lost_packets": integer(of_udp["lost"])}
        stream["packets"] = integer(of_udp["packets"])
    elif of_tcp := _OF_TCP.match(rest):
        stream["retransmits"] = integer(of_tcp["retransmits"])
        if of_tcp["cwnd"]:
            stream["snd_cwnd"] = nearest(_scaled(of_tcp["cwnd"], of_tcp["unit"], 1024))
    return stream


def _scaled(number: str, unit: str, base: int) -> float:
    return decimal(number) * float(base ** _SUFFIXES[unit])


def sniff(head: bytes) -> Match:
    """Return "yes" for lines with the ends of a stream and the names of the columns."""
    return "yes" if _SNIFFED.search(head) and _INTERVAL.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `application_rate` and `application_sums`.

    Raises
    ------
    FormatError
        If no line has a rate.
    """
    lines = LogLines(stream)
    reader = _Reader(lines)
    for text in lines:
        reader.take(text)
    if lines.cut:
        reader.take(lines.cut.decode("utf-8", "replace").rstrip())
    log = Iperf3Log(lines)
    for run, test in enumerate(reader.tests, 1):
        log.take(run, test.ended())
    lines.warn("the text of iperf has bytes to three digits; record with --json")
    return log.tables(path, FORMAT.name, tests=len(reader.tests))


FORMAT = Format(
    name="iperf3-text",
    layer=LAYER,
    description="rates and sums that iperf3 and iperf 2 print as text",
    source="iperf3, iperf_locale.c; iperf3(1)",
    sniff=sniff,
    parse=parse,
)
