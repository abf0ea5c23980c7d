"""Output of `irtt client -o`: round trips of its packets, with the times at which they were sent.

Source: irtt-client(1), section "JSON format".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import LAYER, PINGS
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, members, section, words
from parsers._text.lines import LogLines
from parsers._text.times import LATEST_NS

if TYPE_CHECKING:
    from multitracer.tables import Table

_SNIFFED = re.compile(rb'"(?:irtt|system_info|config|round_trips)"\s*:')


def sniff(head: bytes) -> Match:
    """Return "yes" for a JSON document with irtt's version or round trips."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    is_own = b'"irtt"' in head or b'"round_trips"' in head or b'"ipdv' in head
    return "yes" if start == b"{" and is_own and _SNIFFED.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `pings`.

    Raises
    ------
    FormatError
        If there is no round trip.
    """
    objects, damage = documents(stream, path)
    lines, rows = LogLines(stream), Sparse(PINGS)
    for run, test in enumerate(objects, 1):
        host = words(section(test, "config").get("remote_address"), 64)
        for trip in members(test, "round_trips"):
            sent = section(section(section(trip, "timestamps"), "client"), "send")
            at_ns, rtt_ns = (lines.complete(sent, "wall", most=LATEST_NS), lines.real(section(trip, "delay"), "rtt"))
            is_lost = str(trip.get("lost")).casefold().startswith("true")
            rtt_s = None if is_lost or not rtt_ns else rtt_ns / NS_PER_S
            rows.append({"time_ns": at_ns, "run": run, "source": "irtt", "series": host, "rtt_s": rtt_s})
    if not len(rows):
        raise FormatError(path, f"the file contains no round trip of irtt{f'; {damage}' if damage else ''}")
    lines.damage = damage
    return {"pings": rows.table(lines.provenance(path, FORMAT.name, tests=len(objects)))}


FORMAT = Format(
    name="irtt",
    layer=LAYER,
    description="round trips of irtt client -o",
    source="irtt-client(1)",
    sniff=sniff,
    parse=parse,
)
