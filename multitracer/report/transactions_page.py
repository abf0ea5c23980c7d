"""The page of a measurement of transactions: which transport was faster at each size, with figures.

The input is the transactions of each transport; the output is a comparison with sentences, tables and pictures.
Invariants: all numbers come from `analysis/transports.py`, and a page draws the same panels and traces as a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite, isinf
from typing import TYPE_CHECKING

import numpy as np

from multitracer import __version__
from multitracer.analysis.transports import (
    DRAWS,
    FEWEST,
    RADIO,
    compare,
    dropped,
    influence,
    pairs,
    size_statistics,
    straight_line,
    why_absent,
)
from multitracer.figures.environment import overlay_sheet, panels_sheet
from multitracer.figures.rtt_size import cdf_sheet, rtt_size_sheet
from multitracer.report.markup import Markup, element
from multitracer.report.page import attached, complete_page, own_file, write
from multitracer.report.static_sheet import static_sheet
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, three_digits

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from multitracer.analysis.transports import Transport
    from multitracer.figures.sheet import Sheet
    from multitracer.report.page import Assets
    from multitracer.tables import Row, Table

    Compared = list[tuple[Transport, Transport, Table]]

_MOST_PAIRS = 12
_MOST_LEADS = 2
"""Maximum number of comparisons in the summary; each comparison also has a sentence at its table."""
_MOST_FACTS = 40
_METHOD = (
    "RTT runs from handing the request over until the whole reply is there; the set-up of a TCP "
    "connection is not in it. Medians and quantiles count a dropped transaction as longer than any, so "
    "that it is not averaged away; means are of the finished ones. Ratios are those of the medians; below "
    "1 the first was faster. The interval of a ratio or of a difference holds all those that are not refused "
    "at 5 % when transactions change sides by chance (a permutation test, from a fixed seed); with fewer "
    f"than four on a side there is none, nor with fewer than {FEWEST} set-ups for a ratio with set-up; a sentence "
    f"needs {FEWEST} of each. That of a median holds the middle 95 % of {DRAWS:,} bootstrap "
    "resamples (percentiles). With set-up: each transaction's "
    "own connection where it had one, else the median of those that are known. The straight line goes "
    "through the medians (Theil and Sen), so that a size at which a transport breaks down does not bend "
    "it. Apart is the farthest distance of the two distributions, as a share of the transactions; below 0 "
    "the first was faster."
)


@dataclass(frozen=True, slots=True)
class MeasuredTransactions:
    """The input of a report of transactions.

    Parameters
    ----------
    transports : sequence of Transport
    title : str
    sessions : sequence of (str, sequence of (str, str))
        Name of each session, and its (name, value) properties for the section on provenance.
    command : str
        The command line.
    notes : sequence of str
        Sentences on the input that was skipped.
    links : mapping of str to str
        Reports of the sessions' captures: link text, and file name in the folder of the page.
    """

    transports: Sequence[Transport]
    title: str
    sessions: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    command: str = ""
    notes: Sequence[str] = ()
    links: dict[str, str] = field(default_factory=dict)


def write_transactions(
    measured: MeasuredTransactions, path: str | os.PathLike[str], assets: Assets | None = None
) -> None:
    """Write the report as one HTML file; it contains script and style unless `assets` is given.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    sections = [*transaction_sections(measured.transports), _provenance(measured)]
    code = attached(own_file("page.css") + own_file("static_sheet.css"), own_file("page.js"), assets)
    write(path, complete_page(printable(measured.title), sections, code=code))


def transaction_sections(transports: Sequence[Transport]) -> list[Markup]:
    """Return the sections with the results of the transactions."""
    compared = [(first, second, compare(first, second)) for first, second in pairs(transports)[:_MOST_PAIRS]]
    return [
        _summary(transports, compared),
        _drawn("Round-trip time against size", rtt_size_sheet(transports)),
        *(_comparison(*each) for each in compared),
        _drawn("How the times are distributed", cdf_sheet(transports)),
        *_environment(transports),
        _numbers(transports),
    ]


