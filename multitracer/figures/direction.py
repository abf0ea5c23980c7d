"""Data of one direction of a connection, and functions that make and label its series.

Labels follow docs/figures.md (paper 004, section 4.5): ``TcpSnd_*`` where the capture was made near
the sender of the data, ``TcpRcv_*`` near its receiver, ``TcpMid_*`` between them, ``Tcp_*`` where that is
unknown. The ACKs belong to the same group as the data that they acknowledge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.parallel import in_parallel
from multitracer.captured import Flag
from multitracer.figures.series import Series, in_order
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis import Analysis, SegmentKind
    from multitracer.tables import Array, Table

PREFIXES = {
    Vantage.UNKNOWN: "Tcp",
    Vantage.NEAR_SENDER: "TcpSnd",
    Vantage.NEAR_RECEIVER: "TcpRcv",
    Vantage.BETWEEN: "TcpMid",
}
"""Prefix of the series labels, by the vantage point of the capture."""


@dataclass(frozen=True, slots=True)
class FigureDirection:
    """Data of one direction of a connection: the input of a figure.

    Parameters
    ----------
    segments : Table
        `TCP_SEGMENTS` of the connection, both directions.
    sack_blocks : Table
        `TCP_SACK_BLOCKS` of the connection.
    rtt_samples : Table
        `RTT_SAMPLES` of the connection.
    reverse : bool
        False draws the initiator's data, True the responder's.
    vantage : Vantage
        Vantage point of the capture: at the sender, the receiver or between them.
    """

    segments: Table
    sack_blocks: Table
    rtt_samples: Table
    reverse: bool = False
    vantage: Vantage = Vantage.UNKNOWN

    @classmethod
    def of(
        cls, analysis: Analysis, connection: int, *, reverse: bool | None = None, vantage: Vantage | None = None
    ) -> FigureDirection:
        """Return a direction of a connection (from 1); by default the one with more unique bytes.

        `vantage` is the vantage point of the capture; by default it is estimated from the packets.
        """
        if reverse is None:
            reverse = bool(analysis.connections["bulk_direction"][connection - 1])
        if vantage is None:
            vantage = Vantage(analysis.directions["vantage"][2 * (connection - 1) + reverse])
        sack_blocks = analysis.sack_blocks(connection)  # first: what it examines is kept for the others
        jobs = [partial(table, connection) for table in (analysis.tcp_segments, analysis.rtt_samples)]
        rows = int(analysis.connections["segments"][connection - 1])
        segments, rtt_samples = in_parallel(jobs, rows=rows)
        return cls(segments, sack_blocks, rtt_samples, reverse=reverse, vantage=vantage)

    @property
    def prefix(self) -> str:
        """Prefix of the series labels, such as ``TcpSnd``."""
        return PREFIXES[self.vantage]

    @property
    def sent(self) -> Array:
        """Which segments travel in this direction: bool, shape (n_segments,)."""
        mask: Array = self.segments["reverse"] == self.reverse
        return mask

    @property
    def acks(self) -> Array:
        """Which segments, except RSTs, acknowledge data of this direction: bool, shape (n_segments,)."""
        columns = self.segments
        valid = (columns["ack_bytes"] != NA) & ((columns["flags"] & Flag.RST) == 0)
        mask: Array = valid & (columns["reverse"] != self.reverse)
        return mask

    def has(self, kind: SegmentKind) -> Array:
        """Return which segments have at least one bit of `kind`: bool, shape (n_segments,)."""
        mask: Array = (self.segments["kind"] & np.uint32(kind)) != 0
        return mask

    def series(self, name: str, role: str, rows: Array, value: Array, *, rare: bool = False, doc: str) -> Series:
        """Return the series `prefix_name` of the rows that the mask `rows` selects.

        `value` is for all segments.
        """
        index = np.flatnonzero(rows)
        return in_order(
            Series(
                f"{self.prefix}_{name}",
                role,
                self.segments["time_ns"][index],
                value[index],
                frame=self.segments["frame"][index],
                file=self.segments["file"][index],
                rare=rare,
                doc=doc,
            )
        )
