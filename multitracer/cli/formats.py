"""`multitracer formats`: which formats this installation reads."""

from __future__ import annotations

import click

from multitracer.cli._options import debug_option, examples


@click.command(
    "formats",
    epilog=examples(
        "multitracer formats",
        "multitracer formats --maps",
        "multitracer formats --propose drive.csv > drive.csv.toml",
    ),
)
@click.option("--maps", is_flag=True, help="List the CSV logs whose columns are known instead.")
@click.option("--propose", metavar="FILE", help="Print a map for a CSV whose columns are not known.")
@debug_option
def command(*, maps: bool, propose: str | None) -> None:
    """List the formats that can be read, and where each is defined.

    A file is recognised by its content, not by its name. Any of them may be compressed with gzip, Zstandard,
    xz or bzip2. A map beside a CSV, FILE.toml, describes its columns; `--propose` marks uncertain entries of
    a map.
    """
    import parsers
    from multitracer.cli._output import page, warn

    if propose is not None:
        click.echo(parsers.propose_map(propose), nl=False)
        return
    sheet = page()
    for broken in parsers.installed().broken:
        warn(str(broken))
    if maps:
        known = [(each.name, each.layer, each.description, each.certain) for each in parsers.bundled_maps()]
        sheet.table(("map", "layer", "what it is", "what is certain"), known)
        return
    rows = [(fmt.name, fmt.layer, fmt.description, fmt.source) for fmt in parsers.formats()]
    sheet.table(("format", "layer", "what it is", "defined in"), rows)