def _drawn(title: str, sheet: Sheet, *more: Markup) -> Markup:
    return element("section", element("h2", title), static_sheet(sheet), more, class_="long")


def _summary(transports: Sequence[Transport], compared: Compared) -> Markup:
    return element(
        "section",
        element("h2", "Summary"),
        [element("p", printable(words), class_="lead") for words in _headline_text(transports, compared)],
        element("dl", [_fact(transport) for transport in transports[:_MOST_FACTS]], class_="facts"),
        _how(),
        class_="measured",
    )


def _how() -> Markup:
    return element("details", element("summary", "How this is computed"), element("p", _METHOD), class_="how")


def _headline_text(transports: Sequence[Transport], compared: Compared) -> Iterable[str]:
    """Yield the first sentences of the report."""
    if not compared:
        yield from (transport_sentence(transport) for transport in transports[:_MOST_FACTS])
        return
    several = len({(transport.vary, transport.other_bytes) for transport in transports}) > 1
    for each in compared[:_MOST_LEADS]:
        which = f"Where the {each[0].vary} varies: " if several else ""
        yield which + " ".join(_sentences(*each))
    yield ("; ".join(f"{transport.name}: {dropped_words(transport)}" for transport in transports[:_MOST_FACTS]) + ".")


def _sentences(first: Transport, second: Transport, table: Table) -> Iterable[str]:
    """Yield sentences that compare two transports, without and with the time of connection setup."""
    yield comparison_sentence(first, second, table)
    if not np.isnan(table["setup_ratio"]).all():
        yield comparison_sentence(first, second, table, name="setup_ratio")


def _fact(transport: Transport) -> Markup:
    setup = setup_words(transport)
    more = [f"{transport.vary} varied; straight line", dropped_words(transport)]
    more += [f"set-up of a connection {setup}"] if setup else []
    return element(
        "div",
        element("dt", printable(transport.name)),
        element("dd", cost_words(transport) or "one size", [element("small", printable(words)) for words in more]),
    )


def _comparison(first: Transport, second: Transport, table: Table) -> Markup:
    """Return the table of RTT ratios of two transports."""
    medians = [dict(_medians(transport)) for transport in (first, second)]
    with_setup = not np.isnan(table["setup_ratio"]).all()
    heads = (
        *("Size", first.name, second.name, "Ratio", "95 %", *(_SETUP_HEADS if with_setup else ())),
        *("Difference", "95 %", "Apart", "Dropped", "Dropped"),
    )
    body = [
        (
            f"{row['size_bytes']:,}",
            *(each[row["size_bytes"]] for each in medians),
            *_ratio(row, "ratio"),
            *(_ratio(row, "setup_ratio") if with_setup else ()),
            *_difference(row),
            f"{row['cdf_gap']:+.2f}".replace("-", "−"),
            f"{row['dropped']:,} of {row['count']:,}",
            f"{row['other_dropped']:,} of {row['other_count']:,}",
        )
        for row in table.rows()
    ]
    why = [element("li", f"{row['size_bytes']:,} bytes: {row['why']}") for row in table.rows() if row["why"]]
    return element(
        "section",
        element("h2", printable(f"{first.name} beside {second.name}, {first.vary} varied")),
        element("p", printable(" ".join(_sentences(first, second, table)))),
        element("div", _table(heads, body), class_="scroll"),
        element("ul", why) if why else None,
        class_="long",
    )


_SETUP_HEADS = ("With set-up", "95 %")


def _medians(transport: Transport) -> Iterable[tuple[int, str]]:
    return ((row["size_bytes"], seconds(row["median_s"])) for row in size_statistics(transport).rows())


def _ratio(row: Row, name: str) -> tuple[str, str]:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if value is None or not np.isfinite(value):
        return "none", ""
    return factor(value), factors(low, high)


