"""What was captured at one point of a recording, with its analysis."""

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
    """One point's capture; its length is the number of its connections.

    Parameters
    ----------
    point : Point
    tables : CaptureTables
    before : Capture, optional
        The capture whose connections are numbered before these.
    known : Analysis, optional
        What is known of the connections already; by default they are analysed when they are asked for.
    """

    point: Point
    tables: CaptureTables
    before: Capture | None = None
    known: Analysis | None = None

    @cached_property
    def analysis(self) -> Analysis:
        """The connections of the capture."""
        if self.known is not None:
            return self.known
        from multitracer.analysis import analyse  # noqa: PLC0415  # numbers that the kernel counted need none

        return analyse(self.tables)

    @cached_property
    def offset(self) -> int:
        """Connections of the captures before: connection n of this analysis is number offset + n in all."""
        return 0 if self.before is None else self.before.offset + len(self.before)

    def behind(self, before: Capture | None) -> Capture:
        """Return the same capture, its connections numbered after those of another one."""
        return Capture(self.point, self.tables, before, self.analysis)

    def __len__(self) -> int:
        return len(self.analysis.connections)
