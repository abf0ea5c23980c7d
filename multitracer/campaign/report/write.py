"""Writes the report of a campaign: the page, and the reports of the sessions with the worst segments."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from multitracer.analysis.mobility.cells import cell_name
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import DIGITS, candidates, content_of
from multitracer.campaign.report import questions
from multitracer.campaign.report.drawings import (
    GROUP_HEADS,
    bar,
    bars,
    fitting,
    group_cells,
    line,
    linear,
    number,
    seconds,
    table,
    text,
)
from multitracer.campaign.report.places import map_document, map_section, places, worst
from multitracer.campaign.report.questions import (
    MOST_GROUPS,
    PERCENTS,
    RADIO,
    Engine,
    days,
    failures,
    quality,
    reasons,
    stretches,
)
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitShare, LimitSubtype
from multitracer.errors import InputError, MultiTracerError
from multitracer.recording.read import read
from multitracer.report.index import INDEX, file_name
from multitracer.report.limit_words import says
from multitracer.report.markup import Markup, element, json_text, unbroken
from multitracer.report.page import FOLDER, Assets, attached, complete_page, own_file, write
from multitracer.report.replacing import check_replaceable
from multitracer.report.write import Request, write_report
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, ends, moment, printable, rate, share

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from multitracer.campaign.report.questions import BadSecondReason, Cost, Grouped, Quality, RateBounds
    from multitracer.tables import Document, Row


_MEDIAN, _TENTH = 50, 10
_TO_DAYS, _TO_SECONDS = len("2026-11-23"), len("2026-11-23 20:15:00")
_DAY_S = 86_400
_YEAR_D = 365
"""Number of days above which dates show the year instead of the day."""
_LIMITS = {limit.label: limit for limit in Limit}
_NO_RATE = "the throughput is unknown in every second; record packets, or the log of a phone"
_NOT_JUDGED = "Not known: no second of the recordings can be judged."
_NO_RTT = "no second has an RTT sample; record packets at the sender"


def meaning(limit: Limit) -> str:
    """Return a description of a limit."""
    return says(LimitShare(limit, LimitSubtype.NONE, 0, 0, 0, 0, Confidence.MEASURED))


def headline_text(numbers: Quality, reasons: Sequence[BadSecondReason], hexagon: Row | None) -> str:
    """Return the headline: the quality, the main cause of bad seconds, and the worst place."""
    if not numbers.sessions:
        return f"The campaign has no session: {_failed(numbers) or '`campaign run` has found none'}."
    if not numbers.judged:
        return (
            f"{count(numbers.sessions, 'session')}, but no second can be judged as good or bad. "
            "Record packets, or the radio with the logger of a phone."
        )
    good = share(numbers.judged - numbers.bad, numbers.judged)
    good = f"Good for {good} of the {_span(numbers.judged)} that can be judged"
    words = [
        *([f"median throughput {rate(numbers.throughput_bps[_MEDIAN])}"] if numbers.throughput_bps else []),
        *([f"median RTT {duration(numbers.rtt_ns[_MEDIAN])}"] if numbers.rtt_ns else []),
    ]
    sentences = [f"{good}: {', '.join(words)}." if words else f"{good}."]
    if reasons:
        first = reasons[0]
        sentences.append(f"Main cause of the bad time: {_reason(first.name)} ({share(first.seconds, numbers.bad)}).")
    if hexagon is not None:
        where = f"{hexagon['lat_deg']:.4f}, {hexagon['lon_deg']:.4f}"
        sentences.append(
            f"The worst place lies around {where}: bad for {_span(hexagon['bad'])} of {_span(hexagon['judged'])}."
        )
    return " ".join(sentences)


def _reason(name: str | None) -> str:
    if name == RADIO:
        return "weak signal or interference"
    limit = _LIMITS.get(name or "", Limit.UNKNOWN)
    return f"{limit.label} ({meaning(limit)})"


def _failed(numbers: Quality) -> str:
    return f"{count(numbers.failures, 'input')} could not be read" if numbers.failures else ""


def _span(seconds_: float) -> str:
    return duration(seconds_ * NS_PER_S)


def answer_section(numbers: Quality, sentence: str) -> Markup:
    """Return the headline and the main numbers."""
    failed = _failed(numbers) or "none failed"
    days = ends(moment(numbers.first)[:_TO_DAYS], moment(numbers.last)[:_TO_DAYS])
    facts = [
        ("Sessions", f"{numbers.sessions:,}", f"{days}; {failed}" if numbers.sessions else failed),
        ("Recorded", _span(numbers.seconds), f"{_span(numbers.judged)} can be judged"),
        ("Bad time", share(numbers.bad, numbers.judged), _span(numbers.bad) if numbers.judged else ""),
    ]
    if numbers.throughput_bps:
        tenth = f"a tenth of the seconds has at most {rate(numbers.throughput_bps[_TENTH])}"
        facts.append(("Median throughput", rate(numbers.throughput_bps[_MEDIAN]), tenth))
    if numbers.rtt_ns:
        tenth = f"a tenth of the seconds has at least {duration(numbers.rtt_ns[-1 - _TENTH])}"
        facts.append(("Median RTT", duration(numbers.rtt_ns[_MEDIAN]), tenth))
    if numbers.sent:
        facts.append(("Lost segments", share(numbers.lost or 0, numbers.sent), f"of {numbers.sent:,}"))
    return element(
        "section",
        element("p", unbroken(sentence), class_="lead"),
        element(
            "dl",
            [
                element("div", element("dt", name), element("dd", value, element("small", unbroken(more))))
                for name, value, more in facts
            ],
            class_="facts",
        ),
    )


def quality_section(numbers: Quality) -> Markup:
    """Return the section on quality: the two distributions."""
    return element(
        "section",
        element("h2", "How good is it?"),
        element(
            "div",
            _distribution("Throughput in one second", numbers.throughput_bps, rate, _NO_RATE),
            _distribution("Median RTT in one second", numbers.rtt_ns, duration, _NO_RTT),
            class_="drawings",
        ),
    )


def _distribution(title: str, at: Sequence[float], words: Callable[[float], str], nothing: str) -> Markup:
    if not at:
        return element("figure", element("figcaption", title), element("p", f"Not known: {nothing}."))
    middle = ", ".join(f"{percent} % have at most {words(at[percent])}" for percent in (5, 50, 95))
    up = linear(0, 100, lambda percent: f"{percent:g} %")
    drawn = line(list(zip(at, PERCENTS, strict=True)), fitting(at, words), up, says=f"{title}: {middle}")
    return element("figure", element("figcaption", title), drawn, element("p", unbroken(f"Of the seconds, {middle}.")))


# --- why ---


def costs_section(limits: Sequence[Cost], findings: Sequence[Row]) -> Markup:
    """Return the section on causes: limits and findings, by the time that they cost."""
    return element(
        "section",
        element("h2", "Why?"),
        element("h3", "What limited the transfers"),
        _limits(limits),
        element("h3", "Findings, by lost time"),
        _findings(findings),
        class_="long",
    )


def _limits(limits: Sequence[Cost]) -> Markup:
    if not limits:
        return element("p", "Not known: no transfer could be explained, because this needs captured packets.")
    heads = (("Limit", False), ("Share", True), ("Time", True), ("Longest in", True), ("Meaning", False))
    rows = [
        [
            text(each.limit.label),
            bar(each.share, 1),
            seconds(each.seconds),
            number(each.sessions, lambda n: count(int(n), "session")),
            text(meaning(each.limit), wrap=True),
        ]
        for each in limits
    ]
    return table("Limits by time", heads, rows)


def _findings(findings: Sequence[Row]) -> Markup:
    if not findings:
        return element("p", "No findings: no transfer shows a known fault, or no transfer could be explained.")
    heads = (
        ("Finding", False), ("Cost", True), ("Sessions", True), ("Times", True), ("Costliest example", False),
    )  # fmt: skip
    rows = [
        [
            text(printable(row["kind"])),
            seconds(row["cost_s"]),
            number(row["sessions"], lambda n: f"{n:,}"),
            number(row["rows"], lambda n: f"{n:,}"),
            text(_example(row["worst"]), element("em", f" {_session(row['worst'])}"), wrap=True),
        ]
        for row in findings
    ]
    return table("Findings by cost", heads, rows, cards=True)


def _example(finding: Row) -> str:
    return unbroken(printable(finding["sentence"] or ""))


def _session(row: Row) -> str:
    return printable(row["name"] or row["session"])


# --- which ---


def groups_section(cells: Sequence[Row], hours: Sequence[Row], groups: Sequence[Grouped]) -> Markup:
    """Return the section on bad cells, hours, devices and labels."""
    return element(
        "section",
        element("h2", "Which cells, hours and devices?"),
        element("h3", "Cells, in descending order of bad time"),
        _cells(cells),
        element("h3", "Hours of the day, UTC"),
        _hours(hours),
        *(_group(each) for each in groups),
        None if groups else element("p", "All sessions have the same technology, hosts and labels."),
        class_="long",
    )


def _cells(cells: Sequence[Row]) -> Markup:
    if not cells:
        return element("p", "Not known: no session has a log of the radio.")
    heads = (("Cell", False), *GROUP_HEADS, ("Level", True))
    rows = [
        [text(_cell(row)), *group_cells(row), number(row["level_dbm"], lambda dbm: f"{dbm:.0f} dBm")] for row in cells
    ]
    return element("div", table("Cells", heads, rows, filter_id="cells"), _more(cells))


def _cell(row: Row) -> str:
    names = {"rat": row["rat"] or "", "plmn": row["plmn"] or ""}
    return printable(cell_name({**row, **names}))


def _more(rows: Sequence[Row]) -> Markup | None:
    words = f"The first {MOST_GROUPS} are shown; `campaign query` lists all."
    return element("p", words, class_="muted") if len(rows) == MOST_GROUPS else None


def _hours(hours: Sequence[Row]) -> Markup:
    judged = [row for row in hours if row["judged"]]
    if not judged:
        return element("p", _NOT_JUDGED)
    points = [(row["name"], 100 * row["bad"] / row["judged"]) for row in judged]
    worst = max(points, key=lambda point: point[1])
    words = f"Bad time by hour of the day: most at {worst[0]} h, {worst[1]:.1f} %"
    across = linear(0, 23, lambda hour: f"{hour:g} h")._replace(low=-0.6, high=23.6)
    up = linear(0, max(worst[1], 1), lambda percent: f"{percent:g} %")
    rows = [[number(row["name"], lambda hour: f"{hour} h"), *group_cells(row)] for row in hours]
    listed = element(
        "details",
        element("summary", "As a table"),
        table("Hours of the day, UTC", (("Hour", True), *GROUP_HEADS), rows),
    )
    drawn = element("figure", bars(points, across, up, says=words), element("p", unbroken(f"{words}.")))
    return element("div", element("div", drawn, class_="drawings"), listed)


def _group(group: Grouped) -> Markup:
    title = printable(group.title)
    rows = [[text(printable(row["name"])), *group_cells(row)] for row in group.rows]
    heads = ((title, False), *GROUP_HEADS)
    return element("div", element("h3", title), table(title, heads, rows), _more(group.rows))


# --- when ---


def days_section(days: Sequence[Row]) -> Markup:
    """Return the section on the trend over days."""
    return element("section", element("h2", "Trend over days"), _trend(days))


def _trend(days: Sequence[Row]) -> Markup:
    if len(days) < 2:
        why = "all seconds are from the same day" if days else "the campaign has no complete second"
        return element("p", f"No trend: {why}.")
    shares = [(row["day"], 100 * row["bad"] / row["judged"]) for row in days if row["judged"]]
    series = (
        ("Bad time", shares, lambda percent: f"{percent:.3g} %"),
        ("Median throughput", [(row["day"], row["throughput_bps"]) for row in days], rate),
        ("Median RTT", [(row["day"], row["rtt_ns"]) for row in days], duration),
    )
    drawn = [_line(title, [p for p in points if p[1] is not None], words) for title, points, words in series]
    heads = (("Day", False), *GROUP_HEADS)
    rows = [[text(_day(row["day"])), *group_cells({"loss": None, **row})] for row in days]
    listed = element("details", element("summary", "As a table"), table("Days of UTC", heads, rows))
    return element("div", element("div", drawn, class_="drawings"), listed)


def _line(title: str, points: list[tuple[float, float]], words: Callable[[float], str]) -> Markup | None:
    if len(points) < 2:
        return None
    (first, low), (last, high) = points[0], points[-1]
    says_ = f"{title}: {words(low)} on {_day(first)}, {words(high)} on {_day(last)}"
    step = max(1, -(-(last - first) // 3))
    across = linear(first, last, _short_day if last - first < _YEAR_D else _month)._replace(
        ticks=[int(first + n * step) for n in range(4) if first + n * step <= last]
    )
    up = linear(0, max(value for _, value in points), words)
    drawn = line(points, across, up, says=says_, dots=len(points) <= 60)
    return element("figure", element("figcaption", title), drawn, element("p", unbroken(f"{says_}.")))


def _day(day: float) -> str:
    return datetime.fromtimestamp(day * _DAY_S, UTC).strftime("%Y-%m-%d")


def _short_day(day: float) -> str:
    return datetime.fromtimestamp(day * _DAY_S, UTC).strftime("%d %b")


def _month(day: float) -> str:
    return datetime.fromtimestamp(day * _DAY_S, UTC).strftime("%b %Y")


# --- which stretches ---


def stretches_section(rows: Sequence[Row], links: Sequence[Markup], judged: int) -> Markup:
    """Return the section on the worst segments of the routes.

    `links` has, for each segment, a link to its session's report or the command that makes the
    report. `judged` is the number of seconds that can be classified.
    """
    title = "The worst stretches" if rows else "Where was it worst?"
    heads = (
        ("Rank", True), ("Cost", True), ("Length", True), ("When", False), ("Session", False), ("Report", False),
        ("Throughput", True), ("Limit", False), ("Cell", False), ("Level", True), ("Place", False),
    )  # fmt: skip
    cells = [
        [
            number(place, lambda n: f"{n}"),
            seconds(row["lost_s"]),
            seconds((row["end_ns"] - row["begin_ns"]) / NS_PER_S),
            text(f"{moment(row['begin_ns'])[:_TO_SECONDS]} UTC"),
            text(_session(row)),
            text(link),
            number(row["throughput_bps"], rate),
            text(printable(row["limited_by"] or ("" if row["lost_s"] is not None else "radio"))),
            text(_cell(row["cell"]) if any(row["cell"].values()) else ""),
            number(row["level_dbm"], lambda dbm: f"{dbm:.0f} dBm"),
            text("" if row["lat_deg"] is None else f"{row['lat_deg']:.5f}, {row['lon_deg']:.5f}"),
        ]
        for place, (row, link) in enumerate(zip(rows, links, strict=True), 1)
    ]
    how = (
        "The cost is the time that would have been saved at the typical rate. An interval without "
        "a cost is bad because of its radio only."
    )
    shown = table("The worst stretches, by cost", heads, cells, filter_id="stretches", cards=True) if rows else None
    why = "None: there are no two consecutive bad seconds." if judged else _NOT_JUDGED
    nothing = None if rows else element("p", why)
    return element(
        "section", element("h2", title), shown, nothing, element("p", how, class_="muted") if rows else None,
        class_="long",
    )  # fmt: skip


def failures_section(sentences: Sequence[str], total: int) -> Markup | None:
    """Return the section on inputs that could not be read; None if all could."""
    if not total:
        return None
    shown = [element("li", printable(each)) for each in sentences]
    if more := total - len(sentences):
        shown.append(element("li", f"{more:,} more; the query FROM failures lists them (`campaign query`)"))
    return element("section", element("h2", "What could not be read"), element("ul", shown))


def method_section(numbers: Quality, bounds: RateBounds, facts: Sequence[tuple[str, str]]) -> Markup:
    """Return the section on how seconds are classified, and on the data of the page."""
    by_radio, not_judged = numbers.judged - numbers.by_rate, numbers.seconds - numbers.judged
    first = (
        f"Of {count(numbers.seconds, 'second')}, {numbers.by_rate:,} are judged by their rate (an "
        f"application wanted data), {by_radio:,} only by the radio, and {not_judged:,} are not "
        "judged."
    )
    words = [first]
    if numbers.by_rate:
        words.append(
            "The typical rate is the upper quartile of all seconds in which an application wanted "
            f"data: {rate(bounds.typical_bps)}. A second is bad if its rate is below a fifth of "
            f"this rate ({rate(bounds.poor_bps)}), or in an outage below half of it."
        )
    if numbers.speeds:
        words.append(
            f"The link of {count(numbers.speeds, 'session')} ran faster or slower than real time. "
            "Limits and findings are in link time; all other values are in recorded time."
        )
    rows = [element("tr", element("th", name), element("td", printable(value))) for name, value in facts]
    return element(
        "section",
        element("h2", "How it was counted"),
        element("p", unbroken(" ".join(words))),
        element("table", element("tbody", rows), class_="plain"),
    )


REPORTS = "reports"
"""Folder of the session reports, beside the page."""


class WrittenReport(NamedTuple):
    """Paths of the written files."""

    page: Path
    failed: list[str]
    """Sessions whose requested report could not be written, one sentence each."""


def write_campaign_report(
    place: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    with_reports: bool = False,
    shared: bool = False,
    command: str = "",
    shown: Callable[[str], None] = lambda _: None,
) -> WrittenReport:
    """Write the report of a campaign into a folder, and return the paths of its files.

    Parameters
    ----------
    place : str or path
        The campaign.
    folder : str or path
        Folder for the report; it is made if it is missing.
    with_reports : bool
        Also write the reports of the sessions with the worst segments; their logs are read again.
    shared : bool
        Store script and style of all pages once, in a folder beside them.
    command : str
        The command line, for the page.
    shown : callable, optional
        Called with the path of each session report before it is made.

    Raises
    ------
    InputError
        If there is no campaign, one of its parts is damaged, or the folder cannot be written.
    """
    catalogue = Catalogue(place)
    target = _folder(Path(folder), catalogue)
    with Engine(catalogue) as engine:
        rows = stretches(engine)
        reports = SessionReports(target, rows)
        assets, theirs = (
            (Assets(target / FOLDER, address) if shared else None) for address in (FOLDER, f"../{FOLDER}")
        )
        if with_reports:
            reports.write(Request(command=command, assets=theirs), shown)
        facts = [("Campaign", catalogue.store.name), ("Snapshot", str(catalogue.snapshot.number)), ("Command", command)]
        text = _page(engine, Path(catalogue.store.name).name or catalogue.store.name, rows, reports, facts, assets)
    write(target / INDEX, text)
    return WrittenReport(target / INDEX, list(reports.failed.values()))


def _folder(target: Path, catalogue: Catalogue) -> Path:
    """Make the folder for the report and return it; raise an error if it is inside the campaign."""
    inside = target.resolve()
    if Path(catalogue.store.address) in (inside, *inside.parents):
        raise InputError(f"{target}: this folder is inside the campaign; choose a folder outside the campaign")
    check_replaceable(target)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot create this folder: {error.strerror}; choose another folder") from error
    return target


class SessionReports:
    """The reports of the sessions with the worst segments of the routes.

    Parameters
    ----------
    target : Path
        The folder of the page.
    rows : sequence of dict
        Rows of `questions.stretches`.
    """

    def __init__(self, target: Path, rows: Sequence[Row]) -> None:
        self._target = target
        taken: set[str] = set()
        self._sessions = {row["session"]: row for row in rows}
        self._names = {
            session: file_name(str(row["name"] or session), taken) for session, row in self._sessions.items()
        }
        self._written: set[str] = set()
        self.failed: dict[str, str] = {}

    def write(self, request: Request, shown: Callable[[str], None]) -> None:
        """Write the report of each session; sessions that cannot be read are added to `failed`."""
        folder = self._target / REPORTS
        folder.mkdir(exist_ok=True)
        for session, row in self._sessions.items():
            path = folder / self._names[session]
            shown(str(path))
            try:
                _write_one(row, path, request)
                self._written.add(session)
            except (MultiTracerError, OSError) as error:
                self.failed[session] = f"no report: {error}"

    def link(self, row: Row) -> Markup:
        """Return the link to the report of a segment's session, or the command that makes the report."""
        session = row["session"]
        name = f"{REPORTS}/{self._names[session]}"
        if session in self._written:
            return element("a", "Report", href=quote(name))
        if session in self.failed:
            return element("span", printable(self.failed[session]))
        words = shlex.join(["multitracer", "report", "-o", str(self._target / name), str(row["path"])])
        return element("details", element("summary", "Command"), element("code", printable(words)))