def _difference(row: Row) -> tuple[str, str]:
    value = row["difference"]
    if value is None or not np.isfinite(value):
        return "none", ""
    ends = (row["difference_low"], row["difference_high"])
    if None in ends:
        return seconds(value), ""
    low, high = ("no bound" if not np.isfinite(end) else seconds(end) for end in ends)
    return seconds(value), f"{low} to {high}"


def _environment(transports: Sequence[Transport]) -> list[Markup]:
    measured = [
        transport for transport in transports if any(np.isfinite(transport.table[name]).any() for name in RADIO)
    ]
    if not measured:
        reason = why_absent([transport.table for transport in transports], "rssi")
        why = f"The state of the radio is unknown: {reason}." if transports else ""
        return [element("section", element("h2", "The radio"), element("p", why, class_="muted"))]
    return [
        _drawn("What the radio was like", panels_sheet(measured), _influences(measured)),
        _drawn("The same, each curve scaled and shifted", overlay_sheet(measured)),
    ]


_INFLUENCE_HEADS = ("Rank correlation of the RTT with", "RSSI", "BLER", "Cell busy", "Transactions")


def _influences(transports: Sequence[Transport]) -> Markup:
    """Return the section on the correlation of the RTT with radio quantities, for each transport and size."""
    body = []
    for transport in transports[:_MOST_FACTS]:
        influences = [influence(transport, name) for name in RADIO]
        cells = ["" if np.isnan(each.correlation) else f"{each.correlation:+.2f}" for each in influences]
        body.append(
            (
                transport.name,
                *(cell.replace("-", "−") for cell in cells),
                f"{max(each.transactions for each in influences):,}",
            )
        )
    return element("div", _table(_INFLUENCE_HEADS, body, texts=(0,)), class_="scroll")


_NUMBER_HEADS = (
    "Transport", "Size", "Done", "Dropped", "Median", "95 %", "Mean", "5 %", "95th percentile", "Minimum", "Maximum",
    "With set-up", "Efficiency", "Sent again", "Dropped at",
)  # fmt: skip


def _numbers(transports: Sequence[Transport]) -> Markup:
    body = [_numbers_of(transport, row) for transport in transports for row in size_statistics(transport).rows()]
    return element(
        "section",
        element("h2", "Every size in numbers"),
        element("div", _table(_NUMBER_HEADS, body, texts=(0, 14)), class_="scroll"),
        class_="long",
    )


def _numbers_of(transport: Transport, row: Row) -> tuple[str, ...]:
    return (
        f"{transport.name}, {transport.vary}",
        f"{row['size_bytes']:,}",
        f"{row['count']:,}",
        f"{row['dropped']:,}",
        seconds(row["median_s"]),
        spread(row["median_low_s"], row["median_high_s"]),
        *(seconds(row[name]) for name in ("mean_s", "p5_s", "p95_s", "least_s", "most_s", "with_setup_s")),
        "" if row["efficiency"] is None else f"{row['efficiency']:.3f}",
        "" if row["retransmitted"] is None else f"{row['retransmitted']:.2f}",
        row["why"],
    )


def _table(heads: Sequence[str], body: Iterable[Sequence[str]], *, texts: Sequence[int] = ()) -> Markup:
    """Return a table; the columns `texts` contain text, all other columns numbers."""
    look = [None if place in texts else "number" for place in range(len(heads))]
    rows = [
        element("tr", [element("td", printable(cell), class_=c) for cell, c in zip(row, look, strict=True)])
        for row in body
    ]
    top = [element("th", printable(head), class_=c, scope="col") for head, c in zip(heads, look, strict=True)]
    return element("table", element("thead", element("tr", top)), element("tbody", rows))


