"""Conditions on which a comparison fails: `goodput < -10%`, `rtt.p95 > +20%`, `limit.link > 0.5`.

A condition has a quantity, a statistic of it within a session, an operator and a bound. A bound with a sign and `%`
is a difference of the second side from the first; so are a sign and `dB` for a level in dBm. A difference is judged by
its 95 % interval: true if the whole interval meets the condition, false if no part of it does, else unknown. Any other
bound is a value: the mean of the sessions of the one side, or of the second side, is compared with it.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from multitracer.analysis.comparison.difference import MIN_SESSIONS
from multitracer.analysis.comparison.sides import ComparedQuantity, compare
from multitracer.campaign.compared_sides import (
    COMPLETION,
    COMPLETION_S,
    FINDING,
    GOODPUT,
    IS_COMPLETE,
    LEVELS,
    LIMITED,
    LOSS,
    RTT,
    THROUGHPUT,
    TRANSACTION,
    TRANSFERS,
    session_values,
    transfer_counts,
)
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.rules import RULES
from multitracer.errors import InputError
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.analysis.comparison.sides import Sides
    from multitracer.campaign.compared_sides import SessionGroup
    from multitracer.tables import Document

_CONDITION = re.compile(
    r"\s*(?P<name>[a-z]+(?:\.(?!mean\b|median\b|min\b|max\b|p\d)[a-z][a-z0-9-]*)?)"
    r"(?:\.(?P<statistic>mean|median|min|max|p\d{1,2}))?"
    r"\s*(?P<operator><=|>=|<|>)\s*"
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>[A-Za-z%/]*)\s*"
)
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_RATE, _TIME, _LEVEL, _RATIO, _SHARE = "bit/s", "s", "dBm", "dB", ""
_UNITS: Mapping[str, Mapping[str, float]] = {
    _RATE: {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9},
    _TIME: {"s": 1, "ms": 1e-3, "us": 1e-6},
    _LEVEL: {"dBm": 1},
    _RATIO: {"dB": 1},
    _SHARE: {"": 1, "%": 0.01},
}
"""The units in which a value may be written, by the unit of the quantity, and their factors."""
_EXAMPLE = "write for example 'goodput < -10%', 'rtt.p95 > 200ms' or 'limit.link > 0.5'"


class _Source(NamedTuple):
    """Where the values of a quantity are in the tables of a campaign, as SQL."""

    unit: str
    value: str
    table: str
    condition: str = "true"


_SOURCES: Mapping[str, _Source] = {
    "throughput": _Source(_RATE, "throughput_bps / speed", "seconds"),
    "rtt": _Source(_TIME, "rtt_ns * speed / 1e9", "seconds"),
    "goodput": _Source(_RATE, "goodput_bps / speed", TRANSFERS, IS_COMPLETE),
    "completion": _Source(_TIME, COMPLETION_S, TRANSFERS, IS_COMPLETE),
    "transaction": _Source(_TIME, "rtt_s", "transactions", "outcome = 'ok'"),
    "efficiency": _Source(_SHARE, "efficiency", "transfers"),
    "utilization": _Source(_SHARE, "utilization", "transfers"),
    "rsrp": _Source(_LEVEL, "rsrp_dbm", "seconds"),
    "rsrq": _Source(_RATIO, "rsrq_db", "seconds"),
    "sinr": _Source(_RATIO, "sinr_db", "seconds"),
    "rssi": _Source(_LEVEL, "rssi_dbm", "seconds"),
}
"""Quantities of which a session has many values, in link time."""
_VALUES = (
    "SELECT session, {aggregate} AS value FROM (SELECT session, CAST({value} AS DOUBLE) AS x FROM {table} "
    "JOIN (SELECT session, coalesce(speed, 1) AS speed FROM sessions) USING (session) WHERE {condition}) "
    "WHERE x IS NOT NULL AND NOT isnan(x) GROUP BY session"
)
_COMPARED = {
    "throughput": THROUGHPUT, "rtt": RTT, "goodput": GOODPUT, "completion": COMPLETION, "transaction": TRANSACTION,
    "loss": LOSS,
}  # fmt: skip
"""Quantities whose means the table of a comparison has, as it has the medians of radio levels: a difference of them is
that of the table."""
_LOSS = "SELECT session, sum(lost) / sum(sent) AS value FROM seconds GROUP BY session HAVING sum(sent) > 0"
_LIMIT = (
    "SELECT session, avg(CASE WHEN limited_by = '{}' THEN 1 ELSE 0 END) AS value FROM seconds "
    "WHERE limited_by IS NOT NULL GROUP BY session"
)
_FINDING = (
    "SELECT session, max(CASE WHEN kind = '{}' THEN 1.0 ELSE 0.0 END) AS value FROM (SELECT DISTINCT session "
    "FROM transfers WHERE limits_total_s IS NOT NULL) LEFT JOIN findings USING (session) GROUP BY session"
)


class Condition(NamedTuple):
    """A condition of `compare --fail-if`.

    Attributes
    ----------
    text : str
        The condition as the user wrote it.
    name : str
        Its quantity and statistic: `rtt.p95`.
    sql : str
        The query of a value for each session: `session`, `value`.
    compared_as : str
        Name of the quantity whose difference it is: one of the table of the comparison, or its own.
    unit : str
        Unit of the values; empty for a share.
    operator : str
        `<`, `<=`, `>` or `>=`.
    bound : float
        In `unit`; of a relative difference second / first - 1.
    is_difference : bool
        Whether the difference of the second side from the first is compared with the bound.
    """

    text: str
    name: str
    sql: str
    compared_as: str
    unit: str
    operator: str
    bound: float
    is_difference: bool

    @property
    def quantity(self) -> ComparedQuantity:
        """The quantity as `compare` takes it: rates and times as ratios, shares and levels as differences."""
        return ComparedQuantity(self.compared_as, self.unit in (_RATE, _TIME), 1.0)

    @property
    def difference_is(self) -> str | None:
        """How the value is a difference of two sides: `relative` (a factor less 1), `absolute`; None for a mean."""
        if not self.is_difference:
            return None
        return "relative" if self.quantity.relative else "absolute"

    def holds(self, value: float) -> bool:
        """Return whether a value meets the condition."""
        return _OPERATORS[self.operator](value, self.bound)


class Outcome(Enum):
    """Whether a condition is true."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"
    """The data cannot tell."""


