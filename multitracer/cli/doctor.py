"""`multitracer doctor`: what works on this machine, and the one command that repairs what does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import common_options, examples

if TYPE_CHECKING:
    from multitracer.cli._checks import Check


SCHEMA = "multitracer.doctor/1"


@click.command(
    "doctor",
    epilog=examples(
        "multitracer doctor", "multitracer doctor --json | jq '.components[] | select(.works | not) | .fix'"
    ),
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON; `multitracer schema doctor` describes it."
)
@common_options
def command(*, as_json: bool) -> None:
    """Check which functions of MultiTracer work on this machine, and show how to repair the others.

    For each Python package the size of its files is listed, and the pip extra that installs it.

    The exit status is 1 if MultiTracer cannot read or analyse captures, draw figures or write tables.
    Missing requirements of recording, or of comparison with other programs, do not change the exit status.
    """
    from multitracer.cli._checks import checks

    results = list(checks())
    if as_json:
        _write_json(results)
    else:
        _show(results)
    if any(check.needed and not check.works for check in results):
        raise click.exceptions.Exit(1)


def _show(results: list[Check]) -> None:
    from multitracer.cli._output import page
    from multitracer.words import size

    sheet = page()
    rows = [
        (_state(check), check.name, check.message, check.extra, size(check.bytes) if check.bytes else "", check.purpose)
        for check in results
    ]
    heads = ("", "component", "found", "extra", "size", "needed to")
    sheet.table(heads, rows, right=(4,), dispensable=(4, 3))
    for check in results:
        if not check.works:
            sheet.line(f"{check.name}: {check.fix}")


def _write_json(results: list[Check]) -> None:
    from multitracer.cli._output import standard_output
    from multitracer.words import portable

    components = [
        {
            "name": check.name,
            "works": check.works,
            "needed": check.needed,
            "found": portable(check.message),
            "purpose": check.purpose,
            "extra": check.extra or None,
            "bytes": check.bytes,
            "fix": None if check.works else portable(check.fix),
        }
        for check in results
    ]
    document = {"schema": SCHEMA, "works": all(c.works for c in results if c.needed), "components": components}
    json.dump(document, standard_output(), allow_nan=False, indent=1)
    standard_output().write("\n")


def _state(check: Check) -> str:
    if check.works:
        return "ok"
    return "MISSING" if check.needed else "absent"