def _write_one(row: Row, path: Path, request: Request) -> None:
    inputs = next(candidates([str(row["path"])])).inputs()
    if content_of(inputs)[:DIGITS] != row["session"]:
        raise InputError(
            f"{row['path']}: the session has changed since the last `campaign run`, or that run had other options "
            "on how captures are read; give the same options, or run `campaign run` again"
        )
    title = printable(row["name"] or row["session"])
    write_report(read(inputs), path, replace(request, title=title))


# --- the page ---


def _page(
    engine: Engine,
    name: str,
    rows: Sequence[Row],
    reports: SessionReports,
    facts: Sequence[tuple[str, str]],
    assets: Assets | None,
) -> str:
    numbers, drawn = quality(engine), places(engine)
    document = None if drawn is None else map_document(drawn)
    hexagons = [] if drawn is None else worst(drawn, 1)
    sections = [
        answer_section(numbers, headline_text(numbers, reasons(engine), hexagons[0] if hexagons else None)),
        quality_section(numbers),
        map_section(drawn, document),
        groups_section(questions.cells(engine), questions.hours(engine), questions.devices(engine)),
        costs_section(questions.limits(engine), questions.findings(engine)),
        stretches_section(rows, [reports.link(row) for row in rows], numbers.judged),
        days_section(days(engine)),
        failures_section(failures(engine), numbers.failures),
        method_section(numbers, engine.bounds, facts),
    ]
    return _document(printable(name), sections, document, assets)


def _document(title: str, sections: Sequence[Markup | None], places_: Document | None, assets: Assets | None) -> str:
    """Return the HTML of the page; it loads nothing from the network and runs only our own scripts."""
    map_code = [own_file("drive/map_gestures.js"), _own_file("places.js")] if places_ else []
    code = attached(
        own_file("page.css") + _own_file("campaign.css"), "\n".join([own_file("page.js"), *map_code]), assets
    )
    data = element("script", json_text(places_), type="application/json", id="places") if places_ else None
    return complete_page(title, sections, code=code, data=data, kicker="MultiTracer campaign")


def _own_file(name: str) -> str:
    return (resources.files("multitracer.campaign.report") / name).read_text("utf-8")
