"""The cells of a drive and the changes between them, as tables of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.environment import cell_name
from multitracer.report.markup import Markup, element, fold
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.tables import Row, Table

_MOST = 200
_KILOMETRE_M = 1000
_AROUND_S = 10
"""Seconds before and after a change that its button shows."""
_CELL_HEADS = (
    ("Cell", False, "As the phone or modem named it"),
    ("Time", True, "Time in which it served"),
    ("Way", True, "Way that was driven meanwhile"),
    ("Level", True, "RSRP, or the one that is named: median, and between which the middle half lies"),
    ("Quality", True, "SINR, or the one that is named: median, and between which the middle half lies"),
    ("Throughput", True, "Median of its seconds"),
    ("RTT", True, "Median"),
    ("Outages", True, "Times in which nothing came through"),
    ("In", True, "Changes to it"),
    ("Out", True, "Changes from it"),
)
_CHANGE_HEADS = (
    ("At", True, "Seconds on the axis of the figure"),
    ("What", False, ""),
    ("From", False, ""),
    ("To", False, ""),
    ("Took", True, "From the command to its completion"),
    ("Result", False, ""),
    ("Cause", False, ""),
    ("Known by", False, "Signalling, or which identity changed from one reading to the next"),
    ("Judged", False, "Ping-pong (TR 36.839); too early, too late, wrong cell (TS 36.300, 22.4.2)"),
)


def cells_section(cells: Table, notes: Sequence[str]) -> Markup | None:
    """Return the table of cells, the one that served longest first; None without any.

    `notes` are sentences below it, such as what the throughput is.
    """
    if not len(cells):
        return None
    rows = [_cell(row) for row in cells.take(np.arange(min(len(cells), _MOST))).rows()]
    named = int(((cells["cell_id"] != NA) | (cells["physical_cell_id"] != NA)).sum())
    title = count(named, "serving cell") if named else "Serving cells that no log names"
    notes = [*notes, *([] if named else [_NAMELESS])]
    more = [f"{len(cells) - _MOST:,} more in `export tables`."] if len(cells) > _MOST else []
    return fold(
        title,
        _table(_CELL_HEADS, rows, "The cells that served"),
        element("p", " ".join([*notes, *more]), class_="muted"),
        id="cells",
        class_="long",
    )


_NAMELESS = (
    "How many cells served, and when they changed, is not known: record a log that names the serving cell."
)


def changes_section(changes: Table, *, origin_ns: int, speed: float) -> Markup | None:
    """Return the table of the changes of the serving cell, in order of time; None without any."""
    if not len(changes):
        return None
    rows = [
        _change(row, origin_ns, speed) for row in changes.take(np.arange(min(len(changes), _MOST))).rows()
    ]
    rest = f"The first {_MOST} are shown; `export tables` writes all." if len(changes) > _MOST else ""
    return fold(
        f"{count(len(changes), 'change')} of the serving cell",
        _table(_CHANGE_HEADS, rows, "Changes of the serving cell"),
        element("p", rest, class_="muted") if rest else None,
        id="changes",
        class_="long",
    )


def change_words(row: Row) -> str:
    """Return a change of the serving cell in a few words, for a mark on the map."""
    judged = _judged(row)
    ends = f"{row['kind']}, {_cell_at(row, 'source')} to {_cell_at(row, 'target')}"
    return f"{ends}; {judged}" if judged else ends


def _table(heads: Sequence[tuple[str, bool, str]], rows: list[Markup], caption: str) -> Markup:
    cells = [
        element(
            "th",
            element("button", name, type="button"),
            scope="col",
            class_="number" if number else None,
            title=title or None,
        )
        for name, number, title in heads
    ]
    table = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", cells)),
        element("tbody", rows),
        class_="sortable free",
    )
    return element("div", table, class_="scroll", tabindex="0", role="group", aria_label=caption)


def _cell(row: Row) -> Markup:
    return element(
        "tr",
        element("td", printable(cell_name(row))),
        _number(row["seconds"], lambda s: duration(s * NS_PER_S)),
        _number(row["distance_m"], _way),
        _spread(row, ("rsrp", "rscp", "rssi"), "dbm", "dBm"),
        _spread(row, ("sinr", "rsrq"), "db", "dB"),
        _number(row["throughput_median_bps"], rate),
        _number(row["rtt_median_ns"], duration),
        _number(row["outages"], lambda n: f"{n:,}"),
        _number(row["handovers_in"], lambda n: f"{n:,}"),
        _number(row["handovers_out"], lambda n: f"{n:,}"),
    )


def _change(row: Row, origin_ns: int, speed: float) -> Markup:
    at_s = (row["time_ns"] - origin_ns) * speed / NS_PER_S
    took = None if row["complete_ns"] is None else row["complete_ns"] - row["time_ns"]
    took = took or None  # a reselection is seen when it is done: nobody knows how long it took
    ends = {"data_from": f"{at_s - _AROUND_S:.3f}", "data_to": f"{at_s + _AROUND_S:.3f}"}
    show = element("button", f"{at_s:.1f} s", type="button", data_show="0", **ends)
    return element(
        "tr",
        element("td", show, class_="number", data_value=f"{at_s:.3f}"),
        element("td", row["kind"]),
        element("td", printable(_cell_at(row, "source"))),
        element("td", printable(_cell_at(row, "target"))),
        _number(took, duration),
        element("td", row["result"]),
        element("td", printable(row["cause"])),
        element("td", row["evidence"]),
        element("td", _judged(row)),
    )


def _cell_at(row: Row, side: str) -> str:
    """Return the old or the new cell of a change in words."""
    names = ("rat", "cell_id", "physical_cell_id", "channel")
    return cell_name({"plmn": "", **{name: row[f"{side}_{name}"] for name in names}})


def _judged(row: Row) -> str:
    words = [row["verdict"]] if row["verdict"] not in ("", "none") else []
    return ", ".join([*words, *(["ping-pong"] if row["ping_pong"] == 1 else [])])


def _number(value: float | None, words: Callable[[float], str]) -> Markup:
    """Return a cell of a number, empty where it is missing; missing ones sort below all others."""
    if value is None or np.isnan(value) or value == NA:
        return element("td", class_="number", data_value="-1e99")
    return element("td", words(value), class_="number", data_value=value)


def _spread(row: Row, names: Sequence[str], unit: str, words: str) -> Markup:
    """Return the cell of the first quantity that is known; one that is not the first is named."""
    name = next((each for each in names if row[f"{each}_median_{unit}"] is not None), names[0])
    low, high = row[f"{name}_q1_{unit}"], row[f"{name}_q3_{unit}"]
    shown = "" if name == names[0] else f"{name.upper()} "
    return _number(
        row[f"{name}_median_{unit}"], lambda m: f"{shown}{m:.0f} {words} ({low:.0f} to {high:.0f})"
    )


def _way(metres: float) -> str:
    return f"{metres:.0f} m" if metres < _KILOMETRE_M else f"{metres / _KILOMETRE_M:.1f} km"
