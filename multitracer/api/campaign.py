"""What `multitracer.open_campaign` returns: a campaign's tables as DataFrames, and answers to SQL."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import connection, query
from multitracer.campaign.schemas import DOCS, TABLES
from multitracer.errors import InputError
from multitracer.words import count

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import duckdb
    import pandas as pd
    import pyarrow.dataset as ds


def open_campaign(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
) -> Campaign:
    """Open a campaign that `multitracer campaign run` made (docs/campaigns.md); no row is read yet.

    Parameters
    ----------
    path : str or path
        Its folder, or a URL that fsspec knows: `s3://BUCKET/FOLDER`.
    storage_options : mapping, optional
        For the client of a URL, as pandas takes them; by default from the environment.

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
        """Return a whole table; `attrs["columns"]` has the unit and the meaning of each column.

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
            raise InputError(f"a campaign has no table {table!r}; there are {', '.join(TABLES)}")
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
