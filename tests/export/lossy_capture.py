"""A capture at the sender of a short transfer: one loss, its repair, a window that closes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, Segment, handshake

if TYPE_CHECKING:
    from pathlib import Path


def lossy(tmp_path: Path) -> Path:
    """Return a capture in which one segment is lost, sent again, and the window closes."""
    segments = [*handshake(), *(Segment(0, 1001 + 100 * i, 100, ACK, 5001) for i in range(5))]
    segments += [Segment(1, 5001, 0, ACK, 1101, sack=((1201, 1201 + n),) if n else ()) for n in range(0, 400, 100)]
    segments += [Segment(0, 1101, 100, ACK, 5001), Segment(1, 5001, 0, ACK, 1501)]
    segments.append(Segment(1, 5001, 0, ACK, 1501, window=0))
    ms = [0, 60, 60, 61, 61, 61, 61, 61, 121, 121, 121, 121, 121, 181, 190]
    timed = [replace(each, time_ns=START_NS + at * MS) for each, at in zip(segments, ms, strict=True)]
    return write_pcap(tmp_path / "lossy.pcap", timed)
