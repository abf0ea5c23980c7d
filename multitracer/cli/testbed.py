"""`multitracer testbed`: run a scenario over a modelled link, and list those that come with MultiTracer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._messages import note
from multitracer.cli._options import CommandGroup, FiniteRange, common_options, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.radio import AtEnd, Realism
    from multitracer.lab.scenario.summary import Summary
    from multitracer.tables import Document

_REPEAT = "# repeat it with "
"""Begins the line of a run's scenario.toml that names options."""


@click.group("testbed", cls=CommandGroup, epilog=examples("multitracer testbed run clean-bulk --virtual -o DIR"))
@common_options
def command() -> None:
    """Run TCP over a modelled wireless link, and record the run at every layer.

    A scenario defines the run: the hosts' TCP, the link and its radio, the traffic, fades and resets.
    """


@command.command("list", epilog=examples("multitracer testbed list"))
@common_options
def list_scenarios() -> None:
    """List the bundled scenarios."""
    from multitracer.cli._output import page
    from multitracer.lab.scenario.library import bundled_names, load_scenario

    scenarios = [load_scenario(name) for name in bundled_names()]
    rows = [(s.name, s.figure, s.title) for s in scenarios]
    page().table(("scenario", "figure", "what happens"), rows)


@command.command("doctor", epilog=examples("multitracer testbed doctor"))
@common_options
def doctor() -> None:
    """Show which of three tiers this machine supports for runs in real time, and how to reach a better tier.

    root: everything is recorded. userns: runs in a user namespace, without the data that the kernel gives
    only to root. plain: only virtual time. The command tests each tier; the exit status is always 0.
    """
    from multitracer.cli._output import page
    from multitracer.lab.testbed.doctor import examine

    system = examine()
    sheet = page()
    sheet.line(f"Tier: {system.tier}", bold=True)
    tiers = [(t.tier, "yes" if t.offered else "no", t.how, t.lost) for t in system.tiers]
    sheet.table(("tier", "here", "how to use, or why unavailable", "limitations"), tiers)
    sheet.line()
    abilities = [(f.name, "ok" if f.works else "absent", f.purpose) for f in system.checks]
    sheet.table(("ability", "", "needed for"), abilities)
    for check in system.checks:
        if not check.works:
            sheet.line(f"{check.name}: {check.message}; {check.without}")
    sheet.line(f"What would help: {system.advice or 'nothing is missing'}")


@command.command(
    "channel",
    epilog=examples(
        "multitracer testbed channel ray-1 -o power.csv",
        "multitracer testbed channel ray-4 --seed 7 --threshold=-69",
        "multitracer testbed channel ray-2 --status status.csv --ns2 link.tcl",
    ),
)
@click.argument("scenario", metavar="NAME|FILE.toml")
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write. The file has the columns time_s and power_dbm, and one line for each time step.",
)
@click.option(
    "--status",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a link-status file: a CSV line for each time at which the link goes up or down.",
)
@click.option(
    "--ns2",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the same as commands for ns-2 (rtmodel-at), for a script with the variables ns, n0 and n1.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Random seed of the radio. Default: from the scenario."
)
@click.option(
    "--threshold",
    type=FiniteRange(-300, 300),
    metavar="DBM",
    help="The link is down below this received power, in dBm. Default: from the scenario.",
)
@common_options
def channel(  # one for each option
    scenario: str, path: Path | None, status: Path | None, ns2: Path | None, seed: int | None, threshold: float | None
) -> None:
    """Compute the received power of a scenario's ray-traced radio, and its fades.

    The command prints number and duration of the fades, in which the power is below the threshold and the link is down.

    A scenario of your own can name each of the three files: `power = "FILE"` in its table [link].
    """
    from multitracer.cli._output import check_output, page, replacing
    from multitracer.cli._testbed import channel_facts
    from multitracer.lab.scenario.radio import power_of

    for target in (path, status, ns2):
        if target is not None:
            check_output(str(target), [scenario])
    received = power_of(scenario, seed=seed, threshold_dbm=threshold)
    sheet = page()
    sheet.line(f"{received.name}, seed {received.seed}")
    sheet.facts(channel_facts(received))
    times = received.status
    assert times is not None  # a link of kind "switched" has a threshold
    for target, text in ((path, received.text), (status, times.text), (ns2, times.ns2_commands)):
        if target is not None:
            with replacing(str(target)) as temporary:
                temporary.write_text(text(), "utf-8")
            sheet.line(f"written to {target}")


