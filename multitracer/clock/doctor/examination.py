"""The clock doctor: finds faults of the clocks of a recording and proposes repairs.

One log alone shows times that go backwards, repeat or fall (`RULES_ALONE`); time scales, time zones and
calendars show only against another clock (`RULES_BETWEEN`). Original times are never changed: a complaint has
the times after the repair.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.doctor.faults import (
    EFFECT_FIRST,
    OF_LOGS,
    OF_STEPS,
    RULES_ALONE,
    RULES_BETWEEN,
    ClockDifference,
    Complaint,
    Fault,
    Rule,
    Stamps,
    calendar,
    effect_first,
    rate,
)
from multitracer.clock.model.relation import Clock
from multitracer.schemas.radio import RADIO, SEARCHES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.clock.model.estimate import Estimate
    from multitracer.clock.model.relation import Relation
    from multitracer.tables import Array

    Alone = Callable[[Stamps], Complaint | None]

    from multitracer.capture import CaptureTables
    from multitracer.clock.model.relation import ClockGraph
    from multitracer.logs import LogSource, PointTables
    from multitracer.tables import Table, Times

_SURE_ERROR_S = 0.5  # half of the least distance between two faults (a leap second)
_BESIDES = ("whole-seconds", "coarse-stamps")
"""Faults that may occur together with others."""
_SETS_THE_AHEAD = ("tai", "gps")
_FEWEST_RESETS = 4
"""Minimum number of steps in one direction that are attributed to a program; three may have been made by hand."""
_MIN_APART_S = 60.0
"""Minimum difference between the begins or ends of two logs that counts, s: logs of one session usually begin and end
within a minute. Not measured."""
_UNLIKE = 3
"""A step this many times the median step is not a reset of a steady drift. Not measured."""


def examine(stamps: Stamps, rules: Sequence[Alone] = RULES_ALONE) -> list[Complaint]:
    """Return the faults of a log's times that can be found without another clock."""
    complaints: list[Complaint] = []
    for rule in rules:
        if any(each.code not in _BESIDES for each in complaints):
            break
        complaint = rule(stamps)
        complaints += [complaint] if complaint else []
    return complaints


def compare(
    relation: Relation, *, source: str, reference: str, set_back: frozenset[str] = frozenset()
) -> list[Complaint]:
    """Return faults of time scale, time zone and calendar, found by comparing a log with a reference clock.

    Parameters
    ----------
    relation : Relation
        From the reference's clock to that of the log.
    source, reference : str
        Names of the log and the reference, for users.
    set_back : frozenset of str
        Names of those whose own records show that their clock stepped backwards.
    """
    if reference in set_back and source not in set_back:  # the one that moved is at fault
        return compare(relation.inverse(), source=reference, reference=source, set_back=set_back)
    complaints = _of_intervals(relation, source, reference)
    complaints = complaints or list(_of_steps(relation, source, reference, set_back=set_back))
    others = (_resets(relation, source), rate(relation, source, reference), effect_first(relation, source, reference))
    return [*complaints, *filter(None, others)]


def compare_own(relation: Relation, *, source: str) -> list[Complaint]:
    """Return the faults in a host's wall clock, found by comparing it with the host's monotonic clock.

    The monotonic clock is never set.

    Parameters
    ----------
    relation : Relation
        From the monotonic clock to the wall clock.
    source : str
        Name of the host.
    """
    return list(_of_steps(relation, source, f"{source}'s monotonic clock", never_set=True))


def _of_intervals(relation: Relation, source: str, reference: str) -> list[Complaint]:
    """Return the faults that explain the difference of two clocks, each limited to the intervals it is in."""
    by_fault: dict[tuple[str, float], tuple[ClockDifference, Fault, list[int]]] = {}
    for number, estimate in enumerate(relation.estimates):
        difference = _difference(estimate)
        if (fault := _explained(difference)) is not None:
            _, _, numbers = by_fault.setdefault((fault.code, fault.seconds), (difference, fault, []))
            numbers.append(number)
    complaints = []
    for difference, fault, numbers in by_fault.values():
        complete = _complaint(fault, difference, source, reference)
        complaints.append(_limited(complete, relation, numbers, is_source=complete.source == source))
    return complaints


