"""Puts the files of one capture in order.

A long capture is written as several files: by tcpdump (-C, -G, -W) as trace.pcap, trace.pcap1 … or with a
time in the name, by dumpcap (-b) as trace_00001_20261120101500.pcapng. A ring buffer overwrites the oldest,
so neither names nor numbers tell the order, but the first packet of each file does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence


def in_order(
    paths: Sequence[str | os.PathLike[str]], first_packet_ns: Callable[[str | os.PathLike[str]], int | None]
) -> list[str | os.PathLike[str]]:
    """Return the files by the time of their first packet; those without one, and pipes, keep their place.

    Parameters
    ----------
    first_packet_ns : callable
        Returns the time of a file's first packet, or None.
    """
    if len(paths) < 2 or not all(Path(path).is_file() for path in paths):
        return list(paths)  # what can be read only once is read in the order given
    times = {path: first_packet_ns(path) for path in paths}
    timed = iter(sorted((p for p in paths if times[p] is not None), key=lambda p: times[p] or 0))
    return [path if times[path] is None else next(timed) for path in paths]
