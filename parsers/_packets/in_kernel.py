"""Decodes a capture block by block, and leaves the segments in the native kernel, for what counts them there.

A block in which Python decodes segments, too, comes as tables: only together do they have an order.

Of a file that the kernel reads and counts by itself, only the packets come here that it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.decode import Decoder
from parsers._packets.kernel import DecodedBlock, decoded, record_columns
from parsers._packets.layers import PAD_BYTES, PacketRecords
from parsers._packets.parts import numbered, of_flows

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.captured import SourceFile
    from multitracer.native import Kernel, KernelSegments
    from parsers._packets.parts import BlockSegments


class RestDecoder(Decoder):
    """Counts the packets of a file that the kernel left, by their protocols."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__()
        self.files.append(source)
        self._segments_by_version = {4: 0, 6: 0}
        """Segments in the block beside those packets, by IP version."""

    def count(
        self,
        data: bytes,
        captured: list[int],
        original: list[int],
        time_ns: list[int],
        segments: list[int],
    ) -> None:
        """Count packets of a block, one behind the other, and its segments in IPv4 and IPv6."""
        lengths = np.array(captured, np.int64)
        source, self._segments_by_version = self.files[0], dict(zip((4, 6), segments, strict=True))
        records = PacketRecords(
            np.frombuffer(data + bytes(PAD_BYTES), np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
            np.array(original, np.int64),
            np.array(time_ns, np.int64),
            source.interfaces[0].link_type,
        )
        self.add(records, source)

    def _by_kernel(self, records: PacketRecords, source: SourceFile) -> DecodedBlock:
        del source
        return DecodedBlock([], np.arange(len(records)), self._segments_by_version)

    def _is_overwritten(self, records: PacketRecords, source: SourceFile) -> bool:
        del records, source
        return False  # the kernel saw no length that contradicts another

    def holds_segments(self) -> bool:
        """Return whether some of the packets are segments, now that all are there."""
        self.finish_fragments()
        return len(self) > 0


class KernelDecoder(Decoder):
    """Decodes the segments of one or more files of one capture point."""

    def __init__(self, native: Kernel) -> None:
        super().__init__()
        self._native = native.RunningDecoder()
        self._pieces: list[Capture | KernelSegments] = []
        """What comes before the tables."""
        self._rows = 0
        """How many segments of the pieces lie in the kernel."""
        self._block: KernelSegments | None = None
        """What the kernel decoded of the block that is being added."""
        self._unnumbered: list[tuple[KernelSegments, BlockSegments | None]] = []
        """Blocks, and the first segments of the flows that are new in each."""

    def __len__(self) -> int:
        return super().__len__() + self._rows

    def _by_kernel(self, records: PacketRecords, source: SourceFile) -> DecodedBlock | None:
        time_ns, first_frame = np.ascontiguousarray(records.time_ns), source.packets + 1
        block = self._native.decode(records.data, *record_columns(records), time_ns, first_frame)
        self._block = block
        by_version = {4: block.in_ipv4, 6: len(block) - block.in_ipv4}
        return DecodedBlock([], block.rest(), by_version, block.udp)

    def _append(
        self, parts: list[BlockSegments], records: PacketRecords, first_frame: int, share: float | None
    ) -> None:
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

    def _leave(self, block: KernelSegments) -> None:
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

    def pieces(self) -> list[Capture | KernelSegments]:
        """Return what was decoded since the last call, in order, as it lies in the kernel or as tables."""
        self._number()
        pieces, self._pieces, self._rows = self._pieces, [], 0
        return [*pieces, self.take()] if super().__len__() else pieces
