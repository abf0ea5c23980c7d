"""Decodes a capture block by block, and leaves the segments in the native kernel, for what counts them there.

A block in which Python decodes segments, too, comes as tables: only together do they have an order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.decode import Decoder
from parsers._packets.kernel import Decoded, decoded, record_columns
from parsers._packets.parts import numbered, of_flows

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.captured import SourceFile
    from multitracer.native import Kernel, Segments
    from parsers._packets.parts import Part
    from parsers._packets.records import Records


class KernelDecoder(Decoder):
    """Decodes the segments of one or more files of one capture point."""

    def __init__(self, native: Kernel) -> None:
        super().__init__()
        self._native = native.RunningDecoder()
        self._pieces: list[Capture | Segments] = []
        """What comes before the tables."""
        self._rows = 0
        """How many segments of the pieces lie in the kernel."""
        self._block: Segments | None = None
        """What the kernel decoded of the block that is being added."""
        self._unnumbered: list[tuple[Segments, Part | None]] = []
        """Blocks, and the first segments of the flows that are new in each."""

    def __len__(self) -> int:
        return super().__len__() + self._rows

    def _by_kernel(self, records: Records, source: SourceFile) -> Decoded | None:
        time_ns, first_frame = np.ascontiguousarray(records.time_ns), source.packets + 1
        block = self._native.decode(records.data, *record_columns(records), time_ns, first_frame)
        self._block = block
        by_version = {4: block.in_ipv4, 6: len(block) - block.in_ipv4}
        return Decoded([], block.rest(), by_version, block.udp)

    def _append(self, parts: list[Part], records: Records, first_frame: int, share: float | None) -> None:
        block, self._block = self._block, None
        if parts:
            self._number()  # what was seen before
            again = decoded(records) if block else None
            super()._append([*(again.parts if again else []), *parts], records, first_frame, share)
        elif block:
            self._leave(block)
        if block:
            flows = block.flows()
            first = None if flows is None else of_flows(flows, records_before=self._records)
            self._unnumbered.append((block, first))

    def _leave(self, block: Segments) -> None:
        if super().__len__():
            self._pieces.append(self.take())
        self._pieces.append(block)
        self._rows += len(block)

    def _number(self) -> None:
        """Give the segments in the kernel the numbers that their flows have in the capture."""
        blocks, self._unnumbered = self._unnumbered, []
        numbered([first for _, first in blocks if first], self._flows, records_before=0)
        for block, first in blocks:
            self._native.number(block, first.columns["flow"] if first else np.empty(0, np.int32))

    def pieces(self) -> list[Capture | Segments]:
        """Return what was decoded since the last call, in order, as it lies in the kernel or as tables."""
        self._number()
        pieces, self._pieces, self._rows = self._pieces, [], 0
        return [*pieces, self.take()] if super().__len__() else pieces
