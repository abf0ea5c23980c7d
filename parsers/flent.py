"""Results of flent (`.flent`, `.flent.gz`): rates of streams, senders' windows and RTTs, and pings.

The raw values are read, each with the time given by flent's tools; interpolated values and sums are not read.
A result without raw values, as early versions wrote it, gives its interpolated ones, and a warning says so.
Source: flent's resultset.py, and of runners.py NetperfDemoRunner, IperfCsvRunner, PingRunner, SsRunner.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.application import APPLICATION_RATE, LAYER, PINGS
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, section, words
from parsers._text.lines import LogLines
from parsers._text.times import real, time_ns

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_SNIFFED = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*"(?:DATA_FILENAME|FLENT_VERSION|raw_values)"', re.DOTALL)
_MEGA = 1e6
_MS_PER_S = 1e3
_LATEST_S = 1 << 33
_LONGEST_S = 86_400.0
"""Maximum length of a sample, s; those of flent are 0.05 to 1 s."""


class _Result:
    """One result, and the rows read so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rates = Sparse(APPLICATION_RATE)
        self.pings = Sparse(PINGS)

    def take(self, run: int, document: Document) -> None:
        """Use one result."""
        meta = section(section(document, "metadata"), "SERIES_META")
        raw = section(document, "raw_values")
        if not raw:
            raw = self._interpolated(document)
        for series, samples in raw.items():
            name = words(series, 64)
            unit = words(section(meta, series).get("UNITS"), 16) or _unit_of(name)
            for sample in samples if isinstance(samples, list) else []:
                if not isinstance(sample, dict) or not self._sample(run, name, unit, sample):
                    self._lines.skip("a sample has no time or no value")

    def _interpolated(self, document: Document) -> Document:
        """Return what flent interpolated, in the form of raw values."""
        begin_ns = time_ns(str(section(document, "metadata").get("T0")), "iso", UTC, _nothing)
        xs, results = document.get("x_values"), section(document, "results")
        if begin_ns is None or not isinstance(xs, list):
            return {}
        self._lines.warn("the file contains no raw values, so the values that flent interpolated are used")
        times = [None if (x := real(each)) is None else begin_ns / NS_PER_S + x for each in xs]
        return {
            series: [{"t": t, "val": v} for t, v in zip(times, values, strict=False) if v is not None]
            for series, values in results.items()
            if isinstance(values, list)
        }

    def _sample(self, run: int, series: str, unit: str, sample: Document) -> bool:
        """Use one sample; return whether it holds a value."""
        at_s = self._lines.real(sample, "t", most=_LATEST_S)
        if at_s is None:
            return False
        at_ns = round(at_s * 1e6) * 1000  # what a float of seconds holds
        own = {"run": run, "source": "flent", "series": series}
        value = self._lines.real(sample, "val")
        if unit == "ms":
            if value is not None:
                self.pings.append({**own, "time_ns": at_ns, "rtt_s": value / _MS_PER_S})
            return value is not None
        values = self._sender(sample)
        if unit == "Mbits/s" and value is not None:
            lasted_s = self._lines.real(sample, "dur", most=_LONGEST_S)
            values |= {"rate_bps": value * _MEGA}
            if lasted_s:
                lasted_ns = round(lasted_s * NS_PER_S)
                values |= {"until_ns": at_ns}
                at_ns -= lasted_ns
        if values:
            self.rates.append({**own, "direction": _direction(series), "time_ns": at_ns, **values})
        return bool(values)

    def _sender(self, sample: Document) -> Document:
        """Return what `ss` showed of the sender's socket: flent has rates in Mbit/s and times in ms."""
        numbers = {name: number for name in _OF_SS if (number := self._lines.real(sample, name)) is not None}
        values: Document = {_OF_SS[name][0]: number * _OF_SS[name][1] for name, number in numbers.items()}
        return values | ({"cwnd_segments": int(values["cwnd_segments"])} if "cwnd_segments" in values else {})


_OF_SS = {
    "tcp_cwnd": ("cwnd_segments", 1),
    "tcp_rtt": ("rtt_s", 1 / _MS_PER_S),
    "tcp_rtt_var": ("rttvar_s", 1 / _MS_PER_S),
    "tcp_pacing_rate": ("pacing_bps", _MEGA),
    "tcp_delivery_rate": ("delivery_bps", _MEGA),
}
"""Column and factor for each field of a sample."""


def _unit_of(series: str) -> str:
    """Return the unit of a series by its name, where the result does not tell it."""
    if series.startswith("Ping"):
        return "ms"
    return "Mbits/s" if series.startswith("TCP") else ""


def _direction(series: str) -> str:
    name = series.casefold()
    return "sent" if "upload" in name else "received" if "download" in name else ""


def _nothing() -> None:
    """Do nothing: flent writes UTC."""


def sniff(head: bytes) -> Match:
    """Return "yes" for a JSON document with flent's metadata."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `application_rate` and `pings`.

    Raises
    ------
    FormatError
        If it is no JSON, or no series in it has a value.
    """
    objects, damage = documents(stream, path)
    lines = LogLines(stream)
    result = _Result(lines)
    for run, document in enumerate(objects, 1):
        result.take(run, document)
    if not len(result.rates) and not len(result.pings):
        raise FormatError(path, "no series of the file has values in Mbits/s, values in ms, or values of a TCP socket")
    lines.damage = damage
    facts = lines.provenance(path, FORMAT.name)
    return {"application_rate": result.rates.table(facts), "pings": result.pings.table(facts)}


FORMAT = Format(
    name="flent",
    layer=LAYER,
    description="results of flent: rates and senders of its streams, pings",
    source="flent, resultset.py and runners.py",
    sniff=sniff,
    parse=parse,
)