@command.command(
    "run",
    epilog=examples(
        "multitracer testbed run fig5-typical --virtual -o typical",
        "sudo multitracer testbed run fig5-typical --speed 10 -o typical",
        "multitracer testbed run my.toml --virtual --seed 7 -o run7",
        "multitracer testbed run fig4-slow-start --virtual --as-linux -o as_linux",
        "multitracer testbed run wtcp-fig3b --virtual --transport vegas -o vegas",
        "multitracer testbed run clean-bulk --virtual --errors radio.txt --at-end repeat -o again",
    ),
)
@click.argument("scenario", metavar="NAME|FILE.toml")
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Session folder to write; the folder must be new or empty.",
)
@click.option(
    "--virtual",
    is_flag=True,
    help="Run in virtual time, with MultiTracer's own TCP; a run of some minutes takes about one second.",
)
@click.option(
    "--as-linux", is_flag=True, help="With --virtual: TCP behaves as in Linux, for a comparison with a real run."
)
@click.option(
    "--speed",
    type=FiniteRange(1, 50),
    metavar="N",
    help="Without --virtual: simulated seconds per real second, 1 to 50. Default: 1.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Random seed of the radio. In virtual time, equal seeds give equal files. Default: from the scenario.",
)
@click.option(
    "--transport",
    metavar="NAME",
    help="With --virtual: transport of all traffic, such as newreno, vegas or wtcp. Default: from the scenario.",
)
@click.option(
    "--errors",
    "trace",
    metavar="TRACE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace the radio errors of the scenario with those of this recorded error trace.",
)
@click.option(
    "--at-end",
    type=click.Choice(["clear", "repeat", "stop"]),
    help="After the end of the error or capacity trace: clear (no more errors), repeat (the trace "
    "starts again), or stop (the run ends). Default: clear; for a capacity trace, from the "
    "scenario.",
)
@click.option(
    "--ns2",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --virtual: also write the packets as a trace of ns-2's wired links.",
)
@common_options
def run_scenario(  # noqa: PLR0913, PLR0917  # one for each option
    scenario: str,
    folder: Path,
    virtual: bool,
    as_linux: bool,
    speed: float | None,
    seed: int | None,
    transport: str | None,
    trace: Path | None,
    at_end: AtEnd | None,
    ns2: Path | None,
) -> None:
    """Run a scenario and write a session folder.

    NAME is a bundled scenario (`multitracer testbed list`), and FILE.toml is your own scenario. The folder contains the
    logs of both hosts, summary.json with the results, and truth/ with the true fate of each segment and frame.

    Without --virtual, the hosts are two network namespaces of this machine, and the kernel's TCP runs over
    the modelled link (Linux, as root or under `unshare -Urnm`).
    """
    from multitracer.cli._output import check_output, page
    from multitracer.lab.scenario.library import load_scenario
    from multitracer.lab.scenario.session_folder import run_ns

    check_output(str(folder), [])
    if ns2 is not None:
        check_output(str(ns2), [scenario])
        if not virtual:
            raise click.UsageError("--ns2 needs --virtual; without --virtual, read the captures of the run")
    if virtual and speed is not None:
        raise click.UsageError("--speed cannot be used with --virtual; omit one of these options")
    if as_linux and not virtual:
        raise click.UsageError("--as-linux needs --virtual; without --virtual, TCP is always that of Linux")
    if transport is not None and not virtual:
        raise click.UsageError("--transport needs --virtual; without --virtual, the kernel's TCP is used")
    chosen = load_scenario(scenario)
    chosen.check_traffic()
    if transport is not None:
        chosen = chosen.with_transport(transport)
    if as_linux:
        chosen = chosen.as_linux()
    chosen, radio = _with_radio(chosen, trace, at_end)
    chosen = _with_options(chosen, transport=transport, as_linux=as_linux, at_end=at_end)
    summary = _in_virtual_time(chosen, folder, seed, ns2) if virtual else _in_real_time(chosen, folder, seed, speed)
    sheet = page()
    sheet.line(f"{chosen.name}: {chosen.title}")
    sheet.facts(_facts(summary))
    if radio.kind != "modelled" or radio.lasts_ns:
        sheet.line(f"radio {radio.kind}: {radio.sentence}")
        sheet.line(radio.end(run_ns(folder)))
    sheet.line(f"written to {folder}" if ns2 is None else f"written to {folder} and {ns2}")


