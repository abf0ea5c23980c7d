"""Reads a capture of any length in chunks; a capture that is read as a whole is one chunk.

The input is the files of one capture point, in any order, or a pipe. `Chunks` yields `CaptureTables` with the
segments of some blocks each. `read_capture` returns one with all segments; only there are flows of several
VLANs joined, and late fragments credited to their segments. The native kernel may read a single file by
itself, with the same result (`complete_capture`).

Rules: a chunk that was returned is released; the facts of the files do not depend on the chunks.
"""

from __future__ import annotations

import os
from contextlib import closing, nullcontext, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.capture import CaptureTables, of_kernel
from multitracer.captured import SourceFile
from multitracer.errors import InputError, MultiTracerError
from multitracer.native import kernel, reading
from multitracer.words import count, size
from parsers._capture.ahead import AheadStream, ahead
from parsers._capture.capture_file import StampFacts, decode_blocks
from parsers._complete import complete_file
from parsers._memory import let_malloc_keep_memory, usable_memory_bytes
from parsers._packets.decode import OVERWRITTEN, Decoder
from parsers._read import format_of_capture, of_plug_in
from parsers._stream import note_stream, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from multitracer.native import Kernel
    from multitracer.tables import Numbers, Table
    from parsers._complete import Whole
    from parsers._format import Format
    from parsers._packets.layers import PacketRecords
    from parsers._stream import InputStream

    PathLike = str | os.PathLike[str]
    Progress = Callable[[int], None]

_TIMES_APART = "timestamps far from all others are not removed, because the capture was read as a stream"


def read_capture(
    paths: Sequence[PathLike], *, max_packets: int | None = None, progress: Progress | None = None, alone: bool = True
) -> CaptureTables:
    """Return the TCP segments of one capture point, and the facts of its files.

    Parameters
    ----------
    paths : sequence of path
        One capture file, or several of one capture point, which are read as one trace in the order of
        their first packets; "-" is standard input.
    max_packets : int, optional
        Stop after this many packets in all.
    progress : callable, optional
        Called now and then with the number of bytes read from the files (as stored) so far.
    alone : bool
        Whether no other capture is read at the same time, so that another thread saves time.

    Raises
    ------
    InputError
        If a file cannot be read, or is a log but not a capture.
    UnknownFormatError
        If no format claims a file.
    FormatError
        If no packet of a file can be read.
    """
    let_malloc_keep_memory()
    native = kernel()
    if native is not None and len(paths) == 1 and max_packets is None:
        capture = complete_capture(native, os.fspath(paths[0]), progress)
        if capture is not None:
            return capture
    # the kernel decodes so fast that the next records are better read and found meanwhile
    return Chunks(
        paths, max_packets=max_packets, progress=progress, reads_ahead=True, unpacks_ahead=alone and native is not None
    ).complete()


def first_packet_ns(path: PathLike) -> int | None:
    """Return the time of a capture's first packet, ns since 1970; None without a packet or a time.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`; files in the format of a plug-in are refused.
    """
    return Chunks([path], max_packets=1, may_be_foreign=False).complete().files[0].first_ns


class PacketBlock(NamedTuple):
    """Consecutive packets of a file."""

    offset: int
    """Position in the file from which these packets can be read."""
    packets: int
    first_ns: int
    """Smallest time; NOT_A_TIME if one is missing."""
    last_ns: int


