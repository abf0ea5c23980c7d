"""`multitracer testbed compare`: the table, the CSV and the figure of several transports over one radio."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from multitracer.simulator.comparison import MEASURES, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from multitracer.cli._page import Page
    from multitracer.rig.radios import Radio
    from multitracer.simulator.comparison import Compared

_KILO = 1_000


def counted(total: int) -> Callable[[int], None]:
    """Return a function that says on a terminal how many runs are done."""

    def tell(done: int) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(f"\r{done} of {total} runs", nl=done == total, err=True)

    return tell


def show(sheet: Page, radio: Radio, compared: Sequence[Compared]) -> None:
    """Print the table, and how real the radio is."""
    scenario, first = radio.scenario, compared[0]
    runs = len(first.outcomes)
    sheet.line(f"{scenario.name}: {runs} {'run' if runs == 1 else 'runs'} a transport, in virtual time")
    sheet.line(f"radio {radio.realism.kind}: {radio.realism.sentence}")
    if radio.trace_s:
        sheet.line(
            f"the trace lasts {radio.trace_s:.1f} s and is repeated; each run begins at another time of it"
        )
    header = ("transport", "goodput, kbit/s", f"of {first.transport}'s", "sent again", "timeouts")
    rows = [_row(each, first) for each in compared]
    sheet.table((*header, "longest RTT, s", "longest hole, s"), rows, right=range(1, 7), dispensable=(6, 4))
    sheet.line("mean and half of its 95 % interval; the share is of pairs of runs over the same radio")


def _row(each: Compared, first: Compared) -> tuple[str, ...]:
    goodput, again, timeouts, rtt, hole = (each.estimate(measure) for measure in MEASURES)
    return (
        each.transport,
        _shown(goodput, 1, scale=1 / _KILO),
        _shown(each.against(first), 0, scale=100, unit=" %"),
        _shown(again, 1),
        _shown(timeouts, 1),
        _shown(rtt, 2),
        _shown(hole, 2),
    )


def _shown(estimate: Estimate, digits: int, *, scale: float = 1, unit: str = "") -> str:
    if estimate.mean is None:
        return "-"
    half = "" if estimate.half is None else f" ± {estimate.half * scale:.{digits}f}"
    return f"{estimate.mean * scale:.{digits}f}{half}{unit}"


def write_csv(stream: TextIO, compared: Sequence[Compared]) -> None:
    """Write a line for each run; an empty cell is a number that there is not."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("transport", "seed", *MEASURES))
    writer.writerows(_lines(compared))


def _lines(compared: Sequence[Compared]) -> Iterator[tuple[object, ...]]:
    for each in compared:
        for outcome in each.outcomes:
            numbers = (getattr(outcome, measure) for measure in MEASURES)
            rounded = (round(n, 6) if isinstance(n, float) else n for n in numbers)
            yield (each.transport, outcome.seed, *("" if n is None else n for n in rounded))