@command.command(
    "compare",
    epilog=examples(
        "multitracer testbed compare fig5-typical --transports reno,cubic,vegas",
        "multitracer testbed compare drive/ --runs 10 -o drive.html",
        "multitracer testbed compare drive.down --transports reno,cubic --seconds 120 --csv runs.csv",
        "multitracer testbed compare power.csv --threshold=-70 --transports tahoe,vegas",
    ),
)
@click.argument("radio", metavar="RADIO")
@click.option(
    "--transports",
    default="tahoe,reno,newreno,sack,cubic,vegas,linux,wtcp",
    show_default=True,
    metavar="NAME,NAME,…",
    help="Transports to compare, separated by commas. Shares are relative to the first transport.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    default=6,
    show_default=True,
    metavar="N",
    help="Number of runs of each transport, with consecutive seeds; a confidence interval of the share "
    "needs at least 6.",
)
@click.option(
    "--seconds",
    type=FiniteRange(1, 3600),
    default=60,
    show_default=True,
    metavar="S",
    help="Duration of the transfer in simulated seconds, if no scenario defines it.",
)
@click.option(
    "--direction",
    type=click.Choice(["up", "down"]),
    default="down",
    show_default=True,
    help="Direction of the data, from or to the mobile host, if no scenario defines it.",
)
@click.option(
    "--threshold",
    type=FiniteRange(-300, 300),
    metavar="DBM",
    help="For a power trace or a ray-traced radio: the link is down below this received power, in dBm. "
    "Default: from the scenario; -75 for a trace.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Draw a figure of the comparison to this file: .html, or .json for plotly."
)
@click.option("--csv", "table", metavar="FILE", help="Write the results of each run as CSV.")
@common_options
def compare_transports(  # noqa: PLR0913, PLR0917  # one for each option
    radio: str,
    transports: str,
    runs: int,
    seconds: float,
    direction: Literal["up", "down"],
    threshold: float | None,
    output: str | None,
    table: str | None,
) -> None:
    """Compare transports over the same radio, in virtual time.

    RADIO is an error trace (`export errors`), a capacity trace (`export capacity`, or one of Mahimahi), a
    power trace (`testbed channel`), a session folder, a scenario or a bundled link. The output states
    whether the radio is recorded, derived or modelled.
    """
    from multitracer.cli._output import check_output, page, replacing, text_output
    from multitracer.cli._testbed import counted, show, write_csv
    from multitracer.lab.rig.radios import radio_of
    from multitracer.lab.scenario.radio import check_up
    from multitracer.lab.simulator.comparison import compare, runs_of

    names = tuple(dict.fromkeys(name.strip() for name in transports.split(",") if name.strip()))
    if not names:
        raise click.BadParameter(
            "no transport was given; name at least one transport, for example newreno", param_hint="'--transports'"
        )
    for target in (output, table):
        check_output(target, [radio])
    chosen = radio_of(radio, direction=direction, seconds=seconds, threshold_dbm=threshold)
    check_up(chosen.scenario, seed=chosen.scenario.seed)
    plan = list(runs_of(chosen.scenario, runs, lasts_s=chosen.trace_s))
    with counted(len(names) * len(plan)) as progress:
        compared = compare(plan, names, progress=progress)
    show(page(), chosen, compared)
    if table is not None:
        with text_output(table) as stream:
            write_csv(stream, compared)
    if output is not None:
        from multitracer.cli._plotting import write
        from multitracer.lab.transports_figure import transports_figure

        title = f"{chosen.scenario.name}: radio {chosen.realism.kind}"
        figure = transports_figure(compared, title=title)
        with replacing(output) as temporary:
            write(figure, temporary, title=title, theme="light", as_json=output.endswith(".json"))


@command.command(
    "table",
    epilog=examples(
        "multitracer testbed table ray",
        "multitracer testbed table ray --stated",
        "multitracer testbed table ray --transport vegas --thresholds 2,8,64 --csv table.csv",
    ),
)
@click.argument("name", metavar="ray", type=click.Choice(["ray"]))
@click.option(
    "--stated",
    is_flag=True,
    help="Use the scenarios with the wording of the paper (ray-1-stated to ray-5-stated), not the calibrated ones.",
)
@click.option("--transport", default="tahoe", show_default=True, metavar="NAME", help="Transport of all runs.")
@click.option(
    "--thresholds",
    default="8,16,32",
    show_default=True,
    metavar="N,N,…",
    help="First slow-start thresholds, in packets, separated by commas.",
)
@click.option("--csv", "table", metavar="FILE", help="Write the table as CSV: scenario, quantity, value, paper.")
@common_options
def paper_table(name: str, stated: bool, transport: str, thresholds: str, table: str | None) -> None:
    """Show a table of a paper, with our value and the paper's value in each cell.

    ray is Table I of paper 002: time down (T_d), number (N_f) and mean duration (T_f) of the fades of ray-1 to ray-5,
    and the mean rate (R) of complete packets in kB/s. The runs are in virtual time.
    """
    from multitracer.cli._output import check_output, page, text_output
    from multitracer.cli._testbed import counted, show_table, write_cells
    from multitracer.lab.simulator.comparison import RAY_PAPER, ray_table

    del name
    packets = _packets(thresholds)
    check_output(table, [])
    cells = []
    with counted(len(RAY_PAPER) * len(packets)) as progress:
        for cell in ray_table(stated=stated, transport=transport, thresholds=packets):
            cells.append(cell)
            progress(sum(each.quantity.startswith("R ") for each in cells))
    show_table(page(), cells)
    if table is not None:
        with text_output(table) as stream:
            write_cells(stream, cells)