def _difference(estimate: Estimate) -> ClockDifference:
    middle = (estimate.first_ns + estimate.last_ns) // 2
    seconds, error_s = int(estimate.offset_at(middle)) / NS_PER_S, float(estimate.bound_ns(middle)) / NS_PER_S
    return ClockDifference(seconds, error_s, middle)


def _limited(complaint: Complaint, relation: Relation, numbers: list[int], *, is_source: bool) -> Complaint:
    """Return the complaint, limited to the times in the given intervals between steps.

    If these are all intervals, the complaint is unchanged.
    """
    if len(numbers) == len(relation.estimates):
        return complaint
    own = relation.inverse() if is_source else relation
    begin, end = own.estimates[numbers[0]].first_ns, own.estimates[numbers[-1]].last_ns
    when = f"from {_moment(begin)} to {_moment(end)}, "
    return replace(complaint, sentence=when + complaint.sentence, concerns=partial(_in_intervals, own, numbers))


def _in_intervals(relation: Relation, numbers: list[int], stamps: Array) -> Array:
    within: Array = np.isin(relation.intervals(stamps), numbers)
    return within


def _moment(time_ns: int) -> str:
    at = calendar(time_ns / NS_PER_S)
    return "an unknown time" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _of_steps(
    relation: Relation, source: str, reference: str, *, never_set: bool = False, set_back: frozenset[str] = frozenset()
) -> Iterator[Complaint]:
    """Yield the clock steps at which a known fault (for example a wrong time zone) begins or ends.

    A backward step of one clock looks like a forward step of the other. Both are possible unless the
    reference is never set, or one of the two is known to have stepped backwards.
    """
    pairs = zip(relation.estimates, relation.estimates[1:], relation.steps_ns(), strict=False)
    for number, (earlier, later, step_ns) in enumerate(pairs, 1):
        error_ns = float(earlier.bound_ns(earlier.last_ns)) + float(later.bound_ns(later.first_ns))
        moment_ns = int(later.at(later.first_ns))
        difference = ClockDifference(step_ns / NS_PER_S, error_ns / NS_PER_S, moment_ns)
        if (fault := _explained(difference, OF_STEPS)) is None:
            continue
        behind = source if step_ns < 0 else reference
        is_back = behind in set_back or (never_set and step_ns < 0)
        is_source = behind == source if is_back else never_set or step_ns > 0
        who, own = (source, relation.inverse()) if is_source else (reference, relation)
        after = range(number) if is_back else range(number, len(relation.estimates))
        which = "after" if number in after else "before"
        yield Complaint(
            fault.code,
            who,
            f"at {_moment(moment_ns)}, {source} steps by {difference.seconds:+,.3f} s against {reference}: "
            f"{which} that, {who} {fault.says}",
            f"add {-abs(fault.seconds):+,.0f} s to the stamps of {who} {which} the step",
            shift_ns=-round(abs(fault.seconds) * NS_PER_S),
            concerns=partial(_in_intervals, own, list(after)),
        )


def compare_spans(stamps: Stamps, reference: Stamps) -> list[Complaint]:
    """Return the faults that follow from the begin and end times of two logs of one recording.

    It is used if there is no better evidence. We assume that both logs cover the same time.
    """
    own, other = stamps.known_ns, reference.known_ns
    if not len(own) or not len(other):
        return []
    begins, ends = int(own.min()) - int(other.min()), int(own.max()) - int(other.max())
    if int(own.min()) <= int(other.max()) and int(other.min()) <= int(own.max()):
        return []
    error_s = max(abs(begins - ends) / NS_PER_S, _MIN_APART_S)
    difference = ClockDifference((begins + ends) / 2 / NS_PER_S, error_s, int(other.min()))
    fault = _explained(difference)
    return [] if fault is None else [_complaint(fault, difference, stamps.name, reference.name)]


