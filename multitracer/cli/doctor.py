"""`multitracer doctor`: what works on this machine, and the one command that repairs what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._options import common_options, examples

if TYPE_CHECKING:
    from multitracer.cli._checks import Check


@click.command("doctor", epilog=examples("multitracer doctor"))
@common_options
def command() -> None:
    """Check which functions of MultiTracer work on this machine, and show how to repair the others.

    The exit status is 1 if MultiTracer cannot read or analyse captures, draw figures or write tables.
    Missing requirements of recording, or of comparison with other programs, do not change the exit status.
    """
    from multitracer.cli._checks import checks
    from multitracer.cli._output import page

    results = list(checks())
    sheet = page()
    rows = [(_state(check), check.name, check.message, check.purpose) for check in results]
    sheet.table(("", "component", "found", "needed to"), rows)
    for check in results:
        if not check.works:
            sheet.line(f"{check.name}: {check.fix}")
    if any(check.needed and not check.works for check in results):
        raise click.exceptions.Exit(1)


def _state(check: Check) -> str:
    if check.works:
        return "ok"
    return "MISSING" if check.needed else "absent"
