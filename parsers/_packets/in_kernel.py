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
    from multitracer.capture import SourceFile
    from multitracer.native import Kernel, Segments
    from parsers._packets.parts import Part
    from parsers._packets.records import Records


class KernelDecoder(Decoder):
    """Decodes the segments of one or more files of one capture point; those of each block are to be taken."""

    def __init__(self, native: Kernel) -> None:
        super().__init__()
        self._native = native.RunningDecoder()
        self._left: Segments | None = None
        """Those of the block, none of which are in the tables."""
        self._block: Segments | None = None
        """What the kernel decoded of the block that is being added."""

    def __len__(self) -> int:
        return super().__len__() if self._left is None else len(self._left)

    def _by_kernel(self, records: Records, source: SourceFile) -> Decoded | None:
        time_ns, first_frame = np.ascontiguousarray(records.time_ns), source.packets + 1
        block = self._native.decode(records.data, *record_columns(records), time_ns, first_frame)
        self._block = block
        return Decoded([], block.rest(), {4: block.in_ipv4, 6: len(block) - block.in_ipv4})

    def _append(self, parts: list[Part], records: Records, first_frame: int, share: float | None) -> None:
        block, self._block = self._block, None
        both = bool(parts) and block is not None and len(block) > 0
        again = decoded(records) if both else None
        super()._append([*(again.parts if again else []), *parts], records, first_frame, share)
        if block is not None:
            self._number(block)
            self._left = block if len(block) and not both else None

    def _number(self, block: Segments) -> None:
        """Tell the kernel the numbers of the flows that are new to it."""
        numbers, flows = np.empty(0, np.int32), block.flows()
        if flows is not None:
            first = of_flows(flows)
            numbered([first], self._flows, records_before=self._records)
            numbers = first.columns["flow"]
        self._native.number(block, numbers)

    def left(self) -> Segments | None:
        """Return the segments of the last block as they lie in the kernel; None if they are in the tables."""
        left, self._left = self._left, None
        return left