def apart(stamps: Stamps, others: Sequence[Stamps]) -> Complaint | None:
    """Return a complaint if the log overlaps none of the other logs of its session; None if it does.

    Parameters
    ----------
    stamps : Stamps
        The log.
    others : sequence of Stamps
        Logs that it should overlap, on its clock or on one with a small offset.
    """
    own = stamps.known_ns
    gaps = [(_gap_ns(own, other.known_ns), other) for other in others if len(own) and len(other.known_ns)]
    if not gaps or any(not gap for gap, _ in gaps):
        return None
    gap, nearest = min(gaps, key=lambda each: abs(each[0]))
    begins = (int(own.min()) - int(nearest.known_ns.min())) / NS_PER_S
    lies = f"ends {duration(-gap)} before {nearest.name} begins" if gap < 0 else (
        f"begins {duration(gap)} after {nearest.name} ends"
    )  # fmt: skip
    return Complaint(
        "no-overlap",
        stamps.name,
        f"{stamps.name} {lies}: it was written {_span(own)}, {nearest.name} {_span(nearest.known_ns)}",
        "if it is of this session, correct its dates or its clock "
        f"(with {-begins:+,.0f} s it would begin with {nearest.name}); otherwise take it out of the session",
    )


def _span(time_ns: Array) -> str:
    return f"from {_moment(int(time_ns.min()))} to {_moment(int(time_ns.max()))}"


def _gap_ns(own: Array, other: Array) -> int:
    """Return the gap between two sets of times, ns: below 0 if `own` is earlier, 0 if they overlap."""
    before, after = int(own.max()) - int(other.min()), int(own.min()) - int(other.max())
    return before if before < 0 else max(after, 0)


def _explained(difference: ClockDifference, rules: Sequence[Rule] = RULES_BETWEEN) -> Fault | None:
    """Return the fault that explains a difference of two clocks: the first rule that fits; else None."""
    return next(filter(None, (rule(difference) for rule in rules)), None)


def _complaint(fault: Fault, difference: ClockDifference, source: str, reference: str) -> Complaint:
    ahead, behind = (source, reference) if fault.seconds > 0 else (reference, source)
    to_repair = ahead if fault.code in _SETS_THE_AHEAD else source
    if fault.code == "gps-epoch":
        to_repair = behind
    shift = -abs(fault.seconds) if to_repair == ahead else abs(fault.seconds)
    rest = difference.seconds - fault.seconds
    error = f" ± {difference.error_s:,.3f} s" if difference.error_s > _SURE_ERROR_S else ""
    who = source if fault.code in {"day-month", "year"} else ahead
    return Complaint(
        fault.code,
        to_repair,
        f"{source} is {difference.seconds:+,.3f} s{error} from {reference}: {who} {fault.says}",
        f"add {shift:+,.0f} s to the stamps of {to_repair}; {rest:+,.3f} s is then left between the two",
        shift_ns=round(shift * NS_PER_S),
    )


