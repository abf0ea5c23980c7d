"""Output of `multitracer measure`; `run --over` runs both endpoints over a modelled link.

A progress line has the estimated end; the results are a table with a row for each size.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli import _messages
from multitracer.cli._options import FiniteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from multitracer.manifest import Measurement
    from multitracer.measure.plan import MeasurementPlan
    from multitracer.measure.run import MeasureJournal, Progress
    from multitracer.measure.transports import TransportOptions
    from multitracer.tables import Document


@dataclass(frozen=True, slots=True)
class Over:
    """The modelled link to measure over: the values of `--over` and of the options that need it."""

    over: str | None
    speed: float | None
    virtual: bool
    seed: int | None
    capture: bool
    tcp_profile: str | None
    trace: Path | None
    at_end: Literal["clear", "repeat"] | None

    @classmethod
    def taken(cls, chosen: Document) -> Over:
        """Return the link options in the options of a command, and remove them from those."""
        return cls(**{each.name: chosen.pop(each.name) for each in fields(cls)})

    def check(self, server: str | None, *, records: bool = False) -> None:
        """Raise an error if the options contradict each other.

        Parameters
        ----------
        server : str or None
            Value of --server.
        records : bool
            Whether the command can record a real network, so that --capture needs no modelled link.

        Raises
        ------
        UsageError
            If they do.
        """
        if self.over is None:
            named = ("speed", "virtual", "seed", "capture", "tcp_profile", "trace", "at_end")
            given = [
                f"--{name.replace('_', '-').replace('trace', 'errors')}"
                for name in named
                if getattr(self, name) not in (None, False) and not (records and name == "capture")
            ]
            if given:
                raise click.UsageError(f"{given[0]} can be used only with --over; add --over, or omit {given[0]}")
        elif server is not None:
            raise click.UsageError("--over starts its own server; omit --server")
        elif self.virtual and self.speed is not None:
            raise click.UsageError("--speed cannot be used with --virtual; omit one of these options")
        elif self.at_end is not None and self.trace is None:
            raise click.UsageError(
                "--at-end can be used only with --errors; name an error trace with --errors, or omit --at-end"
            )


def over_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options of a modelled link to a command; used as a decorator."""
    for option in (
        click.option(
            "--at-end", type=click.Choice(["clear", "repeat"]),
            help="After the end of the error trace: clear (no more errors) or repeat (the trace starts "
                "again). Default: clear.",
        ),
        click.option(
            "--errors", "trace", type=click.Path(dir_okay=False, path_type=Path), metavar="TRACE",
            help="With --over: destroy each frame that failed in this recorded error trace.",
        ),
        click.option(
            "--tcp-profile", type=click.Choice(["1999", "today"]),
            help="With --over: TCP profile of both hosts. Default: from the scenario.",
        ),
        click.option("--capture", is_flag=True, help="Also record packets and TCP state."),
        click.option(
            "--seed", type=click.IntRange(min=0), metavar="N",
            help="With --over: seed of the link's random numbers. Default: from the scenario.",
        ),
        click.option(
            "--virtual", is_flag=True, help="With --over: run in virtual time, with MultiTracer's own TCP."
        ),
        click.option(
            "--speed", type=FiniteRange(1, 50), metavar="N",
            help="With --over: simulated seconds per real second, 1 to 50. Default: 1.",
        ),
        click.option(
            "--over", metavar="cdpd|bluetooth|cdma2000|FILE.toml",
            help="Run client and server on this machine over this modelled link, without --server; also "
                "cdpd-palm and bluetooth-linux22, as in paper 000.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class DriveRecorder:
    """What `measure run` records itself on a real network."""

    modem: str | None
    gps: str | None
    interface: str | None
    capture: bool

    @classmethod
    def taken(cls, chosen: Document, *, capture: bool) -> DriveRecorder:
        """Return the options in the options of a command, and remove them from those."""
        return cls(chosen.pop("modem"), chosen.pop("gps"), chosen.pop("interface"), capture)

    def __bool__(self) -> bool:
        return bool(self.modem or self.gps or self.capture)

    def check(self, over: str | None, *, is_recorded: bool) -> None:
        """Raise an error if the options contradict others.

        Raises
        ------
        UsageError
            If they do.
        """
        given = [f"--{name}" for name in ("modem", "gps", "interface") if getattr(self, name)]
        if over is not None and given:
            raise click.UsageError(f"{given[0]} cannot be used with --over, which has its own modem; omit {given[0]}")
        if self.interface and not self.capture:
            raise click.UsageError("--interface can be used only with --capture; add --capture, or omit --interface")
        if is_recorded and self:
            named = [*given, "--capture"][0]
            raise click.UsageError(
                f"this measurement is already recorded by `multitracer capture`; give {named} to that command"
            )

    def collectors(self) -> list[str]:
        """Return the names of the collectors that are used."""
        ports = [name for name in ("modem", "gps") if getattr(self, name)]
        return ["host_clock", *ports, *(["tcpdump", "tcp_info"] if self.capture else [])]


def recording_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options of what a measurement records itself to a command; used as a decorator."""
    for option in (
        click.option(
            "-i", "--interface", metavar="IFACE", help="With --capture: network interface. Default: all interfaces."
        ),
        click.option(
            "--gps", metavar="PORT|HOST:PORT",
            help="Record positions meanwhile: serial port of the GPS receiver, or address of gpsd.",
        ),
        click.option("--modem", metavar="PORT", help="Record the radio meanwhile: serial port of the modem."),
    ):  # fmt: skip
        function = option(function)
    return function


def measure_recorded(recorded: DriveRecorder, plan: MeasurementPlan, folder: Path) -> int:
    """Start this command again within a recording of modem, GPS receiver and packets; return its exit status.

    The folder becomes a session: transactions.csv is the result of the command, and MOBILE has the logs. At the end
    the radio and the place of each transaction are written into transactions.csv once more, from the complete logs.
    """
    from multitracer.cli._capture import plan_of
    from multitracer.lab.rig.radio_join import join_radio
    from multitracer.manifest import private_recording
    from multitracer.measure.run import FILE, client_manifest, opened
    from multitracer.recorder.folder import SessionFolder
    from multitracer.recorder.screen import PlainView
    from multitracer.recorder.supervisor import Supervisor

    options: Document = {
        "wanted": recorded.collectors(), "modem": recorded.modem, "gps": recorded.gps,
        "interface": recorded.interface, "expression": _capture_filter(plan) if recorded.capture else None,
    }  # fmt: skip
    command = (sys.executable, "-m", "multitracer", *sys.argv[1:])
    with private_recording(folder) as umask:
        recording = plan_of({name: value for name, value in options.items() if value}, command, {}, umask=umask)
        begun = opened(plan, folder, client_manifest(folder, recording.role))
        supervisor = Supervisor(recording, SessionFolder(folder, recording, begun=begun), PlainView(_messages.warn))
        supervisor.run()
        if (folder / FILE).exists():
            join_radio(folder)
    return supervisor.status


_TCP = "tcp or udp port 9009"
"""Capture filter for TCP and sync probes."""


def _capture_filter(plan: MeasurementPlan) -> str:
    """Return the filter for the packets of a plan; those on a line are none of IP."""
    from multitracer.measure.transports import host_port, is_line

    if plan.protocol == "tcp" or is_line(plan.server):
        return _TCP
    return f"{_TCP} or udp port {host_port(plan.server)[1]}"


def measure_over(
    chosen: Over,
    plan: MeasurementPlan,
    folder: Path,
    options: TransportOptions,
    progress: Progress,
    changes: Mapping[str, object] | None = None,
) -> MeasureJournal:
    """Run the remaining transactions of a plan over a modelled link.

    `changes` are values that replace those of the link's scenario.
    """
    from multitracer.lab.channel.links import link_of
    from multitracer.lab.rig.radios import with_tcp_profile
    from multitracer.lab.scenario.library import load_scenario, read_error_trace
    from multitracer.lab.scenario.radio import realism_of, under_errors

    assert chosen.over is not None
    scenario = with_tcp_profile(load_scenario(chosen.over, changes), chosen.tcp_profile)
    if chosen.trace is not None:
        trace, at_end = read_error_trace(chosen.trace), chosen.at_end or "clear"
        scenario, radio = under_errors(scenario, trace, path=str(chosen.trace), at_end=at_end)
        _messages.note(f"radio {radio.kind}: {radio.sentence}; {radio.beyond}")
    elif (radio := realism_of(scenario.link)).lasts_ns:
        link_of(scenario.link, seed=scenario.seed)  # a link that is never up is refused without more words
        _messages.note(f"radio {radio.kind}: {radio.sentence}; {radio.beyond}")
    settings: Document = {"seed": chosen.seed, "options": options, "capture": chosen.capture, "progress": progress}
    if chosen.virtual:
        from multitracer.lab.rig.virtual import run_virtual

        return run_virtual(plan, folder, scenario, **settings)
    from multitracer.lab.rig.real import run_real
    from multitracer.lab.testbed.namespaces import InterruptedRunError

    try:
        return run_real(plan, folder, scenario, speed=chosen.speed or 1, **settings)
    except InterruptedRunError as stop:
        _messages.note(
            "The measurement was interrupted; start the same command again to continue after "
            "the last finished transaction."
        )
        raise click.exceptions.Exit(128 + stop.number) from stop


_REFRESH_S = 0.2


class MeasureProgressLine:
    """Progress of a run, with its estimated end."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._before: int | None = None
        self.done = self.dropped = self.total = 0

    def update(self, done: int, dropped: int, total: int) -> None:
        """Record the numbers of finished and of dropped transactions."""
        self._before = done if self._before is None else self._before
        self.done, self.dropped, self.total = done, dropped, total

    def words(self) -> str:
        """Return the progress as text."""
        words = f"{self.done} of {self.total} transactions, {self.dropped} dropped"
        here = self.done - (self._before or 0)
        if not here or self.done == self.total:
            return words
        left_s = (time.monotonic() - self._began_s) / here * (self.total - self.done)
        return f"{words}, expected end: {time.strftime('%a %H:%M:%S', time.localtime(time.time() + left_s))}"

    def __rich__(self) -> Table:
        """Return the progress as a table for the terminal."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=max(1, self.total), completed=self.done, width=30), self.words())
        return line


@contextlib.contextmanager
def progress_line(every_s: float = 10.0) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that shows the progress on standard error: done, dropped, total.

    On a terminal the line is updated continuously; elsewhere a line is written each `every_s` seconds.
    """
    line = MeasureProgressLine()
    if not _messages.chosen.is_live:
        yield _logged(line, every_s)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        drawn_s = 0.0

        def draw(done: int, dropped: int, total: int) -> None:
            nonlocal drawn_s
            line.update(done, dropped, total)
            if time.monotonic() - drawn_s >= _REFRESH_S:
                drawn_s = time.monotonic()
                live.update(line, refresh=True)

        yield draw


def _logged(line: MeasureProgressLine, every_s: float) -> Callable[[int, int, int], None]:
    due_s = time.monotonic() + every_s

    def log(done: int, dropped: int, total: int) -> None:
        nonlocal due_s
        line.update(done, dropped, total)
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + every_s
            _messages.progress(line.words())

    return log


SCHEMA = "multitracer.measure-run/1"


def write_json(measurement: Measurement, folder: Path, **results: Sequence[Document]) -> None:
    """Write the document that docs/schemas/measure-run.schema.json describes.

    Parameters
    ----------
    measurement : Measurement
        The plan, as the manifest has it.
    folder : Path
        The session folder.
    **results
        The results: `sizes`, `loads` or `latency`.
    """
    from multitracer.cli._output import standard_output
    from multitracer.words import portable

    plan = {
        "folder": portable(str(folder)),
        "protocol": measurement.protocol,
        "server": measurement.server and portable(measurement.server),
        "over": measurement.over and portable(measurement.over),
    }
    document = {"schema": SCHEMA, **plan, "sizes": [], "loads": [], "latency": [], **results}
    json.dump(document, standard_output(), allow_nan=False, indent=1)
    standard_output().write("\n")


def results_of(plan: MeasurementPlan, journal: MeasureJournal) -> list[Document]:
    """Return what was found for each size of each experiment; None where nothing is known."""
    numbers: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    per_experiment = [len(each.sizes) * each.sessions for each in plan.experiments]
    for each in plan.transactions():
        experiment = next(i for i, _ in enumerate(per_experiment) if each.number <= sum(per_experiment[: i + 1]))
        numbers[experiment, each.vary, each.size_bytes].append(each.number)
    return [_facts(key, of_size, journal) for key, of_size in numbers.items()]


def _facts(key: tuple[int, str, int], numbers: list[int], journal: MeasureJournal) -> Document:
    rtts_s = [journal.rtts_s[number] for number in numbers if number in journal.rtts_s]
    return {
        "experiment": key[0] + 1,
        "vary": key[1],
        "size_bytes": key[2],
        "ok": len(rtts_s),
        "dropped": sum(journal.outcomes.get(number) == "dropped" for number in numbers),
        "rtt_median_s": statistics.median(rtts_s) if rtts_s else None,
        "rtt_max_s": max(rtts_s, default=None),
    }


def show_results(results: list[Document]) -> None:
    """Write a line for each size of each experiment."""
    from multitracer.cli._output import page

    header = ("varied", "size", "ok", "dropped", "RTT median", "RTT longest")
    page().table(header, [_row(each) for each in results])


def _row(facts: Document) -> tuple[str, ...]:
    times = [facts["rtt_median_s"], facts["rtt_max_s"]]
    shown = ["-" if each is None else f"{each:.4g} s" for each in times]
    return facts["vary"], f"{facts['size_bytes']} B", str(facts["ok"]), str(facts["dropped"]), *shown
