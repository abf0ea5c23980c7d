"""Which seconds of a campaign were bad, and the questions about them that DuckDB answers.

The rule is that of a drive (`multitracer.analysis.mobility.stretches`), with one difference: what is typical
is the upper quartile of the whole campaign, so that a drive that was bad throughout is bad here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import duckdb
import pyarrow as pa

from multitracer.analysis.mobility.causes import (
    POOR_RSRQ_DB,
    POOR_SINR_DB,
    WEAK_RSCP_DBM,
    WEAK_RSRP_DBM,
    WEAK_RSSI_DBM,
)
from multitracer.analysis.mobility.stretches import GOOD_BPS, OUTAGE_SHARE, POOR_SHARE
from multitracer.campaign.query import answer, connection
from multitracer.errors import InputError
from multitracer.words import printable

if TYPE_CHECKING:
    from multitracer.campaign.catalogue import Catalogue
    from multitracer.tables import Row

_MEMORY = "2GB"
"""Medians of 10^7 seconds by a label, twice, take a little more than 1 GB."""
_WANTED = (
    "coalesce(wanted, limited_by IS NOT NULL "
    "AND NOT (limited_by = 'application' AND coalesce(part, '') IN ('own', 'peer')))"
)
"""The user waited for data: neither the phone's program nor its next request kept the server waiting, or its
test program loaded."""
_OUT = "coalesce(limited_by = 'outage' OR (limited_by = 'recovery' AND coalesce(part, '') = 'timer'), false)"
_WEAK = f"coalesce(rsrp_dbm < {WEAK_RSRP_DBM}, rscp_dbm < {WEAK_RSCP_DBM}, rssi_dbm < {WEAK_RSSI_DBM})"
_POOR = f"coalesce(sinr_db < {POOR_SINR_DB}, rsrq_db < {POOR_RSRQ_DB})"
_TYPICAL = (
    "SELECT quantile_cont(throughput_bps, 0.75) FILTER (wanted) AS typical_bps, "
    "quantile_cont(throughput_bps, 0.75) FILTER (NOT wanted) AS usual_bps "
    f"FROM (SELECT throughput_bps, {_WANTED} AS wanted FROM seconds WHERE throughput_bps IS NOT NULL)"
)
_JUDGED = """(
    SELECT *,
        CASE WHEN by_rate THEN throughput_bps < (CASE WHEN {out} THEN {out_bps} ELSE {poor_bps} END)
             WHEN radio IS NOT NULL THEN radio AND NOT coalesce(throughput_bps >= {good_bps}, false)
        END AS bad,
        CASE WHEN by_rate AND {typical_bps} > 0 THEN greatest(0.0, 1 - throughput_bps / {typical_bps})
        END AS lost_s
    FROM (
        SELECT *,
            ({wanted}) AND throughput_bps IS NOT NULL AS by_rate,
            CASE WHEN coalesce({weak}, {poor}) IS NOT NULL
                 THEN coalesce({weak}, false) OR coalesce({poor}, false) END AS radio
        FROM seconds
    )
)"""


class Bounds(NamedTuple):
    """What the seconds of a campaign are compared with, in bit/s; 0 where no second tells."""

    typical_bps: float
    """Upper quartile of the seconds in which data were wanted."""
    good_bps: float
    """From here on a second was good, whatever its radio, if nobody knows what was wanted."""

    @property
    def poor_bps(self) -> float:
        """Below it a second in which data were wanted is bad."""
        return POOR_SHARE * self.typical_bps


class Engine:
    """The tables of a catalogue, ready for questions; use as a context manager.

    Parameters
    ----------
    catalogue : Catalogue

    Attributes
    ----------
    bounds : Bounds
    judged : str
        For FROM: `seconds` with `by_rate` (judged by its rate), `bad` (NULL if it cannot be judged) and
        `lost_s` (the part of the second that a typical rate would have saved; NULL if judged by the radio).

    Raises
    ------
    InputError
        If a part is gone or is no Parquet file, or memory is short.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._connection = connection(catalogue, memory=_MEMORY)
        at = self.row(_TYPICAL)
        self.bounds = Bounds(at["typical_bps"] or 0.0, max(OUTAGE_SHARE * (at["usual_bps"] or 0.0), GOOD_BPS))
        self.judged = _judged(self.bounds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def table(self, sql: str) -> pa.Table:
        """Return the answer of a question."""
        try:
            return answer(self._connection, sql)
        except (duckdb.Error, OSError, pa.ArrowInvalid) as error:
            raise InputError(f"report: {printable(' '.join(str(error).split()))}") from error

    def rows(self, sql: str) -> list[Row]:
        """Return the answer of a question, a dict for each row."""
        rows: list[Row] = self.table(sql).to_pylist()
        return rows

    def row(self, sql: str) -> Row:
        """Return the one row of an answer."""
        return self.rows(sql)[0]


def _judged(bounds: Bounds) -> str:
    return _JUDGED.format(
        out=_OUT, wanted=_WANTED, weak=_WEAK, poor=_POOR, poor_bps=repr(bounds.poor_bps),
        out_bps=repr(OUTAGE_SHARE * bounds.typical_bps), good_bps=repr(bounds.good_bps),
        typical_bps=repr(bounds.typical_bps),
    )  # fmt: skip
