"""Where a drive was bad, how bad, and why: what a report of a drive shows first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.environment import cell_name
from multitracer.recording.phones import which_phone
from multitracer.report.markup import Markup, element
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, rate

if TYPE_CHECKING:
    from multitracer.diagnosis.road import Road
    from multitracer.tables import Row

_TITLE = "Where was it bad, and why?"
_FIRST = 5
"""Stretches that are seen at once; the others unfold."""
_MOST = 100
_KILOMETRE_M = 1000.0
_ROOM_S = 5.0
"""Seconds before and after a stretch that its button shows."""
_SEEN_S = 0.1
"""Durations are written to tenths of a second here."""
_CAUSES = {
    "coverage": "weak signal (coverage)",
    "interference": "signal strong enough, but disturbed (interference)",
    "technology": "an older technology served",
    "handover": "a change of the cell",
    "load": "good radio, but the cell was loaded",
    "server": "the server had nothing to send",
    "TCP": "TCP itself",
    "unknown": "not known",
}
_SHORT = {
    "coverage": "weak coverage",
    "interference": "interference",
    "technology": "an older technology",
    "handover": "changes of the cell",
    "load": "a loaded cell",
    "server": "the server",
    "TCP": "TCP itself",
}


_OF_ANOTHER_TIME = (
    "No reading of the radio lies in the time of the packets, so this is of the packets alone; "
    "`multitracer align` compares the clocks."
)
_OF_A_PART = "Only what lies between --from and --to is listed and counted; it is judged by the whole drive."


def stretches_section(road: Road, *, origin_ns: int, speed: float) -> Markup | None:
    """Return the ranked list of bad stretches; None where no phone logged its radio.

    Parameters
    ----------
    road : Road
    origin_ns : int
        What the page's figure calls 0.
    speed : float
        Seconds of the figure in a second of the recording.
    """
    if not road.phones:
        return None
    try:
        table = road.stretches
    except InputError as error:  # times of two clocks: the page still shows the rest
        return element(
            "section",
            element("h2", _TITLE),
            element("p", f"Nothing can be said: {printable(str(error))}.", class_="lead"),
        )
    cells = [] if road.phone is None else [cell_name(row) for row in road.cells(road.phone).rows()]
    shown = table.take(np.arange(min(len(table), _MOST)))
    items = [element("li", _stretch(row, cells, origin_ns, speed)) for row in shown.rows()]
    rest = element("li", f"and {len(table) - _MOST:,} more") if len(table) > _MOST else None
    return element(
        "section",
        element("h2", _TITLE),
        element("p", printable(_lead(road)), class_="lead"),
        element("ol", items[:_FIRST], class_="findings") if items else None,
        element(
            "details",
            element("summary", f"{len(items) - _FIRST} more that cost less"),
            element("ol", items[_FIRST:], rest, class_="findings", start=_FIRST + 1),
        )
        if len(items) > _FIRST
        else None,
        element("p", _how(road, origin_ns, speed), class_="muted"),
        class_="stretches long",
    )


def stretches_note(road: Road) -> str:
    """Return the answer in a sentence; empty where times of two clocks forbid one, or no phone was there."""
    if not road.phones:
        return ""
    try:
        return _answer(road)
    except InputError:
        return ""


def _lead(road: Road) -> str:
    """Return the answer, what makes its times doubtful, and which drive it is of if the logs hold several."""
    other = "" if road.is_of_the_packets else _OF_ANOTHER_TIME
    return " ".join(filter(None, (_answer(road), other, road.surroundings.doubts, _other_drives(road))))


def _other_drives(road: Road) -> str:
    """Return which phone and drive the answer is of, if the logs hold others."""
    phones = road.part.phones
    words = which_phone(phones) if len(phones) > 1 else ""
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _answer(road: Road) -> str:
    """Return how much time was bad, and what caused most of it."""
    table = road.stretches
    judged = table.provenance.get("judged_s", {})
    seconds = sum(judged.get(name, 0) for name in ("by rate", "by radio"))
    if not seconds:
        if road.shown_ns != (None, None) and road.phone is None:
            return "Nothing can be said: no reading of the radio lies between --from and --to."
        return "Nothing can be said: no second of it has a rate that was wanted, nor a level of the radio."
    if not len(table):
        return f"Nowhere: none of the {seconds:,} seconds that can be judged was bad."
    seconds = table.provenance["of_s"]
    bad = min(float(table["seconds"].sum()), float(seconds))  # edges of stretches are finer than seconds
    weights = {str(cause): float(table["seconds"][table["cause"] == cause].sum()) for cause in table["cause"]}
    first = max(weights, key=weights.__getitem__)
    share = f"{min(weights[first] / bad, 1):.0%} of that "
    share += "for a cause that is not known" if first == "unknown" else f"for one cause: {_SHORT[first]}"
    what = "It was bad" if judged.get("by rate") else "The radio was bad"
    return f"{what} for {duration(bad * NS_PER_S)} of {duration(seconds * NS_PER_S)}, {share}."


def _seconds(number: int) -> str:
    return f"{count(number, 'second')} {'is' if number == 1 else 'are'}"


def _how(road: Road, origin_ns: int, speed: float) -> str:
    """Return how a second was judged."""
    facts = road.stretches.provenance
    judged = facts.get("judged_s", {})
    words = [] if road.shown_ns == (None, None) else [_OF_A_PART]
    if judged.get("by rate"):
        poor, typical = rate(facts["poor_bps"]), rate(facts["typical_bps"])
        words.append(
            f"{_seconds(judged['by rate'])} judged by the rate: less than {poor}, a fifth of what is typical "
            f"here ({typical}), is bad."
        )
    if judged.get("by radio"):
        words.append(
            f"{_seconds(judged['by radio'])} judged by the radio alone: nothing shows that data were wanted."
        )
    if facts.get("slow_s"):
        begin_s = (facts["slow_longest_ns"] - origin_ns) * speed / NS_PER_S
        longest = duration(facts["slow_longest_s"] * NS_PER_S)
        words.append(
            f"In {count(facts['slow_s'], 'second')} with a good radio the logger saw less than "
            f"{rate(facts['slow_bps'])}, a fifth of its median (longest for {longest} from {begin_s:.0f} s "
            "on): nothing shows whether data were wanted then; a log of the test program's state, or a "
            "capture, would."
        )
    if facts.get("by_logger_s"):
        words.append(
            f"In {count(facts['by_logger_s'], 'second')} with a bad radio the logger saw "
            f"{rate(facts['good_bps'])} or more all the same, or its usual rate: they were not bad."
        )
    if judged.get("not"):
        words.append(f"{count(judged['not'], 'second')} cannot be judged.")
    return " ".join(words)


def _stretch(row: Row, cells: list[str], origin_ns: int, speed: float) -> list[Markup | None]:
    begin_s, end_s = ((row[name] - origin_ns) * speed / NS_PER_S for name in ("begin_ns", "end_ns"))
    ends = {
        "data_from": f"{begin_s - _ROOM_S:.3f}",
        "data_to": f"{end_s + _ROOM_S:.3f}",
        "data_mark_from": f"{begin_s:.3f}",
        "data_mark_to": f"{end_s:.3f}",
    }
    return [
        element("strong", _CAUSES[row["cause"]]),
        element("span", f" {duration(row['seconds'] * NS_PER_S)} from {begin_s:.0f} s on ", class_="muted"),
        element("button", "Show", type="button", data_show="0", **ends),
        element("p", printable(_place(row, cells))),
        element("p", printable(_evidence(row))),
        element("p", words) if (words := when_of_the_cause(row)) else None,
    ]


def when_of_the_cause(row: Row) -> str:
    """Return how long a cause was there, and what the rate did before and after; empty if unknown.

    Parameters
    ----------
    row : dict
        Of STRETCHES.
    """
    begin, end = ((row[name], row[f"cause_{name}"]) for name in ("begin_ns", "end_ns"))
    if any(time in (None, NOT_A_TIME) for time in (*begin, *end)):
        return ""
    words = [f"The cause lasted {_tenths(end[1] - begin[1])}"]
    if row["cause_within_s"] >= _SEEN_S:
        words[0] += f" (begin and end known within {row['cause_within_s']:.1f} s)"
    if not _is_known(row["lost_s"]):  # judged by the radio alone: no rate was looked at
        return f"{words[0]}."
    if (lead := begin[0] - begin[1]) >= NS_PER_S:
        words.append(f"the rate fell {_tenths(lead)} after it began")
    if (late := end[0] - end[1]) >= NS_PER_S:
        words.append(f"the rate rose again {_tenths(late)} after it ended")
    elif late <= -NS_PER_S:
        words.append(f"the rate rose again {_tenths(-late)} before it ended")
    return "; ".join(words) + "."


def _tenths(ns: int) -> str:
    return f"{ns / NS_PER_S:.1f} s"


def _place(row: Row, cells: list[str]) -> str:
    words = [f"at {row['lat_deg']:.5f}, {row['lon_deg']:.5f}"] if _is_known(row["lat_deg"]) else []
    if _is_known(row["begin_m"]) and _is_known(row["end_m"]):
        length = row["end_m"] - row["begin_m"]
        words.append(f"{row['begin_m'] / _KILOMETRE_M:.1f} km along the route, {length:.0f} m long")
    words += [cells[row["cell"]]] if row["cell"] not in (None, NA) else []
    if _is_known(row["throughput_bps"]) and _is_known(row["typical_bps"]):
        words.append(f"{rate(row['throughput_bps'])} instead of {rate(row['typical_bps'])}")
    return "; ".join(words)


def _evidence(row: Row) -> str:
    shown = f"Evidence: {row['evidence']}." if row["evidence"] else ""
    return shown + (f" To tell, record: {row['missing']}." if row["missing"] else "")


def _is_known(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))
