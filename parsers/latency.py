"""latency.jsonl of `measure run --latency`: round trips on the idle and on the loaded path, and the load's rate.

Source: multitracer/measure/latency.py writes it, a JSON object on each line; docs/measuring.md has its keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import APPLICATION_RATE, LAYER, PINGS
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, words
from parsers._text.lines import LogLines
from parsers._text.times import LATEST_NS

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_BEGIN = b'{"latency": '
_DIRECTIONS = {"up": "sent", "down": "received"}


def sniff(head: bytes) -> Match:
    """Return "yes" for the first line of such a log."""
    return "yes" if head.startswith(_BEGIN) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `pings`, a row for each round trip, and `application_rate`, a row for each interval of a load.

    Raises
    ------
    FormatError
        If there is no round trip.
    """
    objects, damage = documents(stream, path)
    lines, pings, rates = LogLines(stream), Sparse(PINGS), Sparse(APPLICATION_RATE)
    runs = 0
    for each in objects:
        runs += "latency" in each
        begin_ns = lines.complete(each, "time_ns", most=LATEST_NS)
        own = {"run": max(1, runs), "source": "latency", "time_ns": begin_ns}
        if "probe" in each:
            rtt_ns = lines.real(each, "rtt_ns")
            series = f"{words(each.get('phase'), 16)} {words(each['probe'], 16)}"
            pings.append({**own, "series": series, "rtt_s": None if rtt_ns is None else rtt_ns / NS_PER_S})
        elif "interval" in each:
            rates.append({**own, **_rate(lines, each, begin_ns)})
    if not len(pings):
        raise FormatError(path, f"the file contains no round trip{f'; {damage}' if damage else ''}")
    lines.damage = damage
    facts = lines.provenance(path, FORMAT.name, tests=runs)
    return {"pings": pings.table(facts), "application_rate": rates.table(facts)}


def _rate(lines: LogLines, interval: Document, begin_ns: int | None) -> Document:
    phase = words(interval["interval"], 16)
    until_ns = lines.complete(interval, "until_ns", most=LATEST_NS)
    carried = lines.complete(interval, "bytes")
    rate_bps = None
    if begin_ns is not None and until_ns is not None and carried is not None and until_ns > begin_ns:
        rate_bps = carried * BITS_PER_BYTE * NS_PER_S / (until_ns - begin_ns)
    return {
        "until_ns": until_ns,
        "series": phase,
        "direction": _DIRECTIONS.get(phase, ""),
        "bytes": carried,
        "rate_bps": rate_bps,
    }


FORMAT = Format(
    name="latency",
    layer=LAYER,
    description="round trips and load of measure run --latency",
    source="multitracer/measure/latency.py",
    sniff=sniff,
    parse=parse,
)
