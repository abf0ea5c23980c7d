"""Measurements of NDT7 as JSON: what `ndt7-client -format json` prints, and M-Lab's archive of a test.

A measurement has the bytes since the begin of the test by its side (client or server), and of a server the state of the
sender's kernel. A rate is the bytes between two measurements of one side. The client's output has no times; the
archive's are the begin of the test plus the elapsed time. Source: m-lab/ndt-server, spec/ndt7-protocol.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import APPLICATION_RATE, APPLICATION_SUMS, LAYER
from multitracer.units import BITS_PER_BYTE, NS_PER_US
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, members, section, words
from parsers._text.lines import LogLines
from parsers._text.times import time_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document, Table

_US_PER_S = 1e6
_LONGEST_US = 1e12
_CLIENT = re.compile(rb'"Key"\s*:\s*"(?:starting|connected|measurement|complete)"')
_ARCHIVE = re.compile(rb'"(?:Download|Upload)"\s*:\s*\{')
_SIDES = (("ServerMeasurements", "server"), ("ClientMeasurements", "client"))


def sniff(head: bytes) -> Match:
    """Return "yes" for events of ndt7-client, or a result of the archive."""
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return "no"
    is_client = _CLIENT.search(head) and b'"Value"' in head
    return "yes" if is_client or (_ARCHIVE.search(head) and b'"UUID"' in head) else "no"


def _measurements(objects: list[Document]) -> Iterator[tuple[int, str, str, int | None, Document]]:
    """Yield run, test, side, begin in ns (None if unknown) and measurement."""
    for run, document in enumerate(objects, 1):
        value = section(document, "Value")
        if document.get("Key") == "measurement":
            yield 1, words(value.get("Test"), 16), words(value.get("Origin"), 16), None, value
        for test in ("Download", "Upload"):
            result = section(document, test)
            begin_ns = time_ns(words(result.get("StartTime"), 64), "iso", None, _nothing)
            for name, side in _SIDES:
                for each in members(result, name):
                    yield run, test.lower(), side, begin_ns, each


def _nothing() -> None:
    """Do nothing: NDT writes UTC."""


class _Log:
    """The rows read so far, and the last count of each test and side."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rates = Sparse(APPLICATION_RATE)
        self._last: dict[tuple[int, str, str], tuple[float, int]] = {}
        self._own: dict[tuple[int, str, str], Document] = {}

    def take(self, run: int, test: str, side: str, begin_ns: int | None, measurement: Document) -> None:
        """Use one measurement."""
        app, tcp = section(measurement, "AppInfo"), section(measurement, "TCPInfo")
        lines = self._lines
        elapsed_us = lines.real(app if app.get("ElapsedTime") else tcp, "ElapsedTime", most=_LONGEST_US)
        if elapsed_us is None:
            return
        key = run, test, side
        before_us, before = self._last.get(key, (0.0, 0))
        of_kernel = "BytesAcked" if test == "download" else "BytesReceived"
        carried = lines.complete(app, "NumBytes") if "NumBytes" in app else lines.complete(tcp, of_kernel)
        values: Document = {}
        if carried is not None and carried >= before and elapsed_us > before_us:
            rate_bps = (carried - before) * BITS_PER_BYTE * _US_PER_S / (elapsed_us - before_us)
            values = {"bytes": carried - before, "rate_bps": rate_bps}
            self._last[key] = elapsed_us, carried
        rtt_us, rttvar_us = lines.real(tcp, "RTT"), lines.real(tcp, "RTTVar")
        values |= {
            "rtt_s": rtt_us / _US_PER_S if rtt_us else None,
            "rttvar_s": rttvar_us / _US_PER_S if rtt_us and rttvar_us is not None else None,
            "cwnd_segments": lines.complete(tcp, "SndCwnd"),
            "pacing_bps": _bits(lines.real(tcp, "PacingRate")),
            "delivery_bps": _bits(lines.real(tcp, "DeliveryRate")),
        }
        times = {
            name: None if begin_ns is None else begin_ns + round(at_us * NS_PER_US)
            for name, at_us in (("time_ns", before_us), ("until_ns", elapsed_us))
        }
        own = {"run": run, "source": "ndt7", "series": f"{test}, {side}", "direction": _DIRECTION.get(test, "")}
        self._own[key] = {**own, "time_ns": begin_ns, "until_ns": times["until_ns"]}
        if any(value is not None for value in values.values()):
            self.rates.append({**own, **times, **values})

    def sums(self) -> Sparse:
        """Return the bytes of each test, by the side that counted them."""
        rows = Sparse(APPLICATION_SUMS)
        for (run, test, side), (elapsed_us, carried) in self._last.items():
            reporter = "sender" if (side == "server") == (test == "download") else "receiver"
            rate_bps = carried * BITS_PER_BYTE * _US_PER_S / elapsed_us
            counted = {"bytes": carried, "rate_bps": rate_bps, "reporter": reporter}
            rows.append({**self._own[run, test, side], "series": test, **counted})
        return rows


_DIRECTION = {"download": "received", "upload": "sent"}


def _bits(bytes_per_second: float | None) -> float | None:
    return bytes_per_second * BITS_PER_BYTE if bytes_per_second else None


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `application_rate` and `application_sums`.

    Raises
    ------
    FormatError
        If there is no measurement.
    """
    objects, damage = documents(stream, path)
    lines = LogLines(stream)
    log = _Log(lines)
    for each in _measurements(objects):
        log.take(*each)
    if not len(log.rates):
        raise FormatError(path, f"the file contains no measurement of NDT7{f'; {damage}' if damage else ''}")
    lines.damage = damage
    if (log.rates.columns()["time_ns"] < 0).all():
        lines.warn("the output of ndt7-client has no times, so its rows have no times")
    facts = lines.provenance(path, FORMAT.name)
    return {"application_rate": log.rates.table(facts), "application_sums": log.sums().table(facts)}


FORMAT = Format(
    name="ndt7",
    layer=LAYER,
    description="measurements of NDT7: ndt7-client -format json, M-Lab's archive",
    source="m-lab/ndt-server, spec/ndt7-protocol.md",
    sniff=sniff,
    parse=parse,
)
