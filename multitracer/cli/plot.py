"""`multitracer plot`: the figure of one connection."""

from __future__ import annotations

from typing import Literal

import click

from multitracer.cli import _spans
from multitracer.cli._options import Reading, examples, named_page, reads_captures
from multitracer.cli._spans import Wish

Theme = Literal["light", "dark"]


@click.command(
    "plot",
    epilog=examples(
        "multitracer plot capture.pcap",
        "multitracer plot --connection 10.0.0.1:80 --from 10 --to 20 -o zoom.html capture.pcap",
        "multitracer plot -o stacked.html sample_traces/drive",
        "multitracer plot --series 'RlpSnd_*,TcpSnd_data' --trend RlpSnd_data=10:60 call/",
        "multitracer plot --mark 'Fig. 11=0:10' --offset 20000 -o marked.html call/",
        "multitracer plot --time-sequence -o figure.json sample_traces/drive",
    ),
)
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="PATH",
    help="The file to write: .html, or .json for plotly. By default the input's name with .html, here.",
)
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse"]),
    help="Draw what the initiator sent, or the responder. By default whoever sent more.",
)
@click.option(
    "--stacked/--time-sequence",
    "stack",
    default=None,
    help="With the receiver's capture, the sender's variables and phases; by default where there are any.",
)
@click.option(
    "--series",
    multiple=True,
    metavar="PATTERN,...",
    help="Draw only series whose labels match, such as 'RlpSnd_*,TcpSnd_data'; may be given again.",
)
@click.option(
    "--offset",
    "offset_bytes",
    type=click.IntRange(0, 1 << 40),
    metavar="BYTES",
    help="Draw the groups of link, sender and receiver so far apart.  [default: 10000]",
)
@click.option(
    "--trend",
    "trends",
    multiple=True,
    type=_spans.trend,
    metavar="LABEL[=FROM:TO]",
    help="Fit a line to what is drawn of a series, or to these seconds; print its slope. Repeatable.",
)
@click.option(
    "--mark",
    "marks",
    multiple=True,
    type=_spans.mark,
    metavar="[NAME=]FROM:TO",
    help="Draw a rectangle around these seconds; may be given again.",
)
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@reads_captures
def command(
    reading: Reading,
    *,
    output: str | None,
    direction: Literal["forward", "reverse"] | None,
    theme: Theme,
    stack: bool | None,
    **wishes: object,
) -> None:
    """Draw the figure of one connection: time/sequence, with windows, RTT and throughput below.

    By default that of the connection with the most unique bytes. Of a session folder the figure is stacked:
    it shows the receiver's capture, the sender's own variables and the data link too. Prints the slopes that
    --trend asks for, then the path of the file.
    """
    from multitracer.cli._load import load, one
    from multitracer.cli._output import output_name, replacing
    from multitracer.cli._plotting import Plot, write

    wish = Wish(**wishes)  # type: ignore[arg-type]  # click made them of these types
    if stack is False and wish != Wish():
        raise click.UsageError("--series, --offset, --trend and --mark need the stacked figure")
    target = output or output_name(reading.inputs[0], ".html")
    recording = load(reading, output=target, cut=False)
    part, number = one(recording, reading.connection)
    reverse = None if direction is None else direction == "reverse"
    stack = True if wish != Wish() else stack
    plot = Plot(recording, part, number, reverse, reading.window, theme)
    figure = plot.stacked(wish) if plot.has_more(stack) else plot.time_sequence()
    with replacing(target) as beside:
        write(figure, beside, title=plot.title, theme=theme, as_json=target.endswith(".json"))
    for line in plot.said:
        click.echo(line)
    click.echo(target)
