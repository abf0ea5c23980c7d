"""How the clocks of a session relate, as a notebook shows it."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from multitracer.api.frames import explained
from multitracer.clock.model.edges import edges_table, mapping_table
from multitracer.clock.model.relation import Clock, PlacementStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    import plotly.graph_objects as go

    from multitracer.clock.session_clock import Clocks
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table

_MOST_ROWS = 50


class Alignment:
    """The clocks of a session and how they relate (docs/clock.md).

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
        """The clock onto which the others are mapped: HOST, or HOST:DOMAIN."""
        return (
            self._clocks.reference.host
            if self._clocks.reference.domain == "realtime"
            else str(self._clocks.reference)
        )

    @cached_property
    def edges(self) -> pd.DataFrame:
        """Every relation of two clocks, one row for each interval between clock steps.

        `mt.columns("clock_edges")`.
        """
        return self._frame(edges_table(self._clocks.graph.relations))

    @cached_property
    def mapping(self) -> pd.DataFrame:
        """How each clock maps onto the reference, or why it does not; `mt.columns("clock_mapping")`."""
        return self._frame(mapping_table(self._clocks.graph, self._clocks.reference))

    def place(
        self, times: Iterable[pd.Timestamp | str], clock: str, *, onto: str | None = None
    ) -> pd.DataFrame:
        """Return times of one clock on the reference, or on another clock.

        Parameters
        ----------
        times : iterable of Timestamp or str
            As `clock` stamped them.
        clock, onto : str
            HOST or HOST:DOMAIN.

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
        """Clocks that could not be related, and why, a sentence each."""
        return list(self._clocks.graph.refused)

    @property
    def complaints(self) -> list[str]:
        """Faults of the clocks, a sentence each with the repair."""
        return [f"{each.code}: {each.sentence}. Repair: {each.repair}." for each in self._clocks.complaints]

    def figure(self) -> go.Figure:
        """Return the figure of the clocks and the evidence behind each relation."""
        from multitracer.figures.alignment import alignment_figure  # noqa: PLC0415  # plotly, when it is drawn

        return alignment_figure(self._clocks)

    def _frame(self, table: Table) -> pd.DataFrame:
        frame = table.to_pandas()
        frame.attrs = {"columns": explained(table.schema, source=self._recording.name)}
        return frame

    def __repr__(self) -> str:
        return (
            f"<multitracer clocks of {self._recording.name!r}: {len(self.edges)} edges onto {self.reference}>"
        )

    def _repr_html_(self) -> str:
        shown = self.edges[
            [
                "from_host",
                "from_domain",
                "to_host",
                "to_domain",
                "offset_ns",
                "uncertainty_ns",
                "skew_ppm",
                "method",
            ]
        ]
        paragraphs = "".join(
            f"<p>! {escape(each)}</p>" for each in [*self.refused, *self.complaints][:_MOST_ROWS]
        )
        rows = shown.head(_MOST_ROWS).to_html(index=False)
        return f"<b>Clocks, onto {escape(self.reference)}</b>{rows}{paragraphs}"
