"""`multitracer merge`: make one session of the recordings of its two ends."""

from __future__ import annotations

from pathlib import Path

import click

from multitracer.cli._options import debug_option, examples, named

_Recording = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("merge", epilog=examples("multitracer merge mobile-drive fixed-drive -o drive"))
@click.argument("mobile", type=_Recording)
@click.argument("fixed", type=_Recording)
@click.option("-o", "--output", type=named, metavar="SESSION", required=True, help="The folder to make.")
@debug_option
def command(mobile: Path, fixed: Path, output: str) -> None:
    """Make one session of two recordings, MOBILE and FIXED, that `multitracer capture` wrote at its two ends.

    The logs are copied unchanged, each with its own clock; `multitracer align` relates the clocks.
    """
    from multitracer.cli._output import replacing_folder
    from multitracer.cli._page import page
    from multitracer.errors import InputError
    from multitracer.recorder.merge import merge

    place = Path(output)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{output}: is not empty, and logs are never overwritten; give a new folder")
    with replacing_folder(output) as folder:
        merged = merge([mobile, fixed], folder, name=place.resolve().name)
    page().line(f"{output}: {', '.join(merged.hosts)}")
