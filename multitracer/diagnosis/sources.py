"""Which of a session's logs belong to a transfer: the capture at its receiver, the two sides of its link."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import analyse
from multitracer.analysis.two_points import same_connections
from multitracer.layers import NEAR_RECEIVER, NEAR_SENDER
from multitracer.recording import Part, Recording
from multitracer.session import Session, open_session

if TYPE_CHECKING:
    from multitracer.layers import Layers, SenderLogs
    from multitracer.tables import Array, Table


@dataclass(frozen=True, slots=True)
class LinkSide:
    """The link's log of one host.

    Attributes
    ----------
    host : str
        Name of the host's folder.
    frames : Table
        LINK_FRAMES, in order of the log.
    events : Table
        LINK_EVENTS, in order of the log.
    facts : dict of str to str
        What the head of the log tells: side, slot_ns, speed, t1_ms, n2, ...
    """

    host: str
    frames: Table
    events: Table
    facts: dict[str, str] = field(default_factory=dict)

    def rows(self, *names: str) -> Array:
        """Return the rows of the events with one of these names, in order."""
        return np.flatnonzero(np.isin(self.events["event"], names))


def recording_of(source: str | PathLike[str] | Session | Recording) -> Recording:
    """Return a session, read and analysed."""
    if isinstance(source, Recording):
        return source
    session = source if isinstance(source, Session) else open_session(fspath(source))
    parts: list[Part] = []
    for point, capture in session.captures():
        parts.append(Part(point, analyse(capture), sum(map(len, parts))))
    return Recording(session, parts)


def receiver_view(recording: Recording, layers: Layers) -> tuple[Part, int] | None:
    """Return the capture at the receiver that shows the connection, None if there is none."""
    for part in recording.parts:
        if part is layers.part:
            continue
        numbers = dict(same_connections(layers.part.analysis, part.analysis))
        number = numbers.get(layers.connection)
        if number is not None and _vantage(part, number, reverse=layers.reverse) != NEAR_SENDER:
            return part, number
    return None


def _vantage(part: Part, number: int, *, reverse: bool) -> int:
    return int(part.analysis.directions["vantage"][2 * (number - 1) + reverse])


def link_sides(
    logs: SenderLogs, layers: Layers, view: tuple[Part, int] | None
) -> tuple[LinkSide | None, LinkSide | None]:
    """Return the link logs of the data's sender and receiver, by the hosts of the captures."""
    links = {host: _link_side(host, tables) for host, tables in logs.link.items()}
    at_receiver = layers.vantage == NEAR_RECEIVER
    here = layers.part.point.name
    there = view[0].point.name if view else next((host for host in links if host != here), "")
    sender, receiver = (there, here) if at_receiver else (here, there)
    return links.get(sender), links.get(receiver)


def _link_side(host: str, tables: dict[str, Table]) -> LinkSide:
    frames = tables["link_frames"]
    return LinkSide(host, frames, tables["link_events"], dict(frames.provenance.get("header", {})))


def other_logs(session: Session) -> dict[str, list[tuple[str, dict[str, Table]]]]:
    """Return the logs of all layers but TCP and the link, as parsed, by layer."""
    layers = sorted({log.layer for log in session.logs} - {"tcp", "link"})
    return {layer: [(log.host, tables) for log, tables in session.tables(layer)] for layer in layers}