class Chunks:
    """The segments of one capture point, in chunks; the facts of its files are updated with each chunk.

    Parameters and errors are those of `read_capture`, and

    Parameters
    ----------
    rows : float
        Number of segments from which a chunk is returned; it may be changed between two chunks.
    stop : callable, optional
        Called from time to time; when it returns True, reading stops as at the end of the input.
    ranges : sequence of (int, int), optional
        Byte ranges to read of one uncompressed file; the first one must hold its header.
    reads_ahead, unpacks_ahead : bool
        Whether a thread finds the next records while a chunk is decoded, and another one reads and unpacks
        what comes after them; not of pipes, nor if only some packets are read.
    may_be_foreign : bool
        Whether a single file may have the format of a plug-in, which reads it as a whole.
    """

    def __init__(  # noqa: PLR0913  # what a user chose
        self,
        paths: Sequence[PathLike],
        *,
        rows: float = inf,
        max_packets: int | None = None,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
        ranges: Sequence[tuple[int, int]] | None = None,
        reads_ahead: bool = False,
        unpacks_ahead: bool = False,
        may_be_foreign: bool = True,
    ) -> None:
        self.rows = rows
        self.blocks: list[PacketBlock] = []
        """Blocks read so far; only if the format has block positions and all interfaces are in the first block."""
        self._interfaces: int | None = None
        self._ranges, self._reads_ahead, self._unpacks_ahead = ranges, reads_ahead, unpacks_ahead
        self._paths, self._max_packets = paths, max_packets
        self._progress, self._stop = progress, stop
        self._may_be_foreign = may_be_foreign and len(paths) == 1
        self._is_complete = False
        self._decoder = Decoder()
        self._given_flows: Table | None = None
        """The flows that the format of a plug-in returned."""

    def __iter__(self) -> Generator[CaptureTables]:
        """Yield the chunks, at least one; `row` of the side tables counts within a chunk."""
        decoder = Decoder()
        with closing(self._each(decoder)) as each:
            for given in each:
                yield decoder.take() if given is None else given
        if self._given_flows is None:
            decoder.finish_fragments()
            yield decoder.take(is_last=True)

    def complete(self) -> CaptureTables:
        """Return all segments as one chunk; VLAN flows are joined and late fragments are credited."""
        self.rows, self._is_complete = inf, True
        decoder = Decoder()
        with closing(self._each(decoder)) as each:
            for given in each:
                if given is not None:
                    return given
        return decoder.finish()

    def _each(self, decoder: Decoder) -> Generator[CaptureTables | None]:
        """Yield when the decoder has a complete chunk; a format of a plug-in gives its capture instead."""
        self._decoder = decoder
        let_malloc_keep_memory()
        done = 0
        for path in in_order(self._paths):
            read = sum(file.packets for file in decoder.files)
            left = None if self._max_packets is None else self._max_packets - read
            if left == 0 or (self._stop is not None and self._stop()):
                break
            step = None if self._progress is None else self._counted(done)
            with open_stream(path, progress=step, stop=self._stop, ranges=self._ranges) as stream:
                fmt = format_of_capture(stream)
                if fmt.blocks is None:
                    capture = of_plug_in(fmt, stream, alone=self._may_be_foreign)
                    self._given_flows = capture.flows
                    yield capture
                    return
                with closing(self._decoded(fmt, stream, left)) as blocks:
                    for records in blocks:
                        self._note(records)
                        if len(decoder) >= self.rows:
                            yield None
                done += stream.stored_bytes

    def _decoded(self, fmt: Format, stream: InputStream, max_packets: int | None) -> Generator[PacketRecords]:
        """Decode one file; yield each block after it is decoded."""
        assert fmt.blocks is not None
        source = SourceFile(stream.path, fmt.name, compression=stream.compression)
        clock, may_wait = StampFacts(source), max_packets is not None or stream.share_of(0) is None
        reads_ahead, unpacks_ahead = self._reads_ahead and not may_wait, self._unpacks_ahead and not may_wait
        share = stream.share_of if self._is_complete else lambda _: None
        with AheadStream(stream) if unpacks_ahead else nullcontext(stream) as readable:
            records = fmt.blocks(readable, source)
            with closing(ahead(records) if reads_ahead else records) as each:
                yield from decode_blocks(each, source, self._decoder, clock, max_packets=max_packets, share=share)
        note_stream(stream, source)
        if stream.stopped:
            source.stopped = True
            source.damaged = source.damaged if source.lost_ranges else None  # it only ends within a record
        era = clock.era()
        if era is not None and self._is_complete:
            self._decoder.keep_times(*era)
        elif era is not None:
            source.warnings.append(_TIMES_APART)

    @property
    def files(self) -> list[SourceFile]:
        """The facts of the files read so far."""
        return self._decoder.files

    @property
    def may_hold_duplicates(self) -> bool:
        """Whether packets seem to be captured more than once; only all segments together show which they are."""
        return self._decoder.may_hold_duplicates

    def keep_flows(self, kept: Numbers) -> tuple[Table, Numbers, Numbers]:
        """Remove all flows except these (int64, ascending); return FLOWS, these, and their new numbers."""
        if self._given_flows is not None:
            return self._given_flows, kept, kept
        flows, number = self._decoder.keep_flows(kept)
        return flows, kept, number

    def flows(self) -> tuple[Table, Numbers]:
        """Return FLOWS by first packet after all was read, and the row in it of each earlier number."""
        return self._decoder.flows_in_order()

    def _note(self, records: PacketRecords) -> None:
        interfaces = sum(len(file.interfaces) for file in self._decoder.files)
        self._interfaces = interfaces if self._interfaces is None else self._interfaces
        if records.offset is not None and interfaces == self._interfaces:
            begin_ns, end_ns = int(records.time_ns.min()), int(records.time_ns.max())
            self.blocks.append(PacketBlock(records.offset, len(records), begin_ns, end_ns))

    def _counted(self, done: int) -> Callable[[int], None]:
        progress = self._progress
        return lambda stored_bytes: None if progress is None else progress(done + stored_bytes)


# --- the order of files ---


def in_order(paths: Sequence[PathLike]) -> Sequence[PathLike]:
    """Return the files by the time of their first packet; those without one, and pipes, keep their place.

    A long capture is written as several files: by tcpdump (-C, -G, -W) as trace.pcap, trace.pcap1 … or with
    a time in the name, by dumpcap (-b) as trace_00001_20261120101500.pcapng. A ring buffer overwrites the
    oldest file, so names and numbers do not show the order; the time of the first packet does.
    """
    if len(paths) < 2 or not all(Path(path).is_file() for path in paths):
        return paths  # what can be read only once is read in the order given
    times = {path: first_packet_ns(path) for path in paths}
    timed = iter(sorted((p for p in paths if times[p] is not None), key=lambda p: times[p] or 0))
    return [path if times[path] is None else next(timed) for path in paths]