class JudgedCondition(NamedTuple):
    """A condition, its outcome, and the sentence that states why."""

    condition: Condition
    outcome: Outcome
    reason: str
    value: float
    """The mean, or the difference; NaN if it is not known."""
    low: float
    high: float
    """The 95 % interval of a difference; NaN for a mean."""

    @property
    def sentence(self) -> str:
        """The condition and its outcome as one sentence."""
        words = {Outcome.TRUE: "true", Outcome.FALSE: "false", Outcome.UNKNOWN: "cannot be told"}[self.outcome]
        return f"{self.condition.text}: {words}; {self.reason}"

    def document(self) -> Document:
        """Return the record for JSON; an unknown number is null."""
        numbers = {name: getattr(self, name) for name in ("value", "low", "high")}
        return {
            "condition": self.condition.text,
            "outcome": self.outcome.value,
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "difference_is": self.condition.difference_is,
            "unit": "" if self.condition.difference_is == "relative" else self.condition.unit,
            "reason": self.reason,
        }


def condition_of(text: str) -> Condition:
    """Return the condition that a text states.

    Raises
    ------
    InputError
        If the text is no condition, or names a quantity, statistic or unit that there is not.
    """
    shown = printable(text)
    if (match := _CONDITION.fullmatch(text)) is None:
        raise InputError(f"{shown!r} is not a condition; {_EXAMPLE}")
    name, statistic, number, unit = match["name"], match["statistic"], match["number"], match["unit"]
    sql, quantity_unit = _query_of(name, statistic, shown)
    is_difference = number[0] in "+-" and (unit == "%" or (quantity_unit == _LEVEL and unit == "dB"))
    if is_difference and unit == "%" and quantity_unit in (_LEVEL, _RATIO):
        raise InputError(f"{shown!r}: a level has no percent; write a difference in dB, or a value in {quantity_unit}")
    units = _UNITS[quantity_unit]
    if not is_difference and unit not in units:
        known = ", ".join(units).strip(", ") or "no unit"
        raise InputError(f"{shown!r}: {name} is written in {known}; a difference of two sides has a sign and %")
    factor = {"%": 0.01, "dB": 1.0}[unit] if is_difference else units[unit]
    bound = float(number) * factor
    if not math.isfinite(bound):
        raise InputError(f"{shown!r}: the bound is too large")
    complete = f"{name}.{statistic}" if statistic else name
    compared_as = _compared_as(name, statistic)
    return Condition(text.strip(), complete, sql, compared_as, quantity_unit, match["operator"], bound, is_difference)


