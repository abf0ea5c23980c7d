"""The tables of experiments_sweep.md; `python -m docs.papers.programs.experiments draw` writes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from statistics import fmean, median
from typing import TYPE_CHECKING

from docs.papers.programs import experiment_bluetooth, experiment_segments
from docs.papers.programs.experiment_page import ROOT, table
from docs.papers.programs.experiment_sweep import (
    BUSY,
    BUSY_PERCENT,
    CAPS_S,
    EDGES,
    LOSS,
    LOSS_PERCENT,
    MORE_PATIENCE_S,
    MORE_SEEDS,
    PATIENCE_S,
    SEED,
    SIZES,
    Cell,
    rows,
)
from multitracer.report.transactions_page import factor, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from docs.papers.programs.experiment_sweep import Row
    from multitracer.measure.plan import Varied

PAGE = ROOT / "docs" / "papers" / "experiments_sweep.md"
NAMES = {"palm": "PalmOS", "tcp1999": "TCP 1999", "tcptoday": "TCP today", "ccearly": "early start"}
_SHOWN = (128, 2048, 4096, 8192)
"""Sizes of the table of CentaurusComm: the ends, and where the authors saw the step."""
_EDGE_SIZES = (1024, 2048, 4096, 8192)
"""From where TCP suffers."""
COLLAPSE = 4.0
"""A mean at 4096 bytes so many times that at 2048: twice what twice the bytes explain (our word for it)."""
FACTOR = 5.0
"""The paper's, at 4096 bytes."""
_WATCHDOG_S = 9.5
"""Nearly the 10 s after which CentaurusComm gives a silent session up."""
_NEEDLESS = ("spurious", "ack-lost")
"""An earlier copy had arrived (docs/verdicts.md)."""
FAILS = "fails"
"""In place of a mean or a ratio where fewer than half of the transactions ended."""


@cache
def known() -> dict[tuple[Cell, int], Row]:
    """Return every row of the sweep by its cell and its size."""
    return {(row.cell, row.size_bytes): row for row in rows()}


def rtt_s(cell: Cell, size: int, of: Callable[[Iterable[float]], float] = fmean) -> float | None:
    """Return the mean (or `of`) of a cell's RTTs at a size; None where fewer than half ended."""
    row = known()[cell, size]
    return of(row.rtts_s) if 2 * len(row.rtts_s) >= row.begun else None


def beside(cell: Cell) -> Cell:
    """Return CentaurusComm's cell under the same conditions."""
    return replace(cell, transport="cc", cap_s=0)


def ratio(cell: Cell, size: int, of: Callable[[Iterable[float]], float] = fmean) -> float | None:
    """Return the RTT of a cell divided by CentaurusComm's; None where fewer than half of either ended."""
    ours, theirs = rtt_s(cell, size, of), rtt_s(beside(cell), size, of)
    return None if ours is None or theirs is None else ours / theirs


def palm(cap_s: int, busy: int = BUSY, loss: float = LOSS, vary: Varied = "request") -> Cell:
    """Return the cell of the Palm's TCP."""
    return Cell(vary, "palm", cap_s, busy, loss)


def by_busy(cell: Callable[[Cell], str]) -> str:
    """Return a table of caps against the load of the cell."""
    heads = ["cap", *(f"busy {busy} %" for busy in BUSY_PERCENT)]
    return table(heads, [[f"{cap} s", *(cell(palm(cap, busy)) for busy in BUSY_PERCENT)] for cap in CAPS_S])


def by_loss(cell: Callable[[Cell], str]) -> str:
    """Return a table of caps against the loss."""
    heads = ["cap", *(f"loss {loss:g} %" for loss in LOSS_PERCENT)]
    lines = [[f"{cap} s", *(cell(palm(cap, loss=loss)) for loss in LOSS_PERCENT)] for cap in CAPS_S]
    return table(heads, lines)


def step(cell: Cell) -> str:
    """Return the means at 2048 and 4096 bytes, and their ratio; bold where TCP collapses."""
    small, large = (rtt_s(cell, size) for size in (2048, 4096))
    if small is None or large is None:
        return f"{_s(small)} → {_s(large)}"
    text = f"{_s(small)} → {_s(large)}, × {large / small:.1f}"
    return f"**{text}**" if large / small >= COLLAPSE else text


def _s(mean_s: float | None) -> str:
    return FAILS if mean_s is None else seconds(mean_s)


def both(cell: Cell, size: int = 4096) -> str:
    """Return the ratios of means and of medians."""
    found = [ratio(cell, size, of) for of in (fmean, median)]
    return " / ".join(FAILS if each is None else factor(each) for each in found)


def ended(cell: Cell, size: int = 8192) -> str:
    """Return how many transactions ended, of the Palm and of CentaurusComm."""
    ours, theirs = known()[cell, size], known()[beside(cell), size]
    return f"{len(ours.rtts_s)} / {len(theirs.rtts_s)} of {ours.begun}"


