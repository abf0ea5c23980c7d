"""`measure run --protocol iperf3` and `measure run --latency`: tests that load the path, and what they print."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from multitracer.cli import _messages
from multitracer.units import NS_PER_S
from multitracer.words import duration, rate, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from multitracer.manifest import Manifest
    from multitracer.measure.iperf3 import Direction, LoadPlan
    from multitracer.measure.latency import LatencyPlan
    from multitracer.tables import Document, Table

OF_CENTAURUSCOMM = ("key_file", "extensions", "baud")
NO_EFFECT_ON_LATENCY = "has no effect on a test of latency; omit it"
_OF_TRANSACTIONS = (
    "vary", "sizes", "sessions", "request_size", "reply_size", "connection", "timeout", "plan_file",
    *OF_CENTAURUSCOMM, "over", "speed", "virtual", "seed", "tcp_profile", "trace", "at_end",
)  # fmt: skip
"""Options of `measure run` that only transactions have."""
_OF_DRIVES = ("modem", "gps", "interface", "capture")
_OF_LOADS = ("duration", "direction", "udp_bps")
_BITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_UPWARD: dict[Direction, str] = {"up": "upload", "down": "download"}
_UNKNOWN = "-"


def _bit_rate(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        bits = round(float(number) * _BITS[unit])
    except (ValueError, KeyError, OverflowError):
        bits = 0
    if not 0 < bits <= 10**12:
        raise click.BadParameter(f"{text!r} is not a rate; write bits per second such as 500K or 5M")
    return bits


def load_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options of tests that load the path to a command; used as a decorator."""
    for option in (
        click.option(
            "--udp", "udp_bps", metavar="RATE", callback=_bit_rate,
            help="iperf3: send UDP at this rate, in bit/s (500K, 5M), and count loss and jitter. Default: TCP.",
        ),
        click.option(
            "--direction", type=click.Choice(["up", "down", "both"]), default="both", show_default=True,
            help="iperf3 and --latency: load the path from here, from the server, or one after the other.",
        ),
        click.option(
            "--duration", type=click.IntRange(1, 86_400), metavar="S",
            help="iperf3 and --latency: seconds for each direction; --latency takes at most 110, and ends sooner "
                "where the result is stable. Default: 10, with --latency 20.",
        ),
        click.option(
            "--latency", is_flag=True,
            help="Measure round trips on the idle and on the loaded path, and the responsiveness, with "
                "`measure serve --latency`.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Load:
    """The values of the options of tests that load the path."""

    latency: bool
    duration: int | None
    direction: Literal["up", "down", "both"]
    udp_bps: int | None

    @classmethod
    def taken(cls, chosen: Document) -> Load:
        """Return these options of a command, and remove them from the others."""
        return cls(**{name: chosen.pop(name) for name in ("latency", *_OF_LOADS)})

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions to load, in their order."""
        return ("up", "down") if self.direction == "both" else (self.direction,)

    def is_chosen(self, protocol: str | None, server: str | None) -> bool:
        """Return whether such a test is asked for, and check the options of both kinds of measurement.

        Raises
        ------
        UsageError
            If an option of the other kind is given, or the server is missing.
        """
        is_load = protocol == "iperf3"
        if not is_load and not self.latency:
            refuse(_OF_LOADS, "needs --protocol iperf3 or --latency")
            return False
        if is_load and self.latency:
            raise click.UsageError("--latency has a server of its own; omit --protocol iperf3")
        if protocol not in (None, "iperf3"):
            raise click.UsageError(f"--latency does no transactions; omit --protocol {protocol}")
        refuse(_OF_TRANSACTIONS, "has no effect on iperf3; omit it" if is_load else NO_EFFECT_ON_LATENCY)
        refuse(
            _OF_DRIVES, "records transactions; `multitracer capture -o DIR -- multitracer measure run …` records a load"
        )
        if self.latency and self.udp_bps is not None:
            raise click.UsageError("--udp needs --protocol iperf3; a test of latency loads the path with TCP")
        if self.latency:
            _check_duration(self.duration)
        if server is None:
            raise click.UsageError("no server was given; add --server HOST:PORT")
        return True

    def measure(self, server: str, labels: dict[str, str], folder: Path, *, as_json: bool) -> None:
        """Do the tests that the folder does not have yet, and write what they found."""
        from multitracer.cli._measure import write_json
        from multitracer.manifest import private_recording

        with private_recording(folder):
            plan, facts = (_measured_latency if self.latency else _measured_load)(self, server, labels, folder)
        if as_json:
            write_json(plan.measurement(), folder, **{"latency" if self.latency else "loads": facts})
        else:
            _show(facts, is_latency=self.latency)
            click.echo(f"the session was written to {folder}")


def _check_duration(duration_s: int | None) -> None:
    from multitracer.measure.latency import MAX_DURATION_S

    if duration_s is not None and duration_s > MAX_DURATION_S:
        raise click.UsageError(
            f"--duration must be at most {MAX_DURATION_S} with --latency, because the server ends a longer test; most "
            "are stable after 20 s"
        )


def refuse(names: Iterable[str], why: str) -> None:
    """Raise an error that names the first of these options that the user gave, and why it may not be given.

    Raises
    ------
    UsageError
        If one was given.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}")


def _opened(plan: LoadPlan | LatencyPlan, folder: Path) -> Manifest:
    """Return the manifest of the folder, which names the recording during which the test runs."""
    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.run import client_manifest, opened

    return opened(plan, folder, client_manifest(folder, recording=RunningRecording.of_environment()))


def _measured_load(load: Load, server: str, labels: dict[str, str], folder: Path) -> tuple[LoadPlan, list[Document]]:
    from multitracer.measure.iperf3 import DURATION_S, LoadPlan, log_name, run_load
    from multitracer.measure.run import note_files

    plan = LoadPlan(server, load.duration or DURATION_S, load.directions, load.udp_bps, labels)
    manifest = _opened(plan, folder)
    for direction in run_load(plan, folder):
        _tell(f"{_UPWARD[direction]} for {plan.duration_s} s")
    names = [log_name(direction) for direction in plan.directions]
    note_files(manifest, folder, names)
    return plan, [_load_facts(direction, folder / log_name(direction)) for direction in plan.directions]


def _tell(sentence: str) -> None:
    """Tell on a terminal what happens now; elsewhere only --verbose and --log do."""
    (_messages.note if _messages.chosen.is_live else _messages.detail)(sentence)


def _show(facts: Sequence[Document], *, is_latency: bool) -> None:
    from multitracer.cli._output import page

    if is_latency:
        header = ("path", "rate", "RTT median", "RTT 95 %", "responsiveness", "confidence", "connections")
    else:
        header = ("direction", "rate", "sent", "sent again", "lost", "jitter", "RTT median")
    page().table(header, [(_latency_row if is_latency else _load_row)(each) for each in facts])


def _load_facts(direction: Direction, path: Path) -> Document:
    """Return what iperf3 says of a direction; what its version does not say is None."""
    from parsers.iperf3 import parse

    with path.open("rb") as stream:
        tables = parse(stream, path=str(path))
    sums, rates = tables["application_sums"], tables["application_rate"]
    rtts_s = [row["rtt_s"] for row in rates.rows() if row["rtt_s"] is not None]
    jitters_s = [row["jitter_s"] for row in sums.rows() if row["jitter_s"] is not None]
    return {
        "direction": direction,
        "log": path.name,
        "received_bps": _total(sums, "rate_bps", "receiver"),
        "sent_bps": _total(sums, "rate_bps", "sender"),
        "retransmitted_segments": _total(sums, "retransmitted_segments", "sender"),
        "packets": _total(sums, "packets", "receiver"),
        "lost_packets": _total(sums, "lost_packets", "receiver"),
        "jitter_s": max(jitters_s, default=None),
        "rtt_median_s": statistics.median(rtts_s) if rtts_s else None,
    }


def _load_row(facts: Document) -> tuple[str, ...]:
    lost, packets, again = facts["lost_packets"], facts["packets"], facts["retransmitted_segments"]
    return (
        _UPWARD[facts["direction"]],
        _rate(facts["received_bps"]),
        _rate(facts["sent_bps"]),
        _UNKNOWN if again is None else f"{again:,.0f}",
        share(lost, packets) if lost is not None and packets else _UNKNOWN,
        _time(facts["jitter_s"]),
        _time(facts["rtt_median_s"]),
    )


def _rate(rate_bps: float | None) -> str:
    return _UNKNOWN if rate_bps is None else rate(rate_bps)


def _time(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else duration(seconds * NS_PER_S)


def _total(sums: Table, name: str, reporter: str) -> float | None:
    """Return the sum of a column over the streams; None if a stream has no value, or the sum is beyond numbers."""
    values = [row[name] for row in sums.rows() if row["reporter"] == reporter]
    total = sum(values) if values and None not in values else None
    return total if total is None or math.isfinite(total) else None


def _measured_latency(
    load: Load, server: str, labels: dict[str, str], folder: Path
) -> tuple[LatencyPlan, list[Document]]:
    from multitracer.measure.latency import DURATION_S, LOG, LatencyPlan, run_latency
    from multitracer.measure.run import note_files

    plan = LatencyPlan(server, load.duration or DURATION_S, load.directions, labels)
    manifest = _opened(plan, folder)
    facts = []
    for result in run_latency(plan, folder):
        facts.append(asdict(result))
        _tell(f"{_path_of(facts[-1])}: RTT {_time(result.rtt_s)}")
    note_files(manifest, folder, [LOG])
    return plan, facts


def _path_of(facts: Document) -> str:
    return "idle" if facts["phase"] == "idle" else _UPWARD[facts["phase"]]


def _latency_row(facts: Document) -> tuple[str, ...]:
    from multitracer.measure.responsiveness import class_of

    rpm = facts["responsiveness_rpm"]
    return (
        _path_of(facts),
        _rate(facts["goodput_bps"]),
        _time(facts["rtt_s"]),
        _time(facts["rtt_p95_s"]),
        _UNKNOWN if rpm is None else f"{rpm:,.0f} RPM ({class_of(rpm)})",
        facts["confidence"] or _UNKNOWN,
        str(facts["connections"] or _UNKNOWN),
    )
