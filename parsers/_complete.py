"""A capture file that the native kernel counts by itself.

Python gets only packets that the kernel cannot decode.

NumPy is loaded only if there are such packets, or tables are asked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.captured import CaptureInterface, SourceFile
from multitracer.errors import FormatError, InputError
from parsers._capture.bounds import ERA_YEARS, YEAR_NS, cut_off
from parsers._capture.link_type import note_link_type
from parsers._capture.time_unit import note_guess
from parsers._format import HEAD_BYTES
from parsers._pcap.dialect import PROBE_BYTES, RECORD_HEADER_BYTES, is_magic
from parsers._pcap.dialect_choice import dialect_of
from parsers._stream import has_map, note_expansion, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.native import CaptureFile, FlowEnds, Kernel, Rest
    from multitracer.tables import Numbers, Table
    from parsers._packets.decode import RestDecoder
    from parsers._pcap.dialect import Dialect
    from parsers._pcapng.blocks import Sections
    from parsers._stream import InputStream

    Form = dict[str, bool | int] | dict[str, bool | int | list[int]]

_SECTION_HEADER = b"\n\r\r\n"
_MAY_BE_OF_PCAPDROID = re.compile(
    rb"\x01\x07\x20\x21|\x0a\xd7\xad\x01|\xfd\x00\x00\x02\xfd\x00\x00\x01|PCAPdroid", re.DOTALL
)
"""Its trailer, the addresses of its VPN, and its name (parsers/_packets/programs.py)."""
_BLOCK_BYTES = 2 * 1024 * 1024
"""Number of bytes that the kernel reads at a time: a block that one thread passes to the next is still in
a cache of both cores.

Measured: a compressed capture takes 0.58 s, as with 1 MiB, and 0.67 s with 4 MiB. With 1 MiB, `--parquet`
needs 22 MB more memory."""
_FIRST_BLOCKS, _BLOCKS = 8, 64
"""Number of kernel blocks before the first check of the results, and between later checks: 16 and 128 MiB. With many
packets for Python, checks are more frequent."""
_CHUNK_BYTES = 256 * 1024
"""Number of bytes that are unpacked at a time: they stay in the core's cache until the kernel copies them."""


def is_capture(path: str) -> bool:
    """Return whether a path is a pcap or pcapng file, perhaps compressed, as `detect` decides."""
    try:
        if not Path(path).is_file() or has_map(path):
            return False
        with open_stream(path) as stream:
            head = stream.peek_head()
    except (FormatError, InputError, OSError, ValueError):  # as the reading will say
        return False
    return is_magic(head) or _is_pcapng(head)


def _is_pcapng(head: bytes) -> bool:
    if head[:4] != _SECTION_HEADER:
        return False
    from parsers._pcapng.blocks import is_pcapng  # noqa: PLC0415  # a pcap file needs it not

    return is_pcapng(head[:HEAD_BYTES])


class _Opened(NamedTuple):
    """The begin of a capture file."""

    source: SourceFile
    first_record: int
    form: Form
    """Layout of the records, for the kernel."""
    sections: Sections | None
    """The sections of a pcapng file; None for pcap."""
    dialect: Dialect | None = None
    """The dialect of a pcap file; None for pcapng."""


def _opened(stream: InputStream) -> _Opened | None:
    """Return the begin of a capture file; None if it is not a capture, or Python must read it.

    Raises
    ------
    FormatError
        If no packet in it can be read.
    """
    head = stream.peek_head(PROBE_BYTES)
    if _MAY_BE_OF_PCAPDROID.search(head):  # whose programs only Python knows
        return None
    if is_magic(head):
        return _opened_pcap(stream, head)
    return _opened_pcapng(stream, head) if _is_pcapng(head) else None


def _opened_pcap(stream: InputStream, head: bytes) -> _Opened:
    dialect = dialect_of(head, path=stream.path, more=stream.peek_head)
    tick_ns = dialect.magic.tick_ns
    interface = CaptureInterface(dialect.link_type, dialect.snap_length, resolution_ns=float(tick_ns))
    source = SourceFile(stream.path, "pcap", stream.compression, dialect.description, interfaces=[interface])
    if dialect.declared_ns:
        note_guess(source, tick_ns, dialect.declared_ns)
    if dialect.declared_link >= 0:
        note_link_type(source, dialect.declared_link, dialect.link_type)
    return _Opened(source, dialect.first_record, dialect.layout, None, dialect)


def _opened_pcapng(stream: InputStream, head: bytes) -> _Opened | None:
    from parsers._pcapng.blocks import (  # noqa: PLC0415
        Sections,  # a pcap file needs none of it
        first_packet,
        form_of,
    )
    from parsers._pcapng.first_packets import UNIT_PROBE_BYTES, guess  # noqa: PLC0415

    sections = Sections(SourceFile(stream.path, "pcapng", stream.compression))
    guess(head[:UNIT_PROBE_BYTES], sections, stream.peek_head)
    first = first_packet(head, sections)
    form = None if first is None else form_of(sections)
    if first is None or form is None:
        return None
    sections.source.variant = "little-endian" if sections.order == "<" else "big-endian"
    return _Opened(sections.source, first, form, sections)


