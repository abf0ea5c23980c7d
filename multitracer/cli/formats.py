"""`multitracer formats`: which formats this installation reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import common_options, examples

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = "multitracer.formats/1"
_MAP_HEADER = ("map", "layer", "description", "verified")
_HEADER = ("format", "layer", "description", "defined in")


@click.command(
    "formats",
    epilog=examples(
        "multitracer formats",
        "multitracer formats --maps",
        "multitracer formats --propose drive.csv > drive.csv.toml",
        "multitracer formats --new acme-signal && pip install ./acme-signal",
    ),
)
@click.option("--maps", is_flag=True, help="List the bundled column maps of CSV logs instead of the formats.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write the list as JSON; `multitracer schema formats` describes it."
)
@click.option(
    "--new",
    metavar="NAME",
    help="Write a package NAME that reads one more format, with a sample and a test, into a new folder.",
)
@click.option("--propose", metavar="FILE", help="Propose a column map for this CSV file, whose columns are unknown.")
@click.option(
    "--start",
    metavar="TIME",
    help="With --propose, of a file without times: time of its first line (ISO 8601, or seconds since 1970).",
)
@click.option(
    "--step",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="With --start: time from one line to the next (default: 1).",
)
@common_options
def command(
    *, maps: bool, as_json: bool, new: str | None, propose: str | None, start: str | None, step: float | None
) -> None:
    """List the formats that MultiTracer reads, and their specifications.

    Formats are recognised by the content of a file, not by its name. Files may be compressed with gzip,
    Zstandard, xz or bzip2. For a CSV log, the file NAME.csv.toml in the same folder maps the columns;
    `--propose` marks uncertain entries.

    `--new` writes a package that can be installed with pip, and that its author then changes: its module reads lines
    of a time and a received power.
    """
    import parsers
    from multitracer.cli._messages import warn
    from multitracer.cli._output import page

    _check_wishes(maps=maps, as_json=as_json, new=new, propose=propose, start=start, step=step)
    if new is not None:
        for path in parsers.new_format(new):
            click.echo(path)
        return
    if propose is not None:
        click.echo(parsers.propose_map(propose, start=start or "", step_s=step or 1.0), nl=False)
        return
    for broken in parsers.installed().broken:
        warn(str(broken))
    if maps:
        known = [(each.name, each.layer, each.description, each.certain) for each in parsers.bundled_maps()]
        if as_json:
            _write_json("maps", _MAP_HEADER, known)
        else:
            page().table(_MAP_HEADER, known)
        return
    rows = [(fmt.name, fmt.layer, fmt.description, fmt.source) for fmt in parsers.formats()]
    if as_json:
        _write_json("formats", _HEADER, rows)
    else:
        page().table(_HEADER, rows)


def _check_wishes(
    *, maps: bool, as_json: bool, new: str | None, propose: str | None, start: str | None, step: float | None
) -> None:
    """Raise an error for options that cannot be used together."""
    if (start is not None and propose is None) or (step is not None and start is None):
        raise click.UsageError("--start needs --propose FILE, and --step needs --start")
    if new is not None and (maps or as_json or propose is not None):
        raise click.UsageError("--new writes a package; omit --maps, --json and --propose")
    if propose is not None and (maps or as_json):
        raise click.UsageError("--propose writes a column map; omit --maps and --json")


def _write_json(name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from multitracer.cli._output import standard_output

    keys = [head.replace(" ", "_") for head in header]
    document = {"schema": SCHEMA, name: [dict(zip(keys, row, strict=True)) for row in rows]}
    json.dump(document, standard_output(), indent=1)
    standard_output().write("\n")
