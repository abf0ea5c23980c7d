"""Reads files: recognises each by its content and hands it to its format."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from multitracer.capture import CaptureTables
from multitracer.errors import InputError, PluginError
from parsers import pcap
from parsers._stream import InputStream, has_map, open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

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


def _format(path: Path, stream: InputStream) -> Format:
    if not has_map(path):
        return format_of_capture(stream)
    from parsers._registry import formats  # noqa: PLC0415  # a capture needs no other format

    return next(fmt for fmt in formats() if fmt.name == "mapped-csv")


def read(path: Path) -> tuple[Format, Parsed]:
    """Return the format of a log and its parsed content.

    Raises
    ------
    InputError, UnknownFormatError
        As `detect`.
    FormatError
        If it has no readable record.
    """
    with open_stream(path) as stream:
        fmt = _format(path, stream)
        return fmt, fmt.parse(io.BufferedReader(stream), path=stream.path)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the complete lines of a text log, without their ends; an incomplete last line is left out.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    from parsers._text.lines import LogLines  # noqa: PLC0415  no capture needs it

    with open_stream(path) as stream:
        yield from LogLines(io.BufferedReader(stream))


def format_of_capture(stream: InputStream) -> Format:
    """Return the result of `recognise`; where a magic number decides, without importing other formats."""
    head = stream.peek_head()
    if pcap.sniff(head) == "yes":
        return pcap.FORMAT
    from parsers._pcapng.blocks import is_pcapng  # noqa: PLC0415  # a pcap file needs it not

    if is_pcapng(head):
        from parsers import pcapng  # noqa: PLC0415  # as above

        return pcapng.FORMAT
    from parsers._registry import recognise  # noqa: PLC0415  # a capture needs no other format

    return recognise(head, path=stream.path)


def of_plug_in(fmt: Format, stream: InputStream, *, alone: bool) -> CaptureTables:
    """Return the capture that the format of a plug-in reads.

    Raises
    ------
    InputError
        If it is not a capture, or is one of several files.
    PluginError
        If the plug-in violates the contract of formats.
    """
    if fmt.layer != "packet":
        raise InputError(f"{stream.path}: this is {fmt.name} ({fmt.description}), not a packet capture; name a capture")
    if not alone:
        raise InputError(f"{stream.path}: {fmt.name} cannot be read together with other files; name only this file")
    capture = fmt.parse(io.BufferedReader(stream), path=stream.path)
    if not isinstance(capture, CaptureTables):
        raise PluginError(
            f"format {fmt.name}: the plug-in returns no Capture, although its layer is packet; update the plug-in"
        )
    return capture
