"""Edges from readings that hosts took of their own clocks (clocks.jsonl), and of what disciplines them.

- realtime, monotonic and boottime of a host, read between two readings of monotonic: exact to the bracket.
  A jump of realtime against monotonic is somebody setting the clock; one of boottime is a suspend.
- Two hosts whose readings are the same to the nanosecond are one kernel: namespaces share its clocks.
- A kernel that says it is synchronized bounds its distance from UTC (adjtimex(2): `maxerror`).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import Estimate
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.sources.paired_stamps import fitted, rigid
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Table

UTC = Clock("", "utc")
ONE_KERNEL = "one kernel"
"""Method of a relation of two hosts that share their clocks."""
_METHOD = "bracketed readings"
_DISCIPLINED = "the kernel's own bound (NTP)"
_MOST_HOSTS = 64  # a session has two or three; bounds the time on a log that invents them
_LONGEST_BRACKET_NS = 1_000_000_000
"""A reading that took longer says nothing; the machine slept or was stopped in between."""


def relations_of_readings(readings: Table) -> Iterator[Relation]:
    """Yield the relations by the clock readings of all hosts, CLOCK_READINGS in the order of their log."""
    hosts = list(dict.fromkeys(readings["host"].tolist()))[:_MOST_HOSTS]
    tables = {host: _usable(readings.take(readings["host"] == host)) for host in hosts}
    for host, table in tables.items():
        if len(table):
            with suppress(ClockError):  # a log whose clocks jump at each reading says nothing
                yield from _of_host(host, table)
    yield from _same_kernels({host: table for host, table in tables.items() if len(table)})


def _usable(table: Table) -> Table:
    """Return the readings with a whole and short bracket."""
    before, after = table["monotonic_before_ns"], table["monotonic_after_ns"]
    known = (before != NOT_A_TIME) & (after != NOT_A_TIME) & (table["time_ns"] != NOT_A_TIME)
    brief = np.zeros(len(table), dtype=bool)
    brief[known] = (after[known] >= before[known]) & (after[known] - before[known] < _LONGEST_BRACKET_NS)
    return table.take(brief)


def _of_host(host: str, table: Table) -> Iterator[Relation]:
    before, after = table["monotonic_before_ns"], table["monotonic_after_ns"]
    middle, error = before + (after - before) // 2, (after - before + 1) // 2 + 1
    monotonic = Clock(host, "monotonic")
    for domain, column in (("realtime", "time_ns"), ("boottime", "boottime_ns")):
        rows = np.flatnonzero(table[column] != NOT_A_TIME)
        if len(rows):
            estimates = rigid(middle[rows], table[column][rows], error[rows], method=_METHOD)
            yield Relation(monotonic, Clock(host, domain), tuple(estimates))
    yield from _disciplined(host, table)


def _disciplined(host: str, table: Table) -> Iterator[Relation]:
    """Yield the relation to UTC that a synchronized kernel vouches for."""
    bound = table["max_error_ns"]
    rows = np.flatnonzero((table["synchronized"] == 1) & (bound != NOT_A_TIME) & (bound >= 0))
    if not len(rows):
        return
    left = table["offset_ns"][rows]
    left = np.where(left == NOT_A_TIME, 0, left)
    realtime = table["time_ns"][rows]
    estimates = fitted(realtime, realtime + left, bound[rows], method=_DISCIPLINED)
    widest = [_no_better_than(e, realtime, bound[rows]) for e in estimates]
    yield Relation(Clock(host), UTC, tuple(widest))


def _no_better_than(estimate: Estimate, stamps: Array, bound_ns: Array) -> Estimate:
    """Return the estimate with the best single bound: errors of one server do not average out."""
    here = np.asarray(estimate.covers(stamps))
    best = int(bound_ns[here].min()) if here.any() else int(bound_ns.min())
    return Estimate.around(
        estimate.pivot,
        float(best),
        first_ns=estimate.first_ns,
        last_ns=estimate.last_ns,
        offset_ns=estimate.offset_ns,
        skew_ppm=estimate.skew_ppm,
        skew_uncertainty_ppm=estimate.skew_uncertainty_ppm,
        method=estimate.method,
        evidence=estimate.evidence,
        notes=("a bound that the kernel states, not a measurement of ours",),
        points=estimate.points,
    )


def _same_kernels(tables: dict[str, Table]) -> Iterator[Relation]:
    """Yield that two hosts are one machine, where their readings are the same ones."""
    for one, other in pairwise(tables):
        mine, theirs = (_names(tables[host]) for host in (one, other))
        shared = len(np.intersect1d(mine, theirs))
        if shared and shared == min(len(mine), len(theirs)):
            yield from same_kernel(one, other, shared)


def _names(table: Table) -> Array:
    """Return what identifies a reading: no two are taken at the same nanosecond of three clocks."""
    columns = ("monotonic_before_ns", "time_ns", "monotonic_after_ns")
    return np.unique(np.stack([table[name] for name in columns], axis=1).view("V24").ravel().view(np.void))


def same_kernel(one: str, other: str, evidence: int) -> Iterator[Relation]:
    """Yield that the clocks of two hosts are the same ones."""
    always = Estimate(
        first_ns=-(1 << 60),
        last_ns=(1 << 62) - 1,
        offset_ns=0,
        skew_ppm=0.0,
        uncertainty_ns=0.0,
        skew_uncertainty_ppm=0.0,
        method=ONE_KERNEL,
        evidence=evidence,
        lower_ns=0,
        upper_ns=0,
    )
    for domain in ("realtime", "monotonic", "boottime"):
        yield Relation(Clock(one, domain), Clock(other, domain), (always,))


__all__ = ["UTC", "relations_of_readings", "same_kernel"]
