"""Output of ping (Linux, BSD, macOS, busybox, Windows in English), with or without times (`ping -D`).

A reply gives a round trip, an expired or refused request a row without one. Without -D, or a stamp that a
script put before the lines, rows have no times. Source: ping(8) of iputils.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import LAYER, PINGS
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import LogLines, date_line
from parsers._text.times import decimal, decimal_ns

if TYPE_CHECKING:
    from multitracer.tables import Table

_REPLY = re.compile(
    r"(?:\d+ bytes from|Reply from) (?P<host>[^\s:][^,]{0,120}?):? .{0,60}?"
    r"time(?P<below>[=<]) ?(?P<ms>\d+(?:[.,]\d+)?) ?ms"
)
_LOST = re.compile(
    r"no answer yet for icmp_seq|Request timeout for icmp_seq|Request timed out"
    r"|Destination .{0,40}unreachable"
)
_HEADER = re.compile(r"\b(?:PING|Pinging) ([^\s(]+)")
_STAMP = re.compile(r"\[(?P<s>\d{9,11})(?:\.(?P<fraction>\d{1,9}))?\] ?")
_BEGIN = re.compile(rb"^(?:.{0,60}[\s\]])?(?:PING \S+ |Pinging \S+ )", re.MULTILINE)
_ANY_REPLY = re.compile(rb"(?:\d+ bytes from|Reply from) [^\n]{1,160}time[=<] ?\d", re.MULTILINE)
_MS_PER_S = 1e3
_LONGEST_MS = 86_400e3
"""Longest round trip, a day: what is longer is damage."""


def sniff(head: bytes) -> Match:
    """Return "yes" for replies to pings."""
    if head.lstrip()[:1] in (b"{", b"["):
        return "yes" if re.match(rb"\[\d{9,11}\.\d+\] ", head) and _ANY_REPLY.search(head) else "no"
    return "yes" if _ANY_REPLY.search(head) else "maybe" if _BEGIN.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `pings`.

    Raises
    ------
    FormatError
        If no line is a reply or tells that none came.
    """
    lines, rows = LogLines(stream), Sparse(PINGS)
    run, untimed = 1, 0
    host, is_named = "", False
    for text in lines:
        if begin := _HEADER.search(text):
            host, is_named = begin[1][:64], True
            run += bool(len(rows))
        reply = _REPLY.search(text)
        if reply is None and _LOST.search(text) is None:
            continue
        if reply and not is_named:
            host = reply["host"].partition(" (")[0][:64]
        at_ns = _time_ns(text, lines)
        untimed += at_ns is None
        rtt_s = decimal(reply["ms"].replace(",", "."), most=_LONGEST_MS) / _MS_PER_S if reply else None
        if reply and reply["below"] == "<":
            lines.warn("round trips below 1 ms are read as 1 ms")
        own = {"time_ns": at_ns, "run": run, "source": "ping", "series": host}
        rows.append({**own, "rtt_s": rtt_s})
    if not len(rows):
        raise FormatError(path, "the file contains no reply to a ping")
    if untimed:
        lines.warn(f"{untimed:,} of {len(rows):,} round trips have no times; record with ping -D")
    return {"pings": rows.table(lines.provenance(path, FORMAT.name))}


def _time_ns(text: str, lines: LogLines) -> int | None:
    if stamp := _STAMP.match(text):
        try:
            return decimal_ns(stamp["s"], stamp["fraction"] or "")
        except ValueError:
            lines.drop("time_ns")
            return None
    line = date_line(text)
    return lines.time_of(line) if line is not None and line.has_day else None


FORMAT = Format(
    name="ping",
    layer=LAYER,
    description="round trips of ping, best with times (ping -D)",
    source="ping(8) of iputils",
    sniff=sniff,
    parse=parse,
)
