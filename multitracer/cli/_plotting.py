"""From the options of `plot` to a figure, and the sentences about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from multitracer.cli._output import warn
from multitracer.cli._reading import axis_bounds_ns

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go

    from multitracer.cli._reading import Reading
    from multitracer.figures.palette import Props, ThemeName
    from multitracer.recording.layers import Layers
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording


@dataclass
class Plot:
    """One connection to draw."""

    recording: Recording
    part: Part
    connection: int
    reverse: bool | None
    reading: Reading
    theme: ThemeName
    notes: list[str] = field(default_factory=list)
    """The slopes that were asked for, a line each."""

    @cached_property
    def layers(self) -> Layers:
        """What all logs of the session hold of the connection."""
        from multitracer.recording.layers import Layers

        return Layers.of(self.recording, self.part, self.connection, reverse=self.reverse)

    def has_more(self, stack: bool | None) -> bool:
        """Whether the stacked figure is drawn: if there is more than one capture, unless the user chose."""
        if stack is not None:
            return stack
        return not self.recording.is_one_capture and self.layers.has_more

    @property
    def title(self) -> str:
        """The title of the page: sender, receiver and recording."""
        ends = self.part.analysis.ends(self.connection)
        return f"{self.recording.name}: {ends.source} → {ends.destination}"

    def time_sequence(self) -> Props:
        """Return the figure of one capture, as a dict."""
        from multitracer.figures.time_sequence import plain_connection_figure

        begin_ns, end_ns = axis_bounds_ns(self.recording, self.reading, self.part, speed=1)
        figure = plain_connection_figure(
            self.part,
            self.connection,
            reverse=self.reverse,
            begin_ns=begin_ns,
            end_ns=end_ns,
            theme=self.theme,
        )
        warn_if_empty(any("name" in trace for trace in figure["data"]))
        return figure


def warn_if_empty(anything: bool) -> None:
    """Warn if a figure of a connection shows nothing of it."""
    if not anything:
        warn("nothing was recorded of this connection between --from and --to; the figure is empty")


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