def _provenance(measured: MeasuredTransactions) -> Markup:
    tables = [
        element("table", element("tbody", [_row("Session", name), *(_row(*fact) for fact in facts)]), class_="plain")
        for name, facts in measured.sessions
    ]
    made = [("Program", f"MultiTracer {__version__}"), ("Command", measured.command)]
    made += [("Note", note) for note in measured.notes[:_MOST_FACTS]]
    links = [
        element("li", element("a", f"The captures of {printable(name)}", href=file))
        for name, file in measured.links.items()
    ]
    return element(
        "section",
        element("h2", "Where this comes from"),
        element("ul", links) if links else None,
        tables,
        element("table", element("tbody", [_row(*fact) for fact in made if fact[1]]), class_="plain"),
        class_="long",
    )


def _row(name: str, value: str) -> Markup:
    return element("tr", element("th", printable(name), scope="row"), element("td", printable(value)))


_VERDICTS = ("faster", "alike", "slower", "too few", "failed", "other failed", "both failed", "not known")


def seconds(value: float | None) -> str:
    """Return a duration as text: 1.25 s, 310 ms; "dropped" for inf, "" for NA."""
    if value is None or value != value:  # noqa: PLR0124  NaN
        return ""
    return "dropped" if isinf(value) else f"{'−' if value < 0 else ''}{duration(abs(value) * NS_PER_S)}"


def spread(low: float | None, high: float | None) -> str:
    """Return a range of durations as text; "" if it is not known, or if both ends are inf."""
    return f"{seconds(low)} to {seconds(high)}" if low is not None and isfinite(low) else ""


def factor(value: float | None) -> str:
    """Return a ratio as text: 0.34, 3.16, 12.5; "no bound" for inf, "" for NA."""
    if value is None or value != value:  # noqa: PLR0124  NaN
        return ""
    if isinf(value):
        return "no bound"
    return f"{value:.2f}" if value < 9.995 else three_digits(value)


def factors(low: float | None, high: float | None) -> str:
    """Return a range of ratios as text: 0.34 to 3.16; "" if the range is not known."""
    return "" if low is None else f"{factor(low)} to {factor(high)}"


def comparison_sentence(first: Transport, second: Transport, table: Table, *, name: str = "ratio") -> str:
    """Return a sentence on the sizes at which the first transport was faster, equal or slower, or failed.

    Parameters
    ----------
    first, second : Transport
    table : Table
        From `compare`.
    name : "ratio" or "setup_ratio"
        Column of the table; "setup_ratio" includes the connection setup.
    """
    rows = list(table.rows())
    known = {row["size_bytes"]: (_verdict(row, name), row) for row in rows}
    parts = []
    for verdict in _VERDICTS:
        here = [row for each_verdict, row in known.values() if each_verdict == verdict]
        if here:
            parts.append(_part(verdict, here, [row["size_bytes"] for row in rows], first, second, name))
    subject = f"With the set-up of its connection {first.name}" if name == "setup_ratio" else first.name
    return f"{subject} {_joined(parts)}."


def _verdict(row: Row, name: str) -> str:
    ratio = row[name]
    if ratio is None:
        return "both failed" if row["dropped"] and row["other_dropped"] else "not known"
    if isinf(ratio):
        return "failed"
    if ratio == 0:
        return "other failed"
    if row[f"{name}_low"] is None or min(row["count"], row["other_count"]) < FEWEST:
        return "too few"
    if row[f"{name}_high"] < 1:
        return "faster"
    return "slower" if row[f"{name}_low"] > 1 else "alike"


def _part(verdict: str, rows: list[Row], sizes: list[int], first: Transport, second: Transport, name: str) -> str:
    where = f"at {_sizes([row['size_bytes'] for row in rows], sizes)}"
    ratios = [row[name] for row in rows if row[name] is not None and isfinite(row[name])]
    if verdict == "faster":
        return f"was faster than {second.name} {where} ({_range(ratios)} times its RTT)"
    if verdict == "slower":
        return f"took {_range(ratios)} times as long as {second.name} {where}"
    if verdict == "alike":
        return f"cannot be distinguished from {second.name} {where}"
    if verdict == "too few":
        return f"cannot be compared with {second.name} {where}: {_too_few(rows, name)}, and {FEWEST} are needed"
    if verdict == "failed":
        return f"failed {where} ({_lost(rows, '')})"
    if verdict == "other failed":
        return f"did not fail {where}, where {second.name} did ({_lost(rows, 'other_')})"
    if verdict == "not known":
        return f"cannot be compared with {second.name} {where}: no RTT is known of one of them"
    return f"failed {where}, and so did {second.name}"


