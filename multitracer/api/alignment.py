"""The relations of the clocks of a session, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from multitracer.api.frames import explained
from multitracer.api.kept import lazy_property
from multitracer.clock.model.edges import edges_table, mapping_table
from multitracer.clock.model.relation import Clock, PlacementStatus
from multitracer.words import as_html, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import plotly.graph_objects as go

    from multitracer.clock.session_clock import Clocks
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table

_MOST_ROWS = 50


class Alignment:
    """The clocks of a session and their relations (docs/clock.md).

    Examples
    --------
    >>> clocks = session.align()
    >>> clocks.reference
    'mobile'
    """

    def __init__(self, recording: Recording, clocks: Clocks) -> None:
        self._recording = recording
        self._clocks = clocks

    @property
    def reference(self) -> str:
        """The reference clock, to which all other clocks are converted: HOST or HOST:DOMAIN.

        Examples
        --------
        >>> session.align(reference="fixed").reference
        'fixed'
        """
        return (
            self._clocks.reference.host if self._clocks.reference.domain == "realtime" else str(self._clocks.reference)
        )

    @lazy_property
    def edges(self) -> pd.DataFrame:
        """All relations between two clocks, one row for each interval between clock steps.

        `mt.columns("clock_edges")`.

        Examples
        --------
        >>> bool((session.align().edges["uncertainty_ns"] >= 0).all())
        True
        """
        return self._frame(edges_table(self._clocks.graph.relations))

    @lazy_property
    def mapping(self) -> pd.DataFrame:
        """The conversion of each clock to the reference, or the reason why there is none.

        `mt.columns("clock_mapping")`.

        Examples
        --------
        >>> "offset_ns" in session.align().mapping
        True
        """
        return self._frame(mapping_table(self._clocks.graph, self._clocks.reference))

    def place(self, times: Iterable[pd.Timestamp | str], clock: str, *, onto: str | None = None) -> pd.DataFrame:
        """Convert times of one clock to the reference clock, or to another clock.

        Parameters
        ----------
        times : iterable of Timestamp or str
            Times by the clock `clock`.
        clock, onto : str
            Source clock and target clock: HOST or HOST:DOMAIN. The default of `onto` is the reference clock.

        Returns
        -------
        DataFrame
            `time_ns` (NaT where it cannot be known), `error_ns` (half-width of the 95 % interval), `status`:
            placed, extrapolated, ambiguous (at a step) or unplaced.

        Examples
        --------
        >>> session.align().place(["2026-11-21T09:19:10Z"], "fixed")["status"].tolist()
        ['placed']
        """
        stamps = pd.DatetimeIndex([pd.to_datetime(each, utc=True) for each in times]).as_unit("ns").asi8
        target = None if onto is None else Clock.parse(onto)
        there = self._clocks.place(stamps, Clock.parse(clock), target)
        columns = {
            "time_ns": pd.to_datetime(there.time_ns, utc=True),
            "error_ns": there.bound_ns,
            "status": [PlacementStatus(each).name.lower() for each in there.status],
        }
        return pd.DataFrame(columns)

    @property
    def refused(self) -> list[str]:
        """A sentence for each clock that could not be related, with the reason.

        Examples
        --------
        >>> session.align().refused
        []
        """
        return list(self._clocks.graph.refused)

    @property
    def complaints(self) -> list[str]:
        """A sentence for each fault of a clock, with the remedy.

        Examples
        --------
        >>> session.align().complaints
        []
        """
        return [f"{each.code}: {each.sentence}. Repair: {each.repair}." for each in self._clocks.complaints]

    def figure(self) -> go.Figure:
        """Return the figure of the clocks and the evidence behind each relation.

        Examples
        --------
        >>> len(session.align().figure().data) > 0
        True
        """
        from multitracer.figures.alignment import alignment_figure  # noqa: PLC0415  # plotly, when it is drawn

        return alignment_figure(self._clocks)

    def _frame(self, table: Table) -> pd.DataFrame:
        frame = table.to_pandas()
        frame.attrs = {"columns": explained(table.schema, source=self._recording.name)}
        return frame

    def __repr__(self) -> str:
        reference = printable(self.reference)
        return f"<multitracer clocks of {self._recording.name!r}: {len(self.edges)} edges onto {reference}>"

    def _repr_html_(self) -> str:
        shown = self.edges[
            ["from_host", "from_domain", "to_host", "to_domain", "offset_ns", "uncertainty_ns", "skew_ppm", "method"]
        ]
        paragraphs = "".join(f"<p>! {as_html(each)}</p>" for each in [*self.refused, *self.complaints][:_MOST_ROWS])
        rows = shown.head(_MOST_ROWS).map(_printable).to_html(index=False)
        return f"<b>Clocks, onto {as_html(self.reference)}</b>{rows}{paragraphs}"


def _printable(cell: object) -> object:
    return printable(cell) if isinstance(cell, str) else cell
