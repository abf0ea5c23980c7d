"""Output of commands of the lab: a ray-traced radio, and several transports over one radio."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.analysis.comparison.difference import MIN_PAIRS, share, spread
from multitracer.cli._progress import ProgressText
from multitracer.errors import InputError
from multitracer.lab.simulator.comparison import MEASURES
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    import pandas as pd
    import plotly.graph_objects as go

    from multitracer.analysis.comparison.difference import Share, Spread
    from multitracer.cli._output import Page
    from multitracer.cli._reading import InputChoice
    from multitracer.figures.palette import ThemeName
    from multitracer.figures.power_figure import PowerTransfer
    from multitracer.lab.rig.radios import RigRadio
    from multitracer.lab.scenario.radio import ReceivedPower
    from multitracer.lab.simulator.comparison import TableCell, TransportResults
    from multitracer.tables import Array


def channel_facts(received: ReceivedPower) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line that `testbed channel` prints."""
    power_dbm, step_ns = received.channel.power_dbm, received.channel.step_ns
    yield "received power", f"{power_dbm.min():.1f} to {power_dbm.max():.1f} dBm"
    yield "steps", f"{len(power_dbm):,} of {step_ns / 1e6:g} ms"
    fades = received.fades
    if fades is None:
        return
    yield "threshold", f"{received.threshold_dbm:g} dBm"
    yield "link down (T_d)", f"{100 * fades.down_share:.1f} %"
    yield "fades (N_f)", str(fades.number)
    yield "mean fade (T_f)", "-" if fades.mean_s is None else f"{fades.mean_s:.3f} s"


def plot_channel(reading: InputChoice, target: str, theme: ThemeName) -> None:
    """Write the figure of a radio to a file: of a scenario, a file of `testbed channel`, or a run.

    Print its path.
    """
    from multitracer.cli._output import check_output, replacing
    from multitracer.cli._plotting import write

    if len(reading.inputs) != 1:
        raise click.UsageError(
            "--figure channel draws only one input; name one scenario, one file or one session folder"
        )
    (name,) = reading.inputs
    check_output(target, [name])
    title, figure = _figure(name, theme)
    with replacing(target) as temporary:
        write(figure, temporary, title=title, theme=theme, as_json=target.endswith(".json"))
    click.echo(target)


def _figure(name: str, theme: ThemeName) -> tuple[str, go.Figure]:
    from multitracer.figures.power_figure import power_figure
    from multitracer.lab.scenario.radio import power_of, read_power

    transfer = None
    if Path(name).is_dir():
        received, transfer = _session(Path(name))
    else:
        received = read_power(Path(name)) if name.endswith((".csv", ".tcl")) else power_of(name)
    channel = received.channel
    figure = power_figure(
        received.name,
        channel.time_ns,
        channel.power_dbm,
        threshold_dbm=received.threshold_dbm,
        transfer=transfer,
        theme=theme,
    )
    return received.name, figure


def _session(folder: Path) -> tuple[ReceivedPower, PowerTransfer]:
    """Return the radio of a run in virtual time, and its transfer with times since the start of the radio."""
    from multitracer.api.session import open as open_session
    from multitracer.lab.scenario.library import load_scenario
    from multitracer.lab.scenario.radio import power_of, repeated
    from multitracer.lab.scenario.session_folder import run_ns
    from multitracer.manifest import read_manifest

    manifest, scenario = read_manifest(folder), folder / "scenario.toml"
    if manifest is None or manifest.created_ns is None or not manifest.variables.virtual or not scenario.is_file():
        raise InputError(
            f"{folder}: this folder is not a session of a run in virtual time; name a session of "
            "`testbed run --virtual`, a scenario, or a file of `testbed channel`"
        )
    received = repeated(power_of(str(scenario), seed=manifest.variables.seed), run_ns(folder))
    series = open_session(str(folder)).series()
    packet_bytes = load_scenario(str(scenario)).payload_bytes
    return received._replace(name=manifest.name), _transfer(series, manifest.created_ns, packet_bytes)


def _transfer(series: dict[str, pd.DataFrame], origin_ns: int, packet_bytes: int) -> PowerTransfer:
    import numpy as np

    from multitracer.figures.power_figure import PowerTransfer

    def columns(label: str) -> tuple[Array, Array]:
        frame = series.get(label)
        if frame is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        time_ns = frame["time_ns"].to_numpy(dtype="datetime64[ns]").astype(np.int64)
        return time_ns - origin_ns, frame["value"].to_numpy(dtype=np.int64)

    sent, arrived, window = map(columns, ("TcpSnd_data", "TcpRcv_data", "TcpSnd_cwnd"))
    return PowerTransfer(*sent, *arrived, *window, packet_bytes)


_KILO = 1_000


