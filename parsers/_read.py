"""Reads files: recognises each by its content and hands it to its format."""

from __future__ import annotations

import io
import os
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from multitracer.capture import Capture
from multitracer.captured import SourceFile
from multitracer.errors import InputError, PluginError
from multitracer.native import kernel
from parsers import pcap
from parsers._capture.ahead import AheadStream, ahead
from parsers._capture.capture_file import decode_file
from parsers._fileset import in_order
from parsers._memory import let_malloc_keep_memory
from parsers._packets.decode import Decoder
from parsers._pcapng.blocks import is_pcapng
from parsers._registry import formats, recognise
from parsers._stream import Stream, note_stream, open_stream
from parsers._text.sidecar import has_map
from parsers._whole_capture import whole_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from parsers._format import Format, Parsed

    Path = str | os.PathLike[str]
    Progress = Callable[[int], None]


def detect(path: Path) -> Format:
    """Return the format of a file.

    Raises
    ------
    InputError
        If it cannot be read.
    UnknownFormatError
        If no format claims it, or several do.
    """
    with open_stream(path) as stream:
        return _format(path, stream)


def _format(path: Path, stream: Stream) -> Format:
    if has_map(path):
        return next(fmt for fmt in formats() if fmt.name == "mapped-csv")  # loads what a capture needs not
    return format_of_capture(stream)


def read(path: Path) -> tuple[Format, Parsed]:
    """Return the format of a log and what it holds.

    Raises
    ------
    InputError, UnknownFormatError
        As `detect`.
    FormatError
        If nothing in it can be read.
    """
    with open_stream(path) as stream:
        fmt = _format(path, stream)
        return fmt, fmt.parse(io.BufferedReader(stream), path=stream.path)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the whole lines of a text log, without their ends; a last line that was cut is left out.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    from parsers._text.lines import Lines  # noqa: PLC0415  no capture needs it

    with open_stream(path) as stream:
        yield from Lines(io.BufferedReader(stream))


def read_capture(
    paths: Sequence[Path],
    *,
    max_packets: int | None = None,
    progress: Progress | None = None,
    alone: bool = True,
) -> Capture:
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
        Whether no other capture is read at the same time, so that one thread more is of use.

    Raises
    ------
    InputError
        If a file cannot be read, or is a log but not a capture.
    UnknownFormatError
        If no format claims a file.
    FormatError
        If nothing in a file can be read.
    """
    let_malloc_keep_memory()
    if len(paths) == 1 and max_packets is None and (capture := _by_kernel(paths[0], progress)) is not None:
        return capture
    decoder = Decoder()
    done = 0
    for path in in_order(paths, first_packet_ns):
        left = None if max_packets is None else max_packets - sum(f.packets for f in decoder.files)
        if left == 0:
            break
        step = None if progress is None else (lambda n, before=done: progress(before + n))
        with open_stream(path, progress=step) as stream:
            fmt = format_of_capture(stream)
            if fmt.blocks is None:
                return of_plug_in(fmt, stream, alone=len(paths) == 1)
            _read_one(fmt, stream, decoder, left, alone=alone)
            done += stream.stored_bytes
    return decoder.finish()


def _by_kernel(path: Path, progress: Progress | None) -> Capture | None:
    """Return the capture in one file if the native kernel can read it by itself."""
    native = kernel()
    return None if native is None else whole_capture(native, os.fspath(path), progress)


def first_packet_ns(path: Path) -> int | None:
    """Return the time of a capture's first packet in ns since 1970; None if it has none, or none with a time.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    decoder = Decoder()
    with open_stream(path) as stream:
        fmt = format_of_capture(stream)
        if fmt.blocks is None:
            return of_plug_in(fmt, stream, alone=False).files[0].first_ns
        _read_one(fmt, stream, decoder, 1, alone=False)
    return decoder.files[0].first_ns


def format_of_capture(stream: Stream) -> Format:
    """Return the result of `recognise`; where a magic number decides, without importing other formats."""
    head = stream.peek_head()
    if pcap.sniff(head) == "yes":
        return pcap.FORMAT
    if is_pcapng(head):
        from parsers import pcapng  # noqa: PLC0415  # a pcap file needs it not

        return pcapng.FORMAT
    return recognise(head, path=stream.path)


def of_plug_in(fmt: Format, stream: Stream, *, alone: bool) -> Capture:
    """Return the capture that a format of another package finds.

    Raises
    ------
    InputError
        If it is no capture, or one of several files.
    PluginError
        If the package is not right.
    """
    if fmt.layer != "packet":
        raise InputError(f"{stream.path}: this is {fmt.name} ({fmt.description}), not a packet capture")
    if not alone:
        raise InputError(f"{stream.path}: {fmt.name} cannot be one of several files; name it alone")
    capture = fmt.parse(io.BufferedReader(stream), path=stream.path)
    if not isinstance(capture, Capture):
        raise PluginError(f"format {fmt.name}: gives no Capture though its layer is packet; update it")
    return capture


def _read_one(fmt: Format, stream: Stream, decoder: Decoder, max_packets: int | None, *, alone: bool) -> None:
    assert fmt.blocks is not None
    source = SourceFile(stream.path, fmt.name, compression=stream.compression)
    may_wait = max_packets is not None or stream.share_of(0) is None
    decodes_soon = alone and kernel() is not None  # before the next records are read and found
    with AheadStream(stream) if decodes_soon and not may_wait else nullcontext(stream) as readable:
        blocks = fmt.blocks(readable, source)
        with closing(blocks if may_wait else ahead(blocks)) as each:
            decode_file(each, source, decoder, max_packets=max_packets, share=stream.share_of)
    note_stream(stream, source)
