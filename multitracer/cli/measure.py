"""`multitracer measure`: request / reply / good-bye transactions over TCP, CentaurusComm and WTCP."""

from __future__ import annotations

import contextlib
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multitracer.cli._load import NO_EFFECT_ON_LATENCY, OF_CENTAURUSCOMM, Load, load_options, refuse
from multitracer.cli._measure import DriveRecorder, Over, over_options, recording_options
from multitracer.cli._messages import warn
from multitracer.cli._options import CommandGroup, FiniteRange, common_options, examples
from multitracer.errors import InputError
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.outcome import Client
    from multitracer.measure.plan import MeasurementPlan, ProtocolName
    from multitracer.measure.transports import TransportOptions
    from multitracer.tables import Document

_EXTENSIONS = {"early-start": 1, "several-messages": 2, "path-mtu": 4}
_KEY_BYTES = 1024


def _labels(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", name):
            raise click.BadParameter(f"{text!r} must have the form KEY=VALUE, for example location=downtown")
        labels[name] = value
    return labels


def _sizes(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    if not re.fullmatch(r"\d{1,7}(,\d{1,7})*", text):
        raise click.BadParameter(f"{text!r} must be a list of sizes such as 64,128,256")
    return tuple(map(int, text.split(",")))


def _centaurus_options(function: Callable[..., object]) -> Callable[..., object]:
    for option in (
        click.option(
            "--key-file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="CentaurusComm: file with a secret that both endpoints share, 16 bytes or more. "
                "Messages that are not authenticated with this secret are dropped.",
        ),
        click.option(
            "--extension", "extensions", multiple=True, type=click.Choice(list(_EXTENSIONS)),
            help="CentaurusComm: enable this protocol feature if the other endpoint offers it too; "
                "repeatable.",
        ),
        click.option(
            "--baud", type=click.IntRange(min=50), default=115_200, show_default=True, metavar="N",
            help="Speed of the serial lines, in baud.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@click.group(
    "measure",
    cls=CommandGroup,
    epilog=examples("multitracer measure run --protocol tcp --server HOST:PORT --vary reply --sizes 64 -o DIR"),
)
@common_options
def command() -> None:
    """Measure request / reply / good-bye transactions over TCP, CentaurusComm and WTCP.

    One endpoint runs `measure serve`, the other `measure run`. docs/centauruscomm.md and docs/wtcp.md
    describe the protocols.
    """


@command.command(
    "serve",
    epilog=examples(
        "multitracer measure serve --protocol centauruscomm --listen 0.0.0.0:5100",
        "multitracer measure serve --protocol centauruscomm --listen serial:/dev/ttyUSB0",
        "multitracer measure serve --latency --listen 0.0.0.0:5100",
    ),
)
@click.option(
    "--protocol", type=click.Choice(["tcp", "centauruscomm", "wtcp"]), help="Transport protocol of the messages."
)
@click.option(
    "--latency", is_flag=True,
    help="Serve tests of latency under load (`measure run --latency`) instead: every client may fill the path.",
)  # fmt: skip
@click.option(
    "--listen", multiple=True, default=("127.0.0.1:5100",), show_default=True,
    metavar="HOST:PORT|LINE",
    help="Address to listen on; port 0 selects a free port. A line is serial:PATH, rfcomm:CHANNEL or unix:PATH; "
        "repeatable for lines.",
)  # fmt: skip
@click.option(
    "-o", "--output", "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
    help="Append the records of the server and of the clients to DIR/transactions.jsonl.",
)  # fmt: skip
@_centaurus_options
@common_options
def serve(
    protocol: ProtocolName | None, listen: tuple[str, ...], folder: Path | None, *, latency: bool, **options: Any
) -> None:
    """Answer the requests of `measure run`, until Ctrl-C or SIGTERM.

    The first line of output shows the address. Every host that can reach this address can use the server;
    the default address is reachable only from this machine. If records cannot be written, a warning says so,
    the service goes on, and the exit status at the end is 1.
    """
    from multitracer.measure.transports import latency_server, server

    if latency == (protocol is not None) or (latency and folder is not None):
        raise click.UsageError("give either --protocol NAME, or --latency, which records nothing, without -o")
    if protocol is None:
        refuse(OF_CENTAURUSCOMM, NO_EFFECT_ON_LATENCY)
        made, where = latency_server(listen)
    else:
        made, where = server(protocol, listen, folder=folder, options=_options(**options))
    click.echo(f"the {protocol or 'latency'} server listens at {where}")
    try:
        while True:
            _show_warnings(made.warnings)
            made.work(1.0)
    except KeyboardInterrupt:
        pass
    except SystemExit as stop:
        if stop.code != 128 + signal.SIGTERM:
            raise
    finally:
        made.close()
    records = made.records
    click.echo(f"the server answered {records.count} {'probes' if latency else 'transactions'}")
    if records.reason:
        raise InputError(
            f"{records.path}: {records.not_recorded} of {records.count} records were not written "
            f"({records.reason}); make space, or name another folder"
        )


def _show_warnings(warnings: list[str]) -> None:
    while warnings:
        with contextlib.suppress(OSError):  # standard error may be on the disk that is full
            warn(warnings.pop(0))


@command.command(
    "run",
    epilog=examples(
        "multitracer measure run --protocol tcp --server 192.0.2.1:5100 --vary request --sizes 64,128 -o DIR",
        "multitracer measure run --plan drive.toml --label location=downtown -o DIR",
        "multitracer measure run --protocol tcp --over cdpd --virtual --vary reply --sizes 128,4096 -o DIR",
        "sudo multitracer measure run --plan drive.toml --over bluetooth --speed 10 --capture -o DIR",
        "sudo multitracer measure run --plan drive.toml --modem /dev/ttyUSB2 --gps 127.0.0.1:2947 "
        "--capture -i wwan0 -o DIR",
        "multitracer measure run --protocol iperf3 --server 192.0.2.1:5201 --duration 30 -o DIR",
        "multitracer measure run --latency --server 192.0.2.1:5100 -o DIR",
        "multitracer measure run --latency --server 192.0.2.1:5100 --json -o DIR | jq '.latency[].responsiveness_rpm'",
    ),
)
@click.option(
    "--protocol",
    type=click.Choice(["tcp", "centauruscomm", "wtcp", "iperf3"]),
    help="Transport protocol of the messages; iperf3 is a plain load, to `iperf3 --server`.",
)
@click.option(
    "--server",
    metavar="HOST:PORT|LINE",
    help="Address at which `measure serve` listens; a line is serial:PATH, rfcomm:DEVICE/CHANNEL or unix:PATH.",
)
@click.option("--vary", type=click.Choice(["request", "reply"]), help="Message (request or reply) whose size varies.")
@click.option(
    "--sizes",
    callback=_sizes,
    metavar="N,N,…",
    help="Sizes of the message that --vary names, in bytes, each from 26 to 262144.",
)
@click.option(
    "--sessions", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
    help="Number of transactions for each size.",
)  # fmt: skip
@click.option(
    "--request-size", type=click.IntRange(min=26), default=64, show_default=True, metavar="N",
    help="Size of the request in bytes if the reply varies.",
)  # fmt: skip
@click.option(
    "--reply-size", type=click.IntRange(min=26), default=64, show_default=True, metavar="N",
    help="Size of the reply in bytes if the request varies.",
)  # fmt: skip
@click.option(
    "--connection", type=click.Choice(["per-session", "one"]), default="one", show_default=True,
    help="TCP and WTCP: one connection for each transaction, or one for all transactions. "
        "CentaurusComm has no connections.",
)  # fmt: skip
@click.option(
    "--timeout", type=FiniteRange(min=0.001, max=86_400), default=120.0, show_default=True, metavar="S",
    help="Drop a transaction if no reply arrives within this time, in seconds.",
)  # fmt: skip
@click.option(
    "--label", "labels", multiple=True, callback=_labels, metavar="KEY=VALUE",
    help="Experiment variable, such as location or mobility; repeatable.",
)  # fmt: skip
@click.option(
    "--plan", "plan_file", metavar="FILE.toml", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the measurement plan from this file instead of the options above (except --label).",
)  # fmt: skip
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Session folder: a new folder, or the folder of an interrupted run to continue.",
)  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True,
    help="Write the result as JSON; `multitracer schema measure-run` describes it.",
)  # fmt: skip
@recording_options
@load_options
@over_options
@_centaurus_options
@common_options
def run(
    folder: Path, key_file: Path | None, extensions: tuple[str, ...], baud: int, *, as_json: bool, **chosen: Any
) -> None:
    """Run transactions with a server, and write DIR/transactions.csv.

    A transaction is a request, its reply, and a good-bye that carries the client's record. The exit status
    is 0 if all transactions were run, even if some were dropped. It is 1 if the server cannot be reached, or
    if all were dropped.

    With --modem, --gps or --capture, the command also records the drive: DIR/mobile has the logs, and each
    transaction gets the radio and the place that it had. Inside `multitracer capture -o DRIVE -- …`, which records
    them anyway, name a folder in DRIVE: `-o DRIVE/tcp`.

    --protocol iperf3 runs the installed iperf3 in each direction instead, and --latency tests how much a load
    delays round trips (docs/measuring.md).

    With --over, client and server run on this machine over a modelled link: with the kernel's TCP in two
    network namespaces (Linux, as root or under `unshare -Urnm`), or in virtual time with --virtual. Each
    line of the result also has the readings of the link's modem.
    """
    from multitracer.cli._measure import (
        measure_over,
        measure_recorded,
        progress_line,
        results_of,
        show_results,
        write_json,
    )
    from multitracer.manifest import private_recording
    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.run import carry_out
    from multitracer.measure.transports import client

    load = Load.taken(chosen)
    if load.is_chosen(chosen["protocol"], chosen["server"]):
        load.measure(chosen["server"], chosen["labels"], folder, as_json=as_json)
        return
    link = Over.taken(chosen)
    link.check(chosen["server"], records=True)
    recording = RunningRecording.of_environment() if link.over is None else None
    recorded = DriveRecorder.taken(chosen, capture=link.capture and link.over is None)
    is_own = recording is not None and recording.writes(folder)
    recorded.check(link.over, is_recorded=recording is not None and not is_own)
    plan = _plan(over=link.over, **chosen)
    if recorded and not is_own:
        raise click.exceptions.Exit(measure_recorded(recorded, plan, folder))
    options = _following(_options(key_file=key_file, extensions=extensions, baud=baud), recording)

    def connect(number: int) -> Client:
        return client(plan.protocol, plan.server, run=number, timeout_s=plan.timeout_s, options=options)

    with private_recording(folder), progress_line() as progress:
        if link.over is None:
            journal = carry_out(plan, folder, connect, progress=progress, recording=recording)
        else:
            journal = measure_over(link, plan, folder, options, progress)
    results = results_of(plan, journal)
    if as_json:
        write_json(plan.measurement(), folder, sizes=results)
    else:
        show_results(results)
        click.echo(f"the session was written to {folder}")
    if journal.dropped == len(journal.outcomes):
        raise InputError(
            f"{journal.path}: all transactions were dropped ({journal.dropped} of {journal.dropped}); the column why "
            "of this file names the step that failed"
        )


@command.command(
    "plan",
    epilog=examples(
        "multitracer measure plan drive.csv --protocol tcp --vary reply --dry-run",
        "multitracer measure plan drive.csv --protocol tcp --vary reply --dry-run --json | jq -r '.order[].session'",
        "multitracer measure plan drive.toml --server fixed.example:5100 --at location=campus -o CAMPAIGN",
        "multitracer measure plan drive.toml --over cdpd --virtual -o CAMPAIGN",
    ),
)
@click.argument("table", metavar="TABLE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--protocol", type=click.Choice(["tcp", "centauruscomm", "wtcp"]), help="Transport protocol of the messages."
)
@click.option(
    "--server",
    metavar="HOST:PORT|LINE",
    help="Address at which `measure serve` listens; a line is serial:PATH, rfcomm:DEVICE/CHANNEL or unix:PATH.",
)
@click.option(
    "--vary",
    type=click.Choice(["request", "reply"]),
    help="Message (request or reply) to which the sizes of the plan apply.",
)
@click.option(
    "--sessions", type=click.IntRange(min=1), metavar="N", help="Number of transactions for each tuple. Default: 100."
)
@click.option(
    "--repetitions", type=click.IntRange(min=1), metavar="N",
    help="Number of measurements of each tuple. Default: 1.",
)  # fmt: skip
@click.option(
    "--at", "levels", multiple=True, callback=_labels, metavar="VARIABLE=LEVEL",
    help="Present level of a variable; measure only the tuples with this level. Repeatable.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the order of the tuples without measuring.")
@click.option(
    "--json", "as_json", is_flag=True,
    help="Write the order, and what is measured and what remains, as JSON; `multitracer schema measure-plan` "
        "describes it.",
)  # fmt: skip
@click.option(
    "-o", "--output", "folder", metavar="CAMPAIGN", type=click.Path(file_okay=False, path_type=Path),
    help="Campaign folder: a new folder, or the campaign of this plan to continue.",
)  # fmt: skip
@over_options
@_centaurus_options
@common_options
def plan(
    table: Path, folder: Path | None, levels: dict[str, str], *, dry_run: bool, as_json: bool, **chosen: object
) -> None:
    """Measure all combinations of variables in random order, and write the results to a campaign.

    TABLE is a CSV or TOML file with the variables and their levels (docs/measuring.md). In CSV, each column is a
    variable, with its name in the first line and its levels below. A tuple is one combination of levels. Each tuple
    becomes a session, whose labels are these levels. The program sets protocol, vary, size, sessions, connection,
    timeout_s, over, tcp_profile, and keys such as link.cell.busy_percent. You set all other variables by hand, for
    example by moving to another location, and give the present level with --at.

    Each repetition is a block that has every tuple once. The same command continues an interrupted plan.
    --seed is the random seed of the order and of the link (default: 1).
    """
    from multitracer.cli._plan import PlanRun, is_modelled
    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.variables import parse_product
    from parsers._stream import small_text

    link, options = Over.taken(chosen), _taken_options(chosen)
    stated = chosen | {"over": link.over, "seed": link.seed, "tcp_profile": link.tcp_profile}
    product = parse_product(small_text(table), path=str(table), more=stated)
    server = None if chosen["server"] is None else str(chosen["server"])
    replace(link, over="" if is_modelled(product) else None, seed=None).check(server)
    recording = None if is_modelled(product) else RunningRecording.of_environment()
    planned = PlanRun(product, folder or Path(), link, levels, _following(options, recording), recording)
    if dry_run:
        (planned.write_json if as_json else planned.show_order)()
        return
    if folder is None:
        raise click.UsageError("no output folder was given; add -o CAMPAIGN, or --dry-run")
    planned.check()
    if failures := planned.measure(as_json=as_json):
        raise InputError(f"{count(len(failures), 'tuple')} could not be measured; the first is {failures[0]}")


def _plan(over: str | None, plan_file: Path | None, labels: dict[str, str], **chosen: Any) -> MeasurementPlan:
    from multitracer.measure.plan import Experiment, MeasurementPlan, parse_plan

    if plan_file is not None:
        text = plan_file.read_bytes().decode("utf-8", "replace")
        plan = parse_plan(text, path=str(plan_file), server="" if over else chosen["server"])
        return replace(plan, labels=plan.labels | labels, over=over)
    needed = ("protocol", "vary", "sizes") if over else ("protocol", "server", "vary", "sizes")
    missing = [f"--{name}" for name in needed if not chosen[name]]
    if missing:
        raise click.UsageError(f"the measurement is incomplete; give {' and '.join(missing)}, or --plan FILE.toml")
    other = chosen["reply_size" if chosen["vary"] == "request" else "request_size"]
    experiment = Experiment(chosen["vary"], chosen["sizes"], chosen["sessions"], other, chosen["connection"])
    server = "" if over else chosen["server"]
    return MeasurementPlan(chosen["protocol"], server, (experiment,), chosen["timeout"], labels, over)


def _following(options: TransportOptions, recording: RunningRecording | None) -> TransportOptions:
    """Return the options of a client whose good-byes say what modem and GPS receiver of the recording read."""
    from multitracer.measure.live_logs import LiveLogs

    return options if recording is None else replace(options, context_of=LiveLogs(recording.host).since)


def _taken_options(chosen: Document) -> TransportOptions:
    return _options(**{name: chosen.pop(name) for name in ("key_file", "extensions", "baud")})


def _options(*, key_file: Path | None, extensions: tuple[str, ...], baud: int) -> TransportOptions:
    from multitracer.measure.transports import TransportOptions
    from multitracer.protocols.centaurus.messages import Extension

    key = None
    if key_file is not None:
        with key_file.open("rb") as stream:
            key = stream.read(_KEY_BYTES).strip()
        if len(key) < 16:
            raise InputError(f"{key_file}: the secret must have at least 16 bytes; write a longer secret")
    return TransportOptions(Extension(sum({_EXTENSIONS[name] for name in extensions})), key, baud)
