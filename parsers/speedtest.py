"""Results of speed tests as JSON: Ookla's `speedtest -f json`, and `speedtest-cli --json`.

A result has the mean rates of a download and of an upload, and round trips: idle, and while it downloads and
uploads. Its time is that of the whole test, so the begin of a transfer is known to about a minute. Ookla's
bandwidth is in bytes per second, speedtest-cli's rates are in bits per second. Source: the programs' output.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import APPLICATION_SUMS, LAYER, PINGS
from multitracer.units import BITS_PER_BYTE, NS_PER_MS
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, section, words
from parsers._text.lines import LogLines
from parsers._text.times import time_ns

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_MS_PER_S = 1e3
_LONGEST_MS = 1e8
_OOKLA = re.compile(rb'"bandwidth"\s*:\s*\d')
_CLI = re.compile(rb'"bytes_(?:sent|received)"\s*:')
_TRANSFERS = (("download", "received", "bytes_received"), ("upload", "sent", "bytes_sent"))


def sniff(head: bytes) -> Match:
    """Return "yes" for the JSON of a result."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start not in (b"{", b"[") or b'"ping"' not in head or b'"download"' not in head:
        return "no"
    return "yes" if _OOKLA.search(head) or (_CLI.search(head) and b'"server"' in head) else "no"


class _Log:
    """The rows read so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.sums = Sparse(APPLICATION_SUMS)
        self.pings = Sparse(PINGS)

    def take(self, run: int, result: Document) -> None:
        """Use one result."""
        at_ns = time_ns(words(result.get("timestamp"), 64), "iso", None, self._zoneless)
        if at_ns is None and result.get("timestamp"):
            self._lines.drop("time_ns")
        is_ookla = isinstance(result.get("ping"), dict)
        own = {"time_ns": at_ns, "run": run, "source": "ookla" if is_ookla else "speedtst"}
        for name, direction, counter in _TRANSFERS:
            of = section(result, name)
            per_unit = BITS_PER_BYTE if is_ookla else 1
            rate = self._lines.real(of, "bandwidth") if is_ookla else self._lines.real(result, name)
            carried = self._lines.complete(of, "bytes") if is_ookla else self._lines.complete(result, counter)
            if rate is None and carried is None:
                continue
            elapsed_ms = self._lines.real(of, "elapsed", most=_LONGEST_MS)
            until_ns = None if at_ns is None or elapsed_ms is None else at_ns + round(elapsed_ms * NS_PER_MS)
            self.sums.append(
                {
                    **own, "until_ns": until_ns, "series": name, "direction": direction,
                    "reporter": "receiver", "bytes": carried,
                    "rate_bps": None if rate is None else rate * per_unit,
                }
            )  # fmt: skip
            self._ping(own, section(of, "latency"), f" during the {name}")
        idle = section(result, "ping") if is_ookla else {"latency": result.get("ping")}
        self._ping(own, idle, "")

    def _ping(self, own: Document, latency: Document, when: str) -> None:
        for name in ("low", "latency", "iqm", "high"):
            if rtt_ms := self._lines.real(latency, name, most=_LONGEST_MS):
                shown = "mean" if name in ("latency", "iqm") else name
                self.pings.append({**own, "series": f"ping{when}, {shown}", "rtt_s": rtt_ms / _MS_PER_S})

    def _zoneless(self) -> None:
        self._lines.warn("the time zone is not given, so the times are read as UTC")


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `application_sums` and `pings`.

    Raises
    ------
    FormatError
        If there is no result.
    """
    objects, damage = documents(stream, path)
    lines = LogLines(stream)
    log = _Log(lines)
    for run, result in enumerate(objects, 1):
        log.take(run, result)
    if not len(log.sums):
        raise FormatError(path, f"the file contains no result of a speed test{f'; {damage}' if damage else ''}")
    lines.damage = damage
    facts = lines.provenance(path, FORMAT.name, tests=len(objects), begin_known_to_s=60)
    return {"application_sums": log.sums.table(facts), "pings": log.pings.table(facts)}


FORMAT = Format(
    name="speedtest",
    layer=LAYER,
    description="results of speed tests as JSON: speedtest (Ookla), speedtest-cli",
    source="output of speedtest -f json, speedtest-cli --json",
    sniff=sniff,
    parse=parse,
)
