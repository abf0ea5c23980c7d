"""Output of `analyze --fairness`: how evenly the TCP flows of a session share the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.recording.fair_shares import fair_shares
from multitracer.words import count, portable, rate, share

if TYPE_CHECKING:
    from multitracer.cli._output import Page
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document


def show_fairness(sheet: Page, recording: Recording) -> None:
    """Write gap and index of the time in which all flows are active, and a line for each flow."""
    fair = fair_shares(recording)
    for row in fair.fairness.rows():
        even = "" if row["jain"] is None else f": Jain's index {row['jain']:.3f}"
        gap = f"no gap: {row['reason']}" if row["gap"] is None else f"gap {row['gap']:.2f}"
        sheet.line(f"Fairness of {count(row['flows'], 'flow')}{even}{', ' if even else ': '}{gap}", bold=True)
    rows = [
        (
            portable(row["flow"]),
            rate(row["rate_bps"]),
            "-" if row["share"] is None else share(row["share"], 1),
        )
        for row in fair.shares.rows()
    ]
    if rows:
        sheet.table(("flow", "rate", "share"), rows, right=(1, 2))
    for note in fair.notes:
        sheet.line(portable(note))


def fairness_document(recording: Recording) -> Document:
    """Return the member `fairness` of `analyze --json`; what is missing is null."""
    fair = fair_shares(recording)
    (whole,) = fair.fairness.rows()
    flows = [{name: row[name] for name in ("flow", "rate_bps", "share")} for row in fair.shares.rows()]
    return {**whole, "shares": flows, "notes": [portable(note) for note in fair.notes]}
