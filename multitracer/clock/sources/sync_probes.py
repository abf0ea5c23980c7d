"""Sync probes: packets with a tag that several hosts record, each by its own clock.

Logs that *wrote* a tag recorded it at the same instant. A capture that *received* the probe recorded it
later, on its path or at its destination. So probes in both directions bound the offset from both sides, as in
NTP; the error of the middle is at most half the sum of the two delays.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.clock.model.estimate import ClockEvidence, Estimate, EventDirection
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.sources.paired_stamps import fitted
from multitracer.errors import ClockError, MultiTracerError
from multitracer.tables import Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from multitracer.logs import Point
    from multitracer.tables import Array

SYNC_PROBES = Schema(
    "claps",
    (
        Column("tag", "U32", "what was clapped, the same in every log"),
        Column("host", "U128", "whose clock stamped it"),
        Column("domain", "U16", "which of its clocks"),
        Column("time_ns", "int64", "when, by that clock", "ns since its clock's zero"),
        Column("error_ns", "int64", "by how much the stamp may be off", "ns"),
        Column("heard", "bool", "stamped when the probe came by, not when it was clapped"),
    ),
)
"""The schema of the tags of sync probes as one clock recorded them."""

SYNC_PROBER = "clapperboard"
_LARGEST_PAUSE_NS = 120_000_000_000
"""Maximum time between a probe and one in the other direction that bound the same offset, ns."""


def relations_of_sync_probes(sync_probes: Table) -> Iterator[Relation]:
    """Yield the relations between the clocks in table CLAPS (sync probes).

    Clocks of one host are left out, since the host's own readings relate them.
    """
    clocks = sorted({(h, d) for h, d in zip(sync_probes["host"].tolist(), sync_probes["domain"].tolist(), strict=True)})
    for one, other in combinations([Clock(*names) for names in clocks], 2):
        if one.host == other.host:
            continue
        try:
            yield Relation(one, other, tuple(relate_sync_probes(_of(sync_probes, one), _of(sync_probes, other))))
        except ClockError:  # most clocks of two hosts share no tag
            continue


def _of(sync_probes: Table, clock: Clock) -> Table:
    return sync_probes.take((sync_probes["host"] == clock.host) & (sync_probes["domain"] == clock.domain))


def relate_sync_probes(near: Table, far: Table) -> list[Estimate]:
    """Return the relation of two clocks from the sync probes that both recorded.

    Parameters
    ----------
    near, far : Table
        CLAPS of the two clocks.

    Raises
    ------
    ClockError
        If they share no tag, or received probes in one direction only.
    """
    _, one, other = np.intersect1d(near["tag"], far["tag"], return_indices=True)
    one, other = one[order := np.argsort(near["time_ns"][one])], other[order]
    start, end = near["time_ns"][one], far["time_ns"][other]
    error = near["error_ns"][one] + far["error_ns"][other]
    is_probe = near["heard"][one].astype(int), far["heard"][other].astype(int)
    together = is_probe[0] == is_probe[1]
    if together.any():
        return fitted(start[together], end[together], np.maximum(error[together], 1), method=SYNC_PROBER)
    return _both_ways(start, end, error, is_probe[1] == 1)


def _both_ways(start: Array, end: Array, error: Array, there: Array) -> list[Estimate]:
    """Return the estimate from sync probes in both directions, which bound the offset from both sides."""
    if there.all() or not there.any():
        raise ClockError(
            f"{SYNC_PROBER}: cannot determine the clock offset, because {len(there)} sync probes were "
            "received, all in one direction; what would help: sync probes of both hosts, each sent "
            "to the other"
        )
    out, back = np.flatnonzero(there), np.flatnonzero(~there)
    nearest = back[np.abs(start[out][:, None] - start[back][None, :]).argmin(axis=1)]
    close = np.abs(start[out] - start[nearest]) < _LARGEST_PAUSE_NS
    out, nearest = out[close], nearest[close]
    if not len(out):
        raise ClockError(
            f"{SYNC_PROBER}: cannot determine the clock offset, because no two sync probes in both "
            "directions are within two minutes; what would help: more frequent sync probes"
        )
    high, low = end[out] - start[out], end[nearest] - start[nearest]
    half = np.maximum((high - low) // 2 + error[out] + error[nearest], 1)
    estimates = fitted(start[out], start[out] + low + (high - low) // 2, half, method=SYNC_PROBER)
    direction = np.where(there, EventDirection.FORWARD, EventDirection.BACKWARD).astype(np.int8)
    return [_bounded(estimate, start[out], half, ClockEvidence(start, end, direction)) for estimate in estimates]


def _bounded(estimate: Estimate, stamps: Array, half: Array, points: ClockEvidence) -> Estimate:
    """Return the estimate with its uncertainty raised, because the delays of both directions may differ.

    Averaging over probes does not reduce this part.
    """
    minimum = float(half[estimate.covers(stamps)].min())
    return replace(
        estimate,
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, minimum)),
        notes=("the probes are assumed to take equally long both ways; the error holds if they do not",),
        points=points,
    )


# The tags of sync probes are in the log of each host, and in the probes in captures.


MAGIC = b"MultiTracer clap "
"""Begin of the payload of a sync probe (multitracer/recorder/supervisor.py)."""
_PROBE = re.compile(re.escape(MAGIC) + rb"([0-9a-f]{1,32})")
_LONGEST_BYTES = 200
"""Maximum length of a probe with its headers, bytes."""
_STAMPING_NS = 100_000
"""Maximum difference between a capture's time of a packet and the time on the link, ns."""


def written(readings: Table) -> list[Table]:
    """Return table CLAPS (sync probes) for the tags that CLOCK_READINGS has in its provenance.

    A reading without a tag ("") gives no row.
    """
    tags = np.array(readings.provenance.get("tags", []), dtype="U32")
    if not np.any(tags != ""):
        return []
    tagged = readings.take(tags != "")
    half = (tagged["monotonic_after_ns"] - tagged["monotonic_before_ns"] + 1) // 2
    hosts = tagged["host"].tolist()
    return [_table(tags[tags != ""].tolist(), hosts, tagged["time_ns"], half, is_probe=False)]


def probes_in(points: Iterable[Point], hosts: dict[str, str], known: Sequence[Table]) -> list[Table]:
    """Return a table CLAPS for each capture, with the sync probes of other hosts in it.

    A file that cannot be read gives none.
    """
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


def _table(tags: list[str], hosts: list[str], time_ns: np.ndarray, error: np.ndarray, *, is_probe: bool) -> Table:
    length = len(tags)
    columns = {
        "tag": np.array(tags, dtype="U32"),
        "host": np.array(hosts, dtype="U128"),
        "domain": np.full(length, "realtime", dtype="U16"),
        "time_ns": time_ns,
        "error_ns": error.astype(np.int64),
        "heard": np.full(length, is_probe),
    }
    return Table(SYNC_PROBES, columns)
