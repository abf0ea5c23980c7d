"""Makes the figure of the command `plot`, and the notes printed with it, from the command's options.

The figure shows one capture, or all logs of a session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from multitracer.cli._messages import warn
from multitracer.cli._options import Wish
from multitracer.cli._reading import axis_bounds_ns
from multitracer.errors import InputError
from multitracer.figures.drive_figure import drive_figure, drive_panels, figure_over_distance, over_distance
from multitracer.figures.marks import FigureMark, Fit
from multitracer.figures.series import TREND_ROLES
from multitracer.figures.stack import axis_origin_ns
from multitracer.figures.stacked import OFFSET_BYTES, StackedView, missing, stacked, stacked_panels

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go

    from multitracer.cli._options import NamedSpan
    from multitracer.cli._reading import InputChoice
    from multitracer.figures.palette import Props, ThemeName
    from multitracer.figures.stack import Panel
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.recording.transfer import Transfer


@dataclass
class Plot:
    """A connection to draw, with its recording and options."""

    recording: Recording
    capture: Capture
    connection: int
    reverse: bool | None
    reading: InputChoice
    theme: ThemeName
    notes: list[str] = field(default_factory=list)
    """The requested slopes, a line each."""

    @cached_property
    def transfer(self) -> Transfer:
        """The connection with the data of all logs of the session."""
        from multitracer.recording.transfer import Transfer

        return Transfer.of(self.recording, self.capture.offset + self.connection, reverse=self.reverse)

    def has_more(self, stack: bool | None) -> bool:
        """Return whether to draw the stacked figure.

        If `stack` is None, it is drawn if the session has more than one capture.
        """
        if stack is not None:
            return stack
        return not self.recording.is_one_capture and self.transfer.has_more

    @property
    def title(self) -> str:
        """The title of the page: sender, receiver and recording."""
        ends = self.capture.analysis.ends(self.connection)
        return f"{self.recording.name}: {ends.source} → {ends.destination}"

    def time_sequence(self) -> Props:
        """Return the figure of one capture, as a dict."""
        from multitracer.figures.time_sequence import plain_connection_figure

        begin_ns, end_ns = axis_bounds_ns(self.recording, self.reading, self.capture, speed=1)
        figure = plain_connection_figure(
            self.capture, self.connection, reverse=self.reverse, begin_ns=begin_ns, end_ns=end_ns, theme=self.theme
        )
        warn_if_empty(any("name" in trace for trace in figure["data"]))
        return figure


def warn_if_empty(anything: bool) -> None:
    """Warn if a figure contains no data of the connection."""
    if not anything:
        warn("this connection has no packets between --from and --to; the figure is empty")


def write(figure: go.Figure | Props, path: Path, *, title: str, theme: ThemeName, as_json: bool) -> None:
    """Write a figure as plotly's JSON, or as a page that loads no other file."""
    if as_json:
        if isinstance(figure, dict):
            import plotly.graph_objects as go  # slow to import, and a page needs it not

            figure = go.Figure(figure)
        path.write_text(figure.to_json(), "utf-8")
    else:
        from multitracer.report.plot_page import plot_page

        path.write_text(plot_page(figure, title=title, theme=theme), "utf-8", "backslashreplace")


def plot_stacked(plot: Plot, wish: Wish) -> go.Figure:
    """Return the stacked figure of all logs; the requested slopes are stored as notes of the plot."""
    transfer = plot.transfer
    begin_ns, end_ns = axis_bounds_ns(plot.recording, plot.reading, transfer.at_sender.capture)
    view = _view(wish, begin_ns, end_ns, origin_ns=axis_origin_ns(transfer.at_sender.capture))
    panels = stacked_panels(transfer, view)
    for pattern in missing(panels, wish.patterns):
        why = f": {transfer.without_link}" if transfer.without_link else ""
        warn(f"this recording has no series {pattern!r}{why}")
    if wish.trends:
        plot.notes += [s.label for panel in panels for s in panel.series if s.role in TREND_ROLES]
    warn_if_empty(any(panel.drawn for panel in panels if not panel.shades))
    if wish.distance:
        return _over_distance(plot, panels)
    return stacked(transfer, view, panels=panels, theme=plot.theme)


def _over_distance(plot: Plot, panels: list[Panel]) -> go.Figure:
    transfer = plot.transfer
    route = transfer.radio_context.route if transfer.radio_context else None
    placed = over_distance(panels, route, speed=transfer.speed, origin_ns=axis_origin_ns(transfer.at_sender.capture))
    return figure_over_distance(placed, theme=plot.theme)


def _view(wish: Wish, begin_ns: int | None, end_ns: int | None, *, origin_ns: int) -> StackedView:
    """Return the view of the stacked figure; times in the options are seconds since `origin_ns`."""
    last_ns = None if end_ns is None else end_ns - 1

    def on_axis(span: NamedSpan) -> tuple[int | None, int | None]:
        begin, end = (None if ns is None else origin_ns + ns for ns in (span.from_ns, span.to_ns))
        return begin, end

    def fit(span: NamedSpan) -> Fit:
        """Return a trendline; without its own time range, it is fitted to the drawn range."""
        if span.from_ns is None:
            return Fit(span.name, begin_ns, last_ns)
        return Fit(span.name, *on_axis(span), named=True)

    return StackedView(
        begin_ns,
        last_ns,
        OFFSET_BYTES if wish.offset_bytes is None else wish.offset_bytes,
        wish.patterns,
        [fit(span) for span in wish.trends],
        [FigureMark(*on_axis(span), span.name) for span in wish.marks],
    )


def plot_drive(recording: Recording, reading: InputChoice, wish: Wish, theme: ThemeName) -> go.Figure:
    """Return the figure of a recording without packets: radio and route.

    Raises
    ------
    InputError
        If there is nothing to draw, or an option needs a connection.
    """
    if reading.connection is not None or wish._replace(series=(), distance=False) != Wish():
        raise InputError(
            f"{recording.name}: no TCP connection in this recording; omit --connection, --offset, --trend and --mark"
        )
    radio_context = recording.radio_context()
    origin_ns = radio_context.first_ns or 0
    view = _view(wish, *reading.window.bounds_from(origin_ns), origin_ns=origin_ns)
    panels = drive_panels(radio_context, view)
    for pattern in missing(panels, wish.patterns):
        warn(f"this recording has no series {pattern!r}")
    if not any(panel.drawn for panel in panels):
        warn("the recording has no data between --from and --to; the figure is empty")
    return drive_figure(radio_context, view, panels=panels, distance=wish.distance, theme=theme)
