"""`multitracer plot`: the figure of one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._options import Reading, examples, named, reads_captures

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go


@click.command(
    "plot",
    epilog=examples(
        "multitracer plot capture.pcap",
        "multitracer plot --connection 10.0.0.1:80 --from 10 --to 20 -o zoom.html capture.pcap",
        "multitracer plot -o stacked.html sample_traces/drive",
        "multitracer plot --time-sequence -o figure.json sample_traces/drive",
    ),
)
@click.option(
    "-o",
    "--output",
    type=named,
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
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@reads_captures
def command(
    reading: Reading,
    *,
    output: str | None,
    direction: Literal["forward", "reverse"] | None,
    theme: Literal["light", "dark"],
    stack: bool | None,
) -> None:
    """Draw the figure of one connection: time/sequence, with windows, RTT and throughput below.

    By default that of the connection with the most unique bytes. Of a session folder the figure is stacked:
    it shows the receiver's capture and the sender's own variables too. Prints the path of the file.
    """
    from multitracer.cli._load import bounds_ns, load, one
    from multitracer.cli._output import output_name, replacing
    from multitracer.figures.connection import connection_figure, layers_of
    from multitracer.figures.stacked import stacked

    target = output or output_name(reading.inputs[0], ".html")
    recording = load(reading, output=target, cut=False)
    part, number = one(recording, reading.connection)
    begin_ns, end_ns = bounds_ns((each.capture for each in recording.parts), reading.window)
    reverse = None if direction is None else direction == "reverse"
    layers = None if stack is False else layers_of(recording, part, number, reverse=reverse)
    if layers is not None and (stack or layers.has_more):
        last_ns = None if end_ns is None else end_ns - 1
        figure = stacked(layers, from_ns=begin_ns, to_ns=last_ns, theme=theme)
    else:
        figure = connection_figure(
            part, number, reverse=reverse, begin_ns=begin_ns, end_ns=end_ns, theme=theme
        )
    with replacing(target) as beside:
        _write(figure, beside, as_json=target.endswith(".json"))
    click.echo(target)


def _write(figure: go.Figure, path: Path, *, as_json: bool) -> None:
    if as_json:
        path.write_text(figure.to_json(), "utf-8")
    else:
        path.write_text(figure.to_html(include_plotlyjs=True), "utf-8")
