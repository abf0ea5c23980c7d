"""The clock doctor: names what is wrong with the clocks of a recording and proposes repairs.

One log shows by itself what goes back, what repeats and what falls (`faults_alone`); time scales, zones and
calendars show only against another clock (`faults_between`). Raw stamps are never changed: a complaint holds
what they would become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock import faults_alone, faults_between
from multitracer.clock.complaints import Complaint, Stamps
from multitracer.clock.faults_between import Difference, Fault
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.clock.relation import Relation

_SURE_ERROR_S = 0.5
_BESIDES = "whole-seconds"
"""A fault that others may come with."""
_SETS_THE_AHEAD = ("tai", "gps")
_FEWEST_RESETS = 4


def examine(stamps: Stamps) -> list[Complaint]:
    """Return what the stamps of one log show by themselves."""
    found: list[Complaint] = []
    for rule in faults_alone.RULES:
        if any(each.code != _BESIDES for each in found):
            break
        complaint = rule(stamps)
        found += [complaint] if complaint else []
    return found


def compare(relation: Relation, *, source: str, reference: str) -> list[Complaint]:
    """Return what the relation of two clocks shows of their time scales, zones and calendars.

    Parameters
    ----------
    relation : Relation
        From the reference's clock to that of the log.
    source, reference : str
        The log and the reference, as the user knows them.
    """
    first = relation.estimates[0]
    middle = (first.first_ns + first.last_ns) // 2
    difference = Difference(
        int(first.offset_at(middle)) / NS_PER_S, float(first.bound_ns(middle)) / NS_PER_S, middle
    )
    found = [*_explained(difference, source, reference), _resets(relation, source)]
    return [complaint for complaint in found if complaint is not None]


def compare_spans(stamps: Stamps, reference: Stamps) -> list[Complaint]:
    """Return the same from when two logs of one recording began and ended, where nothing better is known.

    They are taken to cover the same time, so this is for logs of one session only.
    """
    own, other = stamps.known_ns, reference.known_ns
    if not len(own) or not len(other):
        return []
    begins, ends = int(own.min()) - int(other.min()), int(own.max()) - int(other.max())
    if int(own.min()) <= int(other.max()) and int(other.min()) <= int(own.max()):
        return []
    error_s = max(abs(begins - ends) / NS_PER_S, 60.0)
    difference = Difference((begins + ends) / 2 / NS_PER_S, error_s, int(other.min()))
    return list(_explained(difference, stamps.name, reference.name))


def _explained(difference: Difference, source: str, reference: str) -> Iterable[Complaint]:
    """Yield the first fault that explains a difference."""
    for rule in faults_between.RULES:
        fault = rule(difference)
        if fault is not None:
            yield _complaint(fault, difference, source, reference)
            return


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
    if sizes[-1] > 3 * sizes[len(sizes) // 2]:
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
