"""What `multitracer measure` shows: a progress line with the estimated end, and the results of each size."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from multitracer.measure.journal import Journal
    from multitracer.measure.plan import Plan

_REFRESH_S = 0.2


class Line:
    """How far a run is, and when it will probably end."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._before: int | None = None
        self.done = self.dropped = self.total = 0

    def update(self, done: int, dropped: int, total: int) -> None:
        """Take note of a transaction."""
        self._before = done if self._before is None else self._before
        self.done, self.dropped, self.total = done, dropped, total

    def words(self) -> str:
        """Return the line as text."""
        words = f"{self.done} of {self.total} transactions, {self.dropped} dropped"
        here = self.done - (self._before or 0)
        if not here or self.done == self.total:
            return words
        left_s = (time.monotonic() - self._began_s) / here * (self.total - self.done)
        return f"{words}, ends about {time.strftime('%a %H:%M:%S', time.localtime(time.time() + left_s))}"

    def __rich__(self) -> Table:
        """Draw the line."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=max(1, self.total), completed=self.done, width=30), self.words())
        return line


@contextlib.contextmanager
def progress_line(every_s: float | None = None) -> Iterator[Callable[[int, int, int], None]]:
    """Show the line on standard error, if that is a terminal; elsewhere each so many seconds, if stated."""
    line = Line()
    if sys.stderr is None or not sys.stderr.isatty():
        yield line.update if every_s is None else _logged(line, every_s)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        drawn_s = 0.0

        def draw(done: int, dropped: int, total: int) -> None:
            nonlocal drawn_s
            line.update(done, dropped, total)
            if time.monotonic() - drawn_s >= _REFRESH_S:
                drawn_s = time.monotonic()
                live.update(line, refresh=True)

        yield draw


def _logged(line: Line, every_s: float) -> Callable[[int, int, int], None]:
    due_s = time.monotonic() + every_s

    def log(done: int, dropped: int, total: int) -> None:
        nonlocal due_s
        line.update(done, dropped, total)
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + every_s
            click.echo(line.words(), err=True)

    return log


def show_results(plan: Plan, journal: Journal) -> None:
    """Write a line for each size of each experiment."""
    from multitracer.cli._page import page

    numbers: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    per_experiment = [len(each.sizes) * each.sessions for each in plan.experiments]
    for each in plan.transactions():
        experiment = next(
            i for i, _ in enumerate(per_experiment) if each.number <= sum(per_experiment[: i + 1])
        )
        numbers[experiment, each.vary, each.size_bytes].append(each.number)
    header = ("varied", "size", "ok", "dropped", "RTT median", "RTT longest")
    page().table(header, [_row(key, statistics, journal) for key, statistics in numbers.items()])


def _row(key: tuple[int, str, int], numbers: list[int], journal: Journal) -> tuple[str, ...]:
    rtts_s = [journal.rtts_s[number] for number in numbers if number in journal.rtts_s]
    dropped = sum(journal.outcomes.get(number) == "dropped" for number in numbers)
    times = (f"{statistics.median(rtts_s):.4g} s", f"{max(rtts_s):.4g} s") if rtts_s else ("-", "-")
    return key[1], f"{key[2]} B", str(len(rtts_s)), str(dropped), *times
