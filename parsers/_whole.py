"""A plain pcap file that the native kernel counts by itself; Python sees only packets that it does not know.

NumPy is loaded where there are such packets, or where somebody asks for tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.captured import Interface, SourceFile
from multitracer.errors import FormatError
from parsers._capture.bounds import ERA_YEARS, LARGEST_PACKET, WINDOW_BYTES, YEAR_NS
from parsers._pcap.dialect import NEAR_S, PROBE_BYTES, is_magic
from parsers._pcap.dialect_choice import dialect_of
from parsers._text.sidecar import has_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.native import Kernel, WholeFile
    from multitracer.tables import Numbers, Table
    from parsers._pcap.dialect import Dialect
    from parsers._rest import RestDecoder

_MAGIC_BYTES = 4
_FIRST_BLOCKS, _BLOCKS = 4, 32
"""So many blocks of the kernel are read before the first look at what was found, and before each other one:
16 and 128 MiB. At each its threads begin anew."""


def is_plain_pcap(path: str) -> bool:
    """Return whether a path is that of a pcap file that is not compressed: what `detect` would find."""
    return is_magic(_head(path, _MAGIC_BYTES)) and not has_map(path)


def _head(path: str, most: int) -> bytes:
    """Return the first bytes of a regular file; none of what cannot be read, as the reading will say."""
    try:
        if not Path(path).is_file():
            return b""
        with Path(path).open("rb", buffering=0) as stream:
            return stream.read(most) or b""
    except (OSError, ValueError):
        return b""


class Whole:
    """A plain pcap file, counted.

    Attributes
    ----------
    source : SourceFile
        Its facts.
    file : WholeFile
        What the kernel knows.
    """

    def __init__(self, native: Kernel, path: str, dialect: Dialect, limits: tuple[int, ...]) -> None:
        tick_ns = dialect.magic.tick_ns
        interface = Interface(dialect.link_type, dialect.snap_length, resolution_ns=float(tick_ns))
        self.source = SourceFile(path, "pcap", variant=dialect.description, interfaces=[interface])
        self.file: WholeFile = native.WholeFile(
            path,
            dialect.first_record,
            dialect.link_type,
            block_bytes=WINDOW_BYTES,
            far_ns=ERA_YEARS * YEAR_NS,
            limits=limits,
            big_endian=dialect.order == ">",
            header_bytes=dialect.header_bytes,
            swapped=dialect.swapped,
            tick_ns=tick_ns,
            largest=LARGEST_PACKET,
            near_s=NEAR_S,
        )
        self._rest: RestDecoder | None = None

    def read(self, look: Callable[[WholeFile], None]) -> bool:
        """Read and count the file; return False if something in it is strange, so that Python has to."""
        blocks, more = _FIRST_BLOCKS, True
        while more:
            blocks, more = _BLOCKS, self.file.read(blocks)
            for block in self.file.rests():
                self._note(*block)
            if more:
                look(self.file)
        return not self.file.is_odd and self._finish()

    def _note(
        self, segments: tuple[int, int], rest: tuple[bytes, list[int], list[int], list[int]] | None
    ) -> None:
        """Count the packets of a block by their protocols: those that only Python knows come first."""
        if rest is not None:
            if self._rest is None:
                from parsers._rest import RestDecoder  # noqa: PLC0415  # needs NumPy

                self._rest = RestDecoder(self.source)
            self._rest.count(*rest, segments)
        elif any(segments):
            self.source.protocols["tcp"] = self.source.protocols.get("tcp", 0) + sum(segments)

    def _finish(self) -> bool:
        source = self.source
        packets, source.time_steps_back, source.largest_step_back_ns, *extremes = self.file.times()
        source.packets, source.bytes = packets, self.file.read_bytes
        if self._rest is not None and self._rest.holds_segments():
            return False
        if not packets or extremes[1] // YEAR_NS - extremes[0] // YEAR_NS > ERA_YEARS:
            return False
        source.first_ns, source.last_ns = extremes
        source.link_types = {source.interfaces[0].link_type: packets}
        return True

    def flows(self) -> tuple[Table, Numbers]:
        """Return FLOWS in order of first sight, and the row in it of each flow of the kernel."""
        from parsers._packets.parts import flows_of  # noqa: PLC0415  # needs NumPy

        return flows_of(self.file.flows())


def whole_file(
    native: Kernel, path: str, *, limits: tuple[int, ...], look: Callable[[WholeFile], None]
) -> Whole | None:
    """Return a pcap file that the kernel counted by itself; None if it is none, or Python has to read it.

    Parameters
    ----------
    native : Kernel
    path : str
    limits : tuple of int
        How many connections may be of any size, how many segments others have at least on average, how many
        segments may be kept, and one in how many.
    look : callable
        Called now and then with what the kernel knows so far, while there is more.
    """
    if not is_plain_pcap(path):
        return None
    try:
        dialect = dialect_of(_head(path, PROBE_BYTES), path=path)
        whole = Whole(native, path, dialect, limits)
    except (FormatError, OSError):
        return None  # Python says what is wrong
    return whole if whole.read(look) else None