def _compared_as(name: str, statistic: str | None) -> str:
    """Return the name of the quantity in a comparison; a name of its own for what the table does not have."""
    if name.startswith("limit."):
        return LIMITED + name.removeprefix("limit.")
    if name.startswith("finding."):
        return FINDING + name.removeprefix("finding.")
    of_table = _COMPARED.get(name) if statistic in (None, "mean") else None
    if statistic == "median" and name.upper() in LEVELS:
        of_table = name.upper()
    return of_table or f"condition {name}.{statistic or 'mean'}"


def _query_of(name: str, statistic: str | None, shown: str) -> tuple[str, str]:
    """Return the query of a value for each session, and the unit of the values."""
    kind, _, which = name.partition(".")
    if name in _SOURCES:
        unit, value, table, condition = _SOURCES[name]
        aggregate = _aggregate(statistic or "mean")
        return _VALUES.format(aggregate=aggregate, value=value, table=table, condition=condition), unit
    if statistic is not None:
        raise InputError(f"{shown!r}: {name} has one value in a session; omit .{statistic}")
    if name == "loss":
        return _LOSS, _SHARE
    if kind == "limit" and which in {each.label for each in Limit}:
        return _LIMIT.format(which), _SHARE
    if kind == "finding" and which in {rule.KIND for rule in RULES}:
        return _FINDING.format(which), _SHARE
    known = (*_SOURCES, "loss", "limit.NAME", "finding.KIND")
    raise InputError(f"{shown!r}: there is no quantity {name}; the quantities are {', '.join(known)}")


def _aggregate(statistic: str) -> str:
    if statistic in ("min", "max"):
        return f"{statistic}(x)"
    if statistic == "mean":
        return "avg(x)"
    percent = 50 if statistic == "median" else int(statistic[1:])
    return f"quantile_cont(x, {percent / 100})"


# --- judged ---


def judged(
    conditions: Sequence[Condition], sides: Sides, groups: tuple[SessionGroup, SessionGroup]
) -> list[JudgedCondition]:
    """Return the conditions judged on two sides; `sides` has the values of each of them."""
    return [
        _judged_difference(each, sides, groups) if each.is_difference else judged_mean(each, groups[1])
        for each in conditions
    ]


def judged_mean(condition: Condition, group: SessionGroup) -> JudgedCondition:
    """Return a condition judged on the mean of the sessions of one side; it must not be a difference."""
    values = list(session_values(group, condition.sql).values())
    name = printable(group.name)
    if not values:
        return JudgedCondition(condition, Outcome.UNKNOWN, _without_value(condition, group), *[math.nan] * 3)
    value = float(np.mean(values))
    reason = f"{_shown(value, condition)} in {count(len(values), 'session')} of {name}"
    return JudgedCondition(condition, _outcome(condition.holds(value)), reason, value, math.nan, math.nan)