def _resets(relation: Relation, source: str) -> Complaint | None:
    """Return a complaint if a clock drifts and is corrected again and again; None otherwise."""
    steps = relation.steps_ns()
    if len(steps) < _FEWEST_RESETS or abs(sum(1 if step > 0 else -1 for step in steps)) < len(steps):
        return None
    sizes = sorted(abs(step) for step in steps)
    if sizes[-1] > _UNLIKE * sizes[len(sizes) // 2]:
        return None
    return Complaint(
        "saw-tooth",
        source,
        f"the clock drifts and is set {len(steps)} times, by {sizes[-1] / NS_PER_S:,.3f} s at most",
        "none is needed: each stretch between two steps is mapped by a line of its own",
        shift_ns=0,
    )


# A radio log that says that no network served, while packets were answered.
#
# Its clock is off, or it is of another modem: a phone whose modem searches for a network gets no packet. Only
# data that were sent and acknowledged inside such a time count: a host goes on to send into a hole, but
# nothing answers. That needs one stretch of the log, where relating two clocks by stalls needs five. It asks
# for the state of the connection alone: a modem that is not registered for circuits may carry packets.


_FEWEST_READINGS = 3
"""Minimum number of readings: one alone may be late, or describe a very short state."""
_LONGEST_BETWEEN_NS = 5 * NS_PER_S
"""Maximum time between two readings of one run, ns: readings farther apart do not show what was between them. Not
measured."""
_MARGIN_NS = NS_PER_S
"""Margin at both ends of a run, ns: a modem takes up to a second to answer, and may answer from a cache. Not measured.
"""
_FEWEST_ANSWERS = 5
"""Minimum number of acknowledgments in such a time: one or two may be wrong matches. Not measured."""
_FARTHEST_S, _STEP_NS = 60, 500 * NS_PER_MS
"""Range of tried shifts in s, as in `stalls.py`, and their step in ns: half of the typical time between readings."""


class Contradiction(NamedTuple):
    """A time without service, by the log, in which packets were nevertheless acknowledged."""

    begin_ns: int
    end_ns: int
    answers: int


def contradiction(radio: Table, capture: CaptureTables) -> Contradiction | None:
    """Return the first time without service, by a radio log, in which packets were acknowledged.

    It is None if there is no such time.

    Parameters
    ----------
    radio : Table
        RADIO of one host, presumably on the clock of its captures.
    capture : CaptureTables
        A capture made at that host.
    """
    spans = list(_searching(radio))
    if not spans:  # it spares the sorting of a capture
        return None
    answered = _Answered(capture)
    for begin, end in spans:
        count = answered.within(begin + _MARGIN_NS, end - _MARGIN_NS)
        if count >= _FEWEST_ANSWERS:
            return Contradiction(begin, end, count)
    return None


def no_service(name: str, point: str, radio: Table, capture: CaptureTables) -> Complaint | None:
    """Return a complaint if packets were acknowledged while the radio log reports no service; else None.

    Parameters
    ----------
    name, point : str
        Names of the log and the capture, for users.
    radio : Table
    capture : CaptureTables
        A capture of the log's host.
    """
    contradicted = contradiction(radio, capture)
    if contradicted is None:
        return None
    begin_ns, end_ns, answers = contradicted
    begin_s = (begin_ns - _Answered(capture).span_ns[0]) / NS_PER_S
    return Complaint(
        "no-service",
        name,
        f"{name} says that no network served for {duration(end_ns - begin_ns)}, {begin_s:,.1f} s after "
        f"{point} begins, but {answers:,} answers to packets of that time were captured there: its clock is "
        "off, or it is of another modem than the one that carried them",
        f"check the log's clock against that of {point}{_where_it_fits(radio, capture)}, or record with "
        "`multitracer capture`, whose logs share a clock",
    )


def _where_it_fits(radio: Table, capture: CaptureTables) -> str:
    """Return a text with the time shifts of the radio log at which no packet contradicts it.

    The text is empty if there is no such shift, or if these shifts are not contiguous.
    """
    answered, spans = _Answered(capture), list(_searching(radio))
    first, last = answered.span_ns
    reach = _FARTHEST_S * NS_PER_S // _STEP_NS
    fits = [
        step
        for step in range(-reach, reach + 1)
        if all(
            first <= begin + step * _STEP_NS
            and end + step * _STEP_NS <= last
            and not answered.within(begin + step * _STEP_NS + _MARGIN_NS, end + step * _STEP_NS - _MARGIN_NS)
            for begin, end in spans
        )
    ]
    if not fits or fits[-1] - fits[0] >= len(fits):
        return ""
    low, high = (step * _STEP_NS / NS_PER_S for step in (fits[0], fits[-1]))
    by = f"{low:+.1f}" if low == high else f"{low:+.1f} to {high:+.1f}"
    return f" (moved by {by} s, it fits their pauses)"


def _searching(radio: Table) -> Iterator[tuple[int, int]]:
    """Yield begin and end, ns, of each run of consecutive readings that all report no service."""
    if len(np.unique(radio["modem"])) > 1:  # one of two cards may serve
        return
    rows = np.flatnonzero((radio["time_ns"] != NOT_A_TIME) & (radio["state"] != "") & (radio["role"] != "neighbour"))
    rows = rows[np.argsort(radio["time_ns"][rows], kind="stable")]
    time, out = radio["time_ns"][rows], np.isin(radio["state"][rows], SEARCHES)
    if not len(rows):
        return
    parted = (out[1:] != out[:-1]) | (np.diff(time) > _LONGEST_BETWEEN_NS)
    for run in np.split(np.arange(len(rows)), np.flatnonzero(parted) + 1):
        if out[run[0]] and len(run) >= _FEWEST_READINGS:
            yield int(time[run[0]]), int(time[run[-1]])


class _Answered:
    """Times at which each flow of a capture sent data, and acknowledged the data of the other direction."""

    def __init__(self, capture: CaptureTables) -> None:
        segments = capture.segments
        rows = np.flatnonzero(segments["time_ns"] != NOT_A_TIME)
        self._rows = rows[np.argsort(segments["time_ns"][rows], kind="stable")]
        self._time = segments["time_ns"][self._rows]
        self._segments = segments

    @property
    def span_ns(self) -> tuple[int, int]:
        """The times of the first and of the last segment that has a time, ns."""
        return int(self._time[0]), int(self._time[-1])

    def within(self, begin_ns: int, end_ns: int) -> int:
        """Return how many acknowledgments between two times cover data that were sent between these times."""
        if end_ns <= begin_ns:
            return 0
        rows = self._rows[slice(*np.searchsorted(self._time, [begin_ns, end_ns]).tolist())]
        flow, payload = self._segments["flow"][rows], self._segments["payload_bytes"][rows]
        count = 0
        for each in np.unique(flow[payload > 0]).tolist():
            data = np.flatnonzero((flow == each) & (payload > 0))
            count += self._acknowledged(rows[data], rows[data[0] :][flow[data[0] :] == each ^ 1])
        return count

    def _acknowledged(self, data: Array, answers: Array) -> int:
        """Return the number of different ACK numbers that cover at least the first data."""
        segments = self._segments
        answers = answers[(segments["flags"][answers] & Flag.ACK.value) != 0]
        first = int(segments["seq"][data[0]]) + int(segments["payload_bytes"][data[0]])
        beyond = (segments["ack"][answers].astype(np.int64) - first) & 0xFFFFFFFF
        return len(np.unique(beyond[beyond < 1 << 31]))


# The clock doctor's round through a recording: each log by itself, then each clock against the reference.


_STAMPED = {"tcp": "tcp_state", "radio": "radio", "position": "position"}
"""For each layer the table whose rows have the times of its log."""


def examine_recording(
    source: LogSource, captures: Sequence[PointTables], hosts: dict[str, str], graph: ClockGraph, reference: Clock
) -> Iterator[Complaint]:
    """Yield the faults of the clocks of a recording.

    Parameters
    ----------
    source : LogSource
    captures : sequence of PointTables
    hosts : dict of str to str
        Host of each capture point.
    graph : ClockGraph
        The relations of the clocks.
    reference : Clock
        The clock that the others are compared with.
    """
    logs = [Stamps.of_capture(each.point.name, each.tables) for each in captures]
    alone = [complaint for log in logs for complaint in examine(log)]
    yield from alone
    complaints: dict[tuple[str, str], Complaint] = {}
    set_back = frozenset(hosts[each.source] for each in alone if each.code == "steps-back")
    for complaint in _of_clocks(graph, reference, set_back):
        complaints.setdefault((complaint.code, complaint.source), complaint)
    yield from (each for each in complaints.values() if each.code != EFFECT_FIRST or not alone)
    if source.folder is None:
        return
    own = next((log for log in logs if hosts[log.name] == reference.host), None)
    for log in logs:
        if own is not None and Clock(hosts[log.name]) not in (reference, *graph.clocks):
            named = compare_spans(log, own)
            yield from named or filter(None, [apart(log, [own])])
    captured: dict[str, list[Stamps]] = {}
    for log in logs:
        captured.setdefault(hosts[log.name], []).append(log)
    others = list(_others(source))
    for _, _, log in others:
        yield from examine(log, OF_LOGS)
    yield from _of_others(others, captured, own, graph)
    yield from _of_idle_gaps(source, captured)


def _of_idle_gaps(source: LogSource, captured: dict[str, list[Stamps]]) -> Iterator[Complaint]:
    """Yield a complaint for each radio log that reports no service while packets were acknowledged."""
    for log, tables in source.logs("radio"):
        radio = tables.get(RADIO.name)
        pairs = [(at.name, at.capture) for at in captured.get(log.host, ()) if radio is not None]
        complaints = (no_service(log.path, name, radio, capture) for name, capture in pairs if radio and capture)
        yield from list(filter(None, complaints))[:1]


def _of_others(
    others: Sequence[tuple[str, str, Stamps]], captured: dict[str, list[Stamps]], own: Stamps | None, graph: ClockGraph
) -> Iterator[Complaint]:
    """Yield the faults in the times of logs that are not captures.

    Parameters
    ----------
    others : sequence of (str, str, Stamps)
        Host, layer and times of each log.
    captured : dict of str to list of Stamps
        Captures of each host.
    own : Stamps, optional
        The capture on the reference clock.
    graph : ClockGraph
        The relations of the clocks.
    """
    everywhere = [log for logs in captured.values() for log in logs]
    positions = [log for _, layer, log in others if layer == "position"]
    overlapping, lonely = set(), {}
    for host, layer, log in others:
        overlapped = captured.get(host, everywhere if Clock(host) not in graph.clocks else [])
        named = list(compare_spans(log, captured[host][-1] if host in captured else own)) if own else []
        yield from named
        complaint = apart(log, overlapped or (positions if layer == "radio" and not captured else []))
        if complaint is None:
            overlapping.add((host, layer))
        elif not named:
            lonely[host, layer, log.name] = complaint
    for (host, layer, _), complaint in lonely.items():
        if (host, layer) not in overlapping:  # a file of several that follow each other
            yield complaint


def _of_clocks(graph: ClockGraph, reference: Clock, set_back: frozenset[str]) -> Iterator[Complaint]:
    """Yield the faults of each clock against the reference; those from a host's own clock readings first."""
    for relation in graph.relations:
        if (relation.source.domain, relation.target.domain) == ("monotonic", "realtime"):
            yield from compare_own(relation, source=relation.target.host)
    for clock in graph.clocks:
        if clock.domain in {"realtime", "utc"} and clock != reference:
            yield from _against(clock, reference, graph, set_back)


def _against(clock: Clock, reference: Clock, graph: ClockGraph, set_back: frozenset[str]) -> Iterator[Complaint]:
    if reference.domain != "realtime":
        return
    direct = [r for r in graph.from_clock(reference) if r.target == clock]
    for relation in sorted(direct, key=lambda r: r.estimates[0].uncertainty_ns)[:1]:
        source, other = clock.host or "UTC", reference.host or "UTC"
        yield from compare(relation, source=source, reference=other, set_back=set_back)


def _others(source: LogSource) -> Iterator[tuple[str, str, Stamps]]:
    """Yield host, layer and times of each log that is not a capture."""
    for layer, name in _STAMPED.items():
        for log, tables in source.logs(layer):
            if name in tables and len(tables[name]):
                yield log.host, layer, Stamps(log.path, _as_written(tables[name]))


def _as_written(table: Table) -> Times:
    """Return the time of each line of a log, in the order of lines; a line may have several table rows."""
    if "line" not in table.columns:
        return table["time_ns"]
    _, first = np.unique(table["line"], return_index=True)
    return np.asarray(table["time_ns"][first])
