"""All segments of one capture file that the native kernel reads by itself, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multitracer.capture import Capture
from multitracer.native import reading
from multitracer.tables import SACK_BLOCKS, SEGMENTS, SYN_OPTIONS, Table
from parsers._whole import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.native import Kernel
    from parsers._whole import Whole


def whole_capture(native: Kernel, path: str, progress: Callable[[int], None] | None) -> Capture | None:
    """Return what `read_capture` does of one file; None if it is no capture, or Python has to read it.

    Parameters
    ----------
    native : Kernel
    path : str
    progress : callable, optional
        As for `read_capture`.
    """

    def look(whole: Whole) -> None:
        if progress is not None:
            progress(whole.stored_bytes)

    with reading(path):
        whole = whole_file(native, path, limits=None, look=look)
        if whole is not None and progress is not None:
            progress(Path(path).stat().st_size)
        return None if whole is None else _capture(whole)


def _capture(whole: Whole) -> Capture:
    flows, number = whole.flows()
    ((_, time_ns, part),) = whole.file.kept()
    columns, flow = part["segments"], part["segments"]["flow"]
    if not np.array_equal(number, np.arange(len(number))):  # IPv4 and IPv6 are numbered apart
        columns["flow"] = number.astype(np.int32)[flow >> 1] << 1 | flow & 1
    columns |= {
        "time_ns": time_ns,
        "frame": part["record"].astype(np.uint32),
        "file": np.zeros(len(time_ns), np.uint16),
    }
    sides = Table(SACK_BLOCKS, part["sack_blocks"]), Table(SYN_OPTIONS, part["syn_options"])
    return Capture([whole.source], Table(SEGMENTS, columns), flows, *sides)
