"""`multitracer report`: one self-contained HTML file for each input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import assets_option, examples, named_page, pool_option
from multitracer.cli._reading import InputChoice, reads_captures
from multitracer.errors import InputError, MultiTracerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording
    from multitracer.report.index import Input
    from multitracer.report.page import Assets


@click.command(
    "report",
    epilog=examples(
        "multitracer report capture.pcap",
        "multitracer report --connection 3 --from 10 --to 20 -o zoom.html capture.pcap",
        "multitracer report -o reports/ monday.pcap tuesday.pcap sample_traces/cellular_upload",
        "multitracer report --base-map roads.geojson drive/",
        "multitracer report -o cdpd/ cdpd-tcp/ cdpd-cc/",
        "multitracer report --pdf -o call.html sample_traces/cellular_upload",
        "multitracer report --assets shared -o week/ monday.pcap tuesday.pcap",
    ),
)
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="PATH",
    help="The file to write, by default report.html; for several inputs the folder, by default reports.",
)
@click.option(
    "--base-map",
    type=click.Path(path_type=str),
    metavar="FILE",
    help="Draw the lines of this GeoJSON file below the route of a drive.",
)
@click.option("--pdf", is_flag=True, help="Write each report as PDF too, beside the page; needs Chromium.")
@assets_option
@pool_option
@reads_captures
def command(
    reading: InputChoice, output: str | None, base_map: str | None, assets: str, *, pdf: bool, pool: bool
) -> None:
    """Write a self-contained HTML report: what limited the transfer and why, then every packet.

    Each INPUT gets its own report, and several get an index page; numbered files of tcpdump or dumpcap
    are one input. Folders of `measure run` are compared on one page. Prints the path of the report or
    the index.
    """
    from multitracer.recording.inputs import separate_inputs
    from multitracer.recording.transactions import LAYER

    _read_base_map(base_map)
    if pdf:
        _prints()
    sessions = separate_inputs(reading.inputs)
    several = len(sessions) > 1
    target = output or ("reports" if several else "report.html")
    if assets == "shared":
        _shares(Path(target) if several else Path(target).parent)
    if all(session.holds(LAYER) for session in sessions):
        click.echo(_write_measured(sessions, reading, target, pool=pool))
    elif several:
        click.echo(_write_several(sessions, reading, target))
    else:
        click.echo(_write_one(sessions[0], reading, target))


def _prints() -> None:
    """Find the browser that prints before any other work, so that a missing one costs no time."""
    from multitracer.report.pdf import browser

    browser()
    click.get_current_context().meta[_PDF] = True


def _shares(folder: Path) -> None:
    """Store script and style of all pages of this folder once, beside them."""
    from multitracer.report.page import FOLDER, Assets

    click.get_current_context().meta[_ASSETS] = Assets(folder / FOLDER)


_PDF = "multitracer.pdf"
"""Key in the context of the command for whether pages are printed."""
_ASSETS = "multitracer.assets"
"""Key in the context of the command for the shared folder of script and style."""
_BASE_MAP = "multitracer.base_map"
"""Key in the context of the command for the base map."""


def _read_base_map(path: str | None) -> None:
    """Read the base map before any other work, so that a wrong name costs no time."""
    if path is not None:
        from multitracer.report.base_map import read_base_map

        click.get_current_context().meta[_BASE_MAP] = read_base_map(path)


def _write_measured(sessions: list[Inputs], reading: InputChoice, target: str, *, pool: bool) -> str:
    """Write the page on transactions; sessions with captures get their reports beside it."""
    from multitracer.cli._transaction_report import links_to, write_measured
    from multitracer.cli._transactions import refuse_capture_options

    captured = [session for session in sessions if session.points]
    if not captured:
        refuse_capture_options(reading)
    links = links_to(captured, target, several=len(sessions) > 1)
    pages = {name: path.name for name, path in links.items()}
    page = write_measured(sessions, target, pages, pool=pool, assets=_assets())
    for session in captured:
        _write_one(session, reading, str(links[session.name]))
    return page


def _write_one(session: Inputs, reading: InputChoice, target: str) -> str:
    from multitracer.report.write import write_report

    analysed = _analysed(session, reading, output=target)
    write_report(analysed.recording, target, analysed.request)
    _print([Path(target)])
    return target


def _print(pages: list[Path]) -> None:
    """Print pages to PDF, if requested, and show the paths."""
    if not click.get_current_context().meta.get(_PDF):
        return
    from multitracer.report.pdf import print_pdf

    for page in pages:
        printed = page.with_suffix(".pdf")
        print_pdf(page, printed)
        click.echo(printed)


def _write_several(sessions: list[Inputs], reading: InputChoice, folder: str) -> str:
    """Write all reports that can be written; fail at the end if one could not."""
    from multitracer.cli._output import check_output
    from multitracer.report.index import write_reports

    check_output(folder, [path for session in sessions for path in session.paths], files="*.html")
    failed: list[str] = []
    index = write_reports(_readable(sessions, reading, failed), folder, assets=_assets())
    _print(sorted(each for each in index.parent.glob("*.html") if each.name != index.name))
    if failed:
        raise InputError(f"{len(failed)} of {len(sessions)} inputs have no report; {index} lists the others")
    return str(index)


def _readable(sessions: list[Inputs], reading: InputChoice, failed: list[str]) -> Iterator[Input]:
    from multitracer.cli._output import warn

    for session in sessions:
        try:
            recording = _analysed(session, reading)
        except MultiTracerError as error:
            warn(f"no report: {error}")
            failed.append(session.name)
        else:
            yield recording


def _analysed(session: Inputs, reading: InputChoice, *, output: str | None = None) -> Input:
    """Read and analyse one input; return it with the options of its report."""
    import shlex

    from multitracer.cli._reading import axis_bounds_ns, load, one
    from multitracer.recording.cut import warn_of_empty
    from multitracer.report.index import Input
    from multitracer.report.write import Request

    recording = load(reading, inputs=session, output=output, cut=False)
    warn_of_empty(recording, reading.window)
    begin_ns, end_ns = axis_bounds_ns(recording, reading)
    chosen = None
    if reading.connection is not None:
        part, number = one(recording, reading.connection)
        chosen = part.offset + number
    base_map = click.get_current_context().meta.get(_BASE_MAP)
    if base_map is not None:
        _warn_without_route(recording)
    request = Request(
        connection=chosen,
        from_ns=begin_ns,
        to_ns=None if end_ns is None else end_ns - 1,
        title=session.name,
        command=shlex.join(["multitracer", *sys.argv[1:]]),
        base_map=base_map,
        assets=_assets(),
    )
    return Input(session.name, recording, request)


def _assets() -> Assets | None:
    return click.get_current_context().meta.get(_ASSETS)


def _warn_without_route(recording: Recording) -> None:
    from multitracer.cli._output import warn
    from multitracer.report.base_map import NO_ROUTE

    if recording.surroundings().route is None:
        warn(f"{recording.name}: {NO_ROUTE}")
