"""The tables of a corpus that was judged, in Markdown: how often right, in what wrong, which findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.causes.judge import GROUP, VIEWS
from tests.causes.truth import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.causes.judge import Judged

_PRECISE = ("application", "receiver-window", "link")
_SURE = ("measured", "inferred")
_COARSE_MS = 4
"""Ticks of timestamps from which on a receiver can hardly tell queue from sender."""


def _row(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _table(head: list[str], rows: list[list[Any]]) -> Iterator[str]:
    yield _row(head)
    yield _row("---" for _ in head)
    yield from map(_row, rows)
    yield ""


def _percent(part: float, complete: float) -> str:
    return f"{100 * part / complete:.1f} %" if complete else "–"


def summary(judged: list[Judged]) -> Iterator[str]:
    """Yield a row a view: primary right, wrong and sure, overlap of shares, precision of seconds.

    The receiver has two more: whether timestamps tell it the sender's clock, or tell it badly.
    """
    of = {view: [each for each in judged if each.view == view] for view in (*VIEWS, GROUP)}
    stamped = [each for each in of["receiver"] if each.tick_ms is not None]
    fine = [each for each in stamped if 0 < (each.tick_ms or 0) < _COARSE_MS]
    of[f"receiver, ticks under {_COARSE_MS} ms"] = fine
    coarse = [each for each in stamped if each not in fine]
    of[f"receiver, ticks of {_COARSE_MS} ms or more, or none"] = coarse
    rows = [_summed(name, mine) for name, mine in of.items() if mine]
    head = ["view", "recordings", "primary right", "wrong and sure", "overlap", *_PRECISE]
    yield from _table(head, rows)


def _summed(name: str, mine: list[Judged]) -> list[Any]:
    sure = [each for each in mine if not each.right and each.confidence in _SURE]
    right = _percent(sum(each.right for each in mine), len(mine))
    overlap = f"{sum(each.overlap for each in mine) / len(mine):.3f}"
    precise = [_precision(mine, limit) for limit in _PRECISE]
    return [name, len(mine), right, _percent(len(sure), len(mine)), overlap, *precise]


def _precision(judged: list[Judged], limit: str) -> str:
    pairs = [each.seconds[limit] for each in judged if limit in each.seconds]
    said, right = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return f"{right / said:.3f}" if said else "–"


def kinds(judged: list[Judged]) -> Iterator[str]:
    """Yield a row for each kind: of how many views the largest limit is right, and how many are wrong and sure."""
    rows = []
    for kind in dict.fromkeys(each.kind for each in judged):
        row: list[Any] = [kind]
        for view in VIEWS:
            mine = [each for each in judged if each.kind == kind and each.view == view]
            sure = sum(not each.right and each.confidence in _SURE for each in mine)
            row.append(f"{sum(each.right for each in mine)} of {len(mine)}" + (f", {sure} sure" if sure else ""))
        rows.append(row)
    yield from _table(["kind: right (wrong and sure)", *VIEWS], rows)


def confusion(judged: list[Judged], view: str) -> Iterator[str]:
    """Yield the matrix of a view: the true primary limit down, the answer across."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in judged:
        if each.view == view:
            counts[each.answer if each.right else each.primaries[0], each.answer] += 1
    down = [limit for limit in LIMITS if any(true == limit for true, _ in counts)]
    across = [name for name in (*LIMITS, "no answer") if any(said == name for _, said in counts)]
    rows = [[true, *(counts[true, said] or "" for said in across)] for true in down]
    yield from _table([f"{view}: true ↓ said →", *across], rows)


def misses(judged: list[Judged], view: str) -> Iterator[str]:
    """Yield a row for each recording whose primary limit is wrong."""
    rows = [
        [each.name, _shares(each.true), _shares(each.ours) or each.error, each.confidence]
        for each in judged
        if each.view == view and not each.right
    ]
    yield from _table([f"{view}: missed", "true", "said", "confidence"], rows)


def _shares(shares: dict[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{limit} {100 * share:.0f} %" for limit, share in largest)


def findings(judged: list[Judged], faults: dict[str, dict[str, bool]], controls: set[str]) -> Iterator[str]:
    """Yield a row for each kind of finding: how often found where it is true, and where it is not."""
    both = [each for each in judged if each.view == "both"]
    rows = []
    for kind in sorted({kind for of in faults.values() for kind in of}):
        there = [each for each in both if faults[each.name].get(kind) is True]
        found = sum(_names(each, kind) for each in there)
        wrongly = [each for each in both if faults[each.name].get(kind) is False and _names(each, kind)]
        healthy = sum(each.name in controls for each in wrongly)
        precision = _percent(found, found + len(wrongly))
        rows.append([kind, len(there), _percent(found, len(there)), len(wrongly), precision, healthy])
    head = ["finding", "true of", "found", "wrongly", "precision", f"on {len(controls)} controls"]
    yield from _table(head, rows)


def _names(judged: Judged, kind: str) -> bool:
    return kind in judged.findings or (kind == "outage" and "blackout" in judged.findings)


def page(judged: list[Judged], faults: dict[str, dict[str, bool]], controls: set[str]) -> str:
    """Return all tables."""
    lines = [*summary(judged), *kinds(judged)]
    for view in (*VIEWS, GROUP):
        lines += [*confusion(judged, view), *misses(judged, view)]
    return "\n".join([*lines, *findings(judged, faults, controls)])