_MOST_PACKETS = 1_000_000
"""Maximum first slow-start threshold, in packets; far above each window."""


def _packets(text: str) -> list[int]:
    """Return the numbers of packets in an option's text."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdigit() and 2 <= int(word) <= _MOST_PACKETS for word in words):
        raise click.BadParameter(
            f"each threshold must be a number from 2 to {_MOST_PACKETS:,}, as in 8,16,32; {text!r} is not",
            param_hint="'--thresholds'",
        )
    return list(dict.fromkeys(map(int, words)))


def _in_virtual_time(scenario: Scenario, folder: Path, seed: int | None, ns2: Path | None) -> Summary:
    from multitracer.cli._output import replacing
    from multitracer.lab.simulator.ns2_trace import Ns2Trace
    from multitracer.lab.simulator.run import record_virtual

    if ns2 is None:
        return record_virtual(scenario, folder, seed=seed)
    trace = Ns2Trace(scenario)
    with replacing(str(ns2)) as temporary:
        summary = record_virtual(scenario, folder, seed=seed, observers=[trace])
        temporary.write_text(trace.text(), "utf-8")
    return summary


def _in_real_time(scenario: Scenario, folder: Path, seed: int | None, speed: float | None) -> Summary:
    from multitracer.cli._progress import progress as shown
    from multitracer.lab.testbed.namespaces import InterruptedRunError
    from multitracer.lab.testbed.run import run_real
    from multitracer.manifest import private_recording

    try:
        with private_recording(folder), shown("running", total_bytes=scenario.traffic[0].bytes) as progress:
            return run_real(scenario, folder, seed=seed, speed=speed or 1, progress=progress)
    except InterruptedRunError as stop:
        note(f"The run was interrupted; the data that were recorded before are in {folder}.")
        raise click.exceptions.Exit(128 + stop.number) from stop


def _with_radio(scenario: Scenario, path: Path | None, at_end: AtEnd | None) -> tuple[Scenario, Realism]:
    """Return the scenario with the trace of an option as its radio, and the realism of the radio."""
    from multitracer.lab.scenario.library import read_error_trace
    from multitracer.lab.scenario.radio import realism_of, under_errors, with_end

    if path is not None:
        return under_errors(scenario, read_error_trace(path), path=str(path), at_end=at_end or "clear")
    if at_end is not None:
        scenario = with_end(scenario, at_end)
    return scenario, realism_of(scenario.link)


def _with_options(scenario: Scenario, *, transport: str | None, as_linux: bool, at_end: AtEnd | None) -> Scenario:
    """Return the scenario with a last line that names the options which its keys cannot express.

    The line is a comment of the TOML text.
    """
    named = {"transport": transport, "at-end": at_end}
    words = [f"--{name} {value}" for name, value in named.items() if value] + ["--as-linux"] * as_linux
    lines = scenario.source.splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith(_REPEAT))  # of the run that this repeats
    note = f"\n{_REPEAT}{' '.join(words)}\n" if kept and words else ""
    return replace(scenario, source=kept + note)


_OF_SEVERAL = ("jain_index", "fairness_gap", "jain_index_last_third", "fairness_gap_last_third")
"""Keys of a summary that compare its flows."""


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    document = summary.document()
    gaps = document.pop("xoff_gaps_s")
    ledger = document.pop("ledger")
    flows, reason = document.pop("flows"), document.pop("fairness_gap_reason")
    if len(flows) < 2:
        for name in _OF_SEVERAL:
            del document[name]
    for name, value in document.items():
        yield name, f"{value:.3f}" if name in _OF_SEVERAL and value is not None else _shown(value)
    longest = f", longest {max(gaps):.2f} s" if gaps else ""
    yield "xoff_gaps_s", f"{len(gaps)}{longest}"
    if ledger is not None:
        yield "ledger", ", ".join(f"{name} {value}" for name, value in ledger.items())
    if len(flows) > 1:
        for flow in flows:
            yield flow["flow"], _flow(flow)
        if reason is not None:
            yield "fairness_gap_reason", reason


def _flow(flow: Document) -> str:
    rate_bps, share = flow["rate_bps"], flow["share"]
    rate = "-" if rate_bps is None else f"{rate_bps:.0f} bit/s"
    part = "" if share is None else f", {100 * share:.1f} %"
    return f"{flow['transport']} from {flow['start_s']:.1f} s, {flow['delivered_bytes']} bytes, {rate}{part}"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
