"""`multitracer plot`: the figure of one connection."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import click

from multitracer.cli import _options
from multitracer.cli._options import Wish, examples, named_page, pool_option
from multitracer.cli._reading import InputChoice, reads_captures

Theme = Literal["light", "dark"]
_KINDS = (
    "rtt-size", "cdf", "environment", "panels", "efficiency", "utilization", "handovers", "delivered", "rates",
    "channel",
)  # fmt: skip


@click.command(
    "plot",
    epilog=examples(
        "multitracer plot capture.pcap",
        "multitracer plot --connection 10.0.0.1:80 --from 10 --to 20 -o zoom.html capture.pcap",
        "multitracer plot -o stacked.html sample_traces/cellular_upload",
        "multitracer plot --series 'RlpSnd_*,TcpSnd_data' --trend RlpSnd_data=10:60 call/",
        "multitracer plot --mark 'Fig. 11=0:10' --offset 20000 -o marked.html call/",
        "multitracer plot --time-sequence -o figure.json sample_traces/cellular_upload",
        "multitracer plot --series 'Radio_*,Gps_speed' -o radio.html sample_traces/rehearsal",
        "multitracer plot --axis distance --series 'Radio_*' -o route.html sample_traces/rehearsal",
        "multitracer plot --figure rtt-size -o rtt.html cdpd-tcp/ cdpd-cc/",
        "multitracer plot --figure handovers -o handovers.html sample_traces/rehearsed-drive",
        "multitracer plot --figure environment --size 1024 cdpd-tcp/",
        "multitracer plot --figure efficiency -o efficiency.html drive/",
        "multitracer plot --figure utilization -o utilization.html sample_traces/download sample_traces/fig8-resets-vj",
        "multitracer plot --figure delivered -o delivered.html over-wtcp/ over-newreno/ over-vegas/",
        "multitracer plot --figure rates --window 5 cell/",
        "multitracer plot --figure channel -o power.html ray-1",
    ),
)
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="PATH",
    help="File to write: .html, or .json for plotly. Default: the name of the input with .html, in the current folder.",
)
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse"]),
    help="Draw the data from the initiator (forward) or from the responder (reverse). Default: the "
    "direction with more data.",
)
@click.option(
    "--stacked/--time-sequence",
    "stack",
    default=None,
    help="Also draw the receiver's capture, the sender's TCP variables and phases. Default: yes if they were recorded.",
)
@click.option(
    "--series",
    multiple=True,
    metavar="PATTERN,...",
    help="Draw only the series whose labels match one of these patterns, such as 'RlpSnd_*,TcpSnd_data'; repeatable.",
)
@click.option(
    "--offset",
    "offset_bytes",
    type=click.IntRange(0, 1 << 40),
    metavar="BYTES",
    help="Vertical distance in bytes between the curves of link, sender and receiver.  [default: 10000]",
)
@click.option(
    "--trend",
    "trends",
    multiple=True,
    type=_options.trend,
    metavar="LABEL[=FROM:TO]",
    help="Fit a line to a series (or to the part of the series in this interval), and print the "
    "slope of the line. Repeatable.",
)
@click.option(
    "--mark",
    "marks",
    multiple=True,
    type=_options.mark,
    metavar="[NAME=]FROM:TO",
    help="Draw a labelled rectangle around this time interval; repeatable.",
)
@click.option(
    "--axis",
    type=click.Choice(["time", "distance"]),
    default="time",
    show_default=True,
    help="Quantity of the horizontal axis: time, or the distance along the recorded route.",
)
@click.option(
    "--figure",
    "kind",
    type=click.Choice(_KINDS),
    help="Kind of figure. For transactions of `measure run` (one folder or several): rtt-size (RTT "
    "against size), cdf (distribution of the RTT), environment (radio conditions, overlaid) and "
    "panels (radio conditions, in panels). For any sessions: efficiency (of each transaction, or else "
    "of each transfer of TCP, with RTT and radio in bands) and utilization (how well transfers used "
    "their link). For a drive: handovers (throughput, or the series of --series, around handovers). "
    "For flows of TCP and WTCP (one recording or several): delivered (packets) and rates. For a "
    "scenario with a ray-traced radio, a file of `testbed channel`, or a run over such a radio: "
    "channel (received power).",
)
@click.option(
    "--size",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="For environment, panels and efficiency: message size to show, in bytes.",
)
@click.option(
    "--window",
    "window_s",
    type=_options.length_s,
    metavar="SECONDS",
    help="For rates: averaging interval in seconds.  [default: 1/50 of the recording, rounded up]",
)
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@pool_option
@reads_captures
def command(
    reading: InputChoice,
    *,
    output: str | None,
    direction: Literal["forward", "reverse"] | None,
    theme: Theme,
    stack: bool | None,
    **wishes: Any,
) -> None:
    """Draw one connection: time/sequence graph, with windows, RTT and throughput below.

    The default is the connection with the most unique bytes. For a session folder, the figure is stacked: it also shows
    the receiver's capture, the sender's TCP variables and the data link. The command prints the slopes of --trend, then
    the path of the file. For folders with transactions and no capture, the figure shows RTT against message size. For
    other logs without a capture, the figure shows the radio and the route.
    """
    from multitracer.cli._output import output_name

    kind, size, pool, axis, window_s = map(wishes.pop, ("kind", "size", "pool", "axis", "window_s"))
    wish = Wish(**wishes, distance=axis == "distance")
    if stack is False and wish != Wish():
        raise click.UsageError(
            "--series, --offset, --trend, --mark and --axis can be used only with the stacked "
            "figure; add --stacked, or omit these options"
        )
    if wish.of_time and wish.distance:
        raise click.UsageError(
            "--trend and --mark need an axis of time; omit these two options, or omit --axis distance"
        )
    target = output or output_name(reading.inputs[0], ".html")
    if kind in ("delivered", "rates"):
        _plot_flows(reading, kind, target, wish, window_s=window_s, theme=theme)
        return
    if window_s is not None:
        raise click.UsageError("--window can be used only with --figure rates; add --figure rates, or omit --window")
    if kind in ("efficiency", "utilization"):
        _plot_use(reading, kind, size, target, wish, theme)
        return
    if kind == "channel":
        from multitracer.cli._testbed import plot_channel

        plot_channel(reading, target, theme)
        return
    if kind == "handovers":
        _plot_handovers(reading, target, wish, theme)
        return
    if _of_transactions(reading, kind, size, target, theme=theme, pool=pool):
        click.echo(target)
        return
    if size is not None:
        raise click.UsageError("--size can be used only with --figure environment, panels or efficiency")
    _plot_connection(reading, target, direction, stack, wish, theme)


def _plot_flows(
    reading: InputChoice, kind: str, target: str, wish: Wish, *, window_s: float | None, theme: Theme
) -> None:
    """Write a figure of the packets or rates of each flow of one or several recordings."""
    from multitracer.cli._flows import plot_flows

    if wish != Wish():
        raise click.UsageError(
            f"--series, --offset, --trend, --mark and --axis cannot be used with --figure {kind}; omit these options"
        )
    plot_flows(reading, kind, target, window_s=window_s, theme=theme)
    click.echo(target)


def _plot_use(reading: InputChoice, kind: str, size: int | None, target: str, wish: Wish, theme: Theme) -> None:
    """Write the figure of how well transfers used their link, or of how much of what arrived was needed."""
    from multitracer.cli._flows import plot_use

    if wish != Wish() or (size is not None and kind == "utilization"):
        options = "--series, --offset, --trend, --mark and --axis" if size is None else "--size"
        raise click.UsageError(
            f"{options} cannot be used with --figure {kind}; omit {'them' if size is None else 'it'}"
        )
    plot_use(reading, kind, target, size=size, theme=theme)
    click.echo(target)


def _plot_handovers(reading: InputChoice, target: str, wish: Wish, theme: Theme) -> None:
    """Write a figure of a quantity around all handovers of a drive."""
    from multitracer.api.session import Session
    from multitracer.cli._output import replacing
    from multitracer.cli._plotting import write
    from multitracer.cli._reading import load

    if len(wish.patterns) > 1:
        raise click.UsageError("--figure handovers draws only one quantity; name one quantity with --series")
    recording = load(reading, output=target)
    figure = Session(recording).handovers_figure(*wish.patterns, theme=theme)
    with replacing(target) as temporary:
        write(figure, temporary, title=recording.name, theme=theme, as_json=target.endswith(".json"))
    click.echo(target)


def _of_transactions(
    reading: InputChoice, kind: str | None, size: int | None, target: str, *, theme: Theme, pool: bool
) -> bool:
    """Write a figure of transactions, if it is requested or if there are no other data to show.

    Return whether the figure was written.
    """
    from pathlib import Path

    if kind is None and not all(Path(name).is_dir() for name in reading.inputs):
        return False
    from multitracer.cli import _transactions
    from multitracer.cli._output import check_output

    sessions = _transactions.measured_sessions(reading.inputs, wanted=kind is not None)
    if not sessions:
        return False
    _transactions.refuse_capture_options(reading)
    check_output(target, [path for session in sessions for path in session.paths])
    transports, _ = _transactions.read_transports(sessions, pool=pool)
    title = _transactions.title_of(sessions)
    _transactions.plot_transactions(transports, kind or "rtt-size", size, target, title=title, theme=theme)
    return True


def _plot_connection(
    reading: InputChoice,
    target: str,
    direction: Literal["forward", "reverse"] | None,
    stack: bool | None,
    wish: Wish,
    theme: Theme,
) -> None:
    """Write the figure of a connection; print the slopes and the path."""
    from multitracer.cli._output import replacing
    from multitracer.cli._plotting import Plot, write
    from multitracer.cli._reading import load, one

    stack = True if wish != Wish() else stack
    only = None if stack else partial(one, choice=reading.connection)
    recording = load(reading, output=target, cut=False, only=only)
    notes: list[str] = []
    if not recording.captures:
        from multitracer.cli._plotting import plot_drive

        title, figure = recording.name, plot_drive(recording, reading, wish, theme)
    else:
        capture, number = one(recording, reading.connection)
        reverse = None if direction is None else direction == "reverse"
        plot = Plot(recording, capture, number, reverse, reading, theme)
        title, notes = plot.title, plot.notes
        if plot.has_more(stack):
            from multitracer.cli._plotting import plot_stacked

            figure = plot_stacked(plot, wish)
        else:
            figure = plot.time_sequence()
    with replacing(target) as temporary:
        write(figure, temporary, title=title, theme=theme, as_json=target.endswith(".json"))
    for line in notes:
        click.echo(line)
    click.echo(target)
