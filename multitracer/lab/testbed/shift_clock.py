"""`python -m multitracer.lab.testbed.shift_clock` shifts the clock of a log.

It copies a collector's log from standard input to a file, and adds the error of the host's clock to every time stamp.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from multitracer.lab.scenario.model import ClockSetting
    from multitracer.schemas.schema import Document

# An error of the fixed host's clock, applied to its logs while they are written.
#
# All hosts of a run share one kernel and its clocks. What a scenario says in `[clock]` is therefore added to
# every time stamp of the fixed host before it reaches a file.


_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockShift:
    """Difference of a host's clocks from the kernel's clocks.

    Parameters
    ----------
    offset_ns : int
        Lead of CLOCK_REALTIME at the origin.
    skew_ppm : float
        Skew of both clocks; positive if they run faster than the kernel's.
    origin_realtime_ns, origin_monotonic_ns : int
        Start of the skew, in both of the kernel's clocks.
    """

    offset_ns: int = 0
    skew_ppm: float = 0.0
    origin_realtime_ns: int = 0
    origin_monotonic_ns: int = 0

    @classmethod
    def from_now(cls, clock: ClockSetting) -> ClockShift:
        """Return the clock error that a scenario sets, with its origin now."""
        offset_ns = round(clock.offset_s * NS_PER_S)
        return cls(offset_ns, clock.skew_ppm, time.time_ns(), time.monotonic_ns())

    def __bool__(self) -> bool:
        return bool(self.offset_ns or self.skew_ppm)

    def realtime_ns(self, time_ns: int) -> int:
        """Return the host's CLOCK_REALTIME at the time `time_ns` of the kernel's clock."""
        return time_ns + self.offset_ns + self._gained_ns(time_ns - self.origin_realtime_ns)

    def monotonic_ns(self, time_ns: int) -> int:
        """Return the host's CLOCK_MONOTONIC at the time `time_ns` of the kernel's clock."""
        return time_ns + self._gained_ns(time_ns - self.origin_monotonic_ns)

    def _gained_ns(self, elapsed_ns: int) -> int:
        return round(elapsed_ns * self.skew_ppm / _PPM)


_PCAP_HEADER, _RECORD = 24, struct.Struct("=IIII")
_MONOTONIC_KEYS = {
    "read_before_ns", "read_after_ns", "seen_ns", "since_ns", "until_ns", "monotonic_before_ns",
    "monotonic_after_ns",
}  # fmt: skip
_FTRACE_STAMP = re.compile(rb"(\d+)\.(\d{6})(?=: )")
_FTRACE_COMMENT = b"# multitracer "


def pcap(source: BinaryIO, error: ClockShift) -> Iterator[bytes]:
    """Yield the file header and then each record of a nanosecond pcap file, with shifted time stamps."""
    yield source.read(_PCAP_HEADER)
    while len(header := source.read(_RECORD.size)) == _RECORD.size:
        seconds, rest, kept, length = _RECORD.unpack(header)
        seconds, rest = divmod(error.realtime_ns(seconds * NS_PER_S + rest), NS_PER_S)
        yield _RECORD.pack(seconds, rest, kept, length) + source.read(kept)


def json_lines(source: BinaryIO, error: ClockShift) -> Iterator[bytes]:
    """Yield the shifted lines of a log of JSON objects."""
    for line in source:
        yield json.dumps(_shifted(json.loads(line), error), separators=(",", ":")).encode() + b"\n"


def _shifted(record: Document, error: ClockShift) -> Document:
    times = {key: error.monotonic_ns(record[key]) for key in record.keys() & _MONOTONIC_KEYS}
    if "realtime_ns" in record:
        times["realtime_ns"] = error.realtime_ns(record["realtime_ns"])
    return record | times


def ftrace(source: BinaryIO, error: ClockShift) -> Iterator[bytes]:
    """Yield the shifted lines of a log of the kernel's tracing."""
    for line in source:
        if line.startswith(_FTRACE_COMMENT):
            record = _shifted(json.loads(line.removeprefix(_FTRACE_COMMENT)), error)
            yield _FTRACE_COMMENT + json.dumps(record, separators=(",", ":")).encode() + b"\n"
        else:
            yield _FTRACE_STAMP.sub(lambda match: _stamp(match, error), line, count=1)


def _stamp(match: re.Match[bytes], error: ClockShift) -> bytes:
    time_ns = int(match[1]) * NS_PER_S + int(match[2]) * NS_PER_US
    seconds, rest = divmod(error.monotonic_ns(time_ns), NS_PER_S)
    return b"%d.%06d" % (seconds, rest // NS_PER_US)


FORMATS: dict[str, Callable[[BinaryIO, ClockShift], Iterator[bytes]]] = {
    "pcap": pcap,
    "jsonl": json_lines,
    "ftrace": ftrace,
}


def main() -> None:
    """Copy and shift until the input ends."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--format", choices=FORMATS, required=True)
    options.add_argument("--offset-ns", type=int, required=True)
    options.add_argument("--skew-ppm", type=float, required=True)
    options.add_argument("--origin-realtime-ns", type=int, required=True)
    options.add_argument("--origin-monotonic-ns", type=int, required=True)
    options.add_argument("--only-of", default="", metavar="ADDRESS", help="of ftrace, this host's sockets")
    options.add_argument("-o", "--output", required=True)
    chosen = options.parse_args()
    error = ClockShift(chosen.offset_ns, chosen.skew_ppm, chosen.origin_realtime_ns, chosen.origin_monotonic_ns)
    wanted = re.compile(rb"\b(?:src=|saddr=)" + re.escape(chosen.only_of.encode()) + rb"[: ]|^" + _FTRACE_COMMENT)
    with open(chosen.output, "xb", buffering=0) as log:  # noqa: PTH123  # a name from the command line
        for part in FORMATS[chosen.format](sys.stdin.buffer, error):
            if not chosen.only_of or wanted.search(part):
                log.write(part)


if __name__ == "__main__":
    main()
