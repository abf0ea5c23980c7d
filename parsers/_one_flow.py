"""Reads the segments of one flow out of a capture that was read before, by the native kernel."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from multitracer.capture import Capture, of_kernel
from multitracer.captured import SourceFile
from multitracer.native import reading
from parsers._capture.ahead import ahead
from parsers._packets.decode import OVERWRITTEN
from parsers._packets.kernel import record_columns
from parsers._read import format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    import os

    from multitracer.native import Kernel

    Path = str | os.PathLike[str]


def is_plain(path: Path) -> bool:
    """Return whether a file is not compressed: to read it twice costs little.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    with open_stream(path) as stream:
        return stream.compression is None


def read_flow(native: Kernel, before: Capture, flow: int, *, rows: int) -> Capture | None:
    """Return the segments of a flow; None if the kernel alone does not find all of them again.

    Parameters
    ----------
    native : Kernel
    before : Capture
        What reading the one file told: its facts and its flows, none of them in a VLAN.
    flow : int
        Its row in the flows.
    rows : int
        How many segments it has.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    file, flows = before.files[0], before.flows
    if OVERWRITTEN in (file.variant or ""):
        return None
    a, b = ((flows[f"address_{side}"][flow].tobytes(), int(flows[f"port_{side}"][flow])) for side in "ab")
    decoder = native.FlowDecoder(int(flows["ip_version"][flow]), a, b, rows)
    with open_stream(file.path) as stream:
        fmt = format_of_capture(stream)
        if fmt.blocks is None:
            return None
        frame = 1
        with (
            reading(stream.path),
            closing(ahead(fmt.blocks(stream, SourceFile(file.path, fmt.name)))) as each,
        ):
            for records in each:
                time_ns = np.ascontiguousarray(records.time_ns)
                decoder.add(records.data, *record_columns(records), time_ns, frame)
                frame += len(records)
    capture = of_kernel(*decoder.finish(), before)
    capture.segments.columns["flow"] += np.int32(2 * flow)
    return capture if len(capture.segments) == rows else None
