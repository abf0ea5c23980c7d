"""Which files a recording is made of: capture points, and logs by layer; what the rooms call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from multitracer.manifest import Manifest
    from multitracer.tables import Table


class Point(NamedTuple):
    """One place where packets were captured, with the files of that capture in order."""

    name: str
    """The host's name in a session folder, otherwise the path as the user gave it."""
    paths: tuple[str, ...]


class HostLog(NamedTuple):
    """A log of a host that is no packet capture."""

    host: str
    path: str
    format: str
    """As `multitracer formats` names it."""
    layer: str
    """The layer that the log describes: tcp, link, radio, position, clock, transactions, marker."""


class ParsedLog(NamedTuple):
    """A log and its parsed content."""

    log: HostLog
    tables: dict[str, Table]
    """By name. They are shared by all who read the log: nobody changes one."""


class PointTables(Protocol):
    """What was captured at one point."""

    @property
    def point(self) -> Point:
        """Where that was."""

    @property
    def tables(self) -> CaptureTables:
        """Its segments, with the files that they came from."""


class LogSource(Protocol):
    """The logs of one recording, each parsed once: what the clocks of a recording are found in."""

    @property
    def folder(self) -> Path | None:
        """The session folder; None of loose files."""

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of the folder."""

    @property
    def name(self) -> str:
        """The recording's name."""

    def logs(self, layer: str) -> Sequence[ParsedLog]:
        """Return the logs of a layer."""
