"""`multitracer testbed compare`: the table, the CSV and the figure of several transports over one radio."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from multitracer.analysis.comparison.difference import LEAST_PAIRS, share, spread
from multitracer.lab.simulator.comparison import MEASURES
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from multitracer.analysis.comparison.difference import Share, Spread
    from multitracer.cli._page import Page
    from multitracer.lab.rig.radios import Radio
    from multitracer.lab.simulator.comparison import Compared

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
    sheet.line(f"{scenario.name}: {count(runs, 'run')} a transport, in virtual time")
    sheet.line(f"radio {radio.realism.kind}: {radio.realism.sentence}")
    if radio.trace_s:
        sheet.line(
            f"the trace lasts {radio.trace_s:.1f} s and is repeated; each run begins at another time of it"
        )
    header = ("transport", "goodput, kbit/s", f"of {first.transport}'s", "sent again", "timeouts")
    rows = [_row(each, first) for each in compared]
    sheet.table((*header, "longest RTT, s", "longest hole, s"), rows, right=range(1, 7), dispensable=(6, 4))
    sheet.line("median of the runs (least to most); the share is that of the means of all runs")
    if len(compared) > 1:
        sheet.line(_certainty(runs))


def _certainty(runs: int) -> str:
    """Return what the interval of a share is, or why it has none."""
    if runs < LEAST_PAIRS:
        return f"{count(runs, 'run')} cannot tell a share from chance: take --runs {LEAST_PAIRS} or more"
    return "(of a share: its 95 % interval by pairs of runs over the same radio)"


def _row(each: Compared, first: Compared) -> tuple[str, ...]:
    goodput, again, timeouts, rtt, hole = (spread(each.values(measure)) for measure in MEASURES)
    return (
        each.transport,
        shown(goodput, 1, scale=1 / _KILO),
        "100 %" if each is first else shown_share(share(each.values(MEASURES[0]), first.values(MEASURES[0]))),
        shown(again, 1),
        shown(timeouts, 1),
        shown(rtt, 2),
        shown(hole, 2),
    )


def shown(of: Spread, digits: int, *, scale: float = 1) -> str:
    """Return a median with its range, where that says more: `142.0 (118.3 to 165.1)`."""
    if of.median is None or of.least is None or of.most is None:
        return "-"
    median, least, most = (f"{value * scale:.{digits}f}" for value in (of.median, of.least, of.most))
    return median if least == most else f"{median} ({least} to {most})"


def shown_share(of: Share) -> str:
    """Return a share with its interval: `146 % (115 to 190 %)`."""
    if of.value is None:
        return "-"
    ends = "" if of.low is None or of.high is None else f" ({of.low * 100:.0f} to {of.high * 100:.0f} %)"
    return f"{of.value * 100:.0f} %{ends}"


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