def _too_few(rows: list[Row], name: str) -> str:
    """Return what there are too few of for a factor: set-ups, or transactions of the side with fewer."""
    setups = min(row["setups"] for row in rows)
    if name == "setup_ratio" and setups < FEWEST:
        return f"{count(setups, 'set-up')} of a connection {'was' if setups == 1 else 'were'} measured"
    fewest = min(min(row["count"], row["other_count"]) for row in rows)
    return f"{count(fewest, 'transaction')} of a size {'was' if fewest == 1 else 'were'} measured"


def _range(values: list[float]) -> str:
    minimum, most = factor(min(values)), factor(max(values))
    return minimum if minimum == most else f"{minimum} to {most}"


def _lost(rows: list[Row], prefix: str) -> str:
    lost, of = (sum(row[f"{prefix}{name}"] for row in rows) for name in ("dropped", "count"))
    return f"{lost:,} of {of:,} dropped"


def _sizes(chosen: list[int], every: list[int]) -> str:
    """Return sizes as text; consecutive sizes become ranges: `128 to 2048 and 8192 bytes`.

    `every` are all measured sizes.
    """
    places = [every.index(size) for size in chosen]
    runs = [[p for _, p in run] for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    words = [str(every[r[0]]) if len(r) == 1 else f"{every[r[0]]} to {every[r[-1]]}" for r in runs]
    return f"{_joined(words)} bytes"


def _joined(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def transport_sentence(transport: Transport) -> str:
    """Return a sentence on the RTT of one transport by message size, and on dropped transactions."""
    rows = [row for row in size_statistics(transport).rows() if row["median_s"] is not None]
    finished = [row for row in rows if isfinite(row["median_s"])]
    if not rows:
        return f"{transport.name}: no RTT is known ({dropped_words(transport)})."
    if not finished:
        return f"{transport.name}: half or more were dropped at every size ({dropped_words(transport)})."
    first, last = finished[0], finished[-1]
    grew = f"took {seconds(first['median_s'])} at {first['size_bytes']} bytes"
    if last is not first:
        grew += f" and {seconds(last['median_s'])} at {last['size_bytes']}"
    return f"{transport.name} {grew} ({transport.vary} varied); {dropped_words(transport)}."


def dropped_words(transport: Transport) -> str:
    """Return the number of dropped transactions as text, such as `12 of 700 transactions were dropped`."""
    lost = int(np.sum(dropped(transport.table)))
    of = count(len(transport.table), "transaction")
    return f"{f'{lost:,}' if lost else 'none'} of {of} {'were' if lost > 1 else 'was'} dropped"


def cost_words(transport: Transport) -> str:
    """Return the fitted line of RTT over size as text: `1.05 s + 0.98 ms a byte`; "" if there is no fit."""
    line = straight_line(size_statistics(transport))
    if line is None:
        return ""
    sign = "−" if line.per_byte_s < 0 else "+"
    return f"{seconds(line.fixed_s)} {sign} {1000 * abs(line.per_byte_s):.3g} ms a byte"


def setup_words(transport: Transport) -> str:
    """Return a text on the duration of the connection setup and its source.

    The result is "" if the duration is not known.
    """
    if transport.setup is not None:
        where = "" if transport.setup.source == transport.name else f" in {transport.setup.source}"
        return f"{seconds(transport.setup.seconds)} (median of {transport.setup.samples:,}{where})"
    known = transport.table["connect_s"][~np.isnan(transport.table["connect_s"])]
    if not len(known):
        return ""
    return f"{seconds(float(np.median(known)))} (median of {len(known):,})"
