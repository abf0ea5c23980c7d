"""Times of the same instants by two clocks: bracketed readings, tags of sync probes, slots of a link.

Such pairs need no model of a path: each gives the offset within its own uncertainty.

- Two clocks of one kernel (`rigid`) have the same rate, since adjustments apply to both; their offset changes
  only by steps. Between two steps, all readings allow a common offset.
- Two independent clocks differ in rate by up to 500 ppm (the limit of RFC 5905); a faster change is a step.
  Between steps a straight line is fitted to the pairs, weighted by their uncertainties.
- Of two clocks of which one was read between two readings of the other (`bracketed`), the offset is certainly
  within each bracket, wherever in it: the bound is that of all lines through all brackets.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM, ClockEvidence, Estimate, EventDirection
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.model.skew_posterior import certain
from multitracer.errors import ClockError
from multitracer.manifest import Role
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.logs import HostLog, LogSource
    from multitracer.tables import Array, Table

UNSEEN_SKEW_PPM = 100.0
"""Uncertainty of the skew from a single pair, ppm: the error of a cheap quartz."""
_MOST_STEPS = 1_000
"""Maximum number of steps; with more, the times are not those of a clock."""
_SIGMAS = 1.96  # 95 % of a normal distribution


def rigid(from_ns: Array, to_ns: Array, error_ns: Array, *, method: str) -> list[Estimate]:
    """Return the offsets of two clocks of one kernel, one for each interval between steps.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_pairs,)
        Times of the same instants, in the order in which they were taken.
    error_ns : ndarray of int64, shape (n_pairs,)
        Maximum error of each difference.
    method : str
        Name of the method, for the estimates.

    Raises
    ------
    ClockError
        If there is no pair.
    """
    _check(len(from_ns), method)
    offset = to_ns - from_ns
    low, high = offset - error_ns, offset + error_ns
    parts, begin = [], 0
    ends = _agreement(low.tolist(), high.tolist())
    _check_steps(len(ends), method)
    for end in [*ends, len(offset)]:
        rows = slice(begin, end)
        minimum, most = int(low[rows].max()), int(high[rows].min())
        parts.append(
            Estimate(
                first_ns=int(from_ns[rows].min()),
                last_ns=int(from_ns[rows].max()),
                offset_ns=(minimum + most) // 2,
                skew_ppm=0.0,
                uncertainty_ns=(most - minimum) / 2,
                skew_uncertainty_ppm=0.0,
                method=method,
                evidence=end - begin,
                lower_ns=minimum,
                upper_ns=most,
                points=_evidence(from_ns[rows], to_ns[rows]),
            )
        )
        begin = end
    return parts


def _agreement(low: list[int], high: list[int]) -> list[int]:
    """Return the indexes of intervals [low, high] that have no point in common with all earlier ones.

    Such an interval begins a new group, and is then compared only with later ones of this group.
    """
    ends = []
    minimum, most = low[0], high[0]
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        if max(minimum, a) <= min(most, b):
            minimum, most = max(minimum, a), min(most, b)
        else:
            ends.append(i)
            minimum, most = a, b
    return ends


def fitted(from_ns: Array, to_ns: Array, error_ns: Array, *, method: str) -> list[Estimate]:
    """Return the relation of two clocks with independent rates, for each interval between steps.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_pairs,)
        Times of the same instants, in any order.
    error_ns : ndarray of int64, shape (n_pairs,)
        Half-width of the 95 % interval of each difference.
    method : str
        Name of the method, for the estimates.

    Raises
    ------
    ClockError
        If there is no pair.
    """
    _check(len(from_ns), method)
    order = np.argsort(from_ns, kind="stable")
    start, end, error = (np.asarray(column)[order] for column in (from_ns, to_ns, error_ns))
    cuts = _steps(start, end, error)
    _check_steps(len(cuts), method)
    bounds = [0, *cuts.tolist(), len(start)]
    parts = [slice(a, b) for a, b in pairwise(bounds)]
    return [_line(start[part], end[part], error[part], method) for part in parts]


def _check(pairs: int, method: str) -> None:
    if not pairs:
        raise ClockError(
            f"{method}: cannot determine the clock offset, because there is no pair of readings; what "
            "would help: record clocks.jsonl, or sync probes in every log"
        )


def _check_steps(steps: int, method: str) -> None:
    if steps > _MOST_STEPS:
        raise ClockError(
            f"{method}: cannot determine the clock offset, because the clocks step {steps:,} times "
            "against each other; what would help: a log whose times are from one clock"
        )


def _steps(from_ns: Array, to_ns: Array, error_ns: Array) -> Array:
    """Return the rows before which the offset of the clocks changed faster than by drift (a step)."""
    moved = np.abs(np.diff(to_ns - from_ns))
    drift = MOST_SKEW_PPM * PPM * np.abs(np.diff(from_ns))
    return np.flatnonzero(moved > drift + 2 * (error_ns[1:] + error_ns[:-1]) + NS_PER_MS) + 1


def _line(from_ns: Array, to_ns: Array, error_ns: Array, method: str) -> Estimate:
    first = int(from_ns[0])
    base = int(to_ns[0]) - first
    x = (from_ns - first).astype(np.float64)
    y = (to_ns - from_ns - base).astype(np.float64)
    weight = 1 / np.maximum(error_ns / _SIGMAS, 1.0) ** 2
    middle = float(np.average(x, weights=weight))
    spread = float(np.sum(weight * (x - middle) ** 2))
    height = float(np.average(y, weights=weight))
    slope = float(np.sum(weight * (x - middle) * (y - height))) / spread if spread > 0 else 0.0
    excess = _excess(weight * (y - height - slope * (x - middle)) ** 2)
    skew_error = _SIGMAS * excess / np.sqrt(spread) / PPM if spread > 0 else UNSEEN_SKEW_PPM
    return Estimate.around(
        first + round(middle),
        _SIGMAS * excess / float(np.sqrt(weight.sum())),
        first_ns=first,
        last_ns=int(from_ns[-1]),
        offset_ns=base + round(height - slope * middle),
        skew_ppm=slope / PPM,
        skew_uncertainty_ppm=min(float(skew_error), 2 * MOST_SKEW_PPM),
        method=method,
        evidence=len(x),
        points=_evidence(from_ns, to_ns),
    )


_ROOM, _TILT = 1.15, 2.03
"""Factors with which the hyperbola of an estimate lies above two rising lines: (f² - 1) (g² - 1) = 1 for f and g."""
_WANDER = 1 * PPM
"""How far a clock departs from a line, as a part of the time: a quartz that warms up. Not measured."""


def bracketed(from_ns: Array, low_ns: Array, high_ns: Array, *, method: str) -> list[Estimate]:
    """Return the relation of two clocks with certain bounds, for each interval between steps.

    The bound of an estimate is certain if both rates are constant between steps, not one of 95 %: how question and
    answer share the time of a reading is not known, and may be the same each time.

    Parameters
    ----------
    from_ns : ndarray of int64, shape (n_readings,)
        Times by `from`.
    low_ns, high_ns : ndarray of int64, shape (n_readings,)
        The time by `to` before and after.
    method : str
        Name of the method, for the estimates.

    Raises
    ------
    ClockError
        If there is no reading.
    """
    _check(len(from_ns), method)
    order = np.argsort(from_ns, kind="stable")
    start, low, high = (np.asarray(column)[order] for column in (from_ns, low_ns, high_ns))
    cuts = _steps(start, low + (high - low) // 2, (high - low + 1) // 2)
    _check_steps(len(cuts), method)
    return [_through(start[a:b], low[a:b], high[a:b], method) for a, b in pairwise([0, *cuts.tolist(), len(start)])]


def _through(from_ns: Array, low_ns: Array, high_ns: Array, method: str) -> Estimate:
    """Return the middle of the lines through all brackets, and its bound; the best fit if there is no such line."""
    first, base, middle_ns = int(from_ns[0]), int(low_ns[0]) - int(from_ns[0]), low_ns + (high_ns - low_ns) // 2
    times, starts = np.unique(from_ns, return_index=True)
    x = (times - first).astype(np.float64)
    floor = np.maximum.reduceat((low_ns - from_ns - base).astype(np.float64), starts)
    ceiling = np.minimum.reduceat((high_ns - from_ns - base).astype(np.float64), starts)
    top, bottom = _below(x, ceiling), _below(x, -floor)
    corners = np.union1d(x[top], x[bottom])
    above, under = np.interp(corners, x[top], ceiling[top]), np.interp(corners, x[bottom], floor[bottom])
    steepest, flattest = _slopes(x[bottom], floor[bottom], x[top], ceiling[top])
    if (above < under).any() or steepest < flattest:
        line = _line(from_ns, middle_ns, (high_ns - low_ns + 1) // 2 + 1, method)
        off = np.maximum(high_ns - line.at(from_ns), line.at(from_ns) - low_ns)
        best = off[high_ns - low_ns <= np.median(high_ns - low_ns)]
        return _with_bound(line, line.pivot, float(best.max()), line.skew_uncertainty_ppm)
    slope, narrowest = (steepest + flattest) / 2, int(np.argmin(above - under))
    pivot, height = float(corners[narrowest]), float(above[narrowest] + under[narrowest]) / 2
    estimate = Estimate(
        first_ns=first, last_ns=int(from_ns[-1]), offset_ns=base + round(height - slope * pivot), skew_ppm=slope / PPM,
        uncertainty_ns=0.0, skew_uncertainty_ppm=0.0, method=method, evidence=len(from_ns),
        points=_evidence(from_ns, middle_ns),
    )  # fmt: skip
    # each of the lines passes the pivot within this half-width, and departs from there by its slope
    certain_ns = _ROOM * float(above[narrowest] - under[narrowest]) / 2 + _WANDER * float(x[-1]) + 2
    return _with_bound(estimate, first + round(pivot), certain_ns, _TILT * (steepest - flattest) / 2 / PPM)


def _with_bound(line: Estimate, pivot_ns: int, at_pivot_ns: float, tilt_ppm: float) -> Estimate:
    fields = {name: getattr(line, name) for name in ("first_ns", "last_ns", "offset_ns", "skew_ppm", "method",
                                                     "evidence", "points")}  # fmt: skip
    return Estimate.around(pivot_ns, at_pivot_ns, **fields, skew_uncertainty_ppm=tilt_ppm, notes=(_BRACKETED,))


def _below(x: Array, y: Array) -> list[int]:
    """Return the indexes of the points on the lower convex hull; x ascends."""
    hull: list[int] = []
    for at, (right, height) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        while len(hull) > 1:
            one, two = hull[-2], hull[-1]
            if (y[two] - y[one]) * (right - x[one]) < (height - y[one]) * (x[two] - x[one]):
                break
            hull.pop()
        hull.append(at)
    return hull


def _slopes(low_x: Array, low: Array, high_x: Array, high: Array) -> tuple[float, float]:
    """Return the largest and the smallest slope of a line above all of the one and below all of the other points."""
    most = MOST_SKEW_PPM * PPM
    across = high_x[None, :] - low_x[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (high[None, :] - low[:, None]) / across
    steepest = float(slope[across > 0].min(initial=most))
    flattest = float(slope[across < 0].max(initial=-most))
    return steepest, flattest


def _excess(squares: Array) -> float:
    """Return by which factor the residuals exceed the stated errors, at least 1."""
    freedom = len(squares) - 2
    return max(1.0, float(np.sqrt(squares.sum() / freedom))) if freedom > 0 else 1.0


def _evidence(from_ns: Array, to_ns: Array) -> ClockEvidence:
    return ClockEvidence(from_ns, to_ns, np.full(len(from_ns), EventDirection.TOGETHER, dtype=np.int8))


# Edges from readings that hosts took of their own clocks (clocks.jsonl), and of what disciplines them.
#
# - realtime, monotonic and boottime of a host, read between two readings of monotonic: exact to the bracket.
#   A jump of realtime against monotonic is somebody setting the clock; one of boottime is a suspend.
# - Two hosts whose readings are the same to the nanosecond are one kernel: namespaces share its clocks.
# - A kernel that says it is synchronized bounds its distance from UTC (adjtimex(2): `maxerror`).


UTC = Clock("", "utc")
ONE_KERNEL = "one kernel"
"""Method of the relation of two hosts that share their clocks."""
_METHOD = "bracketed readings"
_DISCIPLINED = "the kernel's own bound (NTP)"
_REMOTE = "remote clock between two readings"
_STATED = "a bound that the kernel states, not a measurement of ours"
_BRACKETED = "certain: each line through the times between question and answer"
_MOST_HOSTS = 64  # a session has two or three; bounds the time on a log that invents them
_LONGEST_BRACKET_NS = 1_000_000_000
"""Maximum duration of a reading, ns: in a longer one the machine slept or was suspended."""


def relations_of_readings(readings: Table) -> Iterator[Relation]:
    """Yield the relations of the clocks of all hosts that follow from their clock readings.

    `readings` is CLOCK_READINGS, in the order of their log.
    """
    hosts = list(dict.fromkeys(readings["host"].tolist()))[:_MOST_HOSTS]
    tables = {host: _usable(readings.take(readings["host"] == host)) for host in hosts}
    for host, table in tables.items():
        if len(table):
            with suppress(ClockError):  # a log whose clocks jump at each reading says nothing
                yield from _of_host(host, table)
    yield from _same_kernels({host: table for host, table in tables.items() if len(table)})


def _usable(table: Table) -> Table:
    """Return the clock readings whose bracket (times before and after) is complete and short."""
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
    """Yield the relation of a host's clock to UTC, if its kernel reports that it is synchronized.

    The uncertainty is the error that the kernel reports.
    """
    bound = table["max_error_ns"]
    rows = np.flatnonzero((table["synchronized"] == 1) & (bound != NOT_A_TIME) & (bound >= 0))
    if not len(rows):
        return
    left = table["offset_ns"][rows]
    left = np.where(left == NOT_A_TIME, 0, left)
    realtime = table["time_ns"][rows]
    estimates = fitted(realtime, realtime + left, bound[rows], method=_DISCIPLINED)
    widest = [_no_better_than(e, realtime, bound[rows], _STATED) for e in estimates]
    yield Relation(Clock(host), UTC, tuple(widest))


def relations_of_remote_clocks(host: str, readings: Table) -> Iterator[Relation]:
    """Yield the relation of each other machine whose clock a host read (REMOTE_CLOCK) to the host's wall clock.

    The question and its answer may take different times, always in the same way: errors do not average out.
    """
    for name in list(dict.fromkeys(readings["host"].tolist()))[:_MOST_HOSTS]:
        table = readings.take(readings["host"] == name)
        before, after, remote = (table[column] for column in ("time_ns", "until_ns", "remote_ns"))
        known = (before != NOT_A_TIME) & (after >= before) & (remote != NOT_A_TIME)
        with suppress(ClockError):  # nothing was read, or a clock that jumps at each reading
            estimates = bracketed(remote[known], before[known], after[known], method=_REMOTE)
            yield Relation(Clock(name), Clock(host), tuple(estimates))


def _no_better_than(estimate: Estimate, stamps: Array, bound_ns: Array, note: str) -> Estimate:
    """Return the estimate with its uncertainty raised to that of the best single reading.

    The errors of readings from one server do not average out.
    """
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
        notes=(note,),
        points=estimate.points,
    )


def _same_kernels(tables: dict[str, Table]) -> Iterator[Relation]:
    """Yield a relation for each two hosts with identical clock readings: they are the same machine."""
    for one, other in pairwise(tables):
        mine, theirs = (_names(tables[host]) for host in (one, other))
        shared = len(np.intersect1d(mine, theirs))
        if shared and shared == min(len(mine), len(theirs)):
            yield from same_kernel(one, other, shared)


def _names(table: Table) -> Array:
    """Return a value that identifies each reading, from three of its clocks.

    We assume that two readings never have the same nanosecond in three clocks.
    """
    columns = ("monotonic_before_ns", "time_ns", "monotonic_after_ns")
    return np.unique(np.stack([table[name] for name in columns], axis=1).view("V24").ravel().view(np.void))


def same_kernel(one: str, other: str, evidence: int) -> Iterator[Relation]:
    """Yield the relations that state that the clocks of two hosts are identical."""
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


# Clocks of the two sides of a link, by the slots that both of their logs number.
#
# A slot (20 ms of a GSM data call) is the same piece of time on both sides, whatever clock stamps it: no
# model of a path is needed. What remains open is where within a slot each side takes its stamp.


LINK_SLOTS = "slots of the link"
PHASE_SHARE = 0.05
"""Both sides are assumed to record a slot at the same phase, within this share of its length."""
_FEWEST = 50  # one second of 20 ms slots
_WINDOWS = 200  # parts whose medians make the line; each has ten slots or more. Not measured
_MAD_SIGMA = 1.4826
"""Factor from the median absolute deviation to the standard deviation of normal noise."""
_OF_A_MEDIAN = 1.2533
"""Ratio of the standard error of a median to that of a mean."""


def relate_slots(near: Table, far: Table) -> list[Estimate]:
    """Return the relation of the clocks at the two sides of a link, from its numbered slots.

    The result has an estimate for each interval between clock steps.

    Parameters
    ----------
    near, far : Table
        LINK_FRAMES of the two sides of one call.

    Raises
    ------
    ClockError
        If they have too few slot numbers in common.
    """
    near_tick, near_ns = _stamped(near)
    far_tick, far_ns = _stamped(far)
    _, one, other = np.intersect1d(near_tick, far_tick, assume_unique=True, return_indices=True)
    if len(one) < _FEWEST:
        raise ClockError(
            f"{LINK_SLOTS}: cannot determine the clock offset, because the two logs have {len(one)} "
            f"slot numbers in common, fewer than {_FEWEST}; what would help: logs of the same call of "
            "at least some seconds"
        )
    start, end, error = _levels(near_ns[one], far_ns[other])
    phase_ns = PHASE_SHARE * _slot_ns(near_tick, near_ns)
    return [_with_phase(estimate, phase_ns, near_ns[one]) for estimate in fitted(start, end, error, method=LINK_SLOTS)]


def _stamped(frames: Table) -> tuple[Array, Array]:
    """Return the slot numbers of a log, ascending, and the first time of each."""
    rows = np.flatnonzero(frames["tick"] != NA)
    tick, first = np.unique(frames["tick"][rows], return_index=True)
    return tick, frames["time_ns"][rows[first]]


def _levels(near_ns: Array, far_ns: Array) -> tuple[Array, Array, Array]:
    """Return three arrays for groups of slots: median by the near clock, by the far clock, and the error.

    The error is that of the difference of the medians, in ns.
    """
    parts = np.array_split(np.arange(len(near_ns)), min(_WINDOWS, len(near_ns) // 10))
    start = np.array([int(np.median(near_ns[part])) for part in parts], dtype=np.int64)
    difference = far_ns - near_ns
    middle = np.array([int(np.median(difference[part])) for part in parts], dtype=np.int64)
    spread = np.array([np.median(np.abs(difference[p] - m)) for p, m in zip(parts, middle, strict=True)])
    lengths = np.array([len(part) for part in parts])
    error = _SIGMAS * _OF_A_MEDIAN * _MAD_SIGMA * spread / np.sqrt(lengths)
    return start, start + middle, np.maximum(np.rint(error), 1).astype(np.int64)


def _slot_ns(tick: Array, time_ns: Array) -> float:
    lasted = np.diff(time_ns) / np.diff(tick)
    return float(np.median(lasted))


def _with_phase(estimate: Estimate, phase_ns: float, stamps: Array) -> Estimate:
    """Return the estimate with its uncertainty raised, because the position within a slot is unknown."""
    return replace(
        estimate,
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, phase_ns)),
        evidence=int(np.count_nonzero(estimate.covers(stamps))),
        notes=(f"both sides are assumed to stamp the same point of a slot, to {phase_ns / 1e6:.1f} ms",),
    )


# Clocks of the two ends of a measurement, as CentaurusComm compared them in each transaction.
#
# Each question and its answer bound the server's clock from both sides, whatever the two ways of the path are
# like (docs/centauruscomm.md). What is left between the bounds does not average out over transactions.


CENTAURUSCOMM = "centauruscomm"
_FARTHEST_S = 1e9
"""Maximum difference of two clocks, s: with more than 32 years, the data are damaged."""
_LONGEST_NAME = 100  # names are shown and sorted; a log may hold anything
_NOTE = "both programs count from the time of day at their start; later steps of their hosts' clocks do not show"


def relations_of_transactions(source: LogSource, refused: list[str]) -> Iterator[Relation]:
    """Yield the offset of a server's clock from its client's, for each log of transactions with both.

    Parameters
    ----------
    source : LogSource
    refused : list of str
        A sentence is appended for each log whose comparisons do not determine the offset.
    """
    for log, tables in source.logs("transactions"):
        table = tables["transactions"]
        compared = table.take(_compared(table))
        if not len(compared):
            continue  # TCP, or a server that was never reached: nothing to be said
        client, server = _clocks_of_peers(source, log)
        try:
            yield Relation(client, server, tuple(relate_transactions(compared)))
        except ClockError as error:
            refused.append(f"{client.host} and {server.host}: {error}")


def _compared(table: Table) -> Array:
    """Return which transactions compared the clocks of client and server: bool."""
    offset, bound = table["clock_offset_s"], table["clock_uncertainty_s"]
    known: Array = (table["start_ns"] != NOT_A_TIME) & (bound >= 0) & (bound < _FARTHEST_S)
    return known & (np.abs(offset) < _FARTHEST_S)


def _clocks_of_peers(source: LogSource, log: HostLog) -> tuple[Clock, Clock]:
    """Return the clock of the client and the clock of the server of a log of transactions.

    The hosts are those in the manifest; the server is found by its address. With a modelled link there is no
    address; the manifest then gives the two hosts.
    """
    manifest = source.manifest
    plan = manifest.variables.measurement if manifest else None
    roles = {host.role: name for name, host in manifest.hosts.items()} if manifest else {}
    if plan is not None and plan.over is not None and {Role.CLIENT, Role.SERVER} <= set(roles):
        return Clock(roles[Role.CLIENT]), Clock(roles[Role.SERVER])
    server = ((plan.server if plan else None) or "server")[:_LONGEST_NAME]
    address = server if server.startswith("serial:") else server.rpartition(":")[0].strip("[]") or server
    own = log.host
    for host, facts in manifest.hosts.items() if manifest else ():
        address = host if address in facts.addresses else address
    if manifest and source.folder is not None and log.host == str(source.folder):
        noted = {str(source.folder / file.path): file.host for file in manifest.files}
        own = noted.get(log.path, next(iter(manifest.hosts), own))
    return Clock(own), Clock(address if address != own else f"{address} (server)")


def relate_transactions(compared: Table) -> list[Estimate]:
    """Return the relation of the server's clock to the client's, for each interval between steps.

    Parameters
    ----------
    compared : Table
        TRANSACTIONS that compared the clocks. The time of the comparison within the transaction is unknown,
        so the possible drift is added to its bound.

    Raises
    ------
    ClockError
        If the clocks step at every transaction.
    """
    took = np.where(np.isfinite(compared["rtt_s"]), compared["rtt_s"], compared["timeout_s"]) * NS_PER_S
    start = compared["start_ns"] + np.rint(np.nan_to_num(took) / 2).astype(np.int64)
    offset = np.rint(compared["clock_offset_s"] * NS_PER_S).astype(np.int64)
    bound = compared["clock_uncertainty_s"] * NS_PER_S + UNSEEN_SKEW_PPM * PPM * np.nan_to_num(took) / 2
    bound = np.maximum(np.ceil(bound).astype(np.int64), 1)
    return [
        _certain(estimate, start, offset, bound)
        for estimate in fitted(start, start + offset, bound, method=CENTAURUSCOMM)
    ]


def _certain(estimate: Estimate, start: Array, offset: Array, bound: Array) -> Estimate:
    """Return the estimate with the range of offsets that all comparisons together allow.

    This range becomes its bounds and its uncertainty.
    """
    here = np.asarray(estimate.covers(start))
    time = (start[here] - estimate.first_ns).astype(np.float64)
    away = (offset[here] - estimate.offset_ns).astype(np.float64)
    half = bound[here].astype(np.float64)
    minimum, most = certain((time, away + half), (time, half - away), 0.0)
    minimum, most = min(minimum, most), max(minimum, most)
    return replace(
        estimate,
        offset_ns=estimate.offset_ns + round(min(max(minimum, 0.0), most)),
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, half.min())),
        lower_ns=estimate.offset_ns + round(minimum),
        upper_ns=estimate.offset_ns + round(most),
        notes=(_NOTE,),
    )
