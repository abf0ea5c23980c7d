"""Writes the report of a campaign: the page, and the reports of the sessions with the worst segments."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import DIGITS, candidates, content_of
from multitracer.campaign.report import page, questions
from multitracer.campaign.report.places import map_document, map_section, places, worst
from multitracer.campaign.report.questions import Engine, days, failures, quality, reasons, stretches
from multitracer.errors import InputError, MultiTracerError
from multitracer.recording.read import read
from multitracer.report.index import INDEX, file_name
from multitracer.report.markup import Markup, element, json_text
from multitracer.report.page import FOLDER, Assets, attached, complete_page, own_file, write
from multitracer.report.replacing import check_replaceable
from multitracer.report.write import Request, write_report
from multitracer.words import printable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from multitracer.tables import Document, Row

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
        page.answer_section(numbers, page.headline_text(numbers, reasons(engine), hexagons[0] if hexagons else None)),
        page.quality_section(numbers),
        map_section(drawn, document),
        page.groups_section(questions.cells(engine), questions.hours(engine), questions.devices(engine)),
        page.costs_section(questions.limits(engine), questions.findings(engine)),
        page.stretches_section(rows, [reports.link(row) for row in rows], numbers.judged),
        page.days_section(days(engine)),
        page.failures_section(failures(engine), numbers.failures),
        page.method_section(numbers, engine.bounds, facts),
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