def _judged_difference(
    condition: Condition, sides: Sides, groups: tuple[SessionGroup, SessionGroup]
) -> JudgedCondition:
    first, second = (printable(group.name) for group in groups)
    held = sides.session[sides.sums[condition.quantity.name].weight > 0]
    for group, is_held in zip(groups, (~sides.side[held], sides.side[held]), strict=True):
        if not is_held.any():
            return JudgedCondition(condition, Outcome.UNKNOWN, _without_value(condition, group), *[math.nan] * 3)
    result = compare(sides, [condition.quantity]).judged[0]
    value, low, high, _ = result.difference
    if _are_equal(sides, condition):
        value = low = high = 0.0
    if not math.isfinite(value):
        reason = f"{condition.name} has no ratio, because its mean is 0 in {first} or in {second}"
        return JudgedCondition(condition, Outcome.UNKNOWN, reason, *[math.nan] * 3)
    if min(result.sessions) < MIN_SESSIONS:
        reason = (
            f"{_difference(value, condition)} from {count(result.sessions[0], 'session')} of {first} to "
            f"{result.sessions[1]:,} of {second}, which are too few for an interval: it needs {MIN_SESSIONS} a side"
        )
        return JudgedCondition(condition, Outcome.UNKNOWN, reason, value, math.nan, math.nan)
    interval = f"{_difference(low, condition)} to {_difference(high, condition)}"
    reason = f"{second} differs from {first} by {_difference(value, condition)} (95 % interval {interval})"
    return JudgedCondition(condition, _between(condition, low, high), reason, value, low, high)


def _without_value(condition: Condition, group: SessionGroup) -> str:
    """Return why no session of a side has a value of a quantity."""
    name = printable(group.name)
    if condition.name.startswith(("goodput", "completion")):
        counts = transfer_counts(group)
        if counts.transfers and not counts.complete:
            return f"no transfer of {name} is complete, captured from the handshake to both FINs"
    return f"no session of {name} has a value of {condition.name}"


def _are_equal(sides: Sides, condition: Condition) -> bool:
    """Return whether all sessions of both sides have one value: then no test is needed, and none can be made."""
    weight, total = sides.sums[condition.quantity.name]
    weights, totals = (np.bincount(sides.session, each, len(sides.side)) for each in (weight, total))
    return bool(np.ptp(totals[weights > 0] / weights[weights > 0]) == 0)


def _between(condition: Condition, low: float, high: float) -> Outcome:
    ends = {condition.holds(low), condition.holds(high)}
    return Outcome.UNKNOWN if len(ends) > 1 else _outcome(ends.pop())


def _outcome(is_true: bool) -> Outcome:  # one question, one answer
    return Outcome.TRUE if is_true else Outcome.FALSE


def _difference(value: float, condition: Condition) -> str:
    if math.isinf(value):
        return "no bound"
    if condition.quantity.relative:
        return f"{100 * value:+.3g} %"
    return f"{100 * value:+.3g} points" if condition.unit == _SHARE else f"{value:+.3g} dB"


def _shown(value: float, condition: Condition) -> str:
    return {_RATE: lambda: rate(value), _TIME: lambda: duration(value * NS_PER_S), _SHARE: lambda: f"{value:.3g}"}.get(
        condition.unit, lambda: f"{value:.4g} {condition.unit}"
    )()


def junit(judged: Sequence[JudgedCondition], name: str) -> str:
    """Return the outcomes as JUnit XML: a true condition is a failure, one that cannot be told an error."""
    total = {outcome: sum(each.outcome is outcome for each in judged) for outcome in Outcome}
    suite = ET.Element("testsuite", name=_xml(name), tests=str(len(judged)), failures=str(total[Outcome.TRUE]),
                       errors=str(total[Outcome.UNKNOWN]), skipped="0")  # fmt: skip
    for each in judged:
        case = ET.SubElement(suite, "testcase", classname="multitracer.compare", name=_xml(each.condition.text))
        if each.outcome is Outcome.FALSE:
            ET.SubElement(case, "system-out").text = _xml(each.sentence)
            continue
        ET.SubElement(case, "failure" if each.outcome is Outcome.TRUE else "error", message=_xml(each.sentence))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, "unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Return a text without the characters that XML 1.0 cannot hold, which are written out."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda c: f"\\x{ord(c[0]):02x}", text)
