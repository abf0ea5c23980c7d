"""`multitracer align`: how the clocks of a recording relate, found in its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._options import common_options, examples, named_input, named_page
from multitracer.cli._reading import forces_reading

if TYPE_CHECKING:
    from multitracer.cli._clocks import Aligned
    from multitracer.figures.palette import ThemeName


@click.command(
    "align",
    epilog=examples(
        "multitracer align sample_traces/cellular_upload",
        "multitracer align --reference fixed -o clocks.html sample_traces/cellular_upload",
        "multitracer align --json SENDER.pcap RECEIVER.pcap",
    ),
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=named_input)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON; `multitracer schema align` describes it."
)
@click.option(
    "--reference",
    metavar="CLOCK",
    help="Reference clock, HOST or HOST:DOMAIN, to which all other clocks are converted. Default: the "
    "TCP sender's wall clock.",
)
@click.option("-o", "--output", type=named_page, metavar="FILE", help="Draw the clock graph to this .html file.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@click.option(
    "--keep/--no-keep",
    default=True,
    help="Write the tables clock_edges and clock_mapping into the session's folder `tables` (default), "
    "or do not change the session.",
)
@forces_reading
@common_options
def command(
    inputs: tuple[str, ...], *, as_json: bool, reference: str | None, output: str | None, theme: ThemeName, keep: bool
) -> None:
    """Estimate offset, drift, error and steps between the clocks of a session, or of two or more files.

    Single files are captures, or a capture and logs of TCP variables, of a link or of a radio. The first edge leads
    from the first file to the second: to = from + offset + drift * (from - first stamp of from). If the data cannot
    determine a relation, the command prints the reason and a remedy. Faults that the clock check found follow.
    """
    from multitracer.cli._clocks import aligned, show, write_json
    from multitracer.cli._messages import warn
    from multitracer.cli._output import check_output, page, standard_output

    alignment = aligned(inputs, reference=reference, evidence=output is not None)
    check_output(output, alignment.recording.inputs.paths)
    for sentence in [*alignment.recording.notes, *alignment.clocks.warnings]:
        warn(sentence)
    if keep and alignment.recording.folder is not None:
        _keep(alignment)
    if output is not None:
        _draw(alignment, output, theme=theme)
    if as_json:
        write_json(standard_output(), alignment)
    else:
        show(page(), alignment)
        if output is not None:
            click.echo(output)


def _keep(alignment: Aligned) -> None:
    from multitracer.cli._clocks import keep_tables
    from multitracer.cli._messages import warn

    try:
        keep_tables(alignment)
    except OSError as error:
        warn(
            f"{error.filename}: cannot write the clock tables: {error.strerror}; check the "
            "permissions, or use --no-keep"
        )


def _draw(alignment: Aligned, output: str, *, theme: ThemeName) -> None:
    from multitracer.cli._output import replacing
    from multitracer.cli._plotting import write
    from multitracer.figures.alignment import alignment_figure

    figure = alignment_figure(alignment.clocks, theme=theme)
    with replacing(output) as temporary:
        write(
            figure,
            temporary,
            title=f"Clocks of {alignment.recording.name}",
            theme=theme,
            as_json=output.endswith(".json"),
        )
