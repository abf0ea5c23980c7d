"""The tables of a corpus that was judged, in Markdown: how often right, in what wrong, which findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.causes.judge import VIEWS
from tests.causes.truth import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.causes.judge import Judged

_PRECISE = ("application", "receiver-window", "link")
_SURE = ("measured", "inferred")
_NEVER_ON_CONTROLS = ("ack-loss", "random-loss", "policer", "bufferbloat")


def _row(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _table(head: list[str], rows: list[list[Any]]) -> Iterator[str]:
    yield _row(head)
    yield _row("---" for _ in head)
    yield from map(_row, rows)
    yield ""


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def summary(judged: list[Judged]) -> Iterator[str]:
    """Yield a row a view: primary right, wrong and sure, overlap of shares, precision of seconds."""
    rows = []
    for view in VIEWS:
        mine = [each for each in judged if each.view == view]
        if not mine:
            continue
        sure = [each for each in mine if not each.right and each.confidence in _SURE]
        right = _percent(sum(each.right for each in mine), len(mine))
        overlap = f"{sum(each.overlap for each in mine) / len(mine):.3f}"
        precise = [_precision(mine, limit) for limit in _PRECISE]
        rows.append([view, len(mine), right, _percent(len(sure), len(mine)), overlap, *precise])
    head = ["view", "recordings", "primary right", "wrong and sure", "overlap", *_PRECISE]
    yield from _table(head, rows)


def _precision(judged: list[Judged], limit: str) -> str:
    pairs = [each.seconds[limit] for each in judged if limit in each.seconds]
    said, right = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return f"{right / said:.3f}" if said else "–"


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


def findings(judged: list[Judged], injected: dict[str, str | None], controls: set[str]) -> Iterator[str]:
    """Yield a row for each kind of finding that was built in: how often found, how often wrongly."""
    both = [each for each in judged if each.view == "both"]
    rows = []
    for kind in sorted({kind for kind in injected.values() if kind} | set(_NEVER_ON_CONTROLS)):
        there = [each for each in both if injected[each.name] == kind]
        found = [each for each in there if kind in each.findings]
        healthy = [each for each in both if each.name in controls and kind in each.findings]
        rows.append([kind, len(there), _percent(len(found), len(there)), len(healthy)])
    yield from _table(["finding", "built in", "found", f"on {len(controls)} controls"], rows)


def page(judged: list[Judged], injected: dict[str, str | None], controls: set[str]) -> str:
    """Return all tables."""
    lines = [*summary(judged)]
    for view in VIEWS:
        lines += [*confusion(judged, view), *misses(judged, view)]
    return "\n".join([*lines, *findings(judged, injected, controls)])
