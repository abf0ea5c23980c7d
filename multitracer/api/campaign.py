"""The campaign of `multitracer.open_campaign`, and the comparison of `multitracer.compare`.

The tables of a campaign are DataFrames, and can be queried by SQL. A comparison states the difference between
two groups of sessions, and its confidence interval.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd
import pyarrow as pa

from multitracer.api.frames import explained
from multitracer.api.procedures import procedure_statistics
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.compared import compared, comparison_page, header, row
from multitracer.campaign.compared_sides import UNITS
from multitracer.campaign.query import QueryBounds, bounded_query, connection
from multitracer.campaign.schemas import DOCS, TABLES
from multitracer.errors import InputError
from multitracer.report.page import write
from multitracer.schemas.findings import COMPARED
from multitracer.schemas.signalling import PROCEDURES
from multitracer.words import as_html, count, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import pyarrow.dataset as ds

    from multitracer.analysis.comparison.sides import Judged
    from multitracer.campaign.compared import ComparedSides
    from multitracer.tables import Row

    Place: TypeAlias = "str | os.PathLike[str] | Campaign"


def open_campaign(path: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None) -> Campaign:
    """Open a campaign that `multitracer campaign run` created (docs/campaigns.md).

    Rows are read only when they are needed.

    Parameters
    ----------
    path : str or path
        Folder of the campaign, or a URL that fsspec supports: `s3://BUCKET/FOLDER`.
    storage_options : mapping, optional
        Options for the client of a URL, as in pandas; by default from the environment.

    Returns
    -------
    Campaign

    Raises
    ------
    MultiTracerError
        If the path contains no campaign, or a newer version of MultiTracer wrote it.

    Examples
    --------
    >>> mt.open_campaign(place)
    <multitracer.Campaign '...': 1 session, 1 second, 0 failures>
    """
    return Campaign(Catalogue(path, storage_options))


class Campaign:
    """A campaign in its state at the time of opening, even if a run adds sessions later."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def tables(self) -> dict[str, int]:
        """The number of rows of each table, by the name of the table.

        Examples
        --------
        >>> campaign.tables["sessions"]
        1
        """
        return {name: self._catalogue.snapshot.rows(name) for name in TABLES}

    def query(
        self, sql: str, *, timeout_s: float = 60.0, max_rows: int | None = None, max_bytes: int | None = None
    ) -> pd.DataFrame:
        """Return the result of one SQL statement for DuckDB, which a process of its own computes.

        The statement can read only the campaign's tables.

        Parameters
        ----------
        sql : str
        timeout_s : float
            Time that the query may take, in s.
        max_rows, max_bytes : int, optional
            Maximum number of rows of the result, and of their bytes in memory; by default unlimited.

        Raises
        ------
        InputError
            If the statement is invalid or uses a forbidden function, or exceeds a bound.

        Examples
        --------
        >>> campaign.query("SELECT name, trust FROM sessions")["name"].tolist()
        ['drive']
        """
        with bounded_query(self._catalogue, sql, QueryBounds(timeout_s, max_rows, max_bytes)) as answer:
            frame: pd.DataFrame = pa.Table.from_batches(answer.batches, answer.schema).to_pandas()
        return frame

    def relation(self, table: str) -> duckdb.DuckDBPyRelation:
        """Return a table as a DuckDB relation; its rows are read when they are requested.

        Examples
        --------
        >>> campaign.relation("seconds").aggregate("round(sum(throughput_bps)) AS bits").fetchall()
        [(40000.0,)]
        """
        return connection(self._catalogue).table(self._name(table))

    def dataset(self, table: str) -> ds.Dataset:
        """Return a table as an Arrow dataset, for other programs.

        Examples
        --------
        >>> campaign.dataset("sessions").count_rows()
        1
        """
        return self._catalogue.dataset(self._name(table))

    def frame(self, table: str) -> pd.DataFrame:
        """Return a complete table; `attrs["columns"]` has the unit and the meaning of each column.

        Examples
        --------
        >>> campaign.frame("seconds").attrs["columns"]["rtt_ns"]["unit"]
        'ns'
        """
        schema = TABLES[self._name(table)]
        frame: pd.DataFrame = self.dataset(table).to_table().to_pandas()
        frame.attrs = {
            "table": table,
            "meaning": DOCS[schema],
            "columns": {each.name: {"unit": each.unit, "meaning": each.doc} for each in schema},
        }
        return frame

    def procedure_statistics(self, *by: str) -> pd.DataFrame:
        """Return the procedures of all sessions by kind: count, failures by cause, duration (docs/signalling.md).

        Parameters
        ----------
        *by : str
            Also by "cell", "hour", "host" or "session"; `mt.columns("procedure_statistics")` lists the columns.

        Examples
        --------
        >>> campaign.procedure_statistics("cell").empty
        True
        """
        return procedure_statistics(self.frame(PROCEDURES.name), by)

    def _name(self, table: str) -> str:
        if table not in TABLES:
            raise InputError(f"a campaign has no table {table!r}; the tables are {', '.join(TABLES)}")
        return table

    def __repr__(self) -> str:
        rows = self.tables
        return (
            f"<multitracer.Campaign {self._catalogue.store.name!r}: {count(rows['sessions'], 'session')}, "
            f"{count(rows['seconds'], 'second')}, {count(rows['failures'], 'failure')}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{number:,}</td></tr>" for name, number in self.tables.items())
        name = as_html(self._catalogue.store.name)
        return f"<b>{name}</b><table><tr><th>table</th><th>rows</th></tr>{rows}</table>"


