"""How far two sides of many sessions are apart, and how surely: `mt.compare`."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from multitracer.api.campaign import Campaign
from multitracer.api.frames import explained
from multitracer.campaign.compared import compared, comparison_page, header, row
from multitracer.campaign.compared_sides import UNITS
from multitracer.errors import InputError
from multitracer.findings import COMPARED
from multitracer.report.page import write

if TYPE_CHECKING:
    from multitracer.analysis.comparison.sides import Judged
    from multitracer.campaign.catalogue import Catalogue
    from multitracer.campaign.compared import Compared
    from multitracer.tables import Row

    Place: TypeAlias = str | os.PathLike[str] | Campaign


class Comparison:
    """Two sides compared: `headline` is the answer, `table` the numbers, `notes` what to know of them.

    Attributes
    ----------
    headline : str
    notes : list of str
    sides : dict of str to int
        How many sessions each side has, by its name; the first side first.
    """

    def __init__(self, result: Compared) -> None:
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
        Each a campaign, a folder of sessions, a session or a capture; what is no campaign is analysed
        first, and not kept. No second one with `by`.
    by : str, optional
        A label: its two values are the sides; LABEL=A,B of a label with more.

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
    <multitracer.Comparison: operator b's throughput was ... in these 2 sessions; so few cannot show ...>
    """
    if (second is None) == (by is None):
        raise InputError("compare: name two sides, or one place and by=LABEL")
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
