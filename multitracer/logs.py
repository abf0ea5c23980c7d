"""Types for the files of a recording: capture points, and logs by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from multitracer.manifest import Manifest
    from multitracer.tables import Table


class Point(NamedTuple):
    """One capture point, with its capture files in order."""

    name: str
    """The host's name in a session folder, otherwise the path as the user gave it."""
    paths: tuple[str, ...]


class HostLog(NamedTuple):
    """A log of a host other than a packet capture."""

    host: str
    path: str
    format: str
    """Name of the format, as in `multitracer formats`."""
    layer: str
    """The layer that the log describes: tcp, link, radio, position, clock, transactions, marker."""


class ParsedLog(NamedTuple):
    """A log and its parsed content."""

    log: HostLog
    tables: dict[str, Table]
    """Tables by name. All readers of the log share them; they must not be changed."""


class PointTables(Protocol):
    """The captured segments of one capture point."""

    @property
    def point(self) -> Point:
        """The capture point."""

    @property
    def tables(self) -> CaptureTables:
        """The segments of the capture point, with their files."""


class LogSource(Protocol):
    """The logs of one recording, each parsed once; the search for clock relations reads them."""

    @property
    def folder(self) -> Path | None:
        """The session folder; None if the recording consists of single files."""

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of the folder; None if there is none."""

    @property
    def name(self) -> str:
        """The name of the recording."""

    def logs(self, layer: str) -> Sequence[ParsedLog]:
        """Return all logs of a layer."""
