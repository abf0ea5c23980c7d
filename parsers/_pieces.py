"""Reads a capture of any length piece by piece: what was taken is forgotten."""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from multitracer.captured import SourceFile
from parsers._capture.ahead import AheadStream, ahead
from parsers._capture.capture_file import StampFacts, decode_blocks
from parsers._fileset import in_order
from parsers._memory import let_malloc_keep_memory
from parsers._packets.decode import Decoder
from parsers._packets.in_kernel import KernelDecoder
from parsers._read import first_packet_ns, format_of_capture, of_plug_in
from parsers._stream import note_stream, open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Sequence

    from multitracer.capture import Capture
    from multitracer.native import Kernel, Segments
    from multitracer.tables import Numbers, Table
    from parsers._format import Format
    from parsers._packets.records import Records
    from parsers._stream import Stream

    Path = str | os.PathLike[str]

_TIMES_APART = "times far from the others stand as they are, for the capture was read as a stream"


class Block(NamedTuple):
    """Some packets that follow each other in a file."""

    offset: int
    """Where in the file reading can begin with them."""
    packets: int
    first_ns: int
    """Smallest time; NOT_A_TIME if one is missing."""
    last_ns: int


class Pieces:
    """The segments of one capture point, some at a time; the facts of its files grow with them.

    Parameters and errors are those of `read_capture`, and

    Parameters
    ----------
    rows : int
        From so many segments on, a piece is handed out; it may be set anew between two pieces.
    stop : callable, optional
        Asked now and then; when it returns True, the input is taken to end.
    ranges : sequence of (int, int), optional
        The parts of the one file, not compressed, that are read; the first one holds its header.
    reads_ahead : bool
        Whether a thread reads on while a piece is decoded; not for pipes.
    """

    def __init__(  # noqa: PLR0913  # what a user chose
        self,
        paths: Sequence[Path],
        *,
        rows: int,
        max_packets: int | None = None,
        progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
        ranges: Sequence[tuple[int, int]] | None = None,
        reads_ahead: bool = False,
    ) -> None:
        self.rows = rows
        self.blocks: list[Block] = []
        """What was read, if the format tells where a block begins, and only the first one has interfaces."""
        self._interfaces: int | None = None
        self._ranges, self._reads_ahead = ranges, reads_ahead
        self._paths, self._max_packets = paths, max_packets
        self._progress, self._stop = progress, stop
        self._decoder = Decoder()
        self._given_flows: Table | None = None
        """The flows that a format of another package found."""

    def __iter__(self) -> Generator[Capture]:
        """Yield the pieces, at least one; `row` of the side tables counts within a piece."""
        decoder = Decoder()
        with closing(self._each(decoder)) as each:
            for given in each:
                yield decoder.take() if given is None else given

    def in_kernel(self, native: Kernel) -> Generator[list[Capture | Segments]]:
        """Yield lists of pieces, as they lie in the native kernel or, where Python decodes too, as tables."""
        decoder = KernelDecoder(native)
        with closing(self._each(decoder)) as each:
            for given in each:
                yield decoder.pieces() if given is None else [given]

    def _each(self, decoder: Decoder) -> Generator[Capture | None]:
        """Yield when the decoder holds a piece, or the one that a format of another package found."""
        self._decoder = decoder
        let_malloc_keep_memory()
        done = 0
        for path in in_order(self._paths, first_packet_ns):
            read = sum(file.packets for file in decoder.files)
            left = None if self._max_packets is None else self._max_packets - read
            if left == 0 or (self._stop is not None and self._stop()):
                break
            step = None if self._progress is None else self._counted(done)
            with open_stream(path, progress=step, stop=self._stop, ranges=self._ranges) as stream:
                fmt = format_of_capture(stream)
                if fmt.blocks is None:
                    capture = of_plug_in(fmt, stream, alone=len(self._paths) == 1)
                    self._given_flows = capture.flows
                    yield capture
                    return
                blocks = _blocks(fmt, stream, decoder, left, reads_ahead=self._reads_ahead)
                with closing(blocks):
                    for records in blocks:
                        self._note(records)
                        if len(decoder) >= self.rows:
                            yield None
                done += stream.stored_bytes
        decoder.finish_fragments()
        yield None

    @property
    def files(self) -> list[SourceFile]:
        """The facts of the files, as far as they are read."""
        return self._decoder.files

    def keep_flows(self, kept: Numbers) -> tuple[Table, Numbers, Numbers]:
        """Forget all flows but these (int64, ascending); return FLOWS, these, and their new numbers."""
        if self._given_flows is not None:
            return self._given_flows, kept, kept
        flows, number = self._decoder.keep_flows(kept)
        return flows, kept, number

    def flows(self) -> tuple[Table, Numbers]:
        """Return FLOWS in order of first sight when all was read, and the row in it of each flow before."""
        return self._decoder.flows_in_order()

    def _note(self, records: Records) -> None:
        interfaces = sum(len(file.interfaces) for file in self._decoder.files)
        self._interfaces = interfaces if self._interfaces is None else self._interfaces
        if records.offset is not None and interfaces == self._interfaces:
            begin_ns, end_ns = int(records.time_ns.min()), int(records.time_ns.max())
            self.blocks.append(Block(records.offset, len(records), begin_ns, end_ns))

    def _counted(self, done: int) -> Callable[[int], None]:
        progress = self._progress
        return lambda stored_bytes: None if progress is None else progress(done + stored_bytes)


def _blocks(
    fmt: Format, stream: Stream, decoder: Decoder, max_packets: int | None, *, reads_ahead: bool
) -> Generator[Records]:
    """Decode one file, and yield each block then."""
    assert fmt.blocks is not None
    source = SourceFile(stream.path, fmt.name, compression=stream.compression)
    clock = StampFacts(source)
    unpacks_ahead = reads_ahead and stream.compression is not None  # to read is little beside that
    with AheadStream(stream) if unpacks_ahead else nullcontext(stream) as readable:
        blocks = fmt.blocks(readable, source)
        with closing(ahead(blocks) if reads_ahead else blocks) as each:
            yield from decode_blocks(each, source, decoder, clock, max_packets=max_packets)
    note_stream(stream, source)
    if stream.stopped:
        source.stopped = True
        source.damaged = source.damaged if source.lost_ranges else None  # it only ends within a record
    if clock.era() is not None:
        source.warnings.append(_TIMES_APART)