@contextlib.contextmanager
def counted(total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how many of `total` runs are finished."""
    with ProgressText() as line:
        yield lambda done: line.tell(lambda: f"{done} of {total} runs are complete")


def show(sheet: Page, radio: RigRadio, compared: Sequence[TransportResults]) -> None:
    """Print the table of results, and a note on the realism of the radio."""
    scenario, first = radio.scenario, compared[0]
    runs = len(first.outcomes)
    sheet.line(f"{scenario.name}: {count(runs, 'run')} per transport, in virtual time")
    sheet.line(f"radio {radio.realism.kind}: {radio.realism.sentence}")
    if radio.trace_s:
        sheet.line(
            f"the trace lasts {radio.trace_s:.1f} s and is repeated; each run begins at a different time in the trace"
        )
    header = ("transport", "goodput, kbit/s", f"of {first.transport}'s", "retransmitted", "timeouts")
    rows = [_row(each, first) for each in compared]
    sheet.table((*header, "longest RTT, s", "longest gap, s"), rows, right=range(1, 7), dispensable=(6, 4))
    sheet.line("cells: median of the runs (minimum to maximum); share: ratio of the mean goodputs of all runs")
    if len(compared) > 1:
        sheet.line(_certainty(runs))


def _certainty(runs: int) -> str:
    """Return a text that explains the interval of a share, or the reason why there is none."""
    if runs < MIN_PAIRS:
        return (
            f"{count(runs, 'run')} are too few for a confidence interval of the share: use --runs {MIN_PAIRS} or more"
        )
    return "(in parentheses: the 95 % confidence interval of the share, from pairs of runs with the same radio)"


def _row(each: TransportResults, first: TransportResults) -> tuple[str, ...]:
    goodput, again, timeouts, rtt, hole = (spread(each.values(measure)) for measure in MEASURES)
    return (
        each.transport,
        shown(goodput, 1, scale=1 / _KILO),
        "100 %" if each is first else shown_share(share(each.values(MEASURES[0]), first.values(MEASURES[0]))),
        shown(again, 1),
        shown(timeouts, 1),
        shown(rtt, 2),
        shown(hole, 2),
    )


def shown(of: Spread, digits: int, *, scale: float = 1) -> str:
    """Return the median as text, followed by the range if the values differ: `142.0 (118.3 to 165.1)`."""
    if of.median is None or of.minimum is None or of.most is None:
        return "-"
    median, minimum, most = (f"{value * scale:.{digits}f}" for value in (of.median, of.minimum, of.most))
    return median if minimum == most else f"{median} ({minimum} to {most})"


def shown_share(of: Share) -> str:
    """Return a ratio as text with its confidence interval: `146 % (115 to 190 %)`."""
    if of.value is None:
        return "-"
    ends = "" if of.low is None or of.high is None else f" ({of.low * 100:.0f} to {of.high * 100:.0f} %)"
    return f"{of.value * 100:.0f} %{ends}"


def write_csv(stream: TextIO, compared: Sequence[TransportResults]) -> None:
    """Write a CSV line for each run; a missing number is an empty cell."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("transport", "seed", *MEASURES))
    writer.writerows(_lines(compared))


def _lines(compared: Sequence[TransportResults]) -> Iterator[tuple[object, ...]]:
    for each in compared:
        for outcome in each.outcomes:
            numbers = (getattr(outcome, measure) for measure in MEASURES)
            rounded = (round(n, 6) if isinstance(n, float) else n for n in numbers)
            yield (each.transport, outcome.seed, *("" if n is None else n for n in rounded))


# A table of a paper: rows are quantities, columns are scenarios, as paper 002 prints its Table I.


def show_table(sheet: Page, cells: Sequence[TableCell]) -> None:
    """Print a table of a paper: in each cell our value, and in parentheses the paper's."""
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    by_place = {(cell.quantity, cell.scenario): cell for cell in cells}
    quantities = list(dict.fromkeys(cell.quantity for cell in cells))
    rows = [(quantity, *(_cell(by_place[quantity, scenario]) for scenario in scenarios)) for quantity in quantities]
    sheet.table(("", *scenarios), rows, right=range(1, 1 + len(scenarios)))
    sheet.line("in parentheses: the value of the paper")


def _cell(cell: TableCell) -> str:
    value = "-" if cell.value is None else f"{cell.value:.{_DIGITS.get(cell.quantity, 0)}f}"
    return value if cell.paper is None else f"{value} ({cell.paper:g})"


_DIGITS = {"T_d, %": 1, "T_f, s": 2}
"""Decimals of a quantity; the others have none."""


def write_cells(stream: TextIO, cells: Sequence[TableCell]) -> None:
    """Write a CSV line for each cell; a missing number is an empty cell."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("scenario", "quantity", "value", "paper"))
    for cell in cells:
        numbers = ("" if number is None else f"{number:.6g}" for number in (cell.value, cell.paper))
        writer.writerow((cell.scenario, cell.quantity, *numbers))
