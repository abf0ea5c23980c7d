"""The figure of a connection of a recording: what `multitracer plot` and a notebook show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.figures.direction import Direction
from multitracer.figures.time_sequence import plain_time_sequence, time_sequence

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.recording.part import Part


def connection_figure(
    part: Part,
    connection: int,
    *,
    reverse: bool | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the time/sequence figure of one connection; 0 on the time axis is the capture's first packet.

    Parameters
    ----------
    part : Part
        The capture and its analysis.
    connection : int
        Number of the connection within the part, from 1.
    reverse : bool, optional
        False draws what the initiator sent, True what the responder sent; by default the direction with more
        unique bytes.
    theme : "light" or "dark"
    """
    direction = Direction.of(part.analysis, connection, reverse=reverse)
    return time_sequence(direction, origin_ns=part.capture.first_ns, theme=theme)


def plain_connection_figure(
    part: Part,
    connection: int,
    *,
    reverse: bool | None = None,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    theme: ThemeName = "light",
) -> Props:
    """Return the same as the dict that plotly calls a figure.

    Parameters
    ----------
    begin_ns, end_ns : int, optional
        Draw only begin <= time < end, thinned for that stretch alone.

    Other parameters are those of `connection_figure`.
    """
    direction = Direction.of(part.analysis, connection, reverse=reverse)
    part.analysis.forget()  # as much again as the direction takes
    return plain_time_sequence(
        direction,
        origin_ns=part.capture.first_ns,
        from_ns=begin_ns,
        to_ns=None if end_ns is None else end_ns - 1,
        theme=theme,
    )
