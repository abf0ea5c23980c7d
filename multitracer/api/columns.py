"""Every table and column of the API, of `export` and of plug-ins, with its unit and meaning."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pandas as pd

from multitracer import (
    application,
    link,
    mobility,
    radio,
    sender,
    signalling,
    tables,
    tcp,
    transactions,
    wtcp,
)
from multitracer.clock.model.edges import CLOCK_EDGES, CLOCK_MAPPING
from multitracer.cross_layer import FAIRNESS, SHARES
from multitracer.errors import InputError
from multitracer.findings import COMPARED, FINDINGS, LIMITS, LINK_USE, SESSIONS_NMI

if TYPE_CHECKING:
    from multitracer.tables import Schema

_SCHEMAS = (
    tcp.CONNECTIONS,
    tcp.DIRECTIONS,
    tables.SEGMENTS,
    tcp.TCP_SEGMENTS,
    tcp.RTT_SAMPLES,
    tcp.SEGMENT_VERDICTS,
    sender.TCP_STATE,
    sender.TCP_EVENTS,
    sender.TCP_PHASES,
    sender.SERIES,
    link.LINK_FRAMES,
    link.LINK_EVENTS,
    radio.RADIO,
    radio.POSITION,
    radio.GAPS,
    radio.MARKERS,
    signalling.SIGNALLING,
    signalling.HANDOVERS,
    mobility.JUDGED_HANDOVERS,
    mobility.CELLS,
    mobility.STAYS,
    mobility.STRETCHES,
    mobility.ROUTE,
    mobility.ROUTE_GAPS,
    mobility.AROUND,
    mobility.AROUND_LIMITS,
    mobility.EPOCHS,
    transactions.TRANSACTIONS,
    wtcp.WTCP_FLOWS,
    application.APPLICATION_RATE,
    application.APPLICATION_SUMS,
    application.PINGS,
    CLOCK_EDGES,
    CLOCK_MAPPING,
    FINDINGS,
    LIMITS,
    LINK_USE,
    SESSIONS_NMI,
    FAIRNESS,
    SHARES,
    COMPARED,
)


@cache
def schemas() -> dict[str, Schema]:
    """Return the schema of every table by its name."""
    return {schema.name: schema for schema in _SCHEMAS}


def columns(table: str | None = None) -> pd.DataFrame:
    """List the columns of a table, or of all tables.

    Parameters
    ----------
    table : str, optional
        Its name, such as "segments".

    Returns
    -------
    DataFrame
        A row for each column: table, column, dtype, unit, meaning.

    Raises
    ------
    InputError
        If there is no such table.

    Examples
    --------
    >>> mt.columns("position")[["column", "unit"]].head(3)
            column           unit
    0      time_ns  ns since 1970
    1  fix_time_ns  ns since 1970
    2         line
    """
    known = schemas()
    if table is not None and table not in known:
        raise InputError(f"no table {table!r}; there are {', '.join(known)}")
    chosen = known.values() if table is None else [known[table]]
    rows = [(schema.name, c.name, c.dtype, c.unit, c.doc) for schema in chosen for c in schema]
    return pd.DataFrame(rows, columns=["table", "column", "dtype", "unit", "meaning"])
