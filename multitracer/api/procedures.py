"""Statistics of procedures between phone and network: of a session or of a campaign, from their table PROCEDURES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from multitracer.api.frames import explained
from multitracer.errors import InputError
from multitracer.schemas.signalling import PROCEDURE_STATISTICS, ProcedureResult
from multitracer.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

CELL = ("rat", "physical_cell_id", "channel")
"""Columns that name a cell; its identity is not always in a log."""
_BY = {"cell": CELL, "hour": ("hour_ns",), "host": ("host",), "session": ("session",)}
FAILURES = (
    ProcedureResult.REJECTED.value,
    ProcedureResult.FAILED.value,
    ProcedureResult.RE_ESTABLISHED.value,
    ProcedureResult.UNANSWERED.value,
)
"""Results that are failures; a procedure that the log cuts, or whose answer cannot be read, is none."""
_HIGH = 0.95


def procedure_statistics(procedures: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return PROCEDURE_STATISTICS of rows of PROCEDURES.

    Parameters
    ----------
    procedures : DataFrame
    by : sequence of str
        "cell", "hour" (of the begin, UTC), "host" or "session": a row for each, beside the kind.

    Raises
    ------
    InputError
        If one of these does not exist.
    """
    if unknown := [each for each in by if each not in _BY]:
        raise InputError(f"procedure_statistics: there is no {unknown[0]!r}; give some of {', '.join(_BY)}")
    names = ["kind", *(name for each in by for name in _BY[each])]
    rows = procedures[procedures["result"] != ProcedureResult.CUT.value]
    begin = rows["begin_ns"].where(rows["begin_ns"].notna(), rows["end_ns"])
    rows = rows.assign(hour_ns=pd.to_datetime(begin, utc=True).dt.floor("h"))
    if missing := [name for name in names if name not in rows]:
        raise InputError(f"procedure_statistics: these procedures have no column {missing[0]!r}")
    made = [
        dict(zip(names, key, strict=True)) | _of(group) for key, group in rows.groupby(names, dropna=False, sort=True)
    ]
    columns = [column for column in PROCEDURE_STATISTICS if column.name in names or column.name in _COUNTED]
    typed = Table.empty(PROCEDURE_STATISTICS).to_pandas().dtypes
    frame = pd.DataFrame(made, columns=[column.name for column in columns])
    frame = frame.astype({column.name: typed[column.name] for column in columns})
    frame.attrs = {"table": PROCEDURE_STATISTICS.name, "columns": explained(columns, source="procedures")}
    return frame


_COUNTED = ("count", "complete", "failures", "causes", "durations", "duration_median_ns", "duration_p95_ns")


def _of(group: pd.DataFrame) -> dict[str, object]:
    """Return count, failures by cause, and durations of the procedures that reached their end."""
    failed, complete = group["result"].isin(FAILURES), group["result"] == ProcedureResult.COMPLETE.value
    took_ns = group.loc[complete, "duration_ns"].dropna().astype("float64")
    return {
        "count": len(group), "complete": int(complete.sum()), "failures": int(failed.sum()),
        "causes": _causes(group[failed]), "durations": len(took_ns), "duration_median_ns": took_ns.median(),
        "duration_p95_ns": took_ns.quantile(_HIGH),
    }  # fmt: skip


def _causes(failed: pd.DataFrame) -> str:
    """Return the causes of failures with their counts: "2 of 15: no suitable cells in tracking area; 1 unanswered"."""
    words: dict[str, int] = {}
    columns = (failed[name].tolist() for name in ("result", "cause", "cause_number"))
    for result, cause, number in zip(*columns, strict=True):
        text = cause if isinstance(cause, str) else ""
        if not pd.isna(number):
            text = f"{int(number)}: {text}" if text else str(int(number))
        word = f"of {text}" if text else str(result)
        words[word] = words.get(word, 0) + 1
    return "; ".join(f"{many} {word}" for word, many in sorted(words.items(), key=lambda each: (-each[1], each[0])))
