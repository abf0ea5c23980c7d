"""`multitracer testbed`: run a scenario over a modelled link, and list those that come with MultiTracer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import debug_option, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.scenario import Scenario
    from multitracer.scenario.summary import Summary
    from multitracer.tables import Document


@click.group("testbed", epilog=examples("multitracer testbed run clean-bulk --virtual -o DIR"))
@debug_option
def command() -> None:
    """Run TCP over a modelled GSM data call, CDPD or Bluetooth, and record it at every layer.

    A scenario says what happens: the hosts' TCP, the link and its radio, the traffic, fades and resets.
    """


@command.command("list", epilog=examples("multitracer testbed list"))
@debug_option
def list_scenarios() -> None:
    """List the bundled scenarios."""
    from multitracer.cli._page import page
    from multitracer.scenario import bundled_names, load_scenario

    scenarios = [load_scenario(name) for name in bundled_names()]
    rows = [(s.name, s.figure, s.title) for s in scenarios]
    page().table(("scenario", "figure", "what happens"), rows)


@command.command("doctor", epilog=examples("multitracer testbed doctor"))
@debug_option
def doctor() -> None:
    """Say in which of three tiers this machine runs a scenario in real time, and what would help.

    root: everything is recorded. userns: in a user namespace, without what the kernel keeps for root.
    plain: virtual time only. Everything is tried out; the exit status is 0 in each.
    """
    from multitracer.cli._page import page
    from multitracer.testbed.doctor import examine

    system = examine()
    sheet = page()
    sheet.line(f"Tier: {system.tier}", bold=True)
    tiers = [(t.tier, "yes" if t.offered else "no", t.how, t.lost) for t in system.tiers]
    sheet.table(("tier", "here", "how, or why not", "what is lost"), tiers)
    sheet.line()
    abilities = [(f.name, "ok" if f.works else "absent", f.purpose) for f in system.checks]
    sheet.table(("what", "", "for"), abilities)
    for check in system.checks:
        if not check.works:
            sheet.line(f"{check.name}: {check.message}; {check.without}")
    sheet.line(f"What would help: {system.advice or 'nothing is missing'}")


@command.command(
    "run",
    epilog=examples(
        "multitracer testbed run fig5-typical --virtual -o typical",
        "sudo multitracer testbed run fig5-typical --speed 10 -o typical",
        "multitracer testbed run my.toml --virtual --seed 7 -o run7",
        "multitracer testbed run fig4-slow-start --virtual --as-linux -o as_linux",
        "multitracer testbed run wtcp-fig3b --virtual --transport vegas -o vegas",
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
    help="Session folder to write; it must be new or empty.",
)
@click.option(
    "--virtual", is_flag=True, help="In virtual time, with MultiTracer's own TCP: minutes in a second."
)
@click.option(
    "--as-linux",
    is_flag=True,
    help="In virtual time, let TCP behave as Linux does, for a comparison with a real run.",
)
@click.option(
    "--speed",
    type=click.FloatRange(1, 50),
    metavar="N",
    help="Link seconds that pass in a second of a real run, 1 to 50. Default: 1.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Seed of the radio's random numbers; in virtual time it determines every byte. Default: scenario's.",
)
@click.option(
    "--transport",
    metavar="NAME",
    help="With --virtual: transport of every traffic, such as newreno, vegas, wtcp. Default: scenario's.",
)
@click.option(
    "--errors",
    "trace",
    metavar="TRACE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Let the radio destroy the frames of a recorded error trace instead of the scenario's.",
)
@debug_option
def run_scenario(  # noqa: PLR0913, PLR0917  # one for each option
    scenario: str,
    folder: Path,
    virtual: bool,
    as_linux: bool,
    speed: float | None,
    seed: int | None,
    transport: str | None,
    trace: Path | None,
) -> None:
    """Run a scenario and write a session folder.

    NAME is a bundled scenario (`multitracer testbed list`), FILE.toml your own. The folder holds the logs
    of both hosts, summary.json with the numbers, and truth/ with what really happened to each segment
    and frame.

    Without --virtual, two network namespaces of this machine are the hosts, and their kernel's TCP runs over
    the modelled link (Linux, as root or under `unshare -Urnm`).
    """
    from multitracer.cli._output import check_output
    from multitracer.cli._page import page
    from multitracer.scenario import load_scenario

    check_output(str(folder), [])
    if virtual and speed is not None:
        raise click.UsageError("--speed is for runs in real time; with --virtual leave it out")
    if as_linux and not virtual:
        raise click.UsageError("--as-linux is for --virtual; a real run is Linux")
    if transport is not None and not virtual:
        raise click.UsageError("--transport is for --virtual; a real run has the kernel's TCP")
    chosen = load_scenario(scenario)
    chosen.check_traffic()
    if transport is not None:
        chosen = chosen.with_transport(transport)
    if as_linux:
        chosen = chosen.as_linux()
    if trace is not None:
        chosen = _under_recorded_radio(chosen, trace)
    summary = (
        _in_virtual_time(chosen, folder, seed) if virtual else _in_real_time(chosen, folder, seed, speed)
    )
    sheet = page()
    sheet.line(f"{chosen.name}: {chosen.title}")
    sheet.facts(_facts(summary))
    sheet.line(f"written to {folder}")


def _in_virtual_time(scenario: Scenario, folder: Path, seed: int | None) -> Summary:
    from multitracer.simulator.record import record_virtual

    return record_virtual(scenario, folder, seed=seed)


def _in_real_time(scenario: Scenario, folder: Path, seed: int | None, speed: float | None) -> Summary:
    from multitracer.cli._progress import progress_of
    from multitracer.testbed.interruption import InterruptedRunError
    from multitracer.testbed.run import run_real

    try:
        with progress_of("running", scenario.traffic[0].bytes) as progress:
            return run_real(scenario, folder, seed=seed, speed=speed or 1, progress=progress)
    except InterruptedRunError as stop:
        click.echo(f"interrupted; what was recorded until then is in {folder}", err=True)
        raise click.exceptions.Exit(128 + stop.number) from stop


def _under_recorded_radio(scenario: Scenario, path: Path) -> Scenario:
    from dataclasses import replace

    from multitracer.channel.shared.frame_errors import ErrorConfig
    from multitracer.scenario import read_error_trace

    trace = read_error_trace(path)
    up, down = (
        ErrorConfig(kind="replay", replayed=runs, replayed_slot_ns=trace.slot_ns)
        for runs in (trace.up, trace.down)
    )
    return replace(scenario, link=replace(scenario.gsm, up=up, down=down))


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    document = summary.document()
    gaps = document.pop("xoff_gaps_s")
    ledger = document.pop("ledger")
    flows, reason = document.pop("flows"), document.pop("fairness_gap_reason")
    if len(flows) < 2:
        del document["jain_index"], document["fairness_gap"]
    for name, value in document.items():
        yield name, _shown(value)
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
    part = "" if share is None else f", {share:.1%}"
    return f"{flow['transport']} from {flow['start_s']:.1f} s, {flow['delivered_bytes']} bytes, {rate}{part}"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
