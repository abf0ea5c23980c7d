"""Results of `multitracer.open_campaign` and `multitracer.compare`: a campaign, a comparison of two sides.

The tables of a campaign are DataFrames, and can be queried by SQL. A comparison states the difference between
two groups of sessions, and its confidence interval.
"""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from multitracer.api.frames import explained
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.compared import compared, comparison_page, header, row
from multitracer.campaign.compared_sides import UNITS
from multitracer.campaign.query import connection, query
from multitracer.campaign.schemas import DOCS, TABLES
from multitracer.errors import InputError
from multitracer.report.page import write
from multitracer.schemas.findings import COMPARED
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import pyarrow.dataset as ds

    from multitracer.analysis.comparison.sides import Judged
    from multitracer.campaign.compared import ComparedSides
    from multitracer.tables import Row

    Place: TypeAlias = "str | os.PathLike[str] | Campaign"


def open_campaign(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
) -> Campaign:
    """Open a campaign that `multitracer campaign run` made (docs/campaigns.md).

    Rows are read later, when needed.

    Parameters
    ----------
    path : str or path
        Its folder, or a URL that fsspec supports: `s3://BUCKET/FOLDER`.
    storage_options : mapping, optional
        Options for the client of a URL, as in pandas; by default from the environment.

    Returns
    -------
    Campaign

    Raises
    ------
    MultiTracerError
        If there is no campaign, or a newer MultiTracer wrote it.

    Examples
    --------
    >>> mt.open_campaign(place)
    <multitracer.Campaign '...': 1 session, 1 second, 0 failures>
    """
    return Campaign(Catalogue(path, storage_options))


class Campaign:
    """A campaign as it was when it was opened; a run may add to it meanwhile."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def tables(self) -> dict[str, int]:
        """The tables by name, and how many rows each has.

        Examples
        --------
        >>> campaign.tables["sessions"]
        1
        """
        return {name: self._catalogue.snapshot.rows(name) for name in TABLES}

    def query(self, sql: str) -> pd.DataFrame:
        """Return the answer of one SQL statement for DuckDB; it can read the tables and nothing else.

        Raises
        ------
        InputError
            If it is wrong, or asks for what is not allowed.

        Examples
        --------
        >>> campaign.query("SELECT name, trust FROM sessions")["name"].tolist()
        ['drive']
        """
        frame: pd.DataFrame = query(self._catalogue, sql).to_pandas()
        return frame

    def relation(self, table: str) -> duckdb.DuckDBPyRelation:
        """Return a table as a DuckDB relation, which is read only when its rows are asked for.

        Examples
        --------
        >>> campaign.relation("seconds").aggregate("round(sum(throughput_bps)) AS bits").fetchall()
        [(40000.0,)]
        """
        return connection(self._catalogue).table(self._name(table))

    def dataset(self, table: str) -> ds.Dataset:
        """Return a table as an Arrow dataset, for other programs that read these.

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
        name = escape(self._catalogue.store.name)
        return f"<b>{name}</b><table><tr><th>table</th><th>rows</th></tr>{rows}</table>"


class Comparison:
    """Two sides compared: `headline` is the answer, `table` the numbers, `notes` what to know of them.

    Attributes
    ----------
    headline : str
    notes : list of str
    sides : dict of str to int
        How many sessions each side has, by its name; the first side first.
    """

    def __init__(self, result: ComparedSides) -> None:
        self._result = result
        self.headline = result.headline
        self.notes = result.notes
        groups = zip(result.names, result.groups, strict=True)
        self.sides = {name: len(group.sessions) for name, group in groups}

    @property
    def table(self) -> pd.DataFrame:
        """A row for each quantity that a side has; `mt.columns("compared")` lists the columns.

        Examples
        --------
        >>> of = mt.compare(operators, by="operator")
        >>> of.table.loc[0, "name"], int(of.table.loc[0, "first_sessions"]), bool(of.table.loc[0, "shown"])
        ('throughput', 1, False)
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
        return f"<multitracer.Comparison: {self.headline}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{escape(each)}</li>" for each in [*self._result.counts, *self.notes])
        heads = "".join(f"<th>{escape(each)}</th>" for each in header(self._result.names))
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row(each))}</tr>"
            for each in self._result.rows
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<b>{escape(self.headline)}</b><ul>{notes}</ul>{table}"


def compare(first: Place, second: Place | None = None, *, by: str | None = None) -> Comparison:
    """Compare two sides of many sessions, as `multitracer compare` does (docs/compare.md).

    Parameters
    ----------
    first, second : path or Campaign
        Each a campaign, a folder of sessions, a session or a capture; an input that is not a campaign is
        analysed first, and the result is not stored. With `by` there is no second one.
    by : str, optional
        A label with two values, which are the sides; LABEL=A,B for a label with more values.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If neither or both of `second` and `by` are given, or a side cannot be read.

    Examples
    --------
    >>> mt.compare(operators, by="operator")
    <multitracer.Comparison: operator b's throughput was ... in these 2 sessions. These are too few ...>
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
