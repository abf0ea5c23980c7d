"""What may be said of two sides, in plain words: no more than the sessions show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from multitracer.analysis.comparison.difference import LEVEL
from multitracer.analysis.comparison.sides import LEAST_KEPT
from multitracer.campaign.comparison.sums import (
    CELL_M,
    FINDING,
    GOODPUT,
    LIMITED,
    LOSS,
    RTT,
    THROUGHPUT,
    TRANSACTION,
)
from multitracer.words import count, duration, printable, rate, three_digits

if TYPE_CHECKING:
    from multitracer.analysis.comparison.sides import Comparison, Judged
    from multitracer.campaign.comparison.inputs import Group

MARGIN = 0.05
"""A difference below 5 % is small for a user. Not measured."""
_FEWEST = 4
"""Sessions a side from which on chance alone gives the most extreme order in under 5 %: 2 of 70."""
_PAIRS = 6
"""Pairs at one place and hour from which on they all agree by chance in under 5 %: 2 of 64."""
_MAIN = (THROUGHPUT, GOODPUT, TRANSACTION, RTT)
"""What the headline speaks of: the first of these that both sides have."""
_IS_RATE = (THROUGHPUT, GOODPUT)


class Names(NamedTuple):
    """What the sides are called."""

    first: str
    second: str


def headline(comparison: Comparison, names: Names) -> str:
    """Return what came out, in a sentence or two."""
    known = [each for each in comparison.judged if math.isfinite(each.difference.value)]
    main = next((each for name in _MAIN for each in known if each.quantity.name == name), None)
    if main is None:
        return (
            f"{names.first} and {names.second} have nothing in common that can be compared: no throughput, "
            "no transaction, no RTT on both sides."
        )
    sentences = [_main(main, comparison, names)]
    rest = [each for each in known if each.is_shown and each is not main]
    sentences += [f"{_other(each, names)}." for each in rest if each.quantity.name in (RTT, LOSS)]
    return " ".join(sentences)


def _main(main: Judged, comparison: Comparison, names: Names) -> str:
    value, low, high, _ = main.difference
    what = main.quantity.name
    sessions = sum(main.sessions)
    if min(main.sessions) < _FEWEST or not math.isfinite(high) or low <= -1:
        return (
            f"{names.second}'s {what} was {_sized(value)} than {names.first}'s in these {sessions} sessions; "
            f"so few cannot show whether that is more than chance; {_FEWEST} a side can, or {_PAIRS} pairs."
        )
    if main.is_shown:
        is_slower = (value < 0) == (what in _IS_RATE)
        word = "slower" if is_slower else "faster"
        what_goes_with_it = _limit(comparison, names, is_slower=is_slower)
        return f"{names.second} is {_range(main)} {word} than {names.first}{what_goes_with_it}."
    if max(abs(low), abs(high)) <= MARGIN:
        return (
            f"{names.second} and {names.first} are alike: {names.second}'s {what} is {_between(low, high)} "
            f"{names.first}'s."
        )
    return (
        f"No difference of {_percent(MARGIN)} or more can be excluded or shown with these {sessions} "
        f"sessions: {names.second}'s {what} is {_between(low, high)} {names.first}'s."
    )


def _range(judged: Judged) -> str:
    """Return a difference with its interval, as sizes: 12 % (5 to 19 %)."""
    value, *interval, _ = judged.difference
    low, high = sorted(abs(each) for each in interval)
    return f"{_percent(abs(value))} ({_percent(low).removesuffix(' %')} to {_percent(high)})"


def _between(low: float, high: float) -> str:
    return f"between {_sized(low)} and {_sized(high)} than"


def _sized(value: float) -> str:
    return f"{_percent(abs(value))} {'lower' if value < 0 else 'higher'}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.2g} %"


def _other(judged: Judged, names: Names) -> str:
    """Return a difference of RTT or loss that is shown."""
    value = judged.difference.value
    if judged.quantity.name == LOSS:
        low, high = sorted(abs(100 * each) for each in judged.difference[1:3])
        return (
            f"{names.second} loses {abs(100 * value):.2g} ({low:.2g} to {high:.2g}) "
            f"{'more' if value > 0 else 'fewer'} of 100 segments"
        )
    return f"{names.second}'s RTT is {_range(judged)} {'longer' if value > 0 else 'shorter'}"


def _limit(comparison: Comparison, names: Names, *, is_slower: bool) -> str:
    """Return which limit held the slower side more; "" if none is shown to."""
    sign = 1 if is_slower else -1
    more = [
        each
        for each in comparison.judged
        if each.is_shown and each.quantity.name.startswith(LIMITED) and sign * each.difference.value > 0
    ]
    if not more:
        return ""
    most = max(more, key=lambda each: abs(each.difference.value))
    limit = most.quantity.name.removeprefix(LIMITED)
    name = names.second if is_slower else names.first
    return f", and {limit} limited {name} in {_range(most)} more of the time"


def notes(comparison: Comparison, groups: tuple[Group, Group]) -> list[str]:
    """Return what a reader must know to trust the numbers: matching, what is missing, other versions."""
    matching = comparison.matching
    written = [_matched(comparison)]
    if matching.places < LEAST_KEPT:
        same = f"sessions of one place ({CELL_M} m) count as one" if comparison.are_places else ""
        written.append(
            f"the sides were mostly at different places (matching would keep {_percent(matching.places)}): "
            f"a difference may be that of the places{'; ' if same else ''}{same}"
        )
    for each in comparison.judged:
        for group, held in zip(groups, each.sessions, strict=True):
            name = each.quantity.name
            if name in (THROUGHPUT, RTT, LOSS) and held < len(group.sessions):
                whole = count(len(group.sessions), "session")
                verb = "has" if len(group.sessions) == 1 else "have"
                written.append(f"{printable(group.name)}: {held:,} of {whole} {verb} {_what(name)}")
    versions = sorted(groups[0].versions | groups[1].versions)
    if len(versions) > 1:
        made = " and ".join(versions)
        written.append(f"the rows were made by MultiTracer {made}; a difference may be theirs")
    written += [f"not read: {each}" for group in groups for each in group.failed]
    return list(dict.fromkeys(written))


def _what(name: str) -> str:
    return {THROUGHPUT: "a throughput", RTT: "an RTT", LOSS: "a known loss"}[name]


def _matched(comparison: Comparison) -> str:
    if by := comparison.matching.by:
        return f"matched by {by}: {_percent(comparison.matching.kept)} of the comparison is kept"
    return "not matched: the sides have too few places and hours in common, or none is known"


# --- the table ---

HEADER = ("difference", "95 % interval", "p", "shown")
"""Of the columns behind means and medians."""


def row(judged: Judged) -> tuple[str, ...]:
    """Return a line of the table: means, medians, difference, interval, p, and whether it may be claimed."""
    name = judged.quantity.name
    is_had = name.startswith(FINDING)  # or not: of yes and no there is a share, and no median
    levels = [_level(name, value) for value in judged.means]
    levels += ["", ""] if is_had else [_level(name, value) for value in judged.medians]
    value, low, high, p_value = judged.difference
    if not math.isfinite(value):
        return (name, *levels, "-", "", "", _why(judged))
    shown = "yes" if judged.is_shown else "no"
    return (name, *levels, _signed(judged, value), _interval(judged, low, high), f"{p_value:.2g}", shown)


def _why(judged: Judged) -> str:
    missing = [word for word, held in zip(("first", "second"), judged.sessions, strict=True) if not held]
    return f"the {' and the '.join(missing)} side has none" if missing else "no ratio"


def _level(name: str, value: float) -> str:
    if math.isnan(value):
        return "-"
    if name in _IS_RATE:
        return rate(value)
    if name in (RTT, TRANSACTION):
        return duration(value * (1 if name == RTT else 1e9))
    return f"{100 * value:.3g} %"


def _signed(judged: Judged, value: float) -> str:
    unit = "%" if judged.quantity.relative else "points"
    return f"{_with_sign(round(value, 6))} {unit}"


def _with_sign(share: float) -> str:
    percent = 100 * share + 0.0  # never -0
    return three_digits(percent) if percent < 0 else f"+{three_digits(percent)}"


def _interval(judged: Judged, low: float, high: float) -> str:
    if not judged.quantity.relative and math.isinf(low):
        return "any"
    ends = [_with_sign(each) if math.isfinite(each) and each > -1 else "any" for each in (low, high)]
    return "any" if ends[0] == ends[1] == "any" else " to ".join(ends)


def how() -> str:
    """Return how to read the table, in a sentence."""
    return (
        f"Each session counts once. An interval is of its row alone; 'shown' holds for all rows together "
        f"(a false one in {_percent(LEVEL)} of comparisons at most)."
    )