class Comparison:
    """The comparison of two groups of sessions ("sides").

    Attributes
    ----------
    headline : str
        The main result in a sentence.
    notes : list of str
        Sentences on the method and on omitted data.
    sides : dict of str to int
        Number of sessions of each side by its name; the first side comes first.
    """

    def __init__(self, result: ComparedSides) -> None:
        self._result = result
        self.headline = result.headline
        self.notes = result.notes
        groups = zip(result.names, result.groups, strict=True)
        self.sides = {name: len(group.sessions) for name, group in groups}

    @property
    def table(self) -> pd.DataFrame:
        """The differences, a row for each quantity of the sides; `mt.columns("compared")` lists the columns.

        Examples
        --------
        >>> of = mt.compare(operators, by="operator")
        >>> of.table.loc[0, "name"], int(of.table.loc[0, "first_sessions"]), bool(of.table.loc[0, "shown"])
        ('goodput of transfers', 1, False)
        """
        frame = pd.DataFrame([_row(each) for each in self._result.rows], columns=[c.name for c in COMPARED])
        frame.attrs = {"table": COMPARED.name, "columns": explained(COMPARED, source="mt.compare")}
        return frame

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the page of the comparison, with the distributions of throughput and RTT.

        Examples
        --------
        >>> mt.compare(operators, by="operator").report(folder / "operators.html")
        """
        write(path, comparison_page(self._result))

    def __repr__(self) -> str:
        return f"<multitracer.Comparison: {printable(self.headline)}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{as_html(each)}</li>" for each in [*self._result.counts, *self.notes])
        heads = "".join(f"<th>{as_html(each)}</th>" for each in header(self._result))
        body = "".join(
            f"<tr>{''.join(f'<td>{as_html(cell)}</td>' for cell in row(each))}</tr>" for each in self._result.rows
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<b>{as_html(self.headline)}</b><ul>{notes}</ul>{table}"


def compare(first: Place, second: Place | None = None, *, by: str | None = None) -> Comparison:
    """Compare two groups of sessions ("sides"), as `multitracer compare` does (docs/compare.md).

    Parameters
    ----------
    first, second : path or Campaign
        A campaign, a folder of sessions, a session or a capture. An input that is not a campaign is analysed
        first; the result is not stored. With `by`, `second` must be None.
    by : str, optional
        A label whose two values divide the sessions of `first` into the sides; LABEL=A,B for a label with
        more values.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If `second` and `by` are both given or both missing, or if a side cannot be read.

    Examples
    --------
    >>> mt.compare(operators, by="operator")
    <multitracer.Comparison: Whether operator b's goodput of transfers differs from operator a's cannot be told: ...>
    """
    if (second is None) == (by is None):
        raise InputError("compare: give two campaigns or folders, or one campaign or folder and by=LABEL")
    sides = (_place(first), None if second is None else _place(second))
    return Comparison(compared(*sides, by, shown=lambda _: None, is_drawn=True))


def _place(of: Place) -> str | Catalogue:
    return of._catalogue if isinstance(of, Campaign) else os.fspath(of)


def _row(judged: Judged) -> Row:
    quantity = judged.quantity
    return {
        "name": quantity.name,
        "unit": UNITS.get(quantity.name, ""),
        **dict(zip(("first_sessions", "second_sessions"), judged.sessions, strict=True)),
        **dict(zip(("first_mean", "second_mean"), judged.means, strict=True)),
        **dict(zip(("first_median", "second_median"), judged.medians, strict=True)),
        "difference_is": "relative" if quantity.relative else "absolute",
        **judged.difference._asdict(),
        "shown": judged.is_shown,
    }
