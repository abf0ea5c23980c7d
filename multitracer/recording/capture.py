"""The capture of one capture point of a recording, with its analysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.capture import CaptureTables
    from multitracer.logs import Point


@dataclass(frozen=True)
class Capture:
    """The capture of one capture point; its length is the number of its connections.

    Parameters
    ----------
    point : Point
    tables : CaptureTables
    before : Capture, optional
        The capture whose connections are numbered before those of this one.
    known : Analysis, optional
        An existing analysis of the connections; by default they are analysed at the first access.
    """

    point: Point
    tables: CaptureTables
    before: Capture | None = None
    known: Analysis | None = None

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the connections of the capture."""
        if self.known is not None:
            return self.known
        from multitracer.analysis import analyse  # noqa: PLC0415  # numbers that the kernel counted need none

        return analyse(self.tables)

    @cached_property
    def offset(self) -> int:
        """Number of connections in all earlier captures.

        Connection n of this capture has number n + `offset` in the recording.
        """
        return 0 if self.before is None else self.before.offset + len(self.before)

    def behind(self, before: Capture | None) -> Capture:
        """Return the same capture, with its connections numbered after those of `before`."""
        return Capture(self.point, self.tables, before, self.analysis)

    def __len__(self) -> int:
        return len(self.analysis.connections)
