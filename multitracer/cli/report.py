"""`multitracer report`: one self-contained HTML file for each input."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import assets_option, examples, named_page, pool_option
from multitracer.cli._reading import InputChoice, reads_captures
from multitracer.errors import InputError, MultiTracerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.recording.inputs import Inputs
    from multitracer.report.index import Input
    from multitracer.report.write import Request


@click.command(
    "report",
    epilog=examples(
        "multitracer report capture.pcap",
        "multitracer report --connection 3 --from 10 --to 20 -o zoom.html capture.pcap",
        "multitracer report -o reports/ monday.pcap tuesday.pcap sample_traces/cellular_upload",
        "multitracer report --base-map roads.geojson drive/",
        "multitracer report --card 1 attach.mi2log",
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
    help="File to write (default: report.html); for several inputs, folder to write (default: reports).",
)
@click.option(
    "--base-map",
    type=click.Path(path_type=str),
    metavar="FILE",
    help="Draw the lines of this GeoJSON file as a map below the route of a drive.",
)
@click.option(
    "--card",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show only the radio and the messages of this card of a phone with several, from 0. Default: the radio of the "
    "card with most readings; the page has a choice of the messages.",
)
@click.option("--pdf", is_flag=True, help="Also write each report as PDF beside the HTML page; needs Chromium.")
@assets_option
@pool_option
@reads_captures
def command(  # noqa: PLR0913  # each is an option
    reading: InputChoice,
    output: str | None,
    base_map: str | None,
    card: int | None,
    assets: str,
    *,
    pdf: bool,
    pool: bool,
) -> None:
    """Write a self-contained HTML report: what limited the transfer, why, and a view of every packet.

    Each INPUT gets its own report; several INPUTs also get an index page. Numbered files of tcpdump or dumpcap are one
    input. Folders of `measure run` are compared on one page. The command prints the path of the report or of the index.
    """
    import shlex

    from multitracer.recording.inputs import separate_inputs
    from multitracer.recording.transactions import LAYER
    from multitracer.report.write import Request

    # before any other work, so that a wrong name and a missing browser cost no time
    request = Request(command=shlex.join(["multitracer", *sys.argv[1:]]), card=card)
    if base_map is not None:
        from multitracer.report.base_map import read_base_map

        request = replace(request, base_map=read_base_map(base_map))
    if pdf:
        from multitracer.report.page import browser

        browser()
    sessions = separate_inputs(reading.inputs)
    several = len(sessions) > 1
    target = output or ("reports" if several else "report.html")
    if assets == "shared":
        from multitracer.report.page import FOLDER, Assets

        request = replace(request, assets=Assets((Path(target) if several else Path(target).parent) / FOLDER))
    if all(session.holds(LAYER) for session in sessions):
        click.echo(_write_measured(sessions, reading, target, request, pdf=pdf, pool=pool))
    elif several:
        click.echo(_write_several(sessions, reading, target, request, pdf=pdf))
    else:
        click.echo(_write_one(sessions[0], reading, target, request, pdf=pdf))


def _write_measured(  # each is an option
    sessions: list[Inputs], reading: InputChoice, target: str, request: Request, *, pdf: bool, pool: bool
) -> str:
    """Write the page about transactions, and reports of the sessions with captures.

    Return the page's path.
    """
    from multitracer.cli._transactions import links_to, refuse_capture_options, write_measured

    captured = [session for session in sessions if session.points]
    if not captured:
        refuse_capture_options(reading)
    links = links_to(captured, target, several=len(sessions) > 1)
    pages = {name: path.name for name, path in links.items()}
    page = write_measured(sessions, target, pages, pool=pool, assets=request.assets)
    for session in captured:
        _write_one(session, reading, str(links[session.name]), request, pdf=pdf)
    return page


def _write_one(session: Inputs, reading: InputChoice, target: str, request: Request, *, pdf: bool) -> str:
    from multitracer.report.write import write_report

    analysed = _analysed(session, reading, request, output=target)
    write_report(analysed.recording, target, analysed.request)
    if pdf:
        _print([Path(target)])
    return target


def _print(pages: list[Path]) -> None:
    """Convert pages to PDF, and print the paths."""
    from multitracer.report.page import print_pdf

    for page in pages:
        printed = page.with_suffix(".pdf")
        print_pdf(page, printed)
        click.echo(printed)


def _write_several(sessions: list[Inputs], reading: InputChoice, folder: str, request: Request, *, pdf: bool) -> str:
    """Write the reports of all inputs; if one cannot be written, continue, and raise an error at the end.

    Return the path of the index page.
    """
    from multitracer.cli._messages import warn
    from multitracer.cli._output import check_output
    from multitracer.report.index import write_reports

    check_output(folder, [path for session in sessions for path in session.paths], files="*.html")
    failed: list[str] = []

    def readable() -> Iterator[Input]:
        for session in sessions:
            try:
                recording = _analysed(session, reading, request)
            except MultiTracerError as error:
                warn(f"cannot write a report of this input: {error}")
                failed.append(session.name)
            else:
                yield recording

    index = write_reports(readable(), folder, assets=request.assets)
    if pdf:
        _print(sorted(each for each in index.parent.glob("*.html") if each.name != index.name))
    if failed:
        raise InputError(
            f"{len(failed)} of {len(sessions)} inputs have no report, because the report could not be "
            f"written; {index} lists the other reports"
        )
    return str(index)


def _analysed(session: Inputs, reading: InputChoice, request: Request, *, output: str | None = None) -> Input:
    """Read and analyse one input; return the result together with the options of its report."""
    from multitracer.cli._messages import warn
    from multitracer.cli._reading import axis_bounds_ns, load, one
    from multitracer.recording.recording import warn_of_empty
    from multitracer.report.base_map import NO_ROUTE
    from multitracer.report.index import Input

    recording = load(reading, inputs=session, output=output, cut=False)
    recording.choose_card(request.card)
    warn_of_empty(recording, reading.window)
    begin_ns, end_ns = axis_bounds_ns(recording, reading)
    chosen = None
    if reading.connection is not None:
        capture, number = one(recording, reading.connection)
        chosen = capture.offset + number
    if request.base_map is not None and recording.radio_context().route is None:
        warn(f"{recording.name}: {NO_ROUTE}")
    last_ns = None if end_ns is None else end_ns - 1
    request = replace(request, connection=chosen, from_ns=begin_ns, to_ns=last_ns, title=session.title)
    return Input(session.title, recording, request)
