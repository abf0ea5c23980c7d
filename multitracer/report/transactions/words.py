"""The results of transactions, in sentences that a field engineer understands."""

from __future__ import annotations

from itertools import groupby
from math import isfinite, isinf
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.transports import dropped, size_statistics, straight_line
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, three_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.transports import Arm
    from multitracer.tables import Row, Table

_VERDICTS = ("faster", "alike", "slower", "too few", "failed", "other failed", "both failed")


def seconds(value: float | None) -> str:
    """Return a duration: 1.25 s, 310 ms; "dropped" for inf, "" for NA."""
    if value is None or value != value:  # noqa: PLR0124  NaN
        return ""
    return "dropped" if isinf(value) else f"{'−' if value < 0 else ''}{duration(abs(value) * NS_PER_S)}"


def spread(low: float, high: float) -> str:
    """Return an interval of durations; "" for one that is not known, or where both ends were dropped."""
    return f"{seconds(low)} to {seconds(high)}" if isfinite(low) else ""


def factor(value: float | None) -> str:
    """Return a ratio with three digits: 0.34, 3.16, 12.5; "no bound" for inf, "" for NA."""
    if value is None or value != value:  # noqa: PLR0124  NaN
        return ""
    if isinf(value):
        return "no bound"
    return f"{value:.2f}" if value < 9.995 else three_digits(value)


def factors(low: float | None, high: float | None) -> str:
    """Return an interval of ratios: 0.34 to 3.16; "" for one that is not known."""
    return "" if low is None else f"{factor(low)} to {factor(high)}"


def comparison_sentence(first: Arm, second: Arm, table: Table, *, name: str = "ratio") -> str:
    """Return where the first was faster, alike, slower, or failed.

    Parameters
    ----------
    first, second : Arm
    table : Table
        From `compare`.
    name : "ratio" or "setup_ratio"
        Which of its ratios; the second has the set-up of a connection in it.
    """
    rows = list(table.rows())
    known = {row["size_bytes"]: (_verdict(row, name), row) for row in rows}
    parts = []
    for verdict in _VERDICTS:
        here = [row for each_verdict, row in known.values() if each_verdict == verdict]
        if here:
            parts.append(_part(verdict, here, [row["size_bytes"] for row in rows], first, second, name))
    subject = f"With the set-up of its connection {first.name}" if name == "setup_ratio" else first.name
    return f"{subject} {_joined(parts)}."


def _verdict(row: Row, name: str) -> str:
    ratio = row[name]
    if ratio is None:
        return "both failed"
    if isinf(ratio):
        return "failed"
    if ratio == 0:
        return "other failed"
    if row[f"{name}_low"] is None:
        return "too few"
    if row[f"{name}_high"] < 1:
        return "faster"
    return "slower" if row[f"{name}_low"] > 1 else "alike"


def _part(verdict: str, rows: list[Row], sizes: list[int], first: Arm, second: Arm, name: str) -> str:
    where = f"at {_sizes([row['size_bytes'] for row in rows], sizes)}"
    ratios = [row[name] for row in rows if row[name] is not None and isfinite(row[name])]
    if verdict == "faster":
        return f"was faster than {second.name} {where} ({_range(ratios)} times its RTT)"
    if verdict == "slower":
        return f"took {_range(ratios)} times as long as {second.name} {where}"
    if verdict == "alike":
        return f"cannot be distinguished from {second.name} {where}"
    if verdict == "too few":
        return f"has too few transactions {where} to be told from {second.name}"
    if verdict == "failed":
        return f"failed {where} ({_lost(rows, '')})"
    if verdict == "other failed":
        return f"did not fail {where}, where {second.name} did ({_lost(rows, 'other_')})"
    return f"failed {where}, and so did {second.name}"


def _range(values: list[float]) -> str:
    least, most = factor(min(values)), factor(max(values))
    return least if least == most else f"{least} to {most}"


def _lost(rows: list[Row], prefix: str) -> str:
    lost, of = (sum(row[f"{prefix}{name}"] for row in rows) for name in ("dropped", "count"))
    return f"{lost:,} of {of:,} dropped"


def _sizes(chosen: list[int], every: list[int]) -> str:
    """Return sizes as ranges: `128 to 2048 and 8192 bytes`."""
    places = [every.index(size) for size in chosen]
    runs = [[p for _, p in run] for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    words = [str(every[r[0]]) if len(r) == 1 else f"{every[r[0]]} to {every[r[-1]]}" for r in runs]
    return f"{_joined(words)} bytes"


def _joined(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def arm_sentence(arm: Arm) -> str:
    """Return how the RTT of one arm grew with the size, and how many were dropped."""
    rows = [row for row in size_statistics(arm).rows() if row["median_s"] is not None]
    finished = [row for row in rows if isfinite(row["median_s"])]
    if not finished:
        return f"{arm.name}: half or more were dropped at every size ({dropped_words(arm)})."
    first, last = finished[0], finished[-1]
    grew = f"took {seconds(first['median_s'])} at {first['size_bytes']} bytes"
    if last is not first:
        grew += f" and {seconds(last['median_s'])} at {last['size_bytes']}"
    return f"{arm.name} {grew} ({arm.vary} varied); {dropped_words(arm)}."


def dropped_words(arm: Arm) -> str:
    """Return `none of 700 transactions was dropped`, `12 of 700 transactions were dropped`."""
    lost = int(np.sum(dropped(arm.table)))
    of = count(len(arm.table), "transaction")
    return f"{f'{lost:,}' if lost else 'none'} of {of} {'were' if lost > 1 else 'was'} dropped"


def cost_words(arm: Arm) -> str:
    """Return the straight line as text: `1.05 s + 0.98 ms a byte`; "" without a line."""
    line = straight_line(size_statistics(arm))
    if line is None:
        return ""
    sign = "−" if line.per_byte_s < 0 else "+"
    return f"{seconds(line.fixed_s)} {sign} {1000 * abs(line.per_byte_s):.3g} ms a byte"


def setup_words(arm: Arm) -> str:
    """Return what the set-up of a connection took, and where that is known from; "" if it is not."""
    if arm.setup is not None:
        where = "" if arm.setup.source == arm.name else f" in {arm.setup.source}"
        return f"{seconds(arm.setup.seconds)} (median of {arm.setup.samples:,}{where})"
    known = arm.table["connect_s"][~np.isnan(arm.table["connect_s"])]
    if not len(known):
        return ""
    return f"{seconds(float(np.median(known)))} (median of {len(known):,})"
