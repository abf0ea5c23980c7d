"""The clock doctor: names what is wrong with the clocks of a recording and proposes repairs.

One log shows by itself what goes back, what repeats and what falls (`faults_alone`); time scales, zones and
calendars show only against another clock (`faults_between`). Raw stamps are never changed: a complaint holds
what they would become.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.doctor import faults_alone, faults_between
from multitracer.clock.doctor.complaints import Complaint, Stamps
from multitracer.clock.doctor.faults_between import Difference, Fault, Rule, calendar
from multitracer.clock.doctor.faults_of_lines import effect_first, rate
from multitracer.units import NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.clock.model.estimate import Estimate
    from multitracer.clock.model.relation import Relation
    from multitracer.tables import Array

    Alone = Callable[[Stamps], Complaint | None]

_SURE_ERROR_S = 0.5  # half of the least distance between two faults (a leap second)
_BESIDES = ("whole-seconds", "coarse-stamps")
"""Faults that others may come with."""
_SETS_THE_AHEAD = ("tai", "gps")
_FEWEST_RESETS = 4
"""Three steps the same way happen by hand; four are a program that sets the clock."""
_LEAST_APART_S = 60.0
"""Logs of one session begin and end within a minute of each other at best. Not measured."""
_UNLIKE = 3
"""A step so many times the median one is no reset of a drift that runs evenly. Not measured."""


def examine(stamps: Stamps, rules: Sequence[Alone] = faults_alone.RULES) -> list[Complaint]:
    """Return what the stamps of one log show by themselves."""
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
    """Return what the relation of two clocks shows of their time scales, zones and calendars.

    Parameters
    ----------
    relation : Relation
        From the reference's clock to that of the log.
    source, reference : str
        The log and the reference, as the user knows them.
    set_back : frozenset of str
        Those of them whose own records show that their clock was set back.
    """
    if reference in set_back and source not in set_back:  # the one that moved is at fault
        return compare(relation.inverse(), source=reference, reference=source, set_back=set_back)
    complaints = _of_intervals(relation, source, reference)
    complaints = complaints or list(_of_steps(relation, source, reference, set_back=set_back))
    others = (
        _resets(relation, source),
        rate(relation, source, reference),
        effect_first(relation, source, reference),
    )
    return [*complaints, *filter(None, others)]


def compare_own(relation: Relation, *, source: str) -> list[Complaint]:
    """Return what the steps of a host's wall clock against its monotonic one show: that one is never set.

    Parameters
    ----------
    relation : Relation
        From the monotonic clock to the wall clock.
    source : str
        The host.
    """
    return list(_of_steps(relation, source, f"{source}'s monotonic clock", never_set=True))


def _of_intervals(relation: Relation, source: str, reference: str) -> list[Complaint]:
    """Return the faults that explain the difference of two clocks, each with the intervals that have it."""
    by_fault: dict[tuple[str, float], tuple[Difference, Fault, list[int]]] = {}
    for number, estimate in enumerate(relation.estimates):
        difference = _difference(estimate)
        if (fault := _explained(difference)) is not None:
            _, _, numbers = by_fault.setdefault((fault.code, fault.seconds), (difference, fault, []))
            numbers.append(number)
    complaints = []
    for difference, fault, numbers in by_fault.values():
        whole = _complaint(fault, difference, source, reference)
        complaints.append(_limited(whole, relation, numbers, is_source=whole.source == source))
    return complaints


def _difference(estimate: Estimate) -> Difference:
    middle = (estimate.first_ns + estimate.last_ns) // 2
    seconds, error_s = int(estimate.offset_at(middle)) / NS_PER_S, float(estimate.bound_ns(middle)) / NS_PER_S
    return Difference(seconds, error_s, middle)


def _limited(complaint: Complaint, relation: Relation, numbers: list[int], *, is_source: bool) -> Complaint:
    """Return a complaint that holds for some of the intervals between steps only, where there are others."""
    if len(numbers) == len(relation.estimates):
        return complaint
    own = relation.inverse() if is_source else relation
    begin, end = own.estimates[numbers[0]].first_ns, own.estimates[numbers[-1]].last_ns
    when = f"from {_moment(begin)} to {_moment(end)}, "
    return replace(
        complaint, sentence=when + complaint.sentence, concerns=partial(_in_intervals, own, numbers)
    )


def _in_intervals(relation: Relation, numbers: list[int], stamps: Array) -> Array:
    within: Array = np.isin(relation.intervals(stamps), numbers)
    return within


def _moment(time_ns: int) -> str:
    at = calendar(time_ns / NS_PER_S)
    return "an unknown time" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _of_steps(
    relation: Relation,
    source: str,
    reference: str,
    *,
    never_set: bool = False,
    set_back: frozenset[str] = frozenset(),
) -> Iterator[Complaint]:
    """Yield the steps that a fault explains: a clock that begins, or ends, to count another time.

    Unless the reference is never set, or one is known to have been set back, a step that one makes backwards
    is one of the other forwards.
    """
    pairs = zip(relation.estimates, relation.estimates[1:], relation.steps_ns(), strict=False)
    for number, (earlier, later, step_ns) in enumerate(pairs, 1):
        error_ns = float(earlier.bound_ns(earlier.last_ns)) + float(later.bound_ns(later.first_ns))
        moment_ns = int(later.at(later.first_ns))
        difference = Difference(step_ns / NS_PER_S, error_ns / NS_PER_S, moment_ns)
        if (fault := _explained(difference, faults_between.OF_STEPS)) is None:
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
    """Compare when two logs of one recording began and ended, if there is no better evidence.

    They are taken to cover the same time, so this is for logs of one session only.
    """
    own, other = stamps.known_ns, reference.known_ns
    if not len(own) or not len(other):
        return []
    begins, ends = int(own.min()) - int(other.min()), int(own.max()) - int(other.max())
    if int(own.min()) <= int(other.max()) and int(other.min()) <= int(own.max()):
        return []
    error_s = max(abs(begins - ends) / NS_PER_S, _LEAST_APART_S)
    difference = Difference((begins + ends) / 2 / NS_PER_S, error_s, int(other.min()))
    fault = _explained(difference)
    return [] if fault is None else [_complaint(fault, difference, stamps.name, reference.name)]


def apart(stamps: Stamps, others: Sequence[Stamps]) -> Complaint | None:
    """Return the complaint about a log that overlaps none of the others of its session.

    Parameters
    ----------
    stamps : Stamps
        The log.
    others : sequence of Stamps
        Those that it should overlap, on its clock or on one that differs little.
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
    """Return by how much stamps lie before (negative) or after others; 0 if they overlap."""
    before, after = int(own.max()) - int(other.min()), int(own.min()) - int(other.max())
    return before if before < 0 else max(after, 0)


def _explained(difference: Difference, rules: Sequence[Rule] = faults_between.RULES) -> Fault | None:
    """Return the first fault that explains a difference."""
    return next(filter(None, (rule(difference) for rule in rules)), None)


def _complaint(fault: Fault, difference: Difference, source: str, reference: str) -> Complaint:
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
    """Return the complaint about a clock that drifts away and is set right again and again."""
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


def examine_all(logs: Sequence[Stamps]) -> list[Complaint]:
    """Return what each log shows by itself."""
    return [complaint for log in logs for complaint in examine(log)]