class Whole:
    """A capture file, counted, or all segments of one.

    Attributes
    ----------
    source : SourceFile
        Its facts.
    file : CaptureFile
        What the kernel knows.
    stored_bytes, connections : int
        How much of the file was read at the last look, and how many connections there were.
    """

    def __init__(
        self,
        native: Kernel,
        stream: InputStream,
        opened: _Opened,
        limits: tuple[int, ...] | None,
        only: FlowEnds | None,
    ) -> None:
        self.source, first_record, form, self._sections, self._dialect = opened
        self._stream = stream
        self._is_unpacked = stream.compression not in (None, "zstd")  # that the kernel does without Python
        self._chunk = memoryview(bytearray(_CHUNK_BYTES if self._is_unpacked else 0))
        self.file: CaptureFile = native.CaptureFile(
            self._unpacked if self._is_unpacked else stream.path,
            first_record,
            self.source.interfaces[0].link_type,
            form,
            block_bytes=_BLOCK_BYTES,
            far_ns=ERA_YEARS * YEAR_NS,
            limits=limits,
            only=only,
        )
        self.stored_bytes = self.connections = 0
        self._rest: RestDecoder | None = None

    def _unpacked(self, most: int) -> memoryview:
        """Return the next bytes of a compressed file, at most `most`; none at its end."""
        return self._chunk[: self._stream.readinto(self._chunk[:most])]

    def read(self, look: Callable[[Whole], None]) -> bool:
        """Read and count the file; return False if it has something unexpected that Python must read."""

        def note(rests: list[Rest], taken_bytes: int, connections: int) -> bool:
            self.stored_bytes = self._stream.stored_bytes if self._is_unpacked else taken_bytes
            self.connections = connections
            look(self)
            return self._take_in(rests) and not self._has_others()

        is_complete = self.file.read(_FIRST_BLOCKS, _BLOCKS, note) and self._take_in(self.file.rests())
        return is_complete and self._finish()

    def _has_others(self) -> bool:
        """Return whether the file has a segment that only Python decodes; Python then reads all of it."""
        return self._rest is not None and len(self._rest) > 0

    def _take_in(self, rests: list[Rest]) -> bool:
        """Process the packets that the kernel left over; return False if one is unexpected."""
        for known, packets, others in rests:
            self._note(known, packets)
            if not self._are_taken_in(others):
                return False
        return True

    def _note(self, known: tuple[int, int, int], rest: tuple[bytes, list[int], list[int], list[int]] | None) -> None:
        """Count the packets of a block by their protocols; the kernel knows segments and datagrams of UDP."""
        *segments, udp = known
        self._count("udp", udp)
        if rest is not None:
            if self._rest is None:
                from parsers._packets.decode import RestDecoder  # noqa: PLC0415  # needs NumPy

                self._rest = RestDecoder(self.source)
            self._rest.count(*rest, segments)
        else:
            self._count("tcp", sum(segments))

    def _count(self, protocol: str, packets: int) -> None:
        if packets:
            self.source.protocols[protocol] = self.source.protocols.get(protocol, 0) + packets

    def _are_taken_in(self, others: list[bytes]) -> bool:
        """Process pcapng blocks that are not packets; return False if one is unexpected."""
        if self._sections is None or not others:
            return True
        from parsers._pcapng.blocks import note_other  # noqa: PLC0415  # as above

        sections = self._sections
        return all(note_other(block, sections) for block in others)

    def _finish(self) -> bool:
        source = self.source
        packets, *steps, first_ns, last_ns = self.file.times()
        source.time_steps_back, source.largest_step_back_ns = steps[:2]
        source.time_repeats, source.time_grain_ns = steps[2:]
        source.packets, source.bytes = packets, self.file.read_bytes
        if self._stream.compression:
            stored_bytes = self._stream.stored_bytes if self._is_unpacked else self.file.stored_bytes
            note_expansion(source, source.bytes / max(stored_bytes or 0, 1))
        if tail := self.file.tail():
            if not self._may_be_cut(tail):
                return False
            source.damaged = cut_off("record", source.bytes - len(tail), len(tail))
        source.in_order_of_names()
        if self._rest is not None and self._rest.holds_segments():
            return False
        if not packets or last_ns // YEAR_NS - first_ns // YEAR_NS > ERA_YEARS:
            return False
        source.first_ns, source.last_ns = first_ns, last_ns
        source.link_types = {source.interfaces[0].link_type: packets}
        return True

    def _may_be_cut(self, tail: bytes) -> bool:
        """Return whether only the end of the last record is missing, by the rules of `RecordBatches`."""
        if self._dialect is None or len(tail) < RECORD_HEADER_BYTES:
            return self._dialect is not None
        captured, original = self._dialect.lengths(tail, 0)
        return captured in (original, self._dialect.snap_length)

    def flows(self) -> tuple[Table, Numbers]:
        """Return FLOWS by first packet, and the row in it of each flow of the kernel."""
        from parsers._packets.parts import flows_of  # noqa: PLC0415  # needs NumPy

        return flows_of(self.file.flows())


def complete_file(
    native: Kernel,
    path: str,
    *,
    limits: tuple[int, ...] | None,
    look: Callable[[Whole], None],
    only: FlowEnds | None = None,
) -> Whole | None:
    """Return a capture file read by the kernel alone; None if it is no capture, or Python must read it.

    Parameters
    ----------
    native : Kernel
    path : str
    limits : tuple of int, optional
        The number of connections of any size, the minimum mean number of segments of further ones, the
        maximum number of stored segments, and their maximum share (one in so many). Without limits, nothing
        is counted, and all segments are stored.
    look : callable
        Called from time to time with the results so far, before the end of the file.
    only : FlowEnds, optional
        Without limits: the only flow whose segments are stored.
    """
    if not Path(path).is_file() or has_map(path):
        return None
    try:
        with open_stream(path) as stream:
            opened = _opened(stream)
            complete = opened and Whole(native, stream, opened, limits, only)
            return complete if complete and complete.read(look) else None
    except (FormatError, InputError, OSError):
        return None  # Python says what is wrong