# --- one file, by the native kernel ---


def complete_capture(native: Kernel, path: str, progress: Progress | None) -> CaptureTables | None:
    """Return the capture of one file, read by the kernel.

    The result is None if the file is not a capture, or if Python must read it.

    Parameters
    ----------
    native : Kernel
    path : str
    progress : callable, optional
        As for `read_capture`.
    """

    def look(complete: Whole) -> None:
        if progress is not None:
            progress(complete.stored_bytes)

    with reading(path):
        complete = complete_file(native, path, limits=None, look=look)
        if complete is not None and progress is not None:
            progress(Path(path).stat().st_size)
        return None if complete is None else _capture(complete)


def _capture(complete: Whole) -> CaptureTables:
    flows, number = complete.flows()
    ((_, time_ns, part),) = complete.file.kept()
    columns, flow = part["segments"], part["segments"]["flow"]
    if not np.array_equal(number, np.arange(len(number))):  # IPv4 and IPv6 are numbered apart
        columns["flow"] = number.astype(np.int32)[flow >> 1] << 1 | flow & 1
    return of_kernel(time_ns, part, CaptureTables([complete.source], flows=flows))


def read_flow(native: Kernel, before: CaptureTables, flow: int, *, rows: int) -> CaptureTables | None:
    """Return the segments of a flow; None if the kernel alone cannot find all of them again.

    Parameters
    ----------
    native : Kernel
    before : CaptureTables
        The first reading of the file: its facts and flows, none of them in a VLAN.
    flow : int
        Its row in the flows.
    rows : int
        Number of segments of the flow.
    """
    file, flows = before.files[0], before.flows
    if OVERWRITTEN in (file.variant or ""):
        return None
    a, b = ((flows[f"address_{side}"][flow].tobytes(), int(flows[f"port_{side}"][flow])) for side in "ab")
    only = int(flows["ip_version"][flow]), a, b
    with reading(file.path):
        complete = complete_file(native, file.path, limits=None, look=lambda _: None, only=only)
    if complete is None:
        return None
    ((_, time_ns, part),) = complete.file.kept()
    part["segments"]["flow"] += np.int32(2 * flow)
    capture = of_kernel(time_ns, part, before)
    if len(time_ns) > rows:  # packets that came since
        capture = capture.where(np.arange(len(time_ns)) < rows)
    return capture if len(time_ns) >= rows else None


_MIN_PACKET_BYTES = 64
"""A packet in a capture, with its header: less than that of an Ethernet frame without payload. Not a bound."""
_MAX_COMPRESSION = 20
"""Compressed captures expand at most about so much, if they are no bombs."""
_BASE_BYTES = 100_000_000
"""Memory of a process that has read a small capture."""


def check_memory(paths: Sequence[PathLike], packet_bytes: int, max_packets: int | None = None) -> None:
    """Check that captures fit into the memory, before they are read.

    Parameters
    ----------
    paths : sequence of path
    packet_bytes : int
        Memory that is needed for each packet, in bytes.
    max_packets : int, optional
        Number of packets that are read of the captures at most.

    Raises
    ------
    InputError
        If more memory is needed than may be used.
    """
    usable = usable_memory_bytes()
    files = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113  # a name may hold NUL
    stored = sum(os.stat(path).st_size for path in files)  # noqa: PTH116
    if usable is None or stored * _MAX_COMPRESSION // _MIN_PACKET_BYTES * packet_bytes <= usable - _BASE_BYTES:
        return  # no header has to be read
    packets = packets_about(files, max_packets)
    if (needed := _BASE_BYTES + packets * packet_bytes) > usable:
        raise InputError(
            f"{files[0]}: some {count(round(packets, 1 - len(str(packets))), 'packet')} need about {size(needed)} of "
            f"memory, but {size(usable)} may be used; read fewer with --max-packets N, raise --max-memory, or "
            "use analyze --stream"
        )


def packets_about(paths: Sequence[PathLike], max_packets: int | None = None) -> int:
    """Return about how many packets captures have, by the headers of their first blocks; none of what cannot be read.

    Parameters
    ----------
    paths : sequence of path
        Regular files.
    max_packets : int, optional
        Number of packets that are read of the captures at most.
    """
    packets = sum(map(_in_file, paths))
    return packets if max_packets is None else min(packets, max_packets)


def _in_file(path: PathLike) -> int:
    with suppress(MultiTracerError, OSError), open_stream(path) as stream:
        fmt = format_of_capture(stream)
        if fmt.blocks is not None:
            with closing(fmt.blocks(stream, SourceFile(stream.path, fmt.name))) as blocks:
                for records in blocks:
                    return len(records) * os.stat(path).st_size // max(stream.stored_bytes, 1)  # noqa: PTH116
    return 0


def is_plain(path: PathLike) -> bool:
    """Return whether a file is uncompressed, so that it can be read twice at low cost.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    with open_stream(path) as stream:
        return stream.compression is None