def extremes() -> str:
    """Return how many cells collapse and reach the paper's factor, for each direction."""
    lines = []
    for vary in ("request", "reply"):
        cells = sorted({cell for cell, _ in known() if (cell.transport, cell.vary) == ("palm", vary)})
        cells = [cell for cell in cells if (cell.patience_s, cell.seed) == (PATIENCE_S, SEED)]
        lines.append([vary, f"{len(cells)}", *_counts(cells)])
    heads = ["varies", "cells", "2048 and 4096 end, × 4 or more", "4096 fails, 2048 does not"]
    return table([*heads, "ratio of 5 or more at 4096", "largest ratio at 4096"], lines)


def _counts(cells: list[Cell]) -> list[str]:
    means = [(rtt_s(cell, 2048), rtt_s(cell, 4096)) for cell in cells]
    steep = sum(s is not None and m is not None and m >= COLLAPSE * s for s, m in means)
    lost = sum(s is not None and m is None for s, m in means)
    ratios = {cell: found for cell in cells if (found := ratio(cell, 4096)) is not None}
    most = max(ratios, key=lambda cell: ratios[cell])
    where = f"cap {most.cap_s} s, busy {most.busy_percent} %, loss {most.loss_percent:g} %"
    return [
        f"{steep}",
        f"{lost}",
        f"{sum(each >= FACTOR for each in ratios.values())}",
        f"{factor(ratios[most])} ({where})",
    ]


def edge() -> str:
    """Return how TCP fares where 4096 bytes cease to end: mean, ratio of means, and how many end."""
    lines = []
    for cap, busy in EDGES:
        at = BUSY_PERCENT.index(max(each for each in BUSY_PERCENT if each < busy))
        for each in (BUSY_PERCENT[at], busy, BUSY_PERCENT[at + 1]):
            seeds = (SEED, *MORE_SEEDS) if (cap, each) == EDGES[0] else (SEED,)
            for cell in (replace(palm(cap, each), seed=seed) for seed in seeds):
                fares = (_fares(cell, size) for size in _EDGE_SIZES)
                lines.append([f"{cap} s", f"{each} %", f"{cell.seed}", *fares])
    return table(["cap", "busy", "radio", *(f"{size} bytes" for size in _EDGE_SIZES)], lines)


def _fares(cell: Cell, size: int) -> str:
    row = known()[cell, size]
    if not row.rtts_s:
        return f"0 of {row.begun}"
    theirs = rtt_s(beside(cell), size)
    times = "" if theirs is None else f", {factor(fmean(row.rtts_s) / theirs)}"
    minimum = at_least(cell, size)
    more = "" if len(row.rtts_s) == row.begun or minimum is None else f", at least {factor(minimum)}"
    return f"{seconds(fmean(row.rtts_s))}{times}{more}; {len(row.rtts_s)} of {row.begun}"


def at_least(cell: Cell, size: int) -> float | None:
    """Return the ratio of means if each that was dropped had ended at the application's timeout."""
    row, theirs = known()[cell, size], known()[beside(cell), size]
    if len(theirs.rtts_s) < theirs.begun:
        return None
    dropped = row.begun - len(row.rtts_s)
    return (sum(row.rtts_s) + dropped * row.patience_s) / row.begun / fmean(theirs.rtts_s)


def cells_of_modem() -> str:
    """Return what the modem said of the cell's load, and how quick CentaurusComm was in it."""
    lines = []
    for busy in BUSY_PERCENT:
        cell = beside(palm(1, busy))
        quiet, loud = (known()[cell, size].modem_busy_percent for size in (SIZES[0], SIZES[-1]))
        lines.append([
            f"{busy} %",
            f"{quiet:.0f} to {loud:.0f} %",
            *(f"{_s(rtt_s(cell, size))} / {_s(rtt_s(cell, size, median))}" for size in _SHOWN),
        ])  # fmt: skip
    heads = ["others offer", "the modem says", *(f"{size} bytes" for size in _SHOWN)]
    return table(heads, lines)


def watchdogs() -> str:
    """Return how many transactions of CentaurusComm waited for a watchdog, by loss, and how many it lost."""
    lines = []
    for loss in LOSS_PERCENT:
        cell = Cell("request", "cc", 0, BUSY, loss)
        found = [known()[cell, size] for size in SIZES]
        waited = sum(sum(each > min(row.rtts_s) + _WATCHDOG_S for each in row.rtts_s) for row in found)
        count, done = sum(row.begun for row in found), sum(len(row.rtts_s) for row in found)
        expected = 100 * (1 - (1 - loss / 100) ** 8)
        lines.append([f"{loss:g} %", f"{expected:.1f} %", f"{waited} of {count}", f"{count - done}"])
    return table(["loss", "1 − (1 − loss)⁸", "a watchdog's 10 s longer", "lost"], lines)


