"""Of a file that the native kernel reads by itself: the packets that it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.decode import DecodedBlock, Decoder
from parsers._packets.layers import PAD_BYTES, PacketRecords

if TYPE_CHECKING:
    from multitracer.captured import SourceFile


class RestDecoder(Decoder):
    """Counts the packets that the native kernel did not decode in a file, by protocol."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__()
        self.files.append(source)
        self._segments_by_version = {4: 0, 6: 0}
        """Segments of the block that the kernel decoded, by IP version."""

    def count(
        self, data: bytes, captured: list[int], original: list[int], time_ns: list[int], segments: list[int]
    ) -> None:
        """Count the packets of one block, which lie one after the other in `data`.

        `segments` are the numbers of segments in IPv4 and IPv6 that the kernel has decoded.
        """
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
        """Return whether some of these packets are TCP segments; call it after the last block."""
        self.finish_fragments()
        return len(self) > 0
