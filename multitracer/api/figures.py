"""The figures of a session, as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.transports import transports_of
from multitracer.api.kept import Kept
from multitracer.errors import InputError
from multitracer.figures.delivered import delivered_figure, rates_figure
from multitracer.figures.drive_figure import epochs_figure
from multitracer.figures.environment import overlay, panels
from multitracer.figures.rtt_size import cdf_figure, rtt_size_figure
from multitracer.figures.stacked import OFFSET_BYTES, StackedView, stacked
from multitracer.figures.time_sequence import connection_figure
from multitracer.recording.deliveries import flow_curves
from multitracer.recording.transactions import sources_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.analysis.transports import Transport
    from multitracer.figures.palette import ThemeName
    from multitracer.recording.deliveries import FlowCurve


class SessionFigures(Kept):
    """The figures of a session; each call returns a new plotly figure."""

    def time_sequence(
        self, connection: int | None = None, *, reverse: bool | None = None, theme: ThemeName = "light"
    ) -> go.Figure:
        """Return the time/sequence figure of a connection; `theme` is "light" or "dark".

        Examples
        --------
        >>> len(session.time_sequence().data) > 5
        True
        """
        return connection_figure(*self._recording.chosen(connection), reverse=reverse, theme=theme)

    def stacked(
        self,
        connection: int | None = None,
        *,
        reverse: bool | None = None,
        offset_bytes: int = OFFSET_BYTES,
        theme: ThemeName = "light",
    ) -> go.Figure:
        """Return the stacked figure: packets of both endpoints, the sender's variables, the link.

        Parameters
        ----------
        offset_bytes : int
            Vertical distance between the series of link, sender and receiver.

        Examples
        --------
        >>> "TcpRcv_data" in {trace.meta for trace in session.stacked().data}
        True
        """
        return stacked(self._transfer(connection, reverse), StackedView(offset_bytes=offset_bytes), theme=theme)

    def handovers_figure(self, of: str = "throughput", *, theme: ThemeName = "light") -> go.Figure:
        """Return the figure of a quantity around handovers, with 95 % intervals.

        `of` as in `handover_epochs`.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsal")
        >>> len(drive.handovers_figure("Radio_rssi").data) > 0
        True
        """
        table, units = self._drive.epochs(of), {"throughput": "bit/s", "rtt": "ns"}
        unit = units.get(of) or str(self._radio_context.series[of].provenance["unit"])
        return epochs_figure(table, title=of, unit=unit, theme=theme)

    def delivered_figure(self, *others: SessionFigures, theme: ThemeName = "light") -> go.Figure:
        """Return the figure of the packets delivered by each TCP and WTCP flow, also of other sessions.

        Examples
        --------
        >>> [trace.name for trace in session.delivered_figure().data][0]
        'cubic, mobile:58556 &gt; fixed:5001'
        """
        curves, why = _curves((self, *others))
        return delivered_figure(curves, empty=why, theme=theme)

    def rates_figure(
        self, *others: SessionFigures, window_s: float | None = None, theme: ThemeName = "light"
    ) -> go.Figure:
        """Return the figure of the rate of each TCP and WTCP flow over time, also of other sessions.

        `window_s` is the length of the moving window in link seconds, > 0; by default a round number of at
        least 1/50 of the displayed time.

        Examples
        --------
        >>> len(session.rates_figure(window_s=2).data) > 0
        True
        """
        curves, why = _curves((self, *others))
        return rates_figure(curves, window_s=window_s, empty=why, theme=theme)

    def rtt_size(self, *others: SessionFigures) -> go.Figure:
        """Return the figure of transactions' RTT against message size, with other sessions for comparison.

        Examples
        --------
        >>> figure = over_tcp.rtt_size(over_centauruscomm)
        >>> {"TCP", "CentaurusComm"} <= {trace.name for trace in figure.data}
        True
        """
        return rtt_size_figure(self._transports(others))

    def rtt_distribution(self, *others: SessionFigures) -> go.Figure:
        """Return the distribution of transactions' RTT, with other sessions for comparison.

        Examples
        --------
        >>> figure = over_tcp.rtt_distribution(over_centauruscomm)
        >>> {"TCP", "CentaurusComm"} <= {trace.name for trace in figure.data}
        True
        """
        return cdf_figure(self._transports(others))

    def environment(self, *others: SessionFigures, size_bytes: int | None = None, apart: bool = False) -> go.Figure:
        """Return the radio conditions during transactions of one size; `apart` draws separate panels.

        Examples
        --------
        >>> len(over_tcp.environment(over_centauruscomm, size_bytes=1024).data) > 0
        True
        """
        return (panels if apart else overlay)(self._transports(others), size_bytes)

    def _transports(self, others: Sequence[SessionFigures]) -> list[Transport]:
        transports = transports_of([content for each in (self, *others) for content in sources_of(each._recording)])
        if not transports:
            name = self._recording.name
            raise InputError(
                f"{name}: this session contains no finished transaction; name a session that `measure run` wrote"
            )
        return transports


def _curves(sessions: Sequence[SessionFigures]) -> tuple[list[list[FlowCurve]], str]:
    """Return the curves of each session, and a text on the reasons why flows have no curve."""
    pairs = [flow_curves(each._recording) for each in sessions]
    return [curves for curves, _ in pairs], "; ".join(why for _, each in pairs for why in each[:1])
