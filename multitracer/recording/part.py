"""One capture point of a recording with its analysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.capture import Capture
    from multitracer.logs import Point


@dataclass(frozen=True)
class PointCapture:
    """One point's capture; its length is the number of its connections.

    Parameters
    ----------
    point : Point
    capture : Capture
    before : PointCapture, optional
        The part whose connections are numbered before these.
    known : Analysis, optional
        What is known of the connections already; by default they are analysed when they are asked for.
    """

    point: Point
    capture: Capture
    before: PointCapture | None = None
    known: Analysis | None = None

    @cached_property
    def analysis(self) -> Analysis:
        """The connections of the capture."""
        if self.known is not None:
            return self.known
        from multitracer.analysis import analyse  # noqa: PLC0415  # numbers that the kernel counted need none

        return analyse(self.capture)

    @cached_property
    def offset(self) -> int:
        """Connections of the parts before: connection n of this analysis is number offset + n in all."""
        return 0 if self.before is None else self.before.offset + len(self.before)

    def behind(self, before: PointCapture | None) -> PointCapture:
        """Return the same capture, its connections numbered after those of another part."""
        return PointCapture(self.point, self.capture, before, self.analysis)

    def __len__(self) -> int:
        return len(self.analysis.connections)
