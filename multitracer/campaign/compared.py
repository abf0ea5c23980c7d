"""Compares two groups of sessions, and describes the result as text and as a page.

The command prints the result, and `mt.compare` returns it. The page has the headline, the differences, and
the distributions as static pictures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.difference import LEVEL, MIN_SESSIONS
from multitracer.analysis.comparison.sides import MIN_KEPT, compare
from multitracer.campaign.compared_sides import (
    CELL_M,
    COMPLETION,
    FINDING,
    GOODPUT,
    LEVELS,
    LIMITED,
    LOSS,
    MAIN,
    POOR,
    RTT,
    THROUGHPUT,
    TRANSACTION,
    UNITS,
    WEAK,
    by_label,
    distribution,
    one_group,
    sums_of,
    transfer_counts,
    two_groups,
)
from multitracer.campaign.conditions import Outcome, judged, judged_mean
from multitracer.figures.palette import TRANSPORTS
from multitracer.figures.sheet import Sheet, SheetPanel
from multitracer.figures.stack import plain
from multitracer.report.markup import Markup, element, unbroken
from multitracer.report.page import attached, complete_page, own_file
from multitracer.report.static_sheet import static_sheet
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, rate, three_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.analysis.comparison.sides import Judged, Matching, SideDifferences
    from multitracer.campaign.catalogue import Catalogue
    from multitracer.campaign.compared_sides import Distribution, SessionGroup, TransferCounts
    from multitracer.campaign.conditions import Condition, JudgedCondition
    from multitracer.campaign.run import CampaignProgress
    from multitracer.figures.palette import Props, SeriesStyle
    from multitracer.tables import Document

MARGIN = 0.05
"""Smallest difference that matters to a user: 5 %. Not measured."""
_PAIRS = 6
"""Minimum number of pairs at one place and hour: by chance all agree with a probability below 5 % (2 of 64)."""
MARGIN_DB = 3.0
"""The same for a level, dB: a modem knows two RSRPs to 2 to 3 dB of each other (3GPP TS 36.133, 9.1.2.2)."""
_IS_RATE = (THROUGHPUT, GOODPUT)


class Names(NamedTuple):
    """Names of the two sides of a comparison."""

    first: str
    second: str


def headline(comparison: SideDifferences, names: Names) -> str:
    """Return the result of a comparison, in one or two sentences."""
    known = [each for each in comparison.judged if math.isfinite(each.difference.value)]
    if (main := _of_headline(comparison)) is None:
        return (
            f"{names.first} and {names.second} cannot be compared: neither throughput nor "
            "transactions nor RTT nor the radio's level are known on both sides."
        )
    sentences = [_main(main, comparison, names)]
    rest = [each for each in known if _is_sure(each) and each is not main]
    sentences += [f"{_other(each, names)}." for each in rest if each.quantity.name in _SENTENCES]
    return " ".join(sentences)


def _of_headline(comparison: SideDifferences) -> Judged | None:
    """Return the quantity of the headline: the one that was chosen for it, else the first of `MAIN` that is known."""
    chosen, *others = (each for each in comparison.judged if each.quantity.name in MAIN)
    others.sort(key=lambda each: MAIN.index(each.quantity.name))
    return next((each for each in (chosen, *others) if math.isfinite(each.difference.value)), None)


def _is_sure(judged: Judged) -> bool:
    """Return whether a difference is shown, by enough sessions for a sentence."""
    return judged.is_shown and min(judged.sessions) >= MIN_SESSIONS


def _main(main: Judged, comparison: SideDifferences, names: Names) -> str:
    _, low, high, _ = main.difference
    what = main.quantity.name
    sessions = sum(main.sessions)
    if min(main.sessions) < MIN_SESSIONS:
        return (
            f"Whether {names.second}'s {what} differs from {names.first}'s cannot be told: it needs {MIN_SESSIONS} "
            f"sessions per side, and one side has {min(main.sessions)}."
        )
    if not math.isfinite(high) or low <= (-1 if main.quantity.relative else -math.inf):
        return (
            f"Whether {names.second}'s {what} differs from {names.first}'s cannot be told: these {sessions} sessions "
            f"exclude no difference. Where places and hours are matched, it needs {_PAIRS} pairs."
        )
    if main.is_shown:
        return f"{_shown(main, comparison, names)}."
    margin = MARGIN_DB if what in LEVELS else MARGIN
    between = _between(main, names)
    if max(abs(low), abs(high)) <= margin:
        return f"{names.second} and {names.first} do not differ in practice: {between}"
    smallest = f"{_of_100(margin)} of 100 {_OF_100[what][1]}" if what in _OF_100 else _amount(margin, what)
    return f"These {sessions} sessions neither show nor exclude a difference of {smallest} or more: {between}"


def _shown(main: Judged, comparison: SideDifferences, names: Names) -> str:
    """Return a sentence about the difference of the headline, which is significant."""
    what, value = main.quantity.name, main.difference.value
    if not main.quantity.relative:
        where = " at the same places" if comparison.matching.by.startswith("place") else ""
        if what in _OF_100:
            return f"{_other(main, names)} than {names.first}{where}"
        return f"{names.second}'s {what} is {_range(main)} {_direction(value)} than {names.first}'s{where}"
    is_slower = (value < 0) == (what in _IS_RATE)
    word, with_it = "slower" if is_slower else "faster", _limit(comparison, names, is_slower=is_slower)
    if what in (GOODPUT, COMPLETION):
        return f"{names.second}'s transfers are {_range(main)} {word} than {names.first}'s{with_it}"
    return f"{names.second} is {_range(main)} {word} than {names.first}{with_it}"


def _range(judged: Judged) -> str:
    """Return a difference with its interval as text: 12 % (5 to 19 %)."""
    what = judged.quantity.name
    value, *interval, _ = judged.difference
    low, high = (_amount(each, what) for each in sorted(abs(each) for each in interval))
    return f"{_amount(abs(value), what)} ({low.rpartition(' ')[0]} to {high})"


def _amount(value: float, what: str) -> str:
    """Return the size of a difference with its unit."""
    return f"{value:.2g} dB" if what in LEVELS else _percent(value)


def _between(judged: Judged, names: Names) -> str:
    """Return a sentence about the interval of a difference that is not significant."""
    what, interval = judged.quantity.name, judged.difference[1:3]
    if what in _OF_100:
        verb, units = _OF_100[what]
        low, high = (f"{_of_100(abs(each))} {_more(each)}" for each in interval)
        return f"{names.second} {verb} between {low} and {high} of 100 {units} than {names.first}."
    low, high = (f"{_amount(abs(each), what)} {_direction(each)}" for each in interval)
    return f"{names.second}'s {what} is between {low} and {high} than {names.first}'s."


def _direction(value: float) -> str:
    return "lower" if value < 0 else "higher"


def _more(value: float) -> str:
    return "fewer" if value < 0 else "more"


def _percent(value: float) -> str:
    return f"{_of_100(value)} %"


def _of_100(value: float) -> str:
    return f"{100 * value:.0f}" if value >= 0.0995 else f"{100 * value:.2g}"


_SENTENCES = (COMPLETION, THROUGHPUT, RTT, LOSS, WEAK, POOR)
"""Quantities with a sentence below that of the headline, if their difference is significant."""
_OF_100 = {
    LOSS: ("loses", "segments"),
    WEAK: ("has a weak signal in", "seconds"),
    POOR: ("has a poor signal quality in", "seconds"),
}


def _other(judged: Judged, names: Names) -> str:
    """Return a sentence about a significant difference beside that of the headline."""
    value, what = judged.difference.value, judged.quantity.name
    if what in _OF_100:
        verb, units = _OF_100[what]
        low, high = (_of_100(each) for each in sorted(abs(each) for each in judged.difference[1:3]))
        return f"{names.second} {verb} {_of_100(abs(value))} ({low} to {high}) {_more(value)} of 100 {units}"
    if what == COMPLETION:
        return f"{names.second}'s transfers take {_range(judged)} {'more' if value > 0 else 'less'} time"
    if what == THROUGHPUT:
        return f"{names.second}'s throughput over the whole measurement is {_range(judged)} {_direction(value)}"
    return f"{names.second}'s RTT is {_range(judged)} {'longer' if value > 0 else 'shorter'}"


def _limit(comparison: SideDifferences, names: Names, *, is_slower: bool) -> str:
    """Return a text about the limit that took significantly more time on the slower side.

    Empty if none did.
    """
    sign = 1 if is_slower else -1
    more = [
        each
        for each in comparison.judged
        if _is_sure(each) and each.quantity.name.startswith(LIMITED) and sign * each.difference.value > 0
    ]
    if not more:
        return ""
    most = max(more, key=lambda each: abs(each.difference.value))
    limit = most.quantity.name.removeprefix(LIMITED)
    name = names.second if is_slower else names.first
    return f", and {limit} limited {name} in {_range(most)} more of the time"


def notes(
    comparison: SideDifferences,
    groups: tuple[SessionGroup, SessionGroup],
    transfers: tuple[TransferCounts, TransferCounts],
) -> list[str]:
    """Return caveats about matching, missing data and different versions, one sentence each."""
    matching = comparison.matching
    written = [_matched(comparison), *_of_transfers(groups, transfers)]
    if matching.places < MIN_KEPT:
        same = f"all sessions of the same place ({CELL_M} m) together count as one" if comparison.are_places else ""
        written.append(
            "the two sides have few places in common (matching would keep "
            f"{_percent(matching.places)}), so the places may cause a "
            f"difference{'; ' if same else ''}{same}"
        )
    for each in comparison.judged:
        for group, held in zip(groups, each.sessions, strict=True):
            name = each.quantity.name
            if name in (THROUGHPUT, RTT, LOSS) and held < len(group.sessions) and any(each.sessions):
                complete = count(len(group.sessions), "session")
                verb = "has" if len(group.sessions) == 1 else "have"
                written.append(f"{printable(group.name)}: {held:,} of {complete} {verb} {_what(name)}")
    versions = sorted(groups[0].versions | groups[1].versions)
    if len(versions) > 1:
        made = " and ".join(versions)
        written.append(
            f"the tables were written by different versions of MultiTracer ({made}), which may cause a difference"
        )
    written += [f"not read: {each}" for group in groups for each in group.failed]
    return list(dict.fromkeys(written))


def _of_transfers(
    groups: tuple[SessionGroup, SessionGroup], transfers: tuple[TransferCounts, TransferCounts]
) -> list[str]:
    """Return sentences about transfers that were not captured completely, and about those of other sizes."""
    names = [printable(group.name) for group in groups]
    written = [
        f"{name}: {f'{each.complete:,}' if each.complete else 'none'} of {count(each.transfers, 'transfer')} "
        f"{'is' if 1 in (each.transfers, each.complete) else 'are'} complete, captured from the handshake to both "
        f"FINs; goodput and completion time are {'of these' if each.complete else 'not known'}"
        for name, each in zip(names, transfers, strict=True)
        if each.complete < each.transfers
    ]
    if not all(each.complete for each in transfers):
        return written
    ratio = transfers[1].bytes / transfers[0].bytes - 1
    if abs(ratio) > MARGIN:
        written.append(
            f"{names[1]}'s complete transfers have {_percent(abs(ratio))} {'more' if ratio > 0 else 'fewer'} bytes "
            f"than {names[0]}'s, so completion times are of transfers of other sizes"
        )
    return written


def _what(name: str) -> str:
    return {THROUGHPUT: "a throughput", RTT: "an RTT", LOSS: "a known loss"}[name]


def _matched(comparison: SideDifferences) -> str:
    if by := comparison.matching.by:
        return f"matched by {by}: {_percent(comparison.matching.kept)} of the data is used"
    return "not matched: the two sides have too few places and hours in common, or these are unknown"


# --- the table ---

HEADER = ("95 % interval", "p", "shown")
"""Heads of the columns after that of the difference."""


def row(judged: Judged) -> tuple[str, ...]:
    """Return the cells of a table row: means, medians, difference, interval, p, and significance."""
    name = judged.quantity.name
    is_had = name.startswith(FINDING)  # or not: of yes and no there is a share, and no median
    levels = [_level(name, value) for value in judged.means]
    levels += ["", ""] if is_had else [_level(name, value) for value in judged.medians]
    value, low, high, p_value = judged.difference
    if not math.isfinite(value):
        return (name, *levels, "-", "", "", _why(judged))
    shown = "yes" if judged.is_shown else "no"
    return (name, *levels, _signed(judged, value), _interval(judged, low, high), _chance(p_value), shown)


def _chance(p_value: float) -> str:
    if math.isnan(p_value):
        return "-"
    return f"{p_value:.2g}" if p_value >= _MIN_SHOWN else f"< {_MIN_SHOWN}"


_MIN_SHOWN = 0.0001
"""Smallest p, and smallest percentage, that is shown as a number: `three_digits` shows less as 0."""


def _why(judged: Judged) -> str:
    missing = [word for word, held in zip(("first", "second"), judged.sessions, strict=True) if not held]
    return f"no data on the {' and the '.join(missing)} side" if missing else "no ratio"


def _level(name: str, value: float) -> str:
    if math.isnan(value):
        return "-"
    if name in _IS_RATE:
        return rate(value)
    if name in LEVELS:
        return f"{round(value, 4) + 0.0:.4g} {LEVELS[name]}"  # + 0.0: no minus before 0
    if name in (RTT, TRANSACTION, COMPLETION):
        return duration(value * (1 if name == RTT else NS_PER_S))
    percent = 100 * value
    return f"< {_MIN_SHOWN} %" if 0 < percent < _MIN_SHOWN else f"{three_digits(percent)} %"


def _signed(judged: Judged, value: float) -> str:
    if judged.quantity.name in LEVELS:
        return f"{_signed_level(value)} dB"
    unit = "%" if judged.quantity.relative else "points"
    return f"{_with_sign(round(value, 6))} {unit}"


def _with_sign(share: float) -> str:
    return _signed_level(100 * share)


def _signed_level(value: float) -> str:
    words = three_digits(value + 0.0)
    return words if words.startswith("-") else f"+{words}"


def _interval(judged: Judged, low: float, high: float) -> str:
    if not judged.quantity.relative and math.isinf(low):
        return "any"
    if judged.quantity.name in LEVELS:
        return " to ".join(_signed_level(each) if math.isfinite(each) else "any" for each in (low, high))
    ends = [_with_sign(each) if math.isfinite(each) and each > -1 else "any" for each in (low, high)]
    return "any" if ends[0] == ends[1] == "any" else " to ".join(ends)


def how(matching: Matching) -> str:
    """Return the sentences that explain the columns of the table."""
    of_what = (
        f"Means and medians are of all data. The matched difference, its interval and p compare only the data of the "
        f"same {matching.by}, so that it is not the difference of the two means. "
        if matching.by
        else ""
    )
    return (
        f"{of_what}Each session has the same weight. Each interval is valid for its own row only; 'shown' "
        f"is valid for all rows together (at most {_percent(LEVEL)} of comparisons show a false "
        "difference)."
    )


SCHEMA = "multitracer.compare/1"
_DRAWN = (("Throughput", True, "throughput_bps"), ("RTT", False, "rtt_ns"))


class Picture(NamedTuple):
    """The distributions of one quantity on both sides.

    Attributes
    ----------
    title : str
    is_rate : bool
        Whether values are in bit/s; otherwise they are in ns.
    sides : (Distribution or None, Distribution or None)
    """

    title: str
    is_rate: bool
    sides: tuple[Distribution | None, Distribution | None]

    def shown(self, value: float) -> str:
        """Return a value as text."""
        return rate(value) if self.is_rate else duration(value)


@dataclass(frozen=True, slots=True)
class ComparedSides:
    """The comparison of two sides.

    Attributes
    ----------
    names : Names
    groups : (Group, Group)
    comparison : SideDifferences
    pictures : list of Picture
        Empty if no pictures were requested.
    conditions : list of JudgedCondition
        In the order of the command line.
    transfers : (TransferCounts, TransferCounts)
    """

    names: Names
    groups: tuple[SessionGroup, SessionGroup]
    comparison: SideDifferences
    pictures: list[Picture]
    conditions: list[JudgedCondition]
    transfers: tuple[TransferCounts, TransferCounts]

    @property
    def headline(self) -> str:
        """The result, in one or two sentences."""
        return headline(self.comparison, self.names)

    @property
    def notes(self) -> list[str]:
        """Caveats for the reader, one sentence each."""
        return notes(self.comparison, self.groups, self.transfers)

    @property
    def counts(self) -> list[str]:
        """The number of sessions of each side, as a text for each side."""
        pairs = zip(self.names, self.groups, strict=True)
        return [f"{name}: {count(len(group.sessions), 'session')}" for name, group in pairs]

    @property
    def rows(self) -> list[Judged]:
        """The results for the quantities that at least one side has."""
        return [each for each in self.comparison.judged if any(each.sessions)]


def compared(
    first: str | Catalogue,
    second: str | Catalogue | None,
    by: str | None,
    *,
    shown: Callable[[CampaignProgress], None],
    is_drawn: bool,
    conditions: Sequence[Condition] = (),
) -> ComparedSides:
    """Compare the sessions of two places, or those of one place by a label.

    Parameters
    ----------
    first, second : str or Catalogue
        See `two_groups`; with `by` the second one must be None.
    by : str, optional
        LABEL, or LABEL=A,B.
    shown : callable
        Called with the progress of analysing inputs that are not a campaign.
    is_drawn : bool
        Whether to draw the distributions.
    conditions : sequence of Condition
        Conditions to judge.

    Raises
    ------
    InputError
        If a side cannot be read, or contains nothing to compare.
    """
    label, _, values = (by or "").partition("=")
    with (
        by_label(first, label, tuple(values.split(",")) if values else (), shown)
        if second is None
        else two_groups(first, second, shown)
    ) as groups:
        sides, quantities = sums_of(groups, {each.quantity.name: each.sql for each in conditions})
        pictures = [
            Picture(title, is_rate, (distribution(groups[0], column), distribution(groups[1], column)))
            for title, is_rate, column in (_DRAWN if is_drawn else ())
        ]
        names = Names(*(printable(group.name) for group in groups))
        outcomes = judged(conditions, sides, groups)
        transfers = transfer_counts(groups[0]), transfer_counts(groups[1])
        return ComparedSides(names, groups, compare(sides, quantities), pictures, outcomes, transfers)


class JudgedSide(NamedTuple):
    """One side, and the conditions that its sessions were compared with."""

    names: tuple[str]
    sessions: int
    failed: list[str]
    conditions: list[JudgedCondition]

    @property
    def headline(self) -> str:
        """How many conditions are true, as a sentence."""
        number = {each: sum(judged.outcome is each for judged in self.conditions) for each in Outcome}
        words = [f"{number[Outcome.TRUE]} true", f"{number[Outcome.FALSE]} false"]
        words += [f"{number[Outcome.UNKNOWN]} cannot be told"] if number[Outcome.UNKNOWN] else []
        return f"{count(len(self.conditions), 'condition')} of {self.names[0]}: {', '.join(words)}."

    @property
    def counts(self) -> list[str]:
        """The number of sessions, as a text."""
        return [f"{self.names[0]}: {count(self.sessions, 'session')}"]

    @property
    def notes(self) -> list[str]:
        """What was not read, one sentence each."""
        return [f"not read: {each}" for each in self.failed]


def judged_alone(
    place: str | Catalogue, conditions: Sequence[Condition], *, shown: Callable[[CampaignProgress], None]
) -> JudgedSide:
    """Compare the sessions of one place with bounds; see `compared` for the parameters and errors."""
    with one_group(place, shown) as group:
        outcomes = [judged_mean(each, group) for each in conditions]
        return JudgedSide((printable(group.name),), len(group.sessions), group.failed, outcomes)


def as_document(of: ComparedSides | JudgedSide) -> Document:
    """Return a comparison for JSON; missing numbers are null."""
    if isinstance(of, JudgedSide):
        sides, matching, rows = [{"name": of.names[0], "sessions": of.sessions}], None, []
    else:
        pairs = zip(of.names, of.groups, strict=True)
        sides = [{"name": name, "sessions": len(group.sessions)} for name, group in pairs]
        matching, rows = of.comparison.matching, of.rows
    return {
        "schema": SCHEMA,
        "headline": of.headline,
        "sides": sides,
        "matched_by": (matching.by or None) if matching else None,
        "kept": matching.kept if matching else None,
        "quantities": [_record(each) for each in rows],
        "notes": of.notes,
        "conditions": [each.document() for each in of.conditions],
    }


def _record(judged: Judged) -> Document:
    return {
        "name": judged.quantity.name,
        "unit": UNITS.get(judged.quantity.name, ""),
        "difference_is": "relative" if judged.quantity.relative else "absolute",
        "sessions": list(judged.sessions),
        "means": [_known(each) for each in judged.means],
        "medians": [_known(each) for each in judged.medians],
        **{name: _known(value) for name, value in judged.difference._asdict().items()},
        "shown": judged.is_shown,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


_HIGH_PX = 250
_STEPS = 400
"""Number of points of a curve: more than a screen shows."""
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ENDS = 0.002
"""Share at each end of a distribution that the value axis leaves out."""
_ROOM = 0.02
"""Margin of the value axis in decades, so that no curve lies on the frame."""
_DASHES = ("solid", "dash")


def comparison_page(compared: ComparedSides) -> str:
    """Return the page as HTML; its pictures need no script."""
    names, remarks = compared.names, (unbroken(printable(each)) for each in compared.notes)
    opening = element(
        "section", element("p", unbroken(compared.headline), class_="lead"),
        element("p", ", ".join(compared.counts), class_="muted"),
        element("ul", (element("li", each) for each in remarks)),
    )  # fmt: skip
    sections = [
        opening,
        _table(compared),
        *(_section(picture, names) for picture in compared.pictures if any(picture.sides)),
    ]
    code = attached(own_file("page.css") + own_file("static_sheet.css"), own_file("page.js"))
    return complete_page(f"{names.first} and {names.second}", sections, code=code)


def _table(compared: ComparedSides) -> Markup:
    """Return the table; on a phone each row is a card whose cells bear the names of the columns."""
    heads, matching = header(compared), compared.comparison.matching
    head = [element("th", each or "quantity", class_="number" if at else None) for at, each in enumerate(heads)]
    body = (
        element(
            "tr",
            (
                element("td", cell, class_="number" if name else None, data_name=name or None)
                for name, cell in zip(heads, row(each), strict=True)
            ),
        )
        for each in compared.rows
    )
    table = element("table", element("thead", element("tr", head)), element("tbody", body), class_="cards")
    parts = element("h2", "Differences"), element("div", table, class_="scroll"), element("p", how(matching))
    return element("section", *parts, class_="long")


def header(compared: ComparedSides) -> list[str]:
    """Return the header of the table, with the names of the sides."""
    means, medians = ([f"{each}, {name}" for name in compared.names] for each in ("mean", "median"))
    matched = "matched " if compared.comparison.matching.by else ""
    return ["", *means, *medians, f"{matched}difference", *HEADER]


def _section(picture: Picture, names: Names) -> Markup:
    """Return the section of a quantity: its distributions on both sides in one picture."""
    held = [side for side in picture.sides if side is not None]
    low = min(_positive(side, _ENDS) for side in held)
    high = max(_positive(side, 1 - _ENDS) for side in held)
    low, high = (low, high) if high > low * 1.01 else (low / 1.1, high * 1.1)
    traces = [
        _trace(side, low, high) | {"name": plain(name), "line": _line(look, dash)}
        for side, name, look, dash in zip(picture.sides, names, TRANSPORTS, _DASHES, strict=False)
        if side is not None
    ]
    title, more = "Share of the time with at most this value", "Each session has the same weight."
    cell = SheetPanel(title, _HIGH_PX, _across(picture, low, high), _UP, more=more)
    return element("section", element("h2", picture.title), static_sheet(Sheet([cell], traces, "light")))


_UP: Props = {"range": [-0.02, 1.04], "tickvals": _TICKS, "ticktext": [f"{100 * share:.0f} %" for share in _TICKS]}


def _across(picture: Picture, low: float, high: float) -> Props:
    """Return the horizontal axis from `low` to `high`; it is logarithmic."""
    values = _ticks(low, high)
    return {
        "type": "log",
        "range": [np.log10(low) - _ROOM, np.log10(high) + _ROOM],
        "tickvals": values,
        "ticktext": [picture.shown(value) for value in values],
    }


def _trace(side: Distribution, low: float, high: float) -> Props:
    """Return a distribution as a step curve of the figure; it starts at a share of 0 at `low`."""
    at = np.unique(np.linspace(0, len(side.values) - 1, _STEPS).astype(int))
    values = np.clip(side.values[at], low, high)
    return {"mode": "lines", "x": np.append(values[:1], values), "y": np.append(0.0, side.shares[at])}


def _line(look: SeriesStyle, dash: str) -> Props:
    return {"color": look.light, "width": look.size_px, "dash": dash, "shape": "hv"}


def _ticks(low: float, high: float) -> list[float]:
    """Return ticks at 1, 2 and 5 times powers of ten in the range.

    If there is only one, the ends of the range.
    """
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    digits = (1, 2, 5) if high < 200 * low else (1,)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    within = [each for each in ticks if low <= each <= high]
    return within if len(within) > 1 else [low, high]


def _positive(side: Distribution, share: float) -> float:
    above = side.values > 0
    if not above.any():
        return 1.0
    at = int(np.searchsorted(side.shares[above], share))
    return float(side.values[above][min(at, int(above.sum()) - 1)])