def patience() -> str:
    """Return what more patience of the application does where transactions fail."""
    cell = palm(CAPS_S[0], 60)
    lines = []
    for each in (cell, replace(cell, patience_s=MORE_PATIENCE_S)):
        found = [known()[each, size] for size in (4096, 8192)]
        shown = [f"{len(row.rtts_s)} of {row.begun}" for row in found]
        lines.append([seconds(each.patience_s), *shown])
    return table(["application waits", "4096 bytes", "8192 bytes"], lines)


def causes() -> str:
    """Return what the segments of the Palm were that it sent again."""
    found = [each for each in experiment_segments.segments() if each.length and not is_goodbye(each)]
    lines = []
    for cell in experiment_segments.CELLS:
        for size in experiment_segments.SIZES:
            mine = [
                s for s in found if (s.cap_s, s.busy_percent, s.size_bytes) == (cell.cap_s, cell.busy_percent, size)
            ]
            lines.append([f"{cell.cap_s} s", f"{cell.busy_percent} %", f"{size}", *_of_segments(mine)])
    heads = ["cap", "busy", "bytes", "ended", "segments", "sent again", "timer", "slow start behind it"]
    return table([*heads, "other", "needless"], lines)


def is_goodbye(segment: experiment_segments.Segment) -> bool:
    """Return whether a segment holds what follows the request: it left when the reply was there."""
    return segment.length > 0 and segment.begin >= segment.size_bytes


def _of_segments(mine: list[experiment_segments.Segment]) -> list[str]:
    again = [each for each in mine if each.cause]
    why = Counter(each.cause for each in again)
    done = len({each.transaction for each in mine if each.rtt_s})
    needless = sum(each.necessity in _NEEDLESS for each in again)
    other = len(again) - why["timeout"] - why["slow-start"]
    return [
        f"{done} of {len({each.transaction for each in mine})}",
        f"{len(mine)}",
        f"{len(again)}",
        f"{why['timeout']}",
        f"{why['slow-start']}",
        f"{other}",
        f"{needless} ({needless / len(again):.0%})" if again else "",
    ]


def others(vary: Varied) -> str:
    """Return the ratios of every other transport at 4096 bytes."""
    named = {name: (name, 0) for name in ("tcp1999", "tcptoday", "ccearly")}
    caps = (CAPS_S[0], CAPS_S[-1]) if vary == "reply" else ()
    shown = {f"PalmOS, cap {cap} s": ("palm", cap) for cap in caps}
    shown |= {NAMES[name]: found for name, found in named.items()}
    heads = ["4096 bytes", *(f"busy {busy} %" for busy in BUSY_PERCENT)]
    losses = LOSS_PERCENT if vary == "request" else ()
    heads += [f"loss {loss:g} %" for loss in losses]
    lines = []
    for name, (transport, cap) in shown.items():
        cells = [Cell(vary, transport, cap, busy, LOSS) for busy in BUSY_PERCENT]
        cells += [Cell(vary, transport, cap, BUSY, loss) for loss in losses]
        lines.append([name, *map(both, cells)])
    return table(heads, lines)


def steps() -> str:
    """Return TCP's medians over Bluetooth with and without Nagle's algorithm."""
    found = [row for row in experiment_bluetooth.rows() if row.protocol == "tcp"]
    sizes = experiment_bluetooth.SIZES
    lines = []
    for mtu in experiment_bluetooth.MTUS:
        for nagle in (False, True):
            mine = {row.size_bytes: row for row in found if (row.mtu_bytes, row.nagle) == (mtu, nagle)}
            words = "with" if nagle else "without"
            lines.append([f"{mtu}, {words}", *(seconds(mine[size].median_s) for size in sizes)])
    return table(["MTU, Nagle", *map(str, sizes)], lines)


def queues() -> str:
    """Return CentaurusComm's means over Bluetooth by the length of the queue."""
    found = [row for row in experiment_bluetooth.rows() if row.protocol != "tcp"]
    lines = []
    for queue in experiment_bluetooth.QUEUES:
        mine = {row.size_bytes: row for row in found if row.queue_packets == queue}
        last = mine[8192]
        shown = (seconds(mine[size].mean_s) for size in (2048, 4096, 8192))
        lines.append([f"{queue} packets", *shown, f"{last.waited} of {last.begun}"])
    return table(["queue", "2048 bytes", "4096 bytes", "8192 bytes", "waited for a watchdog"], lines)


def parts() -> dict[str, Callable[[], str]]:
    """Return every generated part of the page by its name."""
    return {
        "extremes": extremes,
        "modem": cells_of_modem,
        "watchdogs": watchdogs,
        "step busy": partial(by_busy, step),
        "step loss": partial(by_loss, step),
        "ratio busy": partial(by_busy, both),
        "ratio loss": partial(by_loss, both),
        "ended busy": partial(by_busy, ended),
        "edge": edge,
        "causes": causes,
        "patience": patience,
        "others": partial(others, "request"),
        "others reply": partial(others, "reply"),
        "steps": steps,
        "queues": queues,
    }
