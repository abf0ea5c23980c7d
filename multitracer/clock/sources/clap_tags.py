"""Where the clapperboard's tags are in a session: in its log at each host, and in probes in captures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.clock.sources.claps import CLAPS
from multitracer.errors import MultiTracerError
from multitracer.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.logs import Point

MAGIC = b"MultiTracer clap "
"""How the payload of a probe begins (multitracer/recorder/supervisor.py)."""
_PROBE = re.compile(re.escape(MAGIC) + rb"([0-9a-f]{1,32})")
_LONGEST_BYTES = 200
"""No probe is longer, its headers included."""
_STAMPING_NS = 100_000
"""How far a capture's stamp of a packet may be from when it passed."""


def written(readings: Table) -> list[Table]:
    """Return CLAPS of CLOCK_READINGS, whose tags, "" for none, stand in its provenance."""
    tags = np.array(readings.provenance.get("tags", []), dtype="U32")
    if not np.any(tags != ""):
        return []
    tagged = readings.take(tags != "")
    half = (tagged["monotonic_after_ns"] - tagged["monotonic_before_ns"] + 1) // 2
    hosts = tagged["host"].tolist()
    return [_table(tags[tags != ""].tolist(), hosts, tagged["time_ns"], half, is_probe=False)]


def probes_in(points: Iterable[Point], hosts: dict[str, str], known: Sequence[Table]) -> list[Table]:
    """Return CLAPS of other hosts' probes that captures hold; files that cannot be read have none."""
    own: dict[str, str] = {t: h for table in known for t, h in zip(table["tag"], table["host"], strict=True)}
    tables = []
    for point in points:
        host = hosts[point.name]
        first: dict[str, int] = {}
        for tag, time_ns in _probes(point.paths):
            if own.get(tag, host) != host:
                first.setdefault(tag, time_ns)
        stamps = np.array(list(first.values()), dtype=np.int64)
        error = np.full(len(stamps), _STAMPING_NS)
        tables.append(_table(list(first), [host] * len(first), stamps, error, is_probe=True))
    return tables


def _probes(paths: Iterable[str]) -> Iterable[tuple[str, int]]:
    for path in paths:
        try:
            for packet in parsers.read_ip_packets(path):
                if len(packet.data) < _LONGEST_BYTES and packet.time_ns is not None:
                    match = _PROBE.search(packet.data)
                    if match:
                        yield match[1].decode(), packet.time_ns
        except MultiTracerError:  # what is wrong with it was said when its packets were read
            continue


def _table(
    tags: list[str], hosts: list[str], time_ns: np.ndarray, error: np.ndarray, *, is_probe: bool
) -> Table:
    length = len(tags)
    columns = {
        "tag": np.array(tags, dtype="U32"),
        "host": np.array(hosts, dtype="U128"),
        "domain": np.full(length, "realtime", dtype="U16"),
        "time_ns": time_ns,
        "error_ns": error.astype(np.int64),
        "heard": np.full(length, is_probe),
    }
    return Table(CLAPS, columns)
